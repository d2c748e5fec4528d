//! Rate adaptation from the outcome of transmissions.
//!
//! After `minstrel_ht` of Linux (`net/mac80211/rc80211_minstrel_ht.c`): a success probability per scheme, averaged over windows of
//! 50 ms with a weight of a quarter for the new one; the scheme with the best product of rate and probability is used.
//!
//! Departures: streams and guard interval stay fixed. Instead of groups of sampling rates, the next scheme above is tried, with few packets, more
//! rarely after it failed. Instead of a hardware retry chain, each transmission that was lost as a whole makes the next one a scheme slower. A scheme
//! is assumed to succeed at least as often as any faster one.

use nearlight_units::{Span, Time};

use crate::phy::{Mcs, Mode};

/// Window of the statistics, as Linux's `MINSTREL_UPDATE_INTERVAL`.
const STATISTICS_WINDOW: Span = Span::from_millis(50);
/// Weight of the past in the moving average: Linux's `EWMA_LEVEL`, 96 of 128.
const PAST_WEIGHT: f64 = 0.75;
/// Success probability below which a scheme is not used, as in Linux.
const MIN_USEFUL_SUCCESS: f64 = 0.1;
/// Interval of trials of another scheme. Guess: it costs little airtime.
const TRIAL_INTERVAL: Span = Span::from_millis(20);
/// Pause after a failed trial. Guess: the channel needs this long to improve.
const FAILED_TRIAL_PAUSE: Span = Span::from_millis(200);
/// Most packets of a trial. Guess.
const TRIAL_PACKETS: usize = 8;
/// Least share of packets that a successful trial delivers. Guess.
const MIN_TRIAL_SUCCESS: f64 = 0.75;

#[derive(Clone, Debug)]
pub(crate) struct Minstrel {
    mode: Mode,
    schemes: [Scheme; 12],
    best: Mcs,
    /// Transmissions lost as a whole since the latest success.
    failures: u8,
    window_ends: Time,
    trial_at: Time,
    trial: Option<Mcs>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Scheme {
    sent: usize,
    delivered: usize,
    /// Success probability. None when the scheme was never tried.
    probability: Option<f64>,
}

impl Minstrel {
    /// Returns an adaptation that starts with the slowest scheme; `mode` has the fastest.
    pub(crate) fn new(mode: Mode) -> Self {
        Self {
            mode,
            schemes: [Scheme::default(); 12],
            best: Mcs::LOWEST,
            failures: 0,
            window_ends: Time::ZERO + STATISTICS_WINDOW,
            trial_at: Time::ZERO,
            trial: None,
        }
    }

    pub(crate) fn best(&self) -> Mcs {
        self.best
    }

    /// Returns the scheme of the next transmission, and the most packets that it should carry.
    pub(crate) fn choose(&mut self, now: Time) -> (Mcs, usize) {
        if now >= self.window_ends {
            self.close_window(now);
        }
        self.trial = None;
        if self.failures > 0 {
            let slower = self.best.up_to().rev().nth(usize::from(self.failures));
            return (slower.unwrap_or(Mcs::LOWEST), usize::MAX);
        }
        let faster = self.mode.mcs().up_to().find(|mcs| *mcs > self.best);
        if let Some(faster) = faster
            && now >= self.trial_at
        {
            self.trial = Some(faster);
            return (faster, TRIAL_PACKETS);
        }
        (self.best, usize::MAX)
    }

    /// Reports the outcome of the packets of the transmission chosen last.
    pub(crate) fn on_outcome(&mut self, now: Time, mcs: Mcs, sent: usize, delivered: usize) {
        let scheme = &mut self.schemes[usize::from(mcs.index())];
        scheme.sent += sent;
        scheme.delivered += delivered;
        if self.trial.take() == Some(mcs) {
            let good = delivered as f64 >= sent as f64 * MIN_TRIAL_SUCCESS;
            self.trial_at = now + if good { TRIAL_INTERVAL } else { FAILED_TRIAL_PAUSE };
        } else {
            self.failures = if delivered == 0 { self.failures.saturating_add(1) } else { 0 };
        }
    }

    fn close_window(&mut self, now: Time) {
        self.window_ends = now + STATISTICS_WINDOW;
        for scheme in &mut self.schemes {
            if scheme.sent > 0 {
                let seen = scheme.delivered as f64 / scheme.sent as f64;
                let past = scheme.probability.unwrap_or(seen);
                scheme.probability = Some(past * PAST_WEIGHT + seen * (1.0 - PAST_WEIGHT));
                (scheme.sent, scheme.delivered) = (0, 0);
            }
        }
        let mut at_least = 0.0_f64;
        let mut most = 0.0;
        for mcs in self.mode.mcs().up_to().rev() {
            at_least = at_least.max(self.schemes[usize::from(mcs.index())].probability.unwrap_or(0.0));
            let useful = if at_least < MIN_USEFUL_SUCCESS { 0.0 } else { at_least };
            let throughput = self.mode.with_mcs(mcs).rate().as_mbps_f64() * useful;
            if throughput >= most {
                most = throughput;
                self.best = mcs;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::{Guard, Width};

    /// Runs with schemes up to `good` succeeding and those above failing; returns the scheme used most during the last second.
    fn settles(minstrel: &mut Minstrel, now: &mut Time, good: u8) -> u8 {
        let mut used = [0; 12];
        for _ in 0..4_000 {
            *now += Span::from_millis(1);
            let (mcs, packets) = minstrel.choose(*now);
            let sent = packets.min(30);
            minstrel.on_outcome(*now, mcs, sent, if mcs.index() <= good { sent } else { 0 });
            used[usize::from(mcs.index())] += 1;
        }
        (0..12).max_by_key(|index| used[usize::from(*index)]).expect("twelve schemes")
    }

    #[test]
    fn finds_the_best_scheme_and_follows_the_channel_down_and_up() {
        let mode = Mode::new(Width::Mhz80.whole(), Mcs::HIGHEST, 2, Guard::Nanos800).expect("a mode");
        let mut minstrel = Minstrel::new(mode);
        let mut now = Time::ZERO;
        for good in [11, 3, 7, 0, 9] {
            assert_eq!(settles(&mut minstrel, &mut now, good), good);
        }
    }

    #[test]
    fn a_slower_scheme_wins_where_it_loses_less_by_more_than_its_rate_is_lower() {
        let mode = Mode::new(Width::Mhz80.whole(), Mcs::HIGHEST, 2, Guard::Nanos800).expect("a mode");
        let mut minstrel = Minstrel::new(mode);
        let mut now = Time::ZERO;
        for _ in 0..5_000 {
            now += Span::from_millis(1);
            let (mcs, _) = minstrel.choose(now);
            // MCS 9 loses a tenth; 10 and 11 lose eight of ten.
            minstrel.on_outcome(now, mcs, 10, if mcs.index() <= 9 { 9 } else { 2 });
        }
        assert_eq!(minstrel.best().index(), 9);
    }
}
