"""A viewer watches and steers the robot's camera of the examples."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

import nearlight

from .support import LONG, until

EXAMPLES = Path(__file__).parent.parent / "examples"


class Examples(unittest.TestCase):
    def test_the_robot_drives_where_it_is_steered(self) -> None:
        process = subprocess.Popen([sys.executable, EXAMPLES / "robot_camera.py"], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            link = next(line.strip() for line in process.stdout if re.match("https?://", line))
            with nearlight.view(link) as viewer:

                def place() -> dict[str, float] | None:
                    viewer.poll_picture()
                    told = [event.data for event in viewer.events(0.05) if isinstance(event, nearlight.Message)]
                    return json.loads(told[-1]) if told else None

                first = until("where the robot is", place)
                picture = until("what it sees", lambda: viewer.poll_picture(1.0))
                self.assertGreater(picture.rgb().std(), 20, "not one colour")
                viewer.send_key("KeyW")
                viewer.send_key("KeyA")
                until("it goes", lambda: (now := place()) and now["x"] > first["x"] and now["heading"] < first["heading"])
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(LONG), 0)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
