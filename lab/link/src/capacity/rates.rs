//! A capacity that is constant between steps.

use std::sync::Arc;

use nearlight_units::{Bitrate, Bytes, Span, Time};
use thiserror::Error;

/// Unit of a link's work: bits per second times nanoseconds. Integers keep it exact.
pub(crate) type Work = i64;

/// Amounts of work are capped at this: 500 MB.
pub(crate) const MAX_WORK: Work = 4_000_000_000_000_000_000;

/// The work needed to send `size`.
#[inline]
pub(crate) const fn work_of(size: Bytes) -> Work {
    let work = size.bits().saturating_mul(1_000_000_000);
    if work > MAX_WORK as u64 { MAX_WORK } else { work as Work }
}

#[inline]
fn work_in(rate: Bitrate, span: Span) -> Work {
    let work = rate.as_bps().saturating_mul(span.as_nanos().max(0) as u64);
    work.min(MAX_WORK as u64) as Work
}

/// Invalid steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StepsError {
    #[error("a capacity needs at least one step")]
    Empty,
    #[error("step {0} does not start after the one before it; the first starts at 0")]
    Order(usize),
    #[error("a capacity that repeats needs an end after its last step")]
    Period,
    #[error("the capacity is zero throughout, so no packet would ever be delivered")]
    Zero,
}

/// Capacity over time, in steps; either the last step lasts forever or all of them repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    /// When each begins, from the start of the period.
    starts: Arc<[Span]>,
    steps: Arc<[Bitrate]>,
    period: Option<Span>,
    mean: Bitrate,
}

impl Rates {
    #[must_use]
    pub fn constant(rate: Bitrate) -> Self {
        Self { starts: Arc::new([Span::ZERO]), steps: Arc::new([rate]), period: None, mean: rate }
    }

    /// Each step holds from its start on. With a period they repeat; otherwise the last one stays.
    pub fn steps(steps: &[(Span, Bitrate)], period: Option<Span>) -> Result<Self, StepsError> {
        let (first, last) = (steps.first().ok_or(StepsError::Empty)?, steps[steps.len() - 1]);
        if first.0 != Span::ZERO {
            return Err(StepsError::Order(1));
        }
        if let Some(wrong) = steps.windows(2).position(|pair| pair[0].0 >= pair[1].0) {
            return Err(StepsError::Order(wrong + 2));
        }
        if period.is_some_and(|period| period <= last.0) {
            return Err(StepsError::Period);
        }
        if steps.iter().all(|step| step.1 == Bitrate::ZERO) {
            return Err(StepsError::Zero);
        }
        let end = period.unwrap_or(last.0);
        let ends = steps.iter().skip(1).map(|step| step.0).chain([end]);
        let bits = steps
            .iter()
            .zip(ends)
            .map(|(step, end)| u128::from(step.1.as_bps()) * (end - step.0).as_nanos().max(0) as u128);
        let mean = match end.as_nanos() {
            0 => last.1,
            nanos => Bitrate::from_bps(u64::try_from(bits.sum::<u128>() / nanos as u128).unwrap_or(u64::MAX)),
        };
        Ok(Self {
            starts: steps.iter().map(|step| step.0).collect(),
            steps: steps.iter().map(|step| step.1).collect(),
            period,
            mean,
        })
    }

