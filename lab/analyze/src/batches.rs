//! Batches: packets that a sender releases together, and their rhythm.
//!
//! No rhythm is assumed. First the gaps between packets define "together": their histogram has a valley between the
//! gaps within a burst and those between bursts. Then the autocorrelation of the bursts' beginnings tells the interval, and bursts closer
//! than half of it are one batch.

mod rhythm;

use std::ops::Range;

use nearlight_units::{Span, Time};
use serde::Serialize;

use crate::distribution::Distribution;
use crate::frames::StreamFrames;
use crate::traffic::Packet;
pub(crate) use rhythm::{Rhythm, all_lags, autocorrelation};

/// Gaps up to this leave no doubt that packets arrived as one, as those of a Wi-Fi aggregate do. Guess: a gigabit's packet takes 10 us, and
/// capturing adds a few; separate channel accesses are further apart (an AIFS, preambles and an acknowledgement take over 100 us).
pub const BATCH_GAP: Span = Span::from_micros(20);
/// Two packets with the same time on a clock of microseconds: what the study calls simultaneous.
const SIMULTANEOUS: Span = Span::from_micros(1);
/// The largest packet count per instant that the histogram distinguishes; larger ones are counted there.
const MAX_PER_INSTANT: usize = 256;

/// Packets without a silence between them.
#[derive(Clone, Debug)]
pub(crate) struct Burst {
    pub at: Time,
    pub packets: Range<usize>,
}

/// Figures of a stream's batches.
#[derive(Clone, Debug, Serialize)]
pub struct Batches {
    /// Gaps longer than this end a burst; `None` where gaps are of one sort, and each packet is its own batch.
    pub silence_us: Option<f64>,
    pub count: usize,
    pub packets: Distribution,
    /// Between the beginnings of batches that follow each other, as the autocorrelation has it.
    pub interval_ms: Option<f64>,
    /// How well the batches keep to a grid of this interval, from 0 to 1: 1 if a timer releases them, little if each frame starts its own.
    pub on_grid: Option<f64>,
    /// Batches that carry a frame's packets.
    pub per_frame: Option<Distribution>,
    /// Moments at which a batch left or could have left.
    pub instants: u64,
    /// Those at which none did.
    pub idle: u64,
    pub idle_ratio: f64,
    /// Number of instants with 0, 1, 2, ... packets.
    #[serde(skip)]
    pub packets_of_instant: Vec<u64>,
}

/// Groups of packets captured within [`BATCH_GAP`] of each other.
#[derive(Clone, Debug, Serialize)]
pub struct PacketGroups {
    /// The largest gap within a group.
    pub within_us: f64,
    /// Share of packets with the time of the one before.
    pub simultaneous_ratio: f64,
    /// Share of packets in groups of two or more.
    pub grouped_ratio: f64,
    /// Packets of each group, single ones too.
    pub group: Distribution,
}

/// Cuts where more than `silence` passes; without one each packet is a burst.
pub(crate) fn bursts(packets: &[Packet], silence: Option<Span>) -> Vec<Burst> {
    let mut bursts: Vec<Burst> = Vec::new();
    for (index, packet) in packets.iter().enumerate() {
        let gap = packet.at - packets[index.saturating_sub(1)].at;
        match bursts.last_mut() {
            Some(burst) if silence.is_some_and(|silence| gap <= silence) => burst.packets.end = index + 1,
            _ => bursts.push(Burst { at: packet.at, packets: index..index + 1 }),
        }
    }
    bursts
}

/// The histogram of the gaps between packets, whose valleys tell gaps of one sort from those of another.
struct Gaps {
    counts: [u64; Self::BINS],
    total: u64,
}

impl Gaps {
    /// Bins per factor of ten.
    const BINS_PER_DECADE: f64 = 20.0;
    /// Number of bins, from 1 us, the finest resolution of most captures, to 1 s.
    const BINS: usize = 120;
    /// Least number of gaps on each side of a valley.
    const MIN_GAPS_PER_SIDE: u64 = 8;

