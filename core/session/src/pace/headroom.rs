//! Determines how much faster than the pacing rate a frame may leave.

use nearlight_units::{FrameId, RemoteTime, Span, Time};

/// Minimum number of packets in a frame that is evaluated: with fewer, the spread is mostly scheduling noise.
const MIN_PACKETS: u32 = 4;
/// Growth of a frame's spread up to which the path was not a bottleneck. Guess: the cost of a late wake-up on a busy machine.
const TOLERATED_SPREAD: Span = Span::from_micros(700);
/// Growth of a frame's spread from which it was queued by its own packets: a tenth of a frame at 60 Hz.
const QUEUED_SPREAD: Span = Span::from_micros(1_700);
/// Growth factor for each frame that passed unhindered. Guess: from one to the maximum in ten frames.
const FACTOR_GROWTH: f64 = 1.25;
/// The maximum factor. With the usual pacing rate of 2.5 times the target, a frame leaves in a twentieth of its interval.
const MAX_FACTOR: f64 = 8.0;
/// Number of lost packets of one frame that counts as an overflow. One loss is usual on a radio path.
const OVERFLOW_LOSSES: u32 = 2;

/// Learns from frames' arrivals whether the path carries them faster than the controller's pacing rate.
///
/// Pacing at a multiple of the target keeps a frame from filling a queue, but on a path that is much wider than the video it only delays
/// every frame. So the factor grows while frames arrive no more spread out than they left, and otherwise falls to what the path carried. On
/// a path that is the bottleneck it stays at one.
#[derive(Clone, Debug)]
pub struct Headroom {
    factor: f64,
    frame: Option<Burst>,
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    frame: FrameId,
    packets: u32,
    lost: u32,
    sent: (Time, Time),
    arrived: Option<(RemoteTime, RemoteTime)>,
}

impl Default for Headroom {
    fn default() -> Self {
        Self { factor: 1.0, frame: None }
    }
}

impl Headroom {
    /// The factor by which to multiply the pacing rate: 1 to 8.
    #[must_use]
    pub const fn factor(&self) -> f64 {
        self.factor
    }

    /// Handles the fate of a frame's packet. `arrived_at` is None if it is missing. Packets come in the order in
    /// which they were sent. The first packet of a later frame closes the previous one.
    pub fn on_packet(&mut self, frame: FrameId, sent_at: Time, arrived_at: Option<RemoteTime>) {
        let same = self.frame.filter(|burst| burst.frame == frame);
        if same.is_none()
            && let Some(done) = self.frame.take()
        {
            self.on_burst(&done);
        }
        let mut burst = same.unwrap_or(Burst { frame, packets: 0, lost: 0, sent: (sent_at, sent_at), arrived: None });
        burst.packets += 1;
        burst.sent.1 = burst.sent.1.max(sent_at);
        match arrived_at {
            Some(at) => {
                let (first, last) = burst.arrived.unwrap_or((at, at));
                burst.arrived = Some((first.min(at), last.max(at)));
            }
            None => burst.lost += 1,
        }
        self.frame = Some(burst);
    }

    fn on_burst(&mut self, burst: &Burst) {
        let Some((first, last)) = burst.arrived else {
            self.factor = (self.factor / 2.0).max(1.0);
            return;
        };
        if burst.packets < MIN_PACKETS {
            return;
        }
        let (sent, arrived) = (burst.sent.1.saturating_since(burst.sent.0), last.saturating_since(first));
        if burst.lost >= OVERFLOW_LOSSES {
            self.factor = (self.factor / 2.0).max(1.0);
        } else if arrived > sent + QUEUED_SPREAD {
            self.factor = (self.factor * sent.as_secs_f64() / arrived.as_secs_f64()).max(1.0);
        } else if burst.lost == 0 && arrived <= sent + TOLERATED_SPREAD {
            self.factor = (self.factor * FACTOR_GROWTH).min(MAX_FACTOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{Bitrate, Bytes};

    use super::*;

    const PACKET: Bytes = Bytes::new(1_200);
    const PACING: Bitrate = Bitrate::from_mbps(20);

    /// Sends `frames` of 30 packets over a path of `capacity`, of which `lose` are lost in each, and returns the factor.
    fn after(headroom: &mut Headroom, capacity: Bitrate, frames: u32, lose: u32) -> f64 {
        for number in 0..frames {
            let start = Time::from_millis(1_000 + u64::from(number) * 33);
            let gap = PACING.mul_f64(headroom.factor()).time_to_send(PACKET);
            let mut free_at = start;
            for index in 0..30 {
                let sent_at = start + gap * index;
                free_at = free_at.max(sent_at) + capacity.time_to_send(PACKET);
                headroom.on_packet(FrameId(number), sent_at, (index >= i64::from(lose)).then_some(free_at.for_peer()));
            }
        }
        headroom.factor()
    }

    #[test]
    fn finds_what_the_path_carries() {
        // 30 packets last 14.4 ms at the pacing rate; a spread of 1.7 ms more is tolerated, so the factor overshoots.
        for (capacity, low, high) in [(10, 1.0, 1.0), (20, 1.0, 1.3), (60, 2.4, 4.8), (1_000, 8.0, 8.0)] {
            let factor = after(&mut Headroom::default(), Bitrate::from_mbps(capacity), 40, 0);
            assert!((low..=high).contains(&factor), "{capacity} Mb/s: {factor}");
        }
    }

    #[test]
    fn falls_at_once_when_the_path_narrows_and_recovers() {
        let mut headroom = Headroom::default();
        after(&mut headroom, Bitrate::from_mbps(1_000), 20, 0);
        let narrowed = after(&mut headroom, Bitrate::from_mbps(25), 3, 0);
        assert!(narrowed < 2.0, "{narrowed}");
        let wide = after(&mut headroom, Bitrate::from_mbps(1_000), 12, 0);
        assert!(wide > 7.9, "{wide}");
    }

    #[test]
    fn one_loss_says_nothing_and_two_say_overflow() {
        let mut headroom = Headroom::default();
        after(&mut headroom, Bitrate::from_mbps(1_000), 20, 0);
        assert!(after(&mut headroom, Bitrate::from_mbps(1_000), 5, 1) > 7.9);
        assert!(after(&mut headroom, Bitrate::from_mbps(1_000), 5, 2) < 1.1);
    }

    #[test]
    fn small_frames_say_nothing() {
        let mut headroom = Headroom::default();
        for number in 0..50 {
            let at = Time::from_millis(u64::from(number) * 33);
            headroom.on_packet(FrameId(number), at, Some(at.for_peer()));
        }
        assert!((headroom.factor() - 1.0).abs() < f64::EPSILON);
    }
}
