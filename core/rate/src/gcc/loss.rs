//! The loss-based rate: the capacity and the inherent loss that best explain the losses.
//!
//! Loss has two causes in this model: inherent loss, which does not depend on our rate, and overflow, because we send more than the path
//! carries. Each block of 250 ms is an observation of how much was sent and lost. Candidates for the capacity are ranked by the
//! likelihood of all observations. This estimator only ever lowers the delay-based rate.

mod model;

use nearlight_units::{Bitrate, Bytes, PacketSeq, Span, Time};

use model::{Channel, Model, Observation};

/// The shortest observation (libwebrtc `ObservationDurationLowerBound`).
const MIN_OBSERVATION_TIME: Span = Span::from_millis(250);
/// Observations remembered, and the number required for an estimate (`ObservationWindowSize`, `MinNumObservations`).
const OBSERVATION_WINDOW: usize = 15;
const MIN_OBSERVATIONS: usize = 3;
/// Candidates relative to the current best (`CandidateFactors`).
const CANDIDATE_FACTORS: [f64; 3] = [1.02, 1.0, 0.95];
/// Loss above which an instant bound applies (`InstantUpperBoundLossOffset`).
const TOLERATED_LOSS: f64 = 0.05;
/// While loss limits the rate, growth in a window of this length is at most this factor (`DelayedIncreaseWindow`,
/// `MaxIncreaseFactor`).
const GROWTH_WINDOW: Span = Span::from_millis(300);
const MAX_GROWTH_IN_WINDOW: f64 = 1.3;
/// While loss limits the rate, growth ends at a multiple of the arriving rate, with a smaller one during a hold
/// (`BandwidthRampupUpperBoundFactor`, `...InHold`).
const MAX_ARRIVING_RATIO: f64 = 1.5;
const MAX_ARRIVING_RATIO_IN_HOLD: f64 = 1.2;
/// The rate is held after a decrease; each further decrease doubles the time (`HoldDurationFactor`).
const FIRST_HOLD: Span = Span::from_millis(300);
const MAX_HOLD: Span = Span::from_secs(60);
/// Minimum growth in kb/s of a rate whose growth is bounded, so that the state tells growth from standstill.
const MIN_GROWTH: f64 = 1.0;
/// Missing packets of the current block that may still arrive late. Guess: a block at 100 Mb/s holds 2,600 packets.
const MAX_MISSING: usize = 4_096;

/// The rate for which the constants in kb/s are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Video calls of about 2 Mb/s, as in libwebrtc. At 50 Mb/s, a loss of 6 % caps the rate at 10 Mb/s and one of 10 % at 2 Mb/s,
    /// and the preference for high rates outweighs any loss below 20 %.
    Call,
    /// The delay-based estimate, in proportion. At 50 Mb/s, a loss of 7 % does not limit and one of 10 % caps the rate at 20 Mb/s.
    Path,
}

/// The delay-based estimate in kb/s at which libwebrtc's constants hold. It determines how much loss may count as inherent: 5 % plus 2 %.
/// Measured with `tests/paths/link.rs`: with 2,000, the top of a call's range, it is 10 %, and the rate then stays a tenth above
/// a path of 20 Mb/s with a queue of 15 ms, and 8 % of all packets are lost.
const CALL_ESTIMATE: f64 = 5_000.0;

impl Scale {
    /// Ratio of the path's rate to that of a call.
    fn factor(self, delay_based: f64) -> f64 {
        match self {
            Self::Call => 1.0,
            Self::Path => (delay_based / CALL_ESTIMATE).max(1.0),
        }
    }
}

/// Information in feedback other than its packets.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    pub delay_based: Bitrate,
    pub arriving: Option<Bitrate>,
    /// The application sends less than it may, so the arriving rate is not a candidate for the capacity.
    pub app_limited: bool,
    /// The lowest rate that the session works with. A capacity below it could never be unlearnt, because more is sent
    /// (`min_bitrate_`, in the instant lower bound).
    pub minimum: Bitrate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Loss does not limit the rate.
    Calm,
    Decreasing,
    Increasing,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    until: Time,
    length: Span,
    /// The rate in kb/s.
    rate: f64,
}

