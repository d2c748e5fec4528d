"""Misuse raises exceptions with a helpful message, and Ctrl-C ends every wait."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import numpy

import nearlight
from nearlight import Controller, Fov, Gamepad, Pose, Touch, View

from .support import HEIGHT, WIDTH, LikePillow, LikeTensor, flat, interrupted, server, stream


class Misuse(unittest.TestCase):
    def refused(self, word: str, call: object, kind: type[Exception] = nearlight.UsageError) -> None:
        with self.subTest(word):
            with self.assertRaises(kind) as caught:
                call()  # type: ignore[operator]
            sentence = str(caught.exception)
            self.assertIn(word, sentence)
            self.assertGreater(len(sentence.split()), 4, sentence)

    def test_options(self) -> None:
        for word, options in [
            ("prot", {"prot": 9000}),
            ("fps", {"fps": 0}),
            ("token", {"token": "short"}),
            ("codec", {"codec": "av7"}),
            ("rate_mbps", {"rate_mbps": -1.0}),
            ("max_clients", {"max_clients": 0}),
            ("width", {"width": "wide"}),
            ("even", {"width": 641}),
            ("recovery", {"recovery": "hope"}),
            ("ethernet_allow", {"ethernet_allow": ["ours"]}),
            ("no-such-one", {"ethernet": ["no-such-one"]}),
            ("options", {"name": object()}),
            ("options", {"rate_mbps": float("nan")}),
        ]:
            if word == "width":
                word = "invalid type"
            if word == "codec":
                word = "variant"
            self.refused(word, lambda options=options: server(**options).close(), nearlight.Error)

    def test_pictures(self) -> None:
        fine = flat((1, 2, 3))
        view = View(Pose(), Fov.symmetric(60, 1.6))
        planes = [numpy.zeros(shape, dtype=numpy.uint8) for shape in [(HEIGHT, WIDTH), (HEIGHT // 2, WIDTH // 2)]]
        short = LikePillow(fine)
        short.__array_interface__["shape"] = (HEIGHT + 2, WIDTH, 3)
        palette = LikePillow(fine[..., 0])
        palette.mode = "P"
        with server() as host:
            for word, call in [
                ("uint8", lambda: host.submit(fine.astype(numpy.float32) / 255)),
                ("even", lambda: host.submit(fine[:191])),
                ("even", lambda: host.submit(fine[:0])),
                ("uint8", lambda: host.submit(fine > 1)),
                ("uint8", lambda: host.submit(fine.astype(numpy.int8))),
                ("uint8", lambda: host.submit(LikePillow(fine[..., 0] > 1, "|b1"))),
                ("uint8", lambda: host.submit(LikeTensor(fine.astype(numpy.int16)))),
                ("uint8", lambda: host.submit(LikeTensor(fine.astype(numpy.float32)))),
                ("tensor.cpu()", lambda: host.submit(LikeTensor(fine, device=2))),
                ("does not have its shape", lambda: host.submit(short)),
                ("convert", lambda: host.submit(palette)),
                ("dimensions", lambda: host.submit(fine[None])),
                ("values", lambda: host.submit(fine[..., :2])),
                ("values", lambda: host.submit(fine, order="bgra")),
                ("ascontiguousarray", lambda: host.submit(fine[:, ::2])),
                ("ascontiguousarray", lambda: host.submit(flat((1, 2, 3, 4))[..., :3])),
                ("ascontiguousarray", lambda: host.submit(fine.transpose(1, 0, 2)[:, :, :])),
                ("needs", lambda: host.submit(b"short", size=(WIDTH, HEIGHT))),
                ("row", lambda: host.submit(fine.tobytes(), size=(WIDTH, HEIGHT), stride=8)),
                ("even", lambda: host.submit(b"", size=(70_000, 2))),
                ("`size`", lambda: host.submit(fine, size=(WIDTH, HEIGHT))),
                ("order", lambda: host.submit(fine, order="grb")),
                ("layout", lambda: host.submit(fine, layout="triple")),
                ("rows", lambda: host.submit(fine, rows="sideways")),
                ("views", lambda: host.submit(fine, views=[view, view, view])),
                ("views", lambda: host.submit(fine, layout="side-by-side", views=[view])),
                ("unit quaternion", lambda: host.submit(fine, pose=Pose(orientation=(0.0, 0.0, 0.0, 0.0)))),
                ("finite", lambda: host.submit(fine, pose=Pose((float("nan"), 0.0, 0.0)))),
                ("`pose`", lambda: host.submit(fine, fov=view.fov)),
                ("planes", lambda: host.submit(planes)),
                ("planes", lambda: host.submit([planes[0]])),
                ("planes", lambda: host.submit([planes[0], planes[1], planes[1]], order="rgb")),
                ("size", lambda: host.submit(fine, right=fine[:100])),
                ("time", lambda: host.submit(fine, captured_at=float("inf"))),
                ("timeout", lambda: host.poll_event(float("nan"))),
                ("5000 ms", lambda: host.haptics(10.0)),
                ("strength", lambda: host.haptics(1.0, strong=3.0)),
                ("hand", lambda: host.haptics(1.0, hand="third")),
                ("bytes", lambda: host.send(b"x" * 20_000)),
                ("number 77", lambda: host.send("x", to=77)),
            ]:
                self.refused(word, call)
            self.refused("`sound`", lambda: host.submit_sound(numpy.zeros(480, dtype=numpy.float32)))
            for call in (
                lambda: host.submit(None),
                lambda: host.submit("picture"),
                lambda: host.submit([1, 2]),
                lambda: host.submit(fine, views=7),
                lambda: host.submit(fine, size="big"),
                lambda: host.poll_event("soon"),
            ):
                self.assertRaises((TypeError, AttributeError, nearlight.UsageError), call)
            host.submit(fine)
            self.assertEqual(host.statistics.submitted, 1, "what was refused does not count")

    def test_sound(self) -> None:
        with server(sound=True) as host:
            quiet = numpy.zeros((480, 2), dtype=numpy.float32)
            for word, call in [
                ("channels", lambda: host.submit_sound(numpy.zeros((480, 3), dtype=numpy.int16))),
                ("channels", lambda: host.submit_sound(numpy.zeros((480, 0), dtype=numpy.int16))),
                ("channels", lambda: host.submit_sound(quiet, channels=2)),
                ("incomplete", lambda: host.submit_sound(quiet.ravel()[:-1], channels=2)),
                ("rate", lambda: host.submit_sound(quiet, rate=7)),
                ("dimensions", lambda: host.submit_sound(quiet[None])),
                ("65536", lambda: host.submit_sound(numpy.zeros(65_537, dtype=numpy.float32))),
            ]:
                self.refused(word, call)
            for call in (
                lambda: host.submit_sound(numpy.zeros(480)),
                lambda: host.submit_sound(b"1234"),
                lambda: host.submit_sound(None),
                lambda: host.submit_sound(quiet, rate=-1),
            ):
                self.assertRaises((TypeError, OverflowError), call)
            host.submit_sound(quiet)
            host.submit_sound(quiet[:0])

    def test_viewer(self) -> None:
        self.refused("link", lambda: nearlight.view("nonsense"))
        with server(token="a-token-for-this-test-only") as host:
            self.refused("options", lambda: nearlight.view(host.link, speed=3))
            self.refused("display", lambda: nearlight.view(host.link, display="wall"))
            self.refused("codecs", lambda: nearlight.view(host.link, codecs=["av7"]))
            wrong = host.link.replace("a-token-for-this-test-only", "another-token-for-this-test")
            self.refused("token", lambda: nearlight.view(wrong), nearlight.RefusedError)
        self.refused("within", lambda: nearlight.view(host.link, connect_timeout=0.2), nearlight.NoServerError)
        with stream() as (_host, viewer):
            for word, call in [
                ("KeyboardEvent.code", lambda: viewer.send_key("W")),
                ("place", lambda: viewer.send_pointer(3.0, 0.0)),
                ("button", lambda: viewer.send_pointer(0.0, 0.0, buttons=["fifth"])),
                ("at most 10", lambda: viewer.send_touches([Touch(number, 0.5, 0.5) for number in range(11)])),
                ("out of range", lambda: viewer.send_gamepads([Gamepad(0, (), (), (7.0,))])),
                ("sent", lambda: viewer.send_gamepads([Gamepad(9)])),
                ("at most 10 buttons", lambda: viewer.send_presence(
                    Pose(), [View(Pose(), Fov.symmetric(60, 1.6))], controllers=[Controller("left", Pose(), buttons=(True,) * 11)])),
                ("25", lambda: viewer.send_hand("left", [])),
                ("sent", lambda: viewer.send_head(Pose((1e9, 0.0, 0.0)))),
                ("limit", lambda: viewer.send(b"x" * 20_000)),
                ("clipboard", lambda: viewer.send_clipboard("text")),
                ("sample frames", lambda: viewer.read_sound(10**9)),
            ]:
                self.refused(word, call)
            self.assertEqual(viewer.read_sound()[0].shape, (0, 2))
            self.assertRaises(TypeError, lambda: viewer.send_text(7))


class Interrupts(unittest.TestCase):
    def test_every_wait_ends(self) -> None:
        serving = "import nearlight; s = nearlight.serve(address='127.0.0.1')\n"
        programs = {
            "events": serving + "print('ready')\nfor event in s.events(None): pass",
            "pictures": serving + "v = nearlight.view(s.link)\nprint('ready')\nfor picture in v: pass",
            "a viewer's events": serving + "v = nearlight.view(s.link)\nprint('ready')\nfor event in v.events(None): pass",
            "connecting": serving + "link = s.link; s.close(); print('ready')\nnearlight.view(link, connect_timeout=600)",
        }
        for name, program in programs.items():
            with self.subTest(name):
                interrupted(program)

    def test_the_lab_keeps_what_is_done(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = (
                "import sys, nearlight\n"
                "nearlight.lab.run('vrcc-stable', threads=1, seeds=50, folder=sys.argv[1], progress=lambda p: print(p.done))"
            )
            interrupted(program, folder)
            lines = (Path(folder) / "runs.jsonl").read_text().splitlines()
            self.assertGreaterEqual(len(lines), 2)
