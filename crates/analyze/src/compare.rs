//! Two captures of one stream, taken at its sender and at its receiver: delay, losses, and what the network did to the order.
//!
//! Packets are found again by what does not change on the way (`Packet::fingerprint`), so addresses may, as behind a NAT.

mod clock;
mod disruption;

use std::net::SocketAddr;

use nearlight_units::Time;
use serde::Serialize;

use crate::distribution::Distribution;
use crate::study::{Scope, Study, StudyError};
use crate::traffic::{Direction, Packet, Traffic};
use clock::{ClockFit, Sample};
use disruption::Crossing;
pub use disruption::{Disruption, Stalls};

/// Why two captures cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("the sender's capture cannot be studied")]
    Sender(#[source] StudyError),
    #[error("the receiver's capture cannot be studied")]
    Receiver(#[source] StudyError),
    #[error(
        "no packet of the sender's capture is in the receiver's; take both at the same time, with at least 80 bytes of each packet"
    )]
    NothingInCommon,
}

/// What happened between sender and receiver.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    pub clock: Clock,
    pub downlink: Way,
    pub uplink: Way,
    /// The receiver's view of the same conversation.
    pub receiver: Study,
}

/// The receiver's clock against the sender's.
#[derive(Clone, Debug, Serialize)]
pub struct Clock {
    /// How far it is ahead at the sender's first packet. With packets of one direction only, the smallest delay is in here.
    pub offset_ms: f64,
    /// How much faster it runs.
    pub drift_ppm: f64,
    /// Whether packets both ways held it: delays are then right if the fastest packets take equally long each way.
    pub both_ways: bool,
    /// Delays may all be wrong by this much one way and the other: half of the fastest round trip.
    pub uncertain_by_ms: Option<f64>,
}

/// Packets of one direction on their way.
#[derive(Clone, Debug, Serialize)]
pub struct Way {
    /// Packets that left while both captures ran.
    pub sent: u64,
    /// Of them, those that never arrived.
    pub lost: u64,
    pub loss_ratio: f64,
    /// Packets that arrived more often than they were sent.
    pub duplicated: u64,
    /// Packets sent again as they were: the same packet left more than once.
    pub repeated: u64,
    /// Packets that arrived after one that was sent later (RFC 4737).
    pub reordered: u64,
    /// Packets that arrived and were not seen to leave: the sender's capture dropped them.
    pub unseen: u64,
    pub delay_ms: Option<Distribution>,
    /// Between packets, where they left and where they arrived: the study's Figure 16.
    pub sent_gap_ms: Option<Distribution>,
    pub received_gap_ms: Option<Distribution>,
    pub disruption: Disruption,
    /// Delay over time, thinned: seconds and milliseconds.
    #[serde(skip)]
    pub delays: Vec<(f64, f64)>,
}

impl Comparison {
    /// Of the conversation of `sender`, or else of the largest in the sender's capture, which is found in the receiver's by its packets.
    pub fn new(at_sender: &Traffic, at_receiver: &Traffic, sender: Option<SocketAddr>) -> Result<Self, CompareError> {
        let scope = Scope::new(at_sender, sender).map_err(CompareError::Sender)?;
        Scope::new(at_receiver, None).map_err(CompareError::Receiver)?;
        let counterpart = counterpart(at_sender, &scope, at_receiver).ok_or(CompareError::NothingInCommon)?;
        let pick = |traffic: &Traffic, scope: &Scope, down: bool| {
            Index::new(scope.packets(traffic, |stream| (stream.direction == scope.down) == down))
        };
        let (down_here, down_there) = (pick(at_sender, &scope, true), pick(at_receiver, &counterpart, true));
        let (up_here, up_there) = (pick(at_sender, &scope, false), pick(at_receiver, &counterpart, false));
        let down = Matched::new(&down_here, &down_there);
        let up = Matched::new(&up_there, &up_here);
        let origin = at_sender.capture.first;
        let here = |at: Time| (at - origin).as_secs_f64();
        // The receiver's clock against the sender's, whoever sent.
        let sample = |first: Time, second: Time| Sample { at: here(first), difference: (second - first).as_secs_f64() };
        let downs: Vec<Sample> = down.times.iter().map(|(left, arrived)| sample(*left, *arrived)).collect();
        let ups: Vec<Sample> = up.times.iter().map(|(left, arrived)| sample(*arrived, *left)).collect();
        let fit = ClockFit::new(&downs, &ups).ok_or(CompareError::NothingInCommon)?;
        let away = |of: &Sample| Crossing { left: of.at, delay: of.difference - fit.offset(of.at) };
        let back = |of: &Sample| {
            let delay = fit.offset(of.at) - of.difference;
            Crossing { left: of.at - delay, delay }
        };
        let there = |at: Time| fit.first(here(at));
        Ok(Self {
            downlink: down.way(&down_here, &down_there, &downs.iter().map(away).collect::<Vec<_>>(), here),
            uplink: up.way(&up_there, &up_here, &ups.iter().map(back).collect::<Vec<_>>(), there),
            clock: Clock {
                offset_ms: fit.offset(0.0) * 1e3,
                drift_ppm: fit.drift * 1e6,
                both_ways: fit.round_trip.is_some(),
                uncertain_by_ms: fit.round_trip.map(|trip| trip * 0.5e3),
            },
            receiver: Study::of(at_receiver, &counterpart),
        })
    }
}

