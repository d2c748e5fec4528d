//! Messages to the server: the user's input, the application's messages, and requests of the receiver's other parts.

use std::collections::VecDeque;

use nearlight_units::{InputSeq, Span, Time};
use nearlight_wire::{MAX_UNRELIABLE_MESSAGE_BYTES, ToServer, UnreliableMessage};

use super::MAX_MESSAGES;
use crate::Wake;
use crate::receiver::input_sampler::{DeviceInput, InputSampler, Presence};

/// An unacknowledged event is resent at this interval. Guess: seldom enough that a round trip across a continent costs two or three repeats,
/// often enough that a lost key arrives within two frames.
const EVENT_REPEAT_INTERVAL: Span = Span::from_millis(33);
/// While a key or button is held, its state is repeated to the server at this interval. The server releases everything after a second of
/// silence.
const HELD_REPEAT_INTERVAL: Span = Span::from_millis(200);

/// Requests that wait to be sent. Beyond that the oldest is lost, as in a network, and is repeated if it is still needed. Guess: a driver that
/// sends what is due has two or three.
pub(super) const MAX_REQUESTS: usize = 32;

/// Messages to the server; see [`Receiver::uplink`](super::Receiver::uplink). Input is repeated until it is acknowledged, everything else is
/// sent once.
#[derive(Debug, Default)]
pub struct Uplink {
    pub(super) input: InputSampler,
    /// When unacknowledged or held input is sent again.
    repeat_at: Option<Time>,
    /// Requests and the application's messages, in the order in which they leave. Messages are refused while it has [`MAX_MESSAGES`] entries;
    /// at most [`MAX_REQUESTS`] are requests.
    queue: VecDeque<ToServer>,
}

impl Uplink {
    /// Sends an unchanged pose only ten times a second, because pictures are not rendered for the user's pose.
    pub fn set_sparse_input(&mut self) {
        self.input.set_sparse();
    }

    /// Records where the user is at `now`. The sample is sent at once and replaces any that has not left.
    pub fn on_presence(&mut self, now: Time, presence: Presence) -> InputSeq {
        let seq = self.input.on_presence(now, presence);
        self.schedule_repeat(now);
        seq
    }

    /// Records input from one of the user's devices at `now`. Its events are repeated until the server has them. Returns none before the
    /// first [`Uplink::on_presence`].
    pub fn on_device(&mut self, now: Time, input: DeviceInput) -> Option<InputSeq> {
        let seq = self.input.on_device(now, input)?;
        self.schedule_repeat(now);
        Some(seq)
    }

    /// Queues an application message of at most [`MAX_UNRELIABLE_MESSAGE_BYTES`] that may be lost. Returns false if it is longer or too many
    /// are queued.
    pub fn on_application_message(&mut self, data: Vec<u8>) -> bool {
        let fits = data.len() <= MAX_UNRELIABLE_MESSAGE_BYTES && self.queue.len() < MAX_MESSAGES;
        if fits {
            self.queue.push_back(ToServer::Application(UnreliableMessage(data.into())));
        }
        fits
    }

    /// Queues a request of another part of the receiver.
    pub(super) fn on_request(&mut self, request: ToServer) {
        let is_request = |message: &ToServer| !matches!(message, ToServer::Application(_));
        if self.queue.iter().filter(|message| is_request(message)).count() >= MAX_REQUESTS
            && let Some(oldest) = self.queue.iter().position(is_request)
        {
            self.queue.remove(oldest);
        }
        self.queue.push_back(request);
    }

    /// Records that the server has the sample `seq`, or that a frame shows it.
    pub(super) fn on_acknowledged(&mut self, seq: InputSeq) {
        self.input.on_acknowledged(seq);
    }

    /// Repeats input that is unacknowledged or held, if that is due.
    pub(super) fn on_timeout(&mut self, now: Time) {
        if self.repeat_at.is_none_or(|at| now < at) {
            return;
        }
        self.repeat_at = None;
        if self.input.has_unacknowledged() || self.input.holds_anything() {
            self.input.set_repeat();
            self.schedule_repeat(now);
        }
    }

    /// Returns the next message to send. Samples go first, because the server predicts from them.
    pub(super) fn poll_message(&mut self) -> Option<ToServer> {
        let sample = self.input.poll_sample().map(ToServer::Input);
        sample
            .or_else(|| self.input.poll_hand().map(|hand| ToServer::Hand(hand.into())))
            .or_else(|| self.queue.pop_front())
    }

    pub(super) fn poll_timeout(&self) -> Option<(Time, Wake)> {
        self.repeat_at.map(|at| (at, Wake::Input))
    }

    fn schedule_repeat(&mut self, now: Time) {
        let interval = if self.input.has_unacknowledged() {
            EVENT_REPEAT_INTERVAL
        } else if self.input.holds_anything() {
            HELD_REPEAT_INTERVAL
        } else {
            self.repeat_at = None;
            return;
        };
        let at = now + interval;
        self.repeat_at = Some(self.repeat_at.map_or(at, |due| due.min(at)));
    }
}
