//! The rate controller's decision: its limits, its recipients, and its log.

use crate::pace::Headroom;
use nearlight_events::{Candidate, Event};
use nearlight_rate::{Decision, Limit};
use nearlight_units::Time;

use super::Sender;
use super::tcp::TCP_LOG_INTERVAL;

impl Sender {
    pub(super) fn take_decision(&mut self, now: Time) {
        let decision = self.controller.decision();
        let limit = self.tcp.as_ref().and_then(|tcp| tcp.limit());
        let decision = match limit {
            Some(limit) => decision.limited_to(Limit::Transport, limit),
            None => decision,
        };
        if decision != self.decision {
            self.decision = decision;
            self.set_pace(now);
        }
        let Decision { target, binding, .. } = self.decision;
        let (logged_at, logged) = self.logged;
        // TCP's limit differs at each reading.
        let is_due = binding != Limit::Transport || now - logged_at >= TCP_LOG_INTERVAL;
        if binding != logged.1 || (target != logged.0 && is_due) {
            self.log_decision(now);
        }
    }

    pub(super) fn set_pace(&mut self, now: Time) {
        let factor = self.headroom.as_ref().map_or(1.0, Headroom::factor);
        self.pacer.set_rate(now, self.decision.pacing.mul_f64(factor));
    }

    pub(super) fn log_decision(&mut self, now: Time) {
        let Decision { target, pacing, binding, ref limits, .. } = self.decision;
        self.logged = (now, (target, binding));
        if !self.config.events {
            return;
        }
        let candidates =
            limits.iter().map(|(limit, rate)| Candidate { limit: limit.name().into(), rate: *rate }).collect();
        self.emit(now, || Event::RateDecision { target, pacing, binding: binding.name().into(), candidates });
    }
}
