//! The cost of sender and receiver per packet, joined by a perfect path in virtual time.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nearlight_fec::policy::new_policy;
use nearlight_rate::{Bounds, new_controller};
use nearlight_session::pace::Mode;
use nearlight_session::{
    Algorithms, Distortion, EncodedFrame, Presence, Receiver, ReceiverConfig, Sender, SenderConfig,
};
use nearlight_units::{Bitrate, FrameId, InputSeq, Span, Time};
use nearlight_wire::{Fov, FrameHeader, Pose, View, marker::Marker};

/// Size of a frame: 30 Mb/s at 60 frames a second.
const FRAME_BYTES: usize = 62_500;
const FRAME_INTERVAL: Span = Span::from_micros(16_667);
const MAX_DATAGRAM: usize = 1_200;

struct Pair {
    now: Time,
    sender: Sender,
    receiver: Receiver,
    bits: Vec<u8>,
    view: View,
}

impl Pair {
    fn new(controller: &str, fec: &str) -> Self {
        let config = SenderConfig {
            max_datagram: MAX_DATAGRAM,
            pacing: Mode::Burst,
            frame_interval: FRAME_INTERVAL,
            events: false,
            ..SenderConfig::default()
        };
        let now = Time::from_secs(1);
        let controller = new_controller(controller, Bounds::up_to(Bitrate::from_mbps(50))).expect("a preset");
        let algorithms = Algorithms { controller, redundancy: Some(new_policy(fec).expect("a policy")) };
        Self {
            now,
            sender: Sender::new(now, config, algorithms),
            receiver: Receiver::new(ReceiverConfig { events: false }),
            bits: vec![7; FRAME_BYTES],
            view: View { pose: Pose::default(), fov: Fov::symmetric(1.2, 1.8) },
        }
    }

    /// Sends one frame from encoder to display. Returns the number of its packets.
    fn frame(&mut self) -> u64 {
        self.now += FRAME_INTERVAL;
        let presence = Presence::of_views(Pose::default(), vec![self.view]);
        self.receiver.uplink().on_presence(self.now, presence);
        self.receiver.on_timeout(self.now);
        while let Some(datagram) = self.receiver.poll_transmit(self.now) {
            self.sender.on_datagram(self.now, &datagram);
        }
        let input = self.sender.poll_input(self.now).map_or(InputSeq(0), |input| input.sample.seq);
        let id = self.sender.target().encoder.next;
        let reference = id.0.checked_sub(1).map(FrameId).filter(|_| !self.sender.target().encoder.key);
        let header = self.header(input);
        self.sender.on_frame(
            self.now,
            EncodedFrame {
                id,
                reference,
                header,
                bits: (&self.bits).into(),
                distortion: Distortion::UNKNOWN,
                group_index: None,
            },
        );
        let mut packets = 0;
        self.sender.on_timeout(self.now);
        while let Some(datagram) = self.sender.poll_transmit(self.now) {
            packets += 1;
            self.receiver.on_datagram(self.now, &datagram);
            self.sender.take_back(datagram);
        }
        while let Some(frame) = self.receiver.frames().poll(self.now) {
            let marker = Marker { frame: frame.id, input: frame.header.input };
            self.receiver.frames().on_decoded(self.now, frame.id);
            self.receiver.frames().on_displayed(self.now, frame.id, Some(marker));
        }
        packets
    }

    fn header(&self, input: InputSeq) -> FrameHeader {
        FrameHeader {
            width: 1_280,
            height: 720,
            input,
            input_received_at: self.now,
            render_started_at: self.now,
            rendered_at: self.now,
            converted_at: self.now,
            encoded_at: self.now,
            display_at: self.now,
            deadline: self.now + Span::from_millis(100),
            views: vec![self.view],
        }
    }
}

fn per_packet(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("session");
    group.throughput(Throughput::Elements(FRAME_BYTES.div_ceil(MAX_DATAGRAM - 32) as u64));
    for (controller, fec) in [("fixed", "none"), ("gcc-libwebrtc", "none"), ("fixed", "planner"), ("fixed", "fixed:10")]
    {
        let mut pair = Pair::new(controller, fec);
        // Elements per second are packets per second: the cost of a packet is the inverse.
        let name = format!("sender and receiver, {controller}, fec {fec}");
        group.bench_function(name, |bencher| bencher.iter(|| pair.frame()));
    }
    group.finish();
}

criterion_group!(benches, per_packet);
criterion_main!(benches);
