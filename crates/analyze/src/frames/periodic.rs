//! Which bursts begin a frame, where headers say nothing: those that come round with the strongest lag.

use nearlight_units::{Span, Time};

use crate::batches::Burst;
use crate::batches::{all_lags, autocorrelation};

/// A lag is a frame's only if so many of the bursts have a partner at it. Guess.
const SHARE: f64 = 0.5;
/// A burst this far from where a frame is due may still begin it, in intervals. Guess: between a half, where frames are mixed up,
/// and nothing, where jitter loses them.
const REACH: f64 = 0.2;
/// Multiples of a frame's interval are nearly as strong as it is.
const ENOUGH: f64 = 0.85;
/// Intervals over which the phase is looked for.
const WATCHED: usize = 200;
const BINS: usize = 64;

/// Of each burst whether it begins a frame; `None` where no lag stands out, or where each burst is a frame.
pub(super) fn frame_starts(bursts: &[Burst]) -> Option<Vec<bool>> {
    let peak = autocorrelation(&all_lags(bursts), ENOUGH)?;
    let share = peak.pairs as f64 / bursts.len() as f64;
    let (first, last) = (bursts.first()?.at, bursts.last()?.at);
    let frames = (last - first).as_nanos() as f64 / peak.lag.as_nanos() as f64;
    if share < SHARE || frames > 0.9 * bursts.len() as f64 {
        return None;
    }
    let mut due = phase(bursts, peak.lag);
    let reach = peak.lag.mul_f64(REACH);
    let mut begins = vec![false; bursts.len()];
    for (burst, begins) in bursts.iter().zip(&mut begins) {
        // Frames that were left out.
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

/// When the first frame is due: behind the longest stretch of the interval in which no burst begins.
fn phase(bursts: &[Burst], interval: Span) -> Time {
    let first = bursts[0].at;
    let mut taken = [0_u32; BINS];
    for burst in bursts {
        let since = (burst.at - first).as_nanos();
        if since / interval.as_nanos() > WATCHED as i64 {
            break;
        }
        taken[((since % interval.as_nanos()) as f64 / interval.as_nanos() as f64 * BINS as f64) as usize % BINS] += 1;
    }
    // Of bins with next to nothing, seen as a ring.
    let few = taken.iter().copied().max().unwrap_or(0) / 8;
    let (mut longest, mut run, mut begin) = (0, 0, 0);
    for bin in 0..2 * BINS {
        run = if taken[bin % BINS] <= few { run + 1 } else { 0 };
        if run > longest && run < BINS {
            (longest, begin) = (run, (bin + 1) % BINS);
        }
    }
    first + interval.mul_f64(begin as f64 / BINS as f64)
}
