//! The radio channel between a station and the access point: signal, loss, choice of scheme.
//!
//! Not modelled: interference, differences between streams and between subcarriers, errors of control frames.

use nearlight_units::{Bytes, Span, Time};

use crate::config::{Adaptation, Channel, Direction, Fading};
use crate::minstrel::Minstrel;
use crate::phy::{Mcs, Mode};
use crate::random::{Chance, Random};

/// Signal-to-noise ratio in dB at which a transmission of 4,096 bytes is lost with probability 0.1, for MCS 0 to 11: the minimum sensitivities of
/// IEEE 802.11ax-2021, table 27-51, over the noise of 20 MHz with the noise figure of 10 dB and the implementation loss of 5 dB that the table
/// assumes.
const REQUIRED_SNR_DB: [f64; 12] = [4.0, 7.0, 9.0, 12.0, 16.0, 20.0, 21.0, 22.0, 27.0, 29.0, 32.0, 34.0];
const REQUIRED_SNR_PACKET: Bytes = Bytes::new(4_096);
/// Decibels that change the odds of a loss tenfold. Guess: between an ideal LDPC code (well below 1) and a frequency-selective room (2 to 3).
const LOSS_STEEPNESS: f64 = 1.0;
/// The loss that the ideal choice accepts, and the packet size it relates to.
const IDEAL_LOSS: f64 = 0.1;
const IDEAL_SIZE: Bytes = Bytes::new(1_500);

#[derive(Clone, Debug)]
pub(crate) struct Radio {
    mode: Mode,
    channel: Channel,
    adaptation: Adaptation,
    /// Signal-to-noise ratio in dB at time `at`.
    signal: f64,
    at: Time,
    minstrel: [Minstrel; 2],
}

/// The mode of a transmission, as chosen by rate adaptation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateChoice {
    pub mode: Mode,
    /// Maximum number of packets that rate adaptation risks.
    pub packets: usize,
}

impl Radio {
    pub(crate) fn new(mode: Mode, channel: Channel, adaptation: Adaptation) -> Self {
        let signal = match channel {
            Channel::Fixed { .. } => 0.0,
            Channel::Fading(fading) => fading.mean,
        };
        let minstrel = [Minstrel::new(mode), Minstrel::new(mode)];
        Self { mode, channel, adaptation, signal, at: Time::ZERO, minstrel }
    }

    /// Chooses the mode of a transmission that begins now.
    pub(crate) fn choose(&mut self, now: Time, direction: Direction, random: &mut Random) -> RateChoice {
        if let Channel::Fading(fading) = self.channel {
            self.wander(now, fading, random);
        }
        match self.adaptation {
            Adaptation::Fixed => RateChoice { mode: self.mode, packets: usize::MAX },
            Adaptation::Ideal => RateChoice { mode: self.mode.with_mcs(self.ideal()), packets: usize::MAX },
            Adaptation::Minstrel => {
                let (mcs, packets) = self.minstrel[direction as usize].choose(now);
                RateChoice { mode: self.mode.with_mcs(mcs), packets }
            }
        }
    }

    /// Returns the loss probability of a packet at the signal of the latest [`Self::choose`].
    pub(crate) fn loss(&self, mcs: Mcs, size: Bytes) -> Chance {
        Chance::new(self.loss_probability(mcs, size))
    }

    /// Returns the mode that the station uses on average, for estimates.
    pub(crate) fn usual(&self, direction: Direction) -> Mode {
        match self.adaptation {
            Adaptation::Fixed => self.mode,
            Adaptation::Ideal => self.mode.with_mcs(self.ideal()),
            Adaptation::Minstrel => self.mode.with_mcs(self.minstrel[direction as usize].best()),
        }
    }

    /// Returns the loss probability of a 1,500-byte packet in the station's usual mode, for estimates.
    pub(crate) fn usual_loss(&self, direction: Direction) -> f64 {
        self.loss_probability(self.usual(direction).mcs(), IDEAL_SIZE)
    }

    /// Reports the outcome of the packets of a transmission.
    pub(crate) fn on_outcome(&mut self, now: Time, direction: Direction, mcs: Mcs, sent: usize, delivered: usize) {
        if self.adaptation == Adaptation::Minstrel {
            self.minstrel[direction as usize].on_outcome(now, mcs, sent, delivered);
        }
    }

