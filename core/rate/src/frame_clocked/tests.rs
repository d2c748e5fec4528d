use nearlight_units::{Bitrate, Bytes, FrameId, PacketSeq};

use super::*;

const BOUNDS: Bounds =
    Bounds { minimum: Bitrate::from_kbps(200), start: Bitrate::from_mbps(2), maximum: Bitrate::from_mbps(50) };
const PACKET: Bytes = Bytes::new(1_250);
const FRAME: Span = Span::from_millis(33);
/// A packet's time on a wire of 1 Gb/s.
const LINE: Span = Span::from_micros(10);

fn target_share() -> f64 {
    Parameters::default().target_share
}

/// Frames of the controller's own size over a wire with a queue; feedback comes with the next frame.
struct Wire {
    controller: FrameClocked,
    capacity: Bitrate,
    free_at: Time,
    now: Time,
    seq: u32,
    frame: u32,
    /// One of this many packets is lost behind the bottleneck.
    loses: u32,
    /// What a token bucket lets through at line rate.
    burst: Bytes,
    /// Two of others' packets lie before every second one of ours.
    interleaved: bool,
    /// A policer drops what exceeds this rate.
    policed: Option<Bitrate>,
}

impl Wire {
    fn new(capacity: Bitrate) -> Self {
        let (free_at, now) = (Time::ZERO, Time::from_secs(1));
        Self {
            controller: FrameClocked::new(BOUNDS),
            capacity,
            free_at,
            now,
            seq: 0,
            frame: 0,
            loses: 0,
            burst: Bytes::ZERO,
            interleaved: false,
            policed: None,
        }
    }

    /// The next packet of the frame.
    fn packet(&mut self, sent_at: Time, app_limited: bool) -> SentPacket {
        self.seq += 1;
        SentPacket {
            seq: PacketSeq(self.seq),
            sent_at,
            size: PACKET,
            frame: Some(FrameId(self.frame)),
            probe: None,
            app_limited,
        }
    }

    /// Makes the next packet and tells the controller that it leaves.
    fn send(&mut self, sent_at: Time, app_limited: bool) -> SentPacket {
        let packet = self.packet(sent_at, app_limited);
        self.controller.on_packet_sent(&packet);
        packet
    }

    fn run(&mut self, frames: u32) -> Decision {
        for _ in 0..frames {
            let decision = self.controller.decision();
            let size = decision.target.bytes_in(FRAME);
            let count = (size.get() / PACKET.get()).max(1);
            let mut reports = Vec::new();
            for index in 0..count {
                let sent_at = self.now + decision.pacing.time_to_send(Bytes::new(PACKET.get() * index));
                let others = Bytes::new(if self.interleaved && index % 2 > 0 { 2 * PACKET.get() } else { 0 });
                self.free_at = self.free_at.max(sent_at) + self.capacity.time_to_send(PACKET + others);
                let leaves_at = (self.free_at - self.capacity.time_to_send(self.burst)).max(sent_at + LINE);
                let packet = self.packet(sent_at, index + 1 == count);
                let exceeds = |rate: Bitrate| PACKET.get() * (index + 1) > rate.bytes_in(FRAME).get();
                let lost = self.policed.is_some_and(exceeds) || self.loses > 0 && self.seq.is_multiple_of(self.loses);
                reports.push(PacketReport {
                    packet,
                    arrived_at: (!lost).then_some((leaves_at + Span::from_secs(90)).for_peer()),
                    ce: false,
                });
            }
            let frame = SentFrame { frame: FrameId(self.frame), size, key: false, encode: Span::ZERO };
            self.controller.on_frame_sent(self.now, &frame);
            self.now += FRAME;
            self.controller
                .on_feedback(self.now, &Feedback { packets: &reports, round_trip: Some(Span::from_millis(20)) });
            self.frame += 1;
        }
        self.controller.decision()
    }
}

#[test]
fn a_frame_takes_its_share_of_any_capacity_with_and_without_losses() {
    for loses in [0, 10] {
        for mbps in [1, 4, 10, 40] {
            let mut wire = Wire::new(Bitrate::from_mbps(mbps));
            wire.loses = loses;
            let target = wire.run(90).target.as_mbps_f64();
            let wanted = mbps as f64 * target_share();
            assert!((target / wanted - 1.0).abs() < 0.06, "{mbps} Mb/s, one in {loses}: {target}");
        }
    }
}

#[test]
fn a_policer_is_found_and_named() {
    let mut wire = Wire::new(Bitrate::from_mbps(1_000));
    wire.policed = Some(Bitrate::from_mbps(20));
    let decision = wire.run(300);
    assert_eq!(decision.binding, Limit::Policer, "{decision:?}");
    assert!((17.0..21.0).contains(&decision.target.as_mbps_f64()), "{decision:?}");
    wire.policed = None;
    let decision = wire.run(1_200);
    assert_eq!(decision.binding, Limit::Maximum, "{decision:?}");
}

