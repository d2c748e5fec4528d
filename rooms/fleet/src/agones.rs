//! The life cycle of a server under Agones: decides which calls of Agones' SDK are due. A driver makes the calls.

use nearlight_units::{Span, Time};

/// Interval of health pings. Agones expects one every 5 s by default, so one of two may be lost.
const HEALTH_INTERVAL: Span = Span::from_secs(2);
/// Time after which a failed call is repeated: Agones' sidecar may start after the server.
const RETRY_INTERVAL: Span = Span::from_secs(1);
/// Shortest interval between updates of the counter.
const MIN_COUNT_INTERVAL: Span = Span::from_secs(1);
/// Time after which an allocated server that everybody has left shuts down: longer than a member needs to come back.
const EMPTY_SHUTDOWN_DELAY: Span = Span::from_secs(60);
/// Time after which an allocated server to which nobody has come shuts down. Guess: a person who gets a link in a message opens it sooner.
const UNVISITED_SHUTDOWN_DELAY: Span = Span::from_secs(300);
/// Longest interval between two attempts to update the counter, if the updates fail.
const MAX_COUNT_RETRY_INTERVAL: Span = Span::from_secs(60);
/// Time in which Agones carries out a call that its SDK server has answered. Guess: it takes less than a second in a healthy cluster.
const MAX_TRANSITION_TIME: Span = Span::from_secs(10);

/// A call of the SDK that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdkCall {
    /// The server takes clients.
    Ready,
    Health,
    /// Somebody uses the server: Agones must not remove it when the fleet shrinks or is updated.
    Allocate,
    /// Reports how many of the server's places are taken.
    Count {
        taken: usize,
        capacity: usize,
    },
    /// The server is not needed any more.
    Shutdown,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdkAnswer {
    Done,
    /// The fleet has no such counter, or its version of Agones has no counters, so repeating the call is pointless.
    Missing,
    Failed,
}

/// What Agones says about a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerState {
    /// The state's name, such as `Ready` or `Allocated`.
    pub name: String,
    /// When the server was last allocated, as Agones writes it; empty if it never was.
    pub last_allocated: String,
    /// Whether Agones is removing the server.
    pub is_deleted: bool,
}

/// The life cycle of one server.
#[derive(Debug)]
pub struct GameServer {
    capacity: usize,
    /// What Agones has said last.
    state: ServerState,
    is_ready: bool,
    next_ready: Time,
    next_health: Time,
    taken: usize,
    counted: Option<usize>,
    next_count: Option<Time>,
    count_retry_interval: Span,
    next_allocation: Time,
    /// Since when nobody has been there, or since the last allocation if that is later.
    empty_since: Time,
    /// Whether somebody has come since the last allocation, or was there at the time.
    is_visited: bool,
    next_shutdown: Time,
    /// The call whose effect is still to be seen in the state, and when the SDK has answered it.
    awaited: Option<(SdkCall, Time)>,
    is_over: bool,
}

impl GameServer {
    /// Creates the state of a server that takes clients from `now` on and has `capacity` places.
    #[must_use]
    pub fn new(now: Time, capacity: usize) -> Self {
        Self {
            capacity,
            state: ServerState::default(),
            is_ready: false,
            next_ready: now,
            next_health: now,
            taken: 0,
            counted: None,
            next_count: Some(now),
            count_retry_interval: MIN_COUNT_INTERVAL,
            next_allocation: now,
            empty_since: now,
            is_visited: false,
            next_shutdown: now,
            awaited: None,
            is_over: false,
        }
    }

    /// Updates how many places are taken.
    pub fn on_taken(&mut self, now: Time, taken: usize) {
        if taken == 0 && self.taken > 0 {
            self.empty_since = now;
        }
        self.is_visited |= taken > 0;
        self.taken = taken;
    }

