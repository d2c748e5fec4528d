//! Generates the page's types of the wire protocol: `web/src/generated/wire.ts`.

use nearlight_typescript::Module;

use crate::{
    Base64, Bytes32, CodecKind, ControllerDescription, CursorShape, DevicesDescription, GamepadDescription, Hand,
    Haptics, HapticsTarget, MAX_CLIPBOARD_BYTES, MAX_CONTROLLERS, MAX_GAMEPADS, MAX_RELIABLE_MESSAGE_BYTES,
    MAX_TOUCHES, MAX_UNRELIABLE_MESSAGE_BYTES, Pose, ROOMS_PATH, RateStatus, RefusalReason, SERVED_GAMEPAD,
    ServerMessage, SoundDescription, StreamDescription, UserRole, WEBTRANSPORT_PATH, Welcome,
};

#[test]
fn the_page_has_the_types_of_today() {
    let mut module = Module::default();
    module.constant("The path of WebTransport's CONNECT request.", "WEBTRANSPORT_PATH", &WEBTRANSPORT_PATH);
    module.constant("The path at which rooms are joined.", "ROOMS_PATH", &ROOMS_PATH);
    module.constant("Hands by their codes.", "HANDS", &Hand::ALL);
    for (docs, name, value) in [
        ("Gamepads of a user, at most.", "MAX_GAMEPADS", MAX_GAMEPADS),
        ("Controllers of a user, at most.", "MAX_CONTROLLERS", MAX_CONTROLLERS),
        ("Fingers, at most.", "MAX_TOUCHES", MAX_TOUCHES),
        ("Bytes of a clipboard's text.", "MAX_CLIPBOARD_BYTES", MAX_CLIPBOARD_BYTES),
        ("Bytes of a message that is not lost.", "MAX_RELIABLE_MESSAGE_BYTES", MAX_RELIABLE_MESSAGE_BYTES),
        ("Bytes of one that may be.", "MAX_UNRELIABLE_MESSAGE_BYTES", MAX_UNRELIABLE_MESSAGE_BYTES),
    ] {
        module.constant(docs, name, &value);
    }
    module.constant(
        "Ends the names of gamepads that a server has made for a program.",
        "SERVED_GAMEPAD",
        &SERVED_GAMEPAD,
    );
    module.declare::<Hand>();
    module.declare::<Base64>();
    module.declare::<HapticsTarget>();
    module.declare::<Haptics>();
    module.declare::<CursorShape>();
    module.declare::<GamepadDescription>();
    module.declare::<ControllerDescription>();
    module.declare::<DevicesDescription>();
    module.declare::<Pose>();
    module.declare::<Bytes32>();
    module.declare::<CodecKind>();
    module.declare::<SoundDescription>();
    module.declare::<StreamDescription>();
    module.declare::<UserRole>();
    module.declare::<Welcome>();
    module.declare::<RateStatus>();
    module.declare::<RefusalReason>();
    module.declare::<ServerMessage>();
    module.check("wire.ts");
}
