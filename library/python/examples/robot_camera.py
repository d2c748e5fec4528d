"""The camera of a simulated robot. The page steers the robot by the keys WASD, the arrow keys or a gamepad's left stick; the wheel tilts the camera.

    pip install numpy
    python robot_camera.py

The robot drives in a walled yard. When it hits something, the gamepad vibrates. The picture's corner has a plan with the range finder's
measurements. Messages report the robot's position to viewers (`message` events of window.nearlight in the page, or Viewer.events()).
"""

from __future__ import annotations

import argparse
import json
import math
import time

import numpy

import nearlight

YARD = """
####################
#..................#
#..a........c......#
#..........cc......#
#.....b............#
#.....b.......aa...#
#.....bbb.....aa...#
#..................#
#...c........b.....#
#..................#
####################
"""
#: Colours of the walls by their letters.
PAINT = {"#": (150, 140, 130), "a": (200, 80, 60), "b": (60, 140, 200), "c": (90, 170, 80)}
FLOOR, SKY = (70, 75, 70), (150, 180, 210)
FOV = math.radians(75)
#: Speeds in metres and radians a second.
SPEED, TURN = 2.5, 2.0
RADIUS = 0.25


def read_yard(text: str) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Returns which cells are walls, and their colours."""
    rows = text.strip().splitlines()
    walls = numpy.array([[cell != "." for cell in row] for row in rows])
    paint = numpy.array([[PAINT.get(cell, FLOOR) for cell in row] for row in rows], dtype=numpy.float32)
    return walls, paint


class Robot:
    """The pose and movement of the robot."""

    def __init__(self, walls: numpy.ndarray) -> None:
        self.walls = walls
        self.x, self.y, self.heading, self.tilt = 2.5, 7.5, 0.0, 0.0
        self.hit = False

    def drive(self, forward: float, turn: float, seconds: float) -> None:
        """Moves the robot for this time, but not through walls."""
        self.heading += turn * TURN * seconds
        step = forward * SPEED * seconds
        x, y = self.x + math.cos(self.heading) * step, self.y + math.sin(self.heading) * step
        free = lambda x, y: not any(  # noqa: E731
            self.walls[int(y + dy), int(x + dx)] for dx in (-RADIUS, RADIUS) for dy in (-RADIUS, RADIUS)
        )
        self.hit = not free(x, y)
        if free(x, self.y):
            self.x = x
        if free(self.x, y):
            self.y = y


class Camera:
    """Draws the robot's view: one ray for each column, cell by cell until it hits a wall."""

    def __init__(self, width: int, height: int, walls: numpy.ndarray, paint: numpy.ndarray) -> None:
        self.walls, self.paint = walls, paint
        self.focal = width / 2 / math.tan(FOV / 2)
        self.across = numpy.arctan((numpy.arange(width) - width / 2 + 0.5) / self.focal)
        self.rows = numpy.arange(height, dtype=numpy.float32)[:, None]
        self.picture = numpy.empty((height, width, 3), dtype=numpy.uint8)

    def ranges(self, robot: Robot) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
        """Returns for each column the distance to the wall, the wall's colour, and whether the ray hit its north or south side."""
        angles = robot.heading + self.across
        dx, dy = numpy.cos(angles), numpy.sin(angles)
        cell_x = numpy.full(angles.shape, int(robot.x))
        cell_y = numpy.full(angles.shape, int(robot.y))
        step_x, step_y = numpy.sign(dx).astype(int), numpy.sign(dy).astype(int)
        with numpy.errstate(divide="ignore"):
            across, along = numpy.abs(1 / dx), numpy.abs(1 / dy)
        next_x = numpy.where(dx > 0, cell_x + 1 - robot.x, robot.x - cell_x) * across
        next_y = numpy.where(dy > 0, cell_y + 1 - robot.y, robot.y - cell_y) * along
        side = numpy.zeros(angles.shape, dtype=bool)
        distance = numpy.zeros(angles.shape)
        flying = numpy.ones(angles.shape, dtype=bool)
        while flying.any():
            sideways = flying & (next_x < next_y)
            straight = flying & ~sideways
            distance[sideways], distance[straight] = next_x[sideways], next_y[straight]
            cell_x[sideways] += step_x[sideways]
            cell_y[straight] += step_y[straight]
            next_x[sideways] += across[sideways]
            next_y[straight] += along[straight]
            side[sideways], side[straight] = False, True
            flying &= ~self.walls[cell_y, cell_x]
        return distance, self.paint[cell_y, cell_x], side

    def draw(self, robot: Robot) -> numpy.ndarray:
        distance, colour, side = self.ranges(robot)
        depth = numpy.maximum(distance * numpy.cos(self.across), 0.05).astype(numpy.float32)
        height = self.picture.shape[0]
        horizon = height / 2 + self.focal * math.tan(robot.tilt)
        half = self.focal * 0.5 / depth
        light = numpy.where(side, 0.75, 1.0) / (1 + depth * 0.06)
        wall = colour * light[:, None]
        above, below = self.rows < horizon - half, self.rows > horizon + half
        picture = numpy.where(above[..., None], numpy.float32(SKY), wall[None])
        picture = numpy.where(below[..., None], numpy.float32(FLOOR), picture)
        self.picture[:] = picture
        self.plan(robot, distance)
        return self.picture

    def plan(self, robot: Robot, distance: numpy.ndarray) -> None:
        """Draws the range finder's view from above in the corner."""
        scale = 8
        plan = numpy.kron(self.walls, numpy.ones((scale, scale), dtype=bool))
        corner = self.picture[-12 - plan.shape[0] : -12, 12 : 12 + plan.shape[1]]
        corner[:] = numpy.where(plan[..., None], numpy.uint8(190), corner // 3)
        angles = robot.heading + self.across
        for share in (0.25, 0.5, 0.75, 1.0):
            x = ((robot.x + numpy.cos(angles) * distance * share) * scale).astype(int)
            y = ((robot.y + numpy.sin(angles) * distance * share) * scale).astype(int)
            corner[y.clip(0, plan.shape[0] - 1), x.clip(0, plan.shape[1] - 1)] = (255, 200, 60)
        x, y = int(robot.x * scale), int(robot.y * scale)
        corner[y - 3 : y + 3, x - 3 : x + 3] = (255, 60, 60) if robot.hit else (80, 255, 120)


def wishes(viewer: nearlight.ViewerState | None) -> tuple[float, float]:
    """Returns the requested speeds forward and to the right, -1 to 1."""
    if viewer is None:
        return 0.0, 0.0
    down = lambda *keys: any(key in viewer.keys for key in keys)  # noqa: E731
    forward = down("KeyW", "ArrowUp") - down("KeyS", "ArrowDown")
    turn = down("KeyD", "ArrowRight") - down("KeyA", "ArrowLeft")
    for pad in viewer.gamepads:
        stick = [axis if abs(axis) > 0.15 else 0.0 for axis in pad.axes[:2]]
        if len(stick) == 2:
            forward, turn = forward - stick[1], turn + stick[0]
    return max(-1.0, min(1.0, forward)), max(-1.0, min(1.0, turn))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="ends after so long")
    arguments = parser.parse_args()
    width, height, fps = 960, 540, 30
    walls, paint = read_yard(YARD)
    robot, camera = Robot(walls), Camera(width, height, walls, paint)
    with nearlight.serve(name="a robot's camera", width=width, height=height, fps=fps, port=arguments.port) as server:
        print(server.qr_code(), *server.links, sep="\n", flush=True)
        due = server.now()
        told = 0.0
        while server.now() < arguments.seconds:
            for event in server.events():
                match event:
                    case nearlight.ViewerJoined() | nearlight.ViewerLeft():
                        print(f"{type(event).__name__} {event.viewer}", flush=True)
                    case nearlight.Wheel(dy=dy):
                        robot.tilt = max(-0.4, min(0.4, robot.tilt - dy / 1000))
                    case nearlight.Message(data=b"home"):
                        robot.x, robot.y, robot.heading = 2.5, 7.5, 0.0
            driver = server.driver()
            was_hit = robot.hit
            robot.drive(*wishes(driver), 1 / fps)
            if driver and robot.hit and not was_hit:
                server.haptics(0.15, to=driver.id)
            if server.is_watched:
                server.submit(camera.draw(robot))
            if server.now() > told + 0.2:
                told = server.now()
                place = {"x": round(robot.x, 2), "y": round(robot.y, 2), "heading": round(robot.heading, 3)}
                server.send(json.dumps(place), reliable=False)
            due = max(due + 1 / fps, server.now() - 1 / fps)
            time.sleep(max(0.0, due - server.now()))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
