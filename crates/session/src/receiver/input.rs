//! The user's input and the application's messages on their way to the server.

use nearlight_units::{InputSeq, Span, Time};
use nearlight_wire::{ToServer, UnreliableMessage};

use super::{MAX_MESSAGES, Receiver};
use crate::uplink::{DeviceInput, Presence};

/// An unacknowledged event is resent after this. Guess: seldom enough that a round trip across a continent costs two or three repeats,
/// often enough that a lost key arrives within two frames.
const EVENT_REPEAT: Span = Span::from_millis(33);
/// While something is held, that is repeated to the server at this interval.
const HELD_REPEAT: Span = Span::from_millis(200);

impl Receiver {
    /// The pictures are not rendered for the user's pose, so that it is sent ten times a second only while it stays the same.
    pub fn set_sparse_input(&mut self) {
        self.uplink.set_sparse();
    }

    /// The user moved at `now`; the sample is sent at once and replaces any that has not left.
    pub fn on_input(&mut self, now: Time, presence: Presence) -> InputSeq {
        let seq = self.uplink.on_presence(now, presence);
        self.arm_input_repeat(now);
        seq
    }

    /// Input from one of the user's devices at `now`; its events are repeated until the server has them. None before the first
    /// [`Receiver::on_input`].
    pub fn on_device(&mut self, now: Time, input: DeviceInput) -> Option<InputSeq> {
        let seq = self.uplink.on_device(now, input)?;
        self.arm_input_repeat(now);
        Some(seq)
    }

    fn arm_input_repeat(&mut self, now: Time) {
        let interval = if self.uplink.has_unacknowledged() {
            EVENT_REPEAT
        } else if self.uplink.holds_anything() {
            HELD_REPEAT
        } else {
            self.input_repeat_at = None;
            return;
        };
        let at = now + interval;
        self.input_repeat_at = Some(self.input_repeat_at.map_or(at, |due| due.min(at)));
    }

    /// The application sends a message of at most [`MAX_UNRELIABLE_MESSAGE_BYTES`](nearlight_wire::MAX_UNRELIABLE_MESSAGE_BYTES) that may
    /// be lost. False where it is longer, or where too many are queued.
    pub fn on_application_message(&mut self, data: Vec<u8>) -> bool {
        let fits = data.len() <= nearlight_wire::MAX_UNRELIABLE_MESSAGE_BYTES && self.transmit.len() < MAX_MESSAGES;
        if fits {
            self.transmit.push_back(ToServer::Application(UnreliableMessage(data.into())));
        }
        fits
    }

    /// The next message from the server's application; such messages may be lost.
    pub fn poll_application_message(&mut self) -> Option<Vec<u8>> {
        self.messages.pop_front()
    }

    /// Sends again what is unacknowledged or held, where that is due.
    pub(super) fn repeat_input(&mut self, now: Time) {
        if self.input_repeat_at.is_none_or(|at| now < at) {
            return;
        }
        self.input_repeat_at = None;
        if self.uplink.has_unacknowledged() || self.uplink.holds_anything() {
            self.uplink.set_repeat();
            self.arm_input_repeat(now);
        }
    }
}