    /// Takes the server's state from Agones.
    pub fn on_state(&mut self, now: Time, state: ServerState) {
        let is_new = !self.is_allocated() || state.last_allocated != self.state.last_allocated;
        if state.name == "Allocated" && is_new {
            self.empty_since = now;
            self.is_visited = self.taken > 0;
        }
        let is_reached = |(call, _): &(SdkCall, Time)| match call {
            SdkCall::Ready => ["Ready", "Reserved", "Allocated", "Shutdown"].contains(&state.name.as_str()),
            SdkCall::Allocate => ["Allocated", "Shutdown"].contains(&state.name.as_str()),
            _ => state.name == "Shutdown",
        };
        self.awaited.take_if(|awaited| is_reached(awaited));
        self.is_over |= state.is_deleted || state.name == "Shutdown";
        self.state = state;
    }

    pub fn on_answer(&mut self, now: Time, call: SdkCall, answer: SdkAnswer) {
        let is_done = answer == SdkAnswer::Done;
        match call {
            SdkCall::Health => {}
            SdkCall::Ready if is_done => (self.is_ready, self.awaited) = (true, Some((call, now))),
            SdkCall::Ready => self.next_ready = now + RETRY_INTERVAL,
            SdkCall::Allocate if is_done => {
                self.awaited = Some((call, now));
                self.next_allocation = now + MAX_TRANSITION_TIME;
            }
            SdkCall::Allocate => self.next_allocation = now + RETRY_INTERVAL,
            SdkCall::Count { taken, .. } if is_done => {
                (self.counted, self.count_retry_interval) = (Some(taken), MIN_COUNT_INTERVAL);
            }
            SdkCall::Count { .. } if answer == SdkAnswer::Missing => self.next_count = None,
            SdkCall::Count { .. } => {
                self.next_count = Some(now + self.count_retry_interval);
                self.count_retry_interval = (self.count_retry_interval * 2).min(MAX_COUNT_RETRY_INTERVAL);
            }
            SdkCall::Shutdown if is_done => self.is_over = true,
            SdkCall::Shutdown => self.next_shutdown = now + RETRY_INTERVAL,
        }
    }

