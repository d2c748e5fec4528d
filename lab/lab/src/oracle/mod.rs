//! The best sizes of a session's frames over a path whose capacity is known in advance. No rate controller knows the future, so the value of this
//! schedule bounds what any of them can reach.
//!
//! # The problem
//!
//! A path is a server that delivers up to a known number of bytes in each interval ([`Service`]). Frame i enters the path's queue at `enters`, first
//! in, first out, and counts if its last byte is out by `due`. Its value grows with its size ([`Choice`]); a frame that cannot be in time is not sent,
//! since it would only delay the others. A gap between frames in time that is longer than a limit is a stall, and costs as many values of 1 as it has
//! frame intervals. The schedule maximises the sum of values less that of stalls: the utility of docs/lab.md times the number of frames.
//!
//! # The solution
//!
//! Dynamic programming, backwards over frames. The state is the backlog that a frame finds in the queue, and how many frames before it were left out
//! (up to the limit of a stall). Backlogs lie on a grid; between its points the value is interpolated linearly. The schedule is then played forwards
//! with exact backlogs, so the reported value is that of a feasible schedule, never more. Layers of values are kept at every [`LAYERS_PER_BLOCK`]th
//! frame and recomputed between, so memory does not grow with the square of anything.
//!
//! # Not modelled
//!
//! Random losses, and delay that varies by itself: the schedule knows neither, and a path that has them is worth less. The queue's limit: a sender
//! that knows the path keeps in its own queue what the path's cannot take. Late frames, which may end a stall a little earlier. Encoders that miss
//! the requested size.

mod service;

pub use self::service::Service;

use nearlight_units::{Bytes, Time};

/// A candidate size of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Bytes on the path, with all headers.
    pub bytes: Bytes,
    /// Value from 0 to 1, not lower than that of a smaller size.
    pub value: f64,
}

/// A frame's place in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When the encoded frame enters the path.
    pub enters: Time,
    /// The last moment at which its last byte may leave the path.
    pub due: Time,
}

/// A scheduling problem.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    pub service: &'a Service,
    /// In order of `enters`.
    pub frames: &'a [Frame],
    /// In order of size; not empty.
    pub choices: &'a [Choice],
    /// Largest number of frame intervals between two frames in time that is not a stall, at least 1.
    pub stall_after: usize,
}

/// The best schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// Index of each frame's choice. None if the frame is skipped.
    pub choices: Vec<Option<usize>>,
    /// Sum of the frames' values.
    pub value: f64,
    pub stalls: usize,
    /// Frame intervals in stalls.
    pub stalled: usize,
}

impl Schedule {
    /// Returns the utility per frame, from -1 to 1.
    #[must_use]
    pub fn utility(&self) -> f64 {
        (self.value - self.stalled as f64) / self.choices.len().max(1) as f64
    }
}

/// Points of the grid of backlogs. With 512 instead of 256, utilities over the test's random paths change by less than 0.001.
const BACKLOG_GRID_POINTS: usize = 257;

/// How far a sum of service may fall short of its true value by rounding, in bytes. A frame that just fits must not be left out for that: the
/// schedule would be no bound.
const MAX_ROUNDING_BYTES: f64 = 1e-6;

/// Layers that are recomputed at a time: about the square root of the frames in a minute at 60 a second.
const LAYERS_PER_BLOCK: usize = 64;

/// The values of all states before a frame, by number of skipped frames and backlog.
type Layer = Vec<f64>;

/// The capacity of the path around a frame.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Bytes that the path can deliver from this frame's entry to its due time, and to the next frame's entry.
    in_time: f64,
    until_next: f64,
}

struct Solver<'a> {
    steps: Vec<Step>,
    choices: &'a [Choice],
    stall_after: usize,
    /// Bytes from one point of the grid to the next.
    spacing: f64,
}

/// Returns the best schedule. The work grows with the product of frames and choices: a minute of 60 frames a second with 64 choices takes about a
/// second.
#[must_use]
pub fn solve(problem: &Problem<'_>) -> Schedule {
    let solver = Solver::new(problem);
    let frames = solver.steps.len();
    // From the end: the layer behind the last frame of each block.
    let mut behind = vec![solver.last_layer()];
    let blocks = frames.div_ceil(LAYERS_PER_BLOCK);
    for block in (1..blocks).rev() {
        let mut layer = behind.last().cloned().unwrap_or_default();
        for frame in (block * LAYERS_PER_BLOCK..frames.min((block + 1) * LAYERS_PER_BLOCK)).rev() {
            layer = solver.before(frame, &layer);
        }
        behind.push(layer);
    }
    let mut player = Player::default();
    for block in 0..blocks {
        let range = block * LAYERS_PER_BLOCK..frames.min((block + 1) * LAYERS_PER_BLOCK);
        let mut layers = vec![behind.pop().unwrap_or_default()];
        for frame in range.clone().skip(1).rev() {
            let layer = solver.before(frame, &layers[layers.len() - 1]);
            layers.push(layer);
        }
        for frame in range {
            let after = layers.pop().unwrap_or_default();
            player.play(&solver, frame, &after);
        }
    }
    player.schedule
}