/// Estimates the rate that loss allows: libwebrtc `LossBasedBweV2`.
#[derive(Clone, Debug)]
pub struct LossBased {
    scale: Scale,
    observations: Vec<Observation>,
    pending: Pending,
    best: Option<Channel>,
    /// The estimate in kb/s.
    result: f64,
    state: State,
    hold: Option<Hold>,
    /// While loss limits the rate: the end of the growth window and the highest rate in kb/s that it allows.
    growth: Option<(Time, f64)>,
}

/// The block that is being filled.
#[derive(Clone, Debug, Default)]
struct Pending {
    size: Bytes,
    lost: Bytes,
    /// Missing packets, ordered by their numbers.
    missing: Vec<(PacketSeq, Bytes)>,
    begun_at: Option<Time>,
    last_sent: Option<Time>,
}

impl LossBased {
    #[must_use]
    pub fn new(scale: Scale) -> Self {
        Self {
            scale,
            observations: Vec::with_capacity(OBSERVATION_WINDOW),
            pending: Pending::default(),
            best: None,
            result: f64::INFINITY,
            state: State::Calm,
            hold: None,
            growth: None,
        }
    }

    pub fn on_arrived(&mut self, seq: PacketSeq, sent_at: Time, size: Bytes) {
        if let Ok(place) = self.pending.missing.binary_search_by_key(&seq, |(missing, _)| *missing) {
            let (_, late) = self.pending.missing.remove(place);
            self.pending.lost = self.pending.lost.saturating_sub(late);
            return;
        }
        self.pending.count(sent_at, size);
    }

    pub fn on_missing(&mut self, seq: PacketSeq, sent_at: Time, size: Bytes) {
        self.pending.count(sent_at, size);
        self.pending.lost += size;
        let place = self.pending.missing.binary_search_by_key(&seq, |(missing, _)| *missing);
        if let Err(place) = place
            && self.pending.missing.len() < MAX_MISSING
        {
            self.pending.missing.insert(place, (seq, size));
        }
    }

    /// Updates the estimate once enough has been sent since the last time.
    pub fn update(&mut self, update: &Update) {
        let Some((sent_at, observation)) = self.pending.take() else { return };
        if self.observations.len() == OBSERVATION_WINDOW {
            self.observations.remove(0);
        }
        self.observations.push(observation);
        let delay_based = kbps(update.delay_based);
        let factor = self.scale.factor(delay_based);
        let model = Model::new(&self.observations, factor);
        let current = self.best.unwrap_or(Channel { capacity: delay_based, inherent_loss: model::INHERENT_START });
        if self.observations.len() < MIN_OBSERVATIONS {
            self.best = Some(Channel { capacity: delay_based, ..current });
            return;
        }
        let mut best = model.best_of(current, &self.candidates(current, update));
        if best.capacity > current.capacity && model.average_loss() > best.inherent_loss {
            best.capacity = current.capacity;
        }
        if self.state != State::Calm {
            best.capacity = self.bounded_growth(sent_at, current.capacity, best.capacity, update);
        }
        let excess = model.average_loss() - TOLERATED_LOSS;
        if excess > 0.0 {
            best.capacity = best.capacity.min(model::BALANCE * factor / excess);
        }
        best.capacity = best.capacity.max(kbps(update.minimum));
        self.best = Some(best);
        self.conclude(sent_at, best.capacity, delay_based);
    }

    /// The limit. None while loss does not limit the rate.
    #[must_use]
    pub fn limit(&self) -> Option<Bitrate> {
        (self.state != State::Calm).then(|| Bitrate::from_kbps(1).mul_f64(self.result))
    }

