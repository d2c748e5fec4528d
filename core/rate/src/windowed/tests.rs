use nearlight_units::FrameId;

use super::*;

const BOUNDS: Bounds =
    Bounds { minimum: Bitrate::from_mbps(1), start: Bitrate::from_mbps(8), maximum: Bitrate::from_mbps(100) };
const ROUND_TRIP: Span = Span::from_millis(40);

/// A sender whose packets all have the same fate, a message each millisecond.
struct Stream<L> {
    controller: Windowed<L>,
    now: Time,
    seq: PacketSeq,
}

impl<L: CongestionLaw> Stream<L> {
    fn new(controller: Windowed<L>) -> Self {
        Self { controller, now: Time::from_secs(1), seq: PacketSeq(0) }
    }

    /// Sends a window's packets and tells of all a round trip later, of which the first `lost` are missing.
    fn round(&mut self, lost: u32) {
        let count = (self.controller.law.window().get() / LAW_PACKET.get()).max(1) as u32;
        let packets: Vec<SentPacket> = (0..count)
            .map(|index| SentPacket {
                seq: PacketSeq(self.seq.0 + index),
                sent_at: self.now,
                size: LAW_PACKET,
                frame: Some(FrameId(0)),
                probe: None,
                app_limited: false,
            })
            .collect();
        for packet in &packets {
            self.controller.on_packet_sent(packet);
        }
        self.seq = PacketSeq(self.seq.0 + count);
        self.now += ROUND_TRIP;
        let reports: Vec<PacketReport> = packets
            .into_iter()
            .zip(0..)
            .map(|(packet, index)| {
                let arrived_at = Some((packet.sent_at + ROUND_TRIP / 2 + Span::from_secs(900)).for_peer());
                PacketReport { packet, arrived_at: arrived_at.filter(|_| index >= lost), ce: false }
            })
            .collect();
        self.controller.on_feedback(self.now, &Feedback { packets: &reports, round_trip: Some(ROUND_TRIP) });
    }
}

#[test]
fn the_target_is_nine_tenths_of_the_window_over_the_round_trip() {
    let mut stream = Stream::new(Windowed::cubic(BOUNDS));
    assert_eq!(stream.controller.decision().target, BOUNDS.start, "the user's start, until a round trip is known");
    stream.round(0);
    let decision = stream.controller.decision();
    // Slow start: ten packets have become twenty.
    assert_eq!((decision.window, stream.controller.law.window()), (None, Bytes::new(LAW_PACKET.get() * 20)));
    let window_rate = 20.0 * 9_600.0 / 0.04;
    assert!((decision.target.as_bps() as f64 - 0.9 * window_rate).abs() < 2.0, "{decision:?}");
    assert!((decision.pacing.as_bps() as f64 - 1.2 * window_rate).abs() < 2.0, "{decision:?}");
    assert_eq!(decision.binding, Limit::Window);
}

#[test]
fn cubic_keeps_seven_tenths_on_loss_once_a_round_trip_and_is_back_after_k() {
    let mut stream = Stream::new(Windowed::cubic(BOUNDS));
    (0..5).for_each(|_| stream.round(0));
    let before = stream.controller.law.window().get() as f64;
    assert!(before > 300.0 * 1_200.0, "slow start got to {before}");
    // 40 packets are missing in one window: one reduction. The rest of the window opens it by a few packets.
    stream.round(40);
    let after = stream.controller.law.window().get() as f64;
    assert!((after / before - 0.7).abs() < 0.01, "{} of the window", after / before);
    assert_eq!(stream.controller.decision().binding, Limit::Loss);
    // K = cbrt(W_max (1 - beta) / C) seconds after the loss, W_max in packets.
    let climb = (before / 1_200.0 * 0.3 / 0.4).cbrt();
    let rounds = (climb / 0.04).round() as u32;
    (0..rounds).for_each(|_| stream.round(0));
    let back = stream.controller.law.window().get() as f64;
    assert!((back / before - 1.0).abs() < 0.02, "{} of the window after {climb} s", back / before);
}

#[test]
fn bbr_follows_the_delivery_rate_rather_than_losses() {
    let mut stream = Stream::new(Windowed::bbr(BOUNDS));
    (0..3).for_each(|_| stream.round(0));
    let before = stream.controller.law.bandwidth();
    stream.round(2);
    assert!(stream.controller.law.bandwidth() >= before);
    assert!(stream.controller.decision().target > BOUNDS.start, "{:?}", stream.controller.decision());
    // All of a window within a round trip, of which the last sample tells.
    let window = stream.controller.law.window().over(ROUND_TRIP);
    let share = stream.controller.law.bandwidth().as_bps() as f64 / window.as_bps() as f64;
    assert!((0.3..=1.0).contains(&share), "{share}");
}

#[test]
fn without_feedback_the_law_times_out_once_and_the_rate_is_the_lowest() {
    for blocked in [false, true] {
        let mut stream = Stream::new(Windowed::cubic(BOUNDS));
        (0..4).for_each(|_| stream.round(0));
        let packet = SentPacket {
            seq: stream.seq,
            sent_at: stream.now,
            size: LAW_PACKET,
            frame: None,
            probe: None,
            app_limited: true,
        };
        stream.controller.on_packet_sent(&packet);
        let (due, wake) = stream.controller.poll_timeout().expect("feedback is missing");
        assert_eq!((due, wake), (stream.now + Span::from_millis(500), ControllerWake::FeedbackTimeout));
        if blocked {
            stream.controller.on_timeout(due);
            let decision = stream.controller.decision();
            assert_eq!((decision.target, stream.controller.poll_timeout()), (BOUNDS.minimum, None));
            assert_eq!((stream.controller.law.window(), decision.binding), (LAW_PACKET, Limit::Minimum));
        }
        stream.now = due + ROUND_TRIP;
        stream.round(0);
        // A packet has become two, or the window stands as it was and grew.
        assert_eq!(stream.controller.law.window() <= LAW_PACKET + LAW_PACKET, blocked);
    }
}

#[test]
fn at_the_lowest_rate_bbr_sees_no_more_under_way_than_its_window() {
    let minimum = Bitrate::from_mbps(5);
    let mut controller = Windowed::bbr(Bounds { minimum, start: minimum, ..BOUNDS });
    controller.at_minimum = true;
    for seq in 0..30 {
        controller.on_packet_sent(&SentPacket {
            seq: PacketSeq(seq),
            sent_at: Time::from_secs(1),
            size: LAW_PACKET,
            frame: None,
            probe: None,
            app_limited: false,
        });
    }
    assert_eq!((controller.in_flight_for_law(), controller.flight.bytes()), (Bytes::new(12_000), Bytes::new(36_000)));
}
