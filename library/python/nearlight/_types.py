"""Types of arguments and results: poses, devices, events, statistics. All of them are immutable.

Times are seconds on the clock of the server's or viewer's ``now()``. Coordinates are right-handed metres with y up and -z forward, as in
WebXR and OpenXR. Positions in the picture are fractions of its width and height, 0 at the left and upper edge. The native part creates these
objects with their fields in order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

Display = Literal["screen", "headset"]
Hand = Literal["left", "right", "none"]
Button = Literal["left", "middle", "right", "back", "forward"]


@dataclass(frozen=True, slots=True)
class Pose:
    """A position in metres and an orientation as a unit quaternion x, y, z, w."""

    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    orientation: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Fov:
    """Tangents of the angles between the view axis and the picture's edges: left and down are usually negative."""

    left: float
    right: float
    down: float
    up: float

    @staticmethod
    def symmetric(vertical_degrees: float, aspect: float) -> Fov:
        """Returns the field of view of this height in degrees for a picture that is ``aspect`` times as wide as high."""
        up = math.tan(math.radians(vertical_degrees) / 2)
        return Fov(-up * aspect, up * aspect, -up, up)


@dataclass(frozen=True, slots=True)
class View:
    """The pose of an eye or a camera, and its field of view."""

    pose: Pose
    fov: Fov


@dataclass(frozen=True, slots=True)
class Pointer:
    """A mouse or a pen. When it is ``captured``, only its movement counts, not its position."""

    x: float
    y: float
    buttons: frozenset[Button] = frozenset()
    captured: bool = False


@dataclass(frozen=True, slots=True)
class Touch:
    """A finger on a touch screen. Its ``id`` is never reused."""

    id: int
    x: float
    y: float
    pressure: float = 1.0


@dataclass(frozen=True, slots=True)
class Gamepad:
    """A gamepad in the standard mapping of W3C's Gamepad.

    ``values`` are how far each button is down, 0 to 1; ``axes`` are left stick right and down, right stick right and down, -1 to 1.
    """

    index: int = 0
    buttons: tuple[bool, ...] = ()
    values: tuple[float, ...] = ()
    axes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Controller:
    """An XR controller, or another device that points in space along -z of ``aim``. Buttons are those of WebXR's xr-standard mapping."""

    hand: Hand
    aim: Pose
    grip: Pose | None = None
    buttons: tuple[bool, ...] = ()
    touched: tuple[bool, ...] = ()
    values: tuple[float, ...] = ()
    axes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Joint:
    """A joint of a hand, and the distance from it to the skin in metres."""

    pose: Pose
    radius: float = 0.0


@dataclass(frozen=True, slots=True)
class ViewerState:
    """The state of a viewer according to its newest input."""

    id: int
    #: Whether a picture for all viewers should be drawn for its views: it acted last, or nobody has acted yet and it connected first.
    drives: bool
    display: Display
    head: Pose
    #: The views to draw now: for a headset those predicted for ``display_at``, for a screen the current ones. Empty before its first input.
    views: tuple[View, ...]
    #: The time when a picture that is submitted now will be displayed. A default estimate until pictures have been displayed.
    display_at: float
    #: W3C codes of the keys that are down, such as ``KeyW``.
    keys: frozenset[str]
    pointer: Pointer | None
    touches: tuple[Touch, ...]
    gamepads: tuple[Gamepad, ...]
    controllers: tuple[Controller, ...]
    #: The pose of the gaze, which looks along -z. Only when the user allows it.
    gaze: Pose | None
    #: 25 joints in WebXR's order, the wrist first; None when the hand is not tracked.
    left_hand: tuple[Joint, ...] | None
    right_hand: tuple[Joint, ...] | None


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """The coding of a stream. ``views`` is 2 for two eyes side by side."""

    codec: str
    width: int
    height: int
    fps: int
    encoder: str
    source: str
    views: int


@dataclass(frozen=True, slots=True)
class GamepadInfo:
    """A gamepad of a viewer. ``haptics`` says whether it can rumble."""

    index: int
    name: str
    haptics: bool


@dataclass(frozen=True, slots=True)
class ControllerInfo:
    """A controller of a viewer, with WebXR's input profiles, the most specific first."""

    hand: Hand
    profiles: tuple[str, ...]
    haptics: bool


# --- events ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """An event. ``viewer`` is None when the event concerns no viewer, and in the events of a :class:`Viewer`."""

    at: float
    viewer: int | None


@dataclass(frozen=True, slots=True)
class ViewerJoined(Event):
    """The viewer has connected and receives pictures from now on."""


@dataclass(frozen=True, slots=True)
class ViewerLeft(Event):
    """The viewer has left. Keys and buttons that it held count as released."""


@dataclass(frozen=True, slots=True)
class Moved(Event):
    """Head, pointer, sticks or hands have moved. Movements are combined until the event is taken. The state is None when the viewer has left."""

    state: ViewerState | None


@dataclass(frozen=True, slots=True)
class PointerMoved(Event):
    """The pointer has moved. ``dx`` and ``dy`` are CSS pixels to the right and down since the last event of this kind."""

    pointer: Pointer
    dx: int
    dy: int


