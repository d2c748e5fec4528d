//! The cell: contention, events and exits.
//!
//! Events are few: the medium is won, an exchange ends, a timer of the cell's own (scan, background packet, neighbour, trigger) runs out. The fate of
//! every packet is drawn when its exchange begins, so its exit is known from then on.
//!
//! Offers at an instant precede whatever that instant starts: the medium is won only when time advances. So exits depend on offers and seed alone,
//! not on when the cell is polled.

use std::collections::VecDeque;

use nearlight_link::{Backlog, DropReason, Exit, Packet};
use nearlight_units::{Bitrate, Bytes, Span, Time};

use crate::access::{Contender, Medium};
use crate::config::{Category, CellConfig, Direction};
use crate::error::ConfigError;
use crate::exchange::Occupation;
use crate::ofdma::Scheduler;
use crate::queue::{Mpdu, Queue};
use crate::radio::Radio;
use crate::random::Random;
use crate::service::ServiceOrder;
use crate::tally::{CellTally, Exchange, Tally};
use crate::timers::Timers;
use crate::triggered::BufferReports;

/// One station's packets of one direction and category. A cell hands out its own; those of another cell do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    station: u16,
    direction: Direction,
    category: Category,
}

impl Lane {
    pub(crate) fn new(station: usize, direction: Direction, category: Category) -> Self {
        Self { station: station as u16, direction, category }
    }

    pub const fn station(self) -> usize {
        self.station as usize
    }

    pub const fn direction(self) -> Direction {
        self.direction
    }

    pub const fn category(self) -> Category {
        self.category
    }

    /// Index of its queue.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.link() * 4 + self.category.index()
    }

    /// Index of its tally.
    #[inline]
    pub(crate) fn link(self) -> usize {
        self.station() * 2 + self.direction as usize
    }

    /// The node that contends for it: the access point is node 0, station n is node n + 1.
    #[inline]
    pub(crate) fn contender(self) -> usize {
        let node = match self.direction {
            Direction::Downlink => 0,
            Direction::Uplink => self.station() + 1,
        };
        node * 4 + self.category.index()
    }
}

/// A packet leaves the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellExit {
    pub lane: Lane,
    /// When it was offered.
    pub entered: Time,
    pub exit: Exit,
}

/// An 802.11ax cell: an access point and its stations on one channel, in virtual time.
///
/// Calls carry non-decreasing `now`; an earlier one counts as the latest so far. Work and memory are bounded by the time that
/// passes and by the queues' limits.
pub struct Cell {
    pub(crate) config: CellConfig,
    pub(crate) queues: Vec<Queue>,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) radios: Vec<Radio>,
    /// Whether each station is on the channel.
    pub(crate) present: Vec<bool>,
    /// Longest packet that can be sent to or by each station.
    longest: Vec<Bytes>,
    pub(crate) timers: Timers,
    pub(crate) medium: Medium,
    pub(crate) running: Occupation,
    /// When the next contender sends, while the medium is idle.
    pub(crate) access_at: Time,
    pub(crate) random: Random,
    pub(crate) scheduler: Box<dyn Scheduler>,
    /// Schedules uplink transmissions.
    pub(crate) uplink_scheduler: Box<dyn Scheduler>,
    /// What the access point knows of the stations' packets.
    pub(crate) reports: BufferReports,
    /// The order in which the access point serves stations, by category.
    pub(crate) turns: [ServiceOrder; 4],
    pub(crate) out: VecDeque<CellExit>,
    /// Offered packets that have no exit yet.
    pub(crate) inside: usize,
    pub(crate) tallies: Vec<Tally>,
    pub(crate) tally: CellTally,
    log: VecDeque<Exchange>,
    log_limit: usize,
    latest: Time,
    /// Shortest time from an access to an exit.
    least_exchange: Span,
}

