//! Computes when to capture: just after new input has arrived, and so that the picture is ready just before the display refreshes.
//!
//! A display refreshes, a user's movements are sampled and pictures are captured at regular intervals. How long a picture waits for a
//! refresh, and an input for a picture, depends on how these three align. Chance decides that when a client connects, and drifting clocks
//! change it. Both waits are known. The best moment has the smallest mean sum of both over the newest frames and inputs. It is found by
//! trying each moment that one of them suggests.

use std::collections::VecDeque;

use nearlight_units::{RemoteTime, Span, Time};

/// Number of frames, and of inputs, from which the best moment is computed: a second at 30 frames a second.
const HISTORY_LENGTH: usize = 32;
/// Minimum number of frames for an estimate: fewer say too little about how much they vary. Guess: half of what is remembered.
const MIN_FRAMES: usize = 16;
/// How much earlier than the last possible moment a picture should be ready, and how much later than an input it should be captured.
/// Guess: two clocks drift 1 ms apart in a second, as 59.94 and 60 Hz do, and reports are half a second old on average.
const MARGIN: Span = Span::from_micros(500);
/// A longer wait means that the display was not refreshing.
const MAX_WAIT: Span = Span::from_secs(1);
/// A display catches up with a queue within this time. Guess: twice as long as it lets pictures wait.
const MAX_QUEUE: Span = Span::from_millis(200);
/// A ratio of refreshes or inputs to frames within this distance of a whole number counts as whole: 59.94 Hz is 60.
const WHOLE_RATIO_TOLERANCE: f64 = 0.02;
/// At shorter intervals of refreshes or inputs, in nanoseconds, the wait is not worth optimizing. Guess.
const MIN_INTERVAL_NANOS: i64 = 1_000_000;
/// Minimum time between two searches for the best moment, because a client may report as often as it likes.
const MIN_SEARCH_INTERVAL: Span = Span::from_millis(50);
/// Minimum reduction of the mean wait for each millisecond of movement, in milliseconds: chance alone yields less. Guess.
const MIN_GAIN_PER_SHIFT: f64 = 0.25;
/// A frame that waited longer than a refresh raises the lead by one over this part of the excess. Guess: one stall has little effect.
const LEAD_GAIN: i64 = 4;
/// Each frame reduces that increase by one over this. Guess: two minutes at 30 frames a second.
const LEAD_DECAY: i64 = 4_096;

/// Tracks displayed frames and inputs, and computes when a capture would be best.
#[derive(Clone, Debug)]
pub(crate) struct CaptureTiming {
    /// All times are in nanoseconds.
    frame_interval: i64,
    refresh_interval: Option<i64>,
    /// How long before a refresh a picture must be decoded to be shown by it, because it has to be drawn as well.
    lead: i64,
    frames: VecDeque<DisplayedFrame>,
    queued: QueueDetector,
    inputs: VecDeque<Input>,
    best: Option<Time>,
    sought_at: Option<Time>,
}

/// A displayed frame.
#[derive(Clone, Copy, Debug)]
struct DisplayedFrame {
    captured_at: Time,
    /// How long the decoded frame waited for the display.
    waited: Span,
}

/// Detects pictures that waited because a late picture was displayed just before them.
#[derive(Clone, Debug, Default)]
struct QueueDetector {
    /// When the newest picture was decoded and when it was displayed, on the server's clock.
    newest: Option<(Time, Time)>,
    since: Option<Time>,
}

impl QueueDetector {
    /// Returns whether the picture had to wait for the previous one. The frame interval is in nanoseconds.
    fn on_displayed(&mut self, displayed_at: Time, waited: Span, frame_interval: i64) -> bool {
        let decoded_at = displayed_at - waited;
        let previous = self.newest.replace((decoded_at, displayed_at));
        let Some((decoded_before, displayed_before)) = previous.filter(|(_, displayed)| decoded_at < *displayed) else {
            self.since = None;
            return false;
        };
        let (step, since_shown) = (decoded_at - decoded_before, displayed_at - displayed_before);
        // If pictures come at even intervals and each waits for more than a refresh, none delays another.
        if since_shown > Span::ZERO && step < Span::from_nanos(frame_interval) * 3 / 4 {
            self.since.get_or_insert(displayed_at);
        }
        self.since.is_some_and(|since| displayed_at - since < MAX_QUEUE)
    }
}

/// When an input was made, on the client's clock, and when it arrived.
#[derive(Clone, Copy, Debug)]
struct Input {
    sampled_at: RemoteTime,
    received_at: Time,
}

impl CaptureTiming {
    pub(crate) fn new(frame_interval: Span) -> Self {
        Self {
            frame_interval: frame_interval.as_nanos().max(1),
            refresh_interval: None,
            lead: 0,
            frames: VecDeque::with_capacity(HISTORY_LENGTH),
            queued: QueueDetector::default(),
            inputs: VecDeque::with_capacity(HISTORY_LENGTH),
            best: None,
            sought_at: None,
        }
    }

    /// Sets the client's display rate in refreshes per second. 0 for a client that shows a picture the moment it is decoded.
    pub(crate) fn set_display_hz(&mut self, hz: u16) {
        let interval = (hz > 0).then(|| 1_000_000_000 / i64::from(hz));
        if self.refresh_interval != interval {
            self.refresh_interval = interval;
            self.lead = 0;
            self.frames.clear();
            self.best = None;
        }
    }

    pub(crate) fn on_input(&mut self, received_at: Time, sampled_at: RemoteTime) {
        remember(&mut self.inputs, Input { sampled_at, received_at });
    }

