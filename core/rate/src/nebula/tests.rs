use nearlight_units::{FrameId, PacketSeq};

use super::*;
use crate::PacketReport;

const BOUNDS: Bounds = Bounds { minimum: Ladder::RATES.0, start: Bitrate::from_kbps(3_000), maximum: Ladder::RATES.1 };
const FRAME: Span = Span::from_micros(33_334);
const PACKET: Bytes = Bytes::new(1_400);

/// A path of `capacity` with this queueing delay and a round trip of 20 ms; frames of the present target, told of at once.
struct Session {
    nebula: Nebula,
    frame: u32,
    seq: u32,
    capacity: Bitrate,
    queueing: Span,
    latency: Span,
}

impl Session {
    fn new(options: NebulaOptions) -> Self {
        let nebula = Nebula::new(BOUNDS, options);
        let (capacity, queueing, latency) = (Bitrate::from_mbps(5), Span::ZERO, Span::from_millis(100));
        Self { nebula, frame: 0, seq: 0, capacity, queueing, latency }
    }

    fn run(&mut self, frames: u32) -> Decision {
        for _ in 0..frames {
            self.send();
        }
        self.nebula.decision()
    }

    fn send(&mut self) {
        let sent_at = Time::from_secs(1) + FRAME * i64::from(self.frame);
        let size = self.nebula.decision().target.bytes_in(FRAME);
        let frame = FrameId(self.frame);
        let key = self.frame.is_multiple_of(10);
        self.nebula.on_frame_sent(sent_at, &SentFrame { frame, size, key, encode: Span::ZERO });
        let count = size.get().div_ceil(PACKET.get()).max(2) as u32;
        let gap = self.capacity.time_to_send(PACKET);
        let reports: Vec<PacketReport> = (0..count)
            .map(|index| {
                let (seq, app_limited) = (PacketSeq(self.seq + index), index + 1 == count);
                let packet = SentPacket { seq, sent_at, size: PACKET, frame: Some(frame), probe: None, app_limited };
                self.nebula.on_packet_sent(&packet);
                PacketReport { packet, arrived_at: Some((sent_at + gap * i64::from(index)).for_peer()), ce: false }
            })
            .collect();
        self.frame += 1;
        self.seq += count;
        let round_trip = Some(Span::from_millis(20) + self.queueing);
        self.nebula.on_feedback(sent_at + FRAME, &Feedback { packets: &reports, round_trip });
        let outcome = FrameOutcome {
            frame,
            network: Span::ZERO,
            reassemble: Span::ZERO,
            decode: Span::ZERO,
            motion_to_photon: Some(self.latency),
            late: false,
        };
        self.nebula.on_frame_outcome(sent_at + FRAME, &outcome);
    }
}

#[test]
fn the_rung_is_the_highest_that_throughput_carries_beside_redundancy() {
    // What is left beside one repair per frame decides: 4,500 of 5,000 kb/s, but 6,500 needs more than 7,000.
    for (mbps, kbps) in [(2, 1_200), (5, 4_500), (6, 4_500), (8, 6_500), (100, 6_500)] {
        let mut session = Session::new(NebulaOptions::NEBULA);
        session.capacity = Bitrate::from_mbps(mbps);
        let decision = session.run(90);
        assert_eq!(decision.target, Bitrate::from_kbps(kbps), "{mbps} Mb/s: {decision:?}");
        let share = decision.redundancy.expect("planned").share;
        assert!(session.capacity.mul_f64(1.0 - share) >= decision.target && share > 0.0, "{decision:?}");
    }
}

#[test]
fn the_start_holds_for_a_second_and_steps_come_once_a_second() {
    let mut session = Session::new(NebulaOptions::NEBULA);
    assert_eq!(session.run(30).target, BOUNDS.start);
    assert_eq!(session.run(1).target, Bitrate::from_kbps(4_500));
    session.capacity = Bitrate::from_kbps(1_100);
    assert_eq!(session.run(29).target, Bitrate::from_kbps(4_500));
    // The mean of a second at 5 Mb/s and one at 1.1.
    assert_eq!(session.run(2).target, Bitrate::from_kbps(2_000));
}

#[test]
fn queueing_delay_lowers_the_sending_rate_in_proportion_to_a_step() {
    for (millis, share) in [(0, 1.0), (100, 0.9), (500, 0.5), (1_000, 0.0), (5_000, 0.0)] {
        let mut session = Session::new(NebulaOptions::NEBULA);
        session.run(1);
        session.queueing = Span::from_millis(millis);
        session.run(40);
        let sending = session.nebula.sending.expect("measured").as_mbps_f64();
        assert!((sending - 5.0 * share).abs() < 1e-3, "{millis} ms: {sending}");
    }
}

#[test]
fn a_late_picture_does_not_grow_and_takes_the_rung_below() {
    let mut session = Session::new(NebulaOptions::NEBULA);
    session.latency = Span::from_millis(131);
    let decision = session.run(31);
    assert_eq!((decision.target, decision.binding), (Bitrate::from_kbps(3_000), Limit::Delay));
    assert_eq!(session.run(30).target, Bitrate::from_kbps(3_000), "each step weighs anew");
    session.latency = Span::from_millis(130);
    let decision = session.run(30);
    assert_eq!((decision.target, decision.binding), (Bitrate::from_kbps(4_500), Limit::Throughput));
}

#[test]
fn fewer_frames_are_captured_only_below_the_lowest_rung() {
    for (kbps, frame_rate) in [(500, 1.0), (150, 0.75), (30, 1.0 / 3.0)] {
        let mut session = Session::new(NebulaOptions::ESCOT);
        session.capacity = Bitrate::from_kbps(kbps);
        let step = session.run(40).step.expect("a ladder");
        assert_eq!(step.rung, 0);
        assert!((step.frame_rate - frame_rate).abs() < 1e-3, "{kbps} kb/s: {step:?}");
    }
}

#[test]
fn escot_steps_with_each_group_and_adds_less() {
    let mut session = Session::new(NebulaOptions::ESCOT);
    assert_eq!(session.run(9).target, BOUNDS.start);
    let decision = session.run(1);
    assert_eq!(decision.target, Bitrate::from_kbps(4_500));
    assert!(decision.redundancy.expect("planned").share.abs() < 1e-12, "nothing was lost");
}

#[test]
fn without_feedback_the_picture_falls_rung_by_rung() {
    let mut session = Session::new(NebulaOptions::NEBULA);
    session.run(31);
    let packet = SentPacket {
        seq: PacketSeq(session.seq),
        sent_at: Time::from_secs(3),
        size: PACKET,
        frame: None,
        probe: None,
        app_limited: true,
    };
    session.nebula.on_packet_sent(&packet);
    let mut rungs = Vec::new();
    while let Some((at, wake)) = session.nebula.poll_timeout() {
        assert_eq!(
            (at - packet.sent_at, wake),
            (Span::from_millis(500 * (rungs.len() as i64 + 1)), ControllerWake::FeedbackTimeout)
        );
        session.nebula.on_timeout(at);
        rungs.push(session.nebula.decision().step.expect("a ladder").rung);
    }
    assert_eq!(rungs, [6, 5, 4, 3, 2, 1, 0]);
}
