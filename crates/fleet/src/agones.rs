//! A server's life under Agones, whose SDK a program next to the server speaks. Decides which calls are due; makes none.

use nearlight_units::{Span, Time};

/// Agones expects a sign of health every 5 s by default; one of two may be lost.
const HEALTH: Span = Span::from_secs(2);
/// A call that failed is repeated after so long: Agones' program may start after the server.
const RETRY: Span = Span::from_secs(1);
/// The counter is updated no more often.
const COUNT: Span = Span::from_secs(1);
/// An allocated server that everybody has left shuts down after so long: longer than a member needs to come back.
const DRAINED: Span = Span::from_secs(60);

/// A call of the SDK that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdkCall {
    /// The server takes clients.
    Ready,
    Health,
    /// So many of the server's places are taken.
    Count {
        taken: usize,
        capacity: usize,
    },
    /// The server has no use any more: replace it.
    Shutdown,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdkAnswer {
    Done,
    /// The fleet has no such counter, or its Agones none at all: there is no point in asking again.
    Missing,
    Failed,
}

/// See the module.
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
    /// Since when nobody has been there who was there before.
    left_at: Option<Time>,
    next_shutdown: Time,
    is_over: bool,
}

impl GameServer {
    /// A server that takes clients now, with so many places.
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

    /// So many places are taken.
    pub fn on_taken(&mut self, now: Time, taken: usize) {
        if taken == 0 && self.taken > 0 {
            self.left_at = Some(now);
        } else if taken > 0 {
            self.left_at = None;
        }
        self.taken = taken;
    }

    /// Agones says that the server is in this state, or (`deleted`) that it is being taken away.
    pub fn on_state(&mut self, state: &str, deleted: bool) {
        self.allocated = state == "Allocated";
        self.is_over |= deleted || state == "Shutdown";
    }

    pub fn on_answer(&mut self, now: Time, call: SdkCall, answer: SdkAnswer) {
        match (call, answer) {
            (SdkCall::Ready, SdkAnswer::Done) => self.is_ready = true,
            (SdkCall::Ready, _) => self.next_ready = now + RETRY,
            (SdkCall::Health, _) | (SdkCall::Count { .. }, SdkAnswer::Failed) => {}
            (SdkCall::Count { taken, .. }, SdkAnswer::Done) => self.counted = Some(taken),
            (SdkCall::Count { .. }, SdkAnswer::Missing) => self.counts = false,
            (SdkCall::Shutdown, SdkAnswer::Done) => self.is_over = true,
            (SdkCall::Shutdown, _) => self.next_shutdown = now + RETRY,
        }
    }

    /// The server is to end, as by SIGTERM: its members go to other servers.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// The next call that is due. Its answer is [`GameServer::on_answer`]; until then no other is asked for.
    pub fn poll_call(&mut self, now: Time) -> Option<SdkCall> {
        if !self.is_ready && now >= self.next_ready {
            self.next_ready = now + RETRY;
            return Some(SdkCall::Ready);
        }
        if now >= self.next_health {
            self.next_health = now + HEALTH;
            return Some(SdkCall::Health);
        }
        if self.is_ready && self.counts && self.counted != Some(self.taken) && now >= self.next_count {
            self.next_count = now + COUNT;
            return Some(SdkCall::Count { taken: self.taken, capacity: self.capacity });
        }
        let is_drained = self.allocated && self.left_at.is_some_and(|at| now - at >= DRAINED);
        if is_drained && !self.is_over && now >= self.next_shutdown {
            self.next_shutdown = now + RETRY;
            return Some(SdkCall::Shutdown);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All calls until then, with this answer to each, and when they were made in seconds.
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
