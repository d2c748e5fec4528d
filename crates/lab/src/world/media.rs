//! A media session's place in the world: both ends of it, its encoder, its decoder and its display.

use std::collections::VecDeque;

use nearlight_codec::{CodecError, Reference};
use nearlight_events::RecoveryCounts;
use nearlight_link::Ecn;
use nearlight_session::{
    AnsweredTargets, CaptureDecision, CaptureFacts, CaptureSchedule, Captures, DisplayOrder, EncodedFrame,
    FrameSkipper, LossRecovery, Presence, SessionDriver, Wake,
};
use nearlight_units::{Bitrate, Bytes, FrameId, InputSeq, Span, Time};
use nearlight_wire::{Fov, FrameHeader, Pose, View, marker::Marker};

use super::application::{Application, OnNetwork};
use super::capture_moments::CaptureMoment;
use super::carrier::{Carrier, server_clock, world_clock};
use super::display::Display;
use super::network::{Arrival, End, Network, Parcel};
use super::sent_frames::SentFrames;
use super::tally::Tally;
use crate::encoder::{Capture, Coded, FrameEncoder, Quality, Screen};
use crate::plan::{Client, Recovery};
use crate::record::FrameLossCounts;
use crate::utility::FrameQuality;

/// The configuration of a session.
pub(crate) struct MediaConfig {
    pub(crate) flow: u16,
    pub(crate) start: Time,
    pub(crate) stop: Time,
    pub(crate) pauses: Vec<(Time, Time)>,
    /// The delay of the first frame after the start.
    pub(crate) phase: Span,
    /// The display first changes so long after the start.
    pub(crate) refresh_phase: Span,
    pub(crate) fps: u16,
    pub(crate) render: Span,
    pub(crate) encode: Span,
    /// On top of each datagram.
    pub(crate) headers: Bytes,
    /// Of what goes to the client.
    pub(crate) ecn: Ecn,
    pub(crate) client: Client,
    pub(crate) warm_up: Time,
    pub(crate) recovery: Recovery,
    /// Frames from one key frame to the next; 0 without scheduled ones.
    pub(crate) group: u32,
    pub(crate) captures: Captures,
    pub(crate) quality: FrameQuality,
}

/// A receiver that waits for a whole group gives it up after this. Guess: a group and a half at 30 frames a second.
const GROUP_PATIENCE: Span = Span::from_millis(500);
/// A receiver that takes what comes waits for nothing but packets in another order.
const NO_PATIENCE: Span = Span::from_millis(1);

impl MediaConfig {
    /// Of the measured time.
    pub(crate) fn tally(&self) -> Tally {
        Tally::new(self.warm_up.max(self.start), self.stop).with_pauses(&self.pauses)
    }

    /// Even distances from the start, so that no rounding adds up.
    fn tick(count: u64, rate: u16) -> Span {
        Span::from_nanos((count * 1_000_000_000 / u64::from(rate)) as i64)
    }

    /// From the first frame to the one of this number.
    pub(crate) fn tick_of_source(&self, number: u32) -> Span {
        Self::tick(u64::from(number), self.fps)
    }

    /// The refresh after the one at `now`; never after the session's end.
    pub(crate) fn next_refresh(&self, now: Time) -> Time {
        let rate = self.client.refresh;
        let start = self.start + self.refresh_phase;
        let elapsed = (now - start).as_nanos() as u64;
        let count = (elapsed * u64::from(rate) + 500_000_000) / 1_000_000_000 + 1;
        self.before_stop(start + Self::tick(count, rate))
    }

    /// Captures at the frame rate, from the first frame on, in the world's clock.
    pub(crate) fn schedule(&self) -> CaptureSchedule {
        CaptureSchedule::new(self.start + self.phase, self.fps, self.captures)
    }

    /// `at`, or never.
    pub(crate) fn before_stop(&self, at: Time) -> Time {
        if at < self.stop { at } else { Time::FAR_FUTURE }
    }
}

