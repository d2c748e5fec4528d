"""An OpenGL scene for screens and headsets: moderngl draws the viewer's views, and each picture includes the views for which it was drawn.

    pip install moderngl numpy
    python moderngl_scene.py

It needs no window and no GPU: EGL makes the context, and Mesa draws where nothing else does. Keys and pointer move the viewer: the page has them.
"""

from __future__ import annotations

import argparse
import math
import time

import moderngl
import numpy

import nearlight

EYE = (960, 540)
VERTEX = """
#version 330
uniform mat4 matrix;
in vec3 corner;
in vec3 offset;
in vec3 tint;
out vec3 colour;
void main() {
    gl_Position = matrix * vec4(corner * 0.15 + offset, 1.0);
    colour = tint * (0.55 + 0.45 * corner.y);
}
"""
FRAGMENT = """
#version 330
in vec3 colour;
out vec4 pixel;
void main() { pixel = vec4(colour, 1.0); }
"""


def projection(fov: nearlight.Fov, near: float = 0.05, far: float = 100.0) -> numpy.ndarray:
    """Returns OpenGL's projection matrix of a field of view with these tangents."""
    across, along = fov.right - fov.left, fov.up - fov.down
    return numpy.array(
        [
            [2 / across, 0, (fov.right + fov.left) / across, 0],
            [0, 2 / along, (fov.up + fov.down) / along, 0],
            [0, 0, -(far + near) / (far - near), -2 * far * near / (far - near)],
            [0, 0, -1, 0],
        ]
    )


def world_to_eye(pose: nearlight.Pose) -> numpy.ndarray:
    """Returns the inverse of the eye's pose as a matrix."""
    x, y, z, w = pose.orientation
    turn = numpy.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    matrix = numpy.eye(4)
    matrix[:3, :3] = turn.T
    matrix[:3, 3] = -turn.T @ numpy.array(pose.position)
    return matrix


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="ends after so long")
    arguments = parser.parse_args()
    context = moderngl.create_standalone_context(backend="egl")
    print("drawn by", context.info["GL_RENDERER"], flush=True)
    program = context.program(vertex_shader=VERTEX, fragment_shader=FRAGMENT)
    corners = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    triangles = [corners[face[index]] for face in faces for index in (0, 1, 2, 0, 2, 3)]
    cube = context.buffer(numpy.array(triangles, dtype="f4").tobytes())
    count = 60
    random = numpy.random.default_rng(7)
    tints = random.uniform(0.3, 1.0, (count, 3)).astype("f4")
    places = context.buffer(reserve=count * 12)
    scene = context.vertex_array(
        program, [(cube, "3f", "corner"), (places, "3f/i", "offset"), (context.buffer(tints.tobytes()), "3f/i", "tint")]
    )
    frame = context.simple_framebuffer((2 * EYE[0], EYE[1]), components=4)
    context.enable(moderngl.DEPTH_TEST)
    pixels = bytearray(2 * EYE[0] * EYE[1] * 4)
    usual = nearlight.View(nearlight.Pose((0.0, 1.6, 0.0)), nearlight.Fov.symmetric(60, EYE[0] / EYE[1]))
    turns = numpy.arange(count) * 2.399
    with nearlight.serve(name="moderngl", width=EYE[0], height=EYE[1], fps=30, port=arguments.port) as server:
        print(server.qr_code(), *server.links, sep="\n", flush=True)
        while server.now() < arguments.seconds:
            began = server.now()
            list(server.events())
            driver = server.driver()
            views = driver.views if driver and driver.views else (usual,)
            angle = turns + began * 0.3
            circle = numpy.stack([numpy.cos(angle), numpy.zeros(count), numpy.sin(angle)], axis=1) * (2 + turns[:, None] / 50)
            circle[:, 1] = 1.4 + numpy.sin(angle * 3)
            places.write(circle.astype("f4").tobytes())
            frame.use()
            frame.clear(0.05, 0.07, 0.12)
            for eye, view in enumerate(views):
                context.viewport = (eye * EYE[0], 0, *EYE)
                program["matrix"].write((projection(view.fov) @ world_to_eye(view.pose)).T.astype("f4").tobytes())
                scene.render(instances=count)
            width = EYE[0] * len(views)
            frame.read_into(pixels, viewport=(0, 0, width, EYE[1]), components=4)
            server.submit(
                pixels,
                order="rgba",
                size=(width, EYE[1]),
                rows="bottom-up",
                layout="side-by-side" if len(views) == 2 else "mono",
                views=views,
                captured_at=began,
            )
            time.sleep(max(0.0, began + 1 / 30 - server.now()))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
