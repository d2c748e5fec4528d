//! Frames over one TCP connection: nothing is lost, but everything waits for retransmissions.
//!
//! The baseline of Nebula's evaluation (Alhilal et al., WWW 2022, section 6.1): the coded rate never changes, and a frame that
//! waits for longer than the pipeline allows is skipped before it is coded.

use std::collections::VecDeque;

use nearlight_codec::CodecError;
use nearlight_flows::law::LawSpec;
use nearlight_flows::{self as flows, Direction, Stream, StreamConfig, Traffic as _};
use nearlight_link::Ecn;
use nearlight_session::CaptureSchedule;
use nearlight_units::{Bitrate, Bytes, Span, Time};

use super::display::Display;
use super::media::MediaConfig;
use super::network::{Arrival, End, Network, OutgoingPacket};
use super::sent_frames::SentFrames;
use super::tally::Tally;
use crate::encoder::{Capture, CodedFrame, FrameEncoder, Quality, QualityMeter};
use crate::record::FrameLossCounts;

/// Frames over TCP are skipped after waiting this long in the sender (section 6.3: "on-time (330 ms with our pipeline)").
pub const MAX_WAIT_OVER_TCP: Span = Span::from_millis(330);
/// Size of the socket's send buffer in congestion windows: Linux grows it to twice the largest window so far (`tcp_sndbuf_expand`) and never shrinks
/// it.
const SOCKET_WINDOWS: u64 = 2;
/// Size of an input sample on IP. Guess: a pose and headers.
const INPUT_SIZE: Bytes = Bytes::new(100);
/// Distinguishes the ids of inputs from those of acknowledgements.
const INPUT_BIT: u64 = 1 << 63;

#[derive(Clone, Copy)]
struct Frame {
    number: u32,
    captured_at: Time,
    /// The newest input that the server knew.
    input: u64,
    sent_at: Time,
}

struct EncodingFrame {
    ready_at: Time,
    frame: Frame,
    coded: CodedFrame,
}

struct DecodingFrame {
    done_at: Time,
    frame: usize,
    quality: Option<Quality>,
}

/// Both ends of a session over TCP.
pub(crate) struct Reliable {
    config: MediaConfig,
    rate: Bitrate,
    stream: Stream,
    largest_window: Bytes,
    encoder: Box<dyn FrameEncoder>,
    quality_meter: Option<QualityMeter>,
    captured: u32,
    since_key: u32,
    schedule: CaptureSchedule,
    next_capture: Time,
    next_refresh: Time,
    encoding: VecDeque<EncodingFrame>,
    /// Encoded frames that the socket has not accepted yet.
    waiting: VecDeque<(Frame, CodedFrame)>,
    /// Frames written to the socket that have not arrived yet.
    written: VecDeque<(Frame, CodedFrame)>,
    frames: Vec<Frame>,
    sent_frames: SentFrames,
    decoding: VecDeque<DecodingFrame>,
    display: Display<DecodingFrame>,
    /// Creation time of each input; then the newest input known to the server, and the newest displayed.
    inputs: Vec<Time>,
    known_input: u64,
    shown_input: u64,
    pub(crate) due: Time,
    pub(crate) tally: Tally,
    pub(crate) failed: Option<CodecError>,
}

impl Reliable {
    pub(crate) fn new(
        config: MediaConfig,
        law: LawSpec,
        rate: Bitrate,
        (encoder, quality_meter): (Box<dyn FrameEncoder>, Option<QualityMeter>),
    ) -> Self {
        let stream = Stream::new(StreamConfig { law, ..StreamConfig::default() });
        let schedule = config.schedule();
        let next_capture = schedule.due();
        let next_refresh = config.start + config.refresh_phase;
        let tally = config.tally();
        Self {
            rate,
            stream,
            largest_window: Bytes::ZERO,
            encoder,
            quality_meter,
            captured: 0,
            since_key: 0,
            schedule,
            next_capture,
            next_refresh,
            encoding: VecDeque::new(),
            waiting: VecDeque::new(),
            written: VecDeque::new(),
            frames: Vec::new(),
            sent_frames: SentFrames::new(config.quality),
            decoding: VecDeque::new(),
            display: Display::new(&config.client),
            inputs: Vec::new(),
            known_input: 0,
            shown_input: 0,
            due: next_capture.min(next_refresh),
            tally,
            failed: None,
            config,
        }
    }

    pub(crate) fn target(&self) -> Bitrate {
        self.rate
    }

    pub(crate) fn is_active(&self, now: Time) -> bool {
        self.config.start <= now && now < self.config.stop
    }

    pub(crate) fn frame_losses(&self) -> FrameLossCounts {
        self.sent_frames.counts(&self.tally, self.config.client.deadline)
    }

    pub(crate) fn in_time(&self) -> (u64, f64) {
        self.sent_frames.in_time(&self.tally)
    }

    /// Returns retransmitted segments, their bytes, and all other bytes.
    pub(crate) fn retransmissions(&self) -> (u64, u64, u64) {
        let statistics = self.stream.statistics();
        let segment = flows::bulk::Config::default().packet.get();
        let again = statistics.retransmissions;
        (again, again * segment, statistics.packets.saturating_sub(again) * segment)
    }

    pub(crate) fn on_arrival(&mut self, now: Time, far: bool, arrival: &Arrival, network: &mut Network) {
        if !far && arrival.id & INPUT_BIT != 0 {
            self.known_input = self.known_input.max(arrival.id & !INPUT_BIT);
            return;
        }
        let direction = if far { Direction::Forward } else { Direction::Back };
        let Arrival { id, size, marked, .. } = *arrival;
        if far {
            self.tally.on_packet_received(now, arrival, size.get());
        }
        self.stream.on_delivered(now, flows::Arrival { id, direction, size, marked });
        // Messages arrive in the order of writing.
        while self.stream.poll_message().is_some() {
            self.on_frame(now);
        }
        self.drain(now, network);
    }

