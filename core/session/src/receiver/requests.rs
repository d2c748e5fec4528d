//! The receiver's requests to the sender: symbols, a frame predicted from a decoded one, a key frame.

use nearlight_events::Event;
use nearlight_units::{FrameId, Span, Time};
use nearlight_wire::{Acknowledgement, KeyFrameRequest, Nack, ToServer};

use super::LossRecovery;
use super::context::Context;
use crate::clock::ClockSync;
use crate::receiver::assembly::{Assembler, RetransmissionPolicy};

/// A retransmission that has not arrived after a round trip and this is requested again: the answer waits for the server's loop and pacer.
/// Guess: a pacing interval.
const RETRANSMISSION_SLACK: Span = Span::from_millis(5);
/// Round trip assumed before the first clock exchange. Guess: a slow mobile path.
const INITIAL_ROUND_TRIP: Span = Span::from_millis(100);
/// A faster packet reduces the recent transit time by this fraction of the difference. Guess: forgotten after a frame of 50 packets.
const DOWNLINK_DELAY_DECAY: i64 = 16;
/// After a pause of this length, older delays say nothing about the path, and only the newest packet counts. The length is that after which
/// a path counts as blocked.
const MEDIA_PAUSE: Span = Span::from_millis(500);
/// Upper bound of the round trip that requests wait for. Guess: a queue of seconds is not worth waiting for.
const MAX_ROUND_TRIP: Span = Span::from_secs(4);
/// A frame is given up after this or four round trips: by then a key frame shows a new picture sooner.
/// Guess: about what a key frame of five ordinary frames takes at 30 frames a second.
const GIVE_UP_AFTER: Span = Span::from_millis(200);
/// A frame is given up after this when the transport retransmits. Guess: the transport closes the connection earlier.
const RELIABLE_GIVE_UP_AFTER: Span = Span::from_secs(60);
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
/// Maximum number of unanswered requests for a frame predicted from a decoded one; then a key frame is requested. Guess: at 2 % loss all of
/// them are lost by chance in one of a hundred thousand cases.
const MAX_REFERENCE_REQUESTS: u32 = 3;

/// Decides what is requested from the sender, and when.
#[derive(Debug, Default)]
pub(super) struct Requests {
    recovery: LossRecovery,
    /// Newest frame that was decoded without error since the last key frame.
    decoded: Option<FrameId>,
    /// `decoded` has not been acknowledged yet.
    acknowledge: bool,
    /// When a frame predicted from a decoded one was requested, and how many such requests had gone unanswered.
    reference_asked: Option<(Time, u32)>,
    /// When a key frame was requested.
    key_frame_asked_at: Option<Time>,
    /// The newest frame that was handed out or given up when the key frame was requested.
    key_frame_asked_after: Option<FrameId>,
    /// How long media packets recently took from the server, less the offset of its clock.
    downlink_delay: Option<Span>,
}

impl Requests {
    pub(super) const fn set_recovery(&mut self, recovery: LossRecovery) {
        self.recovery = recovery;
    }

    pub(super) const fn recovery(&self) -> LossRecovery {
        self.recovery
    }

    /// Records that the decoder has decoded a frame without error.
    pub(super) fn on_decoded(&mut self, frame: FrameId) {
        self.decoded = self.decoded.max(Some(frame));
        self.acknowledge = self.recovery == LossRecovery::References;
    }

    /// Records that a frame is handed out. The picture moves again, so the next request concerns another loss.
    pub(super) const fn on_ready(&mut self) {
        (self.key_frame_asked_at, self.reference_asked) = (None, None);
    }

    /// Records that the decoder's state is of no use any more.
    pub(super) fn set_broken(&mut self, assembler: &mut Assembler) {
        assembler.set_broken();
        (self.decoded, self.acknowledge) = (None, false);
    }

    /// Returns whether a frame predicted from a decoded one can be requested.
    fn can_refer(&self) -> bool {
        self.recovery == LossRecovery::References && self.decoded.is_some()
    }

