"""The receiving end in this process: pictures as arrays, input as calls."""

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

    #: The viewer's name for itself, for the server's log.
    name: str | None
    #: Accepts any certificate where the link names none, and relies on the token's proof for the server's identity.
    trust_first_use: bool
    #: ``headset`` requests two eyes side by side.
    display: Display
    #: Refresh rate of the display in hertz; 0 where a picture is displayed the moment it is decoded.
    display_hz: int
    #: Codecs that the server may use, best first.
    codecs: Sequence[Literal["h264", "vp8"]] | None
    #: Requests the sound of the application.
    sound: bool
    #: Shares clipboard texts, where the server's owner permits it as well.
    clipboard: bool
    #: Seconds in which a server must answer.
    connect_timeout: float
    #: Pictures that wait for the program: of more, the oldest is passed over. 1 is the shortest delay.
    pictures_kept: int
    #: The program says by :meth:`Viewer.displayed` when each picture is seen; otherwise it counts as seen when it is taken.
    tells_display: bool
    #: Files to write: every event as a line of JSON, a trace for Perfetto, a table of frames, the sound as WAV.
    events: Any
    trace: Any
    csv: Any
    sound_file: Any


@dataclass(frozen=True, slots=True)
class _Options:
    name: str | None = None
    trust_first_use: bool = False
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
    """What was read from the rows below a picture: the frame's number and the newest input that it shows."""

    frame: int
    input: int


