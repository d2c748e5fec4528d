//! What happens on the air: one exchange, or several that collide.

use nearlight_link::{DropReason, Exit};
use nearlight_units::{Bytes, Span, Time};

use crate::access::{Contender, Medium};
use crate::cell::{Cell, Lane};
use crate::config::{AccessRule, Category, DeliveredAt, Direction, MAX_AGGREGATED_PACKETS};
use crate::phy::Mode;
use crate::queue::{AggregateLimits, AggregateSize, Mpdu};
use crate::random::Chance;
use crate::tally::{Exchange, Kind};
use crate::triggered::{AccessPointAction, SolicitedData};

/// One occupation of the medium, from access to the end of the exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Occupation {
    pub end: Time,
    /// Contenders that began it. Several of them collide.
    pub senders: Vec<Sender>,
    /// Lanes with packets on the air.
    pub lanes: Vec<Lane>,
    /// Packets that go back to their queue when it ends.
    pub returned: Vec<(Lane, Mpdu)>,
    /// Packets for which this was the last attempt.
    pub given_up: Vec<(Lane, Mpdu)>,
    /// At least one packet got through, or the exchange carried none.
    pub succeeded: bool,
    /// The start of the transmit opportunity and its lane, if the category may continue without contending.
    pub continues: Option<(Time, Lane)>,
    /// When the answers to a poll were written, and the stations polled.
    pub polled: Option<(Time, Vec<usize>)>,
    /// Data to be sent when the trigger has ended.
    pub solicited: Option<SolicitedData>,
    /// Number of occupations before this one.
    pub number: u64,
}

/// A contender that began to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub contender: usize,
    /// Start of its transmission. In a collision it may be later than the first sender's.
    pub begins: Time,
    /// When the sender learns that the attempt failed, if that is after the medium became idle.
    pub knows_at: Time,
}

/// When the packets of a transmission start, arrive and are acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransmissionTimes {
    pub start: Time,
    /// The data's preamble begins.
    pub data: Time,
    pub data_end: Time,
    pub end: Time,
}

/// One station's share of a transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StationShare {
    pub lane: Lane,
    pub mode: Mode,
    pub load: AggregateSize,
    /// The transmission collides: no packet gets through.
    pub collides: bool,
}

impl Cell {
    /// Starts the transmissions of contenders whose backoff ends now.
    pub(crate) fn start(&mut self, now: Time) {
        self.medium = Medium::Busy;
        self.access_at = Time::FAR_FUTURE;
        let running = &mut self.running;
        running.senders.clear();
        running.number += 1;
        for (node, categories) in self.contenders.chunks_mut(4).enumerate() {
            let begins = categories.iter().map(Contender::grant_at).min().unwrap_or(Time::FAR_FUTURE);
            let is_late = begins > categories[0].unnoticed_until(now);
            let mut is_sending = false;
            for (category, contender) in categories.iter_mut().enumerate() {
                if is_late || contender.grant_at() != begins {
                    contender.on_busy(now, &mut self.random);
                } else if is_sending {
                    // A more urgent category of the same node goes first: an internal collision for this one.
                    contender.on_failure(now, &mut self.random);
                } else {
                    contender.on_access();
                    running.senders.push(Sender { contender: node * 4 + category, begins, knows_at: now });
                    is_sending = true;
                }
            }
        }
        match *running.senders.as_slice() {
            [sender] => self.begin(now, sender.contender),
            _ => self.collide(now),
        }
    }

    /// Ends the current occupation of the medium.
    pub(crate) fn complete(&mut self, now: Time) {
        for lane in self.running.lanes.drain(..) {
            self.queues[lane.index()].on_acknowledged();
        }
        while let Some((lane, mpdu)) = self.running.returned.pop() {
            self.queues[lane.index()].put_back(mpdu);
        }
        self.fill_saturated(now);
        if let Some(data) = self.running.solicited.take() {
            self.send_solicited(now, &data);
            return;
        }
        if let Some((answered, stations)) = self.running.polled.take() {
            self.on_reports(now, answered, &stations);
        }
        if self.continue_opportunity(now) {
            return;
        }
        for index in 0..self.running.senders.len() {
            let Sender { contender, knows_at, .. } = self.running.senders[index];
            let wants = self.has_work(contender);
            let contender = &mut self.contenders[contender];
            if self.running.succeeded {
                contender.on_success(&mut self.random);
            } else {
                contender.on_failure(knows_at, &mut self.random);
            }
            contender.set_wants(wants);
        }
        self.update_contenders();
        self.medium = Medium::Idle;
        let mut next = Time::FAR_FUTURE;
        for contender in &mut self.contenders {
            contender.on_idle(now);
            next = next.min(contender.grant_at());
        }
        self.access_at = next;
    }

