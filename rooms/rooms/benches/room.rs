//! Measures one tick of a room in which everybody moves: poses from all members, and updates to all. Divided by the number of members, it
//! is the cost of one of them.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nearlight_rooms::{Avatar, Join, MemberId, Replica, Role, Room, RoomConfig, default_objects};
use nearlight_units::{Span, Time};
use nearlight_wire::Pose;

const TICK: Span = Span::from_millis(50);
/// Ticks before the measurement, in which members join and acknowledge what they received.
const WARM_UP: u64 = 40;

struct SimulatedRoom {
    now: Time,
    room: Room,
    members: Vec<(MemberId, Replica)>,
    out: Vec<u8>,
}

impl SimulatedRoom {
    fn new(members: usize) -> Self {
        let now = Time::from_secs(1);
        let mut room = Room::new(now, RoomConfig::default(), &default_objects()).expect("poses");
        let join = Join { room: "main".into(), role: Role::Guest, name: "member".into(), colour: [0; 3], key: None };
        let mut member = |_| (room.on_join(now, &join, join.role).expect("a place"), Replica::new(now, TICK));
        let members = (0..members).map(&mut member).collect();
        let mut simulation = Self { now, room, members, out: Vec::new() };
        for _ in 0..WARM_UP {
            let messages = simulation.say();
            simulation.tick(&messages, true);
        }
        simulation
    }

    /// Moves everybody. Returns the messages of one tick.
    fn say(&mut self) -> Vec<(MemberId, Vec<u8>)> {
        self.now += TICK;
        let (now, seconds) = (self.now, self.now.as_secs_f64() as f32);
        let mut messages = Vec::new();
        for (place, (id, replica)) in self.members.iter_mut().enumerate() {
            // Members stand shoulder to shoulder in rows and sway differently.
            let x = (place % 20) as f32 + 0.3 * (seconds + place as f32).sin();
            let at = |aside: f32| Pose { position: [x + aside, 1.6, -((place / 20) as f32)], ..Pose::default() };
            let avatar = Avatar { head: at(0.0), left: Some(at(-0.3)), right: Some(at(0.3)), joints: None };
            replica.set_body(&avatar).expect("poses");
            let mut message = Vec::new();
            while replica.poll_transmit(now, &mut message) {
                messages.push((*id, std::mem::take(&mut message)));
            }
        }
        messages
    }

    /// Runs the room's part of a tick. `delivered` says whether members receive its messages.
    fn tick(&mut self, messages: &[(MemberId, Vec<u8>)], delivered: bool) -> usize {
        for (member, message) in messages {
            self.room.on_message(self.now, *member, message);
        }
        self.room.on_timeout(self.now);
        let mut bytes = 0;
        self.out.clear();
        while let Some(member) = self.room.poll_transmit(self.now, &mut self.out) {
            bytes += self.out.len();
            if delivered && let Some((_, replica)) = self.members.iter_mut().find(|(id, _)| *id == member) {
                replica.on_message(self.now, &self.out).expect("what the room says can be read");
            }
            self.out.clear();
        }
        bytes
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads a clock")]
fn tick(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tick");
    for members in [20, 100, 300] {
        let mut simulation = SimulatedRoom::new(members);
        group.throughput(Throughput::Elements(members as u64));
        group.bench_function(BenchmarkId::from_parameter(members), |bencher| {
            bencher.iter_custom(|ticks| {
                let mut taken = std::time::Duration::ZERO;
                for _ in 0..ticks {
                    let messages = simulation.say();
                    let begun = std::time::Instant::now();
                    std::hint::black_box(simulation.tick(&messages, false));
                    taken += begun.elapsed();
                    // Members acknowledge the room's messages, so that it continues to send differences.
                    let replies = simulation.say();
                    simulation.tick(&replies, true);
                }
                taken
            });
        });
    }
    group.finish();
}

criterion_group!(benches, tick);
criterion_main!(benches);