    /// Returns when to request a frame with which the decoder can continue, or none while nothing is known to be missing or missing symbols
    /// are awaited. The result depends only on what is present and what is missing. No missed call can therefore end it: while the picture
    /// is frozen, a request is outstanding or due.
    pub(super) fn restart_due(&self, assembler: &Assembler, clock: &ClockSync) -> Option<Time> {
        let asks = match self.recovery {
            LossRecovery::Symbols | LossRecovery::References | LossRecovery::KeyFrames => true,
            LossRecovery::OpenUvr => return self.next_request_due(assembler, clock),
            LossRecovery::Nothing { .. } => false,
            LossRecovery::Transport => assembler.is_broken(),
        };
        if !asks || assembler.newest().is_none() {
            return None;
        }
        let due = if self.can_refer() {
            assembler.is_stalled().then_some(Time::ZERO)?
        } else {
            assembler.restart_due(self.key_frame_patience(assembler, clock))?
        };
        let key_frame = self.key_frame_asked_at.map(|at| at + self.key_frame_retry(clock));
        let reference = self.reference_asked.map(|(at, _)| at + self.reference_retry(clock));
        Some(due).max(key_frame).max(reference)
    }

    /// Returns when to request a key frame if one is requested after each frame until one arrives. A request is due at once when a frame was
    /// handed out or dropped since the last request, and otherwise when that went unanswered.
    fn next_request_due(&self, assembler: &Assembler, clock: &ClockSync) -> Option<Time> {
        if !assembler.is_waiting_for_key_frame() || assembler.has_deliverable() {
            return None;
        }
        let asked_at = self.key_frame_asked_at.filter(|_| self.key_frame_asked_after == assembler.done_to());
        Some(asked_at.map_or(Time::ZERO, |at| at + self.reference_retry(clock)))
    }

    /// Requests a frame with which the decoder can continue, if that is due.
    pub(super) fn request_restart(&mut self, now: Time, assembler: &mut Assembler, context: &mut Context) {
        if self.restart_due(assembler, &context.clock).is_none_or(|due| now < due) {
            return;
        }
        if self.can_refer() {
            self.request_reference(now, assembler, context);
        } else {
            self.request_key_frame(now, assembler, context);
        }
    }

    fn request_reference(&mut self, now: Time, assembler: &mut Assembler, context: &mut Context) {
        let (Some(decoded), Some(newest)) = (self.decoded, assembler.newest()) else { return };
        // Silence is not a refusal: while nothing arrived, no answer could.
        let unanswered = self.reference_asked.map_or(0, |(at, count)| count + u32::from(assembler.heard_at() > at));
        if unanswered == MAX_REFERENCE_REQUESTS {
            self.set_broken(assembler);
            self.request_key_frame(now, assembler, context);
            return;
        }
        self.reference_asked = Some((now, unanswered));
        self.acknowledge = false;
        context.uplink.on_request(ToServer::Acknowledgement(Acknowledgement { decoded, newest, lost: true }));
        context.telemetry.emit(now, || Event::ReferenceRequested { decoded, newest });
    }

    /// Returns the acknowledgement of the newest decoded frame, which covers all before it. Each frame is acknowledged once.
    pub(super) fn poll_acknowledgement(&mut self, newest: Option<FrameId>) -> Option<Acknowledgement> {
        let (decoded, newest) = (self.decoded?, newest?);
        std::mem::take(&mut self.acknowledge).then_some(Acknowledgement { decoded, newest, lost: false })
    }

    fn reference_retry(&self, clock: &ClockSync) -> Span {
        self.round_trip(clock) + REQUEST_SLACK
    }