    /// Updates contenders that lost their packets to triggers and scans.
    fn update_contenders(&mut self) {
        if !self.timers.may_remove_work() {
            return;
        }
        for index in 0..self.contenders.len() {
            if self.contenders[index].wants() && !self.has_work(index) {
                self.contenders[index].withdraw();
            }
        }
    }

    fn begin(&mut self, now: Time, sender: usize) {
        let (node, category) = (sender / 4, Category::ALL[sender % 4]);
        self.running.continues = None;
        if node > self.config.stations.len() {
            self.begin_burst(now, node - 1 - self.config.stations.len());
        } else if node > 0 {
            self.begin_single(now, Lane::new(node - 1, Direction::Uplink, category));
        } else {
            match self.next_turn(now, category) {
                AccessPointAction::Poll(stations) => self.begin_poll(now, stations),
                AccessPointAction::Data(data) => self.begin_data(now, data),
                AccessPointAction::Both(triggered) => self.begin_both(now, triggered),
                AccessPointAction::Downlink => {
                    self.timers.on_downlink(category);
                    if let Some(parts) = self.plan_multi_user(now, category) {
                        self.begin_multi_user(now, &parts);
                    } else {
                        let lane = self.next_receiver(category);
                        self.begin_single(now, lane);
                    }
                }
            }
        }
    }

    /// Begins an exchange with one sender and one receiver.
    pub(crate) fn begin_single(&mut self, now: Time, lane: Lane) {
        if self.queues[lane.index()].take_acknowledgement_request() {
            self.begin_request(now, lane);
            return;
        }
        if self.config.edca[lane.category().index()].txop.is_some() {
            self.running.continues = Some((now, lane));
        }
        let lead = if self.config.rts_cts { self.config.timing.protection() } else { Span::ZERO };
        self.send_single(now, lane, lead);
    }

    /// Continues within a transmit opportunity, after a SIFS and without RTS, with as many packets as still fit. Returns whether it did.
    fn continue_opportunity(&mut self, now: Time) -> bool {
        let (true, Some((since, lane))) = (self.running.succeeded, self.running.continues) else {
            return false;
        };
        let timing = self.config.timing;
        let mode = self.radios[lane.station()].usual(lane.direction());
        let Some(head) = self.queues[lane.index()].head().filter(|_| self.present[lane.station()]) else {
            return false;
        };
        let limit = self.txop_left(now, since, lane) - timing.sifs - timing.sifs - timing.acknowledgement(2);
        if timing.data_bits(mode, limit) < timing.packet_bits(head.packet.size) {
            return false;
        }
        self.running.number += 1;
        self.send_single(now, lane, timing.sifs);
        true
    }

    /// Handles a transmission of which no packet got through. Its sender waits for the acknowledgement. Stations that heard only errors wait for as
    /// long as the longest acknowledgement takes (EIFS: IEEE 802.11-2020, sections 10.3.2.3.7 and 10.23.2.4): the receiver is one of them, and others
    /// hear each packet as well as the receiver does.
    fn on_unanswered(&mut self, part: &StationShare, moments: TransmissionTimes, size: Bytes) {
        let timing = self.config.timing;
        for sender in &mut self.running.senders {
            sender.knows_at = moments.data_end + timing.answer_timeout();
        }
        let lane = part.lane;
        let loss = self.radios[lane.station()].loss(part.mode.mcs(), size);
        let station = lane.station() + 1;
        let (sender, receiver) = if lane.direction() == Direction::Downlink { (0, station) } else { (station, 0) };
        let until = moments.data_end + timing.longest_answer();
        for (node, categories) in self.contenders.chunks_mut(4).enumerate() {
            if node == sender {
                continue;
            }
            if node == receiver || (0..part.load.packets).all(|_| self.random.happens(loss)) {
                for contender in categories {
                    contender.on_misheard(until);
                }
            }
        }
    }

    fn txop_left(&self, now: Time, since: Time, lane: Lane) -> Span {
        let txop = self.config.edca[lane.category().index()].txop;
        txop.map_or(Span::MAX, |txop| since + txop - now)
    }

