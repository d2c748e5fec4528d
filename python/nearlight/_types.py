"""What is handed out and taken: poses, devices, events. All of them are immutable.

Times are seconds on the clock of the server's or viewer's ``now()``. Coordinates are right-handed metres with y up and -z forward, as in
WebXR and OpenXR. Places in the picture are fractions of its width and height, 0 at the left and upper edge. The native part makes these objects with
their fields in order.
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
    """Tangents of the angles between the view axis and the picture's edges: left and down are negative in a usual view."""

    left: float
    right: float
    down: float
    up: float

    @staticmethod
    def symmetric(vertical_degrees: float, aspect: float) -> Fov:
        """A view so high, and ``aspect`` times as wide as high."""
        up = math.tan(math.radians(vertical_degrees) / 2)
        return Fov(-up * aspect, up * aspect, -up, up)


@dataclass(frozen=True, slots=True)
class View:
    """Where an eye, or a camera, is and what it sees."""

    pose: Pose
    fov: Fov


@dataclass(frozen=True, slots=True)
class Pointer:
    """A mouse or a pen. ``captured``: only its movement counts, not where it is."""

    x: float
    y: float
    buttons: frozenset[Button] = frozenset()
    captured: bool = False


@dataclass(frozen=True, slots=True)
class Touch:
    """A finger on a touch screen; ``id`` is not used again."""

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
    """An XR controller, or another thing that points in space along -z of ``aim``. Buttons are those of WebXR's xr-standard mapping."""

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
    """A viewer as its newest input has it."""

    id: int
    #: It acted last, or nobody has acted yet and it has been here longest: a picture for all may be drawn for its views.
    drives: bool
    display: Display
    head: Pose
    #: What to draw for it now: a headset's views as they will be at ``display_at``, a screen's as they are. Empty before its first input.
    views: tuple[View, ...]
    #: When a picture that is submitted now is displayed; an estimate before pictures were displayed.
    display_at: float
    #: Keys that are down, by W3C's codes, such as ``KeyW``.
    keys: frozenset[str]
    pointer: Pointer | None
    touches: tuple[Touch, ...]
    gamepads: tuple[Gamepad, ...]
    controllers: tuple[Controller, ...]
    #: Where the eyes look from, along -z; only where the user allows it.
    gaze: Pose | None
    #: 25 joints in WebXR's order, the wrist first, where the hand is tracked.
    left_hand: tuple[Joint, ...] | None
    right_hand: tuple[Joint, ...] | None


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """How a stream is coded. ``views`` is 2 for two eyes side by side."""

    codec: str
    width: int
    height: int
    fps: int
    encoder: str
    source: str
    views: int


@dataclass(frozen=True, slots=True)
class GamepadInfo:
    """A gamepad that a viewer has. ``haptics``: it can rumble."""

    index: int
    name: str
    haptics: bool


@dataclass(frozen=True, slots=True)
class ControllerInfo:
    """A controller that a viewer has, with WebXR's input profiles, most specific first."""

    hand: Hand
    profiles: tuple[str, ...]
    haptics: bool


# --- events ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. ``viewer`` is None for what concerns no viewer, and in the events of a viewer's own program."""

    at: float
    viewer: int | None


@dataclass(frozen=True, slots=True)
class ViewerJoined(Event):
    """Pictures go to this viewer from now on."""


@dataclass(frozen=True, slots=True)
class ViewerLeft(Event):
    """Whatever the viewer held counts as let go of."""


@dataclass(frozen=True, slots=True)
class Moved(Event):
    """Head, pointer, sticks or hands moved. Comes once for however many movements until it is taken; None: the viewer has left since."""

    state: ViewerState | None


@dataclass(frozen=True, slots=True)
class PointerMoved(Event):
    """The pointer moved by so many CSS pixels, right and down, since the last event of this kind."""

    pointer: Pointer
    dx: int
    dy: int


@dataclass(frozen=True, slots=True)
class Wheel(Event):
    """Scrolled by so many CSS pixels, right and down."""

    dx: float
    dy: float


