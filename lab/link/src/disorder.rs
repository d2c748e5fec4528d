//! Networks that reorder and duplicate.

use std::collections::VecDeque;

use nearlight_units::{Span, Time};

use crate::hop::{Exit, Hop, Packet};
use crate::random::{Probability, Random};

/// Holds some packets back while the others pass.
#[derive(Clone, Debug)]
pub struct Reorder {
    chance: Probability,
    by: Span,
    random: Random,
    passing: VecDeque<Exit>,
    held: VecDeque<Exit>,
}

impl Reorder {
    /// Each packet is held back for `by` with this chance.
    #[must_use]
    pub fn new(chance: Probability, by: Span, random: Random) -> Self {
        Self { chance, by: by.max(Span::ZERO), random, passing: VecDeque::new(), held: VecDeque::new() }
    }
}

impl Hop for Reorder {
    fn offer(&mut self, now: Time, packet: Packet) {
        if self.random.happens(self.chance) {
            self.held.push_back(Exit::delivered(now + self.by, packet));
        } else {
            self.passing.push_back(Exit::delivered(now, packet));
        }
    }

    fn poll(&mut self, now: Time) -> Option<Exit> {
        let next = self.poll_timeout().filter(|&at| at <= now)?;
        // Held packets precede packets that pass at the same moment, no matter when the hop is polled.
        self.held.pop_front_if(|exit| exit.at == next).or_else(|| self.passing.pop_front())
    }

    fn poll_timeout(&self) -> Option<Time> {
        let fronts = [self.passing.front(), self.held.front()];
        fronts.into_iter().flatten().map(|exit| exit.at).min()
    }
}

/// Sends some packets twice; the copy follows at once and is marked as one.
#[derive(Clone, Debug)]
pub struct Duplicate {
    chance: Probability,
    random: Random,
    ready: VecDeque<Exit>,
}

impl Duplicate {
    #[must_use]
    pub fn new(chance: Probability, random: Random) -> Self {
        Self { chance, random, ready: VecDeque::new() }
    }
}

impl Hop for Duplicate {
    fn offer(&mut self, now: Time, packet: Packet) {
        let twice = self.random.happens(self.chance).then(|| packet.split()).flatten();
        let (packet, copy) = twice.map_or((packet, None), |(packet, copy)| (packet, Some(copy)));
        self.ready.push_back(Exit::delivered(now, packet));
        self.ready.extend(copy.map(|copy| Exit::delivered(now, copy)));
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Option<Exit> {
        self.ready.pop_front_if(|exit| exit.at <= now)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        self.ready.front().map(|exit| exit.at)
    }
}
