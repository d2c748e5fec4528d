"""A server and a viewer in one process, over loopback."""

from __future__ import annotations

import array
import gc
import resource
import sys
import threading
import time
import unittest
import unittest.mock

import numpy

import nearlight
from nearlight import Controller, Fov, Gamepad, GamepadInfo, Joint, Pose, Touch, View

from .support import HEIGHT, WIDTH, LikePillow, LikeTensor, flat, near, server, shown, stream, until

RED, GREEN, BLUE = (220, 30, 40), (30, 200, 60), (40, 50, 230)


class Pictures(unittest.TestCase):
    def test_colours_arrive_whatever_the_memory(self) -> None:
        rgb = flat(RED)
        rgba = flat((*RED, 7))
        wide = numpy.zeros((HEIGHT, WIDTH + 64, 3), dtype=numpy.uint8)
        wide[:, 32:-32] = RED
        halves = flat(RED)
        halves[: HEIGHT // 2] = BLUE
        # BT.709, limited range, of red (220, 30, 40).
        luma, blue, red = 74, 113, 213
        planes = [numpy.full(shape, value, dtype=numpy.uint8) for shape, value in [
            ((HEIGHT, WIDTH), luma), ((HEIGHT // 2, WIDTH // 2), blue), ((HEIGHT // 2, WIDTH // 2), red)]]
        both = numpy.stack(planes[1:], axis=-1)
        drawn = numpy.vstack([planes[0], numpy.hstack(planes[1:])])
        padded = bytearray(HEIGHT * (WIDTH * 4 + 16))
        for row in range(HEIGHT):
            padded[row * (WIDTH * 4 + 16) : row * (WIDTH * 4 + 16) + WIDTH * 4] = rgba[row].tobytes()
        cases = {
            "rgb": lambda host: host.submit(rgb),
            "bgr": lambda host: host.submit(rgb[..., ::-1].copy(), order="bgr"),
            "rgba": lambda host: host.submit(rgba),
            "bgra": lambda host: host.submit(rgba[..., [2, 1, 0, 3]].copy(), order="bgra"),
            "reversed channels": lambda host: host.submit(rgb[..., ::-1], order="bgr"),
            "part of a row": lambda host: host.submit(wide[:, 32:-32]),
            "upside down": lambda host: host.submit(halves[::-1], rows="bottom-up"),
            "bytes": lambda host: host.submit(rgb.tobytes(), size=(WIDTH, HEIGHT)),
            "padded bytes": lambda host: host.submit(padded, size=(WIDTH, HEIGHT), stride=WIDTH * 4 + 16, order="rgba"),
            "memoryview": lambda host: host.submit(memoryview(rgb)),
            "Pillow": lambda host: host.submit(LikePillow(rgb)),
            "tensor, colours first": lambda host: host.submit(LikeTensor(rgb.transpose(2, 0, 1).copy())),
            "tensor, permuted": lambda host: host.submit(LikeTensor(rgb.transpose(2, 0, 1).copy().transpose(1, 2, 0))),
            "tensor, bgr": lambda host: host.submit(LikeTensor(rgb[..., ::-1].transpose(2, 0, 1).copy()), order="bgr"),
            "I420": lambda host: host.submit(tuple(planes)),
            "I420 as PLANES_SHADER draws it": lambda host: host.submit(
                (drawn[:HEIGHT], drawn[HEIGHT:, : WIDTH // 2], drawn[HEIGHT:, WIDTH // 2 :])),
            "NV12": lambda host: host.submit([planes[0], both]),
            "NV12, flat": lambda host: host.submit([planes[0], both.reshape(HEIGHT // 2, WIDTH)]),
        }
        with stream() as (host, viewer):
            for name, submit in cases.items():
                with self.subTest(name):
                    shown(host, viewer, lambda: host.submit(flat(GREEN)), lambda pixels: near(pixels, GREEN))
                    low = (HEIGHT * 3 // 4, WIDTH // 2)
                    pixels = shown(host, viewer, lambda: submit(host), lambda pixels: near(pixels, RED, low))
                    upper = BLUE if name == "upside down" else RED
                    self.assertTrue(near(pixels, upper, (HEIGHT // 4, WIDTH // 2)))

    def test_grey_levels_arrive_as_grey(self) -> None:
        grey = numpy.full((HEIGHT, WIDTH), 90, dtype=numpy.uint8)
        cases = {"array": grey, "one value": grey[..., None], "Pillow": LikePillow(grey), "tensor": LikeTensor(grey[None]),
                 "one colour": flat((90, 1, 2))[..., 0]}
        with stream() as (host, viewer):
            for name, picture in cases.items():
                with self.subTest(name):
                    shown(host, viewer, lambda: host.submit(flat(GREEN)), lambda pixels: near(pixels, GREEN))
                    shown(host, viewer, lambda: host.submit(picture, pose=nearlight.Pose()), lambda pixels: near(pixels, (90, 90, 90)))

    def test_the_shader_for_planes_is_given(self) -> None:
        for name in ("vec3 nearlight_pixel(ivec2 place);", "float nearlight_plane(ivec2 place, ivec2 size) {"):
            self.assertIn(name, nearlight.PLANES_SHADER)

    def test_a_flipped_view_is_upside_down(self) -> None:
        halves = flat(RED)
        halves[: HEIGHT // 2] = BLUE
        with stream() as (host, viewer):
            low, high = (HEIGHT * 3 // 4, WIDTH // 2), (HEIGHT // 4, WIDTH // 2)
            shown(host, viewer, lambda: host.submit(halves[::-1]), lambda it: near(it, BLUE, low) and near(it, RED, high))

    def test_a_picture_is_handed_out_in_every_order_and_as_planes(self) -> None:
        pose = Pose((1.0, 1.5, -2.0))
        with stream() as (host, viewer):
            shown(host, viewer, lambda: host.submit(flat(RED), pose=pose), lambda pixels: near(pixels, RED))
            host.submit(flat(RED), pose=pose)
            picture = until("another one", lambda: viewer.poll_picture(0.1) or host.submit(flat(RED), pose=pose))
            rgb = picture.rgb()
            self.assertEqual((rgb.shape, rgb.dtype), ((HEIGHT, WIDTH, 3), numpy.uint8))
            self.assertTrue((picture.rgb(order="bgr") == rgb[..., ::-1]).all())
            self.assertTrue((picture.rgb(order="rgba")[..., :3] == rgb).all())
            self.assertTrue((picture.rgb(order="bgra")[..., 3] == 255).all())
            out = numpy.zeros_like(rgb)
            self.assertIs(picture.rgb(out=out), out)
            self.assertTrue((out == rgb).all())
            luma, blue, red = picture.planes()
            self.assertEqual([plane.shape for plane in (luma, blue, red)], [(HEIGHT, WIDTH)] + [(HEIGHT // 2, WIDTH // 2)] * 2)
            self.assertFalse(luma.flags.writeable or luma.flags.owndata, "the picture's own memory")
            self.assertTrue(near(numpy.dstack([luma[::2, ::2], blue, red]), (74, 113, 213)))
            self.assertEqual((picture.width, picture.height, picture.session), (WIDTH, HEIGHT, 1))
            self.assertEqual(picture.pose, pose)
            self.assertIsInstance(picture.marker, nearlight.Marker)
            times = [at for at in (picture.captured_at, picture.rendered_at, picture.encoded_at) if at is not None]
            self.assertEqual(times, sorted(times))
            # The two clocks are compared within a second.
            self.assertTrue(all(at < picture.decoded_at + 1 for at in times))
            for bad in (numpy.zeros((2, 2, 3), dtype=numpy.uint8), rgb[::2], numpy.zeros_like(rgb, dtype=numpy.uint16)):
                self.assertRaises(nearlight.UsageError, lambda out=bad: picture.rgb(out=out))
            self.assertRaises(nearlight.UsageError, lambda: picture.rgb(order="grb"))
            with unittest.mock.patch("nearlight._arrays.numpy", return_value=None):
                plain = picture.rgb()
                self.assertEqual((type(plain), plain.shape), (memoryview, rgb.shape))
                self.assertEqual(plain.tobytes(), rgb.tobytes())
                self.assertEqual([plane.shape for plane in picture.planes()], [plane.shape for plane in (luma, blue, red)])
                self.assertEqual(type(viewer.read_sound()[0]).__name__, "array")
            # The planes keep the picture's memory, even without the picture.
            before = luma.copy()
            del picture
            for shade in range(5):
                host.submit(flat((shade * 40,) * 3))
                viewer.poll_picture(0.1)
            self.assertTrue((luma == before).all())

    def test_both_eyes(self) -> None:
        def eyes(x: float) -> View:
            return View(Pose((x, 1.6, 0.0)), Fov.symmetric(90, 0.8))

        views = [eyes(-0.03), eyes(0.03)]
        both = numpy.concatenate([flat(RED), flat(BLUE)], axis=1)
        with stream(display="headset") as (host, viewer):
            viewer.send_presence(Pose((0.0, 1.6, 0.0)), views)

            def eyes_see(pixels: numpy.ndarray) -> bool:
                # The server chooses the size for headsets.
                height, width, _ = pixels.shape
                return near(pixels, RED, (height // 2, width // 4)) and near(pixels, BLUE, (height // 2, width * 3 // 4))

            for submit in (
                lambda: host.submit(both, layout="side-by-side", views=views),
                lambda: host.submit(flat(RED), right=flat(BLUE), views=views),
            ):
                shown(host, viewer, lambda: host.submit(both[:, ::-1].copy(), layout="side-by-side"), lambda it: not eyes_see(it))
                shown(host, viewer, submit, eyes_see)
            driver = until("two views", lambda: (state := host.driver()) and len(state.views) == 2 and state)
            self.assertEqual(driver.display, "headset")


class Sounds(unittest.TestCase):
    def test_viewers_hear_what_is_submitted_in_every_form(self) -> None:
        tone = numpy.sin(numpy.arange(960) * (2 * numpy.pi / 96)).astype(numpy.float32) / 2
        short = (tone * 32_767).astype(numpy.int16)
        forms = {
            "one channel": lambda host: host.submit_sound(tone),
            "a column": lambda host: host.submit_sound(short[:, None]),
            "two channels": lambda host: host.submit_sound(numpy.stack([tone, tone], axis=1)),
            "in turn": lambda host: host.submit_sound(array.array("h", numpy.repeat(short, 2).tobytes()), channels=2),
            "every second sample": lambda host: host.submit_sound(numpy.repeat(tone, 2)[::2]),
            "another rate": lambda host: host.submit_sound(tone[::2], rate=24_000),
        }
        with server(sound=True) as host, nearlight.view(host.link, sound=True) as viewer:
            until("somebody watches", lambda: host.is_watched)
            for name, submit in forms.items():
                with self.subTest(name):
                    while len(viewer.read_sound(48_000)[0]):
                        pass

                    def heard() -> bool:
                        submit(host)
                        samples, _ = viewer.read_sound(4_800)
                        # A sine of amplitude 0.5.
                        return len(samples) >= 480 and 0.25 < float(numpy.sqrt((samples**2).mean())) < 0.45

                    until("the tone", heard)
            for _ in range(50):
                host.submit_sound(tone)
            self.assertGreater(host.statistics.sound_dropped, 0)


class Inputs(unittest.TestCase):
    def test_every_kind_arrives(self) -> None:
        joint = Joint(Pose((0.1, 1.0, -0.4)), 0.01)
        with stream() as (host, viewer):
            viewer.send_devices([GamepadInfo(0, "a pad", True)])
            viewer.send_key("KeyW")
            viewer.send_text("héllo")
            viewer.send_pointer(0.25, 0.75, buttons=["left", "right"], moved=(12, -3))
            viewer.send_pointer(0.25, 0.75, buttons=["right"], moved=(5, 0), scrolled=(0, 100))
            viewer.send_touches([Touch(1, 0.5, 0.5, 0.5)])
            viewer.send_touches([])
            viewer.send_gamepads([Gamepad(0, (True, False), (1.0, 0.0), (0.5, -1.0, 0.0, 0.0))])
            viewer.send_head(Pose((0.0, 1.7, 0.0)))
            viewer.send("ask")
            viewer.send(b"perhaps", reliable=False)
            viewer.send_hand("left", [joint] * 25)
            heard: list[nearlight.Event] = []

            def complete() -> bool:
                host.submit(flat(GREEN))
                heard.extend(host.events())
                kinds = {type(event) for event in heard}
                state = host.driver()
                return {
                    nearlight.Key, nearlight.Text, nearlight.PointerButton, nearlight.TouchBegan, nearlight.TouchEnded,
                    nearlight.GamepadButton, nearlight.Message, nearlight.Wheel, nearlight.PointerMoved, nearlight.DevicesChanged,
                } <= kinds and state is not None and state.left_hand is not None and state.head.position[1] > 1.6
            until("every kind of input", complete)

            def of(kind: type) -> list:
                return [event for event in heard if type(event) is kind]

            key = of(nearlight.Key)[0]
            self.assertEqual((key.code, key.pressed, key.usage), ("KeyW", True, 0x7001A))
            self.assertEqual("".join(event.text for event in of(nearlight.Text)), "héllo")
            buttons = [(event.button, event.pressed) for event in of(nearlight.PointerButton)]
            self.assertEqual(buttons, [("left", True), ("right", True), ("left", False)])
            self.assertAlmostEqual(of(nearlight.PointerButton)[0].x, 0.25, places=3)
            self.assertEqual(sum(event.dx for event in of(nearlight.PointerMoved)), 17)
            self.assertEqual(sum(event.dy for event in of(nearlight.Wheel)), 100)
            self.assertIn(b"ask", [event.data for event in of(nearlight.Message)])
            self.assertEqual(of(nearlight.DevicesChanged)[-1].gamepads, (GamepadInfo(0, "a pad", True),))
            state = host.driver()
            self.assertEqual(state.keys, {"KeyW"})
            self.assertEqual(state.pointer.buttons, {"right"})
            self.assertEqual(state.gamepads[0].buttons, (True, False))
            self.assertAlmostEqual(state.gamepads[0].axes[1], -1.0)
            self.assertEqual(len(state.left_hand), 25)
            self.assertAlmostEqual(state.left_hand[3].pose.position[1], 1.0, places=3)
            self.assertEqual([viewer.id for viewer in host.viewers()], [state.id])
            viewer.release_all()
            until("everything was let go of", lambda: not host.driver().keys)

    def test_a_controller_arrives(self) -> None:
        aim = Pose((0.2, 1.2, -0.3))
        hand = Controller("right", aim, buttons=(True, False), values=(1.0, 0.25), touched=(True, False), axes=(0.0, 0.0, 0.5, -0.5))
        view = View(Pose((0.0, 1.6, 0.0)), Fov.symmetric(90, 1.0))
        with stream(display="headset") as (host, viewer):
            viewer.send_presence(view.pose, [view, view], gaze=view.pose, controllers=[hand])
            state = until("a controller", lambda: (known := host.driver()) and known.controllers and known)
            [known] = state.controllers
            self.assertEqual((known.hand, known.buttons, known.touched), ("right", (True, False), (True, False)))
            self.assertAlmostEqual(known.values[1], 0.25, places=3)
            self.assertAlmostEqual(known.axes[3], -0.5, places=3)
            self.assertIsNotNone(state.gaze)
            event = until("its trigger", lambda: next((it for it in host.events() if type(it) is nearlight.ControllerButton), None))
            self.assertEqual((event.hand, event.button, event.pressed), ("right", 0, True))

    def test_the_application_answers(self) -> None:
        with stream() as (host, viewer):
            host.haptics(0.04, strong=0.5, weak=1.0)
            host.send("answer")
            host.set_pointer("crosshair", captured=True)
            heard: list[nearlight.Event] = []

            def complete() -> bool:
                host.submit(flat(GREEN))
                heard.extend(viewer.events())
                return {nearlight.Connected, nearlight.Haptics, nearlight.Message} <= {type(event) for event in heard} and any(
                    isinstance(event, nearlight.PointerRequested) and event.shape == "crosshair" for event in heard
                )

            until("the application's word", complete)
            connected = next(event for event in heard if isinstance(event, nearlight.Connected))
            self.assertEqual((connected.stream.width, connected.stream.height, connected.stream.fps), (WIDTH, HEIGHT, 30))
            pulse = next(event for event in heard if isinstance(event, nearlight.Haptics))
            self.assertEqual((pulse.gamepad, pulse.hand, pulse.seconds, pulse.strong), (0, None, 0.04, 0.5))


class Life(unittest.TestCase):
    def test_comers_goers_figures_and_the_end(self) -> None:
        with server() as host:
            self.assertTrue(host.link.startswith("http"))
            self.assertGreater(host.qr_code().count("\n"), 10)
            host.submit(flat(RED))
            viewer = nearlight.view(host.link, name="a test")
            joined = next(event for event in host.events(timeout=30) if isinstance(event, nearlight.ViewerJoined))
            for picture in viewer.pictures(timeout=0.5):
                self.assertEqual(picture.width, WIDTH)
                host.submit(flat(RED))
                if picture.frame > 5:
                    break
                time.sleep(0.02)
            else:
                until("a picture", lambda: host.submit(flat(RED)) or viewer.poll_picture(0.1))
            until("figures", lambda: host.submit(flat(RED)) or host.statistics.viewers and host.statistics.viewers[0].frames > 0)
            figures = host.statistics
            self.assertEqual((figures.unwatched, figures.viewers[0].viewer), (1, joined.viewer))
            self.assertTrue(viewer.statistics.connected)
            summary = viewer.close()
            self.assertGreater(summary["frames"]["decoded"], 0)
            self.assertEqual(viewer.close(), summary)
            self.assertRaises(nearlight.ClosedError, lambda: viewer.send_key("KeyA"))
            self.assertLessEqual(len(list(viewer)), 1, "what came before the end")
            self.assertEqual(list(viewer), [], "nothing comes any more")
            until("the goodbye", lambda: any(isinstance(event, nearlight.ViewerLeft) for event in host.events()))
        self.assertRaises(nearlight.ClosedError, lambda: host.submit(flat(RED)))
        self.assertEqual(list(host.events(timeout=None)), [])
        self.assertIn("closed", repr(host))
        host.close()

    def test_other_threads_run_while_a_picture_is_converted(self) -> None:
        # The interpreter interrupts a thread only after this time, which is longer than the test, so that other threads run only when a call releases the lock.
        before, count, stop = sys.getswitchinterval(), [0], threading.Event()
        picture = flat(RED, 3840, 2160)

        def work() -> None:
            while not stop.is_set():
                count[0] += 1
                time.sleep(0)

        thread = threading.Thread(target=work)
        with stream() as (host, _viewer):
            try:
                thread.start()
                sys.setswitchinterval(1000)
                for _ in range(50):
                    seen = count[0]
                    host.submit(picture)
                    if count[0] > seen + 3:
                        break
                else:
                    self.fail(f"the other thread had no turn: {count[0]}")
            finally:
                stop.set()
                sys.setswitchinterval(before)
                thread.join()

    def test_memory_stays_bounded(self) -> None:
        picture = flat(RED)
        with stream() as (host, viewer):
            def thousand() -> None:
                for number in range(1000):
                    host.submit(picture, pose=Pose())
                    if got := viewer.poll_picture():
                        got.rgb()
                        got.planes()
                    if number % 10 == 0:
                        viewer.send_key("KeyA", number % 20 == 0)
                        list(host.events())
                        host.viewers()
                        viewer.statistics
                        list(viewer.events())

            thousand()
            gc.collect()
            objects, references = len(gc.get_objects()), sys.getrefcount(picture)
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            thousand()
            gc.collect()
            self.assertEqual(sys.getrefcount(picture), references)
            self.assertLess(len(gc.get_objects()) - objects, 200)
            self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used, 20_000, "kB")