    /// Records a picture that was displayed at `displayed_at` after it had been decoded for `waited`.
    pub(crate) fn on_displayed(&mut self, captured_at: Time, displayed_at: Time, waited: Span) {
        let waited = waited.clamp(Span::ZERO, MAX_WAIT);
        let queued = self.queued.on_displayed(displayed_at, waited, self.frame_interval);
        if let Some(interval) = self.refresh_interval.filter(|_| !queued) {
            // A picture that is ready waits for one refresh at most: during any longer wait it was not ready.
            let excess = (waited.as_nanos() - interval).min(interval);
            self.lead += if excess > self.lead { (excess - self.lead) / LEAD_GAIN } else { -self.lead / LEAD_DECAY };
        }
        remember(&mut self.frames, DisplayedFrame { captured_at, waited });
    }

    /// Handles the end of a batch of reports on frames.
    pub(crate) fn on_reported(&mut self, now: Time) {
        if self.sought_at.is_none_or(|at| now - at >= MIN_SEARCH_INTERVAL) {
            self.sought_at = Some(now);
            self.best = self.search();
        }
    }

    /// A moment at which a capture would have been best; others are whole frame intervals away. None if no moment is better than
    /// another, or too little is known.
    pub(crate) const fn best(&self) -> Option<Time> {
        self.best
    }

    fn search(&self) -> Option<Time> {
        let newest = self.frames.back().filter(|_| self.frames.len() >= MIN_FRAMES)?.captured_at;
        let display = self.refresh_interval.and_then(|interval| {
            let ahead = MARGIN + Span::from_nanos(self.lead);
            let deadlines = self.frames.iter().map(|shown| (shown.captured_at - newest) + shown.waited - ahead);
            Grid::new(self.frame_interval, interval, Side::Before, deadlines)
        });
        let input = self.input_interval().and_then(|interval| {
            let arrivals = self.inputs.iter().map(|input| (input.received_at - newest) + MARGIN);
            Grid::new(self.frame_interval, interval, Side::After, arrivals)
        });
        let grids = [display, input];
        let grids = grids.iter().flatten();
        let cost = |at: i64| {
            let distance = at.min(self.frame_interval - at) as f64;
            grids.clone().map(|grid| grid.mean_wait(at)).sum::<f64>() + MIN_GAIN_PER_SHIFT * distance
        };
        // Starts at the newest capture, which needs no change: an equally good moment does not replace it.
        let (mut best, mut least) = (0, cost(0));
        for at in grids.clone().flat_map(Grid::candidates) {
            let cost = cost(at);
            if cost < least {
                (best, least) = (at, cost);
            }
        }
        grids.clone().next()?;
        let nearest = if best > self.frame_interval / 2 { best - self.frame_interval } else { best };
        Some(newest + Span::from_nanos(nearest))
    }

    /// The interval between inputs, if most of them are that far apart.
    fn input_interval(&self) -> Option<i64> {
        let apart = |(one, next): (&Input, &Input)| (next.sampled_at - one.sampled_at).as_nanos();
        let mut gaps = self.inputs.iter().zip(self.inputs.iter().skip(1)).map(apart).collect::<Vec<_>>();
        gaps.sort_unstable();
        // If a quarter of the gaps or more are longer or shorter, movements are not sampled at regular intervals.
        let (early, middle, late) = (gaps.len() / 4, gaps.len() / 2, gaps.len() * 3 / 4);
        let even = gaps.len() + 1 == HISTORY_LENGTH && gaps[late].saturating_sub(gaps[early]) <= gaps[middle] / 4;
        even.then(|| gaps[middle])
    }
}

fn remember<T>(newest: &mut VecDeque<T>, one: T) {
    if newest.len() == HISTORY_LENGTH {
        newest.pop_front();
    }
    newest.push_back(one);
}

/// Whether a capture waits for a grid's moments, or the moments wait for a capture.
#[derive(Clone, Copy, Debug)]
enum Side {
    /// The picture of a capture waits for the next moment.
    Before,
    /// The previous moment's input waits for the capture.
    After,
}

/// Recurring moments within one frame interval, each with a little jitter.
struct Grid {
    interval: i64,
    repeats: i64,
    side: Side,
    /// Times since the newest capture, within one of the grid's intervals.
    moments: Vec<i64>,
}

impl Grid {
    /// Makes a grid. None if the moments do not recur at the same phase in each frame interval.
    fn new(frame: i64, interval: i64, side: Side, moments: impl Iterator<Item = Span>) -> Option<Self> {
        if interval < MIN_INTERVAL_NANOS {
            return None;
        }
        let exact = frame as f64 / interval as f64;
        let repeats = exact.round() as i64;
        if repeats < 1 || (exact - repeats as f64).abs() > WHOLE_RATIO_TOLERANCE * exact {
            return None;
        }
        // Adjusted so that they fit exactly: the remainder is drift, which is tracked.
        let interval = frame / repeats;
        let moments = moments.map(|at| at.as_nanos().rem_euclid(interval)).collect();
        Some(Self { interval, repeats, side, moments })
    }

    /// The mean wait for a capture `at` nanoseconds after the newest.
    fn mean_wait(&self, at: i64) -> f64 {
        let place = at % self.interval;
        let wait = |moment: &i64| {
            let wait = match self.side {
                Side::Before => moment - place,
                Side::After => place - moment,
            };
            if wait < 0 { wait + self.interval } else { wait }
        };
        self.moments.iter().map(wait).sum::<i64>() as f64 / self.moments.len().max(1) as f64
    }

    /// The captures at which the wait is least for one of the moments.
    fn candidates(&self) -> impl Iterator<Item = i64> + '_ {
        self.moments.iter().flat_map(move |moment| (0..self.repeats).map(move |repeat| moment + repeat * self.interval))
    }
}

#[cfg(test)]
mod tests;