@dataclass(frozen=True, slots=True)
class Wheel(Event):
    """The user has scrolled by ``dx`` and ``dy`` CSS pixels to the right and down."""

    dx: float
    dy: float


@dataclass(frozen=True, slots=True)
class Key(Event):
    """A key was pressed or released.

    ``code`` names its position on the keyboard (W3C's ``KeyboardEvent.code``, such as ``KeyW``, ``Space``, ``ArrowLeft``; ``Unidentified`` when it
    has none), ``usage`` is its USB HID usage, page << 16 | usage.
    """

    code: str
    pressed: bool
    usage: int


@dataclass(frozen=True, slots=True)
class KeyRepeated(Event):
    """A key is still down, and the user's system repeats it. The text that it types follows. ``code`` and ``usage`` are as in ``Key``."""

    code: str
    usage: int


@dataclass(frozen=True, slots=True)
class KeyCharacter(Event):
    """With its next press, a key is a command that means ``character`` in the user's layout, such as Control and a letter. ``code`` and ``usage``
    are as in ``Key``.
    """

    code: str
    character: str
    usage: int


@dataclass(frozen=True, slots=True)
class Text(Event):
    """The user has typed a text of up to 32 bytes."""

    text: str


@dataclass(frozen=True, slots=True)
class PointerButton(Event):
    """A button of a mouse or pen was pressed or released, with the pointer at ``x`` and ``y``."""

    button: Button
    pressed: bool
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class TouchBegan(Event):
    """A finger has touched the screen."""

    id: int
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class TouchEnded(Event):
    """A finger was lifted, or the system ended its touch (``cancelled``)."""

    id: int
    x: float
    y: float
    cancelled: bool


@dataclass(frozen=True, slots=True)
class GamepadButton(Event):
    """A button of a gamepad in W3C's standard mapping was pressed or released."""

    gamepad: int
    button: int
    pressed: bool


@dataclass(frozen=True, slots=True)
class ControllerButton(Event):
    """A button of an XR controller was pressed or released. WebXR's xr-standard mapping: 0 trigger, 1 squeeze, 2 touchpad, 3 thumbstick, then others."""

    hand: Hand
    button: int
    pressed: bool


@dataclass(frozen=True, slots=True)
class DevicesChanged(Event):
    """The viewer's gamepads and controllers have changed; these are all of them."""

    gamepads: tuple[GamepadInfo, ...]
    controllers: tuple[ControllerInfo, ...]


@dataclass(frozen=True, slots=True)
class Message(Event):
    """A message from the viewer's page or program, or from the application. ``reliable`` says whether messages of its kind arrive once and in order."""

    data: bytes
    reliable: bool


@dataclass(frozen=True, slots=True)
class Clipboard(Event):
    """The other side's clipboard has a new text."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """The server or the viewer has ended. ``reason`` is None when the program has closed it."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """A server has welcomed the viewer, at first or after a loss of the connection."""

    server: str
    stream: StreamInfo
    controller: str


@dataclass(frozen=True, slots=True)
class ConnectionLost(Event):
    """The connection was lost, and the viewer tries to open another one. Keys and buttons that were held count as released."""

    reason: str


@dataclass(frozen=True, slots=True)
class StreamChanged(Event):
    """The coding of the stream has changed."""

    stream: StreamInfo


@dataclass(frozen=True, slots=True)
class Haptics(Event):
    """A gamepad, or the controller of a hand, must vibrate. The strengths of the strong and the weak motor are 0 to 1."""

    gamepad: int | None
    hand: Hand | None
    seconds: float
    strong: float
    weak: float


@dataclass(frozen=True, slots=True)
class PointerRequested(Event):
    """The pointer that the application requests: a keyword of CSS ``cursor``, or ``image``. When ``captured``, only its movement is reported."""

    shape: str
    captured: bool


# --- statistics ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """Counters since a viewer connected, updated every fifth of a second. Rates are in bits a second, the round trip is in seconds."""

    viewer: int
    frames: int
    frames_skipped: int
    key_frames: int
    packets: int
    packets_lost: int
    retransmissions: int
    repairs: int
    bytes: int
    sent_bps: int
    target_bps: int
    round_trip: float | None


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    """Counters since the server was opened. ``unwatched`` counts pictures that were dropped without conversion because nobody watched.

    ``sound_dropped`` counts sample frames that were submitted faster than they are played, or while nobody listened."""

    submitted: int
    unwatched: int
    events_dropped: int
    viewers: tuple[SessionStatistics, ...] = field(default=())
    sound_dropped: int = 0


@dataclass(frozen=True, slots=True)
class ViewerStatistics:
    """Counters of a viewer, updated every half second. ``packets_lost`` and ``frames_*`` are those of the newest connection."""

    connected: bool
    connections: int
    #: Displayed pictures a second.
    fps: float
    #: Median time from an input to the display of the first picture that shows it, in seconds.
    motion_to_photon: float | None
    received_bps: int
    frames_decoded: int
    frames_displayed: int
    frames_lost: int
    packets_lost: int
    #: Round-trip time in seconds; None before the clocks were compared.
    round_trip: float | None
    pictures_passed_over: int
    events_dropped: int
