//! Whose queue a frame meets: its own flow's, which a lower rate drains, or somebody else's, which it does not.
//!
//! In a queue that is ours alone, the first packet of a frame arrives right behind the last packet of the frame before. Between them lies
//! what others have sent, or the idle time of a path whose delay has grown.

use nearlight_units::{RemoteTime, Span};

/// Weight of a frame in the share of others. Guess: a mean of some frames.
const WEIGHT: f64 = 0.125;
/// From this share of the time on, a queue is others'. Guess: what is left of the time beside a frame that takes its whole share;
/// `plans/default-fairness.toml` shows that a flow beside one in twice its size goes unnoticed at 0.1.
const OTHERS: f64 = 0.06;
/// Frames are counted up to this. Guess: twice what is needed to go among others.
const MOST_FOREIGN: u32 = 40;
/// Below it the queue is our own again. Guess: half of that.
const OWN: f64 = 0.03;

/// Follows the queue that frames meet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    before: Option<RemoteTime>,
    /// Share of the time of queued frames in which nothing of ours arrived.
    others: f64,
    queue: Span,
    /// Frames that have met a queue that is others', less those that have not.
    foreign: u32,
    /// Frames in a row that have met no queue.
    empty: u32,
    /// The shortest queue that the newest frame's packets have met.
    lowest: Span,
}

impl Standing {
    /// The first packet of a frame arrived after waiting for `queue`; before it, the newest packet of ours arrived at `last`, and a packet
    /// takes `packet`. A queue of `least` is none.
    pub(super) fn on_frame(
        &mut self,
        arrived_at: RemoteTime,
        last: Option<RemoteTime>,
        queue: Span,
        (least, packet): (Span, Span),
    ) {
        let took = self.before.replace(arrived_at).map_or(Span::ZERO, |before| arrived_at - before);
        self.lowest = queue;
        self.queue = queue;
        if queue <= least {
            self.empty = self.empty.saturating_add(1);
            self.foreign = self.foreign.saturating_sub(1);
            return;
        }
        self.empty = 0;
        if let Some(last) = last.filter(|_| took > Span::ZERO) {
            let gap = (arrived_at - last - packet).max(Span::ZERO);
            let share = (gap.as_secs_f64() / took.as_secs_f64()).clamp(0.0, 1.0);
            self.others += WEIGHT * (share - self.others);
        }
        let is_foreign = self.others >= OTHERS;
        self.foreign = if is_foreign { (self.foreign + 1).min(MOST_FOREIGN) } else { self.foreign.saturating_sub(1) };
    }

    /// Another packet of the newest frame has waited for so long.
    pub(super) fn on_packet(&mut self, queue: Span) {
        self.lowest = self.lowest.min(queue);
    }

    /// All packets of the newest frame have waited for at least this.
    pub(super) fn lowest(&self) -> Span {
        self.lowest
    }

    /// That the newest frame's first packet has met.
    pub(super) fn queue(&self) -> Span {
        self.queue
    }

    /// Frames that have met a queue that is others', less those that have not.
    pub(super) fn foreign(&self) -> u32 {
        self.foreign
    }

    /// Frames in a row that met no queue.
    pub(super) fn empty(&self) -> u32 {
        self.empty
    }

    /// Nobody else is in the queue.
    pub(super) fn is_own(&self) -> bool {
        self.others < OWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames each 16 ms that meet 20 ms of queue; this much of the time before each is others'.
    fn after(frames: u64, gap: u64) -> Standing {
        let mut standing = Standing::default();
        for frame in 1..=frames {
            let arrived_at = RemoteTime::from_millis(frame * 16);
            let last = Some(RemoteTime::from_millis(frame * 16 - gap));
            let (least, packet) = (Span::from_millis(3), Span::from_millis(1));
            standing.on_frame(arrived_at, last, Span::from_millis(20), (least, packet));
        }
        standing
    }

    #[test]
    fn frames_back_to_back_are_a_queue_of_our_own_and_others_show_in_between() {
        let own = after(100, 1);
        assert!(own.is_own() && own.foreign() == 0, "{own:?}");
        let others = after(30, 9);
        assert!(!others.is_own() && others.foreign() > 25, "{others:?}");
        assert_eq!(after(100, 9).foreign(), MOST_FOREIGN);
    }

    #[test]
    fn an_empty_queue_counts_down() {
        let mut standing = after(30, 9);
        for frame in 31..=36 {
            let arrived_at = RemoteTime::from_millis(frame * 16);
            standing.on_frame(arrived_at, None, Span::from_millis(2), (Span::from_millis(3), Span::ZERO));
        }
        assert_eq!(standing.empty(), 6);
        assert!(standing.foreign() < 25, "{standing:?}");
    }
}
