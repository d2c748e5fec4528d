//! A policer: a token bucket without a queue.

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Bytes, Time};

use crate::capacity::{Meter, Rates, Work, work_of};
use crate::hop::{DropReason, Exit, Hop, Packet};

/// Lets a packet pass at once if there are tokens for all of it, and drops it otherwise.
#[derive(Clone, Debug)]
pub struct Policer {
    meter: Meter,
    rate: Bitrate,
    burst: Work,
    tokens: Work,
    at: Time,
    ready: VecDeque<Exit>,
}

impl Policer {
    /// The bucket starts full.
    #[must_use]
    pub fn new(rate: Bitrate, burst: Bytes) -> Self {
        let burst = work_of(burst);
        let meter = Meter::new(Rates::constant(rate));
        Self { meter, rate, burst, tokens: burst, at: Time::ZERO, ready: VecDeque::new() }
    }
}

impl Hop for Policer {
    fn offer(&mut self, now: Time, packet: Packet) {
        self.tokens += self.meter.done(self.at, now, self.burst - self.tokens);
        self.at = self.at.max(now);
        let work = work_of(packet.size);
        let exit = if work <= self.tokens {
            self.tokens -= work;
            Exit::delivered(now, packet)
        } else {
            Exit::dropped(now, packet, DropReason::Policed)
        };
        self.ready.push_back(exit);
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Option<Exit> {
        self.ready.pop_front_if(|exit| exit.at <= now)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        self.ready.front().map(|exit| exit.at)
    }

    fn capacity(&self, _now: Time) -> Option<Bitrate> {
        Some(self.rate)
    }
}
