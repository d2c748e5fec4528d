//! Combines what a room's synthetic members noticed.

use std::collections::BTreeMap;

use nearlight_rooms::{Cause, Digest, Revision};
use nearlight_units::{Bytes, Span, Time};

use crate::MemberEvent;

/// A shared action counts as fluent if all members saw it within this time. Guess: what two people who act on one thing take for at once
/// (Nielsen 1993, "0.1 second is about the limit for having the user feel that the system is reacting instantaneously").
pub(crate) const MAX_FLUENT_DELAY: Span = Span::from_millis(100);
/// A member that hears nothing of its room for longer than this while others move has a stall: five updates at 20 Hz.
pub(crate) const STALL: Span = Span::from_millis(250);

/// Latencies in microseconds, within 1 % of their value.
pub(crate) type Delays = nearlight_units::Buckets<7>;

/// Traffic of one member while the crowd is active, without the transport's headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    received: Bytes,
    received_in_datagrams: Bytes,
    sent: Bytes,
    from: Option<Time>,
    until: Option<Time>,
}

impl Traffic {
    /// The crowd is active at `now`, or it is not. Call often, and before counting.
    pub(crate) fn on_moment(&mut self, now: Time, active: bool) {
        if active {
            self.from = self.from.or(Some(now));
        } else if self.from.is_some() {
            self.until = self.until.or(Some(now));
        }
    }

    const fn counts(&self) -> bool {
        self.from.is_some() && self.until.is_none()
    }

    pub(crate) fn on_received(&mut self, bytes: usize) {
        if self.counts() {
            self.received += Bytes::new(bytes as u64);
        }
    }

    /// The received bytes came in a datagram.
    pub(crate) fn on_datagram(&mut self, bytes: usize) {
        self.on_received(bytes);
        if self.counts() {
            self.received_in_datagrams += Bytes::new(bytes as u64);
        }
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        if self.counts() {
            self.sent += Bytes::new(bytes as u64);
        }
    }

    fn length(&self, now: Time) -> Span {
        self.from.map_or(Span::ZERO, |from| self.until.unwrap_or(now).saturating_since(from))
    }
}

#[derive(Clone, Copy, Debug)]
struct Action {
    asked_at: Time,
    revision: Option<Revision>,
    seen: u32,
    last_seen_at: Time,
    refused: bool,
}

/// The changes of its room that a member was present for.
#[derive(Clone, Debug, Default)]
struct Presence {
    /// Revision with which the member was admitted.
    from: Option<Revision>,
    /// After the first and up to the second, it saw none.
    gaps: Vec<(Revision, Revision)>,
    until: Option<Revision>,
    heard_at: Option<Time>,
}

impl Presence {
    fn should_see(&self, revision: Revision) -> bool {
        self.from.is_some_and(|from| revision > from)
            && self.until.is_none_or(|until| revision <= until)
            && !self.gaps.iter().any(|(from, to)| revision > *from && revision <= *to)
    }
}

/// One room, while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoomTally {
    actions: BTreeMap<(u32, u32), Action>,
    members: Vec<Presence>,
    digests: BTreeMap<u64, u64>,
    tally: Tally,
}

/// All rooms of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Delay from a request until every member has seen its effect.
    pub(crate) interaction: Delays,
    /// Delay from a request until one member has seen its effect.
    pub(crate) delivery: Delays,
    /// Time from the beginning of the connection until the room is known.
    pub(crate) startup: Delays,
    /// Time from the loss of a member's connection until another one informs it of its room.
    pub(crate) moves: Delays,
    /// Delay from sending a voice packet until another member received it.
    pub(crate) voice: Delays,
    /// Packets of voices that members sent.
    pub(crate) spoken: u64,
    pub(crate) fluent: u64,
    pub(crate) asked: u64,
    pub(crate) shared: u64,
    pub(crate) refused: u64,
    /// Neither refused nor seen by anybody when the run ended.
    pub(crate) unanswered: u64,
    /// Changes that a member should have seen and did not.
    pub(crate) lost_events: u64,
    pub(crate) disagreeing: u64,
    pub(crate) compared: u64,
    pub(crate) stalls: u64,
    pub(crate) stalled: Span,
    pub(crate) joined: u64,
    /// Attempts to join after the server had asked a member to come again.
    pub(crate) retries: u64,
    /// Memberships that the room or the network ended before the run did, by their reasons.
    pub(crate) ended: BTreeMap<String, u64>,
    pub(crate) received: Bytes,
    pub(crate) received_in_datagrams: Bytes,
    pub(crate) sent: Bytes,
    /// Seconds of all members together, and of each with each of its neighbours.
    pub(crate) member_seconds: f64,
    pub(crate) neighbour_seconds: f64,
}

impl RoomTally {
    /// Returns the tally of a room with `members` synthetic members.
    #[must_use]
    pub fn new(members: usize) -> Self {
        Self { members: vec![Presence::default(); members], ..Self::default() }
    }

