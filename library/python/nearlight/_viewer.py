"""The viewer in this process, which returns pictures as arrays and sends input."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from . import _arrays, _native
from ._errors import UsageError
from ._types import (
    Button,
    Controller,
    ControllerInfo,
    Display,
    Event,
    Gamepad,
    GamepadInfo,
    Hand,
    Joint,
    Pose,
    Touch,
    View,
    ViewerStatistics,
)

Order = Literal["rgb", "bgr", "rgba", "bgra"]


class ViewOptions(TypedDict, total=False):
    """Options of :func:`view`."""

    #: Name of the viewer, for the server's log.
    name: str | None
    #: Whether to accept any certificate when the link names none; the proof of the token then identifies the server.
    #: ``headset`` requests two eyes side by side.
    display: Display
    #: Refresh rate of the display in hertz; 0 when a picture is displayed as soon as it is decoded.
    display_hz: int
    #: Codecs that the server may use, best first.
    codecs: Sequence[Literal["h264", "vp8"]] | None
    #: Whether to request the application's sound.
    sound: bool
    #: Whether to share clipboard texts, provided that the server allows it as well.
    clipboard: bool
    #: Time in seconds within which a server must answer.
    connect_timeout: float
    #: Maximum number of pictures that wait for the program; when there are more, the oldest is dropped. 1 has the shortest delay.
    pictures_kept: int
    #: Whether the program reports by :meth:`Viewer.displayed` when each picture is displayed; otherwise it counts as displayed when it is taken.
    tells_display: bool
    #: Files to write: events as lines of JSON, a trace for Perfetto, a table of frames, the sound as WAV.
    events: Any
    trace: Any
    csv: Any
    sound_file: Any


@dataclass(frozen=True, slots=True)
class _Options:
    name: str | None = None
    display: Display = "screen"
    display_hz: int = 0
    codecs: Sequence[str] | None = None
    sound: bool = False
    clipboard: bool = False
    connect_timeout: float = 10.0
    pictures_kept: int = 1
    tells_display: bool = False
    events: Any = None
    trace: Any = None
    csv: Any = None
    sound_file: Any = None


class Marker(NamedTuple):
    """The marker in the rows below a picture: the frame's number and the newest input that it shows."""

    frame: int
    input: int


class Picture:
    """A decoded picture. Its memory is reused once the picture and every array of :meth:`planes` are gone.

    Times are seconds on the viewer's clock; None before the clocks were compared, which takes a round trip.
    """

    __slots__ = (
        "_native",
        "captured_at",
        "damaged",
        "decoded_at",
        "display_at",
        "encoded_at",
        "frame",
        "input",
        "key",
        "marker",
        "rendered_at",
        "session",
        "views",
    )

    #: Number of the frame, from 0 in each session. Sessions count from 1; a new one begins after a loss of the connection and when the codec changes.
    frame: int
    session: int
    #: The view of each eye, the left one first: one for a screen, two side by side for a headset.
    views: tuple[View, ...]
    #: Number of the newest input that it shows; 0 before the first one.
    input: int
    marker: Marker | None
    #: Whether it decodes without any other frame.
    key: bool
    #: Whether data on which it depends was lost.
    damaged: bool
    #: The times when its rendering or capture began and ended, when it left the encoder, and for whose display it was rendered.
    captured_at: float | None
    rendered_at: float | None
    encoded_at: float | None
    display_at: float | None
    decoded_at: float

    def __init__(self, native: _native.Picture) -> None:
        self._native = native
        (
            self.frame,
            self.session,
            self.views,
            self.input,
            marker,
            self.key,
            self.damaged,
            self.captured_at,
            self.rendered_at,
            self.encoded_at,
            self.display_at,
            self.decoded_at,
        ) = native.info()
        self.marker = None if marker is None else Marker(*marker)

    def __repr__(self) -> str:
        return f"<nearlight.Picture {self.frame} of {self.width}x{self.height}>"

    @property
    def width(self) -> int:
        return self._native.size()[0]

    @property
    def height(self) -> int:
        return self._native.size()[1]

    @property
    def pose(self) -> Pose | None:
        """The pose of the (left) eye for which it was rendered."""
        return self.views[0].pose if self.views else None

    def rgb(self, *, order: Order = "rgb", out: Any = None) -> Any:
        """Converts the picture into pixels: an array (height, width, 3 or 4) of bytes, or ``out`` when it is given. Without NumPy, a memoryview."""
        if out is None:
            out = _arrays.empty((self.height, self.width, 4 if order in ("rgba", "bgra") else 3))
        self._native.write(out, order)
        return out

    def planes(self) -> tuple[Any, Any, Any]:
        """Returns luma, blue and red differences (4:2:0, BT.709, limited range) without copying them: read-only arrays, or memoryviews without NumPy."""
        luma, blue, red = (_arrays.of_plane(memory) for memory in self._native.planes())
        return luma, blue, red


