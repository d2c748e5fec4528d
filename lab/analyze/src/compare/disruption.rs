//! A network's effect on the timing of a stream, beyond delaying and losing single packets.

use nearlight_units::{Span, Time};
use serde::Serialize;

use crate::batches::{PacketGroups, packet_groups};
use crate::distribution::Distribution;
use crate::traffic::Packet;

/// Shorter silences are those of a busy cell. Guess: a frame of 60 a second takes as long.
const MIN_STALL: Span = Span::from_micros(16_667);

/// Changes of the timing of one direction in transit.
#[derive(Clone, Debug, Serialize)]
pub struct Disruption {
    /// Absolute change of the time between two packets: RFC 3393's delay variation without its sign. Needs both clocks.
    pub gap_change_ms: Option<Distribution>,
    /// Packets that left, and that arrived, as one: an aggregate's packets arrive together whenever they left.
    pub sent_together: Option<PacketGroups>,
    pub received_together: Option<PacketGroups>,
    /// Needs both clocks.
    pub stalls: Option<Stalls>,
    /// Lengths of losses without an arrival in between.
    pub lost_in_a_row: Option<Distribution>,
}

/// Times without arrivals although a packet would have arrived by the fastest path, one that came later or one that was lost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stalls {
    /// Shortest stall that counts.
    pub over_ms: f64,
    pub count: u64,
    pub longest_ms: f64,
    /// Share of the time from the first arrival to the last.
    pub time_ratio: f64,
}

/// The transit of a packet, in seconds on one clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketTransit {
    pub left: f64,
    pub delay: f64,
}

/// Packets of one direction by departure time, and the departure times of lost ones, in seconds on one clock.
#[derive(Debug)]
pub(super) struct DirectionTransits {
    pub packets: Vec<PacketTransit>,
    pub lost: Vec<f64>,
}

impl PacketTransit {
    fn arrived(self) -> f64 {
        self.left + self.delay
    }
}

impl Disruption {
    /// `crossed` is by the time packets left.
    pub(super) fn new(
        sent: &[Packet],
        received: &[Packet],
        crossed: Option<&DirectionTransits>,
        lost_in_a_row: Vec<f64>,
    ) -> Self {
        let changes = |crossed: &DirectionTransits| {
            let pairs = crossed.packets.windows(2);
            Distribution::of(pairs.map(|pair| (pair[1].delay - pair[0].delay).abs() * 1e3))
        };
        Self {
            gap_change_ms: crossed.and_then(changes),
            sent_together: packet_groups(sent),
            received_together: packet_groups(received),
            stalls: crossed.filter(|crossed| crossed.packets.len() > 1).map(|of| stalls(&of.packets, &of.lost)),
            lost_in_a_row: Distribution::of(lost_in_a_row),
        }
    }
}

fn stalls(crossings: &[PacketTransit], lost: &[f64]) -> Stalls {
    let mut stalls = Stalls { over_ms: MIN_STALL.as_millis_f64(), count: 0, longest_ms: 0.0, time_ratio: 0.0 };
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
        if waited > MIN_STALL.as_secs_f64() {
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

/// Returns the lengths of runs of losses between two packets that arrived, both by when they left.
pub(super) fn runs(arrived: impl Iterator<Item = Time>, lost: &[Time]) -> Vec<f64> {
    let mut runs = Vec::new();
    let mut lost = lost.iter().peekable();
    for end in arrived.map(Some).chain([None]) {
        let run = std::iter::from_fn(|| lost.next_if(|left| end.is_none_or(|end| **left < end))).count();
        if run > 0 {
            runs.push(run as f64);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet every 10 ms that takes as long as `delay` says of its number; none is a loss.
    fn crossed(delay: impl Fn(u32) -> Option<f64>) -> DirectionTransits {
        let mut crossed = DirectionTransits { packets: Vec::new(), lost: Vec::new() };
        for number in 0..100 {
            let left = f64::from(number) * 0.01;
            match delay(number) {
                Some(delay) => crossed.packets.push(PacketTransit { left, delay }),
                None => crossed.lost.push(left),
            }
        }
        crossed
    }

    #[test]
    fn stalls_are_silences_in_which_packets_were_due() {
        let held = |number: u32| (20..30).contains(&number).then(|| f64::from(30 - number) * 0.01);
        let cases: [(&str, DirectionTransits, u64, f64); 5] = [
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
                    let mut paused = crossed(|_| Some(0.005));
                    paused.packets.drain(20..30);
                    paused
                },
                0,
                0.0,
            ),
        ];
        for (name, crossed, count, longest_ms) in cases {
            let found = stalls(&crossed.packets, &crossed.lost);
            assert_eq!(found.count, count, "{name}: {found:?}");
            assert!((found.longest_ms - longest_ms).abs() < 1e-6, "{name}: {found:?}");
            assert!((found.time_ratio - longest_ms / 990.0).abs() < 2e-3, "{name}: {found:?}");
        }
    }

    #[test]
    fn losses_are_counted_in_a_row() {
        let at = |number: &i64| Time::ZERO + Span::from_millis(10 * number);
        let gone = [3, 7, 8, 9, 99];
        let arrived = || (0..100).filter(|number| !gone.contains(number)).map(|number| at(&number));
        assert_eq!(runs(arrived(), &gone.each_ref().map(at)), [1.0, 3.0, 1.0]);
        assert!(runs(arrived(), &[]).is_empty());
    }
}
