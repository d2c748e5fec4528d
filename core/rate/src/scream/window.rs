//! The reference window: the bytes allowed in flight (draft-johansson-ccwg-rfc8298bis-screamv2, "Reference Window Update").

use nearlight_units::{Bytes, Span, Time};

use super::delay::VIRTUAL_ROUND_TRIP;

/// The share of the window that remains after loss (`BETA_LOSS`), and after a classic ECN mark (`BETA_ECN`).
const KEPT_ON_LOSS: f64 = 0.7;
const KEPT_ON_MARK: f64 = 0.8;
/// The lowest window in bytes (`MIN_REF_WND`).
const MIN_WINDOW: f64 = 3_000.0;
/// The delay target (`QDELAY_TARGET_LO`): reductions begin at half of it.
pub const DELAY_TARGET: Span = Span::from_millis(60);
/// Near the window at which congestion last began, growth beyond a packet shrinks to a tenth, and other steps to a quarter.
const NEAR_SLOPE: f64 = 8.0;
const MIN_NEAR_SCALE: f64 = 0.1;
const MIN_INFLECTION_SCALE: f64 = 0.25;
/// That window is recorded at most once in this many round trips.
const INFLECTION_ROUND_TRIPS: i64 = 10;
/// The lowest share of growth while delay jitters.
const MIN_JITTER_GROWTH: f64 = 0.1;
/// Growth in a round trip as a share of the window (`MUL_INCREASE_FACTOR`), reached this many round trips after congestion
/// (`POST_CONGESTION_DELAY_RTT`).
const MULTIPLICATIVE_GROWTH: f64 = 0.02;
const POST_CONGESTION_ROUND_TRIPS: f64 = 100.0;
/// The window may be this multiple of the bytes in flight (`BYTES_IN_FLIGHT_HEAD_ROOM`).
const HEADROOM: f64 = 1.5;
/// Reductions by marks and delay are scaled to the second value when the rate is below the first share of the arriving rate.
const MIN_ARRIVING_RATIO: f64 = 0.8;
const LOW_RATIO_CUT_SCALE: f64 = 0.25;
/// Behind a policer the window is capped to the first share of the one at which losses came without a queue. The cap grows by the
/// second share in a round trip.
const POLICED_WINDOW_SHARE: f64 = 0.9;
const POLICED_WINDOW_GROWTH: f64 = 0.001;

/// The classification of lost packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    /// There are none, or as few as chance explains.
    Ignored,
    Congestion,
    /// Too many for chance, and there is no queue.
    Policer,
}

/// The input from a feedback message.
#[derive(Clone, Copy, Debug)]
pub struct WindowInput {
    pub now: Time,
    /// Bytes that have left the path, and how many of them were marked.
    pub acked: Bytes,
    pub marked: Bytes,
    pub round_trip: Span,
    pub losses: Losses,
    /// Averaged share of marked packets.
    pub mark_share: f64,
    /// Whether the marks are those of L4S.
    pub scalable: bool,
    pub queue_delay: Span,
    pub average_delay: Span,
    /// Steadiness of the delay, from 1 for no jitter to 0.
    pub steadiness: f64,
    /// Ratio of the rate to the arriving rate, once known.
    pub over_arriving: Option<f64>,
    /// The share of marks that the present rate explains.
    pub expected_mark_share: f64,
    /// Whether the rate is at its maximum.
    pub at_maximum: bool,
    /// The recent maximum of bytes in flight.
    pub most_in_flight: Bytes,
    /// Size of the largest packet.
    pub packet: Bytes,
}

impl WindowInput {
    /// Round trips, or longer ones if they are very short.
    fn virtual_round_trips(&self) -> f64 {
        (self.round_trip.as_secs_f64() / VIRTUAL_ROUND_TRIP.as_secs_f64()).max(1e-6)
    }
}

/// The reason for which a step reduced the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReductionCause {
    Loss,
    Marks,
    Delay,
}

/// The window, in bytes.
#[derive(Clone, Debug)]
pub struct ReferenceWindow {
    window: f64,
    /// The window at which congestion last began.
    inflection: f64,
    inflection_at: Option<Time>,
    reacted_at: Option<Time>,
    congested_at: Option<Time>,
    policed: Option<f64>,
}