impl Cell {
    /// Returns an idle cell. `seed` determines backoffs, losses, fading and the phases of background traffic.
    ///
    /// # Errors
    ///
    /// The configuration is invalid.
    pub fn new(config: CellConfig, seed: u64) -> Result<Self, ConfigError> {
        let scheduler = config.multi_user.order.scheduler();
        Self::with_scheduler(config, seed, scheduler)
    }

    /// Returns a cell whose multi-user transmissions are shared by `scheduler`.
    ///
    /// # Errors
    ///
    /// The configuration is invalid.
    pub fn with_scheduler(config: CellConfig, seed: u64, scheduler: Box<dyn Scheduler>) -> Result<Self, ConfigError> {
        config.check()?;
        let mut random = Random::new(seed);
        let timers = Timers::new(&config, &mut random);
        let nodes = 1 + config.stations.len() + config.neighbours.len();
        let contender = |index: usize| {
            let edca = &config.edca[index % 4];
            Contender::new(edca, edca.aifs(&config.timing), config.timing.slot, config.access, config.retries)
        };
        let contenders = (0..nodes * 4).map(contender).collect();
        let queues = config.stations.iter().flat_map(|_| {
            let limits = [config.access_point_queue, config.station_queue];
            limits.into_iter().flat_map(|limit| (0..4).map(move |_| Queue::new(limit)))
        });
        let queues = queues.collect();
        let mut radios = Vec::new();
        let mut longest = Vec::new();
        let mut least_exchange = Span::MAX;
        for station in &config.stations {
            let mode = config.mode(station)?;
            radios.push(Radio::new(mode, station.channel, station.adaptation));
            longest.push(config.longest_packet(station)?);
            least_exchange = least_exchange.min(config.timing.data(mode, 0));
        }
        let stations = config.stations.len();
        let mut cell = Self {
            queues,
            contenders,
            radios,
            present: vec![true; stations],
            longest,
            timers,
            medium: Medium::Idle,
            running: Occupation::default(),
            access_at: Time::FAR_FUTURE,
            random,
            uplink_scheduler: config.multi_user.order.scheduler(),
            scheduler,
            reports: BufferReports::new(stations),
            turns: std::array::from_fn(|_| ServiceOrder::new(stations)),
            out: VecDeque::new(),
            inside: 0,
            tallies: vec![Tally::default(); stations * 2],
            tally: CellTally::default(),
            log: VecDeque::new(),
            log_limit: 0,
            latest: Time::ZERO,
            least_exchange,
            config,
        };
        cell.fill_saturated(Time::ZERO);
        Ok(cell)
    }

    /// Returns the cell's configuration.
    pub fn config(&self) -> &CellConfig {
        &self.config
    }

    /// Returns the lane of a station's packets of one direction and category. None if the cell has no such station.
    pub fn lane(&self, station: usize, direction: Direction, category: Category) -> Option<Lane> {
        (station < self.config.stations.len()).then(|| Lane::new(station, direction, category))
    }

    /// The packet arrives at its sender's queue.
    pub fn offer(&mut self, now: Time, lane: Lane, packet: Packet) {
        self.advance(now);
        let now = self.latest;
        self.tallies[lane.link()].offered += 1;
        if packet.size > self.longest[lane.station()] {
            self.tallies[lane.link()].too_long += 1;
            self.push_exit(CellExit { lane, entered: now, exit: Exit::dropped(now, packet, DropReason::TooLarge) });
        } else if self.queues[lane.index()].push(packet, now, false) {
            self.inside += 1;
            self.request(now, lane);
        } else {
            self.tallies[lane.link()].overflowed += 1;
            self.push_exit(CellExit { lane, entered: now, exit: Exit::dropped(now, packet, DropReason::QueueFull) });
        }
    }

    /// Returns the next exit with `at` up to `now`. Call until None.
    pub fn poll(&mut self, now: Time) -> Option<CellExit> {
        self.advance(now);
        self.out.pop_front_if(|next| next.exit.at <= self.latest)
    }