impl<'a> Solver<'a> {
    fn new(problem: &Problem<'a>) -> Self {
        let Problem { service, frames, choices, stall_after } = *problem;
        let step = |(index, frame): (usize, &Frame)| {
            let before = service.until(frame.enters);
            let next = frames.get(index + 1).map_or(before, |next| service.until(next.enters));
            Step { in_time: service.until(frame.due) - before, until_next: next - before }
        };
        let steps: Vec<Step> = frames.iter().enumerate().map(step).collect();
        // No backlog is ever larger: a frame is sent only if it is in time.
        let largest = steps.iter().map(|step| step.in_time).fold(1.0, f64::max);
        // Never finer than a byte: on paths of so few bytes the schedule is exact.
        let spacing = (largest / (BACKLOG_GRID_POINTS - 1) as f64).max(1.0);
        Self { steps, choices, stall_after: stall_after.max(1), spacing }
    }

    fn last_layer(&self) -> Layer {
        vec![0.0; BACKLOG_GRID_POINTS * (self.stall_after + 1)]
    }

    /// Returns the cost of skipping one more frame.
    fn stall(&self, left_out: usize) -> usize {
        match (left_out + 1).cmp(&self.stall_after) {
            std::cmp::Ordering::Less => 0,
            // The gap is too long now, and counts from its beginning.
            std::cmp::Ordering::Equal => self.stall_after + 1,
            std::cmp::Ordering::Greater => 1,
        }
    }

    /// Returns the number of skipped frames after one more, capped where it no longer matters.
    fn one_more(&self, left_out: usize) -> usize {
        (left_out + 1).min(self.stall_after)
    }

    fn value(&self, layer: &Layer, left_out: usize, backlog: f64) -> f64 {
        let place = (backlog / self.spacing).min((BACKLOG_GRID_POINTS - 1) as f64);
        let below = (place as usize).min(BACKLOG_GRID_POINTS - 2);
        let row = &layer[left_out * BACKLOG_GRID_POINTS..(left_out + 1) * BACKLOG_GRID_POINTS];
        row[below] + (row[below + 1] - row[below]) * (place - below as f64)
    }

    /// Returns the best size of a frame at this backlog, and the value of it and all later frames. None if no size is in time.
    fn best(&self, frame: usize, backlog: f64, after: &Layer) -> Option<(usize, f64)> {
        let Step { in_time, until_next } = self.steps[frame];
        let fitting = self.choices.iter().map(|choice| (choice.bytes.get() as f64, choice.value));
        let mut best: Option<(usize, f64)> = None;
        for (index, (bytes, value)) in fitting.enumerate() {
            let queued = backlog + bytes;
            if queued > in_time + MAX_ROUNDING_BYTES {
                break;
            }
            let worth = value + self.value(after, 0, (queued - until_next).max(0.0));
            if best.is_none_or(|(_, other)| worth > other) {
                best = Some((index, worth));
            }
        }
        best
    }

    /// Returns the value of all later frames if this one is skipped.
    fn without(&self, frame: usize, left_out: usize, backlog: f64, after: &Layer) -> f64 {
        let rest = (backlog - self.steps[frame].until_next).max(0.0);
        self.value(after, self.one_more(left_out), rest) - self.stall(left_out) as f64
    }

    /// Computes the layer before a frame from the one after it.
    fn before(&self, frame: usize, after: &Layer) -> Layer {
        let mut layer = self.last_layer();
        for point in 0..BACKLOG_GRID_POINTS {
            let backlog = point as f64 * self.spacing;
            let sent = self.best(frame, backlog, after).map_or(f64::NEG_INFINITY, |(_, worth)| worth);
            for left_out in 0..=self.stall_after {
                layer[left_out * BACKLOG_GRID_POINTS + point] = sent.max(self.without(frame, left_out, backlog, after));
            }
        }
        layer
    }
}

/// Follows the best choices forward in time.
#[derive(Default)]
struct Player {
    backlog: f64,
    left_out: usize,
    schedule: Schedule,
}

impl Player {
    fn play(&mut self, solver: &Solver<'_>, frame: usize, after: &Layer) {
        let sent = solver.best(frame, self.backlog, after);
        let without = solver.without(frame, self.left_out, self.backlog, after);
        let choice = sent.filter(|(_, worth)| *worth >= without).map(|(index, _)| index);
        if let Some(index) = choice {
            self.backlog += solver.choices[index].bytes.get() as f64;
            self.left_out = 0;
            self.schedule.value += solver.choices[index].value;
        } else {
            self.schedule.stalled += solver.stall(self.left_out);
            self.schedule.stalls += usize::from(self.left_out + 1 == solver.stall_after);
            self.left_out = solver.one_more(self.left_out);
        }
        self.backlog = (self.backlog - solver.steps[frame].until_next).max(0.0);
        self.schedule.choices.push(choice);
    }
}
