//! Decides when to probe, and at which rate.

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Bytes, Span, Time};

use crate::{Probe, ProbeId};

/// The first probes, as multiples of the start rate (libwebrtc `kFirst/SecondExponentialProbeScale`).
const INITIAL_PROBE_SCALES: [f64; 2] = [3.0, 6.0];
/// A result above this share of a probe leads to a further one, at this multiple of the result (`kRepeatedProbeMinPercentage`,
/// `kFurtherExponentialProbeScale`).
const MIN_RESULT_FOR_FURTHER_PROBE: f64 = 0.7;
const FURTHER_PROBE_SCALE: f64 = 2.0;
/// The longest wait for a result (`kMaxWaitingTimeForProbingResult`).
const MAX_RESULT_WAIT: Span = Span::from_secs(1);
/// Time between probes while the application limits the rate (`kAlrProbingInterval`), and their multiple of the estimate.
const ALR_PROBE_INTERVAL: Span = Span::from_secs(5);
const ALR_PROBE_SCALE: f64 = 2.0;
/// A fall below this share is a large drop (`kBitrateDropThreshold`).
const LARGE_DROP_SHARE: f64 = 0.66;
/// After a large drop, this share of the former rate is probed, if the second share of that exceeds the estimate
/// (`kProbeFractionAfterDrop`, `kProbeUncertainty`).
const DROP_PROBE_SHARE: f64 = 0.85;
const DROP_PROBE_CERTAINTY: f64 = 0.95;
/// How long after the drop it is probed, and the minimum time since another probe (`kBitrateDropTimeoutMs`,
/// `kMinTimeBetweenAlrProbesMs`).
const DROP_VALIDITY: Span = Span::from_secs(5);
const MIN_REQUEST_INTERVAL: Span = Span::from_secs(5);
/// The application counts as limiting for this time after the region's end (`kAlrEndedTimeoutMs`).
const ALR_ENDED_TIMEOUT: Span = Span::from_secs(3);
/// The minimum length of a probe in time and packets (`min_probe_duration`, `min_probe_packets_sent`).
const MIN_PROBE_TIME: Span = Span::from_millis(15);
const MIN_PROBE_SIZE: Bytes = Bytes::new(5 * 1_200);
/// When a due probe is not allowed, the next attempt follows after this. Guess: long compared with feedback, short compared with the
/// time between probes.
const RETRY_INTERVAL: Span = Span::from_millis(500);

/// The inputs to a probing decision.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    pub estimate: Bitrate,
    pub maximum: Bitrate,
    /// Since when the application has limited the rate, if it does.
    pub app_limited_since: Option<Time>,
    /// When the application last stopped limiting the rate.
    pub app_limited_until: Option<Time>,
    /// Whether the path shows congestion, so that nothing more may be sent.
    pub congested: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No probe has been sent yet.
    New,
    Waiting {
        until: Time,
        /// A higher estimate leads to a further probe.
        go_on_above: Bitrate,
    },
    Idle,
}

/// Plans probes: libwebrtc `ProbeController`.
#[derive(Clone, Debug)]
pub struct Probing {
    /// Time between probes while the rate neither limits nor is limited by the application.
    stagnant_interval: Option<Span>,
    state: State,
    queue: VecDeque<Probe>,
    next_id: u32,
    last_at: Option<Time>,
    ask_at: Time,
    estimate: Option<Bitrate>,
    drop: Option<(Time, Bitrate)>,
}

impl Probing {
    #[must_use]
    pub fn new(stagnant_interval: Option<Span>) -> Self {
        Self {
            stagnant_interval,
            state: State::New,
            queue: VecDeque::new(),
            next_id: 0,
            last_at: None,
            ask_at: Time::ZERO,
            estimate: None,
            drop: None,
        }
    }

    /// Returns a probe to send now. The first call begins the initial probes.
    pub fn poll(&mut self, now: Time, situation: &Situation) -> Option<Probe> {
        if self.state == State::New {
            let rates = INITIAL_PROBE_SCALES.map(|factor| situation.estimate.mul_f64(factor));
            self.begin(now, &rates, true, situation);
        }
        self.queue.pop_front()
    }

