//! The scoreboard: the state of each segment in flight, the delivery rate, and loss detection.

use std::collections::VecDeque;

use nearlight_units::{Bytes, Span, Time};

use super::Block;
use super::ranges::Ranges;
use crate::law::{CongestionLaw, DeliveryRate, SentPacket};

/// Segments received beyond a gap from which on it counts as a loss, as long as no reordering was seen (RFC 8985, `DupThresh`).
const DUPLICATE_THRESHOLD: u64 = 3;
/// Recoveries for which a widened reordering window lasts (RFC 8985, section 6.2, step 4).
const WIDENED_RECOVERIES: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Lost,
    Acked,
}

/// A segment that was sent and is not acknowledged by `first`.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// When the segment was last sent. All fields below refer to that transmission.
    sent_at: Time,
    delivered: u64,      // P.delivered
    delivered_at: Time,  // P.delivered_time
    first_sent_at: Time, // P.first_sent_time
    /// Counted as lost by then, in all.
    lost: u64,
    in_flight: u32,
    size: u32,
    state: State,
    retransmitted: bool,
    app_limited: bool,
}

impl Record {
    /// Returns the packet's record for the law, with the total of lost bytes.
    fn sent_packet(&self, lost: u64) -> SentPacket {
        SentPacket {
            sent_at: self.sent_at,
            size: Bytes::new(u64::from(self.size)),
            in_flight: Bytes::new(u64::from(self.in_flight)),
            lost_since: Bytes::new(lost - self.lost),
            app_limited: self.app_limited,
        }
    }
}

/// The newest segment that is known to have arrived, in the order of sending (RFC 8985, section 6.2, step 2).
#[derive(Clone, Copy, Debug, Default)]
struct NewestArrival {
    sent_at: Time,
    number: u64,
    round_trip: Span,
}

/// Changes made by one acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) acked: u64,
    pub(super) round_trip: Option<Span>,
    pub(super) delivered_when_sent: u64,
    newest: Option<(Time, u64)>,
    interval: Span,
    app_limited: bool,
}

#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    first: u64,
    records: VecDeque<Record>,
    /// Transmissions in the order of time; those that no longer matter are left in until they come to the front.
    order: VecDeque<(u64, Time)>,
    /// Lost segments in the order in which they were found; some may have arrived since.
    lost: VecDeque<u64>,
    lost_count: u64,
    beyond: Ranges,
    in_flight: u64,
    lost_bytes: u64,         // C.lost
    delivered: u64,          // C.delivered
    delivered_at: Time,      // C.delivered_time
    first_sent_at: Time,     // C.first_sent_time
    app_limited_until: u64,  // C.app_limited
    newest: NewestArrival,   // RACK.segment
    highest: u64,            // RACK.fack
    reordering: bool,        // RACK.reordering_seen
    widening: i64,           // RACK.reo_wnd_mult - 1
    widened_until: u64,      // RACK.dsack_round
    widened_recoveries: u32, // RACK.reo_wnd_persist
    lowest: Span,            // RACK.min_RTT
    smoothed: Span,
}

