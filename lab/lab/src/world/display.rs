//! A client's display: decoded pictures wait for its refreshes, and those that it skips are counted.

use nearlight_session::DisplayQueue;
use nearlight_units::{Span, Time};

use super::tally::Tally;
use crate::plan::Client;

pub(super) struct Display<P> {
    queue: DisplayQueue<P>,
    /// Longest time from capture to display.
    deadline: Span,
}

impl<P> Display<P> {
    pub(super) fn new(client: &Client) -> Self {
        let mut queue = DisplayQueue::new(client.order);
        queue.set_refresh_interval(Some(Span::from_secs(1) / i64::from(client.refresh)));
        Self { queue, deadline: client.deadline }
    }

    /// A picture was decoded.
    pub(super) fn push(&mut self, now: Time, captured_at: Time, picture: P, tally: &mut Tally) {
        // Only intervals between captures matter, and the server's clock runs as fast.
        self.queue.push(captured_at.for_peer(), Some(captured_at + self.deadline), picture);
        self.count_skipped(now, tally);
    }

    /// Returns the picture that is displayed from `now` on.
    pub(super) fn refresh(&mut self, now: Time, tally: &mut Tally) -> Option<P> {
        let shown = self.queue.take(now);
        self.queue.on_refresh(now);
        self.count_skipped(now, tally);
        shown
    }

    fn count_skipped(&mut self, now: Time, tally: &mut Tally) {
        while self.queue.poll_skipped().is_some() {
            tally.on_passed_over(now);
        }
    }
}