    fn send_single(&mut self, now: Time, lane: Lane, lead: Span) {
        let part = self.single(now, lane, lead, false);
        let moments = self.moments(now, lead, &part);
        let first = self.queues[lane.index()].head().map(|mpdu| mpdu.packet.size);
        let delivered = self.transmit(&part, moments);
        self.give_up(moments.end);
        self.running.end = moments.end;
        self.running.succeeded = delivered > 0;
        if let Some(size) = first.filter(|_| delivered == 0 && self.config.access == AccessRule::Edca) {
            self.on_unanswered(&part, moments, size);
        }
        if lane.direction() == Direction::Downlink {
            self.on_served(lane, moments.end - moments.start);
        }
        self.account(&part, Kind::Single, moments, delivered, 1);
        self.tally.airtime += moments.end - moments.start;
    }

    /// Plans the transmission that one sender would make now.
    fn single(&mut self, now: Time, lane: Lane, lead: Span, collides: bool) -> StationShare {
        let timing = self.config.timing;
        let choice = self.radios[lane.station()].choose(now, lane.direction(), &mut self.random);
        let since = self.running.continues.map_or(now, |(since, _)| since);
        let limit = self.txop_left(now, since, lane) - lead - timing.sifs - timing.acknowledgement(2);
        let packets = choice.packets.min(usize::from(self.config.aggregate));
        let room = AggregateLimits { bits: timing.data_bits(choice.mode, limit), packets, window: self.window() };
        let queue = &self.queues[lane.index()];
        let mut load = queue.load(&timing, room);
        if load.packets == 0 {
            // A packet that is longer than the opportunity is sent alone (IEEE 802.11-2020, section 10.23.2.9).
            load = queue.load(&timing, AggregateLimits { bits: u64::MAX, packets: 1, window: 1 });
        }
        StationShare { lane, mode: choice.mode, load, collides }
    }

    pub(crate) fn window(&self) -> u64 {
        if self.config.window { u64::from(MAX_AGGREGATED_PACKETS) } else { u64::MAX / 2 }
    }

    fn moments(&self, now: Time, lead: Span, part: &StationShare) -> TransmissionTimes {
        let timing = &self.config.timing;
        let data = now + lead;
        let data_end = data + timing.data(part.mode, part.load.bits);
        TransmissionTimes {
            start: now,
            data,
            data_end,
            end: data_end + timing.sifs + timing.acknowledgement(part.load.packets),
        }
    }

    /// Draws the fate of a part's packets; returns how many get through.
    pub(crate) fn transmit(&mut self, part: &StationShare, moments: TransmissionTimes) -> usize {
        let &StationShare { lane, mode, load, collides } = part;
        let timing = self.config.timing;
        let mut delivered_at = match self.config.delivered_at {
            DeliveredAt::Acknowledgement => moments.end,
            DeliveredAt::DataEnd | DeliveredAt::PacketEnd => moments.data_end,
        };
        self.running.lanes.push(lane);
        let mut size = None;
        let mut loss = Chance::new(1.0);
        let mut delivered = 0;
        let mut bits = 0;
        let mut complete = true;
        for _ in 0..load.packets {
            let Some(mut mpdu) = self.queues[lane.index()].take() else { break };
            if !collides && size != Some(mpdu.packet.size) {
                size = Some(mpdu.packet.size);
                loss = self.radios[lane.station()].loss(mode.mcs(), mpdu.packet.size);
            }
            if self.config.delivered_at == DeliveredAt::PacketEnd {
                bits += timing.packet_bits(mpdu.packet.size);
                delivered_at = moments.data + timing.data(mode, bits);
            }
            if !self.random.happens(loss) {
                delivered += 1;
                // What a trigger solicits may arrive after the exchange began.
                mpdu.packet.queued += moments.start.saturating_since(mpdu.entered);
                if self.config.in_order {
                    self.queues[lane.index()].hold(mpdu);
                } else {
                    self.leave(lane, &mpdu, Exit::delivered(delivered_at, mpdu.packet));
                }
            } else if mpdu.attempts >= self.config.retries {
                self.running.given_up.push((lane, mpdu));
            } else {
                mpdu.attempts += 1;
                complete = false;
                self.running.returned.push((lane, mpdu));
            }
            // The receiver delivers packets up to the first gap.
            while complete && let Some(mpdu) = self.queues[lane.index()].release() {
                self.leave(lane, &mpdu, Exit::delivered(delivered_at, mpdu.packet));
            }
        }
        self.radios[lane.station()].on_outcome(moments.start, lane.direction(), mode.mcs(), load.packets, delivered);
        delivered
    }

    /// Drops packets whose last attempt failed, at the end of the exchange.
    pub(crate) fn give_up(&mut self, end: Time) {
        while let Some((lane, mut mpdu)) = self.running.given_up.pop() {
            mpdu.packet.queued += end - mpdu.entered;
            self.leave(lane, &mpdu, Exit::dropped(end, mpdu.packet, DropReason::Retries));
        }
    }