impl ReferenceWindow {
    #[must_use]
    pub fn new(window: Bytes) -> Self {
        Self {
            window: (window.get() as f64).max(MIN_WINDOW),
            inflection: 1.0,
            inflection_at: None,
            reacted_at: None,
            congested_at: None,
            policed: None,
        }
    }

    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.window
    }

    /// Scales the window from outside, for want of feedback.
    pub fn scale(&mut self, factor: f64) {
        self.window = (self.window * factor).max(MIN_WINDOW);
    }

    /// Performs one step. Returns why the window was reduced, if it was.
    pub fn on_feedback(&mut self, facts: &WindowInput) -> Option<ReductionCause> {
        let near = self.nearness();
        let cause = self.cause(facts);
        if let Some(cause) = cause {
            self.reduce(facts, cause, near);
        }
        self.grow(facts, near);
        self.police(facts);
        self.window = self.window.max(MIN_WINDOW);
        cause
    }

    /// Distance to the window at which congestion last began, from 0.1 at it to 1 well away from it (`scl_t`).
    fn nearness(&self) -> f64 {
        let distance = NEAR_SLOPE * (self.window - self.inflection) / self.inflection;
        (distance * distance).clamp(MIN_NEAR_SCALE, 1.0)
    }

    fn cause(&self, facts: &WindowInput) -> Option<ReductionCause> {
        let gap = facts.round_trip.min(VIRTUAL_ROUND_TRIP);
        if self.reacted_at.is_some_and(|at| facts.now.saturating_since(at) < gap) {
            return None;
        }
        let queue = facts.average_delay > DELAY_TARGET / 2;
        // When marks come as often as the rate explains, delay is not considered.
        let marking_works = facts.scalable && facts.mark_share >= facts.expected_mark_share;
        match () {
            () if facts.losses != Losses::Ignored => Some(ReductionCause::Loss),
            () if facts.marked > Bytes::ZERO => Some(ReductionCause::Marks),
            () if queue && !marking_works => Some(ReductionCause::Delay),
            () => None,
        }
    }

    fn reduce(&mut self, facts: &WindowInput, cause: ReductionCause, near: f64) {
        let rested = |at: Option<Time>, span: Span| at.is_none_or(|at| facts.now.saturating_since(at) > span);
        let round_trip = facts.round_trip.max(VIRTUAL_ROUND_TRIP);
        if cause == ReductionCause::Marks && rested(self.congested_at, round_trip * POST_CONGESTION_ROUND_TRIPS as i64)
        {
            // After a long time without congestion the window may be far above the bytes in flight.
            self.window = self.window.min(facts.most_in_flight.get() as f64);
        }
        if rested(self.inflection_at, facts.round_trip * INFLECTION_ROUND_TRIPS) {
            self.inflection = self.window.max(1.0);
            self.inflection_at = Some(facts.now);
        }
        if facts.losses == Losses::Policer {
            self.policed = Some(self.window * POLICED_WINDOW_SHARE);
        }
        self.window *= match cause {
            ReductionCause::Loss if facts.losses == Losses::Policer => POLICED_WINDOW_SHARE,
            ReductionCause::Loss => KEPT_ON_LOSS,
            ReductionCause::Marks if !facts.scalable => KEPT_ON_MARK,
            ReductionCause::Marks => 1.0 - Self::scalable_cut(facts, near),
            ReductionCause::Delay => 1.0 - Self::delay_cut(facts),
        };
        self.reacted_at = Some(facts.now);
        self.congested_at = Some(facts.now);
    }

    /// The cut for L4S marks: half the share of marks in a round trip.
    fn scalable_cut(facts: &WindowInput, near: f64) -> f64 {
        let mut cut = facts.mark_share / 2.0 / facts.virtual_round_trips().max(1.0);
        if facts.queue_delay < DELAY_TARGET / 4 {
            cut *= near.max(MIN_INFLECTION_SCALE) * facts.steadiness.max(MIN_INFLECTION_SCALE);
        }
        cut * Self::ahead(facts)
    }

    /// The cut for delay: half of a share that grows from 0 at half the target to 1 at the target.
    fn delay_cut(facts: &WindowInput) -> f64 {
        let half = DELAY_TARGET.as_secs_f64() / 2.0;
        let share = ((facts.average_delay.as_secs_f64() - half) / half).clamp(0.0, 1.0);
        share / 2.0 / facts.virtual_round_trips().max(1.0) * Self::ahead(facts)
    }

    /// The reduction of a cut for a rate that has already fallen with the round trip's growth.
    fn ahead(facts: &WindowInput) -> f64 {
        if facts.over_arriving.is_some_and(|ratio| ratio < MIN_ARRIVING_RATIO) { LOW_RATIO_CUT_SCALE } else { 1.0 }
    }

    fn grow(&mut self, facts: &WindowInput, near: f64) {
        let packet = facts.packet.get().max(1) as f64;
        let acked = facts.acked.saturating_sub(facts.marked).get() as f64;
        let round_trips = self.congested_at.map_or(POST_CONGESTION_ROUND_TRIPS, |at| {
            let since = facts.now.saturating_since(at).as_secs_f64();
            since / facts.round_trip.max(VIRTUAL_ROUND_TRIP).as_secs_f64()
        });
        let carefree = (round_trips / POST_CONGESTION_ROUND_TRIPS).clamp(0.0, 1.0);
        let increment = acked * packet / self.window
            * facts.virtual_round_trips().min(1.0)
            * near.max(MIN_INFLECTION_SCALE)
            * facts.steadiness.max(MIN_JITTER_GROWTH)
            * (1.0 + MULTIPLICATIVE_GROWTH * self.window / packet * carefree * near);
        let most = packet + facts.most_in_flight.get() as f64 * HEADROOM;
        if self.window + increment <= most && !facts.at_maximum {
            self.window += increment;
        }
    }

    fn police(&mut self, facts: &WindowInput) {
        if let Some(policed) = &mut self.policed {
            let round_trips = facts.acked.get() as f64 / self.window;
            *policed *= 1.0 + POLICED_WINDOW_GROWTH * round_trips.min(1.0);
            self.window = self.window.min(*policed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1_000);

    /// A calm feedback for a whole round trip of 25 ms.
    fn calm(round_trip: u64) -> WindowInput {
        WindowInput {
            now: Time::from_millis(round_trip * 25),
            acked: Bytes::ZERO,
            marked: Bytes::ZERO,
            round_trip: VIRTUAL_ROUND_TRIP,
            losses: Losses::Ignored,
            mark_share: 0.0,
            scalable: true,
            queue_delay: Span::ZERO,
            average_delay: Span::ZERO,
            steadiness: 1.0,
            over_arriving: None,
            expected_mark_share: 0.02,
            at_maximum: false,
            most_in_flight: Bytes::new(10_000_000),
            packet: PACKET,
        }
    }

    /// The ratio of the window after 40 round trips of 25 ms in which this many packets of each were marked to the window before.
    fn with_marks(marks: f64) -> f64 {
        let mut window = ReferenceWindow::new(Bytes::new(100_000));
        // Congestion began far away, so that nothing is scaled down.
        window.inflection = 1_000_000.0;
        window.inflection_at = Some(Time::FAR_FUTURE);
        window.congested_at = Some(Time::ZERO);
        for round_trip in 1..=40 {
            let packets = window.window / PACKET.get() as f64;
            let acked = Bytes::new(window.window as u64);
            let marked = Bytes::new((marks * 1_000.0) as u64);
            let facts = WindowInput { acked, marked, mark_share: marks / packets, ..calm(round_trip) };
            assert_eq!(window.on_feedback(&facts), Some(ReductionCause::Marks));
        }
        window.window / 100_000.0
    }

    #[test]
    fn two_marks_a_round_trip_hold_the_window() {
        // Growth leaves marked bytes out: 98 % of a packet at 100 packets a round trip.
        assert!((with_marks(2.0) - 1.0).abs() < 0.01, "{}", with_marks(2.0));
        assert!(with_marks(1.0) > 1.15 && with_marks(4.0) < 0.75, "{} {}", with_marks(1.0), with_marks(4.0));
    }

    #[test]
    fn growth_is_a_packet_a_round_trip_after_congestion_and_2_percent_long_after() {
        let grown = |congested_at: Option<Time>| {
            let mut window = ReferenceWindow::new(Bytes::new(200_000));
            window.congested_at = congested_at;
            window.on_feedback(&WindowInput { acked: Bytes::new(200_000), ..calm(1_000) });
            window.window - 200_000.0
        };
        assert!((grown(Some(calm(1_000).now)) - 1_000.0).abs() < 1e-6);
        assert!((grown(Some(calm(950).now)) - 1_000.0 * (1.0 + 0.02 * 200.0 * 0.5)).abs() < 1e-6);
        assert!((grown(None) - (1_000.0 + 0.02 * 200_000.0)).abs() < 1e-6);
    }

    #[test]
    fn reductions_are_those_of_their_causes_once_a_round_trip() {
        let delayed = |millis: i64| WindowInput { average_delay: Span::from_millis(millis), ..calm(1) };
        let classic = WindowInput { marked: PACKET, scalable: false, ..calm(1) };
        let cases = [
            (
                "loss first",
                WindowInput { losses: Losses::Congestion, marked: PACKET, ..delayed(60) },
                Some(ReductionCause::Loss),
                0.7,
            ),
            ("a classic mark", classic, Some(ReductionCause::Marks), 0.8),
            ("half the target", delayed(30), None, 1.0),
            ("three quarters of the target", delayed(45), Some(ReductionCause::Delay), 0.75),
            ("the target", delayed(60), Some(ReductionCause::Delay), 0.5),
            ("far beyond", delayed(600), Some(ReductionCause::Delay), 0.5),
            (
                "the rate is ahead",
                WindowInput { over_arriving: Some(0.7), ..delayed(60) },
                Some(ReductionCause::Delay),
                0.875,
            ),
            ("marks explain it", WindowInput { mark_share: 0.1, expected_mark_share: 0.1, ..delayed(60) }, None, 1.0),
        ];
        for (what, facts, cause, kept) in cases {
            let mut window = ReferenceWindow::new(Bytes::new(100_000));
            assert_eq!(window.on_feedback(&facts), cause, "{what}");
            assert!((window.window / 100_000.0 - kept).abs() < 1e-9, "{what}: {}", window.window);
            let sooner = WindowInput { now: facts.now + Span::from_millis(24), ..facts };
            if cause.is_some() {
                assert_eq!(window.on_feedback(&sooner), None, "{what}");
            }
        }
    }

    #[test]
    fn long_round_trips_are_cut_in_parts_and_short_ones_grow_slower() {
        let long = WindowInput { round_trip: Span::from_millis(100), average_delay: DELAY_TARGET, ..calm(4) };
        let mut window = ReferenceWindow::new(Bytes::new(100_000));
        window.on_feedback(&long);
        assert!((window.window - 87_500.0).abs() < 1e-6, "an eighth four times a round trip");
        let short = WindowInput { round_trip: Span::from_millis(5), acked: Bytes::new(100_000), ..calm(4) };
        let mut window = ReferenceWindow::new(Bytes::new(100_000));
        window.congested_at = Some(short.now);
        window.on_feedback(&short);
        assert!((window.window - 100_200.0).abs() < 1e-6, "a fifth of a packet");
    }

    #[test]
    fn near_the_last_inflection_steps_are_small() {
        let mut window = ReferenceWindow::new(Bytes::new(100_000));
        window.inflection = 100_000.0;
        assert!((window.nearness() - 0.1).abs() < 1e-12);
        window.window = 105_000.0;
        assert!((window.nearness() - 0.16).abs() < 1e-12, "(8 * 0.05)^2");
        window.window = 150_000.0;
        assert!((window.nearness() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn it_grows_no_further_than_what_is_under_way_or_the_maximum_rate_explain() {
        let acked = Bytes::new(100_000);
        for facts in [
            WindowInput { acked, most_in_flight: Bytes::new(60_000), ..calm(1) },
            WindowInput { acked, at_maximum: true, ..calm(1) },
        ] {
            let mut window = ReferenceWindow::new(acked);
            window.on_feedback(&facts);
            assert!((window.window - 100_000.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_policer_caps_the_window_and_the_cap_grows_slowly() {
        let mut window = ReferenceWindow::new(Bytes::new(100_000));
        window.on_feedback(&WindowInput { losses: Losses::Policer, ..calm(1) });
        assert!((window.window - 90_000.0).abs() < 1e-6);
        for round_trip in 2..=101 {
            window.on_feedback(&WindowInput { acked: Bytes::new(1_000_000), ..calm(round_trip) });
        }
        assert!((window.window - 90_000.0 * 1.001_f64.powi(100)).abs() < 1.0, "{}", window.window);
    }
}
