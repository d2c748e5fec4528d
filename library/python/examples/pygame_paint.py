"""A canvas on which all viewers paint together: pygame draws without a window.

    pip install pygame-ce
    python pygame_paint.py

Hold a button, or touch. Keys 1 to 6 choose a colour, C clears the canvas, the wheel changes the brush.
"""

from __future__ import annotations

import argparse
import math
import os

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

import pygame

import nearlight

SIZE = (1280, 720)
COLOURS = ["#e63946", "#f4a261", "#e9c46a", "#2a9d8f", "#457b9d", "#f1faee"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="ends after so long")
    arguments = parser.parse_args()
    pygame.display.init()
    canvas, shown = pygame.Surface(SIZE, depth=32), pygame.Surface(SIZE, depth=32)
    canvas.fill("#1d3557")
    clock = pygame.time.Clock()
    colours: dict[int, str] = {}
    brush = 12.0
    before: dict[tuple[int, int], tuple[float, float]] = {}

    def place(x: float, y: float) -> tuple[float, float]:
        return x * SIZE[0], y * SIZE[1]

    with nearlight.serve(name="a canvas", width=SIZE[0], height=SIZE[1], fps=30, port=arguments.port) as server:
        print(server.qr_code(), *server.links, sep="\n", flush=True)
        while server.now() < arguments.seconds:
            for event in server.events():
                match event:
                    case nearlight.Key(code=code, pressed=True) if code.startswith("Digit") and code[5:] in "123456":
                        colours[event.viewer] = COLOURS[int(code[5:]) - 1]
                    case nearlight.Key(code="KeyC", pressed=True):
                        canvas.fill("#1d3557")
                    case nearlight.Wheel(dy=dy):
                        brush = max(2.0, min(80.0, brush - dy / 40))
            viewers = server.viewers()
            now: dict[tuple[int, int], tuple[float, float]] = {}
            for viewer in viewers:
                if viewer.pointer and "left" in viewer.pointer.buttons:
                    now[viewer.id, -1] = place(viewer.pointer.x, viewer.pointer.y)
                now |= {(viewer.id, touch.id): place(touch.x, touch.y) for touch in viewer.touches}
            for who, there in now.items():
                colour = colours.get(who[0], COLOURS[who[0] % len(COLOURS)])
                pygame.draw.line(canvas, colour, before.get(who, there), there, max(1, int(brush * 2)))
                pygame.draw.circle(canvas, colour, there, brush)
            before = now
            shown.blit(canvas, (0, 0))
            for viewer in viewers:
                if viewer.pointer:
                    pygame.draw.circle(shown, "white", place(viewer.pointer.x, viewer.pointer.y), brush + 2, 2)
            # A surface of 32 bits has blue first in memory, and is read without a copy.
            server.submit(shown.get_buffer(), order="bgra", size=SIZE, stride=shown.get_pitch())
            clock.tick(30)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