struct Encoding {
    ready_at: Time,
    captured: Captured,
    coded: Coded,
    /// Of its group of pictures.
    index: u32,
}

/// A frame on its way.
#[derive(Clone, Copy)]
struct Sent {
    captured: Captured,
    at: Time,
    index: u32,
    /// When its first packet came, and the newest.
    came: Option<(Time, Time)>,
}

#[derive(Clone, Copy)]
struct Captured {
    number: u32,
    at: Time,
    input: InputSeq,
    input_received_at: Time,
}

#[derive(Clone, Copy)]
struct Decoding {
    done_at: Time,
    id: FrameId,
    input: InputSeq,
    captured_at: Time,
    show: bool,
    /// All its references are complete.
    intact: bool,
    quality: Option<Quality>,
}

pub(crate) struct MediaActor {
    config: MediaConfig,
    carrier: Box<dyn Carrier>,
    driver: SessionDriver,
    application: Application,
    encoder: Box<dyn FrameEncoder>,
    screen: Option<Screen>,
    captured: u32,
    schedule: CaptureSchedule,
    skipper: FrameSkipper,
    next_capture: Time,
    encoding: VecDeque<Encoding>,
    answered: AnsweredTargets,
    /// Frames that were coded.
    coded: FrameId,
    /// When each frame was captured and handed to the sender, by its id.
    frames: Vec<Sent>,
    sent_frames: SentFrames,
    /// Frames since the last key frame, which it counts.
    since_key: u32,
    /// A group that leaves as one, and one that is shown as one.
    leaving: Vec<Encoding>,
    forming: Vec<Decoding>,
    /// The frame that was decoded last, and whether it was intact.
    newest_decoded: Option<(FrameId, bool)>,
    /// Redundant and all bytes sent, and recoveries, when the measured time began.
    sent_before: Option<(u64, u64)>,
    recovered_before: RecoveryCounts,
    decoding: VecDeque<Decoding>,
    display: Display<Decoding>,
    next_refresh: Time,
    sender_due: Time,
    receiver_due: Time,
    /// What the client's own timer was set for.
    receiver_timer: Option<(Time, Wake)>,
    pub(crate) due: Time,
    pub(crate) tally: Tally,
    pub(crate) failed: Option<CodecError>,
    /// Only where they are asked for.
    pub(super) moments: Option<Vec<CaptureMoment>>,
}

impl MediaActor {
    pub(crate) fn new(
        config: MediaConfig,
        mut carrier: Box<dyn Carrier>,
        encoder: Box<dyn FrameEncoder>,
        mut screen: Option<Screen>,
    ) -> Self {
        if let Some(screen) = screen.as_mut().filter(|_| config.recovery.shows_damage()) {
            screen.set_concealing();
        }
        let receiver = carrier.receiver_mut();
        receiver.set_loss_recovery(match config.recovery {
            Recovery::Policy(policy) => policy.into(),
            Recovery::None => LossRecovery::Nothing { patience: NO_PATIENCE },
            Recovery::Group => LossRecovery::Nothing { patience: GROUP_PATIENCE },
        });
        let frame_interval = Span::from_nanos(1_000_000_000 / i64::from(config.fps));
        receiver.set_playback_buffer(config.client.playback_buffer, frame_interval);
        if config.captures == Captures::Fitted {
            carrier.sender_mut().set_display_hz(config.client.refresh);
        }
        let schedule = config.schedule();
        let next_capture = schedule.due();
        let next_refresh = config.start + config.refresh_phase;
        let due = next_capture.min(next_refresh);
        let tally = config.tally();
        let application = Application::new(carrier.sender().target());
        Self {
            carrier,
            driver: SessionDriver::default(),
            application,
            encoder,
            screen,
            captured: 0,
            schedule,
            skipper: FrameSkipper::default(),
            next_capture,
            encoding: VecDeque::new(),
            answered: AnsweredTargets::default(),
            coded: FrameId(0),
            frames: Vec::new(),
            sent_frames: SentFrames::new(config.quality),
            since_key: 0,
            leaving: Vec::new(),
            forming: Vec::new(),
            newest_decoded: None,
            sent_before: None,
            recovered_before: RecoveryCounts::default(),
            decoding: VecDeque::new(),
            display: Display::new(&config.client),
            next_refresh,
            sender_due: Time::FAR_FUTURE,
            receiver_due: Time::FAR_FUTURE,
            receiver_timer: None,
            due,
            tally,
            failed: None,
            moments: None,
            config,
        }
    }