    /// Returns the capacity with every rate multiplied by `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let steps = self.steps.iter().map(|rate| rate.mul_f64(factor)).collect();
        Self { steps, mean: self.mean.mul_f64(factor), ..self.clone() }
    }

    /// Returns the rates from `offset` on. The part before it is appended at the period's end. Non-periodic rates are unchanged.
    #[must_use]
    pub fn starting_at(&self, offset: Span) -> Self {
        let Some(period) = self.period else { return self.clone() };
        let offset = Span::from_nanos(offset.max(Span::ZERO).as_nanos() % period.as_nanos());
        let first = self.starts.partition_point(|start| *start <= offset) - 1;
        // The step that is cut in two begins and, unless it is cut at its start, ends the period.
        let begins = self.starts.iter().map(|start| (*start - offset).max(Span::ZERO)).skip(first);
        let wrapped = self.starts.iter().map(|start| *start - offset + period);
        let cut = usize::from(self.starts[first] < offset);
        Self {
            starts: begins.chain(wrapped.take(first + cut)).collect(),
            steps: self.steps[first..].iter().chain(&self.steps[..first + cut]).copied().collect(),
            ..self.clone()
        }
    }

    /// The mean over one period, or over all steps but the endless last one.
    #[must_use]
    pub fn mean(&self) -> Bitrate {
        self.mean
    }

    /// The time after which everything repeats.
    #[must_use]
    pub fn period(&self) -> Option<Span> {
        self.period
    }

    /// Starts and rates of the steps.
    pub fn iter(&self) -> impl Iterator<Item = (Span, Bitrate)> {
        self.starts.iter().copied().zip(self.steps.iter().copied())
    }

    #[must_use]
    pub fn at(&self, now: Time) -> Bitrate {
        self.segment(now).0
    }

    /// The rate at `now` and how long it lasts.
    fn segment(&self, now: Time) -> (Bitrate, Time) {
        let origin = match self.period {
            Some(period) => Time::from_nanos(now.as_nanos() / period.as_nanos() as u64 * period.as_nanos() as u64),
            None => Time::ZERO,
        };
        let into = now - origin;
        let next = self.starts.partition_point(|start| *start <= into);
        let until = match (self.starts.get(next), self.period) {
            (Some(start), _) => origin + *start,
            (None, Some(period)) => origin + period,
            (None, None) => Time::FAR_FUTURE,
        };
        (self.steps[next - 1], until)
    }

    /// The rate that converts a queue limit given as time into bytes: a repeating trace's mean, since buffers do not resize
    /// with the radio; otherwise the current rate, or the highest step while the link is down.
    fn nominal(&self, rate: Bitrate) -> Bitrate {
        match self.period {
            Some(_) => self.mean,
            None if rate > Bitrate::ZERO => rate,
            None => self.steps.iter().copied().max().unwrap_or(rate),
        }
    }
}

/// [`Rates`] read forwards.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    rates: Rates,
    rate: Bitrate,
    nominal: Bitrate,
    until: Time,
}

impl Meter {
    pub(crate) fn new(rates: Rates) -> Self {
        let (rate, until) = rates.segment(Time::ZERO);
        Self { nominal: rates.nominal(rate), rates, rate, until }
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.rates
    }

    /// The rate at `now` and its last moment, which is never before an earlier call's.
    #[inline]
    pub(crate) fn segment(&mut self, now: Time) -> (Bitrate, Time) {
        if now >= self.until {
            (self.rate, self.until) = self.rates.segment(now);
            self.nominal = self.rates.nominal(self.rate);
        }
        (self.rate, self.until)
    }

    /// See [`Rates::nominal`]; of the latest moment asked about.
    #[inline]
    pub(crate) fn nominal(&self) -> Bitrate {
        self.nominal
    }

    /// When `work` is done if it begins at `from`, and the excess work done within the last nanosecond.
    #[inline]
    pub(crate) fn finish(&mut self, from: Time, work: Work) -> (Time, Work) {
        let (mut from, mut left) = (from, work.max(0));
        loop {
            let (rate, until) = self.segment(from);
            let possible = work_in(rate, until - from);
            // An endless last step of zero, or one so slow that its end is not representable.
            if until == Time::FAR_FUTURE && possible < left {
                return (Time::FAR_FUTURE, 0);
            }
            if possible >= left {
                // `left` of zero takes no time, which avoids a division by a rate of zero.
                let nanos = (left as u64).div_ceil(rate.as_bps().max(1));
                return (from + Span::from_nanos(nanos as i64), work_in(rate, Span::from_nanos(nanos as i64)) - left);
            }
            left -= possible;
            from = until;
        }
    }

