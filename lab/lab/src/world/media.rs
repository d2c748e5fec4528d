//! A media session in the simulation: both ends, encoder, decoder and display.

use std::collections::VecDeque;

use nearlight_codec::{CodecError, Reference};
use nearlight_events::RecoveryCounts;
use nearlight_link::Ecn;
use nearlight_session::{
    AnsweredTargets, CaptureAlignment, CaptureDecision, CaptureFacts, CaptureSchedule, DisplayOrder, EncodedFrame,
    FrameSkipper, LossRecovery, Presence, SessionDriver, Wake,
};
use nearlight_units::{Bitrate, Bytes, FrameId, InputSeq, Span, Time};
use nearlight_wire::{Fov, FrameHeader, Pose, View, marker::Marker};

use super::application::{Application, NetworkedServer};
use super::capture_moments::CaptureMoment;
use super::carrier::{Carrier, server_clock, world_clock};
use super::display::Display;
use super::network::{Arrival, End, Network, OutgoingPacket};
use super::sent_frames::SentFrames;
use super::tally::Tally;
use crate::encoder::{Capture, CodedFrame, FrameEncoder, Quality, QualityMeter};
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
    /// Time from the start to the first refresh of the display.
    pub(crate) refresh_phase: Span,
    pub(crate) fps: u16,
    pub(crate) render: Span,
    pub(crate) encode: Span,
    /// Bytes of headers for each datagram.
    pub(crate) headers: Bytes,
    /// ECN codepoint of packets to the client.
    pub(crate) ecn: Ecn,
    pub(crate) client: Client,
    pub(crate) warm_up: Time,
    pub(crate) recovery: Recovery,
    /// Frames from one key frame to the next; 0 without scheduled ones.
    pub(crate) group: u32,
    pub(crate) captures: CaptureAlignment,
    pub(crate) quality: FrameQuality,
}

/// Time after which a receiver gives up a group of pictures. Guess: a group and a half at 30 frames a second.
const GROUP_TIMEOUT: Span = Span::from_millis(500);
/// Time that a receiver without requests waits for reordered packets. Guess.
const REORDERING_WAIT: Span = Span::from_millis(1);

impl MediaConfig {
    /// Returns an empty tally of the measured time.
    pub(crate) fn tally(&self) -> Tally {
        Tally::new(self.warm_up.max(self.start), self.stop).with_pauses(&self.pauses)
    }

    /// Returns the time of a tick, computed from the start so that rounding errors do not add up.
    fn tick(count: u64, rate: u16) -> Span {
        Span::from_nanos((count * 1_000_000_000 / u64::from(rate)) as i64)
    }

    /// Returns the time from the first frame to frame `number`.
    pub(crate) fn tick_of_source(&self, number: u32) -> Span {
        Self::tick(u64::from(number), self.fps)
    }

    /// Returns the refresh after the one at `now`, never after the session's end.
    pub(crate) fn next_refresh(&self, now: Time) -> Time {
        let rate = self.client.refresh;
        let start = self.start + self.refresh_phase;
        let elapsed = (now - start).as_nanos() as u64;
        let count = (elapsed * u64::from(rate) + 500_000_000) / 1_000_000_000 + 1;
        self.before_stop(start + Self::tick(count, rate))
    }

    /// Returns the capture schedule on the world's clock.
    pub(crate) fn schedule(&self) -> CaptureSchedule {
        CaptureSchedule::new(self.start + self.phase, self.fps, self.captures)
    }

    /// Returns `at`, or the far future if it is after the session's end.
    pub(crate) fn before_stop(&self, at: Time) -> Time {
        if at < self.stop { at } else { Time::FAR_FUTURE }
    }
}

struct EncodingFrame {
    ready_at: Time,
    captured: CapturedFrame,
    coded: CodedFrame,
    /// Position in its group of pictures.
    index: u32,
}

/// A frame that was sent.
#[derive(Clone, Copy)]
struct FrameInFlight {
    captured: CapturedFrame,
    at: Time,
    index: u32,
    /// Arrival times of its first and its newest packet.
    came: Option<(Time, Time)>,
}

#[derive(Clone, Copy)]
struct CapturedFrame {
    number: u32,
    at: Time,
    input: InputSeq,
    input_received_at: Time,
}

#[derive(Clone, Copy)]
struct DecodingFrame {
    done_at: Time,
    id: FrameId,
    input: InputSeq,
    captured_at: Time,
    show: bool,
    /// All its references were decoded.
    intact: bool,
    quality: Option<Quality>,
}

