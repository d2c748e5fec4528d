//! A crowd over the lab's links in virtual time, one room after the other: the same rooms and the same members as live, without sockets.
//!
//! Every message is one packet, however long. Links are not reliable, and rooms do not need them to be. No controller measures the links: rooms keep
//! their initial rate ([`RoomConfig::rate`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use nearlight_link::{FlowId, Hop as _, LoadedPath, Packet, Path};
use nearlight_rooms::{Join, MemberId, ObjectId, Room, RoomConfig, RoomEvent, is_voice};
use nearlight_units::{Bytes, Span, Time};
use nearlight_wire::Pose;

use crate::summary::RunFacts;
use crate::{MemberSetup, Profile, RoomTally, Summary, SyntheticMember, Tally, Traffic};

/// Bytes that IPv4, UDP and a QUIC datagram add to a message.
const HEADERS: u64 = 60;

/// A join is sent again after this, as TCP would at the earliest (the least retransmission time-out of Linux).
const JOIN_TIMEOUT: Span = Span::from_millis(200);

/// The configuration of a simulation.
pub struct Options {
    pub profile: Arc<Profile>,
    pub members: usize,
    pub rooms: usize,
    pub seed: u64,
    /// Each way between a member and its room.
    pub path: LoadedPath,
    pub room: RoomConfig,
    pub objects: Vec<(ObjectId, Pose)>,
}

/// Simulates all rooms. After each one calls `progress` with how many rooms are done and how many members joined them; the run ends there if
/// it answers false.
pub fn run(options: &Options, mut progress: impl FnMut(usize, u64) -> bool) -> Summary {
    let mut tally = Tally::default();
    let (mut done, mut members) = (0, 0);
    for room in 0..options.rooms {
        // Members go to rooms in turn.
        let own: Vec<usize> = (room..options.members).step_by(options.rooms).collect();
        members += own.len();
        tally.merge(&Simulation::new(options, room, &own).run());
        done += 1;
        if !progress(done, tally.joined) {
            break;
        }
    }
    let facts = RunFacts {
        profile: &options.profile,
        rooms: done,
        members,
        complete: done == options.rooms,
        carrier: None,
        path: Some(options.path.spec().to_string()),
        length: options.profile.length(),
        swarm_cores: None,
        server_cores: None,
    };
    Summary::new(facts, &tally)
}

/// One direction between a member and its room.
struct Direction {
    path: Path,
    /// Each with the portion of it that is on the way: see [`Packet::portion`].
    messages: BTreeMap<u64, (Vec<u8>, u64)>,
    next: u64,
}

impl Direction {
    fn new(options: &Options, seed: u64) -> Self {
        Self { path: options.path.path(seed), messages: BTreeMap::new(), next: 0 }
    }

    fn offer(&mut self, now: Time, message: &[u8]) {
        self.messages.insert(self.next, (message.to_vec(), Packet::PORTIONS));
        let size = Bytes::new(message.len() as u64 + HEADERS);
        self.path.offer(now, Packet::new(self.next, FlowId(0), size));
        self.next += 1;
    }

    /// The next message that has arrived. A copy that the network made of a message arrives as well.
    fn poll(&mut self, now: Time) -> Option<Vec<u8>> {
        loop {
            let exit = self.path.poll(now)?;
            let Some((message, left)) = self.messages.get_mut(&exit.packet.id) else { continue };
            *left = left.saturating_sub(exit.packet.portion());
            let is_last = *left == 0;
            let message = exit.is_delivered().then(|| message.clone());
            if is_last {
                self.messages.remove(&exit.packet.id);
            }
            if message.is_some() {
                return message;
            }
        }
    }
}

struct Client {
    setup: MemberSetup,
    joins_at: Time,
    /// When it sends its join, again until the room has let it in.
    next_join: Option<Time>,
    /// None before the member has joined, and after its membership has ended.
    synthetic: Option<SyntheticMember>,
    id: Option<MemberId>,
    up: Direction,
    down: Direction,
    due: Option<Time>,
    traffic: Traffic,
}

impl Client {
    fn timeout(&self) -> Option<Time> {
        let own = match &self.synthetic {
            Some(synthetic) => synthetic.poll_timeout(),
            None => self.next_join,
        };
        [own, self.up.path.poll_timeout(), self.down.path.poll_timeout()].into_iter().flatten().min()
    }
}

impl Client {
    /// The join message has arrived at the room.
    fn join(&mut self, now: Time, room: &mut Room, message: &[u8]) -> Option<MemberId> {
        let join = Join::parse(message).ok()?;
        let id = room.on_join(now, &join, join.role).ok()?;
        (self.id, self.next_join) = (Some(id), None);
        self.synthetic = Some(SyntheticMember::new(now, &self.setup));
        Some(id)
    }
}

struct Simulation {
    room: Room,
    clients: Vec<Client>,
    places: BTreeMap<MemberId, usize>,
    /// Moments at which a client has something to do; those that no longer hold are skipped.
    due: BinaryHeap<Reverse<(Time, usize)>>,
    tally: RoomTally,
    out: Vec<u8>,
    /// Everybody has joined.
    gathered_at: Time,
    rests_at: Time,
    ends_at: Time,
}