    /// Requests missing symbols that are due.
    pub(super) fn request_missing(&self, now: Time, assembler: &mut Assembler, context: &mut Context) {
        if self.recovery == LossRecovery::KeyFrames {
            return;
        }
        let asked = assembler.poll_missing(now, self.retransmission_policy(&context.clock));
        if asked.is_empty() || !matches!(self.recovery, LossRecovery::Symbols | LossRecovery::References) {
            return;
        }
        let mut missing = Vec::new();
        for (frame, attempt, runs) in asked {
            let symbols = runs.iter().map(|run| u32::from(run.count)).sum();
            context.telemetry.emit(now, || Event::SymbolsRequested { frame, symbols, attempt });
            missing.extend(runs);
        }
        context.uplink.on_request(ToServer::Nack(Nack { missing }));
    }

    fn request_key_frame(&mut self, now: Time, assembler: &Assembler, context: &mut Context) {
        let Some(newest) = assembler.newest() else { return };
        self.key_frame_asked_after = assembler.done_to();
        let reason = match self.key_frame_asked_at.replace(now) {
            _ if self.recovery == LossRecovery::OpenUvr => "a frame was dropped and no key frame has come since",
            Some(_) => "request unanswered",
            None if assembler.is_broken() => "nothing decodable is in flight",
            None => "recovery takes too long",
        };
        context.uplink.on_request(ToServer::KeyFrameRequest(KeyFrameRequest { newest }));
        context.telemetry.emit(now, || Event::KeyFrameRequested { newest, reason: reason.into() });
    }

    /// Returns when missing symbols are requested again, and when their frame is given up.
    pub(super) fn retransmission_policy(&self, clock: &ClockSync) -> RetransmissionPolicy {
        let round_trip = self.round_trip(clock);
        let give_up = match self.recovery {
            LossRecovery::OpenUvr => {
                return RetransmissionPolicy { retry: OPENUVR_PATIENCE, give_up: OPENUVR_PATIENCE };
            }
            LossRecovery::Nothing { patience } => patience,
            LossRecovery::Transport => RELIABLE_GIVE_UP_AFTER,
            _ => GIVE_UP_AFTER.max(round_trip * 4),
        };
        RetransmissionPolicy { retry: round_trip + RETRANSMISSION_SLACK, give_up }
    }

    fn key_frame_retry(&self, clock: &ClockSync) -> Span {
        if self.recovery == LossRecovery::KeyFrames {
            return INTRA_RETRY.max(self.round_trip(clock));
        }
        self.round_trip(clock) + REQUEST_SLACK
    }

    /// Returns how long missing symbols are awaited before a key frame is requested as well. A frame that arrived in part is awaited for as
    /// long as one of which nothing has arrived.
    fn key_frame_patience(&self, assembler: &Assembler, clock: &ClockSync) -> Span {
        let broken = assembler.is_broken();
        if broken { self.key_frame_retry(clock) } else { KEY_FRAME_PATIENCE.max(self.round_trip(clock) * 2) }
    }

    /// Records the delay of a media packet that arrived at `now`, less the offset of the server's clock. The previous packet arrived at
    /// `before`.
    pub(super) fn on_downlink_delay(&mut self, now: Time, delay: Span, before: Time) {
        let paused = now.saturating_since(before) > MEDIA_PAUSE;
        let recent = self.downlink_delay.filter(|_| !paused);
        self.downlink_delay =
            Some(recent.map_or(delay, |recent| delay.max(recent - (recent - delay) / DOWNLINK_DELAY_DECAY)));
    }

    /// Returns the round trip of a request sent now and its answer. Media packets show a queue sooner than pings.
    fn round_trip(&self, clock: &ClockSync) -> Span {
        let pinged = clock.round_trip().unwrap_or(INITIAL_ROUND_TRIP);
        // One includes the offset of the clocks, the other excludes it.
        let newest = clock.uplink_delay().zip(self.downlink_delay).map(|(up, down)| up + down);
        newest.filter(|newest| *newest > Span::ZERO).map_or(pinged, |newest| newest.min(MAX_ROUND_TRIP))
    }
}
