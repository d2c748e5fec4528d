//! A fixed propagation delay.

use std::collections::VecDeque;

use nearlight_units::{Span, Time};

use crate::hop::{Exit, Hop, Packet};

/// Every packet takes the same time; none are reordered.
#[derive(Clone, Debug)]
pub struct Delay {
    length: Span,
    travelling: VecDeque<Exit>,
}

impl Delay {
    /// A negative length counts as zero.
    #[must_use]
    pub fn new(length: Span) -> Self {
        Self { length: length.max(Span::ZERO), travelling: VecDeque::new() }
    }
}

impl Hop for Delay {
    #[inline]
    fn offer(&mut self, now: Time, packet: Packet) {
        self.travelling.push_back(Exit::delivered(now + self.length, packet));
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Option<Exit> {
        self.travelling.pop_front_if(|exit| exit.at <= now)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        self.travelling.front().map(|exit| exit.at)
    }

    fn min_delay(&self) -> Span {
        self.length
    }
}
