"""The server in this process, which streams your program's pictures and returns its viewers' input."""

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

#: GLSL (3.30, or ES 3.00) for the last pass of a program that draws I420 directly: put it after the ``#version`` line of a fragment shader that
#: defines ``vec3 nearlight_pixel(ivec2 place)``, the colour of a pixel counted from the top left. ``nearlight_plane(ivec2(gl_FragCoord.xy), size)`` then
#: returns the value for a target of one byte a pixel (R8) with the picture's width and one and a half times its height. Read the target into an
#: array ``all`` of that shape, and submit ``(all[:height], all[height:, :width // 2], all[height:, width // 2:])``.
PLANES_SHADER: str = _native.PLANES_SHADER

#: Values that a pixel may have: grey, three colours, or those and opacity.
CHANNELS = (1, 3, 4)

#: Height in degrees of a field of view that the caller does not pass.
USUAL_FOV = 60.0


class ServeOptions(TypedDict, total=False):
    """Options of :func:`serve`, which correspond to ``nearlight serve``'s options of the same names."""

    #: Name of the program, for the viewers' panels.
    name: str
    #: Address to listen on; None for every address.
    address: str | None
    #: Port for the page (TCP) and the media (UDP); 0 for a free one.
    port: int
    #: Port for WebRTC (UDP); None for the one after ``port``, or a free one when that is taken.
    rtc_port: int | None
    #: Addresses of other machines, such as a router, that forward the ports to this one.
    announce: Sequence[str]
    #: Further host names under which viewers reach this server.
    hosts: Sequence[str]
    #: Pairing token of at least 16 characters; None for a new random one.
    token: str | None
    #: File with a certificate chain in PEM format, together with ``key``; None for a self-signed certificate whose hash is part of the links.
    certificate: Any
    key: Any
    #: Usual size of the pictures in pixels, both numbers even: encoders are prepared for it. A picture may have another size.
    width: int
    height: int
    #: Usual number of pictures a second, 1 to 240.
    fps: int
    #: Preferred codec.
    codec: Literal["h264", "vp8"]
    #: Name of the rate controller, one of ``nearlight.lab.controllers()``.
    controller: str
    #: Name of the forward error correction scheme.
    fec: str
    #: Name of the viewers' loss recovery. With one that never requests retransmissions, ``fec`` should be ``none``.
    recovery: str
    #: Network interfaces on which viewers are also served over Ethernet frames, without IP. Opening them requires CAP_NET_RAW.
    ethernet: Sequence[str]
    #: Hardware addresses of the viewers that are served over Ethernet frames; None for all that know the token.
    ethernet_allow: Sequence[str] | None
    #: Initial rate and its bounds, in megabits a second.
    rate_mbps: float | None
    min_rate_mbps: float | None
    max_rate_mbps: float | None
    #: Whether screens show both halves of a stereo picture; otherwise they show the left one.
    stereo: bool
    #: Whether the server offers the program's sound (``submit_sound``) to viewers.
    sound: bool
    #: Whether clipboard texts pass between the program and viewers that allow it as well.
    clipboard: bool
    #: Whether ``submit`` encodes in the calling thread, and waits up to 5 ms for the packets that the pacer releases. Otherwise other threads
    #: encode.
    synchronous: bool
    #: Maximum number of viewers at the same time.
    max_clients: int
    #: File for the event log, one JSON object a line.
    events: Any


