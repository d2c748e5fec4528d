"""The server in this process: what your program draws is seen and touched elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from os import fspath
from types import TracebackType
from typing import Any, Literal, TypedDict, Unpack

from . import _native
from ._errors import UsageError
from ._types import Event, Fov, Hand, Pose, ServerStatistics, View, ViewerState

Order = Literal["rgb", "bgr", "rgba", "bgra"]
Layout = Literal["mono", "side-by-side"]
Rows = Literal["top-down", "bottom-up"]

#: GLSL (3.30, or ES 3.00) for the last pass of a program that draws I420 straight away: put it behind the ``#version`` line of a fragment shader that
#: defines ``vec3 nearlight_pixel(ivec2 place)``, the colour of a pixel counted from the top left. ``nearlight_plane(ivec2(gl_FragCoord.xy), size)`` is then
#: the value of a target of one byte a pixel (R8), as wide as the picture and half as high again. Read into an array ``all`` of that shape, it is
#: submitted as ``(all[:height], all[height:, :width // 2], all[height:, width // 2:])``.
PLANES_SHADER: str = _native.PLANES_SHADER

#: Height of a view, in degrees, whose field of view is not given.
USUAL_FOV = 60.0


class ServeOptions(TypedDict, total=False):
    """Options of :func:`serve`, as those of ``nearlight serve`` of the same names."""

    #: What makes the pictures, for the viewers' panels.
    name: str
    #: Address to listen on; None: every address.
    address: str | None
    #: Port for the page (TCP) and the media (UDP); 0: a free one.
    port: int
    #: Port for WebRTC (UDP); None: the one after ``port``, or a free one.
    rtc_port: int | None
    #: Addresses in front of this machine whose ports lead here.
    announce: Sequence[str]
    #: Further names under which viewers ask for this server.
    hosts: Sequence[str]
    #: Pairing token, 16 characters or more; None: a new one.
    token: str | None
    #: Certificate chain in PEM, with ``key``; None: a self-signed one that the links name.
    certificate: Any
    key: Any
    #: The usual size of the pictures, both even: encoders are prepared for it. A picture may have another.
    width: int
    height: int
    #: The usual number of pictures a second, 1 to 240.
    fps: int
    #: Codec to prefer.
    codec: Literal["h264", "vp8"]
    #: Rate controller, one of ``nearlight.lab.controllers()``.
    controller: str
    #: Redundancy against losses.
    fec: str
    #: Recovery of viewers from losses. With one that never requests packets again, ``fec`` is best ``none``.
    recovery: str
    #: Network interfaces on which viewers are also served over Ethernet frames, without IP. Opening them takes CAP_NET_RAW.
    ethernet: Sequence[str]
    #: Hardware addresses of those viewers; None: of all that know the token.
    ethernet_allow: Sequence[str] | None
    #: Rates in megabits a second: to start with, and the bounds.
    rate_mbps: float | None
    min_rate_mbps: float | None
    max_rate_mbps: float | None
    #: Screens get both halves of pictures that have one for each eye; otherwise the left one.
    stereo: bool
    #: Viewers who want sound hear what ``submit_sound`` takes.
    sound: bool
    #: Texts of the clipboard pass between the program and users who allow it as well.
    clipboard: bool
    #: ``submit`` encodes in the thread that calls it and returns once the packets have left as far as the pacer lets them, at most 5 ms later.
    #: Without it pictures are encoded beside the program's own work.
    synchronous: bool
    #: Most viewers at the same time.
    max_clients: int
    #: Writes what happens to this file, one JSON object a line.
    events: Any


class Server:
    """A server in this process. Made by :func:`serve`; every method may be called from any thread. Leaving ``with`` closes it."""

    def __init__(self, **options: Unpack[ServeOptions]) -> None:
        try:
            text = json.dumps(options, default=fspath, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UsageError(f"the options cannot be used: {error}") from None
        self._native = _native.Server(text)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<nearlight.Server, closed>" if self._native.is_closed() else f"<nearlight.Server at {self.links[0].partition('#')[0]}>"

    @property
    def link(self) -> str:
        """Link to the page for a browser on this machine. Links are keys: whoever has one sees and acts."""
        return self.links[0]

    @property
    def links(self) -> list[str]:
        """That link, then those for other machines, the likeliest first."""
        return self._native.links()

    def qr_code(self, link: str | None = None) -> str:
        """A link as a code for a phone's camera, in lines of block characters; None: the likeliest one for another machine."""
        links = self.links
        return self._native.qr_code(link or links[min(1, len(links) - 1)])

    def now(self) -> float:
        """Seconds since the server was opened: the clock of all its times."""
        return self._native.now()

    @property
    def is_watched(self) -> bool:
        """Whether anybody watches. Where nobody does, pictures are dropped unconverted."""
        return self._native.is_watched()

    def submit(
        self,
        picture: Any,
        *,
        order: Order | None = None,
        rows: Rows = "top-down",
        layout: Layout = "mono",
        right: Any = None,
        views: Sequence[View] = (),
        pose: Pose | None = None,
        fov: Fov | None = None,
        captured_at: float | None = None,
        size: tuple[int, int] | None = None,
        stride: int | None = None,
    ) -> None:
        """Takes a finished picture: converts it once, while other Python threads run, and returns while it is encoded beside,
        unless the server is ``synchronous``.

        ``picture`` is an array (height, width, 3 or 4) of bytes, NumPy's or any other with a buffer; ``order`` names its colours (``rgb`` or ``rgba``
        unless you say otherwise; ``bgr`` is OpenCV's). Views such as ``array[::-1]``, ``array[..., ::-1]`` and ``array[:, 100:740]`` are
        read in place. Bytes without a shape need ``size=(width, height)``, and ``stride`` where rows are padded. A tuple of two or three arrays is
        NV12 (luma, both colour differences) or I420 (luma, blue, red), BT.709 in limited range. Sides are even, 16 to 4096.

        For two eyes, ``layout="side-by-side"``, or the right eye's picture of the same size in ``right``. ``views`` are those that it was rendered for,
        one or two, best as ``server.driver().views`` had them; ``pose`` with ``fov`` (60 degrees high unless you say otherwise) is short for one.

        Do not write to the memory before this returns. Of two pictures that wait the newer one is sent; where nobody watches it is dropped.
        """
        if pose is not None:
            if views:
                raise UsageError("give either `pose` or `views`")
            views = (View(pose, fov or Fov.symmetric(USUAL_FOV, _aspect(picture, size))),)
        elif fov is not None:
            raise UsageError("`fov` belongs to `pose`: give both, or `views`")
        if layout not in ("mono", "side-by-side"):
            raise UsageError(f"`{layout}` is no layout: write mono or side-by-side, or give the right eye's picture in `right`")
        if rows not in ("top-down", "bottom-up"):
            raise UsageError(f"`{rows}` is no order of rows: write top-down or bottom-up")
        self._native.submit(
            picture, right, order, rows == "bottom-up", size, stride, layout == "side-by-side", views, captured_at
        )

    def submit_sound(self, samples: Any, *, rate: int = 48_000, channels: int | None = None) -> None:
        """Takes the program's next sound, which follows what it submitted before, at the pace at which it is to be heard. Needs ``sound=True``.

        ``samples`` is an array of float32 within -1 and 1, or of int16: (frames,) for one channel, or (frames, 1 or 2). Memory without a second
        dimension, such as ``array.array("h")``, may have ``channels=2``: left and right in turn. Up to 65536 frames; ``rate`` is 8000 to 192000 Hz.
        Copies them and returns. Of what was not heard yet, 200 ms are kept.
        """
        self._native.submit_sound(samples, rate, channels)

    def poll_event(self, timeout: float | None = 0.0) -> Event | None:
        """The oldest event that was not taken; waits up to ``timeout`` seconds for one, None: until the server is closed."""
        return self._native.poll_event(timeout)

    def events(self, timeout: float | None = 0.0) -> Iterator[Event]:
        """The events that are there now. With a timeout, ends when none came for so many seconds; with None, when the server is closed."""
        while (event := self._native.poll_event(timeout)) is not None:
            yield event

    def viewers(self) -> list[ViewerState]:
        """Everybody who watches, with the views to draw for each, in the order of their coming."""
        return self._native.viewers()

    def driver(self) -> ViewerState | None:
        """The viewer for whose views a picture for all is drawn: who acted last, else who came first."""
        return self._native.driver()

    def send(self, data: bytes | bytearray | memoryview | str, *, to: int | None = None, reliable: bool = True) -> None:
        """A message for the page or program of a viewer, or of all: up to 16384 bytes, or 1100 that may be lost, come twice or be overtaken."""
        self._native.send(to, _bytes(data), reliable)

    def haptics(
        self,
        seconds: float,
        *,
        strong: float = 1.0,
        weak: float = 1.0,
        gamepad: int = 0,
        hand: Hand | None = None,
        to: int | None = None,
    ) -> None:
        """A pulse of up to 5 s of a gamepad, or of a hand's controller: of a viewer, or of all. Strengths are 0 to 1."""
        self._native.haptics(to, gamepad, hand, seconds, strong, weak)

    def set_pointer(self, shape: str = "default", *, captured: bool = False, to: int | None = None) -> None:
        """How the pointer looks (a keyword of CSS' ``cursor``), and whether a click captures it for its movement."""
        self._native.set_pointer(to, shape, captured)

    def set_clipboard(self, text: str, *, to: int | None = None) -> None:
        """A text for the clipboard of a viewer who allows it, or of all, where the options allow it."""
        self._native.set_clipboard(to, text)

    @property
    def statistics(self) -> ServerStatistics:
        """What was counted since the server was opened."""
        return self._native.statistics()

    def close(self) -> None:
        """Lets what was submitted leave, says goodbye and ends all threads: usually within half a second. May be called again."""
        self._native.close()


def serve(**options: Unpack[ServeOptions]) -> Server:
    """Opens a server in this process, which takes tens of milliseconds::

    with nearlight.serve(width=1280, height=720, fps=30) as server:
        print(server.link)
        while True:
            server.submit(draw())
    """
    return Server(**options)


def _bytes(data: bytes | bytearray | memoryview | str) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)


def _aspect(picture: Any, size: tuple[int, int] | None) -> float:
    if size is not None:
        width, height = size
        return width / max(height, 1)
    first = picture[0] if isinstance(picture, (tuple, list)) and picture else picture
    try:
        shape = memoryview(first).shape or ()
    except TypeError:
        shape = ()
    # What is no picture is refused with a better sentence than one about its view.
    return shape[1] / max(shape[0], 1) if len(shape) > 1 and shape[1] > 0 else 1.0
