//! Continuation: members whose connections broke, and rooms that another program continues.

use std::net::IpAddr;

use nearlight_units::Time;

use super::{Room, RoomConfig, Seat};
use crate::delivery::Subject;
use crate::message::{MAX_MEMBERS, MAX_OBJECTS, MessageError, SavedRoom, SavedSeat, SeatKey, SubjectId};
use crate::pose::Sample;
use crate::state::{MemberId, Role, RoomState};

/// Member ids that are skipped in a new term, because the room may have assigned them after its checkpoint.
const MEMBER_GAP: u32 = MAX_MEMBERS as u32;

/// Why a room cannot be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    #[error("the checkpoint cannot be read: {0}")]
    Message(#[from] MessageError),
    #[error("the checkpoint is of term {of}, which is not before term {term}")]
    Term { of: u32, term: u32 },
    #[error(
        "the checkpoint contradicts itself: it has a member, an object or a key twice, or owners that are no members"
    )]
    Contradictory,
}

impl Room {
    /// Handles a broken connection. A member with a key keeps its seat until it has been silent for too long; any other member has left.
    pub fn on_lost(&mut self, now: Time, member: MemberId) {
        if self.seat_mut(member).is_some_and(|seat| seat.key.is_some()) {
            self.on_blocked(member);
        } else {
            self.on_leave(now, member);
        }
    }

    /// Ends a pause of the room. The time of the pause does not count as silence of the members.
    pub fn on_pause_over(&mut self, now: Time) {
        for seat in self.seats.iter_mut().flatten() {
            (seat.heard_at, seat.delivery.behind_since) = (now, None);
        }
    }

    /// Returns the role that is granted to a client that may have `wished`. Only the first host gets that role; it makes others hosts.
    #[must_use]
    pub fn grantable(&self, wished: Role) -> Role {
        let has_host = self.state.members().any(|(_, member)| member.role == Role::Host);
        if wished == Role::Host && has_host { Role::Guest } else { wished }
    }

    /// Returns the member whose seat has this key, which reclaims it over another connection. With a token of the same role as before, its
    /// role stays, which a host may have changed. With another token, it gets a role that this one permits.
    pub(super) fn claim_seat(
        &mut self,
        now: Time,
        key: SeatKey,
        address: Option<IpAddr>,
        permitted: Role,
    ) -> Option<MemberId> {
        let has_key = |seat: &Seat| seat.key == Some(key) && !seat.local;
        let place = self.seats.iter().position(|seat| seat.as_deref().is_some_and(has_key))?;
        let mut seat = self.seats[place].take()?;
        let mut fresh = self.new_seat(now, seat.id, false);
        fresh.delivery.adopt_numbers();
        fresh.delivery.twins = std::mem::take(&mut seat.delivery.twins);
        (seat.delivery, seat.clock, seat.heard_at) = (fresh.delivery, None, now);
        (seat.poses_due, seat.adopts_commands, seat.address) = (false, true, address);
        let (id, former) = (seat.id, seat.permitted);
        seat.permitted = permitted;
        self.seats[place] = Some(seat);
        self.make_ready(place);
        // Roles are ordered, the highest first.
        let role = self.state.member(id).map_or(permitted, |member| member.role);
        if permitted > former && permitted > role {
            self.set_role(id, permitted);
        } else if permitted < former {
            self.set_role(id, self.grantable(permitted));
        }
        Some(id)
    }

    /// Appends everything that another program needs to continue the room, without local members. The length is at most
    /// [`MAX_CHECKPOINT_BYTES`](crate::MAX_CHECKPOINT_BYTES).
    pub fn write_checkpoint(&self, out: &mut Vec<u8>) {
        let mut snapshot = self.snapshot_for(MemberId(self.next_member), crate::message::Receipt::default());
        let mut seats = Vec::new();
        snapshot.members.retain(|(id, _, _)| {
            let seat = self.places.get(id).and_then(|place| self.seats[*place].as_ref()).filter(|seat| !seat.local);
            seats.extend(seat.map(|seat| SavedSeat {
                key: seat.key,
                permitted: seat.permitted,
                command: seat.command,
            }));
            seat.is_some()
        });
        for (_, owner, _) in &mut snapshot.objects {
            *owner = owner.filter(|owner| snapshot.members.iter().any(|(id, _, _)| id == owner));
        }
        SavedRoom { snapshot, seats, removed: self.removed.iter().copied().collect() }.write(out);
    }

    /// Continues a room in a later term than the one that wrote the checkpoint. Its members have seats, which they reclaim by
    /// [`Room::on_join`] with their keys. Members that do not are silent, and leave.
    pub fn restore(now: Time, config: RoomConfig, checkpoint: &[u8], term: u32) -> Result<Self, CheckpointError> {
        let SavedRoom { snapshot, seats, removed } = SavedRoom::parse(checkpoint)?;
        if snapshot.revision.term() >= term {
            return Err(CheckpointError::Term { of: snapshot.revision.term(), term });
        }
        let mut room = Self::new(now, config, &[]).expect("a world without objects");
        for client in removed {
            room.removed.add(now, client);
        }
        for (object, _, pose) in snapshot.objects.iter().take(MAX_OBJECTS) {
            let mut subject = Subject::new(SubjectId::Object(*object), now);
            subject.set(now, now, None, Sample::of_object(*pose));
            subject.owned_since = snapshot.revision.in_term(term);
            if room.objects.insert(*object, room.subjects.len()).is_some() {
                return Err(CheckpointError::Contradictory);
            }
            room.subjects.push(Some(subject));
        }
        let owners = snapshot.objects.iter().map(|(object, owner, _)| (*object, *owner));
        room.state = RoomState {
            revision: snapshot.revision.in_term(term),
            members: snapshot.members.iter().map(|(id, member, _)| (*id, member.clone())).collect(),
            objects: owners.collect(),
            events: snapshot.events,
        };
        room.log_start = room.state.revision;
        let is_member = |id: &MemberId| room.state.members.contains_key(id);
        if !room.state.objects.values().flatten().all(is_member) {
            return Err(CheckpointError::Contradictory);
        }
        let mut next_member = snapshot.you.0;
        let mut keys = std::collections::BTreeSet::new();
        for ((id, member, body), SavedSeat { key, permitted, command }) in snapshot.members.into_iter().zip(seats) {
            let place = room.seats.len();
            if room.places.insert(id, place).is_some() || key.is_some_and(|key| !keys.insert(key)) {
                return Err(CheckpointError::Contradictory);
            }
            room.seats.push(None);
            room.subjects.push(None);
            let mut seat = room.new_seat(now, id, false);
            (seat.key, seat.permitted) = (key, permitted);
            (seat.command, seat.command_revision) = (command, room.state.revision);
            seat.delivery.blocked = true;
            room.seats[place] = Some(Box::new(seat));
            room.set_body_place(now, place, Some(id));
            if let Some(body) = body {
                let subject = room.objects.len() + place;
                room.set_subject(now, now, subject, Some(id), body);
            }
            room.set_hidden(place, !member.role.acts());
            next_member = next_member.max(id.0);
        }
        room.remote = room.places.len();
        room.next_member = next_member.saturating_add(MEMBER_GAP);
        Ok(room)
    }

    /// Sets the term of a new room that several servers share, above 0. It distinguishes the room from an earlier room of the same name.
    #[must_use]
    pub fn in_term(mut self, term: u32) -> Self {
        self.state.revision = self.state.revision.in_term(term);
        self.log_start = self.state.revision;
        self.log.clear();
        self.log_bytes = 0;
        self
    }
}