class Server:
    """A server in this process, which :func:`serve` opens. Every method may be called from any thread. Leaving ``with`` closes the server."""

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
        """Link to the page for a browser on this machine. Links are secrets: whoever has one can watch and control."""
        return self.links[0]

    @property
    def links(self) -> list[str]:
        """The link for this machine, then those for other machines, the likeliest first."""
        return self._native.links()

    def qr_code(self, link: str | None = None) -> str:
        """Returns a link as a QR code for a phone's camera, in lines of block characters. Default: the likeliest link for another machine."""
        links = self.links
        return self._native.qr_code(link or links[min(1, len(links) - 1)])

    def now(self) -> float:
        """Returns the seconds since the server was opened. All of its times are on this clock."""
        return self._native.now()

    @property
    def is_watched(self) -> bool:
        """Whether anybody watches. When nobody does, pictures are dropped without conversion."""
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
        """Takes a finished picture: converts it once, while other Python threads run, and returns while other threads encode it,
        unless the server is ``synchronous``.

        ``picture`` is an array (height, width, 3 or 4) of bytes, of NumPy or another type with a buffer, or a picture of Pillow. ``order`` names its
        order of colours (default: ``rgb`` or ``rgba``; OpenCV has ``bgr``). Views such as ``array[::-1]``, ``array[..., ::-1]`` and
        ``array[:, 100:740]`` are read in place. Grey levels (height, width) and tensors (3 or 4, height, width), of PyTorch or another type with DLPack,
        are copied first. Bytes without a shape require ``size=(width, height)``, and ``stride`` when rows are padded. A tuple of two or three arrays
        is NV12 (luma, both chroma planes in one) or I420 (luma, blue, red), BT.709 in limited range. Width and height are even, 16 to 4096.

        For two eyes, pass ``layout="side-by-side"``, or the right eye's picture of the same size in ``right``. ``views`` are the one or two views for
        which it was rendered, best those of ``server.driver().views``. ``pose`` with ``fov`` (default: 60 degrees high) is an abbreviation for one
        view.

        Do not write to the memory before this returns. When two pictures wait, only the newer one is sent. When nobody watches, the picture is dropped.
        """
        if pose is not None:
            if views:
                raise UsageError("give either `pose` or `views`")
            views = (View(pose, fov or Fov.symmetric(USUAL_FOV, _aspect(picture, size))),)
        elif fov is not None:
            raise UsageError("`fov` belongs to `pose`: give both, or `views`")
        if layout not in ("mono", "side-by-side"):
            raise UsageError(f"`{layout}` is not a layout: write mono or side-by-side, or give the right eye's picture in `right`")
        if rows not in ("top-down", "bottom-up"):
            raise UsageError(f"`{rows}` is not an order of rows: write top-down or bottom-up")
        self._native.submit(
            picture, right, order, rows == "bottom-up", size, stride, layout == "side-by-side", views, captured_at
        )

    def submit_sound(self, samples: Any, *, rate: int = 48_000, channels: int | None = None) -> None:
        """Takes the program's next sound, which follows the sound submitted before, at the pace of playback. Requires ``sound=True``.

        ``samples`` is an array of float32 within -1 and 1, or of int16: (frames,) for one channel, or (frames, 1 or 2). Memory without a second
        dimension, such as ``array.array("h")``, may have ``channels=2``: left and right interleaved. At most 65536 frames; ``rate`` is 8000 to 192000 Hz.
        Copies the samples and returns. At most 200 ms of sound are queued.
        """
        self._native.submit_sound(samples, rate, channels)

    def poll_event(self, timeout: float | None = 0.0) -> Event | None:
        """Takes the oldest queued event. Waits up to ``timeout`` seconds for one, or with None until the server is closed."""
        return self._native.poll_event(timeout)

    def events(self, timeout: float | None = 0.0) -> Iterator[Event]:
        """Yields the queued events. With a timeout, ends when no event came for that long; with None, when the server is closed."""
        while (event := self._native.poll_event(timeout)) is not None:
            yield event

    def viewers(self) -> list[ViewerState]:
        """Returns everybody who watches, with the views to draw for each, in order of arrival."""
        return self._native.viewers()

    def driver(self) -> ViewerState | None:
        """Returns the viewer for whose views a picture for all should be drawn: the one that acted last, otherwise the first to arrive."""
        return self._native.driver()

    def send(self, data: bytes | bytearray | memoryview | str, *, to: int | None = None, reliable: bool = True) -> None:
        """Sends a message to the page or program of one viewer, or of all: up to 16384 bytes, or unreliably up to 1100, which may be lost,
        duplicated or reordered."""
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
        """Makes a gamepad, or a hand's controller, of one viewer or of all vibrate for up to 5 s. Strengths are 0 to 1."""
        self._native.haptics(to, gamepad, hand, seconds, strong, weak)

    def set_pointer(self, shape: str = "default", *, captured: bool = False, to: int | None = None) -> None:
        """Sets the pointer's shape (a keyword of CSS ``cursor``), and whether a click captures it so that only its movement is reported."""
        self._native.set_pointer(to, shape, captured)

    def set_clipboard(self, text: str, *, to: int | None = None) -> None:
        """Sends a text to the clipboard of one viewer, or of all, provided that the viewer and the options allow it."""
        self._native.set_clipboard(to, text)

    @property
    def statistics(self) -> ServerStatistics:
        """Counters since the server was opened."""
        return self._native.statistics()

    def close(self) -> None:
        """Waits until submitted pictures have left, takes leave of viewers and ends all threads: usually within half a second. May be called again."""
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
    shape = _shape(first)
    if len(shape) == 3 and shape[2] not in CHANNELS and shape[0] in CHANNELS:
        shape = shape[1:]
    # An object that is not a picture is rejected later, with a better message than one about its view.
    return shape[1] / max(shape[0], 1) if len(shape) > 1 and shape[1] > 0 else 1.0


def _shape(picture: Any) -> tuple[int, ...]:
    try:
        return memoryview(picture).shape or ()
    except TypeError:
        pass
    interface = getattr(picture, "__array_interface__", None)
    shape = interface.get("shape") if isinstance(interface, dict) else getattr(picture, "shape", ())
    try:
        return tuple(int(side) for side in shape or ())
    except (TypeError, ValueError):
        return ()