/// The conversation of the other capture with most packets of this one's downlink.
fn counterpart(at_sender: &Traffic, here: &Scope, at_receiver: &Traffic) -> Option<Scope> {
    let mut prints: Vec<u64> = here
        .packets(at_sender, |stream| stream.direction == here.down)
        .iter()
        .map(|packet| packet.fingerprint)
        .collect();
    prints.sort_unstable();
    let mut shared = vec![[0_u64; 2]; at_receiver.conversations.len()];
    for packet in &at_receiver.packets {
        if prints.binary_search(&packet.fingerprint).is_ok() {
            let stream = &at_receiver.streams[usize::from(packet.stream)];
            shared[usize::from(stream.conversation)][stream.direction as usize] += 1;
        }
    }
    let all = shared
        .iter()
        .enumerate()
        .flat_map(|(place, counts)| [(place, Direction::Forth, counts[0]), (place, Direction::Back, counts[1])]);
    let (place, down, count) = all.rev().max_by_key(|found| found.2)?;
    (count > 0).then(|| Scope::of(at_receiver, place as u16, down))
}

/// Packets of one direction at one place, by fingerprint and time.
struct Index {
    packets: Vec<Packet>,
    /// Fingerprint, and index into the packets.
    prints: Vec<(u64, u32)>,
}

impl Index {
    fn new(packets: Vec<Packet>) -> Self {
        let mut prints: Vec<(u64, u32)> =
            packets.iter().enumerate().map(|(index, packet)| (packet.fingerprint, index as u32)).collect();
        prints.sort_unstable();
        Self { packets, prints }
    }

    fn at(&self, print: &(u64, u32)) -> Time {
        self.packets[print.1 as usize].at
    }
}

/// Packets of one direction, found in both captures.
#[derive(Default)]
struct Matched {
    /// When each left and arrived, by the time it left.
    times: Vec<(Time, Time)>,
    lost_at: Vec<Time>,
    unseen_at: Vec<Time>,
    duplicated: u64,
    repeated: u64,
}

impl Matched {
    fn new(sent: &Index, received: &Index) -> Self {
        let mut matched = Self::default();
        let (mut here, mut there) = (sent.prints.as_slice(), received.prints.as_slice());
        while let Some(print) = here.first().into_iter().chain(there.first()).map(|print| print.0).min() {
            let count = |prints: &[(u64, u32)]| prints.iter().take_while(|other| other.0 == print).count();
            let (left, arrived) = (count(here), count(there));
            // The first to leave with the first to arrive, and so on.
            let pairs = here[..left].iter().zip(&there[..arrived]);
            matched.times.extend(pairs.map(|(one, other)| (sent.at(one), received.at(other))));
            matched.repeated += left.saturating_sub(1) as u64;
            if left == 0 {
                matched.unseen_at.extend(there[..arrived].iter().map(|print| received.at(print)));
            } else {
                matched.duplicated += arrived.saturating_sub(left) as u64;
            }
            matched.lost_at.extend(here[..left].iter().skip(arrived).map(|print| sent.at(print)));
            (here, there) = (&here[left..], &there[arrived..]);
        }
        matched.times.sort_unstable();
        matched
    }

    /// `crossings` are those of `times`; `seconds` takes the sender's times to their clock.
    fn way(&self, sent: &Index, received: &Index, crossings: &[Crossing], seconds: impl Fn(Time) -> f64) -> Way {
        /// Points that a chart shows.
        const MOST: usize = 4_000;
        // What left before the other capture began, or arrived after it ended, was not lost.
        let while_both = |times: &[Time], bounds: Option<(Time, Time)>| -> Vec<Time> {
            let both = |at: &Time| bounds.is_none_or(|(from, to)| (from..=to).contains(at));
            times.iter().copied().filter(both).collect()
        };
        let left = self.times.first().zip(self.times.last()).map(|(first, last)| (first.0, last.0));
        let arrivals = self.times.iter().map(|times| times.1);
        let arrived = arrivals.clone().min().zip(arrivals.max());
        let mut lost: Vec<f64> = while_both(&self.lost_at, left).into_iter().map(seconds).collect();
        lost.sort_unstable_by(f64::total_cmp);
        let total = (self.times.len() + lost.len()) as u64;
        let mut newest = Time::ZERO;
        let mut reordered = 0;
        for (_, arrived) in &self.times {
            reordered += u64::from(*arrived < newest);
            newest = newest.max(*arrived);
        }
        let gaps = |packets: &[Packet]| Distribution::of_spans(packets.windows(2).map(|pair| pair[1].at - pair[0].at));
        let every = crossings.len().div_ceil(MOST).max(1);
        Way {
            sent: total,
            lost: lost.len() as u64,
            loss_ratio: lost.len() as f64 / total.max(1) as f64,
            duplicated: self.duplicated,
            repeated: self.repeated,
            reordered,
            unseen: while_both(&self.unseen_at, arrived).len() as u64,
            delay_ms: Distribution::of(crossings.iter().map(|packet| packet.delay * 1e3)),
            sent_gap_ms: gaps(&sent.packets),
            received_gap_ms: gaps(&received.packets),
            disruption: Disruption::new(&sent.packets, &received.packets, crossings, &lost),
            delays: crossings.iter().step_by(every).map(|packet| (packet.left, packet.delay * 1e3)).collect(),
        }
    }
}