    /// Returns whether the server must shut down, as after SIGTERM, so that its members move to other servers.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    fn is_allocated(&self) -> bool {
        self.state.name == "Allocated"
    }

    /// Returns the next call that is due. Its result goes to [`GameServer::on_answer`]; until then no other call is returned.
    pub fn poll_call(&mut self, now: Time) -> Option<SdkCall> {
        if !self.is_ready && now >= self.next_ready {
            self.next_ready = now + RETRY_INTERVAL;
            return Some(SdkCall::Ready);
        }
        if now >= self.next_health {
            self.next_health = now + HEALTH_INTERVAL;
            return Some(SdkCall::Health);
        }
        if self.taken > 0 && self.state.name == "Ready" && now >= self.next_allocation {
            self.next_allocation = now + RETRY_INTERVAL;
            return Some(SdkCall::Allocate);
        }
        let is_count_due = self.next_count.is_some_and(|at| now >= at);
        if self.is_ready && is_count_due && self.counted != Some(self.taken) {
            self.next_count = Some(now + MIN_COUNT_INTERVAL);
            return Some(SdkCall::Count { taken: self.taken, capacity: self.capacity });
        }
        let delay = if self.is_visited { EMPTY_SHUTDOWN_DELAY } else { UNVISITED_SHUTDOWN_DELAY };
        let is_drained = self.is_allocated() && self.taken == 0 && now - self.empty_since >= delay;
        if is_drained && !self.is_over && now >= self.next_shutdown {
            self.next_shutdown = now + RETRY_INTERVAL;
            return Some(SdkCall::Shutdown);
        }
        None
    }

    /// Returns a call that Agones' SDK server has answered, but that has had no effect on the server's state for [`MAX_TRANSITION_TIME`], and
    /// that state. Each call is returned once.
    pub fn poll_stuck(&mut self, now: Time) -> Option<(SdkCall, &str)> {
        let (call, _) = self.awaited.take_if(|(_, since)| now - *since >= MAX_TRANSITION_TIME)?;
        Some((call, &self.state.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all calls until then with their times in seconds, after answering each of them with `answer`.
    fn calls(
        server: &mut GameServer,
        from: i64,
        to: i64,
        answer: impl Fn(SdkCall) -> SdkAnswer,
    ) -> Vec<(i64, SdkCall)> {
        let mut made = Vec::new();
        for second in from..to {
            let now = Time::ZERO + Span::from_secs(second);
            while let Some(call) = server.poll_call(now) {
                made.push((second, call));
                server.on_answer(now, call, answer(call));
            }
        }
        made.retain(|(_, call)| *call != SdkCall::Health);
        made
    }

    fn state(name: &str, last_allocated: &str) -> ServerState {
        ServerState { name: name.into(), last_allocated: last_allocated.into(), is_deleted: false }
    }

    fn at(second: i64) -> Time {
        Time::ZERO + Span::from_secs(second)
    }

    const fn count(taken: usize) -> SdkCall {
        SdkCall::Count { taken, capacity: 10 }
    }

    #[test]
    fn a_server_says_that_it_is_ready_until_it_is_heard() {
        let mut server = GameServer::new(Time::ZERO, 10);
        let made = calls(&mut server, 0, 3, |_| SdkAnswer::Failed);
        assert_eq!(made, [0, 1, 2].map(|second| (second, SdkCall::Ready)));
        let made = calls(&mut server, 3, 20, |_| SdkAnswer::Done);
        assert_eq!(made, [(3, SdkCall::Ready), (3, count(0))]);
    }

    #[test]
    fn a_sign_of_health_goes_out_every_two_seconds_whatever_happens_to_it() {
        let mut server = GameServer::new(Time::ZERO, 10);
        let mut signs = 0;
        for second in 0..20 {
            let now = Time::ZERO + Span::from_secs(second);
            while let Some(call) = server.poll_call(now) {
                signs += u32::from(call == SdkCall::Health);
                server.on_answer(now, call, SdkAnswer::Failed);
            }
        }
        assert_eq!(signs, 10);
    }

    #[test]
    fn places_are_counted_unless_the_fleet_has_no_counter() {
        let mut server = GameServer::new(Time::ZERO, 10);
        calls(&mut server, 0, 1, |_| SdkAnswer::Done);
        server.on_taken(Time::ZERO + Span::from_secs(1), 3);
        assert_eq!(calls(&mut server, 1, 5, |_| SdkAnswer::Done), [(1, count(3))]);
        server.on_taken(Time::ZERO + Span::from_secs(5), 4);
        assert_eq!(calls(&mut server, 5, 9, |_| SdkAnswer::Missing), [(5, count(4))]);
        server.on_taken(Time::ZERO + Span::from_secs(9), 5);
        assert_eq!(calls(&mut server, 9, 12, |_| SdkAnswer::Done), []);
    }

    #[test]
    fn updates_of_the_counter_that_fail_are_repeated_ever_more_rarely() {
        let mut server = GameServer::new(Time::ZERO, 10);
        let answer = |call| if call == SdkCall::Ready { SdkAnswer::Done } else { SdkAnswer::Failed };
        let counts = calls(&mut server, 0, 200, answer).into_iter().filter(|(_, call)| *call != SdkCall::Ready);
        assert_eq!(counts.map(|(second, _)| second).collect::<Vec<_>>(), [0, 1, 3, 7, 15, 31, 63, 123, 183]);
    }

    #[test]
    fn the_first_member_allocates_a_server_that_agones_has_made_ready() {
        let mut server = GameServer::new(Time::ZERO, 10);
        server.on_taken(Time::ZERO, 1);
        assert_eq!(
            calls(&mut server, 0, 5, |_| SdkAnswer::Done),
            [(0, SdkCall::Ready), (0, count(1))],
            "not ready yet"
        );
        server.on_state(at(5), state("Ready", ""));
        assert_eq!(calls(&mut server, 5, 10, |_| SdkAnswer::Done), [(5, SdkCall::Allocate)]);
        server.on_state(at(10), state("Allocated", "a"));
        assert_eq!(calls(&mut server, 10, 100, |_| SdkAnswer::Done), []);
    }

    #[test]
    fn an_allocated_server_shuts_down_when_everybody_has_left_for_a_minute() {
        let mut server = GameServer::new(Time::ZERO, 10);
        calls(&mut server, 0, 1, |_| SdkAnswer::Done);
        server.on_state(at(1), state("Allocated", "a"));
        assert_eq!(calls(&mut server, 1, 200, |_| SdkAnswer::Done), [], "nobody has come yet");
        server.on_taken(at(200), 1);
        assert_eq!(calls(&mut server, 200, 210, |_| SdkAnswer::Done), [(200, count(1))]);
        server.on_taken(at(210), 0);
        // Counters change the state too, and say nothing about allocation.
        server.on_state(at(230), state("Allocated", "a"));
        let made = calls(&mut server, 210, 300, |_| SdkAnswer::Done);
        assert_eq!(made, [(210, count(0)), (270, SdkCall::Shutdown)]);
        assert!(server.is_over());
    }

    #[test]
    fn an_allocated_server_waits_for_its_clients_whoever_was_there_before() {
        let mut server = GameServer::new(Time::ZERO, 10);
        server.on_taken(Time::ZERO, 1);
        server.on_taken(Time::ZERO, 0);
        server.on_state(at(100), state("Allocated", "a"));
        let made = calls(&mut server, 100, 500, |_| SdkAnswer::Done);
        assert_eq!(made, [(100, SdkCall::Ready), (100, count(0)), (400, SdkCall::Shutdown)]);
    }

    #[test]
    fn another_allocation_begins_the_wait_anew() {
        let mut server = GameServer::new(Time::ZERO, 10);
        calls(&mut server, 0, 1, |_| SdkAnswer::Done);
        server.on_state(at(1), state("Allocated", "a"));
        server.on_taken(at(2), 1);
        server.on_taken(at(3), 0);
        server.on_state(at(50), state("Allocated", "b"));
        let made = calls(&mut server, 50, 400, |_| SdkAnswer::Done);
        assert_eq!(made, [(350, SdkCall::Shutdown)]);
    }

    #[test]
    fn a_call_that_is_answered_and_has_no_effect_is_reported_once() {
        let mut server = GameServer::new(Time::ZERO, 10);
        calls(&mut server, 0, 1, |_| SdkAnswer::Done);
        server.on_state(at(1), state("Scheduled", ""));
        assert_eq!(server.poll_stuck(at(9)), None);
        assert_eq!(server.poll_stuck(at(10)), Some((SdkCall::Ready, "Scheduled")));
        assert_eq!(server.poll_stuck(at(30)), None);
        let mut healthy = GameServer::new(Time::ZERO, 10);
        calls(&mut healthy, 0, 1, |_| SdkAnswer::Done);
        healthy.on_state(at(1), state("Ready", ""));
        assert_eq!(healthy.poll_stuck(at(60)), None);
    }

    #[test]
    fn a_server_that_nobody_allocated_stays_and_one_that_agones_takes_away_ends() {
        let mut server = GameServer::new(Time::ZERO, 10);
        server.on_state(Time::ZERO, state("Ready", ""));
        let made = calls(&mut server, 0, 1_000, |_| SdkAnswer::Done);
        assert_eq!(made, [(0, SdkCall::Ready), (0, count(0))]);
        assert!(!server.is_over());
        server.on_state(at(1_000), ServerState { is_deleted: true, ..state("Ready", "") });
        assert!(server.is_over());
    }
}