    pub(crate) fn target(&self) -> Bitrate {
        self.carrier.sender().decision().target
    }

    /// Packets that carried symbols again.
    pub(crate) fn retransmissions(&self, now: Time) -> u64 {
        self.carrier.sender().statistics(server_clock(now)).retransmissions
    }

    /// Redundant bytes, and all others, that were sent in the measured time.
    pub(crate) fn redundancy(&self, now: Time) -> (u64, u64) {
        let (redundant, sent) = self.sent_bytes(now);
        let (redundant_before, sent_before) = self.sent_before.unwrap_or_default();
        let redundant = redundant - redundant_before;
        (redundant, (sent - sent_before).saturating_sub(redundant))
    }

    /// What recovered the picture, if the session's own receiver assembles it.
    pub(crate) fn recovery(&self, now: Time) -> Option<RecoveryCounts> {
        Some(self.carrier.recovery(now)?.since(&self.recovered_before))
    }

    fn sent_bytes(&self, now: Time) -> (u64, u64) {
        let statistics = self.carrier.sender().statistics(server_clock(now));
        (statistics.redundant.get(), statistics.sent.get())
    }

    pub(crate) fn frame_losses(&self) -> FrameLossCounts {
        self.sent_frames.counts(&self.tally, self.config.client.deadline)
    }

    pub(crate) fn in_time(&self) -> (u64, f64) {
        self.sent_frames.in_time(&self.tally)
    }

    pub(crate) fn is_active(&self, now: Time) -> bool {
        let paused = |(from, to): &(Time, Time)| *from <= now && now < *to;
        self.config.start <= now && now < self.config.stop && !self.config.pauses.iter().any(paused)
    }

    pub(crate) fn on_arrival(&mut self, now: Time, far: bool, arrival: &Arrival, network: &mut Network) {
        if far {
            self.tally.on_packet_received(now, arrival, arrival.bytes.len() as u64);
            self.on_piece(now, arrival);
            self.carrier.on_client_datagram(now, &arrival.bytes, arrival.marked);
            self.take_frames(now);
            self.drain_receiver(now, network);
        } else {
            self.tally.on_answer_received(now - arrival.sent_at);
            self.carrier.on_server_datagram(server_clock(now), &arrival.bytes);
            self.step_server(now, network);
        }
        self.plan();
    }

    fn on_piece(&mut self, now: Time, arrival: &Arrival) {
        let frame = self.carrier.frame_of(&arrival.bytes).and_then(|frame| self.frames.get_mut(frame.0 as usize));
        if let Some(frame) = frame {
            self.tally.on_media_received(now, now - arrival.sent_at);
            frame.came = Some((frame.came.map_or(now, |(first, _)| first), now));
        }
    }

    pub(crate) fn on_lost(&mut self, now: Time, far: bool) {
        if far {
            self.tally.on_packet_lost(now);
        }
    }

