//! The X display's clipboard, for text. Text that programs copy is sent to the viewer, and text that the viewer pastes is put on it.

use nearlight_wire::MAX_CLIPBOARD_BYTES;
use x11rb::connection::Connection as _;
use x11rb::protocol::xfixes::{ConnectionExt as _, SelectionEventMask};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt as _, CreateWindowAux, EventMask, PropMode, SELECTION_NOTIFY_EVENT,
    SelectionNotifyEvent, SelectionRequestEvent, Window, WindowClass,
};
use x11rb::wrapper::ConnectionExt as _;

use crate::connection::{Display, XError};

x11rb::atom_manager! {
    pub(crate) Atoms: AtomsCookie {
        CLIPBOARD,
        UTF8_STRING,
        TARGETS,
        NEARLIGHT_CLIPBOARD,
        PLAIN: b"text/plain;charset=utf-8",
    }
}

pub(crate) struct Clipboard {
    atoms: Atoms,
    /// Owns the clipboard while it has the viewer's text, and receives text that programs copy.
    window: Window,
    text: String,
}

impl Clipboard {
    pub(crate) fn open(display: &Display) -> Result<Self, XError> {
        let connection = &display.connection;
        let atoms = Atoms::new(connection)?.reply()?;
        let window = connection.generate_id()?;
        connection.create_window(
            0,
            window,
            display.root,
            -9,
            -9,
            1,
            1,
            0,
            WindowClass::INPUT_ONLY,
            0,
            &CreateWindowAux::new(),
        )?;
        connection.xfixes_select_selection_input(
            display.root,
            atoms.CLIPBOARD,
            SelectionEventMask::SET_SELECTION_OWNER,
        )?;
        Ok(Self { atoms, window, text: String::new() })
    }

    /// Puts the viewer's text on the clipboard.
    pub(crate) fn set(&mut self, display: &Display, text: String) -> Result<(), XError> {
        self.text = text;
        display.connection.set_selection_owner(self.window, self.atoms.CLIPBOARD, x11rb::CURRENT_TIME)?;
        Ok(())
    }

    /// Requests the text of a new owner of the clipboard.
    pub(crate) fn on_owner(&self, display: &Display, owner: Window) -> Result<(), XError> {
        if owner != self.window && owner != x11rb::NONE {
            let Atoms { CLIPBOARD, UTF8_STRING, NEARLIGHT_CLIPBOARD, .. } = self.atoms;
            display.connection.convert_selection(
                self.window,
                CLIPBOARD,
                UTF8_STRING,
                NEARLIGHT_CLIPBOARD,
                x11rb::CURRENT_TIME,
            )?;
        }
        Ok(())
    }

    /// Handles the owner's answer. Returns its text, if it is one that can be sent to a viewer.
    pub(crate) fn on_answer(&self, display: &Display, answer: &SelectionNotifyEvent) -> Result<Option<String>, XError> {
        if answer.requestor != self.window || answer.property != self.atoms.NEARLIGHT_CLIPBOARD {
            return Ok(None);
        }
        let words = (MAX_CLIPBOARD_BYTES / 4) as u32;
        let property =
            display.connection.get_property(true, self.window, answer.property, AtomEnum::ANY, 0, words)?.reply()?;
        // A text that is longer than the limit arrives in increments, with another type.
        let complete = property.type_ == self.atoms.UTF8_STRING && property.bytes_after == 0;
        Ok(complete.then(|| String::from_utf8(property.value).ok()).flatten().filter(|text| !text.is_empty()))
    }

    /// Answers a program's request for the viewer's text.
    pub(crate) fn on_request(&self, display: &Display, request: &SelectionRequestEvent) -> Result<(), XError> {
        let Atoms { UTF8_STRING, TARGETS, PLAIN, .. } = self.atoms;
        let (connection, requestor) = (&display.connection, request.requestor);
        // Obsolete clients do not name a property (ICCCM 2.2).
        let property: Atom = if request.property == x11rb::NONE { request.target } else { request.property };
        let texts = [UTF8_STRING, PLAIN, AtomEnum::STRING.into()];
        let answered = if request.target == TARGETS {
            let targets = [TARGETS, texts[0], texts[1], texts[2]];
            connection.change_property32(PropMode::REPLACE, requestor, property, AtomEnum::ATOM, &targets)?;
            true
        } else if texts.contains(&request.target) {
            connection.change_property8(
                PropMode::REPLACE,
                requestor,
                property,
                request.target,
                self.text.as_bytes(),
            )?;
            true
        } else {
            false
        };
        let answer = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time: request.time,
            requestor,
            selection: request.selection,
            target: request.target,
            property: if answered { property } else { x11rb::NONE },
        };
        connection.send_event(false, requestor, EventMask::NO_EVENT, answer)?;
        Ok(())
    }
}
