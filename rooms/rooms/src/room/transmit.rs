//! Transmission: which messages are sent to members, and when.

use nearlight_units::{Bytes, Span, Time};

use super::{INTEREST_INTERVAL, Room, RoomConfig};
use crate::message::{
    EndReason, MAX_CHANGES, MAX_MESSAGE_BYTES, Receipt, Snapshot, SubjectId, write_changes_head, write_goodbye,
};
use crate::pose::Sample;
use crate::state::{MemberId, Revision};

impl Room {
    /// Returns whether [`Room::poll_transmit`] or [`Room::poll_voice`] may have a message.
    #[must_use]
    pub fn has_transmit(&self) -> bool {
        !self.ready.is_empty() || !self.farewells.is_empty() || self.has_voice()
    }

    /// Returns when [`Room::on_timeout`] is due: at the next tick, or none without remote members.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        (self.remote > 0).then_some(self.next_tick)
    }

    /// Does what is due at `now`. Calls before [`Room::poll_timeout`] do nothing.
    pub fn on_timeout(&mut self, now: Time) {
        if now < self.next_tick || self.remote == 0 {
            return;
        }
        self.next_tick = (self.next_tick + self.config.tick).max(now + Span::from_nanos(1));
        let RoomConfig { silence, stall_limit, rate, .. } = self.config;
        let refresh = now >= self.next_interest;
        if refresh {
            self.next_interest = now + INTEREST_INTERVAL;
        }
        let newest = self.state.revision;
        let mut gone = Vec::new();
        for place in 0..self.seats.len() {
            let Some(seat) = self.seats[place].as_mut().filter(|seat| !seat.local) else { continue };
            if now.saturating_since(seat.heard_at) >= silence {
                gone.push((seat.id, EndReason::Silent));
                continue;
            }
            let mut ready = seat.delivery.check_repeat(now, newest);
            if seat.delivery.behind_since.is_some_and(|since| now.saturating_since(since) >= stall_limit) {
                gone.push((seat.id, EndReason::NotReading));
                continue;
            }
            if refresh {
                seat.delivery.refresh_interest(rate, &self.subjects);
            }
            seat.poses_due |= seat.delivery.is_update_due(now);
            ready |= seat.poses_due;
            if ready {
                self.make_ready(place);
            }
        }
        for (member, reason) in gone {
            self.end(now, member, Some(reason));
        }
    }

    /// Appends the next message to `out` and returns its recipient, or returns none if there is nothing to send at the moment.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<MemberId> {
        if let Some((member, reason)) = self.farewells.pop_front() {
            write_goodbye(reason, out);
            return Some(member);
        }
        while let Some(place) = self.ready.front().copied() {
            let before = out.len();
            let has_written = self.write_next(now, place, out).is_some();
            let Some(seat) = &mut self.seats[place] else {
                self.ready.pop_front();
                continue;
            };
            if has_written {
                seat.traffic.sent += Bytes::new((out.len() - before) as u64);
                seat.traffic.sent_messages += 1;
                seat.last_sent_at = now;
                return Some(seat.id);
            }
            seat.ready = false;
            self.ready.pop_front();
        }
        None
    }

    /// Writes the most urgent message for the member in this seat. Returns none if there is none.
    fn write_next(&mut self, now: Time, place: usize, out: &mut Vec<u8>) -> Option<()> {
        let newest = self.state.revision;
        let seat = self.seats[place].as_mut()?;
        let receipt =
            Receipt { upstream: seat.delivery.upstream, command: seat.command, revision: seat.command_revision };
        if seat.delivery.blocked {
            return None;
        }
        if seat.delivery.needs_snapshot || seat.delivery.sent < self.log_start {
            let snapshot = self.snapshot(place, receipt)?;
            let seat = self.seats[place].as_mut()?;
            seat.delivery.on_snapshot_sent(now, newest);
            snapshot.write(out);
            return Some(());
        }
        let sent = seat.delivery.sent;
        if sent < newest || seat.delivery.receipt_due {
            let first = (sent.0 - self.log_start.0) as usize;
            let (mut count, mut bytes) = (0, 0);
            for entry in self.log.iter().skip(first).take(MAX_CHANGES) {
                if bytes + entry.len() > MAX_MESSAGE_BYTES / 2 {
                    break;
                }
                (count, bytes) = (count + 1, bytes + entry.len());
            }
            write_changes_head(Revision(sent.0 + 1), receipt, count, out);
            self.log.iter().skip(first).take(count).for_each(|entry| out.extend_from_slice(entry));
            seat.delivery.on_sent(now, Revision(sent.0 + count as u64));
            return Some(());
        }
        let is_due = std::mem::take(&mut seat.poses_due);
        (is_due && seat.delivery.write_poses(now, seat.id, &mut self.subjects, out)).then_some(())
    }

    /// Returns the newest sample of the subject in this place, if the subject is visible.
    pub(super) fn newest(&self, place: usize) -> Option<&Sample> {
        let subject = self.subjects[place].as_ref().filter(|subject| !subject.hidden)?;
        subject.history.newest().map(|(_, sample)| sample)
    }

    fn snapshot(&self, place: usize, receipt: Receipt) -> Option<Snapshot> {
        Some(self.snapshot_for(self.seats[place].as_ref()?.id, receipt))
    }

    pub(super) fn snapshot_for(&self, you: MemberId, receipt: Receipt) -> Snapshot {
        let seat = self.places.get(&you).and_then(|place| self.seats[*place].as_ref());
        let twins = seat.map_or(&[][..], |seat| &seat.delivery.twins);
        let members = self.places.iter().filter_map(|(id, place)| {
            let member = self.state.member(*id)?.clone();
            let body = self.newest(self.objects.len() + place).filter(|_| !twins.contains(&SubjectId::Member(*id)));
            Some((*id, member, body.cloned()))
        });
        let objects = self
            .objects
            .iter()
            .filter_map(|(object, place)| Some((*object, self.state.owner(*object), *self.newest(*place)?.head())));
        Snapshot {
            you,
            revision: self.state.revision,
            receipt,
            events: self.state.events,
            members: members.collect(),
            objects: objects.collect(),
        }
    }
}