    /// The member in this place noticed an event; `began` is when it began to connect.
    pub fn on_record(&mut self, now: Time, began: Time, place: usize, record: &MemberEvent) {
        let presence = &mut self.members[place];
        match record {
            MemberEvent::Started { revision } => {
                presence.from = Some(*revision);
                self.tally.joined += 1;
                self.tally.startup.add(micros(now.saturating_since(began)));
            }
            MemberEvent::Asked { cause } => {
                self.tally.asked += 1;
                let action = Action { asked_at: now, revision: None, seen: 0, last_seen_at: now, refused: false };
                self.actions.insert(key(*cause), action);
            }
            MemberEvent::Seen { revision, cause } => {
                // Members other than synthetic ones act too.
                let Some(action) = self.actions.get_mut(&key(*cause)) else { return };
                action.revision = Some(*revision);
                action.seen += 1;
                action.last_seen_at = action.last_seen_at.max(now);
                self.tally.delivery.add(micros(now.saturating_since(action.asked_at)));
            }
            MemberEvent::Refused { cause } => {
                if let Some(action) = self.actions.get_mut(&key(*cause)) {
                    action.refused = true;
                }
            }
            MemberEvent::Missed { from, to } => {
                presence.gaps.push((*from, *to));
                self.tally.lost_events += to.since(*from);
            }
            MemberEvent::Spoke => self.tally.spoken += 1,
            MemberEvent::Heard { sent_at } => self.tally.voice.add(micros(now.saturating_since(*sent_at))),
            MemberEvent::Ended { .. } => {}
        }
    }

    /// The membership ended before the run, at this revision.
    pub fn on_ended(&mut self, place: usize, revision: Revision, words: &str) {
        self.members[place].until = Some(revision);
        *self.tally.ended.entry(words.to_owned()).or_default() += 1;
    }

    /// A message of the room's arrived; `moving`: others move, so that silence is a stall.
    pub fn on_heard(&mut self, now: Time, place: usize, moving: bool) {
        let presence = &mut self.members[place];
        if let Some(before) = presence.heard_at.replace(now).filter(|_| moving) {
            let silence = now.saturating_since(before);
            if silence > STALL {
                self.tally.stalls += 1;
                self.tally.stalled += silence;
            }
        }
    }

    /// A member comes again, as the server asked.
    pub(crate) const fn on_retry(&mut self) {
        self.tally.retries += 1;
    }

    /// A member has come to another server, after its connection broke.
    pub(crate) fn on_moved(&mut self, now: Time, lost_at: Time) {
        self.tally.moves.add(micros(now.saturating_since(lost_at)));
    }

    /// The state of a member that stayed to the end, after everybody has come to rest.
    pub fn on_digest(&mut self, digest: Digest) {
        *self.digests.entry(digest.0).or_default() += 1;
    }

    /// Adds the traffic of a member.
    pub(crate) fn on_traffic(&mut self, now: Time, traffic: Traffic) {
        let there = traffic.length(now);
        self.tally.received += traffic.received;
        self.tally.received_in_datagrams += traffic.received_in_datagrams;
        self.tally.sent += traffic.sent;
        self.tally.member_seconds += there.as_secs_f64();
        self.tally.neighbour_seconds += there.as_secs_f64() * self.members.len().saturating_sub(1) as f64;
    }

    pub fn on_dropped_events(&mut self, count: u64) {
        self.tally.lost_events += count;
    }

    /// Figures so far; those that need all members are still zero.
    #[must_use]
    pub const fn so_far(&self) -> &Tally {
        &self.tally
    }

    /// The room's figures, once its members have come to rest.
    #[must_use]
    pub fn finish(mut self) -> Tally {
        for action in self.actions.values() {
            let Some(revision) = action.revision else {
                if action.refused {
                    self.tally.refused += 1;
                } else {
                    self.tally.unanswered += 1;
                }
                continue;
            };
            let expected = self.members.iter().filter(|member| member.should_see(revision)).count() as u64;
            self.tally.shared += 1;
            self.tally.lost_events += expected.saturating_sub(u64::from(action.seen));
            if u64::from(action.seen) >= expected {
                let delay = action.last_seen_at.saturating_since(action.asked_at);
                self.tally.interaction.add(micros(delay));
                self.tally.fluent += u64::from(delay <= MAX_FLUENT_DELAY);
            }
        }
        self.tally.compared = self.digests.values().sum();
        self.tally.disagreeing = self.tally.compared - self.digests.values().max().copied().unwrap_or(0);
        self.tally
    }
}

