//! The page's types of events: `web/src/generated/events.ts`.

use nearlight_typescript::Module;

use crate::{RecoveryKind, STAGES, Stage};

#[test]
fn the_page_has_the_types_of_today() {
    let mut module = Module::default();
    module.constant("All stages in the order that a frame passes them.", "STAGES", &STAGES);
    module.declare::<Stage>();
    module.declare::<RecoveryKind>();
    module.check("events.ts");
}
