//! Reads the text of a selection's owner: first the list of formats that it offers, then the text in the best of them, in one property or in
//! increments.

use nearlight_wire::MAX_CLIPBOARD_BYTES;
use x11rb::protocol::xproto::{Atom, AtomEnum, ConnectionExt as _, SelectionNotifyEvent, Window};

use super::{Atoms, CopiedText, from_latin1};
use crate::x11::connection::{Display, XError};

/// The state of a selection, and of reading it.
pub(super) struct SelectionReader {
    pub(super) selection: Atom,
    /// The property of our window into which the owner writes.
    pub(super) property: Atom,
    owner: Owner,
    state: State,
}

/// The selection's owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    None,
    /// It has the viewer's text.
    Viewer,
    /// A program, and whether it offers formats by their MIME types, as toolkits do that copy and paste by commands; `None` if it has not
    /// answered yet.
    Program {
        offers_mime: Option<bool>,
    },
}

enum State {
    /// Nothing is being read.
    Idle,
    /// The owner was asked for its formats.
    Formats,
    /// The owner was asked for its text in this format.
    Text(Atom),
    /// The owner sends its text in this format in increments; these have arrived. Once they are too long they are counted only.
    Increments { target: Atom, bytes: Vec<u8>, length: usize },
}

impl SelectionReader {
    pub(super) const fn new(selection: Atom, property: Atom) -> Self {
        Self { selection, property, owner: Owner::None, state: State::Idle }
    }

    pub(super) fn has_owner(&self) -> bool {
        self.owner != Owner::None
    }

    /// Returns whether the owner offers MIME types; `None` if it is a program that has not answered.
    pub(super) const fn offers_mime(&self) -> Option<bool> {
        match self.owner {
            Owner::Program { offers_mime } => offers_mime,
            Owner::None | Owner::Viewer => Some(false),
        }
    }

    pub(super) const fn is_of_program(&self) -> bool {
        matches!(self.owner, Owner::Program { .. })
    }

    /// Handles a new owner. `window` is ours. Returns whether the owner is a program.
    pub(super) fn on_owner(&mut self, window: Window, owner: Window) -> bool {
        self.state = State::Idle;
        self.owner = match owner {
            x11rb::NONE => Owner::None,
            owner if owner == window => Owner::Viewer,
            _ => Owner::Program { offers_mime: None },
        };
        self.is_of_program()
    }

    /// Asks a program that owns the selection for its formats, and after that for its text.
    pub(super) fn begin(&mut self, display: &Display, atoms: &Atoms, window: Window) -> Result<(), XError> {
        if self.is_of_program() {
            self.state = State::Formats;
            self.request(display, window, atoms.TARGETS)?;
        }
        Ok(())
    }

    fn request(&self, display: &Display, window: Window, target: Atom) -> Result<(), XError> {
        let (selection, property) = (self.selection, self.property);
        display.connection.convert_selection(window, selection, target, property, x11rb::CURRENT_TIME)?;
        Ok(())
    }

    /// Handles the owner's answer. Returns its text if it is complete.
    pub(super) fn on_answer(
        &mut self,
        display: &Display,
        atoms: &Atoms,
        window: Window,
        answer: &SelectionNotifyEvent,
    ) -> Result<Option<CopiedText>, XError> {
        match self.state {
            State::Formats if answer.target == atoms.TARGETS => {
                let formats =
                    if answer.property == self.property { self.formats(display, window)? } else { Vec::new() };
                if let Owner::Program { offers_mime } = &mut self.owner {
                    *offers_mime = Some(formats.contains(&atoms.UTF8_MIME) || formats.contains(&atoms.PLAIN_MIME));
                }
                // Owners that do not list their formats have `STRING` (ICCCM 2.6.2), and nearly all have this one.
                let wanted = [atoms.UTF8_STRING, atoms.UTF8_MIME, AtomEnum::STRING.into()];
                let best = wanted.into_iter().find(|wanted| formats.contains(wanted));
                let best = best.or(formats.is_empty().then_some(atoms.UTF8_STRING));
                // Pictures and files are no text.
                let Some(target) = best else {
                    self.state = State::Idle;
                    return Ok(None);
                };
                self.state = State::Text(target);
                self.request(display, window, target)?;
                Ok(None)
            }
            State::Text(target) if answer.target == target => {
                if answer.property != self.property {
                    self.state = State::Idle;
                    if target == atoms.UTF8_STRING {
                        self.state = State::Text(AtomEnum::STRING.into());
                        self.request(display, window, AtomEnum::STRING.into())?;
                    }
                    return Ok(None);
                }
                self.on_text(display, atoms, window, target)
            }
            _ => Ok(None),
        }
    }