pub(crate) struct MediaActor {
    config: MediaConfig,
    carrier: Box<dyn Carrier>,
    driver: SessionDriver,
    application: Application,
    encoder: Box<dyn FrameEncoder>,
    quality_meter: Option<QualityMeter>,
    captured: u32,
    schedule: CaptureSchedule,
    skipper: FrameSkipper,
    next_capture: Time,
    encoding: VecDeque<EncodingFrame>,
    answered: AnsweredTargets,
    /// Id of the next encoded frame.
    coded: FrameId,
    /// When each frame was captured and handed to the sender, by its id.
    frames: Vec<FrameInFlight>,
    sent_frames: SentFrames,
    /// Frames since the last key frame, including it.
    since_key: u32,
    /// Frames of the group of pictures being sent, and of the group being received.
    leaving: Vec<EncodingFrame>,
    forming: Vec<DecodingFrame>,
    /// The last decoded frame, and whether it was intact.
    newest_decoded: Option<(FrameId, bool)>,
    /// Redundant and all bytes sent, and recoveries, when the measured time began.
    sent_before: Option<(u64, u64)>,
    recovered_before: RecoveryCounts,
    decoding: VecDeque<DecodingFrame>,
    display: Display<DecodingFrame>,
    next_refresh: Time,
    sender_due: Time,
    receiver_due: Time,
    /// The client's own timer.
    receiver_timer: Option<(Time, Wake)>,
    pub(crate) due: Time,
    pub(crate) tally: Tally,
    pub(crate) failed: Option<CodecError>,
    /// None unless capture moments are requested.
    pub(super) moments: Option<Vec<CaptureMoment>>,
}