impl Scoreboard {
    /// The first segment that is not acknowledged.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The first segment that was never sent.
    pub(super) fn next(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn set_round_trips(&mut self, lowest: Span, smoothed: Span) {
        self.lowest = lowest;
        self.smoothed = smoothed;
    }

    pub(super) fn has_lost(&self) -> bool {
        self.lost_count > 0
    }

    pub(super) fn has_gaps(&self) -> bool {
        self.beyond.count() > 0
    }

    /// A segment leaves, for the first time or again.
    pub(super) fn on_sent(&mut self, now: Time, number: u64, size: Bytes) {
        if self.in_flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        let fresh = number == self.next();
        let mut record = Record {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost: self.lost_bytes,
            in_flight: 0,
            size: size.get() as u32,
            state: State::InFlight,
            retransmitted: !fresh,
            app_limited: self.app_limited_until > 0,
        };
        if fresh {
            self.in_flight += size.get();
            record.in_flight = self.in_flight as u32;
            self.records.push_back(record);
        } else {
            let held = &mut self.records[(number - self.first) as usize];
            if held.state == State::Lost {
                self.in_flight += size.get();
                self.lost_count -= 1;
            }
            record.in_flight = self.in_flight as u32;
            *held = record;
        }
        self.order.push_back((number, now));
    }

    /// The sender has nothing to send although it might: rates measured of what is out may be too low.
    pub(super) fn on_app_limited(&mut self) {
        self.app_limited_until = (self.delivered + self.in_flight).max(1);
    }

    /// All before `next` arrived; the law is told of each packet.
    pub(super) fn on_cumulative(&mut self, now: Time, next: u64, progress: &mut Progress, law: &mut dyn CongestionLaw) {
        for number in self.first..next {
            self.deliver(now, number, progress, law);
        }
        if next <= self.first {
            return;
        }
        self.records.drain(..(next - self.first) as usize);
        self.first = next;
        if self.beyond.count() > 0 {
            self.beyond.remove_below(self.first);
        }
    }

    /// A block beyond the first gap arrived.
    pub(super) fn on_block(&mut self, now: Time, block: Block, progress: &mut Progress, law: &mut dyn CongestionLaw) {
        let block = Block { start: block.start.max(self.first), end: block.end.min(self.next()) };
        let mut beyond = std::mem::take(&mut self.beyond);
        beyond.insert(block, |new| {
            for number in new.start..new.end {
                self.deliver(now, number, progress, law);
            }
        });
        self.beyond = beyond;
    }

    fn deliver(&mut self, now: Time, number: u64, progress: &mut Progress, law: &mut dyn CongestionLaw) {
        let record = &mut self.records[(number - self.first) as usize];
        match record.state {
            State::Acked => return,
            State::InFlight => {
                self.in_flight -= u64::from(record.size);
                let round_trip = (!record.retransmitted).then(|| now - record.sent_at);
                law.on_packet_acked(now, &record.sent_packet(self.lost_bytes), round_trip);
            }
            State::Lost => self.lost_count -= 1,
        }
        record.state = State::Acked;
        let record = *record;
        self.delivered += u64::from(record.size);
        self.delivered_at = now;
        progress.acked += u64::from(record.size);
        if progress.newest.is_none_or(|newest| newest <= (record.sent_at, number)) {
            progress.newest = Some((record.sent_at, number));
            progress.delivered_when_sent = record.delivered;
            progress.app_limited = record.app_limited;
            let sending = record.sent_at - record.first_sent_at;
            let arriving = now - record.delivered_at;
            progress.interval = sending.max(arriving);
            progress.round_trip = (!record.retransmitted).then(|| now - record.sent_at);
            self.first_sent_at = record.sent_at;
        }
        self.note_arrival(now, number, &record);
    }

    /// RFC 8985, section 6.2, steps 2 and 3.
    fn note_arrival(&mut self, now: Time, number: u64, record: &Record) {
        let round_trip = now - record.sent_at;
        if number < self.highest && !record.retransmitted {
            self.reordering = true;
        }
        self.highest = self.highest.max(number);
        // An acknowledgement this early is for an earlier transmission. The lowest round trip itself may contain a delayed acknowledgement.
        if record.retransmitted && round_trip < self.lowest / 2 {
            return;
        }
        if (record.sent_at, number) >= (self.newest.sent_at, self.newest.number) {
            self.newest = NewestArrival { sent_at: record.sent_at, number, round_trip };
        }
    }

    /// Ends an acknowledgement: the delivery rate, where the sample spans at least the lowest round trip.
    pub(super) fn delivery_rate(&mut self, progress: &Progress) -> Option<DeliveryRate> {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        if progress.acked == 0 || progress.interval < self.lowest.max(Span::from_nanos(1)) {
            return None;
        }
        let delivered = Bytes::new(self.delivered - progress.delivered_when_sent);
        Some(DeliveryRate { rate: delivered.over(progress.interval), app_limited: progress.app_limited })
    }

    /// A segment arrived twice: at most once a round trip, overtaking is given more time.
    pub(super) fn on_duplicate(&mut self) {
        self.reordering = true;
        if self.first >= self.widened_until {
            self.widened_until = self.next();
            self.widening += 1;
            self.widened_recoveries = WIDENED_RECOVERIES;
        }
    }

    pub(super) fn on_recovered(&mut self) {
        self.widened_recoveries = self.widened_recoveries.saturating_sub(1);
        if self.widened_recoveries == 0 {
            self.widening = 0;
        }
    }

    /// Returns the reordering window (RFC 8985, section 6.2, step 4).
    fn patience(&self, recovering: bool) -> Span {
        if !self.reordering && (recovering || self.beyond.count() >= DUPLICATE_THRESHOLD) {
            return Span::ZERO;
        }
        ((self.lowest / 4) * (1 + self.widening)).min(self.smoothed)
    }

    /// Counts as lost what was sent long enough before the newest arrival (RFC 8985, section 6.2, step 5). Answers the bytes and
    /// when to look again.
    pub(super) fn detect_losses(
        &mut self,
        now: Time,
        recovering: bool,
        law: &mut dyn CongestionLaw,
    ) -> (u64, Option<Time>) {
        let wait = self.newest.round_trip + self.patience(recovering);
        let mut lost = 0;
        while let Some(&(number, sent_at)) = self.order.front() {
            let record = number.checked_sub(self.first).and_then(|index| self.records.get_mut(index as usize));
            let current = record.filter(|record| record.sent_at == sent_at && record.state == State::InFlight);
            if let Some(record) = current {
                if (sent_at, number) >= (self.newest.sent_at, self.newest.number) {
                    break;
                }
                if sent_at + wait > now {
                    return (lost, Some(sent_at + wait));
                }
                record.state = State::Lost;
                self.lost_count += 1;
                self.in_flight -= u64::from(record.size);
                self.lost_bytes += u64::from(record.size);
                law.on_packet_lost(now, &record.sent_packet(self.lost_bytes));
                self.lost.push_back(number);
                lost += u64::from(record.size);
            }
            self.order.pop_front();
        }
        (lost, None)
    }

    /// Silence: all that is in flight counts as lost, in the order of the data.
    pub(super) fn lose_all(&mut self) {
        self.lost.clear();
        self.order.clear();
        for (number, record) in (self.first..).zip(&mut self.records) {
            if record.state == State::InFlight {
                record.state = State::Lost;
                self.lost_count += 1;
            }
            if record.state == State::Lost {
                self.lost.push_back(number);
            }
        }
        self.lost_bytes += self.in_flight;
        self.in_flight = 0;
    }

    /// The next lost segment to send again.
    pub(super) fn next_lost(&mut self) -> Option<u64> {
        while let Some(&number) = self.lost.front() {
            let record = number.checked_sub(self.first).and_then(|index| self.records.get(index as usize));
            if record.is_some_and(|record| record.state == State::Lost) {
                return Some(number);
            }
            self.lost.pop_front();
        }
        None
    }

    /// Records in memory: bounded by the receive window.
    pub(super) fn held(&self) -> usize {
        self.records.len() + self.order.len() + self.lost.len()
    }
}