    /// The work that can be done from `from` to `to`, at most `most`.
    pub(crate) fn done(&mut self, from: Time, to: Time, most: Work) -> Work {
        let (mut from, mut done) = (from, 0);
        while from < to && done < most {
            let (rate, until) = self.segment(from);
            let end = until.min(to);
            done = (done + work_in(rate, end - from)).min(most);
            from = end;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbps(mbps: u64) -> Bitrate {
        Bitrate::from_mbps(mbps)
    }

    fn secs(secs: i64) -> Span {
        Span::from_secs(secs)
    }

    #[test]
    fn work_ends_when_the_integral_of_the_rate_says() {
        // 8 Mb/s are one byte per microsecond.
        let rates = Rates::steps(&[(secs(0), mbps(8)), (secs(1), Bitrate::ZERO), (secs(2), mbps(16))], None).unwrap();
        let megabytes = |n: u64| work_of(Bytes::new(n * 1_000_000));
        let cases = [
            (Time::ZERO, 1, Time::from_secs(1)),
            (Time::ZERO, 2, Time::from_millis(2_500)),
            (Time::from_millis(1_500), 1, Time::from_millis(2_500)),
            (Time::from_secs(9), 4, Time::from_secs(11)),
        ];
        for (from, size, end) in cases {
            assert_eq!(Meter::new(rates.clone()).finish(from, megabytes(size)), (end, 0), "{size} MB from {from:?}");
            assert_eq!(Meter::new(rates.clone()).done(from, end, MAX_WORK), megabytes(size));
        }
        let dead = Rates::steps(&[(secs(0), mbps(8)), (secs(1), Bitrate::ZERO)], None).unwrap();
        assert_eq!(Meter::new(dead).finish(Time::ZERO, megabytes(2)).0, Time::FAR_FUTURE);
    }

    #[test]
    fn a_period_repeats() {
        let rates = Rates::steps(&[(secs(0), mbps(8)), (secs(3), mbps(2))], Some(secs(4))).unwrap();
        assert_eq!(rates.mean(), Bitrate::from_kbps(6_500));
        for (at, rate) in [(0, 8), (2_999, 8), (3_000, 2), (3_999, 2), (4_000, 8), (40_003_500, 2)] {
            assert_eq!(rates.at(Time::from_millis(at)), mbps(rate), "at {at} ms");
        }
        let two_periods = work_of(Bytes::new(6_500_000));
        assert_eq!(Meter::new(rates).finish(Time::from_secs(1), two_periods), (Time::from_secs(9), 0));
    }

    #[test]
    fn rates_that_start_later_are_the_same_and_wrap_round() {
        let steps = [(secs(0), mbps(8)), (secs(3), mbps(2)), (secs(4), mbps(5))];
        let whole = Rates::steps(&steps, Some(secs(7))).unwrap();
        for offset in 0..150 {
            let offset = Span::from_millis(offset * 100);
            let rates = whole.starting_at(offset);
            for at in 0..200 {
                let at = Time::from_millis(at * 77);
                assert_eq!(rates.at(at), whole.at(at + offset), "{offset:?} and {at:?}");
            }
            assert_eq!((rates.mean(), rates.period()), (whole.mean(), whole.period()));
            assert!(rates.starts.windows(2).all(|pair| pair[0] < pair[1]) && rates.starts[0] == Span::ZERO);
        }
        let endless = Rates::steps(&steps, None).unwrap();
        assert_eq!(endless.starting_at(secs(5)), endless);
    }

    #[test]
    fn steps_that_are_no_link_are_refused() {
        let one = (secs(0), mbps(1));
        let cases = [
            (vec![], None, StepsError::Empty),
            (vec![(secs(1), mbps(1))], None, StepsError::Order(1)),
            (vec![one, one], None, StepsError::Order(2)),
            (vec![one, (secs(2), mbps(1))], Some(secs(2)), StepsError::Period),
            (vec![(secs(0), Bitrate::ZERO)], Some(secs(1)), StepsError::Zero),
        ];
        for (steps, period, error) in cases {
            assert_eq!(Rates::steps(&steps, period), Err(error));
        }
    }

    #[test]
    fn absurd_sizes_and_rates_do_not_overflow() {
        let mut meter = Meter::new(Rates::constant(Bitrate::MAX));
        assert!(meter.finish(Time::FAR_FUTURE, work_of(Bytes::new(u64::MAX))).0 == Time::FAR_FUTURE);
        assert_eq!(meter.done(Time::ZERO, Time::FAR_FUTURE, MAX_WORK), MAX_WORK);
        let mut slow = Meter::new(Rates::constant(Bitrate::from_bps(1)));
        assert!(slow.finish(Time::ZERO, work_of(Bytes::new(u64::MAX))).0 > Time::from_secs(1_000_000_000));
    }
}
