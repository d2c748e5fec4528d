//! The receiver's requests to the sender: symbols, a frame predicted from a decoded one, a key frame.

use nearlight_events::Event;
use nearlight_units::{Span, Time};
use nearlight_wire::{Acknowledgement, KeyFrameRequest, Nack, ToServer};

use super::{LossRecovery, Receiver};
use crate::assembly::RetransmissionPolicy;

/// A retransmission that has not arrived after a round trip and this is requested again: the answer waits for the server's loop and pacer.
/// Guess: a pacing interval.
const RETRANSMISSION_SLACK: Span = Span::from_millis(5);
/// Before the first clock exchange. Guess: a slow mobile path.
const UNKNOWN_ROUND_TRIP: Span = Span::from_millis(100);
/// A faster packet reduces the recent transit time by this fraction of the difference. Guess: forgotten after a frame of 50 packets.
const DOWNLINK_DELAY_DECAY: i64 = 16;
/// After a pause of this length, how long packets took before it says nothing about the path: the newest packet alone does. The same as for
/// a blocked path.
const MEDIA_PAUSE: Span = Span::from_millis(500);
/// With a longer round trip than this, requests are repeated anyway. Guess: a queue of seconds is not worth waiting for.
const LONGEST_ROUND_TRIP: Span = Span::from_secs(4);
/// A frame is given up after this or four round trips: by then a key frame shows a new picture sooner.
/// Guess: about what a key frame of five ordinary frames takes at 30 frames a second.
const GIVE_UP: Span = Span::from_millis(200);
/// The same where the transport retransmits: it would have closed the connection by then. Guess.
const RELIABLE_GIVE_UP: Span = Span::from_secs(60);
/// OpenUVR's device drops a frame after this (`elapsed > 3000000` in `receiving/src/raw.c`, in nanoseconds).
const OPENUVR_PATIENCE: Span = Span::from_millis(3);
/// A key frame is requested when a frame has been missing for this or two round trips, and whichever arrives first is decoded. Guess: half
/// of the time that a frame is waited for.
const KEY_FRAME_PATIENCE: Span = Span::from_millis(100);
/// An unanswered request for a key frame is repeated after this or a round trip where nothing else recovers a loss: the sender limits its
/// key frames itself, so that repeating costs a packet. Guess: about a frame and a half at 72 frames a second.
const INTRA_RETRY: Span = Span::from_millis(20);
/// A request for a frame that the decoder can continue with is repeated after a round trip and this: the next frame has to be drawn and
/// encoded first. Guess: a frame at 30 frames a second and 20 ms.
const REQUEST_SLACK: Span = Span::from_millis(53);
/// After this many unanswered requests a key frame is requested. Guess: at 2 % loss all of them are lost by chance in one of a hundred
/// thousand cases.
const REFERENCE_REQUESTS: u32 = 3;

impl Receiver {
    /// A frame predicted from a decoded one can be requested.
    pub(super) fn can_refer(&self) -> bool {
        self.loss_recovery == LossRecovery::References && self.decoded.is_some()
    }

    /// When to request a frame with which the decoder can continue; none as long as nothing is known to be missing, or what is missing is awaited.
    /// It depends only on what is present and what is missing, so that no missed call can end it: while the picture is frozen, a request is
    /// outstanding or due.
    pub(super) fn restart_due(&self) -> Option<Time> {
        let asks = match self.loss_recovery {
            LossRecovery::Symbols | LossRecovery::References | LossRecovery::KeyFrames => true,
            LossRecovery::OpenUvr => return self.next_request_due(),
            LossRecovery::Nothing { .. } => false,
            LossRecovery::Transport => self.assembler.is_broken(),
        };
        if !asks || self.assembler.newest().is_none() {
            return None;
        }
        let due = if self.can_refer() {
            self.assembler.is_stalled().then_some(Time::ZERO)?
        } else {
            self.assembler.restart_due(self.key_frame_patience())?
        };
        let key_frame = self.key_frame_asked_at.map(|at| at + self.key_frame_retry());
        let reference = self.reference_asked.map(|(at, _)| at + self.reference_retry());
        Some(due).max(key_frame).max(reference)
    }

    /// The same where a key frame is requested after each frame until one arrives: at once when a frame was handed out or dropped since the
    /// last request, else when that went unanswered.
    fn next_request_due(&self) -> Option<Time> {
        if !self.assembler.is_waiting_for_key_frame() || self.assembler.has_deliverable() {
            return None;
        }
        let asked_at = self.key_frame_asked_at.filter(|_| self.key_frame_asked_after == self.assembler.done_to());
        Some(asked_at.map_or(Time::ZERO, |at| at + self.reference_retry()))
    }

