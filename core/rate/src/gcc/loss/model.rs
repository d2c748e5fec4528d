//! The likelihood of observed losses, given a capacity and an inherent loss. Rates are in kb/s and sizes in kB, the units of
//! the constants.

/// Inherent loss before the first observation (libwebrtc `InitialInherentLossEstimate`).
pub(super) const INHERENT_START: f64 = 0.01;
/// Bounds of inherent loss: the lowest, and the highest for large capacities (`InherentLossLowerBound`,
/// `InherentLossUpperBoundOffset`).
const MIN_INHERENT: f64 = 1e-3;
const MAX_INHERENT: f64 = 0.05;
/// In kb/s. Divided by the capacity it adds to the highest inherent loss; divided by the excess loss it is the instant bound
/// (`InherentLossUpperBoundBandwidthBalance`, `InstantUpperBoundBandwidthBalance`).
pub(super) const BALANCE: f64 = 100.0;
/// Weight of an observation relative to the one after it (`TemporalWeightFactor`).
const AGING: f64 = 0.9;
/// Share of a Newton step that is taken (`NewtonStepSize`).
const NEWTON_STEP: f64 = 0.75;
/// Preference for higher capacities (`HigherBandwidthBiasFactor`, `HigherLogBandwidthBiasFactor`).
const PREFERENCE: f64 = 0.000_2;
const LOG_PREFERENCE: f64 = 0.02;
/// Loss at which the preference changes its sign, and the width of that transition (`ThresholdOfHighBandwidthPreference`,
/// `BandwidthPreferenceSmoothingFactor`).
const PREFERENCE_THRESHOLD: f64 = 0.2;
const PREFERENCE_SMOOTHING: f64 = 0.002;

/// Sizes in kB sent in a block and lost of it, and the block's rate in kb/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Observation {
    pub(super) sent: f64,
    pub(super) lost: f64,
    pub(super) rate: f64,
}

/// One explanation of the losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Channel {
    /// Capacity in kb/s: libwebrtc `loss_limited_bandwidth`.
    pub(super) capacity: f64,
    pub(super) inherent_loss: f64,
}

impl Channel {
    /// The share of packets that is lost when sending at `rate`.
    pub(super) fn loss_at(&self, rate: f64) -> f64 {
        let overflow = if rate > self.capacity { (rate - self.capacity) / rate } else { 0.0 };
        (self.inherent_loss + (1.0 - self.inherent_loss) * overflow).clamp(1e-6, 1.0 - 1e-6)
    }
}

/// Rates channels by observations, the newest last.
pub(super) struct Model<'a> {
    observations: &'a [Observation],
    /// Ratio of the path's rate to that of a call: see [`super::Scale`].
    factor: f64,
    average_loss: f64,
}

impl<'a> Model<'a> {
    pub(super) fn new(observations: &'a [Observation], factor: f64) -> Self {
        let (mut sent, mut lost) = (0.0, 0.0);
        for (weight, observation) in weighted(observations) {
            sent += weight * observation.sent;
            lost += weight * observation.lost;
        }
        Self { observations, factor, average_loss: if sent > 0.0 { lost / sent } else { 0.0 } }
    }

    pub(super) fn average_loss(&self) -> f64 {
        self.average_loss
    }

    /// Returns the best explanation with one of these capacities.
    pub(super) fn best_of(&self, current: Channel, capacities: &[f64]) -> Channel {
        let mut best: Option<(f64, Channel)> = None;
        for &capacity in capacities {
            let feasible = self.feasible(Channel { capacity, ..current });
            let refined = self.refined(feasible);
            let objective = self.objective(&refined);
            if best.is_none_or(|(highest, _)| objective > highest) {
                best = Some((objective, refined));
            }
        }
        best.map_or(current, |(_, channel)| channel)
    }

    fn feasible(&self, channel: Channel) -> Channel {
        let most = (MAX_INHERENT + BALANCE * self.factor / channel.capacity.max(1.0)).min(1.0);
        Channel { inherent_loss: channel.inherent_loss.clamp(MIN_INHERENT, most), ..channel }
    }

