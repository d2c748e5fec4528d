//! A list of hops as one hop.

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Span, Time};

use crate::bottleneck::Bottleneck;
use crate::counters::{FlowCounters, Flows};
use crate::delay::Delay;
use crate::disorder::{Duplicate, Reorder};
use crate::hop::{Backlog, Exit, Hop, Packet};
use crate::jitter::Jitter;
use crate::loss::Loss;
use crate::outage::Outage;
use crate::policer::Policer;

/// A hop of a path. The built-in ones are called directly; others, such as a Wi-Fi cell, go through [`Stage::Other`].
pub enum Stage {
    Bottleneck(Box<Bottleneck>),
    Policer(Policer),
    Delay(Delay),
    Jitter(Jitter),
    Loss(Loss),
    Reorder(Reorder),
    Duplicate(Duplicate),
    Outage(Outage),
    Other(Box<dyn Hop>),
}

macro_rules! each_stage {
    ($stage:expr, $hop:ident => $call:expr) => {
        match $stage {
            Stage::Bottleneck($hop) => $call,
            Stage::Policer($hop) => $call,
            Stage::Delay($hop) => $call,
            Stage::Jitter($hop) => $call,
            Stage::Loss($hop) => $call,
            Stage::Reorder($hop) => $call,
            Stage::Duplicate($hop) => $call,
            Stage::Outage($hop) => $call,
            Stage::Other($hop) => $call,
        }
    };
}

impl Hop for Stage {
    #[inline]
    fn offer(&mut self, now: Time, packet: Packet) {
        each_stage!(self, hop => hop.offer(now, packet));
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Option<Exit> {
        each_stage!(self, hop => hop.poll(now))
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        each_stage!(self, hop => hop.poll_timeout())
    }

    fn backlog(&self) -> Backlog {
        each_stage!(self, hop => hop.backlog())
    }

    fn capacity(&self, now: Time) -> Option<Bitrate> {
        each_stage!(self, hop => hop.capacity(now))
    }

    fn min_delay(&self) -> Span {
        each_stage!(self, hop => hop.min_delay())
    }

    fn max_poll_interval(&self) -> Option<Span> {
        each_stage!(self, hop => hop.max_poll_interval())
    }
}

macro_rules! stage_from {
    ($($hop:ident),*) => {$(
        impl From<$hop> for Stage {
            fn from(hop: $hop) -> Self {
                Self::$hop(hop)
            }
        }
    )*};
}

stage_from!(Policer, Delay, Jitter, Loss, Reorder, Duplicate, Outage);

impl From<Bottleneck> for Stage {
    fn from(hop: Bottleneck) -> Self {
        Self::Bottleneck(Box::new(hop))
    }
}

impl From<Box<dyn Hop>> for Stage {
    fn from(hop: Box<dyn Hop>) -> Self {
        Self::Other(hop)
    }
}

/// One direction of a connection: hops in the order in which packets traverse them. Without hops, packets arrive at once.
///
/// A drop may be reported late, at the driver's next poll, but carries its true time; deliveries are due at
/// [`Hop::poll_timeout`].
pub struct Path {
    stages: Vec<PlacedStage>,
    /// Packets dropped before the last stage; without stages, all packets.
    out: VecDeque<Exit>,
    /// No stage but the last has an exit before this time, unless `offered` indicates newly offered packets.
    advanced_to: Time,
    offered: bool,
    latest: Time,
    flows: Flows,
}

struct PlacedStage {
    stage: Stage,
    /// The minimum time that a packet needs after this stage.
    rest: Span,
}

impl Path {
    #[must_use]
    pub fn new(stages: impl IntoIterator<Item = Stage>) -> Self {
        let mut stages: Vec<PlacedStage> =
            stages.into_iter().map(|stage| PlacedStage { stage, rest: Span::ZERO }).collect();
        let mut rest = Span::ZERO;
        for placed in stages.iter_mut().rev() {
            placed.rest = rest;
            rest += placed.stage.min_delay();
        }
        Self {
            stages,
            out: VecDeque::new(),
            advanced_to: Time::ZERO,
            offered: false,
            latest: Time::ZERO,
            flows: Flows::default(),
        }
    }

    /// Returns the counters of each flow, in the order in which the flows appeared.
    #[must_use]
    pub fn flows(&self) -> &[FlowCounters] {
        self.flows.all()
    }

    /// The backlog of each hop, in path order, as of the latest call.
    pub fn backlogs(&self) -> impl Iterator<Item = Backlog> {
        self.stages.iter().map(|placed| placed.stage.backlog())
    }

    /// Advances every packet as far as it gets by `now`, up to the last stage; collects drops on the way.
    fn advance(&mut self, now: Time) {
        if now <= self.advanced_to && !self.offered {
            return;
        }
        (self.advanced_to, self.offered) = (now, false);
        let before = self.out.len();
        for index in 1..self.stages.len() {
            let (done, waiting) = self.stages.split_at_mut(index);
            let (stage, next) = (&mut done[index - 1].stage, &mut waiting[0].stage);
            while let Some(exit) = stage.poll(now) {
                if exit.is_delivered() {
                    next.offer(exit.at, exit.packet);
                } else {
                    self.out.push_back(exit);
                }
            }
        }
        if self.out.len() > before + 1 {
            self.out.make_contiguous()[before..].sort_by_key(|exit| exit.at);
        }
    }

    /// The next exit by `now`, from the last stage or the drops before it.
    #[inline]
    fn next_exit(&mut self, now: Time) -> Option<Exit> {
        let Some(last) = self.stages.last_mut() else { return self.out.pop_front() };
        let Some(dropped) = self.out.front() else { return last.stage.poll(now) };
        let at = dropped.at;
        if last.stage.poll_timeout().is_some_and(|due| due < at)
            && let Some(exit) = last.stage.poll(at)
        {
            return Some(exit);
        }
        self.out.pop_front()
    }
}

impl Hop for Path {
    #[inline]
    fn offer(&mut self, now: Time, packet: Packet) {
        self.latest = self.latest.max(now);
        self.offered = true;
        self.flows.on_offered(&packet);
        match self.stages.first_mut() {
            Some(first) => first.stage.offer(self.latest, packet),
            None => self.out.push_back(Exit::delivered(self.latest, packet)),
        }
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Option<Exit> {
        self.latest = self.latest.max(now);
        self.advance(self.latest);
        let exit = self.next_exit(self.latest)?;
        self.flows.on_exit(&exit);
        Some(exit)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let moving = |placed: &PlacedStage| placed.stage.poll_timeout().map(|at| at + placed.rest);
        let next = self.stages.iter().filter_map(moving).min();
        let seen = self.out.front().map(|exit| exit.at);
        [next, seen].into_iter().flatten().min()
    }

    fn backlog(&self) -> Backlog {
        self.backlogs().fold(Backlog::default(), Backlog::and)
    }

    /// The minimum over all hops.
    fn capacity(&self, now: Time) -> Option<Bitrate> {
        self.stages.iter().filter_map(|placed| placed.stage.capacity(now)).min()
    }

    fn min_delay(&self) -> Span {
        self.stages.first().map_or(Span::ZERO, |first| first.rest + first.stage.min_delay())
    }

    fn max_poll_interval(&self) -> Option<Span> {
        self.stages.iter().filter_map(|placed| placed.stage.max_poll_interval()).min()
    }
}