    /// The share of packets that the path loses at any rate, according to the model, from 0 to 1.
    #[must_use]
    pub fn inherent_loss(&self) -> f64 {
        self.best.map_or(model::INHERENT_START, |best| best.inherent_loss)
    }

    /// Number of records in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.observations.len() + self.pending.missing.len()
    }

    /// Capacities that may explain the losses. The current one fills unused places.
    fn candidates(&self, current: Channel, update: &Update) -> [f64; CANDIDATE_FACTORS.len() + 2] {
        let [up, same, down] = CANDIDATE_FACTORS.map(|factor| current.capacity * factor);
        let arriving = update.arriving.filter(|_| !update.app_limited).map_or(same, kbps);
        let mut capacities = [up, same, down, arriving, kbps(update.delay_based).max(same)];
        let most = self.growth.map_or(f64::INFINITY, |(_, most)| most);
        if self.state != State::Calm {
            for capacity in &mut capacities {
                *capacity = capacity.min(most);
            }
        }
        capacities
    }

    fn bounded_growth(&self, now: Time, current: f64, best: f64, update: &Update) -> f64 {
        if best <= current {
            return best;
        }
        let mut bounded = best;
        if let Some((ends_at, most)) = self.growth
            && now < ends_at
        {
            bounded = bounded.min(most);
        }
        if let Some(arriving) = update.arriving {
            let held = self.hold.is_some_and(|hold| now < hold.until);
            let factor = if held { MAX_ARRIVING_RATIO_IN_HOLD } else { MAX_ARRIVING_RATIO };
            bounded = bounded.min(kbps(arriving) * factor);
        }
        bounded.max(current + MIN_GROWTH)
    }

    fn conclude(&mut self, now: Time, capacity: f64, delay_based: f64) {
        let bounded = capacity.min(delay_based);
        if let Some(hold) = self.hold
            && self.state == State::Decreasing
            && now < hold.until
            && bounded < delay_based
        {
            self.result = bounded.min(hold.rate);
            return;
        }
        if bounded >= delay_based {
            self.state = State::Calm;
            self.hold = None;
            self.growth = None;
        } else if self.state != State::Calm && bounded > self.result {
            self.state = State::Increasing;
        } else if bounded < self.result || self.state == State::Calm {
            let length = self.hold.map_or(FIRST_HOLD, |hold| (hold.length * 2).min(MAX_HOLD));
            self.hold = Some(Hold { until: now + length, length, rate: bounded });
            self.state = State::Decreasing;
        }
        self.result = bounded;
        if self.state != State::Calm && self.growth.is_none_or(|(ends_at, _)| now >= ends_at) {
            self.growth = Some((now + GROWTH_WINDOW, capacity * MAX_GROWTH_IN_WINDOW));
        }
    }
}

impl Pending {
    fn count(&mut self, sent_at: Time, size: Bytes) {
        self.begun_at.get_or_insert(sent_at);
        self.last_sent = self.last_sent.max(Some(sent_at));
        self.size += size;
    }

    /// Returns the finished block with the time of its last packet.
    fn take(&mut self) -> Option<(Time, Observation)> {
        let (begun_at, last_sent) = (self.begun_at?, self.last_sent?);
        let span = last_sent - begun_at;
        if span < MIN_OBSERVATION_TIME || self.size == Bytes::ZERO {
            return None;
        }
        let observation = Observation {
            sent: self.size.get() as f64 / 1e3,
            lost: self.lost.get() as f64 / 1e3,
            rate: kbps(self.size.over(span)),
        };
        let mut missing = std::mem::take(&mut self.missing);
        missing.clear();
        *self = Self { begun_at: Some(last_sent), missing, ..Self::default() };
        Some((last_sent, observation))
    }
}

fn kbps(rate: Bitrate) -> f64 {
    rate.as_bps() as f64 / 1e3
}

#[cfg(test)]
mod tests;
