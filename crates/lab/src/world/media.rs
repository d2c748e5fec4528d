//! A media session's place in the world: both ends of it, its encoder, its decoder and its display.

use std::collections::VecDeque;

use nearlight_codec::CodecError;
use nearlight_link::Ecn;
use nearlight_session::{EncodedFrame, Presence, Receiver, ReceiverConfig, Sender};
use nearlight_units::{Bitrate, Bytes, FrameId, InputSeq, Span, Time};
use nearlight_wire::{Fov, FrameHeader, Pose, View, marker::Marker};

use super::network::{Arrival, End, Network, Parcel};
use super::tally::Tally;
use crate::encoder::{Capture, Coded, FrameEncoder, Quality, Screen};
use crate::plan::{Client, Recovery};

/// The server's clock is ahead by this: nothing may rely on equal clocks.
const CLOCKS_APART: Span = Span::from_secs(1_000);

/// What a session is like.
pub(crate) struct MediaConfig {
    pub(crate) flow: u16,
    pub(crate) start: Time,
    pub(crate) stop: Time,
    pub(crate) pauses: Vec<(Time, Time)>,
    /// The first frame comes so long after the start.
    pub(crate) phase: Span,
    pub(crate) fps: u16,
    pub(crate) render: Span,
    pub(crate) encode: Span,
    /// On top of each datagram.
    pub(crate) headers: Bytes,
    pub(crate) client: Client,
    pub(crate) warm_up: Time,
}

struct Encoding {
    ready_at: Time,
    captured: Captured,
    coded: Coded,
}

#[derive(Clone, Copy)]
struct Captured {
    number: u32,
    at: Time,
    input: InputSeq,
    input_received_at: Time,
}

struct Decoding {
    done_at: Time,
    id: FrameId,
    input: InputSeq,
    captured_at: Time,
    show: bool,
    quality: Option<Quality>,
}

pub(crate) struct Media {
    config: MediaConfig,
    sender: Sender,
    receiver: Receiver,
    encoder: Box<dyn FrameEncoder>,
    screen: Option<Screen>,
    captured: u32,
    next_capture: Time,
    encoding: VecDeque<Encoding>,
    key_under_way: bool,
    newest_input: (InputSeq, Time),
    /// When each frame was captured and handed to the sender, by its id.
    frames: Vec<(Captured, Time)>,
    decoding: VecDeque<Decoding>,
    decoded: Option<Decoding>,
    refresh_start: Time,
    next_refresh: Time,
    sender_due: Time,
    receiver_due: Time,
    pub(crate) due: Time,
    pub(crate) tally: Tally,
    pub(crate) failed: Option<CodecError>,
}

impl Media {
    pub(crate) fn new(
        config: MediaConfig,
        sender: Sender,
        encoder: Box<dyn FrameEncoder>,
        screen: Option<Screen>,
    ) -> Self {
        let mut receiver = Receiver::new(ReceiverConfig { events: false });
        if config.client.recovery == Recovery::Intra {
            receiver.set_intra_only();
        }
        let next_capture = config.start + config.phase;
        let next_refresh = config.start;
        let due = next_capture.min(next_refresh);
        let tally = Tally::new(config.warm_up.max(config.start), config.stop);
        Self {
            sender,
            receiver,
            encoder,
            screen,
            captured: 0,
            next_capture,
            encoding: VecDeque::new(),
            key_under_way: false,
            newest_input: (InputSeq(0), Time::ZERO),
            frames: Vec::new(),
            decoding: VecDeque::new(),
            decoded: None,
            refresh_start: config.start,
            next_refresh,
            sender_due: Time::FAR_FUTURE,
            receiver_due: Time::FAR_FUTURE,
            due,
            tally,
            failed: None,
            config,
        }
    }

    /// The display first changes so long after the session's start.
    pub(crate) fn set_refresh_phase(&mut self, phase: Span) {
        self.refresh_start = self.config.start + phase;
        self.next_refresh = self.refresh_start;
        self.plan();
    }

