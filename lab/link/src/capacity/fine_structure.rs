//! Distributes a slow series of rates over milliseconds: the structure below a series' step.
//!
//! Each structure turns rates into times at which a number of bytes may leave, and preserves the mean rate.
//!
//! Not modelled: retransmissions below IP (HARQ, Wi-Fi retries), grants on request, other stations' traffic beyond its mean.

use nearlight_units::{Bitrate, Bytes, Span, Time};

use super::rates::{MAX_WORK, Meter, Rates, Work, work_of};
use crate::random::Random;

/// The fine structure of a capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FineStructure {
    /// None: bits flow evenly.
    #[default]
    Smooth,
    /// The downlink slots of 5G in time division.
    TddDown,
    /// The uplink slots of the same pattern.
    TddUp,
    /// A Wi-Fi station's turns: aggregates with random gaps in between.
    Aggregates,
}

/// One slot at 30 kHz subcarrier spacing (3GPP TS 38.211 section 4.3.2), the usual spacing of mid-band 5G.
const SLOT: Span = Span::from_micros(500);

/// The usual pattern of five slots, DDDSU: downlink symbols of the 14 in each slot; S has 10 downlink, 2 guard and 2 uplink symbols.
/// Guess: the pattern that operators publish most often; the special slot's two uplink symbols carry no data.
const DOWNLINK_SYMBOLS: [u64; 5] = [14, 14, 14, 10, 0];
const UPLINK_SYMBOLS: [u64; 5] = [0, 0, 0, 0, 14];

/// A turn takes at least this long: contention, preamble and acknowledgement. Guess.
const MIN_TURN: Span = Span::from_micros(400);
/// Added to the shortest turn, exponentially distributed with this mean: other stations' turns. Guess.
const MEAN_WAIT: Span = Span::from_micros(1_200);
/// No turn waits longer: EDCA limits each of the others. Guess: two full aggregates of 4 ms.
const MAX_TURN: Span = Span::from_millis(8);

/// Moments at which bytes may leave.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    meter: Meter,
    pattern: Pattern,
    next_at: Time,
    budget: Bytes,
    /// Remaining work of less than one byte.
    carried: Work,
}

#[derive(Clone, Debug)]
enum Pattern {
    Tdd { symbols: [u64; 5], slot: usize },
    Turns(Random),
}

impl Slots {
    /// Returns the slots of a capacity. None for [`FineStructure::Smooth`], which has none.
    pub(crate) fn new(rates: Rates, fine: FineStructure, random: Random) -> Option<Self> {
        let pattern = match fine {
            FineStructure::Smooth => return None,
            FineStructure::TddDown => Pattern::Tdd { symbols: DOWNLINK_SYMBOLS, slot: 0 },
            FineStructure::TddUp => Pattern::Tdd { symbols: UPLINK_SYMBOLS, slot: 0 },
            FineStructure::Aggregates => Pattern::Turns(random),
        };
        let meter = Meter::new(rates);
        let mut slots = Self { meter, pattern, next_at: Time::ZERO, budget: Bytes::ZERO, carried: 0 };
        slots.advance();
        Some(slots)
    }

    pub(crate) fn rates(&self) -> &Rates {
        self.meter.rates()
    }

    pub(crate) fn nominal(&self) -> Bitrate {
        self.meter.nominal()
    }

    #[inline]
    pub(crate) fn next_at(&self) -> Time {
        self.next_at
    }

    #[inline]
    pub(crate) fn budget(&self) -> Bytes {
        self.budget
    }

    /// Advances to the next time at which at least one byte may leave.
    pub(crate) fn advance(&mut self) {
        loop {
            self.step();
            if self.budget > Bytes::ZERO || self.next_at == Time::FAR_FUTURE {
                return;
            }
        }
    }

    /// Advances by one slot or turn; capacity that accrues in it becomes usable at its end.
    fn step(&mut self) {
        let from = self.next_at;
        let (rate, until) = self.meter.segment(from);
        if from == Time::FAR_FUTURE || rate == Bitrate::ZERO && until == Time::FAR_FUTURE {
            // At the end of time, everything still queued leaves, so that every packet has an exit.
            (self.next_at, self.budget) = (Time::FAR_FUTURE, Bytes::new(u64::MAX));
            return;
        }
        let work = match &mut self.pattern {
            Pattern::Tdd { symbols, slot } => {
                let share = symbols[*slot];
                let all: u64 = symbols.iter().sum();
                *slot = (*slot + 1) % symbols.len();
                self.next_at += SLOT;
                // A slot represents its share of the pattern's duration.
                let stands_for = SLOT.as_nanos() as u64 * symbols.len() as u64 * share / all;
                rate.as_bps().saturating_mul(stands_for).min(MAX_WORK as u64 / 2) as Work
            }
            Pattern::Turns(random) => {
                let turn = MIN_TURN + random.exponential_span(MEAN_WAIT);
                self.next_at += turn.min(MAX_TURN);
                self.meter.done(from, self.next_at, MAX_WORK / 2)
            }
        };
        let all = self.carried + work;
        let byte = work_of(Bytes::new(1));
        self.budget = Bytes::new((all / byte) as u64);
        self.carried = all % byte;
    }

    /// Lets every moment up to and including `now` pass unused.
    pub(crate) fn skip(&mut self, now: Time) {
        if now == Time::FAR_FUTURE {
            // The end of time: counting slots up to it would be pointless.
            (self.next_at, self.budget) = (now, Bytes::new(u64::MAX));
        }
        while self.next_at <= now && self.next_at < Time::FAR_FUTURE {
            self.advance();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_in(fine: FineStructure, rate: Bitrate, length: Time) -> (u64, u64) {
        let mut slots = Slots::new(Rates::constant(rate), fine, Random::new(3)).unwrap();
        let (mut bytes, mut moments) = (0, 0);
        while slots.next_at() <= length {
            bytes += slots.budget().get();
            moments += 1;
            slots.advance();
        }
        (bytes, moments)
    }

    #[test]
    fn every_structure_keeps_the_mean_rate() {
        let rate = Bitrate::from_mbps(100);
        let expected = rate.bytes_in(Span::from_secs(10)).get();
        for (fine, moments) in [(FineStructure::TddDown, 16_000), (FineStructure::TddUp, 4_000)] {
            // Rounding a slot's share of time down to nanoseconds loses at most one part in 100,000.
            let (bytes, count) = bytes_in(fine, rate, Time::from_secs(10));
            assert!(expected - bytes <= expected / 100_000, "{fine:?}: {bytes} of {expected}");
            assert_eq!(count, moments);
        }
        let (bytes, turns) = bytes_in(FineStructure::Aggregates, rate, Time::from_secs(10));
        assert!(expected - bytes <= 200_000, "all but the unfinished last turn: {bytes} of {expected}");
        // The mean turn is a little below 1.6 ms, as the longest are cut off.
        assert!((6_000..6_800).contains(&turns), "{turns}");
    }

    #[test]
    fn a_link_that_goes_down_for_good_has_no_further_slots() {
        let rates =
            Rates::steps(&[(Span::ZERO, Bitrate::from_mbps(8)), (Span::from_secs(1), Bitrate::ZERO)], None).unwrap();
        for fine in [FineStructure::TddDown, FineStructure::TddUp, FineStructure::Aggregates] {
            let mut slots = Slots::new(rates.clone(), fine, Random::new(1)).unwrap();
            slots.skip(Time::from_secs(2));
            assert_eq!(slots.next_at(), Time::FAR_FUTURE);
        }
    }
}
