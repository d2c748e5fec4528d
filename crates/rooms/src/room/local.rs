//! What the room's own program does in it: members that are there without a network, and a world that moves the objects.

use nearlight_units::Time;
use nearlight_wire::Pose;

use super::{JoinError, Room};
use crate::pose::{Avatar, NotAPose, QuantisedPose, Sample};
use crate::replica::Request;
use crate::state::{Cause, Member, MemberId, ObjectId};

impl Room {
    /// Somebody joins who is in the room's own program: it acts by [`Room::set_body`] and [`Room::request`], and reads the room itself.
    /// It stays until [`Room::on_leave`], or until a host removes it.
    pub fn on_local_join(&mut self, now: Time, member: Member) -> Result<MemberId, JoinError> {
        self.admit(now, member, true)
    }

    /// Where a local member's body is. Members of other programs, and spectators, have none that could be set.
    pub fn set_body(&mut self, now: Time, member: MemberId, body: &Avatar) -> Result<(), NotAPose> {
        let sample = Sample::of_avatar(body)?;
        let Some(place) = self.places.get(&member).copied() else { return Ok(()) };
        if self.seats[place].as_ref().is_some_and(|seat| seat.local) {
            self.set_subject(now, now, self.objects.len() + place, Some(member), sample);
        }
        Ok(())
    }

    /// Moves an object that no other program's member holds: the room's own world does.
    pub fn set_object(&mut self, now: Time, object: ObjectId, pose: &Pose) -> Result<(), NotAPose> {
        let sample = Sample::of_object(QuantisedPose::new(pose)?);
        let holder = self.state.owner(object).and_then(|owner| self.places.get(&owner));
        let is_local = holder.and_then(|place| self.seats[*place].as_ref()).is_none_or(|seat| seat.local);
        if let Some(place) = self.objects.get(&object).copied().filter(|_| is_local) {
            self.set_subject(now, now, place, None, sample);
        }
        Ok(())
    }

    /// Does what a local member asks. False if nothing changed: somebody else was first, or it may not.
    pub fn request(&mut self, now: Time, member: MemberId, request: Request) -> bool {
        let Ok(command) = request.into_command(|object| self.object_pose(object)) else { return false };
        let Some(seat) = self.seat_mut(member).filter(|seat| seat.local) else { return false };
        seat.command.0 += 1;
        let cause = Cause { by: member, command: seat.command };
        self.carry_out(now, cause, &command)
    }

    /// Where a member's body is; none of a spectator, and before it has been set.
    #[must_use]
    pub fn body(&self, member: MemberId) -> Option<Avatar> {
        let place = self.objects.len() + self.places.get(&member)?;
        self.newest(place).map(Sample::avatar)
    }

    /// Where an object is.
    #[must_use]
    pub fn object(&self, object: ObjectId) -> Option<Pose> {
        self.object_pose(object).map(|pose| pose.pose())
    }
}