    pub(super) fn request_restart(&mut self, now: Time) {
        if self.restart_due().is_none_or(|due| now < due) {
            return;
        }
        if self.can_refer() {
            self.request_reference(now);
        } else {
            self.request_key_frame(now);
        }
    }

    fn request_reference(&mut self, now: Time) {
        let (Some(decoded), Some(newest)) = (self.decoded, self.assembler.newest()) else { return };
        // Silence is no refusal: while nothing arrived, no answer could.
        let unanswered =
            self.reference_asked.map_or(0, |(at, count)| count + u32::from(self.assembler.heard_at() > at));
        if unanswered == REFERENCE_REQUESTS {
            self.set_broken();
            self.request_key_frame(now);
            return;
        }
        self.reference_asked = Some((now, unanswered));
        self.acknowledge = false;
        self.transmit.push_back(ToServer::Acknowledgement(Acknowledgement { decoded, newest, lost: true }));
        self.emit(now, || Event::ReferenceRequested { decoded, newest });
    }

    /// Each decoded frame is acknowledged once; the newest acknowledgement covers all.
    pub(super) fn poll_acknowledgement(&mut self) -> Option<Acknowledgement> {
        let (decoded, newest) = (self.decoded?, self.assembler.newest()?);
        std::mem::take(&mut self.acknowledge).then_some(Acknowledgement { decoded, newest, lost: false })
    }

    pub(super) fn reference_retry(&self) -> Span {
        self.round_trip() + REQUEST_SLACK
    }

    pub(super) fn request_missing(&mut self, now: Time, policy: RetransmissionPolicy) {
        let asked = match self.loss_recovery {
            LossRecovery::KeyFrames => return,
            _ => self.assembler.poll_missing(now, policy),
        };
        if asked.is_empty() || !matches!(self.loss_recovery, LossRecovery::Symbols | LossRecovery::References) {
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

    fn request_key_frame(&mut self, now: Time) {
        let Some(newest) = self.assembler.newest() else { return };
        self.key_frame_asked_after = self.assembler.done_to();
        let reason = match self.key_frame_asked_at.replace(now) {
            _ if self.loss_recovery == LossRecovery::OpenUvr => "a frame was dropped and no key frame has come since",
            Some(_) => "request unanswered",
            None if self.assembler.is_broken() => "nothing decodable is in flight",
            None => "recovery takes too long",
        };
        self.transmit.push_back(ToServer::KeyFrameRequest(KeyFrameRequest { newest }));
        self.emit(now, || Event::KeyFrameRequested { newest, reason: reason.into() });
    }

    pub(super) fn retransmission_policy(&self) -> RetransmissionPolicy {
        let round_trip = self.round_trip();
        let give_up = match self.loss_recovery {
            LossRecovery::OpenUvr => {
                return RetransmissionPolicy { retry: OPENUVR_PATIENCE, give_up: OPENUVR_PATIENCE };
            }
            LossRecovery::Nothing { patience } => patience,
            LossRecovery::Transport => RELIABLE_GIVE_UP,
            _ => GIVE_UP.max(round_trip * 4),
        };
        RetransmissionPolicy { retry: round_trip + RETRANSMISSION_SLACK, give_up }
    }

    fn key_frame_retry(&self) -> Span {
        if self.loss_recovery == LossRecovery::KeyFrames {
            return INTRA_RETRY.max(self.round_trip());
        }
        self.round_trip() + REQUEST_SLACK
    }

    /// How long missing symbols are awaited before a key frame is requested as well. A frame that arrived in part is awaited for as long as one of
    /// which nothing has arrived.
    fn key_frame_patience(&self) -> Span {
        let broken = self.assembler.is_broken();
        if broken { self.key_frame_retry() } else { KEY_FRAME_PATIENCE.max(self.round_trip() * 2) }
    }

    /// A media packet took this long, less the offset of the server's clock. Call it before the packet counts as arrived.
    pub(super) fn on_downlink_delay(&mut self, now: Time, way: Span) {
        let paused = now.saturating_since(self.assembler.heard_at()) > MEDIA_PAUSE;
        let before = self.downlink_delay.filter(|_| !paused);
        self.downlink_delay =
            Some(before.map_or(way, |before| way.max(before - (before - way) / DOWNLINK_DELAY_DECAY)));
    }

    /// Round trip of a request sent now and its answer: a queue fills and drains faster than pings could show.
    fn round_trip(&self) -> Span {
        let pinged = self.clock.round_trip().unwrap_or(UNKNOWN_ROUND_TRIP);
        // One includes the offset of the clocks, the other excludes it.
        let newest = self.clock.uplink_delay().zip(self.downlink_delay).map(|(up, down)| up + down);
        newest.filter(|newest| *newest > Span::ZERO).map_or(pinged, |newest| newest.min(LONGEST_ROUND_TRIP))
    }
}