    pub(crate) fn on_wake(&mut self, now: Time, network: &mut Network) {
        if now >= self.next_capture {
            if self.sent_before.is_none() && now >= self.tally.from() {
                self.sent_before = Some(self.sent_bytes(now));
                self.recovered_before = self.carrier.recovery(now).unwrap_or_default();
            }
            self.capture(now);
        }
        while self.encoding.front().is_some_and(|encoding| encoding.ready_at <= now) {
            let Some(encoding) = self.encoding.pop_front() else { break };
            self.on_coded(now, encoding);
            self.sender_due = now;
        }
        while self.decoding.front().is_some_and(|decoding| decoding.done_at <= now) {
            let Some(done) = self.decoding.pop_front() else { break };
            self.carrier.on_decoded(now, done.id);
            if !done.show && self.config.client.order == DisplayOrder::Newest {
                self.tally.on_passed_over(now);
                continue;
            }
            self.display.push(now, done.captured_at, done, &mut self.tally);
        }
        if now >= self.next_refresh {
            self.refresh(now);
            self.receiver_due = now;
        }
        if now >= self.sender_due {
            self.step_server(now, network);
        }
        if now >= self.receiver_due {
            self.drain_receiver(now, network);
        }
        self.plan();
    }

    fn plan(&mut self) {
        let ready = self.encoding.front().map_or(Time::FAR_FUTURE, |encoding| encoding.ready_at);
        let decoded = self.decoding.front().map_or(Time::FAR_FUTURE, |decoding| decoding.done_at);
        self.due = self
            .next_capture
            .min(self.next_refresh)
            .min(ready)
            .min(decoded)
            .min(self.sender_due)
            .min(self.receiver_due);
    }

    fn capture(&mut self, now: Time) {
        let number = self.captured;
        self.captured += 1;
        let target = self.application.target;
        self.schedule.on_passed(now, [target.best_capture.map(world_clock)]);
        self.next_capture = self.config.before_stop(self.schedule.due());
        if !self.is_active(now) {
            return;
        }
        self.tally.on_capture(now);
        let scale = target.step.scale;
        // Frames take the same time from capture to bits, however many are in work.
        let facts = CaptureFacts::new(target.refusal, target.step, true);
        let decision = self.skipper.on_moment(&facts);
        if let Some(moments) = &mut self.moments {
            moments.push(CaptureMoment { at: now, facts, decision });
        }
        if let CaptureDecision::Skip(reason) = decision {
            self.application.on_skipped(reason);
            self.tally.on_skipped(now);
            self.sender_due = now;
            return;
        }
        let request = self.answered.request(target.encoder);
        let reference = self.reference(request.reference);
        let acknowledged = request.acknowledged.filter(|_| self.config.recovery == Recovery::REFERENCE);
        match self.encoder.encode(&Capture { number, at: now, rate: request.rate, reference, acknowledged, scale }) {
            Ok(coded) => {
                self.on_answered(reference, &coded);
                let (input, input_received_at) = self.application.newest_input;
                let captured = Captured { number, at: now, input, input_received_at };
                let ready_at = now + self.config.render + self.config.encode;
                self.encoding.push_back(Encoding { ready_at, captured, coded, index: self.since_key - 1 });
            }
            Err(error) => {
                self.failed = Some(error);
                self.next_capture = Time::FAR_FUTURE;
            }
        }
    }

    /// The reference of the next frame: as the session requests, but for scheduled key frames, and published systems that know no requests.
    fn reference(&self, requested: Reference) -> Reference {
        let first = self.since_key == 0;
        let scheduled = self.config.group > 0 && self.since_key >= self.config.group;
        match self.config.recovery {
            _ if first || scheduled => Reference::Nothing,
            Recovery::Policy(_) => requested,
            Recovery::None | Recovery::Group => Reference::Newest,
        }
    }

    fn on_answered(&mut self, reference: Reference, coded: &Coded) {
        let frame = self.coded;
        self.coded = frame.next();
        self.since_key = if coded.is_key() { 0 } else { self.since_key } + 1;
        self.answered.on_coded(frame, coded.is_key(), reference);
    }

