//! What the receiver asks the sender for: symbols, a frame that predicts from a decoded one, a key frame.

use nearlight_events::Event;
use nearlight_units::{Span, Time};
use nearlight_wire::{Acknowledgement, KeyFrameRequest, Nack, ToServer};

use super::Receiver;
use crate::assembly::RepairPolicy;

/// A repair that is not there after a round trip and this is asked for again: the answer waits for the server's loop and pacer.
/// Guess: a pacing interval.
const REPAIR_SLACK: Span = Span::from_millis(5);
/// Before the first clock exchange. Guess: a slow mobile path.
const UNKNOWN_ROUND_TRIP: Span = Span::from_millis(100);
/// A frame is given up after this or four round trips: by then a key frame shows a new picture sooner.
/// Guess: about what a key frame of five ordinary frames takes at 30 frames a second.
const GIVE_UP: Span = Span::from_millis(200);
/// An unanswered request for a key frame is repeated after this or two round trips. Guess: coding, and the time that a key frame takes.
const KEY_FRAME_RETRY: Span = Span::from_millis(150);
/// The same where nothing else mends a loss. Guess: about a frame and a half at 72 frames a second.
const INTRA_RETRY: Span = Span::from_millis(20);
/// A request for a frame that predicts from a decoded one is repeated after a round trip and this: the next frame has to be drawn and
/// coded first. Guess: a frame at 30 frames a second and 20 ms.
const REFERENCE_SLACK: Span = Span::from_millis(53);
/// After so many requests in vain a key frame is asked for. Guess: at 2 % loss chance loses all of them in one of a hundred thousand
/// cases.
const REFERENCE_REQUESTS: u32 = 3;

impl Receiver {
    /// A frame can be asked for that predicts from a decoded one.
    pub(super) const fn can_refer(&self) -> bool {
        self.references && self.decoded.is_some()
    }

    pub(super) fn request_reference(&mut self, now: Time) {
        let asked = self.reference_asked;
        if asked.is_some_and(|(at, _)| now - at < self.reference_retry()) {
            return;
        }
        self.reference_asked = None;
        let (Some(decoded), Some(newest)) = (self.decoded, self.assembler.newest()) else { return };
        if !self.references || self.key_frame_asked_at.is_some() || !self.assembler.is_stalled() {
            return;
        }
        // Silence is no refusal: what was not heard was not answered either.
        let unanswered = asked.map_or(0, |(at, count)| count + u32::from(self.assembler.heard_at() > at));
        if unanswered == REFERENCE_REQUESTS {
            self.set_broken();
            self.request_key_frame(now, "no frame came that predicts from a decoded one");
            return;
        }
        self.reference_asked = Some((now, unanswered));
        self.acknowledge = false;
        self.transmit.push_back(ToServer::Acknowledgement(Acknowledgement { decoded, newest, lost: true }));
        self.emit(now, || Event::ReferenceRequested { decoded, newest });
    }

    /// Each decoded frame is acknowledged once, the newest for all.
    pub(super) fn poll_acknowledgement(&mut self) -> Option<Acknowledgement> {
        let (decoded, newest) = (self.decoded?, self.assembler.newest()?);
        std::mem::take(&mut self.acknowledge).then_some(Acknowledgement { decoded, newest, lost: false })
    }

    pub(super) fn reference_retry(&self) -> Span {
        self.clock.round_trip().unwrap_or(UNKNOWN_ROUND_TRIP) + REFERENCE_SLACK
    }

    pub(super) fn request_missing(&mut self, now: Time, policy: RepairPolicy) {
        let asked = self.assembler.poll_missing(now, policy);
        if asked.is_empty() || self.silent.is_some() {
            return;
        }
        let mut missing = Vec::new();
        for (frame, attempt, runs) in asked {
            let symbols = runs.iter().map(|run| u32::from(run.count)).sum();
            self.emit(now, || Event::SymbolsRequested { frame, symbols, attempt });
            missing.extend(runs);
        }
        self.transmit.push_back(ToServer::Nack(Nack { missing }));
    }

    pub(super) fn request_key_frame(&mut self, now: Time, reason: &'static str) {
        let recent = self.key_frame_asked_at.is_some_and(|at| now - at < self.key_frame_retry());
        if recent || self.silent.is_some() {
            return;
        }
        let Some(newest) = self.assembler.newest() else { return };
        self.key_frame_asked_at = Some(now);
        self.transmit.push_back(ToServer::KeyFrameRequest(KeyFrameRequest { newest }));
        self.emit(now, || Event::KeyFrameRequested { newest, reason });
    }

    pub(super) fn repair_policy(&self) -> RepairPolicy {
        let round_trip = self.clock.round_trip().unwrap_or(UNKNOWN_ROUND_TRIP);
        let give_up = self.silent.unwrap_or(GIVE_UP.max(round_trip * 4));
        RepairPolicy { retry: round_trip + REPAIR_SLACK, give_up }
    }

    pub(super) fn key_frame_retry(&self) -> Span {
        if self.intra_only {
            // The sender makes no more than it wants to: asking again costs a packet.
            return INTRA_RETRY.max(self.clock.round_trip().unwrap_or(UNKNOWN_ROUND_TRIP));
        }
        KEY_FRAME_RETRY.max(self.clock.round_trip().unwrap_or(UNKNOWN_ROUND_TRIP) * 2)
    }
}
