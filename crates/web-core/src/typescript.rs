//! What the page and the core hand each other: `web/src/generated/core.ts`.

use nearlight_typescript::Module;

use crate::devices::{POINTER_COLUMNS, TOUCH_COLUMNS};
use crate::presence::{MAX_HELD, MAX_VIEWS, POSE_NUMBERS, VIEW};
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
    let view = VIEW.map(|(name, _)| name);
    module.constant(
        "The numbers of a pose: position in metres, unit quaternion.",
        "POSE_COLUMNS",
        &&view[..POSE_NUMBERS],
    );
    module.constant("The numbers of a view: its pose, and the tangents of its edges.", "VIEW_COLUMNS", &view);
    module.constant("Views in a presence, at most.", "MAX_VIEWS", &MAX_VIEWS);
    module.constant("Controllers in a presence, at most.", "MAX_CONTROLLERS", &MAX_HELD);
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
    module.check("core.ts");
}
