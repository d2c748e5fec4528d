//! The X display's selections, for text: `CLIPBOARD`, to which programs copy by a command, and `PRIMARY`, which holds what is selected.
//!
//! Text of either is reported for the viewer in control ([`reader`]). The viewer's text becomes `CLIPBOARD`, and `PRIMARY` too unless that
//! belongs to a program that pastes from `CLIPBOARD` anyway: such programs drop the user's selection, which the pasted text is to replace,
//! when they lose `PRIMARY`. Programs get it at once, or in increments if it is long ([`Transfer`]; ICCCM 2.7.2).

mod reader;

use std::sync::Arc;

use x11rb::connection::Connection as _;
use x11rb::protocol::xfixes::{ConnectionExt as _, SelectionEventMask};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, CreateWindowAux, EventMask, PropMode, Property,
    PropertyNotifyEvent, SELECTION_NOTIFY_EVENT, SelectionNotifyEvent, SelectionRequestEvent, Window, WindowClass,
};
use x11rb::wrapper::ConnectionExt as _;

use self::reader::SelectionReader;
use crate::x11::connection::{Display, XError};

x11rb::atom_manager! {
    pub(crate) Atoms: AtomsCookie {
        CLIPBOARD,
        INCR,
        TARGETS,
        TEXT,
        UTF8_STRING,
        NEARLIGHT_CLIPBOARD,
        NEARLIGHT_PRIMARY,
        UTF8_MIME: b"text/plain;charset=utf-8",
        PLAIN_MIME: b"text/plain",
    }
}

/// Longest text that a program gets in one property, and length of an increment. Guess: far below the 256 KiB of the smallest request
/// limit of X servers, and few round trips.
const INCREMENT_BYTES: usize = 64 * 1_024;
/// Maximum number of texts that programs are reading in increments. Guess: one program pastes at a time.
const MAX_TRANSFERS: usize = 8;
/// Maximum number of requests that wait for a text of the viewer. Guess: a program asks once, for one or two formats.
const MAX_WAITING_REQUESTS: usize = 16;

/// A text that a program has copied or selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopiedText {
    Complete(String),
    /// The text was longer than viewers can get. It has at least this many bytes.
    TooLong(usize),
}

pub(crate) struct Clipboard {
    atoms: Atoms,
    /// Owns selections that have the viewer's text, and receives text of programs.
    window: Window,
    /// The viewer's text.
    text: Arc<str>,
    /// Whether the viewer's next text is on its way. Programs that ask for it wait.
    announced: bool,
    waiting: Vec<SelectionRequestEvent>,
    transfers: Vec<Transfer>,
    /// What programs have copied, and what they have selected.
    copied: SelectionReader,
    selected: SelectionReader,
    /// The last text that was reported for the viewer. If the viewer pastes it, the display already has it.
    reported: Option<String>,
}

