//! The connection to the X server of the program's window, for input and the pointer's shape.

use nearlight_wire::{Base64, CursorShape, MAX_CURSOR_SIDE};
use x11rb::connection::Connection as _;
use x11rb::errors::ReplyError;
use x11rb::protocol::Event;
use x11rb::protocol::xfixes::{self, ConnectionExt as _, CursorNotifyMask};
use x11rb::protocol::xinput::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{
    AtomEnum, AutoRepeatMode, BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, ChangeWindowAttributesAux, ClientMessageEvent,
    ConnectionExt as _, EventMask, ExposeEvent, InputFocus, KEY_PRESS_EVENT, KEY_RELEASE_EVENT, MOTION_NOTIFY_EVENT,
    MapState, Window,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;
use x11rb::{CURRENT_TIME, NONE};

/// The first version of `XFIXES_VERSION` that reports the cursor's image and its changes.
const XFIXES_VERSION: (u32, u32) = (2, 0);
/// The X server's name of the keyboard whose keys XTEST presses ends with this.
const XTEST_KEYBOARD: &[u8] = b"XTEST keyboard";
/// Bytes of the keyboard feedback control (`XInput` 1.5, section 2.17).
const FEEDBACK_BYTES: u16 = 20;
/// Maximum number of levels of the window tree that are searched. Guess: a window manager adds two or three levels to a program's one or
/// two.
const MAX_TREE_DEPTH: usize = 16;
/// The source indication of a pager, which acts for the user, in `_NET_ACTIVE_WINDOW` (EWMH).
const SOURCE_PAGER: u32 = 2;

/// A separate connection to the program's X server. It does not affect the program's events, because event masks belong to connections.
#[derive(Debug)]
pub(crate) struct XDisplay {
    connection: RustConnection,
    root: Window,
    has_cursor: bool,
}

/// The pointer's shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PointerShape {
    pub(crate) cursor: CursorShape,
    /// Whether the program has hidden it, as programs do that use its movement only.
    pub(crate) hidden: bool,
}

/// A change that the X server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Cursor,
    Size,
    Other,
}

impl XDisplay {
    /// Connects to the display of this name, or to the one named in the environment.
    pub(crate) fn open(display: Option<&str>) -> Result<Self, String> {
        let (connection, screen) =
            RustConnection::connect(display).map_err(|error| format!("cannot connect to the X server: {error}"))?;
        let root = connection.setup().roots[screen].root;
        let failed = |error: ReplyError| format!("the X server has no XTEST, which input needs: {error}");
        let version = connection.xtest_get_version(2, 2).map_err(|error| error.to_string())?;
        version.reply().map_err(failed)?;
        let version = connection
            .xfixes_query_version(XFIXES_VERSION.0, XFIXES_VERSION.1)
            .ok()
            .and_then(|cookie| cookie.reply().ok());
        let has_cursor = version.is_some_and(|version| version.major_version >= XFIXES_VERSION.0);
        let display = Self { connection, root, has_cursor };
        // Without it, the X server repeats held keys in addition to the viewer's system.
        let _ = display.stop_repeats();
        Ok(display)
    }

    /// Stops the X server from repeating the held keys of the injected keyboard, because the viewer's system repeats them. The user's own
    /// keyboard is left as it is.
    fn stop_repeats(&self) -> Result<(), ReplyError> {
        let devices = self.connection.xinput_list_input_devices()?.reply()?;
        let mut named = devices.devices.iter().zip(&devices.names);
        let Some((device, _)) = named.find(|(_, name)| name.name.ends_with(XTEST_KEYBOARD)) else { return Ok(()) };
        let data = xinput::FeedbackCtlDataKeyboard {
            key: 0,
            auto_repeat_mode: u32::from(AutoRepeatMode::OFF) as u8,
            key_click_percent: 0,
            bell_percent: 0,
            bell_pitch: 0,
            bell_duration: 0,
            led_mask: 0,
            led_values: 0,
        };
        let data = xinput::FeedbackCtlData::Keyboard(data);
        let feedback = xinput::FeedbackCtl { feedback_id: 0, len: FEEDBACK_BYTES, data };
        let mask = xinput::ChangeFeedbackControlMask::AUTO_REPEAT_MODE;
        self.connection.xinput_change_feedback_control(mask, device.device_id, 0, feedback)?.check()
    }

    fn send(&self) {
        // The thread that waits for events notices if the connection has ended.
        let _ = self.connection.flush();
    }

    /// Finds the program's window: `hint` if it is a visible window, and otherwise a window of this process with this size.
    pub(crate) fn find_window(&self, hint: Option<u32>, size: (u16, u16)) -> Option<Window> {
        let is_window = |window: &Window| {
            let attributes = self.connection.get_window_attributes(*window).ok()?.reply().ok()?;
            (attributes.map_state == MapState::VIEWABLE).then_some(())
        };
        hint.filter(|window| *window != self.root && is_window(window).is_some()).or_else(|| self.own_window(size))
    }