impl Simulation {
    fn new(options: &Options, number: usize, members: &[usize]) -> Self {
        let profile = &options.profile;
        let room = Room::new(Time::ZERO, options.room, &options.objects).expect("objects have poses");
        let seed = options.seed.wrapping_mul(1 << 20).wrapping_add(number as u64);
        let client = |(place, number): (usize, &usize)| {
            let setup = MemberSetup {
                profile: Arc::clone(profile),
                room: "main".into(),
                place,
                members: members.len(),
                number: *number,
                seed,
                key: None,
            };
            let joins_at = Time::ZERO + profile.joins_at(*number, options.members);
            let path_seed = seed.wrapping_mul(1 << 20).wrapping_add(*number as u64 * 2);
            let (up, down) = (Direction::new(options, path_seed), Direction::new(options, path_seed + 1));
            let due = Some(joins_at);
            Client {
                setup,
                joins_at,
                next_join: due,
                synthetic: None,
                id: None,
                up,
                down,
                due,
                traffic: Traffic::default(),
            }
        };
        let clients: Vec<Client> = members.iter().enumerate().map(client).collect();
        let due = clients.iter().enumerate().map(|(place, client)| Reverse((client.joins_at, place))).collect();
        let gathered_at = Time::ZERO + profile.ramp();
        let ends_at = Time::ZERO + profile.length();
        let rests_at = ends_at - Span::from_secs_f64(profile.rest_seconds);
        let tally = RoomTally::new(members.len());
        Self { room, clients, places: BTreeMap::new(), due, tally, out: Vec::new(), gathered_at, rests_at, ends_at }
    }

    fn run(mut self) -> Tally {
        let mut now = Time::ZERO;
        let mut resting = false;
        while now < self.ends_at {
            if !resting && now >= self.rests_at {
                resting = true;
                self.clients
                    .iter_mut()
                    .filter_map(|client| client.synthetic.as_mut())
                    .for_each(SyntheticMember::set_resting);
            }
            while let Some(Reverse((due, place))) = self.due.peek().copied().filter(|Reverse((due, _))| *due <= now) {
                self.due.pop();
                if self.clients[place].due == Some(due) {
                    self.clients[place].due = None;
                    self.serve(now, place);
                }
            }
            self.room.on_timeout(now);
            self.drain(now);
            let next = self.due.peek().map(|Reverse((due, _))| *due);
            let turn = Some(if resting { self.ends_at } else { self.rests_at });
            now = [next, self.room.poll_timeout(), turn].into_iter().flatten().min().unwrap_or(self.ends_at).max(now);
        }
        self.finish()
    }

    /// Everything that a client has to do now.
    fn serve(&mut self, now: Time, place: usize) {
        let client = &mut self.clients[place];
        if client.next_join.is_some_and(|due| now >= due) {
            client.up.offer(now, &crate::synthetic::join(&client.setup).to_bytes());
            client.next_join = Some(now + JOIN_TIMEOUT);
        }
        let moving = now > self.gathered_at && now < self.rests_at;
        client.traffic.on_moment(now, moving);
        while let Some(message) = client.down.poll(now) {
            client.traffic.on_received(message.len());
            let Some(synthetic) = &mut client.synthetic else { continue };
            synthetic.on_message(now, &message).expect("a room's messages can be read");
            if !is_voice(&message) {
                self.tally.on_heard(now, place, moving);
            }
        }
        if let Some(synthetic) = &mut client.synthetic {
            synthetic.on_timeout(now);
            self.out.clear();
            while synthetic.poll_transmit(now, &mut self.out) {
                client.traffic.on_sent(self.out.len());
                client.up.offer(now, &self.out);
                self.out.clear();
            }
            while let Some(record) = synthetic.poll_record() {
                self.tally.on_record(now, client.joins_at, place, &record);
            }
        }
        while let Some(message) = client.up.poll(now) {
            match client.id {
                Some(id) => self.room.on_message(now, id, &message),
                None => self.places.extend(client.join(now, &mut self.room, &message).map(|id| (id, place))),
            }
        }
        self.schedule(place);
    }

    fn schedule(&mut self, place: usize) {
        let client = &mut self.clients[place];
        let due = client.timeout();
        if client.due != due {
            client.due = due;
            self.due.extend(due.map(|due| Reverse((due, place))));
        }
    }