impl MediaActor {
    pub(crate) fn new(
        config: MediaConfig,
        mut carrier: Box<dyn Carrier>,
        encoder: Box<dyn FrameEncoder>,
        mut quality_meter: Option<QualityMeter>,
    ) -> Self {
        if let Some(quality_meter) = quality_meter.as_mut().filter(|_| config.recovery.shows_damage()) {
            quality_meter.set_concealing();
        }
        let receiver = carrier.receiver_mut();
        receiver.frames().set_loss_recovery(match config.recovery {
            Recovery::Policy(policy) => policy.into(),
            Recovery::None => LossRecovery::Nothing { patience: REORDERING_WAIT },
            Recovery::Group => LossRecovery::Nothing { patience: GROUP_TIMEOUT },
        });
        let frame_interval = Span::from_nanos(1_000_000_000 / i64::from(config.fps));
        receiver.frames().set_playback_buffer(config.client.playback_buffer, frame_interval);
        if config.captures == CaptureAlignment::Fitted {
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
            quality_meter,
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

    /// Returns the number of retransmitted packets.
    pub(crate) fn retransmissions(&self, now: Time) -> u64 {
        self.carrier.sender().statistics(server_clock(now)).retransmissions
    }

    /// Returns the redundant bytes and all other bytes sent in the measured time.
    pub(crate) fn redundancy(&self, now: Time) -> (u64, u64) {
        let (redundant, sent) = self.sent_bytes(now);
        let (redundant_before, sent_before) = self.sent_before.unwrap_or_default();
        let redundant = redundant - redundant_before;
        (redundant, (sent - sent_before).saturating_sub(redundant))
    }

    /// Returns how frames were recovered. None unless the session's own receiver assembles them.
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
        // Encoding takes the same time, however many frames are in progress.
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
                let captured = CapturedFrame { number, at: now, input, input_received_at };
                let ready_at = now + self.config.render + self.config.encode;
                self.encoding.push_back(EncodingFrame { ready_at, captured, coded, index: self.since_key - 1 });
            }
            Err(error) => {
                self.failed = Some(error);
                self.next_capture = Time::FAR_FUTURE;
            }
        }
    }

    /// Returns the reference of the next frame: what the session requests, except for scheduled key frames and published systems without requests.
    fn reference(&self, requested: Reference) -> Reference {
        let first = self.since_key == 0;
        let scheduled = self.config.group > 0 && self.since_key >= self.config.group;
        match self.config.recovery {
            _ if first || scheduled => Reference::Nothing,
            Recovery::Policy(_) => requested,
            Recovery::None | Recovery::Group => Reference::Newest,
        }
    }

    fn on_answered(&mut self, reference: Reference, coded: &CodedFrame) {
        let frame = self.coded;
        self.coded = frame.next();
        self.since_key = if coded.is_key() { 0 } else { self.since_key } + 1;
        self.answered.on_coded(frame, coded.is_key(), reference);
    }

    fn on_coded(&mut self, now: Time, encoding: EncodingFrame) {
        if self.config.recovery != Recovery::Group {
            self.send_frame(now, encoding);
            return;
        }
        let ends = encoding.index + 1 >= self.config.group;
        if encoding.index == 0 {
            // An early key frame, for another size, cuts the previous group short.
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

    fn send_frame(&mut self, now: Time, encoding: EncodingFrame) {
        let EncodingFrame { captured, coded, index, .. } = encoding;
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
        self.frames.push(FrameInFlight { captured, at: now, index, came: None });
        self.sent_frames.on_sent(captured.at, coded.bits.len(), coded.is_key());
        self.tally.on_frame_sent(captured.at, coded.is_key());
        // A receiver that decodes everything treats each frame as independent.
        let stands_alone = self.config.recovery == Recovery::None;
        let reference = coded.reference.filter(|_| !stands_alone);
        let group_index = stands_alone.then_some(index);
        let CodedFrame { bits, distortion, .. } = coded;
        self.carrier.on_frame(server_clock(now), EncodedFrame { id, reference, header, bits, distortion, group_index });
    }

    fn take_frames(&mut self, now: Time) {
        while let Some(frame) = self.carrier.poll_frame(now) {
            let (id, show, damaged) = (frame.id(), frame.show(), frame.is_damaged());
            let Some(FrameInFlight { captured, at: sent_at, index, came }) = self.frames.get(id.0 as usize).copied()
            else {
                continue;
            };
            let quality =
                self.quality_meter.as_mut().map(|quality_meter| quality_meter.decode(frame.bits(), captured.number));
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
            let decoding = DecodingFrame {
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

    /// Returns whether all references of this frame were decoded.
    fn is_intact(&self, id: FrameId, index: u32) -> bool {
        let follows = |(newest, intact): (FrameId, bool)| intact && newest.next() == id;
        // Otherwise the session knows.
        self.config.recovery != Recovery::None || index == 0 || self.newest_decoded.is_some_and(follows)
    }

    fn decode(&mut self, from: Time, decoding: DecodingFrame) {
        let free_at = self.decoding.back().map_or(from, |last| last.done_at.max(from));
        self.decoding.push_back(DecodingFrame { done_at: free_at + self.config.client.decode, ..decoding });
    }

    /// Adds a frame to its group. A group is displayed picture by picture once it is complete or the next one arrives.
    fn form_group(&mut self, now: Time, index: u32, decoding: DecodingFrame) {
        if index == 0 {
            self.show_group(now);
        }
        // The frame waits after decoding: otherwise the sender would assume a slow decoder.
        self.carrier.on_decoded(now, decoding.id);
        self.forming.push(DecodingFrame { show: true, ..decoding });
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
        self.carrier.receiver_mut().uplink().on_presence(now, Presence::of_views(HEAD, vec![VIEW]));
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
        let mut end =
            NetworkedServer { carrier: self.carrier.as_mut(), network, tally: &mut self.tally, flow, headers, ecn };
        let woken = self.driver.step(server_clock(now), &mut end, Some(&mut self.application));
        log_wake(now, flow, "server", woken);
        let due = self.driver.due().map(|(at, _)| world_clock(at));
        self.sender_due = due.map_or(Time::FAR_FUTURE, |at| at.max(now + MIN_TIMER_STEP));
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
        self.receiver_due = self.receiver_timer.map_or(Time::FAR_FUTURE, |(at, _)| at.max(now + MIN_TIMER_STEP));
    }
}

/// Logs why an end woke up, in virtual time.
fn log_wake(now: Time, flow: u16, end: &str, wake: Option<Wake>) {
    if let Some(wake) = wake {
        tracing::trace!(at = now.as_nanos(), flow, end, wake = wake.name(), "a timer is due");
    }
}

/// Smallest step of a timer that is already due, so that the clock advances.
const MIN_TIMER_STEP: Span = Span::from_micros(10);

const HEAD: Pose = Pose { position: [0.0; 3], orientation: [0.0, 0.0, 0.0, 1.0] };

const VIEW: View = View { pose: HEAD, fov: Fov { left: -1.0, right: 1.0, down: -1.0, up: 1.0 } };

/// Returns a packet of a session to one of its ends.
pub(super) fn parcel(flow: u16, far: bool, headers: Bytes, bytes: Vec<u8>) -> OutgoingPacket {
    let size = Bytes::new(bytes.len() as u64) + headers;
    OutgoingPacket { to: End { flow, far }, size, id: 0, ecn: Ecn::NotCapable, bytes }
}