impl Tally {
    /// Adds another room.
    pub fn merge(&mut self, other: &Self) {
        self.interaction.merge(&other.interaction);
        self.delivery.merge(&other.delivery);
        self.startup.merge(&other.startup);
        self.moves.merge(&other.moves);
        self.voice.merge(&other.voice);
        for (mine, theirs) in [
            (&mut self.spoken, other.spoken),
            (&mut self.fluent, other.fluent),
            (&mut self.asked, other.asked),
            (&mut self.shared, other.shared),
            (&mut self.refused, other.refused),
            (&mut self.unanswered, other.unanswered),
            (&mut self.lost_events, other.lost_events),
            (&mut self.disagreeing, other.disagreeing),
            (&mut self.compared, other.compared),
            (&mut self.stalls, other.stalls),
            (&mut self.joined, other.joined),
            (&mut self.retries, other.retries),
        ] {
            *mine += theirs;
        }
        self.stalled += other.stalled;
        self.received += other.received;
        self.received_in_datagrams += other.received_in_datagrams;
        self.sent += other.sent;
        self.member_seconds += other.member_seconds;
        self.neighbour_seconds += other.neighbour_seconds;
        for (words, count) in &other.ended {
            *self.ended.entry(words.clone()).or_default() += count;
        }
    }
}

const fn key(cause: Cause) -> (u32, u32) {
    (cause.by.0, cause.command.0)
}

pub(crate) fn micros(span: Span) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use nearlight_rooms::{CommandNumber, MemberId};

    use super::*;

    const fn cause(by: u32, command: u32) -> Cause {
        Cause { by: MemberId(by), command: CommandNumber(command) }
    }

    const fn seen(revision: u64, cause: Cause) -> MemberEvent {
        MemberEvent::Seen { revision: Revision(revision), cause }
    }

    /// Two members that are there from revision 2 on, and a third from revision 4 on.
    fn room() -> RoomTally {
        let mut room = RoomTally::new(3);
        for (place, revision) in [(0, 2), (1, 2), (2, 4)] {
            room.on_record(
                Time::from_millis(30),
                Time::ZERO,
                place,
                &MemberEvent::Started { revision: Revision(revision) },
            );
        }
        room
    }

    #[test]
    fn an_action_lasts_until_the_last_of_those_who_were_there_has_seen_it() {
        let mut room = room();
        let mut at = |milliseconds, place, record: MemberEvent| {
            room.on_record(Time::from_millis(milliseconds), Time::ZERO, place, &record);
        };
        at(100, 0, MemberEvent::Asked { cause: cause(1, 1) });
        at(120, 0, seen(3, cause(1, 1)));
        at(150, 1, seen(3, cause(1, 1)));
        at(200, 1, MemberEvent::Asked { cause: cause(2, 1) });
        at(210, 1, seen(5, cause(2, 1)));
        at(220, 2, seen(5, cause(2, 1)));
        at(400, 0, seen(5, cause(2, 1)));
        at(500, 2, MemberEvent::Asked { cause: cause(3, 1) });
        at(520, 2, MemberEvent::Refused { cause: cause(3, 1) });
        let tally = room.finish();
        assert_eq!((tally.asked, tally.shared, tally.refused, tally.fluent, tally.lost_events), (3, 2, 1, 1, 0));
        assert_eq!(tally.interaction.quantile(0.5).map(|bucket| bucket.first / 1_000), Some(49));
        assert_eq!(tally.interaction.count(), 2);
    }

    #[test]
    fn what_somebody_did_not_see_is_lost_once() {
        let mut room = room();
        let now = Time::from_secs(1);
        room.on_record(now, Time::ZERO, 0, &MemberEvent::Asked { cause: cause(1, 1) });
        room.on_record(now, Time::ZERO, 0, &MemberEvent::Asked { cause: cause(1, 2) });
        room.on_record(now, Time::ZERO, 0, &seen(5, cause(1, 1)));
        room.on_record(now, Time::ZERO, 1, &seen(5, cause(1, 1)));
        for place in [0, 1, 2] {
            room.on_record(now, Time::ZERO, place, &seen(6, cause(1, 2)));
        }
        let missed = MemberEvent::Missed { from: Revision(4), to: Revision(5) };
        room.on_record(now, Time::ZERO, 2, &missed);
        assert_eq!(room.clone().finish().lost_events, 1);
        // Without that, changes were neither reported nor seen.
        room.members[2].gaps.clear();
        room.tally.lost_events = 0;
        let tally = room.finish();
        assert_eq!((tally.lost_events, tally.shared, tally.interaction.count()), (1, 2, 1));
    }

    #[test]
    fn those_who_differ_from_most_disagree() {
        let mut room = room();
        for digest in [7, 7, 8] {
            room.on_digest(Digest(digest));
        }
        let tally = room.finish();
        assert_eq!((tally.compared, tally.disagreeing), (3, 1));
    }

    #[test]
    fn silence_while_others_move_is_a_stall() {
        let mut room = room();
        for (milliseconds, moving) in [(0, true), (200, true), (1_000, true), (5_000, false)] {
            room.on_heard(Time::from_millis(milliseconds), 1, moving);
        }
        let tally = room.finish();
        assert_eq!((tally.stalls, tally.stalled), (1, Span::from_millis(800)));
    }
}
