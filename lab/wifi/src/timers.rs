//! Events in a cell other than offers: scans, background packets, neighbours, triggers.

use nearlight_link::{FlowId, Packet};
use nearlight_units::{Span, Time};

use crate::access::Medium;
use crate::cell::{Cell, Lane};
use crate::config::{Background, Category, CellConfig, Direction, MAX_AGGREGATED_PACKETS, Neighbour, Scan};
use crate::ofdma::{TriggerTiming, UplinkTrigger};
use crate::random::Random;

/// Maximum number of exchanges that a neighbour defers; a neighbour without airtime drops further ones.
const MAX_DEFERRED_BURSTS: u32 = 64;
/// The flow of packets that the cell generates itself.
const BACKGROUND_FLOW: FlowId = FlowId(u32::MAX);

#[derive(Clone, Debug)]
pub(crate) struct Timers {
    scans: Vec<(usize, Scan, Time)>,
    sources: Vec<(Lane, Background, Time)>,
    neighbours: Vec<(Neighbour, Time, u32)>,
    trigger: Option<(UplinkTrigger, Time)>,
    /// The access point wants to send a trigger.
    due: bool,
    /// Its latest exchange in the triggers' category was a trigger.
    had_turn: bool,
    next: Time,
}

impl Timers {
    pub(crate) fn new(config: &CellConfig, random: &mut Random) -> Self {
        let mut timers = Self {
            scans: Vec::new(),
            sources: Vec::new(),
            neighbours: Vec::new(),
            trigger: config.multi_user.uplink.map(|uplink| match uplink.when {
                TriggerTiming::Every(interval) => (uplink, Time::ZERO + interval),
                TriggerTiming::AfterDownlink => (uplink, Time::FAR_FUTURE),
            }),
            due: false,
            had_turn: false,
            next: Time::FAR_FUTURE,
        };
        for (station, settings) in config.stations.iter().enumerate() {
            if let Some(scan) = settings.scan {
                timers.scans.push((station, scan, Time::ZERO + scan.first));
            }
            if let Some(background) = settings.background {
                let lane = Lane::new(station, background.direction, background.category);
                let first = background.rate.map_or(Time::FAR_FUTURE, |rate| {
                    let interval = rate.time_to_send(background.size);
                    Time::from_nanos(random.below(interval.as_nanos() as u64))
                });
                timers.sources.push((lane, background, first));
            }
        }
        for neighbour in &config.neighbours {
            let first = Time::ZERO + pause(neighbour, random);
            timers.neighbours.push((*neighbour, first, 0));
        }
        timers.refresh();
        timers
    }

    #[inline]
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    pub(crate) fn trigger_is_due(&self, category: Category) -> bool {
        self.due && self.trigger.is_some_and(|(trigger, _)| trigger.category == category)
    }

    /// Returns whether a trigger was sent last, so that downlink packets go first.
    pub(crate) fn trigger_had_turn(&self) -> bool {
        self.had_turn
    }

    /// Returns whether the access point contends for a trigger, even without packets of its own.
    pub(crate) fn trigger_contends(&self, category: Category) -> bool {
        self.trigger_is_due(category)
            && self.trigger.is_some_and(|(trigger, _)| trigger.when != TriggerTiming::AfterDownlink)
    }

    /// The access point sent to several stations.
    pub(crate) fn on_shared_downlink(&mut self) {
        self.due |= self.trigger.is_some_and(|(trigger, _)| trigger.when == TriggerTiming::AfterDownlink);
    }

    pub(crate) fn on_triggered(&mut self) {
        self.due = false;
        self.had_turn = true;
    }

    /// The access point sends in this category.
    pub(crate) fn on_downlink(&mut self, category: Category) {
        if self.trigger.is_some_and(|(trigger, _)| trigger.category == category) {
            self.had_turn = false;
        }
    }

    /// Returns the number of exchanges that a neighbour has deferred.
    pub(crate) fn bursts(&self, neighbour: usize) -> u32 {
        self.neighbours[neighbour].2
    }

    /// A neighbour's exchange took place.
    pub(crate) fn on_burst(&mut self, neighbour: usize) {
        let waiting = &mut self.neighbours[neighbour].2;
        *waiting = waiting.saturating_sub(1);
    }

