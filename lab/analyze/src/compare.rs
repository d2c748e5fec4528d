//! Two captures of one stream, taken at its sender and at its receiver: delay, losses, and what the network did to the order.
//!
//! Packets are matched by what does not change in transit (`Packet::fingerprint`), so addresses may, as behind a NAT.

mod clock;
mod disruption;

use std::net::SocketAddr;

use nearlight_units::Time;
use serde::Serialize;

use crate::distribution::Distribution;
use crate::study::{Scope, Study, StudyError};
use crate::traffic::{Direction, Packet, Traffic};
pub use clock::ClockError;
use clock::{ClockFit, Sample};
use disruption::{DirectionTransits, PacketTransit};
pub use disruption::{Disruption, Stalls};

/// Why two captures cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("the sender's capture cannot be analysed")]
    Sender(#[source] StudyError),
    #[error("the receiver's capture cannot be analysed")]
    Receiver(#[source] StudyError),
    #[error(
        "no packet of the sender's capture is in the receiver's; take both at the same time, with at least 80 bytes of each packet"
    )]
    NothingInCommon,
    #[error(
        "only {shared} of {of} packets are in both captures, no more than by chance: use captures of one conversation, taken at the \
         same time"
    )]
    LittleInCommon { shared: usize, of: usize },
}

/// Less than this share of the shorter capture's packets in common is chance: short messages are alike. Guess.
const MIN_COMMON_SHARE: f64 = 0.01;

/// The comparison of sender and receiver.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// `None` where no line joins the clocks: then whatever needs both of them is absent.
    pub clock: Option<Clock>,
    pub clock_refused: Option<ClockError>,
    pub downlink: DirectionComparison,
    pub uplink: DirectionComparison,
    /// The receiver's view of the same conversation.
    pub receiver: Study,
}

/// The receiver's clock against the sender's.
#[derive(Clone, Debug, Serialize)]
pub struct Clock {
    /// Offset at the sender's first packet. With packets of one direction only, it includes the smallest delay.
    pub offset_ms: f64,
    /// Drift of the receiver's clock.
    pub drift_ppm: f64,
    /// Whether packets of both directions determine it. Delays are then right if the fastest packets take equally long both ways.
    pub both_ways: bool,
    /// Delays may all be wrong by this much one way and the other: half of the fastest round trip.
    pub uncertain_by_ms: Option<f64>,
}

/// The transit of packets of one direction.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionComparison {
    /// Packets that left while both captures ran.
    pub sent: u64,
    /// Packets that never arrived.
    pub lost: u64,
    pub loss_ratio: f64,
    /// Packets that arrived more often than they were sent.
    pub duplicated: u64,
    /// Packets sent again as they were: the same packet left more than once.
    pub repeated: u64,
    /// Packets that arrived after one that was sent later (RFC 4737). `None` where a clock that was set may be what
    /// disordered them.
    pub reordered: Option<u64>,
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
    /// Compares the conversation of `sender`, or the largest in the sender's capture, with the same one in the receiver's capture, found by its
    /// packets.
    ///
    /// # Errors
    ///
    /// There is no such conversation, or the captures do not belong together.
    pub fn new(at_sender: &Traffic, at_receiver: &Traffic, sender: Option<SocketAddr>) -> Result<Self, CompareError> {
        let scope = Scope::new(at_sender, sender).map_err(CompareError::Sender)?;
        Scope::new(at_receiver, None).map_err(CompareError::Receiver)?;
        let counterpart = counterpart(at_sender, &scope, at_receiver).ok_or(CompareError::NothingInCommon)?;
        let pick = |traffic: &Traffic, scope: &Scope, down: bool| {
            Index::new(scope.packets(traffic, |stream| (stream.direction == scope.down) == down))
        };
        let (down_here, down_there) = (pick(at_sender, &scope, true), pick(at_receiver, &counterpart, true));
        let (up_here, up_there) = (pick(at_sender, &scope, false), pick(at_receiver, &counterpart, false));
        let down = MatchedPackets::new(&down_here, &down_there);
        let up = MatchedPackets::new(&up_there, &up_here);
        let shared = down.times.len() + up.times.len();
        let of = (down_here.prints.len() + up_here.prints.len()).min(down_there.prints.len() + up_there.prints.len());
        if (shared as f64) < MIN_COMMON_SHARE * of as f64 {
            return Err(CompareError::LittleInCommon { shared, of });
        }
        let origin = at_sender.capture.first;
        let here = |at: Time| (at - origin).as_secs_f64();
        // The receiver's clock against the sender's, whichever end sent the packet.
        let sample = |first: Time, second: Time| Sample { at: here(first), difference: (second - first).as_secs_f64() };
        let downs: Vec<Sample> = down.times.iter().map(|(left, arrived)| sample(*left, *arrived)).collect();
        let ups: Vec<Sample> = up.times.iter().map(|(left, arrived)| sample(*arrived, *left)).collect();
        let fit = ClockFit::new(&downs, &ups).ok_or(CompareError::NothingInCommon)?;
        let clock_refused = fit.as_ref().err().copied();
        let fit = fit.ok();
        let downs = fit.map(|fit| {
            let away = |of: &Sample| PacketTransit { left: of.at, delay: of.difference - fit.offset(of.at) };
            DirectionTransits {
                packets: downs.iter().map(away).collect(),
                lost: down.lost_at.iter().copied().map(here).collect(),
            }
        });
        let ups = fit.map(|fit| {
            let back = |of: &Sample| {
                let delay = fit.offset(of.at) - of.difference;
                PacketTransit { left: of.at - delay, delay }
            };
            let there = |at: &Time| fit.first(here(*at));
            DirectionTransits { packets: ups.iter().map(back).collect(), lost: up.lost_at.iter().map(there).collect() }
        });
        let in_order = clock_refused != Some(ClockError::SetDuringCapture);
        let direction = |direction: DirectionComparison| DirectionComparison {
            reordered: direction.reordered.filter(|_| in_order),
            ..direction
        };
        Ok(Self {
            downlink: direction(down.direction(&down_here, &down_there, downs.as_ref())),
            uplink: direction(up.direction(&up_there, &up_here, ups.as_ref())),
            clock: fit.map(|fit| Clock {
                offset_ms: fit.offset(0.0) * 1e3,
                drift_ppm: fit.drift * 1e6,
                both_ways: fit.round_trip.is_some(),
                uncertain_by_ms: fit.round_trip.map(|trip| trip * 0.5e3),
            }),
            clock_refused,
            receiver: Study::of(at_receiver, &counterpart),
        })
    }
}