    fn of(packets: &[Packet]) -> Self {
        let mut counts = [0_u64; Self::BINS];
        for pair in packets.windows(2) {
            let micros = (pair[1].at - pair[0].at).as_nanos() as f64 / 1e3;
            let bin =
                if micros < 1.0 { 0 } else { ((micros.log10() * Self::BINS_PER_DECADE) as usize).min(Self::BINS - 1) };
            counts[bin] += 1;
        }
        Self { counts, total: packets.len().saturating_sub(1) as u64 }
    }

    /// Runs of bins with at most a `hills`th of the lower of the hills on their two sides.
    fn valleys(&self, hills: u64) -> Vec<Range<usize>> {
        // A frame of a thousand packets in one burst has one silence.
        let fewest = Self::MIN_GAPS_PER_SIDE.max(self.total / 2_000);
        let around = |bin: usize| bin.saturating_sub(1)..(bin + 2).min(Self::BINS);
        let smooth: Vec<u64> = (0..Self::BINS).map(|bin| self.counts[around(bin)].iter().sum()).collect();
        let hill = |bins: Range<usize>| smooth[bins].iter().copied().max().unwrap_or(0);
        let lower_hill = |bin: usize| hill(0..bin).min(hill(bin + 1..Self::BINS));
        let mut below = 0;
        let mut valleys: Vec<Range<usize>> = Vec::new();
        for (bin, level) in smooth.iter().enumerate() {
            below += self.counts[bin];
            let enough = below >= fewest && self.total - below >= fewest;
            if !enough || hills * level > lower_hill(bin) {
                continue;
            }
            match valleys.last_mut() {
                Some(valley) if valley.end == bin => valley.end = bin + 1,
                _ => valleys.push(bin..bin + 1),
            }
        }
        valleys
    }

    /// The widest of them: gaps between frames may be as clearly apart from those between bursts, but never by such a factor.
    fn widest(&self, hills: u64) -> Option<Range<usize>> {
        self.valleys(hills).into_iter().min_by_key(|valley| std::cmp::Reverse(valley.len()))
    }

    fn middle(valley: &Range<usize>) -> Span {
        let middle = (valley.start + valley.end) as f64 / 2.0;
        Span::from_nanos((10_f64.powf(middle / Self::BINS_PER_DECADE) * 1e3) as i64)
    }
}

/// Factor by which a clear valley is below the lower of both hills. Guess, as the others here.
const VALLEY_DEPTH: u64 = 10;

/// The gap that separates bursts: the middle of the widest valley in the histogram of gaps.
///
/// `None` where the gaps have but one hill.
pub(crate) fn silence(packets: &[Packet]) -> Option<Span> {
    let gaps = Gaps::of(packets);
    // Where scheduling strews gaps between a burst's and those between bursts, a third of the hill over twice the width is the clearer one.
    let (clear, fair) = (gaps.widest(VALLEY_DEPTH), gaps.widest(3));
    let wider = |fair: &Range<usize>| clear.as_ref().is_none_or(|clear| fair.len() >= 2 * clear.len());
    let valley = fair.filter(wider).or_else(|| clear.clone()).or_else(|| gaps.widest(2))?;
    Some(Gaps::middle(&valley))
}

/// The gap that cuts the packets into bursts at the most even distances, if any makes them even enough for frames of one rate.
pub(crate) fn even_silence(packets: &[Packet]) -> Option<Span> {
    /// Half of the intervals are within this share of the median. Guess: schedulers and networks move a frame by less.
    const MAX_EVEN_DEVIATION: f64 = 0.25;
    let spread = |silence: &Span| {
        let bursts = bursts(packets, Some(*silence));
        let mut apart: Vec<i64> = bursts.windows(2).map(|pair| (pair[1].at - pair[0].at).as_nanos()).collect();
        apart.sort_unstable();
        let at = |share: f64| apart.get((apart.len() as f64 * share) as usize).map_or(f64::NAN, |apart| *apart as f64);
        (at(0.75) - at(0.25)) / at(0.5)
    };
    let silences: Vec<Span> = Gaps::of(packets).valleys(VALLEY_DEPTH).iter().map(Gaps::middle).collect();
    let spreads = silences.into_iter().map(|silence| (silence, spread(&silence)));
    let best =
        spreads.filter(|(_, spread)| *spread <= MAX_EVEN_DEVIATION).min_by(|one, other| one.1.total_cmp(&other.1))?;
    Some(best.0)
}

