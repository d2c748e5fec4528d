//! Proportional rate reduction (RFC 6937, with its slow-start bound): how a window is reduced to its new size.
//!
//! A reduction at once would silence the sender for a part of a round trip. This spreads it over one round trip.

use nearlight_units::Bytes;

/// One episode of reduction. Quantities are in bytes, with RFC 6937's names behind them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    goal: u64,      // ssthresh
    flight: u64,    // RecoverFS
    delivered: u64, // prr_delivered
    sent: u64,      // prr_out
    packet: u64,
    window: u64,
}

impl Prr {
    /// Begins an episode. `in_flight` excludes the lost packets; one packet may leave at once (the fast retransmission).
    pub(super) fn new(goal: u64, flight: Bytes, in_flight: Bytes, packet: Bytes) -> Self {
        let packet = packet.get().max(1);
        let window = in_flight.get() + packet;
        Self { goal, flight: flight.get().max(1), delivered: 0, sent: 0, packet, window }
    }

    pub(super) fn on_sent(&mut self, size: Bytes) {
        self.sent += size.get();
    }

    pub(super) fn on_ack(&mut self, acked: Bytes, in_flight: Bytes) {
        let (acked, in_flight) = (acked.get(), in_flight.get());
        self.delivered += acked;
        let allowed = if in_flight > self.goal {
            let share = u128::from(self.delivered) * u128::from(self.goal);
            let due = share.div_ceil(u128::from(self.flight)).min(u128::from(u64::MAX)) as u64;
            due.saturating_sub(self.sent)
        } else {
            let limit = self.delivered.saturating_sub(self.sent).max(acked) + self.packet;
            limit.min(self.goal - in_flight)
        };
        // Whole packets on average: a remainder of less than a packet stays due, because `sent` does not grow.
        let first = if self.sent == 0 { self.packet } else { 0 };
        self.window = in_flight + allowed.max(first);
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_100_with_one_loss_sends_70_packets_in_the_round_trip() {
        let packet = Bytes::new(1_000);
        let mut in_flight = 99_u64;
        let mut prr = Prr::new(70_000, Bytes::new(100_000), Bytes::new(in_flight * 1_000), packet);
        let mut sent = 0_u64;
        for _ in 0..99 {
            while (in_flight + 1) * 1_000 <= prr.window() {
                in_flight += 1;
                sent += 1;
                prr.on_sent(packet);
            }
            in_flight -= 1;
            prr.on_ack(packet, Bytes::new(in_flight * 1_000));
        }
        assert!((69..=71).contains(&sent), "{sent}");
        assert!((68..=71).contains(&in_flight), "{in_flight}");
    }

    #[test]
    fn after_a_burst_loss_it_grows_back_to_the_goal_no_faster_than_slow_start() {
        let packet = Bytes::new(1_000);
        // Half of the window is gone: 50 in flight, and the goal is 70.
        let mut in_flight = 50_u64;
        let mut prr = Prr::new(70_000, Bytes::new(100_000), Bytes::new(50_000), packet);
        let mut largest = 0;
        for _ in 0..60 {
            let mut now = 0;
            while (in_flight + 1) * 1_000 <= prr.window() {
                in_flight += 1;
                now += 1;
                prr.on_sent(packet);
            }
            largest = largest.max(now);
            in_flight -= 1;
            prr.on_ack(packet, Bytes::new(in_flight * 1_000));
        }
        assert!(largest <= 2, "{largest} packets for one acknowledgement");
        assert!((69..=70).contains(&in_flight), "{in_flight}");
    }
}