impl DirectionComparison {
    /// Returns whether the captures share no packet of this direction.
    pub fn is_empty(&self) -> bool {
        self.sent == 0
    }
}

impl Clock {
    /// Describes the clock, its uncertainty and how it was found.
    fn in_words(&self) -> String {
        let Self { offset_ms, drift_ppm, both_ways, uncertain_by_ms } = self;
        let how = match uncertain_by_ms {
            Some(by) if *both_ways => {
                format!(
                    "Packets were seen both ways: this and all delays may be wrong by {by:.3} ms, those of the two \
                     directions the opposite way."
                )
            }
            _ => {
                "Packets one way only tell this: the smallest delay is in it, and delays are those above it.".to_owned()
            }
        };
        format!("The receiver's clock was {offset_ms:.3} ms ahead and ran {drift_ppm:+.2} ppm fast. {how}")
    }
}

impl Comparison {
    /// The receiver's clock relative to the sender's, or why it cannot be determined.
    pub fn clock_in_words(&self) -> String {
        match (&self.clock, self.clock_refused) {
            (Some(clock), _) => clock.in_words(),
            (None, Some(why)) => format!("Delays and stalls are not told: {}.", why.in_words()),
            (None, None) => String::new(),
        }
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
struct MatchedPackets {
    /// When each left and arrived, by the time it left.
    times: Vec<(Time, Time)>,
    /// While both captures saw packets, in order.
    lost_at: Vec<Time>,
    unseen_at: Vec<Time>,
    duplicated: u64,
    repeated: u64,
}

impl MatchedPackets {
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
        // A packet that left before the other capture began, or arrived after it ended, does not count as lost. Nor does a direction that one capture
        // lacks.
        let left = matched.times.first().zip(matched.times.last()).map(|(first, last)| first.0..=last.0);
        let arrivals = matched.times.iter().map(|times| times.1);
        let arrived = arrivals.clone().min().zip(arrivals.max()).map(|(first, last)| first..=last);
        matched.lost_at.retain(|at| left.as_ref().is_some_and(|both| both.contains(at)));
        matched.unseen_at.retain(|at| arrived.as_ref().is_some_and(|both| both.contains(at)));
        matched.lost_at.sort_unstable();
        matched
    }

    /// `crossed` are those of `times` and `lost_at`.
    fn direction(&self, sent: &Index, received: &Index, crossed: Option<&DirectionTransits>) -> DirectionComparison {
        /// Points that a chart shows.
        const MAX_CHART_POINTS: usize = 4_000;
        let lost = self.lost_at.len() as u64;
        let total = self.times.len() as u64 + lost;
        let mut newest = Time::ZERO;
        let mut reordered = 0;
        for (_, arrived) in &self.times {
            reordered += u64::from(*arrived < newest);
            newest = newest.max(*arrived);
        }
        let gaps = |packets: &[Packet]| Distribution::of_spans(packets.windows(2).map(|pair| pair[1].at - pair[0].at));
        let lost_in_a_row = disruption::runs(self.times.iter().map(|times| times.0), &self.lost_at);
        let crossings = crossed.map_or(&[][..], |crossed| &crossed.packets);
        let every = crossings.len().div_ceil(MAX_CHART_POINTS).max(1);
        DirectionComparison {
            sent: total,
            lost,
            loss_ratio: lost as f64 / total.max(1) as f64,
            duplicated: self.duplicated,
            repeated: self.repeated,
            reordered: Some(reordered),
            unseen: self.unseen_at.len() as u64,
            delay_ms: Distribution::of(crossings.iter().map(|packet| packet.delay * 1e3)),
            sent_gap_ms: gaps(&sent.packets),
            received_gap_ms: gaps(&received.packets),
            disruption: Disruption::new(&sent.packets, &received.packets, crossed, lost_in_a_row),
            delays: crossings.iter().step_by(every).map(|packet| (packet.left, packet.delay * 1e3)).collect(),
        }
    }
}
