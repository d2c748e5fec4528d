//! The types exchanged by the page and the core: `web/src/generated/core.ts`.

use nearlight_typescript::Module;

use crate::devices::{POINTER_COLUMNS, TOUCH_COLUMNS};
use crate::layout::{CONTROLLER, GAMEPAD, HAND, POSE_COLUMNS, PRESENCE, VIEW_COLUMNS};
use crate::room::{BODY_COLUMNS, OBJECT_COLUMNS, RoomNews, RoomPerson};
use crate::rtp::{PictureCounts, SoundCounts};
use crate::tally::{Sound, Statistics, TransportName, timeline_columns};

#[test]
fn the_page_has_the_types_of_today() {
    let mut module = Module::default();
    module.import("RecoveryKind", "events.ts");
    module.constant(
        "The numbers of a timeline's row: the moment of display, lengths and stages in microseconds, `late` is 0 or 1.",
        "TIMELINE_COLUMNS",
        &timeline_columns(),
    );
    let pose = "The numbers of a pose: position in metres, unit quaternion.";
    module.constant(pose, "POSE_COLUMNS", &POSE_COLUMNS);
    module.constant("The numbers of a view: its pose, and the tangents of its edges.", "VIEW_COLUMNS", &VIEW_COLUMNS);
    let rows = "rows of the same columns, behind their number where that is not always the same";
    module.constant(&format!("Where the user is; {rows}."), "PRESENCE_LAYOUT", &PRESENCE);
    module.constant("Each controller behind it, at most `MAX_CONTROLLERS`.", "CONTROLLER_LAYOUT", &CONTROLLER);
    module.constant("Each gamepad.", "GAMEPAD_LAYOUT", &GAMEPAD);
    module.constant("The joints of a hand.", "HAND_LAYOUT", &HAND);
    module.constant(
        "The numbers of a pointer: fractions of the picture, captured or not, totals in pixels, W3C's `buttons`.",
        "POINTER_COLUMNS",
        &POINTER_COLUMNS,
    );
    module.constant(
        "The numbers of a finger: its name, fractions of the picture, pressure from 0 to 1.",
        "TOUCH_COLUMNS",
        &TOUCH_COLUMNS,
    );
    module.declare::<TransportName>();
    module.constant("Transports in the order in which the page tries them.", "TRANSPORTS", &TransportName::ALL);
    module.declare::<Statistics>();
    module.declare::<Sound>();
    module.declare::<PictureCounts>();
    module.declare::<SoundCounts>();
    module.constant(
        "The numbers of a body in a room before its three poses, of head, left and right hand: `hands` has 1 for a left one, 2 for a right one.",
        "BODY_COLUMNS",
        &BODY_COLUMNS,
    );
    module.constant(
        "The numbers of an object in a room before its pose: `owner` is the member that holds it, or 0.",
        "OBJECT_COLUMNS",
        &OBJECT_COLUMNS,
    );
    module.constant(
        "Longest message of a room, in bytes.",
        "MAX_ROOM_MESSAGE_BYTES",
        &nearlight_rooms::MAX_SNAPSHOT_BYTES,
    );
    module.declare::<RoomPerson<'_>>();
    module.declare::<RoomNews>();
    module.check("core.ts");
}
