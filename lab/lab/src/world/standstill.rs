//! How long the picture is frozen although media arrive.
//!
//! A picture is frozen from the moment it is displayed until the next one is. Time between two packets of pictures counts as time in which media
//! arrive, unless they are [`PAUSE`] or more apart. Only such time counts as frozen. It restarts after a period without captures; for the first
//! picture it starts at the first packet.

use nearlight_units::{Span, Time};

/// A gap between two packets longer than this means that media do not arrive. Guess: shorter than a viewer's stall, longer than the frame interval at
/// the lowest frame rate.
const PAUSE: Span = Span::from_millis(100);
/// The allowed standstill is this many of the longest round trips met meanwhile, plus [`ALLOWANCE`]. Reasons: a loss becomes visible, a request for
/// symbols is not answered, a key frame is requested, and it arrives or is retransmitted once, each a round trip. The rest is encoding, the key
/// frame's length and the display.
const ROUND_TRIPS: i64 = 4;
const ALLOWANCE: Span = Span::from_millis(250);

/// Measures how long pictures stand still on one session's display.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StandstillMonitor {
    /// When the newest picture was displayed, and the pauses since then.
    since: Option<Time>,
    paused: Span,
    arrived_at: Time,
    /// One-way delay of the last packet to the server.
    way_back: Span,
    /// Longest round trip since the newest picture.
    round_trip: Span,
    longest: Span,
    overlong: u64,
}

impl StandstillMonitor {
    /// A picture's packet arrived at the client with this delay.
    pub(crate) fn on_media(&mut self, now: Time, way: Span) {
        if self.since.is_none() {
            (self.since, self.arrived_at) = (Some(now), now);
        }
        let gap = now - self.arrived_at;
        if gap >= PAUSE {
            self.paused += gap;
        }
        self.arrived_at = now;
        self.round_trip = self.round_trip.max(way + self.way_back);
    }

    /// A packet arrived at the server with this delay.
    pub(crate) fn on_answer(&mut self, way: Span) {
        self.way_back = way;
    }

    /// A new picture is on the display.
    pub(crate) fn on_displayed(&mut self, now: Time) {
        self.settle(now);
        (self.since, self.paused, self.round_trip) = (Some(now), Span::ZERO, Span::ZERO);
        self.arrived_at = now;
    }

    /// The measured time has ended.
    pub(crate) fn on_end(&mut self) {
        self.settle(self.arrived_at);
        self.since = None;
    }

    fn settle(&mut self, until: Time) {
        let Some(since) = self.since else { return };
        let gap = until - self.arrived_at;
        let paused = self.paused + if gap >= PAUSE { gap } else { Span::ZERO };
        let stood = until - since - paused;
        self.longest = self.longest.max(stood);
        self.overlong += u64::from(stood > self.round_trip * ROUND_TRIPS + ALLOWANCE);
    }

    /// Returns the longest time that a picture stood still while media arrived.
    pub(crate) const fn longest(&self) -> Span {
        self.longest
    }

    /// Returns the number of standstills longer than four round trips and 250 ms.
    pub(crate) const fn overlong(&self) -> u64 {
        self.overlong
    }
}