    /// Returns when to poll next. No exit comes earlier unless more is offered. None while the cell holds no offered packet.
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.out.front() {
            Some(next) => Some(next.exit.at),
            None => self.next_decision(),
        }
    }

    /// Returns the next exit that is already certain, even if it lies in the future.
    pub(crate) fn poll_certain(&mut self, now: Time) -> Option<CellExit> {
        self.advance(now);
        self.out.pop_front()
    }

    /// Returns the time before which no exit becomes certain. None while no offered packet is undecided.
    pub(crate) fn next_decision(&self) -> Option<Time> {
        if self.inside == 0 {
            return None;
        }
        let next = match self.medium {
            Medium::Busy => self.running.end + self.config.timing.sifs,
            Medium::Idle => self.access_at.min(self.timers.next()),
        };
        Some(next + self.least_exchange)
    }

    /// Discards the packets of a lane that have no exit yet, as when a station leaves; a transmission in progress continues to its end.
    pub(crate) fn forget(&mut self, lane: Lane) {
        let mut gone = self.queues[lane.index()].clear();
        self.running.returned.retain(|(other, mpdu)| {
            let goes = *other == lane;
            gone += usize::from(goes && !mpdu.background);
            !goes
        });
        self.inside -= gone;
        let contender = lane.contender();
        if self.contenders[contender].wants() && !self.has_work(contender) {
            self.contenders[contender].withdraw();
            if self.medium == Medium::Idle {
                self.refresh_access();
            }
        }
    }

    /// Returns the time of the latest call.
    pub(crate) fn latest(&self) -> Time {
        self.latest
    }

    /// Returns the backlog of a lane. Its delay assumes that the station has the medium to itself.
    pub fn backlog(&self, lane: Lane) -> Backlog {
        let queue = &self.queues[lane.index()];
        let bytes = queue.iter().map(|mpdu| mpdu.packet.size).sum();
        let delay = if queue.is_empty() { Span::ZERO } else { self.capacity(lane).time_to_send(bytes) };
        Backlog { bytes, packets: queue.len() as u64, delay }
    }

    /// Returns a station's capacity with the medium to itself: full A-MPDUs of 1,250-byte packets, mean backoffs, losses.
    pub fn capacity(&self, lane: Lane) -> Bitrate {
        let size = Bytes::new(1_250);
        let timing = &self.config.timing;
        let radio = &self.radios[lane.station()];
        let mode = radio.usual(lane.direction());
        let edca = &self.config.edca[lane.category().index()];
        let bits = timing.packet_bits(size);
        let limit = edca.txop.unwrap_or(timing.longest) - timing.protection();
        let packets = (timing.data_bits(mode, limit) / bits).clamp(1, u64::from(self.config.aggregate));
        let backoff = timing.slot * i64::from(edca.window_min) / 2;
        let exchange = edca.aifs(timing)
            + backoff
            + timing.protection()
            + timing.data(mode, bits * packets)
            + timing.sifs
            + timing.acknowledgement(packets as usize);
        Bytes::new(size.get() * packets).over(exchange).mul_f64(1.0 - radio.usual_loss(lane.direction()))
    }

    /// Returns a lane's occupancy: packets that wait, and those on the air.
    pub fn occupied(&self, lane: Lane) -> usize {
        self.queues[lane.index()].occupied()
    }

    /// Returns the counters of one direction of a station.
    pub fn tally(&self, station: usize, direction: Direction) -> Option<&Tally> {
        self.tallies.get(station * 2 + direction as usize)
    }

    /// Returns the counters of the cell.
    pub fn cell_tally(&self) -> CellTally {
        self.tally
    }

    /// Records the latest `limit` exchanges from now on. Without this call none are recorded.
    pub fn set_record(&mut self, limit: usize) {
        self.log_limit = limit;
        self.log.truncate(limit);
    }

    /// Returns the oldest recorded exchange. Call until None, often enough that later exchanges do not displace unread ones.
    pub fn poll_exchange(&mut self) -> Option<Exchange> {
        self.log.pop_front()
    }

    #[inline]
    pub(crate) fn record(&mut self, exchange: Exchange) {
        if self.log_limit == 0 {
            return;
        }
        if self.log.len() == self.log_limit {
            self.log.pop_front();
        }
        self.log.push_back(exchange);
    }

    /// Processes all events up to `now`, except transmissions that would begin at `now` itself.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time) {
        self.latest = self.latest.max(now);
        let next = match self.medium {
            Medium::Busy => self.running.end,
            Medium::Idle => self.access_at + Span::from_nanos(1),
        };
        // Most packets arrive during a transmission, and nothing else is due.
        if next.min(self.timers.next()) <= self.latest {
            self.catch_up();
        }
    }

    fn catch_up(&mut self) {
        loop {
            let timer = self.timers.next();
            match self.medium {
                Medium::Busy if self.running.end <= timer => {
                    if self.running.end > self.latest {
                        return;
                    }
                    self.complete(self.running.end);
                }
                Medium::Idle if self.access_at < timer => {
                    if self.access_at >= self.latest {
                        return;
                    }
                    self.start(self.access_at);
                }
                _ => {
                    if timer > self.latest {
                        return;
                    }
                    self.on_timer(timer);
                }
            }
        }
    }

    /// A lane's queue is no longer empty.
    #[inline]
    pub(crate) fn request(&mut self, now: Time, lane: Lane) {
        let index = lane.contender();
        if !self.contenders[index].wants() && self.has_work(index) {
            self.request_access(now, index);
        }
    }

    pub(crate) fn request_access(&mut self, now: Time, contender: usize) {
        let contender = &mut self.contenders[contender];
        contender.on_request(now, self.medium, &mut self.random);
        self.access_at = self.access_at.min(contender.grant_at());
    }

    pub(crate) fn refresh_access(&mut self) {
        let grants = self.contenders.iter().map(Contender::grant_at);
        self.access_at = grants.min().unwrap_or(Time::FAR_FUTURE);
    }

    /// Returns whether a contender has a packet that it could send now.
    pub(crate) fn has_work(&self, contender: usize) -> bool {
        let (node, category) = (contender / 4, Category::ALL[contender % 4]);
        let stations = self.config.stations.len();
        if node == 0 {
            return self.timers.trigger_contends(category) || self.has_downlink(category);
        }
        if node > stations {
            return category == Category::BestEffort && self.timers.bursts(node - 1 - stations) > 0;
        }
        self.contends(category) && self.can_send(Lane::new(node - 1, Direction::Uplink, category))
    }

    pub(crate) fn has_downlink(&self, category: Category) -> bool {
        let waits = |station| self.can_send(Lane::new(station, Direction::Downlink, category));
        (0..self.config.stations.len()).any(waits)
    }

    pub(crate) fn can_send(&self, lane: Lane) -> bool {
        self.present[lane.station()] && !self.queues[lane.index()].is_empty()
    }

    /// Returns whether stations send packets of this category without a trigger.
    fn contends(&self, category: Category) -> bool {
        self.config.multi_user.uplink.is_none_or(|uplink| uplink.contend || uplink.category != category)
    }

    /// Exits are queued in order of time; most are added in that order.
    #[inline]
    fn push_exit(&mut self, left: CellExit) {
        let at = left.exit.at;
        if self.out.back().is_none_or(|last| last.exit.at <= at) {
            self.out.push_back(left);
        } else {
            let place = self.out.partition_point(|other| other.exit.at <= at);
            self.out.insert(place, left);
        }
    }

    /// A packet was delivered, or was dropped.
    #[inline]
    pub(crate) fn leave(&mut self, lane: Lane, mpdu: &Mpdu, exit: Exit) {
        let tally = &mut self.tallies[lane.link()];
        if exit.is_delivered() {
            tally.delivered += 1;
            tally.delivered_bytes += exit.packet.size;
        } else {
            tally.given_up += 1;
        }
        if !mpdu.background {
            self.inside -= 1;
            self.push_exit(CellExit { lane, entered: mpdu.entered, exit });
        }
    }
}
