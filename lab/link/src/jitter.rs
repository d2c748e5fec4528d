//! Delay that varies from packet to packet without reordering them.

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Span, Time};

use crate::hop::{Exit, Hop, Packet};
use crate::random::Random;
use crate::wander::{Autoregression, kept, logarithm_deviation};

/// RFC 8868 cuts the normal distribution off at this many deviations on either side.
const MAX_DEVIATIONS: f64 = 3.0;
/// The cap of log-normal delays: no network delays a packet for longer, so the distribution's far tail is cut off.
const MAX_DELAY: Span = Span::from_secs(10);

/// The distribution that each packet's extra delay is drawn from.
#[derive(Clone, Debug, PartialEq)]
pub enum JitterModel {
    /// RFC 8868's: normal, cut at three deviations and shifted so that the least delay is 0. `longest` is six deviations; the
    /// RFC's 5 ms of deviation are 30 ms here.
    Normal { longest: Span },
    /// Measured: delays by cumulative share (0 to 1), both ascending, interpolated linearly.
    Measured(Vec<(f64, Span)>),
    /// Log-normal with this mean and deviation, wandering: the correlation of its logarithm falls to 1/e within `memory`. For paths
    /// with a published mean and deviation. Keeping packets in order raises the mean slightly.
    LogNormal { mean: Span, deviation: Span, memory: Span },
}

/// RFC 8868's NR-BPDV: packet delay variation, random except that packets stay in order.
///
/// A packet that would overtake leaves together with the one before it, or, where a line rate is set, right behind it.
#[derive(Clone, Debug)]
pub struct Jitter {
    model: JitterModel,
    line: Option<Bitrate>,
    random: Random,
    /// When the transmission of the previous packet ends.
    busy_until: Time,
    travelling: VecDeque<Exit>,
    /// The logarithm of a wandering delay, and the time of that value.
    wandering: Option<(Time, Autoregression)>,
}

impl Jitter {
    #[must_use]
    pub fn new(model: JitterModel, random: Random) -> Self {
        Self { model, line: None, random, busy_until: Time::ZERO, travelling: VecDeque::new(), wandering: None }
    }

    /// Packets that caught up leave at this rate instead of all at once.
    #[must_use]
    pub fn with_line(self, line: Bitrate) -> Self {
        Self { line: (line > Bitrate::ZERO).then_some(line), ..self }
    }

    fn draw(&mut self, now: Time) -> Span {
        match &self.model {
            JitterModel::Normal { longest } => {
                let deviations = loop {
                    let draw = self.random.normal();
                    if draw.abs() <= MAX_DEVIATIONS {
                        break draw;
                    }
                };
                longest.mul_f64((deviations + MAX_DEVIATIONS) / (2.0 * MAX_DEVIATIONS))
            }
            JitterModel::Measured(points) => quantile(points, self.random.unit()),
            JitterModel::LogNormal { mean, deviation, memory } => {
                let spread = logarithm_deviation(deviation.as_secs_f64() / mean.as_secs_f64().max(1e-9));
                let (at, mut logarithm) =
                    self.wandering.take().unwrap_or_else(|| (now, Autoregression::new(spread, &mut self.random)));
                let value = logarithm.next(kept(now - at, *memory), &mut self.random);
                self.wandering = Some((now, logarithm));
                mean.mul_f64(libm::exp(value - spread * spread / 2.0)).min(MAX_DELAY)
            }
        }
    }
}

/// The delay at a cumulative share, interpolated linearly between the points and constant outside them.
fn quantile(points: &[(f64, Span)], share: f64) -> Span {
    let above = points.partition_point(|point| point.0 <= share);
    match (above.checked_sub(1).map(|below| points[below]), points.get(above)) {
        (Some((low_share, low)), Some(&(high_share, high))) => {
            low + (high - low).mul_f64((share - low_share) / (high_share - low_share))
        }
        (Some((_, only)), None) | (None, Some(&(_, only))) => only,
        (None, None) => Span::ZERO,
    }
}

impl Hop for Jitter {
    fn offer(&mut self, now: Time, packet: Packet) {
        let at = (now + self.draw(now).max(Span::ZERO)).max(self.busy_until);
        let sending = self.line.map_or(Span::ZERO, |line| line.time_to_send(packet.size));
        self.busy_until = at + sending;
        self.travelling.push_back(Exit::delivered(at, packet));
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Option<Exit> {
        self.travelling.pop_front_if(|exit| exit.at <= now)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        self.travelling.front().map(|exit| exit.at)
    }

    fn min_delay(&self) -> Span {
        match &self.model {
            JitterModel::Normal { .. } | JitterModel::LogNormal { .. } => Span::ZERO,
            JitterModel::Measured(points) => points.first().map_or(Span::ZERO, |point| point.1.max(Span::ZERO)),
        }
    }
}