    fn formats(&self, display: &Display, window: Window) -> Result<Vec<Atom>, XError> {
        /// Formats that are looked at. Guess: office programs offer some thirty.
        const MAX_FORMATS: u32 = 256;
        let connection = &display.connection;
        let property = connection.get_property(true, window, self.property, AtomEnum::ANY, 0, MAX_FORMATS)?.reply()?;
        Ok(property.value32().map(Iterator::collect).unwrap_or_default())
    }

    /// Reads the property with the text, or with the announcement that it comes in increments.
    fn on_text(
        &mut self,
        display: &Display,
        atoms: &Atoms,
        window: Window,
        target: Atom,
    ) -> Result<Option<CopiedText>, XError> {
        let (bytes, kind, rest) = self.take_property(display, window)?;
        if kind == atoms.INCR {
            // Deleting the property has started the transfer.
            self.state = State::Increments { target, bytes: Vec::new(), length: 0 };
            return Ok(None);
        }
        self.state = State::Idle;
        if rest > 0 {
            return Ok(Some(CopiedText::TooLong(bytes.len() + rest)));
        }
        Ok(decoded(target, bytes))
    }

    /// Takes an increment. Returns the text if it is the last one.
    pub(super) fn on_increment(&mut self, display: &Display, window: Window) -> Result<Option<CopiedText>, XError> {
        if !matches!(self.state, State::Increments { .. }) {
            return Ok(None);
        }
        let (increment, _, rest) = self.take_property(display, window)?;
        let State::Increments { target, bytes, length } = &mut self.state else { return Ok(None) };
        *length = length.saturating_add(increment.len() + rest);
        if *length <= MAX_CLIPBOARD_BYTES {
            bytes.extend_from_slice(&increment);
        } else {
            *bytes = Vec::new();
        }
        if !increment.is_empty() {
            return Ok(None);
        }
        let (target, bytes, length) = (*target, std::mem::take(bytes), *length);
        self.state = State::Idle;
        Ok(if length > MAX_CLIPBOARD_BYTES { Some(CopiedText::TooLong(length)) } else { decoded(target, bytes) })
    }

    /// Reads and deletes the property. Returns its value, its type, and how many bytes were too many to read.
    fn take_property(&self, display: &Display, window: Window) -> Result<(Vec<u8>, Atom, usize), XError> {
        let (connection, property) = (&display.connection, self.property);
        let words = (MAX_CLIPBOARD_BYTES / 4) as u32;
        let read = connection.get_property(true, window, property, AtomEnum::ANY, 0, words)?.reply()?;
        if read.bytes_after > 0 {
            // It was not deleted, because it was not read to its end.
            connection.delete_property(window, property)?;
        }
        Ok((read.value, read.type_, read.bytes_after as usize))
    }
}

/// Returns a text in the encoding of its target; `None` if it is not valid.
fn decoded(target: Atom, bytes: Vec<u8>) -> Option<CopiedText> {
    if target == Atom::from(AtomEnum::STRING) {
        return Some(CopiedText::Complete(from_latin1(&bytes)));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Some(CopiedText::Complete(text)),
        Err(error) => {
            tracing::warn!(%error, "a program has copied text that is not UTF-8, although it says so; viewers do not get it");
            None
        }
    }
}
