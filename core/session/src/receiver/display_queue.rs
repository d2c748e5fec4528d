//! Decides which decoded picture a display shows next.
//!
//! When pictures arrive at uneven intervals, two may arrive between two refreshes and none before or after them. A display that shows the
//! newest picture then skips one that came in time, which looks like a jerk. A display that shows each in its turn skips none; the pictures
//! behind it wait for one refresh more, until an interval without a picture, or a skipped one, lets it catch up.

use std::collections::VecDeque;
use std::str::FromStr;

use nearlight_units::{RemoteTime, Span, Time};

/// Maximum number of waiting pictures, because decoders have few pictures. A choice: 67 ms at 120 frames a second.
const MAX_WAITING: usize = 8;
/// When pictures have waited behind others at every refresh for this long, the wait has no benefit any more, and one is skipped. Chosen on
/// the recorded paths of docs/results/rate-control.md: 50 ms skips more, 200 ms delays more.
const CATCH_UP_AFTER: Span = Span::from_millis(100);
/// A display whose refresh interval is longer than the pictures' by more than this factor cannot show each of them. A choice: 60 pictures a
/// second on 59.94 Hz are one too many in 17 seconds.
const MAX_INTERVAL_RATIO: f64 = 1.05;
/// Weight of the newest interval between captures in the mean, as a divisor. Guess: a second's memory at 30 frames a second.
const SMOOTHING: i64 = 16;
/// A longer interval between captures is a pause.
const MIN_PAUSE: Span = Span::from_millis(100);

/// Whether a display may show a picture while a newer one waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DisplayOrder {
    /// The newest picture at each refresh; others that wait are skipped.
    Newest,
    /// Each picture in its turn, as long as the display keeps up and the picture is not late.
    #[default]
    InTurn,
}

impl DisplayOrder {
    /// The name in options and plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::InTurn => "in-turn",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a display shows its pictures `in-turn`, or the `newest` first")]
pub struct UnknownDisplayOrder;

impl FromStr for DisplayOrder {
    type Err = UnknownDisplayOrder;

    fn from_str(name: &str) -> Result<Self, UnknownDisplayOrder> {
        [Self::Newest, Self::InTurn].into_iter().find(|order| order.name() == name).ok_or(UnknownDisplayOrder)
    }
}

#[derive(Debug)]
struct QueuedPicture<P> {
    deadline: Option<Time>,
    picture: P,
}

/// The decoded pictures that wait for a display, in the order of their frames. [`Self::poll_skipped`] returns the skipped ones.
#[derive(Debug)]
pub struct DisplayQueue<P> {
    order: DisplayOrder,
    refresh_interval: Option<Span>,
    /// The mean interval between captures.
    capture_interval: Option<Span>,
    newest_captured_at: Option<RemoteTime>,
    waiting: VecDeque<QueuedPicture<P>>,
    /// Since when a picture has waited behind the displayed one at every refresh.
    behind_since: Option<Time>,
    skipped: VecDeque<P>,
}

impl<P> DisplayQueue<P> {
    #[must_use]
    pub const fn new(order: DisplayOrder) -> Self {
        Self {
            order,
            refresh_interval: None,
            capture_interval: None,
            newest_captured_at: None,
            waiting: VecDeque::new(),
            behind_since: None,
            skipped: VecDeque::new(),
        }
    }

    /// Sets how often the display takes another picture. None if that is unknown: then the newest is shown.
    pub fn set_refresh_interval(&mut self, interval: Option<Span>) {
        self.refresh_interval = interval.filter(|interval| *interval > Span::ZERO);
    }

    /// Adds a decoded picture. Its capture or rendering began at `captured_at`, on the server's clock. It is late after `deadline`, on the
    /// client's clock, if the clocks have been compared.
    pub fn push(&mut self, captured_at: RemoteTime, deadline: Option<Time>, picture: P) {
        if let Some(newest) = self.newest_captured_at {
            let step = captured_at - newest;
            if step > Span::ZERO && step <= MIN_PAUSE {
                let mean = self.capture_interval.map_or(step, |mean| mean + (step - mean) / SMOOTHING);
                self.capture_interval = Some(mean);
            }
        }
        self.newest_captured_at = Some(captured_at);
        self.waiting.push_back(QueuedPicture { deadline, picture });
        self.skip_down_to(if self.shows_in_turn() { MAX_WAITING } else { 1 });
    }

    /// Removes the picture that the display is to show at its next refresh.
    pub fn take(&mut self, now: Time) -> Option<P> {
        let is_late = |first: &QueuedPicture<P>| first.deadline.is_some_and(|deadline| deadline < now);
        while self.waiting.len() > 1 && self.waiting.front().is_some_and(is_late) {
            self.skip_down_to(self.waiting.len() - 1);
        }
        if self.waiting.len() > 1 && self.behind_since.is_some_and(|since| now - since >= CATCH_UP_AFTER) {
            self.behind_since = None;
            self.skip_down_to(self.waiting.len() - 1);
        }
        self.waiting.pop_front().map(|first| first.picture)
    }

    /// As [`DisplayQueue::take`], for a display that gets its picture right after a refresh, to draw it for the next one. Such a picture
    /// has already waited for a refresh: to catch up, it is skipped, and the display gets the next picture when that comes.
    pub fn take_ahead(&mut self, now: Time) -> Option<P> {
        if self.waiting.len() == 1 && self.behind_since.is_some_and(|since| now - since >= CATCH_UP_AFTER) {
            self.behind_since = None;
            self.skip_down_to(0);
        }
        self.take(now)
    }

    /// Records a refresh that shows the taken picture: pictures that wait now are behind it.
    pub fn on_refresh(&mut self, now: Time) {
        if self.waiting.is_empty() {
            self.behind_since = None;
        } else {
            self.behind_since.get_or_insert(now);
        }
    }

    /// Returns a picture that will not be shown, because a newer one waits.
    pub fn poll_skipped(&mut self) -> Option<P> {
        self.skipped.pop_front()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn skip_down_to(&mut self, most: usize) {
        let over = self.waiting.len().saturating_sub(most);
        self.skipped.extend(self.waiting.drain(..over).map(|waiting| waiting.picture));
    }

    /// Whether a picture may wait for its turn behind another, because the display is known to keep up.
    #[must_use]
    pub fn shows_in_turn(&self) -> bool {
        let keeps_up = |(refresh, capture): (Span, Span)| {
            refresh.as_nanos() as f64 <= capture.as_nanos() as f64 * MAX_INTERVAL_RATIO
        };
        self.order == DisplayOrder::InTurn && self.refresh_interval.zip(self.capture_interval).is_some_and(keeps_up)
    }
}

#[cfg(test)]
mod tests;