    /// Finds a window whose `_NET_WM_PID` is this process, and whose size rounded down to even numbers is `size`.
    fn own_window(&self, size: (u16, u16)) -> Option<Window> {
        let name = self.connection.intern_atom(true, b"_NET_WM_PID").ok()?.reply().ok()?.atom;
        let mut level = vec![self.root];
        for _ in 0..MAX_TREE_DEPTH {
            let mut next = Vec::new();
            for window in level {
                let Ok(Ok(tree)) = self.connection.query_tree(window).map(x11rb::cookie::Cookie::reply) else {
                    continue;
                };
                next.extend(tree.children);
            }
            let is_ours = |window: &&Window| {
                let property = self.connection.get_property(false, **window, name, AtomEnum::CARDINAL, 0, 1).ok()?;
                let geometry = self.connection.get_geometry(**window).ok()?.reply().ok()?;
                let process = property.reply().ok()?.value32()?.next()?;
                let same = (geometry.width & !1, geometry.height & !1) == size;
                (process == std::process::id() && same).then_some(())
            };
            if let Some(window) = next.iter().find(|window| is_ours(window).is_some()) {
                return Some(*window);
            }
            level = next;
        }
        None
    }

    /// Subscribes to changes of the window and of the pointer. Returns whether the window can be watched.
    pub(crate) fn watch(&self, window: Window) -> bool {
        let mask = ChangeWindowAttributesAux::new().event_mask(EventMask::STRUCTURE_NOTIFY);
        let watched = self.connection.change_window_attributes(window, &mask);
        if self.has_cursor {
            let _ = self.connection.xfixes_select_cursor_input(self.root, CursorNotifyMask::DISPLAY_CURSOR);
        }
        watched.is_ok_and(|cookie| cookie.check().is_ok())
    }

    /// Waits for the next change. Returns `None` when the connection has ended.
    pub(crate) fn wait(&self) -> Option<Change> {
        match self.connection.wait_for_event().ok()? {
            Event::XfixesCursorNotify(_) => Some(Change::Cursor),
            Event::ConfigureNotify(_) => Some(Change::Size),
            _ => Some(Change::Other),
        }
    }

    /// Returns the pointer's current shape; `None` if the X server does not report it.
    pub(crate) fn pointer_shape(&self) -> Option<PointerShape> {
        if !self.has_cursor {
            return None;
        }
        let xfixes::GetCursorImageReply { width, height, xhot, yhot, cursor_image, .. } =
            self.connection.xfixes_get_cursor_image().ok()?.reply().ok()?;
        Some(pointer_shape((width, height), (xhot, yhot), &cursor_image))
    }

    /// Makes programs that draw on request only draw once.
    pub(crate) fn expose(&self, window: Window, (width, height): (u16, u16)) {
        let event = ExposeEvent { response_type: 12, window, width, height, ..ExposeEvent::default() };
        let _ = self.connection.send_event(false, window, EventMask::EXPOSURE, event);
        self.send();
    }

    /// Returns the window's left and top edge on the screen, and its width and height.
    fn geometry(&self, window: Window) -> Option<([i16; 2], [u16; 2])> {
        let corner = self.connection.translate_coordinates(window, self.root, 0, 0).ok()?;
        let size = self.connection.get_geometry(window).ok()?;
        let (corner, size) = (corner.reply().ok()?, size.reply().ok()?);
        Some(([corner.dst_x, corner.dst_y], [size.width, size.height]))
    }

    /// Moves the pointer to a position in the window, in fractions of its width and height.
    pub(crate) fn move_to(&self, window: Window, fractions: [f32; 2]) {
        let Some((corner, size)) = self.geometry(window) else { return };
        let [x, y] = [0, 1].map(|axis| {
            let last = f32::from(size[axis].saturating_sub(1));
            (f32::from(corner[axis]) + (fractions[axis] * last).round()) as i16
        });
        let _ = self.connection.xtest_fake_input(MOTION_NOTIFY_EVENT, 0, CURRENT_TIME, self.root, x, y, 0);
        self.send();
    }

    /// Moves the pointer by this many pixels.
    pub(crate) fn move_by(&self, [right, down]: [i16; 2]) {
        let _ = self.connection.xtest_fake_input(MOTION_NOTIFY_EVENT, 1, CURRENT_TIME, self.root, right, down, 0);
        self.send();
    }

    pub(crate) fn button(&self, number: u8, pressed: bool) {
        let kind = if pressed { BUTTON_PRESS_EVENT } else { BUTTON_RELEASE_EVENT };
        let _ = self.connection.xtest_fake_input(kind, number, CURRENT_TIME, self.root, 0, 0, 0);
        self.send();
    }

    pub(crate) fn key(&self, keycode: u8, pressed: bool) {
        let kind = if pressed { KEY_PRESS_EVENT } else { KEY_RELEASE_EVENT };
        let _ = self.connection.xtest_fake_input(kind, keycode, CURRENT_TIME, self.root, 0, 0, 0);
        self.send();
    }