    /// Refines the inherent loss by one Newton step.
    fn refined(&self, channel: Channel) -> Channel {
        let (mut first, mut second) = (0.0, 0.0);
        for (weight, observation) in weighted(self.observations) {
            let loss = channel.loss_at(observation.rate);
            let received = observation.sent - observation.lost;
            first += weight * (observation.lost / loss - received / (1.0 - loss));
            second -= weight * (observation.lost / (loss * loss) + received / ((1.0 - loss) * (1.0 - loss)));
        }
        let step = NEWTON_STEP * first / second.min(-1e-6);
        self.feasible(Channel { inherent_loss: channel.inherent_loss - step, ..channel })
    }

    fn objective(&self, channel: &Channel) -> f64 {
        let preference = self.preference(channel.capacity);
        let parts = weighted(self.observations).map(|(weight, observation)| {
            let loss = channel.loss_at(observation.rate);
            let received = observation.sent - observation.lost;
            weight * (observation.lost * loss.ln() + received * (1.0 - loss).ln() + preference * observation.sent)
        });
        parts.sum()
    }

    /// The preference for a capacity, in units of likelihood per kB.
    fn preference(&self, capacity: f64) -> f64 {
        let room = PREFERENCE_THRESHOLD - self.average_loss;
        let sign = room / (PREFERENCE_SMOOTHING + room.abs());
        let capacity = capacity / self.factor;
        sign * (PREFERENCE * capacity + LOG_PREFERENCE * (1.0 + capacity).ln())
    }
}

fn weighted(observations: &[Observation]) -> impl Iterator<Item = (f64, &Observation)> {
    let mut weight = 1.0;
    observations.iter().rev().map(move |observation| {
        let own = weight;
        weight *= AGING;
        (own, observation)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observations(rate: f64, loss: f64) -> Vec<Observation> {
        let sent = rate / 8.0 * 0.25;
        vec![Observation { sent, lost: sent * loss, rate }; 15]
    }

    #[test]
    fn loss_is_inherent_plus_overflow_of_the_rest() {
        let channel = Channel { capacity: 8_000.0, inherent_loss: 0.02 };
        assert!((channel.loss_at(4_000.0) - 0.02).abs() < 1e-12);
        assert!((channel.loss_at(10_000.0) - (0.02 + 0.98 * 0.2)).abs() < 1e-12);
    }

    #[test]
    fn newer_observations_weigh_more() {
        let mut seen = observations(2_000.0, 0.0);
        seen[14].lost = seen[14].sent;
        let newest = Model::new(&seen, 1.0).average_loss();
        let weights: f64 = (0..15).map(|age| 0.9_f64.powi(age)).sum();
        assert!((newest - 1.0 / weights).abs() < 1e-12);
    }

    #[test]
    fn loss_below_the_capacity_is_learnt_as_inherent() {
        let seen = observations(2_000.0, 0.03);
        let model = Model::new(&seen, 1.0);
        let mut channel = Channel { capacity: 4_000.0, inherent_loss: INHERENT_START };
        for _ in 0..20 {
            channel = model.refined(channel);
        }
        assert!((channel.inherent_loss - 0.03).abs() < 1e-3, "{}", channel.inherent_loss);
    }

    #[test]
    fn a_call_and_a_path_ten_times_as_large_are_judged_alike() {
        for (loss, factor) in [(0.02, 1.0), (0.1, 1.0), (0.25, 1.0)] {
            let judge = |scale: f64| {
                let seen = observations(2_000.0 * scale, loss);
                let current = Channel { capacity: 2_000.0 * scale, inherent_loss: INHERENT_START };
                let capacities = [1.02, 1.0, 0.95, 1.0 - loss].map(|share| share * current.capacity);
                Model::new(&seen, factor * scale).best_of(current, &capacities)
            };
            let (call, path) = (judge(1.0), judge(10.0));
            assert!((call.capacity * 10.0 / path.capacity - 1.0).abs() < 1e-9, "{loss}: {call:?} {path:?}");
            assert!((call.inherent_loss - path.inherent_loss).abs() < 1e-9, "{loss}");
        }
    }
}