    fn wander(&mut self, now: Time, fading: Fading, random: &mut Random) {
        let passed = now.saturating_since(self.at);
        if passed == Span::ZERO {
            return;
        }
        self.at = now;
        let memory = (-passed.as_secs_f64() / fading.coherence.as_secs_f64()).exp();
        let fresh = fading.deviation * (1.0 - memory * memory).sqrt();
        self.signal = fading.mean + (self.signal - fading.mean) * memory + fresh * random.normal();
    }

    fn ideal(&self) -> Mcs {
        let good = |mcs: &Mcs| self.loss_probability(*mcs, IDEAL_SIZE) <= IDEAL_LOSS;
        self.mode.mcs().up_to().rev().find(good).unwrap_or(Mcs::LOWEST)
    }

    fn loss_probability(&self, mcs: Mcs, size: Bytes) -> f64 {
        match self.channel {
            Channel::Fixed { loss } => loss,
            Channel::Fading(_) => loss_at(self.signal, mcs, size),
        }
    }
}

/// Returns the loss probability of a packet. It is 0.1 at [`REQUIRED_SNR_DB`] for the packet size of the standard's sensitivity; other sizes follow
/// from equal bit errors.
fn loss_at(signal: f64, mcs: Mcs, size: Bytes) -> f64 {
    let above = signal - REQUIRED_SNR_DB[usize::from(mcs.index())];
    let odds = 10_f64.powf(-above / LOSS_STEEPNESS) / 9.0;
    let survival = 1.0 / (1.0 + odds);
    1.0 - survival.powf(size.get() as f64 / REQUIRED_SNR_PACKET.get() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::{Guard, Width};

    fn radio(fading: Fading, adaptation: Adaptation) -> Radio {
        let mode = Mode::new(Width::Mhz80.whole(), Mcs::HIGHEST, 2, Guard::Nanos800).expect("a mode");
        Radio::new(mode, Channel::Fading(fading), adaptation)
    }

    #[test]
    fn loss_meets_the_sensitivity_point_and_falls_with_signal_and_size() {
        for mcs in Mcs::HIGHEST.up_to() {
            let required = REQUIRED_SNR_DB[usize::from(mcs.index())];
            assert!((loss_at(required, mcs, REQUIRED_SNR_PACKET) - 0.1).abs() < 1e-9);
            assert!(loss_at(required, mcs, Bytes::new(1_200)) < 0.05);
            assert!(loss_at(required + 2.0, mcs, REQUIRED_SNR_PACKET) < 0.002);
            assert!(loss_at(required - 3.0, mcs, REQUIRED_SNR_PACKET) > 0.98);
        }
    }

    #[test]
    fn the_signal_has_the_asked_mean_deviation_and_memory() {
        let fading = Fading { mean: 30.0, deviation: 4.0, coherence: Span::from_millis(100) };
        let mut radio = radio(fading, Adaptation::Fixed);
        let mut random = Random::new(5);
        let step = Span::from_millis(50);
        let mut now = Time::ZERO;
        let mut signals = Vec::new();
        for _ in 0..200_000 {
            now += step;
            radio.choose(now, Direction::Downlink, &mut random);
            signals.push(radio.signal - 30.0);
        }
        let mean_of = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / 200_000.0;
        let mean = mean_of(&mut signals.iter().copied());
        let variance = mean_of(&mut signals.iter().map(|value| value * value));
        let lagged = mean_of(&mut signals.windows(2).map(|pair| pair[0] * pair[1]));
        assert!(mean.abs() < 0.1, "{mean}");
        assert!((variance / 16.0 - 1.0).abs() < 0.03, "{variance}");
        assert!((lagged / variance - (-0.5_f64).exp()).abs() < 0.02, "{lagged}");
    }

    #[test]
    fn the_ideal_choice_is_the_highest_that_loses_a_tenth_at_most() {
        let mut random = Random::new(1);
        for (signal, expected) in [(60.0, 11), (33.0, 10), (23.0, 7), (12.0, 3), (-10.0, 0)] {
            let fading = Fading { mean: signal, deviation: 0.0, coherence: Span::from_secs(1) };
            let mut radio = radio(fading, Adaptation::Ideal);
            let choice = radio.choose(Time::ZERO, Direction::Uplink, &mut random);
            assert_eq!(choice.mode.mcs().index(), expected, "{signal} dB");
        }
    }
}