/// A text that a program reads in increments.
struct Transfer {
    requestor: Window,
    property: Atom,
    target: Atom,
    bytes: Vec<u8>,
    sent: usize,
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
            // Increments of programs' texts are announced by changes of its properties.
            &CreateWindowAux::new().event_mask(EventMask::PROPERTY_CHANGE),
        )?;
        let changes = SelectionEventMask::SET_SELECTION_OWNER
            | SelectionEventMask::SELECTION_WINDOW_DESTROY
            | SelectionEventMask::SELECTION_CLIENT_CLOSE;
        let copied = SelectionReader::new(atoms.CLIPBOARD, atoms.NEARLIGHT_CLIPBOARD);
        let selected = SelectionReader::new(AtomEnum::PRIMARY.into(), atoms.NEARLIGHT_PRIMARY);
        for selection in [copied.selection, selected.selection] {
            connection.xfixes_select_selection_input(display.root, selection, changes)?;
        }
        Ok(Self {
            atoms,
            window,
            text: "".into(),
            announced: false,
            waiting: Vec::new(),
            transfers: Vec::new(),
            copied,
            selected,
            reported: None,
        })
    }

    /// Prepares for a text of the viewer that takes time to arrive: programs that paste wait for it.
    pub(crate) fn announce(&mut self, display: &Display) -> Result<(), XError> {
        self.announced = true;
        self.own(display)
    }

    /// Puts the viewer's text on the clipboard.
    pub(crate) fn set(&mut self, display: &Display, text: String) -> Result<(), XError> {
        // A program keeps what it has copied, also in formats other than text, if the viewer's clipboard has nothing newer.
        let has_it = self.copied.is_of_program() && self.reported.as_ref() == Some(&text);
        if has_it && !self.announced {
            return Ok(());
        }
        (self.text, self.announced, self.reported) = (text.into(), false, None);
        self.own(display)?;
        for request in std::mem::take(&mut self.waiting) {
            self.on_request(display, &request)?;
        }
        Ok(())
    }

    /// Gives up waiting for the viewer's text: programs get the former one.
    pub(crate) fn withdraw(&mut self, display: &Display) -> Result<(), XError> {
        self.announced = false;
        for request in std::mem::take(&mut self.waiting) {
            self.on_request(display, &request)?;
        }
        Ok(())
    }

    fn own(&mut self, display: &Display) -> Result<(), XError> {
        let takes_primary = !self.selected.has_owner() || self.selected.offers_mime() == Some(false);
        for selection in [Some(self.copied.selection), takes_primary.then_some(self.selected.selection)] {
            let Some(selection) = selection else { continue };
            display.connection.set_selection_owner(self.window, selection, x11rb::CURRENT_TIME)?;
        }
        Ok(())
    }

    fn reader(&mut self, selection: Atom) -> Option<&mut SelectionReader> {
        [&mut self.copied, &mut self.selected].into_iter().find(|reader| reader.selection == selection)
    }

    /// Handles a new owner of a selection, or that it has none. Returns whether [`Self::read_selected`] is to be called once the selection
    /// has settled: programs own it anew whenever the pointer has extended it.
    pub(crate) fn on_owner(&mut self, display: &Display, selection: Atom, owner: Window) -> Result<bool, XError> {
        let (own, atoms, primary) = (self.window, self.atoms, self.selected.selection);
        let Some(reader) = self.reader(selection) else { return Ok(false) };
        let is_of_program = reader.on_owner(own, owner);
        if is_of_program && selection != primary {
            reader.begin(display, &atoms, own)?;
        }
        Ok(is_of_program && selection == primary)
    }

    /// Asks for the text that the user has selected in a program.
    pub(crate) fn read_selected(&mut self, display: &Display) -> Result<(), XError> {
        self.selected.begin(display, &self.atoms, self.window)
    }

    /// Handles an owner's answer. Returns its text, if it is complete.
    pub(crate) fn on_answer(
        &mut self,
        display: &Display,
        answer: &SelectionNotifyEvent,
    ) -> Result<Option<CopiedText>, XError> {
        let (window, atoms) = (self.window, self.atoms);
        let Some(reader) = self.reader(answer.selection).filter(|_| answer.requestor == window) else {
            return Ok(None);
        };
        let text = reader.on_answer(display, &atoms, window, answer)?;
        Ok(self.report(text))
    }

    /// Handles a change of a property: an increment of an owner's text, which it returns once it is complete, or a program that has read an
    /// increment of the viewer's.
    pub(crate) fn on_property(
        &mut self,
        display: &Display,
        change: &PropertyNotifyEvent,
    ) -> Result<Option<CopiedText>, XError> {
        if change.window != self.window {
            if change.state == Property::DELETE {
                self.continue_transfer(display, change.window, change.atom)?;
            }
            return Ok(None);
        }
        let window = self.window;
        if change.state != Property::NEW_VALUE {
            return Ok(None);
        }
        let text = if change.atom == self.copied.property {
            self.copied.on_increment(display, window)?
        } else if change.atom == self.selected.property {
            self.selected.on_increment(display, window)?
        } else {
            None
        };
        Ok(self.report(text))
    }

    /// Remembers what is reported for the viewer. Empty texts are not.
    fn report(&mut self, text: Option<CopiedText>) -> Option<CopiedText> {
        let text = text.filter(|text| *text != CopiedText::Complete(String::new()));
        if let Some(CopiedText::Complete(text)) = &text {
            self.reported = Some(text.clone());
        }
        text
    }

    /// Answers a program's request for the viewer's text, or lets it wait for a text that is on its way.
    pub(crate) fn on_request(&mut self, display: &Display, request: &SelectionRequestEvent) -> Result<(), XError> {
        let (connection, requestor) = (&display.connection, request.requestor);
        // Obsolete clients do not name a property (ICCCM 2.2).
        let property: Atom = if request.property == x11rb::NONE { request.target } else { request.property };
        if request.target == self.atoms.TARGETS {
            let Atoms { TARGETS, UTF8_STRING, UTF8_MIME, PLAIN_MIME, TEXT, .. } = self.atoms;
            let targets = [TARGETS, UTF8_STRING, UTF8_MIME, PLAIN_MIME, TEXT, AtomEnum::STRING.into()];
            connection.change_property32(PropMode::REPLACE, requestor, property, AtomEnum::ATOM, &targets)?;
            return answer(display, request, property);
        }
        let Some((kind, bytes)) = self.converted(request.target) else {
            return answer(display, request, x11rb::NONE);
        };
        if self.announced {
            if self.waiting.len() < MAX_WAITING_REQUESTS {
                self.waiting.push(*request);
                return Ok(());
            }
            return answer(display, request, x11rb::NONE);
        }
        if bytes.len() <= INCREMENT_BYTES {
            connection.change_property8(PropMode::REPLACE, requestor, property, kind, &bytes)?;
            return answer(display, request, property);
        }
        // The root window's events are the window manager's.
        if self.transfers.len() == MAX_TRANSFERS || requestor == display.root || requestor == self.window {
            return answer(display, request, x11rb::NONE);
        }
        // Managed windows have these events selected already.
        let events = EventMask::PROPERTY_CHANGE | EventMask::STRUCTURE_NOTIFY;
        connection.change_window_attributes(requestor, &ChangeWindowAttributesAux::new().event_mask(events))?;
        let length = [bytes.len() as u32];
        connection.change_property32(PropMode::REPLACE, requestor, property, self.atoms.INCR, &length)?;
        self.transfers.retain(|transfer| (transfer.requestor, transfer.property) != (requestor, property));
        self.transfers.push(Transfer { requestor, property, target: kind, bytes, sent: 0 });
        answer(display, request, property)
    }

    /// Ends the transfers to a window that is gone.
    pub(crate) fn on_window_gone(&mut self, window: Window) {
        self.transfers.retain(|transfer| transfer.requestor != window);
        self.waiting.retain(|request| request.requestor != window);
    }

    /// Returns the viewer's text as a target wants it, and its type; `None` for an unknown target.
    fn converted(&self, target: Atom) -> Option<(Atom, Vec<u8>)> {
        let Atoms { UTF8_STRING, UTF8_MIME, PLAIN_MIME, TEXT, .. } = self.atoms;
        if target == Atom::from(AtomEnum::STRING) {
            return Some((target, to_latin1(&self.text)));
        }
        // The owner chooses the encoding of `TEXT`.
        let kind = if target == TEXT { UTF8_STRING } else { target };
        [UTF8_STRING, UTF8_MIME, PLAIN_MIME].contains(&kind).then(|| (kind, self.text.as_bytes().to_vec()))
    }

    fn continue_transfer(&mut self, display: &Display, requestor: Window, property: Atom) -> Result<(), XError> {
        let same = |transfer: &Transfer| (transfer.requestor, transfer.property) == (requestor, property);
        let Some(index) = self.transfers.iter().position(same) else { return Ok(()) };
        let Transfer { target, bytes, sent, .. } = &mut self.transfers[index];
        let end = bytes.len().min(*sent + INCREMENT_BYTES);
        // An empty increment is the end.
        let increment = &bytes[*sent..end];
        display.connection.change_property8(PropMode::REPLACE, requestor, property, *target, increment)?;
        if increment.is_empty() {
            self.transfers.remove(index);
        } else {
            *sent = end;
        }
        Ok(())
    }
}

/// Tells a program that its request was answered in `property`, or refused if that is none.
fn answer(display: &Display, request: &SelectionRequestEvent, property: Atom) -> Result<(), XError> {
    let SelectionRequestEvent { time, requestor, selection, target, .. } = *request;
    let answer = SelectionNotifyEvent {
        response_type: SELECTION_NOTIFY_EVENT,
        sequence: 0,
        time,
        requestor,
        selection,
        target,
        property,
    };
    display.connection.send_event(false, requestor, EventMask::NO_EVENT, answer)?;
    Ok(())
}

/// Encodes a text in ISO 8859-1, which is the encoding of `STRING`. Other characters become question marks.
fn to_latin1(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(u32::from(character)).unwrap_or(b'?')).collect()
}

/// Decodes ISO 8859-1.
fn from_latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_is_latin_1() {
        assert_eq!(to_latin1("Grüße, 5 €"), b"Gr\xfc\xdfe, 5 ?");
        assert_eq!(from_latin1(b"Gr\xfc\xdfe"), "Grüße");
    }
}