#[test]
fn a_smaller_capacity_shows_in_the_next_feedback_and_a_larger_one_in_frames() {
    let mut wire = Wire::new(Bitrate::from_mbps(10));
    wire.run(60);
    wire.capacity = Bitrate::from_mbps(3);
    let at_once = wire.run(1).target.as_mbps_f64();
    assert!(at_once < 3.0 * target_share() * 1.06, "{at_once}");
    let settled = wire.run(15).target.as_mbps_f64();
    assert!((settled / (3.0 * target_share()) - 1.0).abs() < 0.1, "{settled}: the queue has drained");
    wire.capacity = Bitrate::from_mbps(10);
    let grown = wire.run(20).target.as_mbps_f64();
    assert!(grown > 8.9, "{grown}");
}

#[test]
fn frames_too_small_for_a_sample_do_not_keep_the_rate_down() {
    // Frames of four, two and one packets.
    for (kbps, frames) in [(2_000, 25), (900, 40), (400, 80)] {
        let mut wire = Wire::new(Bitrate::from_kbps(kbps));
        let low = wire.run(120).target.as_bps() as f64;
        let share = (kbps as f64 * 1e3 * target_share()).max(BOUNDS.minimum.as_bps() as f64);
        assert!(low < share * 1.3, "{kbps} kb/s: {low}");
        wire.capacity = Bitrate::from_mbps(20);
        let high = wire.run(frames).target.as_mbps_f64();
        assert!(high > 8.0, "{kbps} kb/s: {high} Mb/s after {frames} frames");
    }
}

#[test]
fn a_queue_of_others_lowers_the_target_until_it_is_gone() {
    let mut wire = Wire::new(Bitrate::from_mbps(10));
    let before = wire.run(60).target;
    wire.free_at = wire.now + Span::from_millis(60);
    let decision = wire.run(1);
    assert!(decision.target < before.mul_f64(0.2) && decision.binding == Limit::Delay, "{decision:?}");
    let after = wire.run(20).target;
    assert!(after > before.mul_f64(0.9), "{after} after {before}");
}

#[test]
fn a_token_bucket_is_not_overloaded_although_frames_come_through_at_line_rate() {
    for mbps in [2, 4, 8] {
        let mut wire = Wire::new(Bitrate::from_mbps(mbps));
        wire.burst = Bytes::new(18_000);
        wire.run(60);
        let (mut sum, mut waits) = (0.0, Vec::new());
        for _ in 0..300 {
            sum += wire.run(1).target.as_mbps_f64();
            waits.push(wire.free_at - wire.capacity.time_to_send(wire.burst) - wire.now);
        }
        waits.sort_unstable();
        let mean = sum / 300.0;
        // Frames are whole packets, a tenth smaller than the target here.
        assert!((0.5..1.1).contains(&(mean / mbps as f64)), "{mbps} Mb/s: {mean}");
        assert!(waits[285] < FRAME, "{mbps} Mb/s: frames wait for {}", waits[285]);
    }
}

#[test]
fn without_feedback_the_rate_falls_to_the_minimum() {
    let mut wire = Wire::new(Bitrate::from_mbps(10));
    wire.run(60);
    let sent_at = wire.now;
    wire.send(sent_at, true);
    let mut steps = 0;
    while let Some((at, reason)) = wire.controller.poll_timeout() {
        if reason == ControllerWake::FeedbackTimeout {
            assert_eq!(at - sent_at, Span::from_millis(500 * (steps + 1)));
            steps += 1;
        }
        wire.controller.on_timeout(at);
    }
    assert_eq!(wire.controller.decision().target, BOUNDS.minimum);
    assert!(wire.run(1).target > BOUNDS.minimum, "feedback is back");
}

#[test]
fn feedback_that_is_late_lowers_the_target_before_any_packet_tells() {
    let mut wire = Wire::new(Bitrate::from_mbps(10));
    let before = wire.run(60).target;
    let sent_at = wire.now;
    wire.send(sent_at, true);
    let mut targets = Vec::new();
    while let Some((at, ControllerWake::Step)) = wire.controller.poll_timeout() {
        wire.controller.on_timeout(at);
        targets.push((at - sent_at, wire.controller.decision().target));
    }
    // The usual report takes up to a frame interval; one more is waited for, and a second one leaves the least.
    let (first, _) = targets[0];
    assert!(first > FRAME && first < FRAME * 4, "{targets:?}");
    assert!(
        targets.len() <= 3 && targets[targets.len() - 1].1 <= before.mul_f64(Parameters::default().min_room * 1.01),
        "{before} {targets:?}"
    );
}

