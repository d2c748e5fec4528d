//! A controller's congestion window holds media back until feedback arrives.

use crate::pace::Mode;
use nearlight_rate::{Bounds, ControllerWake, Decision, Feedback, RateController, SentPacket, new_controller};
use nearlight_units::{Bitrate, Bytes, FrameId, PacketSeq, Span, Time};
use nearlight_wire as wire;

use super::path::frame_header;
use crate::{Algorithms, Distortion, EncodedFrame, Sender, SenderConfig};

/// A fixed rate with a window of 5,000 bytes.
struct Windowed(Box<dyn RateController>);

impl RateController for Windowed {
    fn name(&self) -> &'static str {
        "windowed"
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.0.on_packet_sent(packet);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        self.0.on_feedback(now, feedback);
    }

    fn on_timeout(&mut self, now: Time) {
        self.0.on_timeout(now);
    }

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        self.0.poll_timeout()
    }

    fn set_bounds(&mut self, now: Time, bounds: Bounds) {
        self.0.set_bounds(now, bounds);
    }

    fn decision(&self) -> Decision {
        Decision { window: Some(Bytes::new(5_000)), ..self.0.decision() }
    }

    fn held(&self) -> usize {
        self.0.held()
    }
}

#[test]
fn media_beyond_the_window_wait_for_feedback() {
    let (now, later) = (Time::from_secs(1), Time::from_millis(1_030));
    let interval = Span::from_millis(20);
    let config = SenderConfig {
        max_datagram: 1_000,
        pacing: Mode::Burst,
        frame_interval: interval,
        events: false,
        ..SenderConfig::default()
    };
    let controller = Windowed(new_controller("fixed", Bounds::up_to(Bitrate::from_mbps(8))).expect("a preset"));
    let mut sender = Sender::new(now, config, Algorithms { controller: Box::new(controller), redundancy: None });
    let frame = EncodedFrame {
        id: FrameId(0),
        reference: None,
        header: frame_header(now),
        bits: vec![0; 20_000].into(),
        distortion: Distortion::UNKNOWN,
        group_index: None,
    };
    sender.on_frame(now, frame);
    let leaves = |sender: &mut Sender, at: Time| {
        sender.on_timeout(at);
        std::iter::from_fn(|| sender.poll_transmit(at)).count() as u32
    };
    let first = leaves(&mut sender, now);
    assert!((5..=6).contains(&first), "{first} datagrams of about 1,000 bytes");
    assert_eq!(leaves(&mut sender, later), 0);
    let (due, _) = sender.poll_timeout().expect("the rest of the frame");
    assert_eq!(due, now + Span::from_millis(500), "no busy waiting");
    // All but the last have arrived: the window has room for as many.
    let arrivals = vec![Some(later.for_peer()); first as usize - 1];
    let feedback = wire::Feedback { sent_at: later.for_peer(), first: PacketSeq(0), arrivals, marked: Vec::new() };
    sender.on_datagram(later, &wire::ToServer::Feedback(feedback).to_bytes());
    assert_eq!(leaves(&mut sender, later), first - 1);
    // Nothing is heard for half a second: what was in flight is lost, and another window leaves.
    assert_eq!(leaves(&mut sender, later + Span::from_millis(499)), 0);
    assert_eq!(leaves(&mut sender, later + Span::from_millis(500)), first);
}

#[test]
fn a_blocked_transport_hears_of_the_timers_behind_the_pacers() {
    let now = Time::from_secs(1);
    let controller = new_controller("gcc-libwebrtc", Bounds::up_to(Bitrate::from_mbps(1))).expect("a preset");
    let mut sender = Sender::new(now, SenderConfig::default(), Algorithms { controller, redundancy: None });
    let frame = EncodedFrame {
        id: FrameId(0),
        reference: None,
        header: frame_header(now),
        bits: vec![0; 20_000].into(),
        distortion: Distortion::UNKNOWN,
        group_index: None,
    };
    sender.on_frame(now, frame);
    while sender.poll_transmit(now).is_some() {}
    let (paced_at, wake) = sender.poll_timeout().expect("most of the frame waits");
    assert_eq!(wake, crate::Wake::Pace);
    let (rate_at, wake) = sender.poll_timeout_while_blocked().expect("the controller has a clock of its own");
    assert_eq!(wake, crate::Wake::Rate);
    assert!(paced_at < rate_at && rate_at < now + Span::from_secs(1), "{paced_at:?} {rate_at:?}");
}
