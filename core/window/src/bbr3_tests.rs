use super::*;
use crate::DeliveryRate;

const PACKET: Bytes = Bytes::new(1_500);
const PATH: Span = Span::from_millis(40);

/// A path that carries 1000 packets a second over 40 ms, with a round of packets for each call.
struct Path {
    law: BbrV3,
    now: Time,
    delivered: u64,
    rate: Bitrate,
}

impl Path {
    fn new() -> Self {
        Self { law: BbrV3::new(PACKET, 7), now: Time::from_secs(1), delivered: 0, rate: Bitrate::from_mbps(12) }
    }

    /// A round of what the window and the path allow; of each packet sent a share is lost.
    fn round(&mut self, lose_every: Option<u64>) {
        let window = self.law.window().get() / 1_500;
        let sent_before = self.delivered;
        let sending = self.law.pacing().map_or(self.rate, |pacing| pacing.min(self.rate));
        for number in 0..window.min(40) {
            self.now += (PATH / window.min(40) as i64).max(Span::from_micros(1));
            let lost = lose_every.is_some_and(|every| number % every == 0);
            let packet = SentPacket {
                sent_at: self.now - PATH,
                size: PACKET,
                in_flight: Bytes::new(window * 1_500),
                lost_since: Bytes::new(if lost { 1_500 * (number / 4 + 1) } else { 0 }),
                app_limited: false,
            };
            if lost {
                self.law.on_packet_lost(self.now, &packet);
                continue;
            }
            self.law.on_packet_acked(self.now, &packet, Some(PATH));
            self.delivered += 1_500;
            let sample = AckSample {
                acked: PACKET,
                in_flight: Bytes::new(40 * 1_500),
                in_flight_before: Bytes::new(41 * 1_500),
                delivered: Bytes::new(self.delivered),
                delivered_when_sent: Bytes::new(sent_before),
                round_trip: Some(PATH + Span::from_millis(1)),
                delivery: Some(DeliveryRate { rate: sending, app_limited: false }),
                window_limited: true,
                ..AckSample::default()
            };
            self.law.on_ack(self.now, &sample);
        }
    }

    fn gains(&self) -> (f64, f64) {
        (self.law.pacing_gain(), self.law.window_gain())
    }
}

#[test]
fn phases_follow_each_other_with_their_gains() {
    let mut path = Path::new();
    assert_eq!((path.law.phase(), path.gains()), (Bbr3Phase::Startup, (2.77, 2.0)));
    let mut seen = vec![path.law.phase()];
    for _ in 0..200 {
        path.round(None);
        let phase = path.law.phase();
        let gains = match phase {
            Bbr3Phase::Startup => (2.77, 2.0),
            Bbr3Phase::Drain => (0.5, 2.0),
            Bbr3Phase::Down => (0.9, 2.0),
            Bbr3Phase::Cruise | Bbr3Phase::Refill => (1.0, 2.0),
            Bbr3Phase::Up => (1.25, 2.25),
            Bbr3Phase::ProbeRoundTrip => (1.0, 0.5),
        };
        assert_eq!(path.gains(), gains, "{phase:?}");
        if seen.last() != Some(&phase) {
            seen.push(phase);
        }
    }
    let probes = |phase| seen.iter().filter(|seen| **seen == phase).count();
    assert!(probes(Bbr3Phase::Up) >= 2 && probes(Bbr3Phase::ProbeRoundTrip) >= 1, "{seen:?}");
    for pair in seen.windows(2) {
        let allowed = match pair[0] {
            Bbr3Phase::Startup => &[Bbr3Phase::Drain, Bbr3Phase::Down, Bbr3Phase::Cruise][..],
            Bbr3Phase::Drain | Bbr3Phase::Up => &[Bbr3Phase::Down, Bbr3Phase::Cruise, Bbr3Phase::ProbeRoundTrip],
            Bbr3Phase::Down => &[Bbr3Phase::Cruise, Bbr3Phase::Refill, Bbr3Phase::ProbeRoundTrip],
            Bbr3Phase::Cruise => &[Bbr3Phase::Refill, Bbr3Phase::ProbeRoundTrip],
            Bbr3Phase::Refill => &[Bbr3Phase::Up, Bbr3Phase::ProbeRoundTrip],
            Bbr3Phase::ProbeRoundTrip => &[Bbr3Phase::Cruise, Bbr3Phase::Refill],
        };
        assert!(allowed.contains(&pair[1]), "{pair:?}");
    }
    assert_eq!(path.law.bandwidth(), Bitrate::from_mbps(12));
}

#[test]
fn too_many_losses_of_a_probe_bound_the_flight_and_end_it() {
    let mut path = Path::new();
    while path.law.phase() != Bbr3Phase::Up {
        path.round(None);
    }
    assert_eq!(path.law.bounds.long_term, u64::MAX);
    path.round(Some(4));
    assert_ne!(path.law.phase(), Bbr3Phase::Up, "{:?}", path.law.bounds);
    let bound = path.law.bounds.long_term;
    assert!((20 * 1_500..u64::MAX).contains(&bound), "{bound}");
    // Headroom for others while cruising.
    assert!(path.law.bounds.with_headroom() < bound);
}
