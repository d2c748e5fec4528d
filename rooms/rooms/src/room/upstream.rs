//! Handles the messages of members.

use nearlight_units::{Span, Time};

use super::Room;
use crate::interest::Viewer;
use crate::message::{Command, EndReason, MAX_EVENT_BYTES, Upstream};
use crate::pose::{QuantisedPose, Sample};
use crate::removal::RemovedClient;
use crate::state::{Cause, Change, CommandNumber, MemberId, ObjectId, Role};

/// Shortest silence that counts as an outage. A member at rest sends a keep-alive every second.
const MIN_OUTAGE: Span = Span::from_millis(1_500);

/// Time without a message to a member after which its next message is answered. So every keep-alive is answered, which shows a member at
/// rest that the room is alive.
const MAX_UNANSWERED_TIME: Span = Span::from_millis(500);

impl Room {
    pub(super) fn on_upstream(&mut self, now: Time, member: MemberId, upstream: Upstream) {
        let Some(place) = self.places.get(&member).copied() else { return };
        let Some(seat) = &mut self.seats[place] else { return };
        let was_silent = now.saturating_since(std::mem::replace(&mut seat.heard_at, now)) >= MIN_OUTAGE;
        seat.delivery.on_revision(now, upstream.revision);
        if was_silent {
            seat.delivery.on_outage_over(now);
        }
        let is_unanswered = now.saturating_since(seat.last_sent_at) >= MAX_UNANSWERED_TIME;
        seat.delivery.receipt_due |= is_unanswered;
        if was_silent || is_unanswered {
            self.make_ready(place);
        }
        let Some(seat) = &mut self.seats[place] else { return };
        seat.delivery.on_received(now, upstream.received);
        let captured_at = seat.captured_at(now, upstream.captured);
        let is_newer = upstream.number > seat.delivery.upstream;
        if is_newer {
            seat.delivery.upstream = upstream.number;
            seat.delivery.upstream_due |= upstream.body.is_some() || !upstream.objects.is_empty();
        }
        if !upstream.commands.is_empty() {
            seat.delivery.receipt_due = true;
            self.make_ready(place);
            self.on_commands(now, member, upstream.first_command, &upstream.commands);
        }
        // Poses that are older than the known ones are obsolete, and nobody moves objects that others hold.
        if !is_newer || !self.places.contains_key(&member) {
            return;
        }
        if let Some(body) = upstream.body {
            if let Some(seat) = &mut self.seats[place] {
                seat.delivery.viewer = Some(Viewer::new(body.head()));
            }
            self.set_subject(now, captured_at, self.objects.len() + place, Some(member), body);
        }
        for (object, pose) in upstream.objects {
            let place = self.objects.get(&object).copied();
            let subject = place.and_then(|place| self.subjects[place].as_ref());
            let knows = subject.is_some_and(|subject| upstream.revision >= subject.owned_since);
            if knows && self.state.owner(object) == Some(member) {
                self.carry(now, captured_at, object, member, pose);
            } else {
                self.counters.foreign_poses += 1;
            }
        }
    }

    /// Sets a new sample of the subject in this place, unless the subject is hidden.
    pub(super) fn set_subject(
        &mut self,
        now: Time,
        captured_at: Time,
        place: usize,
        by: Option<MemberId>,
        sample: Sample,
    ) {
        if let Some(subject) = self.subjects[place].as_mut().filter(|subject| !subject.hidden) {
            subject.set(now, captured_at, by, sample);
        }
    }

    /// Moves an object on behalf of its holder.
    fn carry(&mut self, now: Time, captured_at: Time, object: ObjectId, by: MemberId, pose: QuantisedPose) {
        if let Some(place) = self.objects.get(&object).copied() {
            self.set_subject(now, captured_at, place, Some(by), Sample::of_object(pose));
        }
    }

    fn on_commands(&mut self, now: Time, member: MemberId, first: CommandNumber, commands: &[Command]) {
        if let Some(seat) = self.seat_mut(member).filter(|seat| seat.adopts_commands) {
            seat.adopts_commands = false;
            seat.command.0 = seat.command.0.max(first.0.saturating_sub(1));
        }
        for (number, command) in (first.0..).zip(commands) {
            let Some(seat) = self.seat_mut(member) else { return };
            if number <= seat.command.0 {
                continue;
            }
            // Commands are executed in order and within the member's limits. The member repeats the others.
            if number != seat.command.0 + 1 || !seat.limits.take_command(now) {
                return;
            }
            seat.command = CommandNumber(number);
            if !self.carry_out(now, Cause { by: member, command: CommandNumber(number) }, command) {
                self.counters.refused_commands += 1;
            }
            let revision = self.state.revision;
            if let Some(seat) = self.seat_mut(member) {
                seat.command_revision = revision;
            }
        }
    }

    pub(super) fn set_role(&mut self, member: MemberId, role: Role) {
        if let Some(place) = self.places.get(&member).copied() {
            self.set_hidden(place, !role.acts());
            self.append(&Change::Role { id: member, role });
        }
    }

    /// Executes a member's command, if it may do that. Returns false if nothing changed.
    pub(super) fn carry_out(&mut self, now: Time, cause: Cause, command: &Command) -> bool {
        let by = cause.by;
        let Some(role) = self.state.member(by).map(|member| member.role) else { return false };
        let owner = |object: &ObjectId| self.state.objects.get(object).copied();
        let acts = |id: &MemberId| self.state.member(*id).is_some_and(|member| member.role.acts());
        match command {
            Command::Take { object } => {
                let is_free = match owner(object) {
                    Some(None) => role.acts(),
                    Some(Some(holder)) => role == Role::Host && holder != by,
                    None => false,
                };
                if is_free {
                    self.append(&Change::Owner { object: *object, owner: Some(by), cause });
                }
                is_free
            }
            Command::Release { object, pose } => {
                let holds = owner(object) == Some(Some(by));
                if holds {
                    self.carry(now, now, *object, by, *pose);
                    self.append(&Change::Owner { object: *object, owner: None, cause });
                }
                holds
            }
            Command::HandOver { object, to, pose } => {
                let may = owner(object) == Some(Some(by)) && *to != by && acts(to);
                if may {
                    self.carry(now, now, *object, by, *pose);
                    self.append(&Change::Owner { object: *object, owner: Some(*to), cause });
                }
                may
            }
            Command::Event { kind, data } => {
                let may = role.acts() && data.len() <= MAX_EVENT_BYTES;
                if may {
                    self.append(&Change::Event { kind: *kind, data: data.clone(), cause });
                }
                may
            }
            Command::SetRole { member, role: wanted } => {
                let differs = self.state.member(*member).is_some_and(|member| member.role != *wanted);
                let may = role == Role::Host && differs;
                if may {
                    self.set_role(*member, *wanted);
                }
                may
            }
            Command::Remove { member } => {
                let may = role == Role::Host && self.state.member(*member).is_some();
                if may {
                    let seat = self.seat_mut(*member).filter(|seat| !seat.local);
                    let client = seat.map(|seat| RemovedClient { key: seat.key, address: seat.address });
                    if let Some(client) = client {
                        self.removed.add(now, client);
                    }
                    self.end(now, *member, Some(EndReason::Removed));
                }
                may
            }
        }
    }
}
