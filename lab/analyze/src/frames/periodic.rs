//! Finds the bursts that begin a frame if headers are encrypted: those that recur with the strongest lag.

use nearlight_units::{Span, Time};

use crate::batches::Burst;
use crate::batches::{all_lags, autocorrelation};

/// A lag counts as a frame interval only if this share of the bursts has a partner at it. Guess.
const MIN_PARTNER_SHARE: f64 = 0.5;
/// A burst this far from where a frame is due may still begin it, in intervals. Guess: between a half, where frames are mixed up,
/// and nothing, where jitter loses them.
const CLUSTER_REACH: f64 = 0.2;
/// Multiples of a frame's interval are nearly as strong as it is.
const MIN_RELATIVE_STRENGTH: f64 = 0.85;
/// Intervals over which the phase is looked for.
const PHASE_INTERVALS: i64 = 200;
const PHASE_BINS: usize = 64;

/// Returns whether each burst begins a frame. `None` if no lag stands out, or if each burst is a frame.
pub(super) fn frame_starts(bursts: &[Burst]) -> Option<Vec<bool>> {
    let peak = autocorrelation(&all_lags(bursts), MIN_RELATIVE_STRENGTH)?;
    let share = peak.pairs as f64 / bursts.len() as f64;
    let (first, last) = (bursts.first()?.at, bursts.last()?.at);
    let frames = (last - first).as_nanos() as f64 / peak.lag.as_nanos() as f64;
    if share < MIN_PARTNER_SHARE || frames > 0.9 * bursts.len() as f64 {
        return None;
    }
    let mut due = phase(bursts, peak.lag);
    let reach = peak.lag.mul_f64(CLUSTER_REACH);
    let mut begins = vec![false; bursts.len()];
    for (burst, begins) in bursts.iter().zip(&mut begins) {
        // Frames that were skipped.
        let late = (burst.at - due - reach).as_nanos();
        if late > 0 {
            due += peak.lag * ((late - 1) / peak.lag.as_nanos() + 1);
        }
        if (burst.at - due).abs() <= reach {
            *begins = true;
            // The source's own clock, followed slowly: one late burst does not move it.
            due = due + (burst.at - due) / 8 + peak.lag;
        }
    }
    Some(begins)
}

/// When the first frame is due.
///
/// Folded over the interval, bursts lie in clusters, the first of a frame, the second, and so on. The first is the one behind the longest
/// silence, and the one that is larger than the cluster before it, for only large frames need a last burst.
fn phase(bursts: &[Burst], interval: Span) -> Time {
    let first = bursts[0].at;
    let mut taken = [0; PHASE_BINS];
    for burst in bursts {
        let since = (burst.at - first).as_nanos();
        if since / interval.as_nanos() > PHASE_INTERVALS {
            break;
        }
        let share = (since % interval.as_nanos()) as f64 / interval.as_nanos() as f64;
        taken[(share * PHASE_BINS as f64) as usize % PHASE_BINS] += burst.packets.len();
    }
    let clusters = clusters(&taken);
    let most = clusters.iter().map(|cluster| cluster.packets).max().unwrap_or(1) as f64;
    let worth = |place: usize| {
        let (own, before) = (&clusters[place], &clusters[(place + clusters.len() - 1) % clusters.len()]);
        let silence = (own.begin + 2 * PHASE_BINS - before.end) % PHASE_BINS;
        silence as f64 / PHASE_BINS as f64 + (own.packets as f64 - before.packets as f64) / most
    };
    let best = (0..clusters.len()).max_by(|one, other| worth(*one).total_cmp(&worth(*other)));
    first + interval.mul_f64(best.map_or(0.0, |best| (clusters[best].begin as f64 + 0.5) / PHASE_BINS as f64))
}

/// Bins of a ring with packets, and none before or behind.
struct Cluster {
    begin: usize,
    /// Behind the last bin; may lie beyond the ring's end.
    end: usize,
    packets: usize,
}

fn clusters(taken: &[usize; PHASE_BINS]) -> Vec<Cluster> {
    // Guess: single bursts out of step are no cluster.
    let few = taken.iter().copied().max().unwrap_or(0) / 50;
    let busy = |bin: usize| taken[bin % PHASE_BINS] > few;
    let begins = (0..PHASE_BINS).filter(|bin| busy(*bin) && !busy(bin + PHASE_BINS - 1));
    let cluster = |begin: usize| {
        let end = (begin..begin + PHASE_BINS).find(|bin| !busy(*bin)).unwrap_or(begin + PHASE_BINS);
        Cluster { begin, end, packets: (begin..end).map(|bin| taken[bin % PHASE_BINS]).sum() }
    };
    begins.map(cluster).collect()
}