    fn on_coded(&mut self, now: Time, encoding: Encoding) {
        if self.config.recovery != Recovery::Group {
            self.send_frame(now, encoding);
            return;
        }
        let ends = encoding.index + 1 >= self.config.group;
        if encoding.index == 0 {
            // A key frame that came early, for another size, leaves the group before it short.
            self.send_group(now);
        }
        self.leaving.push(encoding);
        if ends {
            self.send_group(now);
        }
    }

    fn send_group(&mut self, now: Time) {
        for encoding in std::mem::take(&mut self.leaving) {
            self.send_frame(now, encoding);
        }
    }

    fn send_frame(&mut self, now: Time, encoding: Encoding) {
        let Encoding { captured, coded, index, .. } = encoding;
        let id = FrameId(self.frames.len() as u32);
        let captured_at = server_clock(captured.at);
        let rendered_at = captured_at + self.config.render;
        let header = FrameHeader {
            width: 64,
            height: 64,
            input: captured.input,
            input_received_at: if captured.input == InputSeq(0) { captured_at } else { captured.input_received_at },
            render_started_at: captured_at,
            rendered_at,
            converted_at: rendered_at,
            encoded_at: server_clock(now),
            display_at: captured_at + self.config.client.deadline,
            deadline: captured_at + self.config.client.deadline,
            views: vec![VIEW],
        };
        self.frames.push(Sent { captured, at: now, index, came: None });
        self.sent_frames.on_sent(captured.at, coded.bits.len(), coded.is_key());
        self.tally.on_frame_sent(captured.at, coded.is_key());
        // A receiver that decodes whatever comes treats each frame as independent.
        let stands_alone = self.config.recovery == Recovery::None;
        let reference = coded.reference.filter(|_| !stands_alone);
        let group_index = stands_alone.then_some(index);
        let Coded { bits, distortion, .. } = coded;
        self.carrier.on_frame(server_clock(now), EncodedFrame { id, reference, header, bits, distortion, group_index });
    }

    fn take_frames(&mut self, now: Time) {
        while let Some(frame) = self.carrier.poll_frame(now) {
            let (id, show, damaged) = (frame.id(), frame.show(), frame.is_damaged());
            let Some(Sent { captured, at: sent_at, index, came }) = self.frames.get(id.0 as usize).copied() else {
                continue;
            };
            let quality = self.screen.as_mut().map(|screen| screen.decode(frame.bits(), captured.number));
            if quality == Some(None) {
                self.carrier.on_decode_failed(now, id);
                continue;
            }
            self.tally.on_frame_received(now, captured.at, sent_at);
            if let Some((first, last)) = came {
                self.tally.on_frame_assembled(captured.at, last - first);
            }
            self.sent_frames.on_whole(now, id.0 as usize);
            let intact = !damaged && self.is_intact(id, index);
            self.newest_decoded = Some((id, intact));
            let decoding = Decoding {
                done_at: now,
                id,
                input: captured.input,
                captured_at: captured.at,
                show,
                intact,
                quality: quality.flatten(),
            };
            if self.config.recovery == Recovery::Group {
                self.form_group(now, index, decoding);
            } else {
                self.decode(now, decoding);
            }
        }
    }

    /// Whether all frames are there that this one was predicted from.
    fn is_intact(&self, id: FrameId, index: u32) -> bool {
        let follows = |(newest, intact): (FrameId, bool)| intact && newest.next() == id;
        // Otherwise the session knows.
        self.config.recovery != Recovery::None || index == 0 || self.newest_decoded.is_some_and(follows)
    }

    fn decode(&mut self, from: Time, decoding: Decoding) {
        let free_at = self.decoding.back().map_or(from, |last| last.done_at.max(from));
        self.decoding.push_back(Decoding { done_at: free_at + self.config.client.decode, ..decoding });
    }

    /// A group is shown picture by picture once it is complete, or once the next one arrives.
    fn form_group(&mut self, now: Time, index: u32, decoding: Decoding) {
        if index == 0 {
            self.show_group(now);
        }
        // It waits decoded: a sender would take it for a decoder that falls behind.
        self.carrier.on_decoded(now, decoding.id);
        self.forming.push(Decoding { show: true, ..decoding });
        if index + 1 >= self.config.group {
            self.show_group(now);
        }
    }