    /// Sends what the room has to say.
    fn drain(&mut self, now: Time) {
        self.out.clear();
        while let Some(member) = self.room.poll_transmit(now, &mut self.out) {
            if let Some(place) = self.places.get(&member).copied() {
                self.clients[place].down.offer(now, &self.out);
                self.schedule(place);
            }
            self.out.clear();
        }
        while let Some((member, message)) = self.room.poll_voice() {
            if let Some(place) = self.places.get(&member).copied() {
                self.clients[place].down.offer(now, &message);
                self.schedule(place);
            }
        }
        while let Some(event) = self.room.poll_event() {
            if let RoomEvent::Ended { member, reason } = event
                && let Some(place) = self.places.get(&member).copied()
                && let Some(synthetic) = self.clients[place].synthetic.take()
            {
                let words = reason.map_or("it left", nearlight_rooms::EndReason::words);
                self.tally.on_ended(place, synthetic.revision(), words);
            }
        }
    }

    fn finish(mut self) -> Tally {
        for client in &self.clients {
            let Some(synthetic) = &client.synthetic else { continue };
            self.tally.on_digest(synthetic.digest());
            self.tally.on_dropped_events(synthetic.dropped_events());
            self.tally.on_traffic(self.ends_at, client.traffic);
        }
        self.tally.finish()
    }
}

#[cfg(test)]
mod tests {
    use nearlight_link::PathSpec;

    use super::*;
    use crate::{Behaviour, Voices};

    fn options(behaviours: Vec<Behaviour>, path: &str, members: usize) -> Options {
        let profile = Profile { behaviours, active_seconds: 10.0, ramp_seconds: 2.0, ..Profile::default() };
        let spec: PathSpec = path.parse().expect("a path");
        let place = |number: u32| (ObjectId(number), Pose { position: [number as f32, 1.0, 0.0], ..Pose::default() });
        Options {
            profile: Arc::new(profile),
            members,
            rooms: 2,
            seed: 1,
            path: spec.load().expect("no files"),
            room: RoomConfig::default(),
            objects: (1..=4).map(place).collect(),
        }
    }

    #[test]
    fn who_speaks_is_heard_a_round_trip_later_by_those_who_are_near() {
        let mut options = options(vec![Behaviour::Stand], "delay=20ms", 16);
        let profile = Profile { speaking_share: 0.25, packet_hz: 50.0, ..Profile::clone(&options.profile) };
        options.profile = Arc::new(profile);
        let summary = run(&options, |_, _| true);
        let Voices { sent, delay_ms } = summary.voices.expect("four speak");
        // Two in each room of eight, from when they have joined until all come to rest.
        assert!((4 * 50 * 10..4 * 50 * 13).contains(&sent), "{sent}");
        let delays = delay_ms.expect("they are heard");
        assert!(delays.p50 >= 40.0 && delays.p99 < 45.0, "{delays:?}");
        assert!(delays.count > sent * 7 * 8 / 10 && delays.count <= sent * 7, "{delays:?}");
        assert_eq!((summary.disagreeing, summary.lost_events, summary.stalls), (0, 0, 0));
    }

    #[test]
    fn over_a_link_that_loses_and_repeats_all_see_everything_and_agree() {
        for behaviour in
            [Behaviour::Stand, Behaviour::Walk, Behaviour::Gather, Behaviour::Collaborate, Behaviour::FlashCrowd]
        {
            let options = options(vec![behaviour], "delay=20ms,loss=2%,duplicate=1%", 16);
            let summary = run(&options, |_, _| true);
            assert_eq!((summary.joined, summary.compared), (16, 16), "{behaviour:?}");
            assert_eq!(
                (summary.disagreeing, summary.lost_events, summary.unanswered_actions),
                (0, 0, 0),
                "{behaviour:?}"
            );
            assert!(summary.shared_actions > 40, "{behaviour:?}: {summary:?}");
            let delays = summary.interaction_ms.expect("actions");
            assert!(delays.p50 >= 40.0 && delays.p50 < 60.0, "there and back again: {delays:?}");
            assert!(delays.max > 200.0, "2 % of the messages are lost and sent again: {delays:?}");
            assert!(summary.ended.is_empty(), "{:?}", summary.ended);
        }
    }

    #[test]
    fn the_same_seed_has_the_same_figures() {
        let once =
            || run(&options(vec![Behaviour::Collaborate, Behaviour::Walk], "delay=10ms,loss=1%", 12), |_, _| true);
        let (first, second) = (once(), once());
        assert_eq!(first, second);
        assert!(first.refused_actions + first.shared_actions == first.actions, "{first:?}");
    }

    #[test]
    fn a_run_that_is_stopped_keeps_the_rooms_that_are_done() {
        let options = options(vec![Behaviour::Walk], "delay=10ms", 6);
        let summary = run(&options, |done, _| done < 1);
        assert_eq!((summary.complete, summary.rooms, summary.members, summary.joined), (false, 1, 3, 3));
    }

    #[test]
    fn an_outage_is_a_stall_of_everybody_behind_it() {
        let with = |path| run(&options(vec![Behaviour::Walk], path, 8), |_, _| true);
        let (clean, broken) = (with("delay=10ms"), with("outage=5s+1s,delay=10ms"));
        assert_eq!((clean.stalls, clean.fluency), (0, Some(1.0)));
        assert_eq!((broken.stalls, broken.disagreeing, broken.lost_events), (8, 0, 0));
    }
}
