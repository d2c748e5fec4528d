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

/// A call of the SDK that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdkCall {
    /// The server takes clients.
    Ready,
    Health,
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

/// The state of the server as Agones knows it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct GameServer {
    capacity: usize,
    is_ready: bool,
    next_ready: Time,
    next_health: Time,
    taken: usize,
    counted: Option<usize>,
    counts: bool,
    next_count: Time,
    allocated: bool,
    /// When the last client or member left; none while somebody is connected or before anybody was.
    left_at: Option<Time>,
    next_shutdown: Time,
    is_over: bool,
}

impl GameServer {
    /// Creates the state of a server that takes clients from `now` on and has `capacity` places.
    #[must_use]
    pub const fn new(now: Time, capacity: usize) -> Self {
        Self {
            capacity,
            is_ready: false,
            next_ready: now,
            next_health: now,
            taken: 0,
            counted: None,
            counts: true,
            next_count: now,
            allocated: false,
            left_at: None,
            next_shutdown: now,
            is_over: false,
        }
    }

    /// Updates how many places are taken.
    pub fn on_taken(&mut self, now: Time, taken: usize) {
        if taken == 0 && self.taken > 0 {
            self.left_at = Some(now);
        } else if taken > 0 {
            self.left_at = None;
        }
        self.taken = taken;
    }

    /// Takes the server's state from Agones. `deleted` says that Agones is removing the server.
    pub fn on_state(&mut self, state: &str, deleted: bool) {
        self.allocated = state == "Allocated";
        self.is_over |= deleted || state == "Shutdown";
    }

    pub fn on_answer(&mut self, now: Time, call: SdkCall, answer: SdkAnswer) {
        match (call, answer) {
            (SdkCall::Ready, SdkAnswer::Done) => self.is_ready = true,
            (SdkCall::Ready, _) => self.next_ready = now + RETRY_INTERVAL,
            (SdkCall::Health, _) | (SdkCall::Count { .. }, SdkAnswer::Failed) => {}
            (SdkCall::Count { taken, .. }, SdkAnswer::Done) => self.counted = Some(taken),
            (SdkCall::Count { .. }, SdkAnswer::Missing) => self.counts = false,
            (SdkCall::Shutdown, SdkAnswer::Done) => self.is_over = true,
            (SdkCall::Shutdown, _) => self.next_shutdown = now + RETRY_INTERVAL,
        }
    }

    /// Returns whether the server must shut down, as after SIGTERM, so that its members move to other servers.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_over
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
        if self.is_ready && self.counts && self.counted != Some(self.taken) && now >= self.next_count {
            self.next_count = now + MIN_COUNT_INTERVAL;
            return Some(SdkCall::Count { taken: self.taken, capacity: self.capacity });
        }
        let is_drained = self.allocated && self.left_at.is_some_and(|at| now - at >= EMPTY_SHUTDOWN_DELAY);
        if is_drained && !self.is_over && now >= self.next_shutdown {
            self.next_shutdown = now + RETRY_INTERVAL;
            return Some(SdkCall::Shutdown);
        }
        None
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
    fn an_allocated_server_shuts_down_when_everybody_has_left_for_a_minute() {
        let mut server = GameServer::new(Time::ZERO, 10);
        calls(&mut server, 0, 1, |_| SdkAnswer::Done);
        server.on_state("Allocated", false);
        assert_eq!(calls(&mut server, 1, 200, |_| SdkAnswer::Done), [], "nobody has come yet");
        server.on_taken(Time::ZERO + Span::from_secs(200), 1);
        assert_eq!(calls(&mut server, 200, 210, |_| SdkAnswer::Done), [(200, count(1))]);
        server.on_taken(Time::ZERO + Span::from_secs(210), 0);
        let made = calls(&mut server, 210, 300, |_| SdkAnswer::Done);
        assert_eq!(made, [(210, count(0)), (270, SdkCall::Shutdown)]);
        assert!(server.is_over());
    }

    #[test]
    fn a_server_that_nobody_allocated_stays_and_one_that_agones_takes_away_ends() {
        let mut server = GameServer::new(Time::ZERO, 10);
        server.on_taken(Time::ZERO, 1);
        server.on_taken(Time::ZERO, 0);
        let made = calls(&mut server, 0, 200, |_| SdkAnswer::Done);
        assert!(!made.iter().any(|(_, call)| *call == SdkCall::Shutdown) && !server.is_over());
        server.on_state("Ready", true);
        assert!(server.is_over());
    }
}