    fn show_group(&mut self, now: Time) {
        for (place, decoding) in (0..).zip(std::mem::take(&mut self.forming)) {
            self.decode(now + self.config.tick_of_source(place), decoding);
        }
    }

    fn refresh(&mut self, now: Time) {
        self.next_refresh = self.config.next_refresh(now);
        self.carrier.receiver_mut().on_input(now, Presence::of_views(HEAD, vec![VIEW]));
        let Some(shown) = self.display.refresh(now, &mut self.tally) else { return };
        let marker = Marker { frame: shown.id, input: shown.input };
        let displayed = self.carrier.on_displayed(now, shown.id, marker);
        let latency = now - shown.captured_at;
        let late = latency > self.config.client.deadline;
        self.tally.on_displayed(now, shown.captured_at, latency, late, shown.quality);
        self.tally.on_condition(now, shown.captured_at, !shown.intact);
        if let Some(displayed) = &displayed {
            self.tally.on_timeline(shown.captured_at, &displayed.timeline);
        }
        if shown.intact && !late {
            self.sent_frames.on_good(shown.id.0 as usize);
        }
        let inputs = displayed.iter().flat_map(|displayed| &displayed.inputs);
        self.tally.on_inputs_displayed(now, inputs.map(|(_, span)| *span));
    }

    fn step_server(&mut self, now: Time, network: &mut Network) {
        let MediaConfig { flow, headers, ecn, .. } = self.config;
        let mut end = OnNetwork { carrier: self.carrier.as_mut(), network, tally: &mut self.tally, flow, headers, ecn };
        let woken = self.driver.step(server_clock(now), &mut end, Some(&mut self.application));
        log_wake(now, flow, "server", woken);
        let due = self.driver.due().map(|(at, _)| world_clock(at));
        self.sender_due = due.map_or(Time::FAR_FUTURE, |at| at.max(now + TICK));
    }

    fn drain_receiver(&mut self, now: Time, network: &mut Network) {
        if now >= self.config.stop {
            self.receiver_due = Time::FAR_FUTURE;
            return;
        }
        let woken = self.receiver_timer.filter(|(at, _)| *at <= now).map(|(_, wake)| wake);
        log_wake(now, self.config.flow, "client", woken);
        self.carrier.on_client_timeout(now);
        self.take_frames(now);
        while let Some(bytes) = self.carrier.poll_client_transmit(now) {
            network.send(now, parcel(self.config.flow, false, self.config.headers, bytes));
        }
        self.tally.on_stuck(self.carrier.receiver().is_stuck());
        self.receiver_timer = self.carrier.poll_client_timeout();
        self.receiver_due = self.receiver_timer.map_or(Time::FAR_FUTURE, |(at, _)| at.max(now + TICK));
    }
}

/// Logs what an end woke for, in virtual time.
fn log_wake(now: Time, flow: u16, end: &str, wake: Option<Wake>) {
    if let Some(wake) = wake {
        tracing::trace!(at = now.as_nanos(), flow, end, wake = wake.name(), "a timer is due");
    }
}

/// A timer that is due already must not stop the clock.
const TICK: Span = Span::from_micros(10);

const HEAD: Pose = Pose { position: [0.0; 3], orientation: [0.0, 0.0, 0.0, 1.0] };

const VIEW: View = View { pose: HEAD, fov: Fov { left: -1.0, right: 1.0, down: -1.0, up: 1.0 } };

/// A datagram of a session to one of its ends.
pub(super) fn parcel(flow: u16, far: bool, headers: Bytes, bytes: Vec<u8>) -> Parcel {
    let size = Bytes::new(bytes.len() as u64) + headers;
    Parcel { to: End { flow, far }, size, id: 0, ecn: Ecn::NotCapable, bytes }
}