    pub(crate) fn on_lost(&mut self, now: Time, far: bool) {
        if far {
            self.tally.on_packet_lost(now);
        }
    }

    pub(crate) fn on_wake(&mut self, now: Time, network: &mut Network) {
        if now >= self.next_capture {
            self.capture(now);
        }
        while let Some(encoding) = self.encoding.pop_front_if(|encoding| encoding.ready_at <= now) {
            let EncodingFrame { frame, coded, .. } = encoding;
            self.tally.on_frame_sent(frame.captured_at, coded.is_key());
            self.sent_frames.on_sent(frame.captured_at, coded.bits.len(), coded.is_key());
            self.waiting.push_back((Frame { sent_at: now, ..frame }, coded));
        }
        while let Some(done) = self.decoding.pop_front_if(|decoding| decoding.done_at <= now) {
            let captured_at = self.frames[done.frame].captured_at;
            self.display.push(now, captured_at, done, &mut self.tally);
        }
        if now >= self.next_refresh {
            self.refresh(now, network);
        }
        self.stream.on_timeout(now);
        self.drain(now, network);
    }

    fn capture(&mut self, now: Time) {
        let number = self.captured;
        self.captured += 1;
        self.schedule.on_passed(now, []);
        self.next_capture = self.config.before_stop(self.schedule.due());
        self.tally.on_capture(now);
        let oldest = self.waiting.front().map(|(frame, _)| frame.captured_at);
        if oldest.is_some_and(|oldest| now - oldest > MAX_WAIT_OVER_TCP) {
            self.tally.on_skipped(now);
            return;
        }
        let key = self.since_key == 0 || (self.config.group > 0 && self.since_key >= self.config.group);
        match self.encoder.encode(&Capture::plain(number, now, self.rate, key)) {
            Ok(coded) => {
                self.since_key = if coded.is_key() { 0 } else { self.since_key } + 1;
                let frame = Frame { number, captured_at: now, input: self.known_input, sent_at: now };
                let ready_at = now + self.config.render + self.config.encode;
                self.encoding.push_back(EncodingFrame { ready_at, frame, coded });
            }
            Err(error) => {
                self.failed = Some(error);
                self.next_capture = Time::FAR_FUTURE;
            }
        }
    }

    /// The oldest frame that was written has arrived.
    fn on_frame(&mut self, now: Time) {
        let Some((frame, coded)) = self.written.pop_front() else { return };
        self.tally.on_frame_received(now, frame.captured_at, frame.sent_at);
        let index = self.frames.len() - self.written.len() - 1;
        self.sent_frames.on_whole(now, index);
        let quality =
            self.quality_meter.as_mut().and_then(|quality_meter| quality_meter.decode(&coded.bits, frame.number));
        let free_at = self.decoding.back().map_or(now, |last| last.done_at.max(now));
        self.decoding.push_back(DecodingFrame { done_at: free_at + self.config.client.decode, frame: index, quality });
    }

    fn refresh(&mut self, now: Time, network: &mut Network) {
        self.next_refresh = self.config.next_refresh(now);
        self.inputs.push(now);
        let id = INPUT_BIT | self.inputs.len() as u64;
        let to = End { flow: self.config.flow, far: false };
        network.send(now, OutgoingPacket { to, size: INPUT_SIZE, id, ecn: Ecn::NotCapable, bytes: Vec::new() });
        let Some(shown) = self.display.refresh(now, &mut self.tally) else { return };
        let frame = self.frames[shown.frame];
        let latency = now - frame.captured_at;
        let late = latency > self.config.client.deadline;
        self.tally.on_displayed(now, frame.captured_at, latency, late, shown.quality);
        if !late {
            self.sent_frames.on_good(shown.frame);
        }
        let new = (self.shown_input..frame.input).map(|input| now - self.inputs[input as usize]);
        self.tally.on_inputs_displayed(now, new);
        self.shown_input = self.shown_input.max(frame.input);
    }

    fn drain(&mut self, now: Time, network: &mut Network) {
        self.largest_window = self.largest_window.max(self.stream.connection().sender().law().window());
        let room = self.largest_window.get() * SOCKET_WINDOWS;
        while self.stream.queued().get() <= room
            && let Some((frame, coded)) = self.waiting.pop_front()
        {
            if self.stream.write(now, Bytes::new(coded.bits.len().max(1) as u64)).is_none() {
                self.waiting.push_front((frame, coded));
                break;
            }
            self.frames.push(frame);
            self.written.push_back((frame, coded));
        }
        while let Some(packet) = self.stream.poll_transmit(now) {
            let far = packet.direction == Direction::Forward;
            if far {
                self.tally.on_packet_sent(now, packet.size.get() as usize);
            }
            let to = End { flow: self.config.flow, far };
            let ecn = if packet.ecn { Ecn::Ect0 } else { Ecn::NotCapable };
            network.send(now, OutgoingPacket { to, size: packet.size, id: packet.id, ecn, bytes: Vec::new() });
        }
        let due = [
            Some(self.next_capture),
            Some(self.next_refresh),
            self.encoding.front().map(|encoding| encoding.ready_at),
            self.decoding.front().map(|decoding| decoding.done_at),
            self.stream.poll_timeout().map(|(at, _)| at.max(now + MIN_TIMER_STEP)),
        ];
        self.due = due.into_iter().flatten().min().unwrap_or(Time::FAR_FUTURE);
    }
}

/// Smallest step of a timer that is already due, so that the clock advances.
const MIN_TIMER_STEP: Span = Span::from_micros(10);