    /// Handles a new estimate.
    pub fn on_estimate(&mut self, now: Time, situation: &Situation) {
        let before = self.estimate.replace(situation.estimate).unwrap_or(situation.estimate);
        if situation.estimate < before.mul_f64(LARGE_DROP_SHARE) {
            self.drop = Some((now, before));
        }
        if let State::Waiting { go_on_above, .. } = self.state
            && situation.estimate > go_on_above
            && !situation.congested
        {
            self.begin(now, &[situation.estimate.mul_f64(FURTHER_PROBE_SCALE)], true, situation);
        }
    }

    /// Handles the path's recovery from over-use: after a large drop, the former rate may be possible again.
    pub fn on_recovered(&mut self, now: Time, situation: &Situation) {
        let Some((dropped_at, before)) = self.drop else { return };
        let since = |then: Option<Time>| then.map(|then| now.saturating_since(then));
        let app_limited = situation.app_limited_since.is_some()
            || since(situation.app_limited_until).is_some_and(|ended| ended < ALR_ENDED_TIMEOUT);
        let rested = since(self.last_at).is_none_or(|rested| rested > MIN_REQUEST_INTERVAL);
        let wanted = before.mul_f64(DROP_PROBE_SHARE);
        let worthwhile = wanted.mul_f64(DROP_PROBE_CERTAINTY) > situation.estimate;
        let recent = now.saturating_since(dropped_at) < DROP_VALIDITY;
        if self.state == State::Idle && app_limited && rested && worthwhile && recent {
            self.begin(now, &[wanted], false, situation);
        }
    }

    /// Handles the return of feedback after an outage, or a higher maximum: the path's capacity is unknown now.
    pub fn on_unknown_path(&mut self, now: Time, situation: &Situation) {
        if self.state != State::New {
            self.begin(now, &[situation.estimate.mul_f64(FURTHER_PROBE_SCALE)], true, situation);
        }
    }

    /// When [`Probing::on_time`] has to be called.
    #[must_use]
    pub fn due(&self, situation: &Situation) -> Option<Time> {
        match self.state {
            State::New => None,
            State::Waiting { until, .. } => Some(until),
            State::Idle => self.next_at(situation).map(|next| next.max(self.ask_at)),
        }
    }

    pub fn on_time(&mut self, now: Time, situation: &Situation) {
        match self.state {
            State::Waiting { until, .. } if now >= until => self.state = State::Idle,
            State::New | State::Waiting { .. } => {}
            State::Idle => {
                let due = self.next_at(situation).is_some_and(|next| now >= next.max(self.ask_at));
                if due && situation.congested {
                    self.ask_at = now + RETRY_INTERVAL;
                } else if due {
                    self.begin(now, &[situation.estimate.mul_f64(ALR_PROBE_SCALE)], true, situation);
                }
            }
        }
    }

    /// Number of probes that wait to be polled.
    #[must_use]
    pub fn held(&self) -> usize {
        self.queue.len()
    }

    fn next_at(&self, situation: &Situation) -> Option<Time> {
        if situation.estimate >= situation.maximum {
            return None;
        }
        let last_at = self.last_at?;
        let stagnant = self.stagnant_interval.map(|interval| last_at + interval);
        let app_limited = situation.app_limited_since.map(|since| since.max(last_at) + ALR_PROBE_INTERVAL);
        [stagnant, app_limited].into_iter().flatten().min()
    }

