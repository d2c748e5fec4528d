//! Random loss: independent, or in bursts from a two-state Markov chain.

use std::collections::VecDeque;

use nearlight_units::Time;

use crate::hop::{DropReason, Exit, Hop, Packet};
use crate::random::{Probability, Random};

/// A model of random losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossModel {
    /// Each packet independently.
    Independent(Probability),
    Gilbert(GilbertElliott),
}

/// A chain that moves between a good and a bad state once per packet, and loses packets with each state's own chance.
///
/// Gilbert 1960, Elliott 1963; the letters are those of tc-netem(8).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability of moving from good to bad. `p`
    pub to_bad: Probability,
    /// Probability of moving from bad to good. `r`
    pub to_good: Probability,
    /// `1-h`
    pub loss_in_bad: Probability,
    /// `1-k`
    pub loss_in_good: Probability,
}

impl GilbertElliott {
    /// The simple Gilbert chain with this share of lost packets and this correlation between a packet's loss and the next one's.
    ///
    /// This is what people mean by netem's `loss 1% 25%`. Netem itself draws from a filtered uniform number instead, which loses
    /// a different share than requested.
    #[must_use]
    pub fn correlated(share: Probability, correlation: Probability) -> Self {
        let (share, fresh) = (share.fraction(), 1.0 - correlation.fraction());
        Self {
            to_bad: Probability::clamped(share * fresh),
            to_good: Probability::clamped((1.0 - share) * fresh),
            loss_in_bad: Probability::ALWAYS,
            loss_in_good: Probability::NEVER,
        }
    }

    /// The share of packets that meet the bad state in the long run. A chain that never moves stays good.
    #[must_use]
    pub fn share_of_bad(&self) -> f64 {
        let (to_bad, to_good) = (self.to_bad.fraction(), self.to_good.fraction());
        if to_bad == 0.0 { 0.0 } else { to_bad / (to_bad + to_good) }
    }

    /// The share of packets lost in the long run.
    #[must_use]
    pub fn share_lost(&self) -> f64 {
        let bad = self.share_of_bad();
        bad * self.loss_in_bad.fraction() + (1.0 - bad) * self.loss_in_good.fraction()
    }
}

/// Loses packets at random.
#[derive(Clone, Debug)]
pub struct Loss {
    model: LossModel,
    bad: bool,
    random: Random,
    ready: VecDeque<Exit>,
}

impl Loss {
    /// The chain starts in its long-run state, so that short runs lose as much as long ones on average.
    #[must_use]
    pub fn new(model: LossModel, mut random: Random) -> Self {
        let bad = match &model {
            LossModel::Independent(_) => false,
            LossModel::Gilbert(chain) => random.happens(Probability::clamped(chain.share_of_bad())),
        };
        Self { model, bad, random, ready: VecDeque::new() }
    }

    #[inline]
    fn loses_next(&mut self) -> bool {
        match &self.model {
            LossModel::Independent(chance) => self.random.happens(*chance),
            LossModel::Gilbert(chain) => {
                let chance = if self.bad { chain.loss_in_bad } else { chain.loss_in_good };
                let lost = self.random.happens(chance);
                let leave = if self.bad { chain.to_good } else { chain.to_bad };
                self.bad ^= self.random.happens(leave);
                lost
            }
        }
    }
}

impl Hop for Loss {
    #[inline]
    fn offer(&mut self, now: Time, packet: Packet) {
        let exit =
            if self.loses_next() { Exit::dropped(now, packet, DropReason::Loss) } else { Exit::delivered(now, packet) };
        self.ready.push_back(exit);
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Option<Exit> {
        self.ready.pop_front_if(|exit| exit.at <= now)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        self.ready.front().map(|exit| exit.at)
    }
}
