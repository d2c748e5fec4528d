//! What a network did to the timing of a stream, beyond delaying and losing single packets.

use nearlight_units::Span;
use serde::Serialize;

use crate::batches::{Together, together};
use crate::distribution::Distribution;
use crate::traffic::Packet;

/// Shorter silences are those of a busy cell. Guess: a frame of 60 a second takes as long.
const STALL: Span = Span::from_micros(16_667);

/// How the timing of one direction changed on the way.
#[derive(Clone, Debug, Serialize)]
pub struct Disruption {
    /// How much longer or shorter the time between two packets became: RFC 3393's variation of delay, without its sign.
    pub gap_change_ms: Option<Distribution>,
    /// Packets that left, and that arrived, as one: an aggregate's packets arrive together whenever they left.
    pub sent_together: Option<Together>,
    pub received_together: Option<Together>,
    pub stalls: Stalls,
    /// Lengths of losses without an arrival in between.
    pub lost_in_a_row: Option<Distribution>,
}

/// Times in which nothing arrived although the fastest way would have brought a packet, one that came later or one that was lost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stalls {
    /// Only longer ones count.
    pub over_ms: f64,
    pub count: u64,
    pub longest_ms: f64,
    /// Of the time from the first arrival to the last.
    pub time_ratio: f64,
}

/// A packet on its way, in seconds on one clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    pub left: f64,
    pub delay: f64,
}

impl Crossing {
    fn arrived(self) -> f64 {
        self.left + self.delay
    }
}

impl Disruption {
    /// `crossings` and `lost`, when lost packets left, are by the time they left.
    pub(super) fn new(sent: &[Packet], received: &[Packet], crossings: &[Crossing], lost: &[f64]) -> Self {
        let changes = crossings.windows(2).map(|pair| (pair[1].delay - pair[0].delay).abs() * 1e3);
        Self {
            gap_change_ms: Distribution::of(changes),
            sent_together: together(sent),
            received_together: together(received),
            stalls: stalls(crossings, lost),
            lost_in_a_row: Distribution::of(runs(crossings, lost)),
        }
    }
}

fn stalls(crossings: &[Crossing], lost: &[f64]) -> Stalls {
    let mut stalls = Stalls { over_ms: STALL.as_millis_f64(), count: 0, longest_ms: 0.0, time_ratio: 0.0 };
    let fastest = crossings.iter().map(|packet| packet.delay).fold(f64::INFINITY, f64::min);
    let mut arrivals = crossings.to_vec();
    arrivals.sort_unstable_by(|one, other| one.arrived().total_cmp(&other.arrived()));
    // When the first of the packets from each arrival on was due.
    let mut due: Vec<f64> = arrivals.iter().map(|packet| packet.left + fastest).collect();
    for later in (1..due.len()).rev() {
        due[later - 1] = due[later - 1].min(due[later]);
    }
    let mut lost = lost.iter().map(|left| left + fastest).peekable();
    let mut stalled = 0.0;
    for (pair, due) in arrivals.windows(2).zip(due.iter().skip(1)) {
        let (from, until) = (pair[0].arrived(), pair[1].arrived());
        while lost.next_if(|at| *at <= from).is_some() {}
        let wanted = lost.peek().map_or(*due, |lost| due.min(*lost)).max(from);
        let waited = until - wanted;
        if waited > STALL.as_secs_f64() {
            stalls.count += 1;
            stalls.longest_ms = stalls.longest_ms.max(waited * 1e3);
            stalled += waited;
        }
    }
    if let [first, .., last] = arrivals.as_slice() {
        stalls.time_ratio = stalled / (last.arrived() - first.arrived()).max(f64::MIN_POSITIVE);
    }
    stalls
}

/// How many packets were lost between one that arrived and the next, where any were.
fn runs(crossings: &[Crossing], lost: &[f64]) -> Vec<f64> {
    let mut runs = Vec::new();
    let mut lost = lost.iter().peekable();
    let ends = crossings.iter().map(|packet| packet.left).chain([f64::INFINITY]);
    for end in ends {
        let run = std::iter::from_fn(|| lost.next_if(|left| **left < end)).count();
        if run > 0 {
            runs.push(run as f64);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    type Crossed = (Vec<Crossing>, Vec<f64>);

    /// A packet every 10 ms that takes as long as `delay` says of its number; none is a loss.
    fn crossed(delay: impl Fn(u32) -> Option<f64>) -> Crossed {
        let (mut crossings, mut lost) = (Vec::new(), Vec::new());
        for number in 0..100 {
            let left = f64::from(number) * 0.01;
            match delay(number) {
                Some(delay) => crossings.push(Crossing { left, delay }),
                None => lost.push(left),
            }
        }
        (crossings, lost)
    }

    #[test]
    fn stalls_are_silences_in_which_packets_were_due() {
        let held = |number: u32| (20..30).contains(&number).then(|| f64::from(30 - number) * 0.01);
        let cases: [(&str, Crossed, u64, f64); 5] = [
            ("none", crossed(|_| Some(0.005)), 0, 0.0),
            // Packets 20 to 29 all come 0.1 s after the first of them left, 0.095 s after it was due.
            ("held", crossed(|number| held(number).or(Some(0.005))), 1, 95.0),
            // The next one arrives ten packets later than the first lost one was due.
            ("lost", crossed(|number| (!(20..30).contains(&number)).then_some(0.005)), 1, 100.0),
            // One late packet among others that arrive: the stream goes on.
            ("one late", crossed(|number| Some(if number == 20 { 0.1 } else { 0.005 })), 0, 0.0),
            // The sender's own pause is nobody's stall.
            (
                "paused",
                {
                    let (mut crossings, lost) = crossed(|_| Some(0.005));
                    crossings.drain(20..30);
                    (crossings, lost)
                },
                0,
                0.0,
            ),
        ];
        for (name, (crossings, lost), count, longest_ms) in cases {
            let found = stalls(&crossings, &lost);
            assert_eq!(found.count, count, "{name}: {found:?}");
            assert!((found.longest_ms - longest_ms).abs() < 1e-6, "{name}: {found:?}");
            assert!((found.time_ratio - longest_ms / 990.0).abs() < 2e-3, "{name}: {found:?}");
        }
    }

    #[test]
    fn losses_are_counted_in_a_row() {
        let (crossings, lost) = crossed(|number| (![3, 7, 8, 9, 99].contains(&number)).then_some(0.005));
        assert_eq!(runs(&crossings, &lost), [1.0, 3.0, 1.0]);
        assert!(runs(&crossings, &[]).is_empty());
    }
}