    fn begin(&mut self, now: Time, rates: &[Bitrate], go_on: bool, situation: &Situation) {
        self.queue.clear();
        let mut fastest = Bitrate::ZERO;
        for &rate in rates {
            let rate = rate.min(situation.maximum);
            if rate > situation.estimate && rate > fastest {
                let size = rate.bytes_in(MIN_PROBE_TIME).max(MIN_PROBE_SIZE);
                self.queue.push_back(Probe { id: ProbeId(self.next_id), rate, size });
                self.next_id = self.next_id.wrapping_add(1);
                fastest = rate;
            }
        }
        self.state = State::Idle;
        self.last_at = Some(now);
        if go_on && fastest > Bitrate::ZERO && fastest < situation.maximum {
            self.state = State::Waiting {
                until: now + MAX_RESULT_WAIT,
                go_on_above: fastest.mul_f64(MIN_RESULT_FOR_FURTHER_PROBE),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_rate(mbps: u64) -> Situation {
        Situation {
            estimate: Bitrate::from_mbps(mbps),
            maximum: Bitrate::from_mbps(100),
            app_limited_since: None,
            app_limited_until: None,
            congested: false,
        }
    }

    fn rates(probing: &mut Probing, now: Time, situation: &Situation) -> Vec<u64> {
        std::iter::from_fn(|| probing.poll(now, situation)).map(|probe| probe.rate.as_bps() / 1_000_000).collect()
    }

    #[test]
    fn starts_with_three_and_six_times_and_goes_on_while_the_result_is_close() {
        let mut probing = Probing::new(None);
        assert_eq!(rates(&mut probing, Time::ZERO, &at_rate(8)), [24, 48]);
        probing.on_estimate(Time::from_millis(50), &at_rate(24));
        assert_eq!(rates(&mut probing, Time::from_millis(50), &at_rate(24)), Vec::<u64>::new());
        probing.on_estimate(Time::from_millis(60), &at_rate(45));
        assert_eq!(rates(&mut probing, Time::from_millis(60), &at_rate(45)), [90]);
        probing.on_estimate(Time::from_millis(90), &at_rate(85));
        assert_eq!(rates(&mut probing, Time::from_millis(90), &at_rate(85)), [100], "no further than allowed");
    }

    #[test]
    fn a_probe_lasts_15_ms_or_five_packets_and_none_is_sent_at_the_maximum() {
        let mut probing = Probing::new(None);
        let probe = probing.poll(Time::ZERO, &at_rate(8)).expect("a first probe");
        assert_eq!(probe.size, Bytes::new(45_000));
        let mut probing = Probing::new(None);
        let slow = Situation { estimate: Bitrate::from_kbps(500), ..at_rate(0) };
        assert_eq!(probing.poll(Time::ZERO, &slow).expect("a first probe").size, Bytes::new(6_000));
        assert_eq!(rates(&mut Probing::new(None), Time::ZERO, &at_rate(100)), Vec::<u64>::new());
    }

    #[test]
    fn an_application_that_limits_is_probed_for_every_5_s_unless_congested() {
        let mut probing = Probing::new(None);
        rates(&mut probing, Time::ZERO, &at_rate(8));
        probing.on_time(Time::from_secs(1), &at_rate(8));
        assert_eq!(probing.due(&at_rate(8)), None);
        let limited = Situation { app_limited_since: Some(Time::from_secs(2)), ..at_rate(8) };
        assert_eq!(probing.due(&limited), Some(Time::from_secs(7)));
        probing.on_time(Time::from_secs(7), &Situation { congested: true, ..limited });
        assert_eq!(rates(&mut probing, Time::from_secs(7), &limited), Vec::<u64>::new());
        assert_eq!(probing.due(&limited), Some(Time::from_millis(7_500)));
        probing.on_time(Time::from_millis(7_500), &limited);
        assert_eq!(rates(&mut probing, Time::from_millis(7_500), &limited), [16]);
    }

    #[test]
    fn a_stagnant_rate_is_probed_for_if_configured() {
        let mut probing = Probing::new(Some(Span::from_secs(15)));
        rates(&mut probing, Time::ZERO, &at_rate(8));
        probing.on_time(Time::from_secs(1), &at_rate(8));
        assert_eq!(probing.due(&at_rate(8)), Some(Time::from_secs(15)));
        probing.on_time(Time::from_secs(15), &at_rate(8));
        assert_eq!(rates(&mut probing, Time::from_secs(15), &at_rate(8)), [16]);
    }

    #[test]
    fn a_large_drop_is_probed_for_only_near_application_limited_times() {
        for (ended, expected) in
            [(None, vec![]), (Some(Time::from_secs(1)), vec![]), (Some(Time::from_secs(9)), vec![17])]
        {
            let mut probing = Probing::new(None);
            rates(&mut probing, Time::ZERO, &at_rate(20));
            probing.on_time(Time::from_secs(1), &at_rate(20));
            probing.on_estimate(Time::from_secs(9), &at_rate(20));
            let low = Situation { app_limited_until: ended, ..at_rate(5) };
            probing.on_estimate(Time::from_secs(9), &low);
            probing.on_recovered(Time::from_secs(10), &low);
            assert_eq!(rates(&mut probing, Time::from_secs(10), &low), expected);
        }
    }
}