#[test]
fn rare_feedback_is_not_late() {
    let mut wire = Wire::new(Bitrate::from_mbps(10));
    let (mut late, every) = (0, 4);
    let mut reports = Vec::new();
    for frame in 0..120_u32 {
        wire.frame = frame;
        let sent_at = wire.now;
        for _ in 0..8 {
            let packet = wire.send(sent_at, false);
            wire.free_at = wire.free_at.max(sent_at) + wire.capacity.time_to_send(PACKET);
            reports.push(PacketReport { packet, arrived_at: Some(wire.free_at.for_peer()), ce: false });
        }
        wire.now += FRAME;
        while let Some((at, _)) = wire.controller.poll_timeout().filter(|(at, _)| *at <= wire.now) {
            wire.controller.on_timeout(at);
            late += u32::from(frame >= 40);
        }
        if frame % every == every - 1 {
            let round_trip = Some(Span::from_millis(20));
            wire.controller.on_feedback(wire.now, &Feedback { packets: &std::mem::take(&mut reports), round_trip });
        }
    }
    assert_eq!(late, 0, "reports come every fourth frame");
}

/// Frames of the controller's size and pacing beside a flow that keeps this queue, whatever we send.
fn beside(wire: &mut Wire, queue: Span, frames: u32) -> Decision {
    for _ in 0..frames {
        let decision = wire.controller.decision();
        let round_trip = Some(queue + Span::from_millis(20));
        let size = decision.target.bytes_in(FRAME);
        let count = (size.get() / PACKET.get()).max(1);
        let took = wire.capacity.time_to_send(PACKET);
        let reports: Vec<PacketReport> = (0..count)
            .map(|index| {
                let sent_at = wire.now + decision.pacing.time_to_send(Bytes::new(PACKET.get() * index));
                let arrived_at = (sent_at + queue).max(wire.free_at) + took;
                wire.free_at = arrived_at;
                let packet = wire.send(sent_at, index + 1 == count);
                PacketReport { packet, arrived_at: Some((arrived_at + Span::from_secs(90)).for_peer()), ce: false }
            })
            .collect();
        wire.now += FRAME;
        wire.controller.on_feedback(wire.now, &Feedback { packets: &reports, round_trip });
        wire.frame += 1;
    }
    wire.controller.decision()
}

#[test]
fn beside_a_queue_that_stands_the_rate_is_shared_first_then_competed_for_and_taken_when_it_is_empty() {
    let mut wire = Wire::new(Bitrate::from_mbps(10));
    let alone = wire.run(60).target;
    let queue = Span::from_millis(60);
    let yielded = beside(&mut wire, queue, 25);
    assert!(matches!(wire.controller.mode, Mode::Sharing(_)) && yielded.target < alone.mul_f64(0.3), "{yielded:?}");
    let competing = beside(&mut wire, queue, 30);
    assert!(matches!(wire.controller.mode, Mode::Competing(_)) && competing.binding == Limit::Window, "{competing:?}");
    assert!(competing.target > alone.mul_f64(0.4), "half of what it had: {competing:?}");
    wire.free_at = wire.now;
    let after = wire.run(40).target;
    assert!(
        !matches!(wire.controller.mode, Mode::Competing(_)) && after > alone.mul_f64(0.85),
        "{after} after {alone}"
    );
}

#[test]
fn the_queue_of_our_own_is_never_shared_nor_competed_for() {
    let mut wire = Wire::new(Bitrate::from_mbps(10));
    wire.run(60);
    for mbps in [3, 10, 2, 8] {
        wire.capacity = Bitrate::from_mbps(mbps);
        for _ in 0..60 {
            wire.run(1);
            assert!(!wire.controller.mode.is_beside_others(), "at {mbps} Mb/s");
        }
    }
}

#[test]
fn frames_between_whose_packets_others_lie_are_shared_and_those_of_a_slower_path_are_not() {
    let mut wire = Wire::new(Bitrate::from_mbps(20));
    wire.run(60);
    wire.capacity = Bitrate::from_mbps(12);
    wire.run(300);
    assert!(!matches!(wire.controller.mode, Mode::Sharing(_)), "all packets are further apart");
    let mut wire = Wire::new(Bitrate::from_mbps(20));
    wire.run(60);
    wire.interleaved = true;
    wire.run(100);
    assert!(!matches!(wire.controller.mode, Mode::Sharing(_)), "for some seconds only");
    wire.run(100);
    assert!(matches!(wire.controller.mode, Mode::Sharing(_)));
}
