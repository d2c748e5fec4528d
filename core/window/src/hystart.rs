//! `HyStart++` (RFC 9406): leaves slow start when round trips grow, after some rounds of conservative slow start as confirmation.

use nearlight_units::{Bytes, Span};

use super::AckSample;
use super::rounds::Rounds;

/// Bounds of the growth of the round trip that ends slow start: `MIN_RTT_THRESH` and `MAX_RTT_THRESH` (RFC 9406, section 4.3).
const MIN_THRESHOLD: Span = Span::from_millis(4);
const MAX_THRESHOLD: Span = Span::from_millis(16);
/// The growth that ends slow start, as a divisor of the round trip: `MIN_RTT_DIVISOR`.
const THRESHOLD_DIVISOR: i64 = 8;
/// Samples of a round that are needed for a decision: `N_RTT_SAMPLE`.
const MIN_SAMPLES: u32 = 8;
/// The divisor of growth in conservative slow start: `CSS_GROWTH_DIVISOR`.
const GROWTH_DIVISOR: f64 = 4.0;
/// Rounds of conservative slow start: `CSS_ROUNDS`.
const CONSERVATIVE_ROUNDS: u32 = 5;
/// Packets of growth per acknowledgement, if the sender does not pace: `L`.
const MAX_GROWTH: u64 = 8;

/// The next step of slow start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Advice {
    /// Grow by this many bytes.
    Grow(f64),
    /// End slow start.
    Leave,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    packet: Bytes,
    rounds: Rounds,
    last_round: Option<Span>, // lastRoundMinRTT
    this_round: Option<Span>, // currentRoundMinRTT
    samples: u32,
    /// Conservative slow start: the lowest round trip when it began, and its rounds so far.
    conservative: Option<(Span, u32)>,
}

impl HyStart {
    pub(super) fn new(packet: Bytes) -> Self {
        let rounds = Rounds::default();
        Self { packet, rounds, last_round: None, this_round: None, samples: 0, conservative: None }
    }

    pub(super) fn on_ack(&mut self, sample: &AckSample) -> Advice {
        if self.rounds.on_ack(sample.delivered, sample.delivered_when_sent) {
            self.last_round = self.this_round.take().or(self.last_round);
            self.samples = 0;
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                if *rounds >= CONSERVATIVE_ROUNDS {
                    return Advice::Leave;
                }
            }
        }
        if let Some(round_trip) = sample.round_trip {
            self.this_round = Some(self.this_round.map_or(round_trip, |lowest| lowest.min(round_trip)));
            self.samples += 1;
        }
        if self.samples >= MIN_SAMPLES
            && let Some(this_round) = self.this_round
        {
            self.judge(this_round);
        }
        let growth = sample.acked.get().min(MAX_GROWTH * self.packet.get()) as f64;
        Advice::Grow(if self.conservative.is_some() { growth / GROWTH_DIVISOR } else { growth })
    }

    fn judge(&mut self, this_round: Span) {
        match (self.conservative, self.last_round) {
            (Some((baseline, _)), _) if this_round < baseline => self.conservative = None,
            (None, Some(last_round)) => {
                let eighth = last_round / THRESHOLD_DIVISOR;
                let threshold = eighth.clamp(MIN_THRESHOLD, MAX_THRESHOLD);
                if this_round >= last_round + threshold {
                    self.conservative = Some((this_round, 0));
                }
            }
            _ => {}
        }
    }
}