/// A stream's batches, with those of each packet.
pub(crate) struct Batching {
    pub figures: Batches,
    pub of_packet: Vec<u32>,
}

/// `None` for no packets. `frames` are those of the same packets.
pub(crate) fn batching(packets: &[Packet], frames: &StreamFrames) -> Option<Batching> {
    let silence = silence(packets);
    let bursts = bursts(packets, silence);
    let rhythm = silence.and_then(|_| Rhythm::of(&bursts, frames));
    let half = rhythm.as_ref().map_or(Span::ZERO, |rhythm| rhythm.interval / 2);
    let mut of_packet = Vec::with_capacity(packets.len());
    let mut sizes: Vec<u32> = Vec::new();
    let (mut begun, mut idle) = (Time::ZERO, 0_u64);
    for burst in &bursts {
        let since = burst.at.saturating_since(begun);
        if sizes.is_empty() || since >= half {
            if let (Some(rhythm), false) = (&rhythm, sizes.is_empty()) {
                let passed = since.as_nanos() as f64 / rhythm.interval.as_nanos() as f64;
                idle += (passed.round() as u64).saturating_sub(1);
            }
            sizes.push(0);
            begun = burst.at;
        }
        *sizes.last_mut()? += burst.packets.len() as u32;
        of_packet.extend(burst.packets.clone().map(|_| sizes.len() as u32 - 1));
    }
    let mut packets_of_instant = vec![idle];
    for size in &sizes {
        let place = (*size as usize).min(MAX_PER_INSTANT);
        packets_of_instant.resize(packets_of_instant.len().max(place + 1), 0);
        packets_of_instant[place] += 1;
    }
    let instants = idle + sizes.len() as u64;
    let figures = Batches {
        silence_us: silence.map(|silence| silence.as_nanos() as f64 / 1e3),
        count: sizes.len(),
        packets: Distribution::of(sizes.iter().map(|size| f64::from(*size)))?,
        interval_ms: rhythm.as_ref().map(|rhythm| rhythm.interval.as_millis_f64()),
        on_grid: rhythm.as_ref().and_then(|rhythm| rhythm.on_grid),
        per_frame: per_frame(frames, &of_packet),
        instants,
        idle,
        idle_ratio: idle as f64 / instants as f64,
        packets_of_instant,
    };
    Some(Batching { figures, of_packet })
}

fn per_frame(frames: &StreamFrames, batches: &[u32]) -> Option<Distribution> {
    let mut pairs: Vec<(u32, u32)> = frames.of_packet.iter().copied().zip(batches.iter().copied()).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let counts = pairs.chunk_by(|one, other| one.0 == other.0).map(|batches| batches.len() as f64);
    Distribution::of(counts)
}

/// `None` for no packets.
pub(crate) fn packet_groups(packets: &[Packet]) -> Option<PacketGroups> {
    let groups = bursts(packets, Some(BATCH_GAP));
    let grouped: usize = groups.iter().map(|group| group.packets.len()).filter(|size| *size > 1).sum();
    let simultaneous = packets.windows(2).filter(|pair| pair[1].at - pair[0].at < SIMULTANEOUS).count();
    Some(PacketGroups {
        within_us: BATCH_GAP.as_nanos() as f64 / 1e3,
        simultaneous_ratio: simultaneous as f64 / packets.len() as f64,
        grouped_ratio: grouped as f64 / packets.len() as f64,
        group: Distribution::of(groups.iter().map(|group| group.packets.len() as f64))?,
    })
}
