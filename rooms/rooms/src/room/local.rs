//! Local members, which are in the room's own program, and objects that the program's world moves.

use nearlight_units::Time;
use nearlight_wire::Pose;

use super::{JoinError, Room};
use crate::message::SeatKey;
use crate::pose::{Avatar, NotAPose, QuantisedPose, Sample};
use crate::replica::Request;
use crate::state::{Cause, Member, MemberId, ObjectId};

impl Room {
    /// Adds a local member. It acts by [`Room::set_body`] and [`Room::request`], and reads the room directly. It stays until
    /// [`Room::on_leave`], or until a host removes it. `key` is that of its page, by which the page keeps its name while it is in the room
    /// a second time; it claims no seat.
    pub fn on_local_join(&mut self, now: Time, member: Member, key: Option<SeatKey>) -> Result<MemberId, JoinError> {
        self.admit(now, member, key, true)
    }

    /// Sets the body of a local member. It has no effect for other members and for spectators.
    pub fn set_body(&mut self, now: Time, member: MemberId, body: &Avatar) -> Result<(), NotAPose> {
        let sample = Sample::of_avatar(body)?;
        let Some(place) = self.places.get(&member).copied() else { return Ok(()) };
        if self.seats[place].as_ref().is_some_and(|seat| seat.local) {
            self.set_subject(now, now, self.objects.len() + place, Some(member), sample);
        }
        Ok(())
    }

    /// Moves an object on behalf of the room's own world, unless a remote member holds it.
    pub fn set_object(&mut self, now: Time, object: ObjectId, pose: &Pose) -> Result<(), NotAPose> {
        let sample = Sample::of_object(QuantisedPose::new(pose)?);
        let holder = self.state.owner(object).and_then(|owner| self.places.get(&owner));
        let is_local = holder.and_then(|place| self.seats[*place].as_ref()).is_none_or(|seat| seat.local);
        if let Some(place) = self.objects.get(&object).copied().filter(|_| is_local) {
            self.set_subject(now, now, place, None, sample);
        }
        Ok(())
    }

    /// Executes a request of a local member. Returns false if nothing changed, because another member was first or this one may not do
    /// that.
    pub fn request(&mut self, now: Time, member: MemberId, request: Request) -> bool {
        let Ok(command) = request.into_command(|object| self.object_pose(object)) else { return false };
        let Some(seat) = self.seat_mut(member).filter(|seat| seat.local) else { return false };
        seat.command.0 += 1;
        let cause = Cause { by: member, command: seat.command };
        self.carry_out(now, cause, &command)
    }

    /// Returns a member's body. None for a spectator, and before it has been set.
    #[must_use]
    pub fn body(&self, member: MemberId) -> Option<Avatar> {
        let place = self.objects.len() + self.places.get(&member)?;
        self.newest(place).map(Sample::avatar)
    }

    /// Returns the heads of all members that have a body.
    pub fn heads(&self) -> impl Iterator<Item = Pose> {
        self.places.keys().filter_map(|member| Some(self.body(*member)?.head))
    }

    /// Returns the pose of an object.
    #[must_use]
    pub fn object(&self, object: ObjectId) -> Option<Pose> {
        self.object_pose(object).map(|pose| pose.pose())
    }
}