@dataclass(frozen=True, slots=True)
class Key(Event):
    """A key was pressed or released.

    ``code`` names its place on the keyboard (W3C's ``KeyboardEvent.code``, such as ``KeyW``, ``Space``, ``ArrowLeft``; ``Unidentified`` where it has
    none), ``usage`` is its USB HID usage, page << 16 | usage.
    """

    code: str
    pressed: bool
    usage: int


@dataclass(frozen=True, slots=True)
class Text(Event):
    """This was typed: up to 32 bytes of text."""

    text: str


@dataclass(frozen=True, slots=True)
class PointerButton(Event):
    """A button of mouse or pen, and where the pointer was."""

    button: Button
    pressed: bool
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class TouchBegan(Event):
    """A finger touched."""

    id: int
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class TouchEnded(Event):
    """A finger was lifted, or taken away by the system (``cancelled``)."""

    id: int
    x: float
    y: float
    cancelled: bool


@dataclass(frozen=True, slots=True)
class GamepadButton(Event):
    """A button of a gamepad, in W3C's standard mapping."""

    gamepad: int
    button: int
    pressed: bool


@dataclass(frozen=True, slots=True)
class ControllerButton(Event):
    """A button of an XR controller, in WebXR's xr-standard mapping: 0 trigger, 1 squeeze, 2 touchpad, 3 thumbstick, then its own."""

    hand: Hand
    button: int
    pressed: bool


@dataclass(frozen=True, slots=True)
class DevicesChanged(Event):
    """The viewer's gamepads and controllers are these from now on."""

    gamepads: tuple[GamepadInfo, ...]
    controllers: tuple[ControllerInfo, ...]


@dataclass(frozen=True, slots=True)
class Message(Event):
    """From the viewer's page or program, or from the application. ``reliable``: it came once and in order."""

    data: bytes
    reliable: bool


@dataclass(frozen=True, slots=True)
class Clipboard(Event):
    """A clipboard has this text."""

    text: str


@dataclass(frozen=True, slots=True)
class LinksChanged(Event):
    """The certificate was renewed: new viewers need one of the new links."""


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """No picture leaves or comes any more; ``reason`` is None where the program itself closed."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """A server has welcomed the viewer: at first, and after each loss of the connection."""

    server: str
    stream: StreamInfo
    controller: str


@dataclass(frozen=True, slots=True)
class ConnectionLost(Event):
    """The viewer tries to open another connection. What was held counts as let go of."""

    reason: str


@dataclass(frozen=True, slots=True)
class StreamChanged(Event):
    """The stream is coded so from now on."""

    stream: StreamInfo


@dataclass(frozen=True, slots=True)
class Haptics(Event):
    """A gamepad, or the controller of a hand, is to shake for so many seconds, its strong and its weak motor so much, 0 to 1."""

    gamepad: int | None
    hand: Hand | None
    seconds: float
    strong: float
    weak: float


@dataclass(frozen=True, slots=True)
class PointerRequested(Event):
    """How the application wants the pointer: a keyword of CSS' ``cursor`` or ``image``; ``captured``: for its movement alone."""

    shape: str
    captured: bool


# --- figures ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """What was counted since a viewer came, as of the last fifth of a second. Rates in bits a second, the round trip in seconds."""

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
    """What was counted since the server was opened. ``unwatched`` pictures were dropped unconverted, because nobody watched.

    ``sound_dropped`` sample frames were submitted faster than they are heard, or nobody listened."""

    submitted: int
    unwatched: int
    events_dropped: int
    viewers: tuple[SessionStatistics, ...] = field(default=())
    sound_dropped: int = 0


@dataclass(frozen=True, slots=True)
class ViewerStatistics:
    """What a viewer has counted, as of the last half second; ``packets_lost`` and ``frames_*`` are of the newest connection."""

    connected: bool
    connections: int
    #: Pictures displayed a second.
    fps: float
    #: Median from an input to the display of the first picture that shows it, in seconds.
    motion_to_photon: float | None
    received_bps: int
    frames_decoded: int
    frames_displayed: int
    frames_lost: int
    packets_lost: int
    #: In seconds; None before the clocks were compared.
    round_trip: float | None
    pictures_passed_over: int
    events_dropped: int
