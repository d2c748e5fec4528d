//! How long the picture is frozen although media arrive.
//!
//! A picture is frozen from the moment it is displayed until the next one is. Media arrive from one packet of a picture
//! to the next, unless [`PAUSE`] and more lie between them: what does not arrive cannot be shown. Only such time counts as frozen. It
//! restarts after a period without captures; for the first picture it starts at the first packet.

use nearlight_units::{Span, Time};

/// The gap between two packets from which on media count as not arriving. Guess: less than what a viewer takes for a stall, more than the
/// distance of frames at the lowest frame rate.
const PAUSE: Span = Span::from_millis(100);
/// The allowed freeze: this many of the longest round trips that a packet met meanwhile, plus this time. Reasons: a loss shows, symbols are
/// requested but not answered, a key frame is requested, and it arrives or is retransmitted once, each a round trip; the rest is coding, the key
/// frame's own length and the display.
const ROUND_TRIPS: i64 = 4;
const ALLOWANCE: Span = Span::from_millis(250);

/// Follows one session's display.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standstill {
    /// When the newest picture reached the display, and the pauses since then.
    since: Option<Time>,
    paused: Span,
    arrived_at: Time,
    /// Of the packet that came to the server last, its way.
    way_back: Span,
    /// The longest since then.
    round_trip: Span,
    longest: Span,
    overlong: u64,
}

impl Standstill {
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

    /// The longest time that a picture stood while media arrived.
    pub(crate) const fn longest(&self) -> Span {
        self.longest
    }

    /// How often one stood longer than four round trips and 250 ms.
    pub(crate) const fn overlong(&self) -> u64 {
        self.overlong
    }
}