class Picture:
    """A decoded picture. Its memory is used again when it, and every array of :meth:`planes`, are gone.

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

    #: Counts from 0 in each session; sessions count from 1, and another one begins when the connection was lost or the codec changes.
    frame: int
    session: int
    #: What each eye of the picture sees, left first: one for a screen, two side by side for a headset.
    views: tuple[View, ...]
    #: The newest input that it shows; 0 before the first.
    input: int
    marker: Marker | None
    #: Decodes without any other frame.
    key: bool
    #: Something that it depends on was lost.
    damaged: bool
    #: When its rendering, or its capture, began and ended, when it left the encoder, and when it was rendered to be displayed.
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
        """Where the (left) eye was that it was rendered for."""
        return self.views[0].pose if self.views else None

    def rgb(self, *, order: Order = "rgb", out: Any = None) -> Any:
        """The pixels, converted: an array (height, width, 3 or 4) of bytes, or ``out`` filled with them. Without NumPy, a memoryview."""
        if out is None:
            out = _arrays.empty((self.height, self.width, 4 if order in ("rgba", "bgra") else 3))
        self._native.write(out, order)
        return out

    def planes(self) -> tuple[Any, Any, Any]:
        """Luma, blue and red differences (4:2:0, BT.709, limited range), not copied: read-only arrays, or memoryviews without NumPy."""
        luma, blue, red = (_arrays.of_plane(memory) for memory in self._native.planes())
        return luma, blue, red


class Viewer:
    """A viewer in this process. Made by :func:`view`; every method may be called from any thread. Iterating yields pictures."""

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
        """Pictures as they come, until the viewer is closed or has ended, of which an event tells the reason."""
        return self.pictures()

    def pictures(self, timeout: float | None = None) -> Iterator[Picture]:
        """The same; with a timeout it ends as well when no picture came for so many seconds."""
        while (picture := self.poll_picture(timeout)) is not None:
            yield picture

    def poll_picture(self, timeout: float | None = 0.0) -> Picture | None:
        """The next picture; waits up to ``timeout`` seconds for one, None: until there will be none."""
        native = self._native.poll_picture(timeout)
        return None if native is None else Picture(native)

    def poll_event(self, timeout: float | None = 0.0) -> Event | None:
        """The oldest event that was not taken; waits up to ``timeout`` seconds for one, None: until there will be none."""
        return self._native.poll_event(timeout)

    def events(self, timeout: float | None = 0.0) -> Iterator[Event]:
        """The events that are there now. With a timeout, ends when none came for so many seconds; with None, when there will be none."""
        while (event := self._native.poll_event(timeout)) is not None:
            yield event

    def now(self) -> float:
        """Seconds since the viewer was made: the clock of all its times."""
        return self._native.now()

    @property
    def has_ended(self) -> bool:
        """No picture comes any more."""
        return self._native.has_ended()

    def displayed(self, picture: Picture, at: float | None = None) -> None:
        """The user saw the picture first at that time, None: now. Only with ``tells_display``; once a picture."""
        self._native.displayed(picture._native, at)

    # --- what the user does ---

    def send_key(self, code: str, pressed: bool = True) -> None:
        """A key by W3C's code, such as ``KeyW`` or ``Space``, goes down or up."""
        self._native.send("key", (code, pressed))

    def send_text(self, text: str) -> None:
        """This was typed: up to 4096 bytes."""
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
        """The pointer is at this place (0 to 1), with these buttons down, after it moved and scrolled by so many pixels, right and down."""
        self._native.send_pointer(x, y, (list(buttons), moved, scrolled, captured))

    def send_no_pointer(self) -> None:
        """The pointer has left."""
        self._native.send("no pointer", None)

    def send_touches(self, touches: Sequence[Touch]) -> None:
        """All fingers that touch, up to 10; one that is missing has been lifted."""
        self._native.send("touches", touches)

    def send_gamepads(self, gamepads: Sequence[Gamepad]) -> None:
        """The state of all gamepads, up to 4."""
        self._native.send("gamepads", gamepads)

    def send_devices(
        self, gamepads: Sequence[GamepadInfo] = (), controllers: Sequence[ControllerInfo] = ()
    ) -> None:
        """What gamepads and controllers there are: all of them, whenever one comes or goes."""
        self._native.send("devices", (gamepads, controllers))

    def send_head(self, pose: Pose) -> None:
        """The head is here; what it sees on a screen follows from it."""
        self._native.send("head", pose)

    def send_presence(
        self,
        head: Pose,
        views: Sequence[View],
        *,
        gaze: Pose | None = None,
        controllers: Sequence[Controller] = (),
    ) -> None:
        """Where a headset's eyes and controllers are: one view, or the left and the right one."""
        self._native.send("presence", (head, views, gaze, controllers))

    def send_hand(self, hand: Hand, joints: Sequence[Joint] | None) -> None:
        """The 25 joints of a hand in WebXR's order, the wrist first; None: it is no longer tracked."""
        self._native.send("hand", (hand, joints))

    def send_display(self, display: Display, display_hz: int) -> None:
        """The display is such a one from now on."""
        self._native.send("display", (display, display_hz))

    def send_clipboard(self, text: str) -> None:
        """The user pastes this text."""
        self._native.send("clipboard", text)

    def release_all(self) -> None:
        """The user's attention has moved elsewhere: everything held counts as let go of."""
        self._native.send("release", None)

    def send(self, data: bytes | bytearray | memoryview | str, *, reliable: bool = True) -> None:
        """A message for the application: up to 16384 bytes, or 1100 that may be lost, come twice or be overtaken."""
        self._native.send_message(data.encode() if isinstance(data, str) else bytes(data), reliable)

    # --- everything else ---

    @property
    def head(self) -> Pose:
        """Where the user is, as it was sent last; before, where the server wants the user to begin."""
        return self._native.head()

    def read_sound(self, frames: int = 480) -> tuple[Any, float]:
        """Up to so many sample frames that are due, at 48 kHz: float32 (frames, 2), and when the first one was due. Needs ``sound=True``."""
        samples, at = self._native.read_sound(frames)
        return _arrays.of_sound(samples), at

    @property
    def statistics(self) -> ViewerStatistics:
        """What was counted, as of the last half second."""
        return self._native.statistics()

    def close(self) -> dict[str, Any]:
        """Says goodbye and answers what the run measured (docs/json.md, "nearlight view"). May be called again."""
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