    /// Returns the window and its ancestors, without the root.
    fn with_ancestors(&self, window: Window) -> Vec<Window> {
        let mut found = vec![window];
        while found.len() < MAX_TREE_DEPTH {
            let last = found[found.len() - 1];
            let Ok(Ok(tree)) = self.connection.query_tree(last).map(x11rb::cookie::Cookie::reply) else { break };
            if tree.parent == self.root || tree.parent == NONE {
                break;
            }
            found.push(tree.parent);
        }
        found
    }

    /// Returns whether keys go to the window, one of its ancestors or one of its descendants.
    pub(crate) fn has_focus(&self, window: Window) -> bool {
        let focus = self.connection.get_input_focus().ok().and_then(|cookie| cookie.reply().ok());
        let Some(focus) = focus.map(|focus| focus.focus) else { return false };
        match focus {
            NONE => false,
            // Keys go to the window below the pointer.
            1 => self.is_below_pointer(window),
            focus if focus == self.root => self.is_below_pointer(window),
            focus => self.with_ancestors(window).contains(&focus) || self.with_ancestors(focus).contains(&window),
        }
    }

    /// Returns whether buttons go to the window.
    pub(crate) fn is_below_pointer(&self, window: Window) -> bool {
        let mut at = self.root;
        for _ in 0..MAX_TREE_DEPTH {
            let Ok(Ok(pointer)) = self.connection.query_pointer(at).map(x11rb::cookie::Cookie::reply) else { break };
            match pointer.child {
                NONE => break,
                child if child == window => return true,
                child => at = child,
            }
        }
        false
    }

    /// Requests the focus for the window from the window manager, or from the X server if there is none.
    pub(crate) fn focus(&self, window: Window) {
        let outermost = self.with_ancestors(window).pop().unwrap_or(window);
        match self.activation_message() {
            Some(active) => {
                let data = [SOURCE_PAGER, CURRENT_TIME, 0, 0, 0];
                let event = ClientMessageEvent::new(32, window, active, data);
                let mask = EventMask::SUBSTRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_REDIRECT;
                let _ = self.connection.send_event(false, self.root, mask, event);
            }
            None => {
                let _ = self.connection.set_input_focus(InputFocus::POINTER_ROOT, outermost, CURRENT_TIME);
            }
        }
        self.send();
    }

    /// Returns the atom of the message that activates a window; `None` without a window manager.
    fn activation_message(&self) -> Option<u32> {
        let atom = |name: &[u8]| Some(self.connection.intern_atom(true, name).ok()?.reply().ok()?.atom);
        let check = atom(b"_NET_SUPPORTING_WM_CHECK").filter(|atom| *atom != NONE)?;
        let there = self.connection.get_property(false, self.root, check, AtomEnum::WINDOW, 0, 1).ok()?.reply().ok()?;
        let manager = there.value32()?.next()?;
        self.connection.get_window_attributes(manager).ok()?.reply().ok()?;
        atom(b"_NET_ACTIVE_WINDOW").filter(|atom| *atom != NONE)
    }
}

/// Converts a cursor of X, whose pixels are premultiplied ARGB values, for clients.
fn pointer_shape((width, height): (u16, u16), (xhot, yhot): (u16, u16), pixels: &[u32]) -> PointerShape {
    if pixels.iter().all(|pixel| pixel >> 24 == 0) {
        return PointerShape { cursor: CursorShape::Named("none".into()), hidden: true };
    }
    let fits = |side: u16| u8::try_from(side).ok().filter(|side| (1..=MAX_CURSOR_SIDE).contains(side));
    let shape = || {
        let (width, height) = (fits(width)?, fits(height)?);
        let hotspot = [xhot.min(u16::from(width) - 1) as u8, yhot.min(u16::from(height) - 1) as u8];
        let rgba = pixels.iter().flat_map(|pixel| {
            let [opacity, red, green, blue] = pixel.to_be_bytes();
            let part = |value: u8| (u32::from(value) * 255 / u32::from(opacity.max(1))).min(255) as u8;
            [part(red), part(green), part(blue), opacity]
        });
        Some(CursorShape::Image { width, height, hotspot, rgba: Base64(rgba.collect()) })
    };
    // Clients show their default cursor instead of one that is too large.
    PointerShape { cursor: shape().unwrap_or_else(|| CursorShape::Named("default".into())), hidden: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_told_as_clients_take_them() {
        let hidden = pointer_shape((1, 1), (0, 0), &[0x00ff_ffff]);
        assert_eq!((hidden.hidden, hidden.cursor), (true, CursorShape::Named("none".into())));
        let half_red = pointer_shape((1, 2), (5, 1), &[0x8040_0000, 0]);
        let rgba = Base64(vec![127, 0, 0, 128, 0, 0, 0, 0]);
        assert_eq!(half_red.cursor, CursorShape::Image { width: 1, height: 2, hotspot: [0, 1], rgba });
        assert!(!half_red.hidden);
        let large = pointer_shape((200, 1), (0, 0), &[u32::MAX; 200]);
        assert_eq!(large.cursor, CursorShape::Named("default".into()));
    }
}