    /// Counts and records a part of an exchange that `sharers` share.
    pub(crate) fn account(
        &mut self,
        part: &StationShare,
        kind: Kind,
        moments: TransmissionTimes,
        delivered: usize,
        sharers: i64,
    ) {
        let tally = &mut self.tallies[part.lane.link()];
        tally.airtime += (moments.end - moments.start) / sharers;
        tally.aggregates[part.load.packets] += 1;
        tally.aggregates_delivered += delivered as u64;
        self.record(Exchange {
            number: self.running.number,
            kind,
            start: moments.start,
            end: moments.end,
            station: Some(part.lane.station()),
            direction: part.lane.direction(),
            category: part.lane.category(),
            packets: part.load.packets,
            delivered,
        });
    }

    fn begin_burst(&mut self, now: Time, neighbour: usize) {
        let end = now + self.config.neighbours[neighbour].burst;
        self.timers.on_burst(neighbour);
        self.running.end = end;
        self.running.succeeded = true;
        self.tally.neighbours += end - now;
        self.record_without_packets(now, end, Kind::Neighbour, None);
    }

    /// Handles a collision of several contenders: no packet gets through.
    fn collide(&mut self, now: Time) {
        let mut senders = std::mem::take(&mut self.running.senders);
        self.running.continues = None;
        self.running.end = now;
        self.running.succeeded = false;
        let mut own = false;
        let mut lanes = Vec::new();
        for sender in &mut senders {
            let (node, category) = (sender.contender / 4, Category::ALL[sender.contender % 4]);
            let (end, timeout, lane) = if node > self.config.stations.len() {
                let burst = self.config.neighbours[node - 1 - self.config.stations.len()].burst;
                (sender.begins + burst, self.config.timing.answer_timeout(), None)
            } else {
                own = true;
                let (end, timeout, lane) = self.collided_transmission(sender.begins, node, category);
                (end, timeout, Some(lane))
            };
            if self.config.access == AccessRule::Edca {
                sender.knows_at = end + timeout;
            }
            self.running.end = self.running.end.max(end);
            lanes.push(lane);
        }
        self.running.senders = senders;
        let end = self.running.end;
        self.give_up(end);
        self.tally.collisions += 1;
        self.tally.collided += end - now;
        if own {
            self.tally.airtime += end - now;
        } else {
            self.tally.neighbours += end - now;
        }
        for lane in lanes {
            self.record_without_packets(now, end, Kind::Collision, lane);
        }
    }

    /// Computes a node's transmission in a collision: when it ends, how long its sender then waits for an answer, and its lane. With RTS, only the
    /// RTS is lost.
    fn collided_transmission(&mut self, now: Time, node: usize, category: Category) -> (Time, Span, Lane) {
        let timing = self.config.timing;
        let answer = match self.config.access {
            AccessRule::Komondor => timing.sifs + timing.cts(),
            AccessRule::Edca => Span::ZERO,
        };
        let timeout = timing.answer_timeout();
        let mut opening = timing.rts();
        let lane = if node > 0 {
            Lane::new(node - 1, Direction::Uplink, category)
        } else {
            let lane = self.next_receiver(category);
            let turn = self.next_turn(now, category);
            if !matches!(turn, AccessPointAction::Downlink) {
                let (opening, timeout) = self.solicitation(&turn);
                return (now + opening + answer, timeout, lane);
            }
            let plan = self.plan_multi_user(now, category);
            opening = self.opening(plan.as_deref());
            lane
        };
        if self.config.rts_cts {
            return (now + opening + answer, timeout, lane);
        }
        let part = self.single(now, lane, Span::ZERO, true);
        let moments = self.moments(now, Span::ZERO, &part);
        self.transmit(&part, moments);
        self.tallies[lane.link()].aggregates[part.load.packets] += 1;
        let end = match self.config.access {
            AccessRule::Komondor => moments.end,
            AccessRule::Edca => moments.data_end,
        };
        (end, timeout, lane)
    }

    pub(crate) fn record_without_packets(&mut self, start: Time, end: Time, kind: Kind, lane: Option<Lane>) {
        self.record(Exchange {
            number: self.running.number,
            kind,
            start,
            end,
            station: lane.map(Lane::station),
            direction: lane.map_or(Direction::Downlink, Lane::direction),
            category: lane.map_or(Category::BestEffort, Lane::category),
            packets: 0,
            delivered: 0,
        });
    }
}