    /// The rate controller at the server of this session starts with its clock.
    pub(crate) fn server_clock(now: Time) -> Time {
        now + CLOCKS_APART
    }

    pub(crate) fn target(&self) -> Bitrate {
        self.sender.decision().target
    }

    /// Packets that carried symbols again.
    pub(crate) fn repairs(&self, now: Time) -> u64 {
        self.sender.statistics(Self::server_clock(now)).repairs
    }

    pub(crate) fn is_active(&self, now: Time) -> bool {
        let paused = |(from, to): &(Time, Time)| *from <= now && now < *to;
        self.config.start <= now && now < self.config.stop && !self.config.pauses.iter().any(paused)
    }

    pub(crate) fn on_arrival(&mut self, now: Time, far: bool, arrival: &Arrival, network: &mut Network) {
        if far {
            self.tally.on_packet_received(now, arrival);
            self.receiver.on_datagram(now, &arrival.bytes);
            self.take_frames(now);
            self.drain_receiver(now, network);
        } else {
            self.sender.on_datagram(Self::server_clock(now), &arrival.bytes);
            self.drain_sender(now, network);
        }
        self.plan();
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
        while self.encoding.front().is_some_and(|encoding| encoding.ready_at <= now) {
            let Some(encoding) = self.encoding.pop_front() else { break };
            self.on_coded(now, encoding);
            self.sender_due = now;
        }
        while self.decoding.front().is_some_and(|decoding| decoding.done_at <= now) {
            let Some(done) = self.decoding.pop_front() else { break };
            self.receiver.on_decoded(now, done.id);
            if done.show {
                // A picture that was not shown by the next one never will be.
                if self.decoded.replace(done).is_some() {
                    self.tally.on_passed_over(now);
                }
            } else {
                self.tally.on_passed_over(now);
            }
        }
        if now >= self.next_refresh {
            self.refresh(now);
            self.receiver_due = now;
        }
        if now >= self.sender_due {
            self.drain_sender(now, network);
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

    /// Even distances from the start, so that no rounding adds up.
    fn tick(count: u64, rate: u16) -> Span {
        Span::from_nanos((count * 1_000_000_000 / u64::from(rate)) as i64)
    }

    fn capture(&mut self, now: Time) {
        let number = self.captured;
        self.captured += 1;
        let next = self.config.start + self.config.phase + Self::tick(u64::from(self.captured), self.config.fps);
        self.next_capture = if next < self.config.stop { next } else { Time::FAR_FUTURE };
        if !self.is_active(now) {
            return;
        }
        let server = Self::server_clock(now);
        if let Some(input) = self.sender.poll_input() {
            self.newest_input = (input.sample.seq, input.received_at);
        }
        self.tally.on_capture(now);
        if let Some(reason) = self.sender.refusal() {
            self.sender.on_skipped(server, reason);
            self.tally.on_skipped(now);
            return;
        }
        let wish = self.sender.wish();
        let key = wish.key && !self.key_under_way;
        match self.encoder.encode(&Capture { number, at: now, rate: wish.rate, key }) {
            Ok(coded) => {
                self.key_under_way |= coded.key;
                let (input, input_received_at) = self.newest_input;
                let captured = Captured { number, at: now, input, input_received_at };
                let ready_at = now + self.config.render + self.config.encode;
                self.encoding.push_back(Encoding { ready_at, captured, coded });
            }
            Err(error) => {
                self.failed = Some(error);
                self.next_capture = Time::FAR_FUTURE;
            }
        }
    }

    fn on_coded(&mut self, now: Time, encoding: Encoding) {
        let Encoding { captured, coded, .. } = encoding;
        let id = self.sender.next_frame();
        let captured_at = Self::server_clock(captured.at);
        let rendered_at = captured_at + self.config.render;
        let header = FrameHeader {
            width: 64,
            height: 64,
            input: captured.input,
            input_received_at: if captured.input == InputSeq(0) { captured_at } else { captured.input_received_at },
            render_started_at: captured_at,
            rendered_at,
            converted_at: rendered_at,
            encoded_at: Self::server_clock(now),
            display_at: captured_at + self.config.client.deadline,
            deadline: captured_at + self.config.client.deadline,
            views: vec![VIEW],
        };
        self.frames.push((captured, now));
        self.key_under_way &= !coded.key;
        self.tally.on_frame_sent(captured.at, coded.key);
        let reference = id.0.checked_sub(1).map(FrameId).filter(|_| !coded.key);
        self.sender.on_frame(Self::server_clock(now), EncodedFrame { id, reference, header, bits: coded.bits });
    }

    fn take_frames(&mut self, now: Time) {
        while let Some(frame) = self.receiver.poll_frame(now) {
            let Some((captured, sent_at)) = self.frames.get(frame.id.0 as usize).copied() else { continue };
            let quality = self.screen.as_mut().map(|screen| screen.decode(frame.bits(), captured.number));
            if quality == Some(None) {
                self.receiver.on_decode_failed(now, frame.id);
                continue;
            }
            self.tally.on_frame_received(now, captured.at, sent_at);
            let free_at = self.decoding.back().map_or(now, |decoding| decoding.done_at.max(now));
            self.decoding.push_back(Decoding {
                done_at: free_at + self.config.client.decode,
                id: frame.id,
                input: captured.input,
                captured_at: captured.at,
                show: frame.show,
                quality: quality.flatten(),
            });
        }
    }

    fn refresh(&mut self, now: Time) {
        let rate = self.config.client.refresh;
        let elapsed = (now - self.refresh_start).as_nanos() as u64;
        let count = (elapsed * u64::from(rate) + 500_000_000) / 1_000_000_000 + 1;
        let next = self.refresh_start + Self::tick(count, rate);
        self.next_refresh = if next < self.config.stop { next } else { Time::FAR_FUTURE };
        self.receiver.on_input(now, Presence { head: HEAD, views: vec![VIEW], hands: Vec::new() });
        let Some(shown) = self.decoded.take() else { return };
        let marker = Marker { frame: shown.id, input: shown.input };
        let displayed = self.receiver.on_displayed(now, shown.id, Some(marker));
        let late = now - shown.captured_at > self.config.client.deadline;
        self.tally.on_displayed(now, shown.captured_at, late, shown.quality);
        for (_, span) in displayed.iter().flat_map(|displayed| &displayed.inputs) {
            self.tally.on_motion_to_photon(now, *span);
        }
    }

    fn drain_sender(&mut self, now: Time, network: &mut Network) {
        let server = Self::server_clock(now);
        while let Some(bytes) = self.sender.poll_transmit(server) {
            self.tally.on_packet_sent(now, bytes.len());
            network.send(now, parcel(self.config.flow, true, self.config.headers, bytes));
        }
        self.sender_due =
            self.sender.poll_timeout().map_or(Time::FAR_FUTURE, |(at, _)| (at - CLOCKS_APART).max(now + TICK));
    }

    fn drain_receiver(&mut self, now: Time, network: &mut Network) {
        if now >= self.config.stop {
            self.receiver_due = Time::FAR_FUTURE;
            return;
        }
        while let Some(bytes) = self.receiver.poll_transmit(now) {
            network.send(now, parcel(self.config.flow, false, self.config.headers, bytes));
        }
        self.receiver_due = self.receiver.poll_timeout().map_or(Time::FAR_FUTURE, |(at, _)| at.max(now + TICK));
    }
}

/// A timer that is due already must not stop the clock.
const TICK: Span = Span::from_micros(10);

const HEAD: Pose = Pose { position: [0.0; 3], orientation: [0.0, 0.0, 0.0, 1.0] };

const VIEW: View = View { pose: HEAD, fov: Fov { left: -1.0, right: 1.0, down: -1.0, up: 1.0 } };

fn parcel(flow: u16, far: bool, headers: Bytes, bytes: Vec<u8>) -> Parcel {
    let size = Bytes::new(bytes.len() as u64) + headers;
    Parcel { to: End { flow, far }, size, id: 0, ecn: Ecn::NotCapable, bytes }
}