class Viewer:
    """A viewer in this process, which :func:`view` connects. Every method may be called from any thread. Iteration yields pictures."""

    def __init__(self, link: str, **options: Unpack[ViewOptions]) -> None:
        try:
            known = _Options(**options)
        except TypeError as error:
            raise UsageError(f"the options cannot be used: {error}") from None
        self._native = _native.Viewer(link, known)
        self._summary: dict[str, Any] | None = None

    def __enter__(self) -> Viewer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Picture]:
        """Yields pictures as they arrive, until the viewer is closed or has ended. An event reports the reason."""
        return self.pictures()

    def pictures(self, timeout: float | None = None) -> Iterator[Picture]:
        """Yields pictures as they arrive. With a timeout in seconds, also ends when no picture arrived for that long."""
        while (picture := self.poll_picture(timeout)) is not None:
            yield picture

    def poll_picture(self, timeout: float | None = 0.0) -> Picture | None:
        """Takes the next picture. Waits up to ``timeout`` seconds for one, or with None until the viewer has ended."""
        native = self._native.poll_picture(timeout)
        return None if native is None else Picture(native)

    def poll_event(self, timeout: float | None = 0.0) -> Event | None:
        """Takes the oldest queued event. Waits up to ``timeout`` seconds for one, or with None until the viewer has ended."""
        return self._native.poll_event(timeout)

    def events(self, timeout: float | None = 0.0) -> Iterator[Event]:
        """Yields the queued events. With a timeout, ends when no event came for that long; with None, when the viewer has ended."""
        while (event := self._native.poll_event(timeout)) is not None:
            yield event

    def now(self) -> float:
        """Returns the seconds since the viewer was connected. All of its times are on this clock."""
        return self._native.now()

    @property
    def has_ended(self) -> bool:
        """Whether the viewer has ended, so that no more pictures arrive."""
        return self._native.has_ended()

    def displayed(self, picture: Picture, at: float | None = None) -> None:
        """Reports the time when the picture was first displayed; None for now. Only with ``tells_display``, and once for each picture."""
        self._native.displayed(picture._native, at)

    # --- input ---

    def send_key(self, code: str, pressed: bool = True) -> None:
        """Sends that a key was pressed or released. ``code`` is W3C's, such as ``KeyW`` or ``Space``."""
        self._native.send("key", (code, pressed))

    def send_text(self, text: str) -> None:
        """Sends typed text of up to 4096 bytes."""
        self._native.send("text", text)

    def send_pointer(
        self,
        x: float,
        y: float,
        *,
        buttons: Sequence[Button] = (),
        moved: tuple[int, int] = (0, 0),
        scrolled: tuple[float, float] = (0.0, 0.0),
        captured: bool = False,
    ) -> None:
        """Sends the pointer's position (0 to 1), the pressed buttons, and the movement and scrolling since the last call in pixels, right and down."""
        self._native.send_pointer(x, y, (list(buttons), moved, scrolled, captured))

    def send_no_pointer(self) -> None:
        """Sends that the pointer has left the picture."""
        self._native.send("no pointer", None)

    def send_touches(self, touches: Sequence[Touch]) -> None:
        """Sends all fingers that touch, up to 10. One that is missing has been lifted."""
        self._native.send("touches", touches)

    def send_gamepads(self, gamepads: Sequence[Gamepad]) -> None:
        """Sends the state of all gamepads, up to 4."""
        self._native.send("gamepads", gamepads)

    def send_devices(
        self, gamepads: Sequence[GamepadInfo] = (), controllers: Sequence[ControllerInfo] = ()
    ) -> None:
        """Sends the descriptions of all gamepads and controllers, whenever one is connected or removed."""
        self._native.send("devices", (gamepads, controllers))

    def send_head(self, pose: Pose) -> None:
        """Sends the pose of the head, which determines the view on a screen."""
        self._native.send("head", pose)

    def send_presence(
        self,
        head: Pose,
        views: Sequence[View],
        *,
        gaze: Pose | None = None,
        controllers: Sequence[Controller] = (),
    ) -> None:
        """Sends the poses of a headset, its eyes and its controllers. ``views`` is one view, or the left and the right one."""
        self._native.send("presence", (head, views, gaze, controllers))

    def send_hand(self, hand: Hand, joints: Sequence[Joint] | None) -> None:
        """Sends the 25 joints of a hand in WebXR's order, the wrist first, or None when it is no longer tracked."""
        self._native.send("hand", (hand, joints))

    def send_display(self, display: Display, display_hz: int) -> None:
        """Sends that the display has changed."""
        self._native.send("display", (display, display_hz))

    def send_clipboard(self, text: str) -> None:
        """Sends a text that the user pastes."""
        self._native.send("clipboard", text)

    def release_all(self) -> None:
        """Sends that the window has lost the focus: all keys and buttons count as released."""
        self._native.send("release", None)

    def send(self, data: bytes | bytearray | memoryview | str, *, reliable: bool = True) -> None:
        """Sends a message to the application: up to 16384 bytes, or unreliably up to 1100, which may be lost, duplicated or reordered."""
        self._native.send_message(data.encode() if isinstance(data, str) else bytes(data), reliable)

    # --- everything else ---

    @property
    def head(self) -> Pose:
        """The pose of the head that was sent last; before that, the server's initial pose."""
        return self._native.head()

    def read_sound(self, frames: int = 480) -> tuple[Any, float]:
        """Returns up to ``frames`` due sample frames at 48 kHz as float32 (frames, 2), and the time when the first one was due. Requires ``sound=True``."""
        samples, at = self._native.read_sound(frames)
        return _arrays.of_sound(samples), at

    @property
    def statistics(self) -> ViewerStatistics:
        """Counters, updated every half second."""
        return self._native.statistics()

    def close(self) -> dict[str, Any]:
        """Ends the session and returns the measurements of the run (docs/json.md, "nearlight view"). May be called again."""
        text = self._native.close()
        if text is not None:
            self._summary = json.loads(text)
        return self._summary or {}


def view(link: str, **options: Unpack[ViewOptions]) -> Viewer:
    """Connects to a server by its link, waits until it has welcomed the viewer, and yields pictures::

    for picture in nearlight.view(link):
        show(picture.rgb())

    When the connection is lost, the viewer opens another one by itself.
    """
    return Viewer(link, **options)
