//! What the page knows of the wire protocol: `web/src/generated/wire.ts`.

use nearlight_typescript::Module;

use crate::{
    Action, Bytes32, CodecKind, Hand, Pose, RateStatus, RefusalReason, ServerMessage, SoundDescription,
    StreamDescription, WEBTRANSPORT_PATH, Welcome, marker,
};

#[test]
fn the_page_has_the_types_of_today() {
    let mut module = Module::default();
    module.constant("The path of WebTransport's CONNECT request.", "WEBTRANSPORT_PATH", &WEBTRANSPORT_PATH);
    module.constant("Size of the marker in pixels.", "MARKER_SIZE", &[marker::WIDTH, marker::HEIGHT]);
    module.constant("Hands by their codes.", "HANDS", &Hand::ALL);
    module.constant("Actions by their codes.", "ACTIONS", &Action::ALL);
    module.declare::<Hand>();
    module.declare::<Action>();
    module.declare::<Pose>();
    module.declare::<Bytes32>();
    module.declare::<CodecKind>();
    module.declare::<SoundDescription>();
    module.declare::<StreamDescription>();
    module.declare::<Welcome>();
    module.declare::<RateStatus>();
    module.declare::<RefusalReason>();
    module.declare::<ServerMessage>();
    module.check("wire.ts");
}