    /// Returns whether stations leave or send triggered data, so that contenders may have nothing left to send.
    pub(crate) fn may_remove_work(&self) -> bool {
        !self.scans.is_empty() || self.trigger.is_some()
    }

    fn refresh(&mut self) {
        let scans = self.scans.iter().map(|timer| timer.2);
        let sources = self.sources.iter().map(|timer| timer.2);
        let neighbours = self.neighbours.iter().map(|timer| timer.1);
        let trigger = self.trigger.iter().map(|timer| timer.1);
        self.next = scans.chain(sources).chain(neighbours).chain(trigger).min().unwrap_or(Time::FAR_FUTURE);
    }
}

/// Draws the pause before a neighbour's exchange: exponential, with the mean that yields the requested load.
fn pause(neighbour: &Neighbour, random: &mut Random) -> Span {
    if neighbour.load <= 0.0 {
        return Span::MAX;
    }
    neighbour.burst.mul_f64(-(1.0 - random.unit()).ln() / neighbour.load)
}

impl Cell {
    /// Processes everything due at `now`.
    pub(crate) fn on_timer(&mut self, now: Time) {
        for index in 0..self.timers.scans.len() {
            self.on_scan_timer(now, index);
        }
        for index in 0..self.timers.sources.len() {
            let (lane, background, at) = self.timers.sources[index];
            if at <= now
                && let Some(rate) = background.rate
            {
                self.timers.sources[index].2 = at + rate.time_to_send(background.size);
                self.offer_background(now, lane, &background);
            }
        }
        for index in 0..self.timers.neighbours.len() {
            self.on_neighbour_timer(now, index);
        }
        if let Some((trigger, at)) = &mut self.timers.trigger
            && *at <= now
            && let TriggerTiming::Every(interval) = trigger.when
        {
            *at += interval;
            let contender = trigger.category.index();
            self.timers.due = true;
            if !self.contenders[contender].wants() {
                self.request_access(now, contender);
            }
        }
        self.timers.refresh();
    }

    fn on_scan_timer(&mut self, now: Time, index: usize) {
        let (station, scan, at) = self.timers.scans[index];
        if at > now {
            return;
        }
        let leaves = self.present[station];
        self.timers.scans[index].2 = at + if leaves { scan.dwell } else { scan.interval - scan.dwell };
        self.present[station] = !leaves;
        for category in Category::ALL {
            for direction in [Direction::Downlink, Direction::Uplink] {
                let contender = Lane::new(station, direction, category).contender();
                match (self.contenders[contender].wants(), self.has_work(contender)) {
                    (false, true) => self.request_access(now, contender),
                    // While the medium is busy, contention is updated when the exchange ends.
                    (true, false) if self.medium == Medium::Idle => self.contenders[contender].withdraw(),
                    _ => {}
                }
            }
        }
        if self.medium == Medium::Idle {
            self.refresh_access();
        }
    }

    fn on_neighbour_timer(&mut self, now: Time, index: usize) {
        let (neighbour, at, waiting) = &mut self.timers.neighbours[index];
        if *at > now {
            return;
        }
        *at += pause(neighbour, &mut self.random);
        *waiting = (*waiting + 1).min(MAX_DEFERRED_BURSTS);
        let contender = (1 + self.config.stations.len() + index) * 4 + Category::BestEffort.index();
        if !self.contenders[contender].wants() {
            self.request_access(now, contender);
        }
    }

    fn offer_background(&mut self, now: Time, lane: Lane, background: &Background) {
        let tally = &mut self.tallies[lane.link()];
        tally.offered += 1;
        if self.queues[lane.index()].push(Packet::new(0, BACKGROUND_FLOW, background.size), now, true) {
            self.request(now, lane);
        } else {
            tally.overflowed += 1;
        }
    }

    /// Saturated sources always have a full transmission waiting.
    pub(crate) fn fill_saturated(&mut self, now: Time) {
        for index in 0..self.timers.sources.len() {
            let (lane, background, _) = self.timers.sources[index];
            if background.rate.is_some() {
                continue;
            }
            let queue = &mut self.queues[lane.index()];
            while queue.len() < usize::from(MAX_AGGREGATED_PACKETS)
                && queue.push(Packet::new(0, BACKGROUND_FLOW, background.size), now, true)
            {
                self.tallies[lane.link()].offered += 1;
            }
            self.request(now, lane);
        }
    }
}
