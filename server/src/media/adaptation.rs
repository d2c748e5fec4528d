//! Adapts the size of rendered pictures to what the machine sustains, while the server runs.
//!
//! The measurement at the start sees one second of a machine whose load changes. From then on, the share of pictures that are made shows
//! whether the size is too large, and the time that rendering and encoding take whether a larger one would fit. Encoders change the size at a
//! key frame only, so both directions have hysteresis: a size must be too large for several seconds, and a larger one is tried after a pause
//! that doubles each time that the attempt at that size fails.

use nearlight_codec::Size;
use nearlight_units::{Span, Time};

use crate::media::overload::FrameSlot;

/// Window over which pictures and times are averaged. Guess: the rate of pictures in it is known to 2 % at 30 a second.
const WINDOW: Span = Span::from_secs(2);
/// Smallest share of the wanted pictures that is enough, as for the warning about overload.
const MIN_PICTURE_SHARE: f64 = 0.9;
/// Windows in a row with too few pictures before the size shrinks. One is not enough: other programs are busy for a second now and then.
const POOR_WINDOWS_BEFORE_SHRINKING: u32 = 2;
/// Share of the time between frames that rendering, and encoding, may take in the next larger size. The rest absorbs jitter and other load,
/// as in the measurement at the start.
const MAX_TIME_SHARE: f64 = 0.7;
/// Time with room for a larger size before it is tried. It doubles with each attempt that fails, up to the maximum. Guesses.
const FIRST_PAUSE: Span = Span::from_secs(10);
const MAX_PAUSE: Span = Span::from_secs(640);
/// An attempt to grow has failed if the size shrinks again within this time, and succeeded after it. Guess.
const PROBATION: Span = Span::from_secs(60);

/// The sizes to choose from, in pixels. The measurement at the start chooses among the same ones.
const SIZES: [(u16, u16); 4] = [(640, 360), (960, 540), (1_280, 720), (1_920, 1_080)];
/// The largest size that is tried though a smaller one was measured at the start. Guess: it looks good in a browser's window.
const LARGEST_TRIED: (u16, u16) = (1_280, 720);

/// Returns the sizes that `--size auto` may use, smallest first, if `measured` was chosen at the start.
pub(crate) fn sizes_for(measured: Size) -> Vec<Size> {
    let largest = pixels(measured).max(f64::from(LARGEST_TRIED.0) * f64::from(LARGEST_TRIED.1));
    let sizes = SIZES.map(|(width, height)| Size { width, height });
    sizes.into_iter().filter(|size| pixels(*size) <= largest).collect()
}

/// What happened in one frame slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotLoad {
    pub(crate) slot: FrameSlot,
    /// Time in which the studio drew the pictures of all viewers.
    pub(crate) rendering: Span,
    /// Time since the previous slot in which the busiest encoder worked.
    pub(crate) encoding: Span,
}

/// Sums over one window.
#[derive(Clone, Copy, Debug)]
struct Window {
    began: Time,
    made: u32,
    skipped: u32,
    rendering: Span,
    encoding: Span,
}

/// Chooses the size of the pictures.
#[derive(Debug)]
pub(crate) struct SizeAdaptation {
    /// Smallest first; a single one is kept.
    sizes: Vec<Size>,
    current: usize,
    fps: f64,
    window: Option<Window>,
    poor_windows: u32,
    /// Since when a larger size would fit.
    roomy_since: Option<Time>,
    /// For each size, the time with room for it before it is tried.
    pauses: Vec<Span>,
    /// When the size last grew, until that has proved right or wrong.
    grew_at: Option<Time>,
}

impl SizeAdaptation {
    /// Starts with `size`. Without `sizes` that contain it the size is fixed.
    pub(crate) fn new(sizes: Vec<Size>, size: Size, fps: u16) -> Self {
        let current = sizes.iter().position(|known| *known == size);
        let (sizes, current) = current.map_or_else(|| (vec![size], 0), |current| (sizes, current));
        let fps = f64::from(fps);
        let pauses = vec![FIRST_PAUSE; sizes.len()];
        Self { sizes, current, fps, window: None, poor_windows: 0, roomy_since: None, pauses, grew_at: None }
    }

    /// Returns whether there is a smaller size.
    pub(crate) const fn can_shrink(&self) -> bool {
        self.current > 0
    }

    /// Forgets the present window, because there are no viewers.
    pub(crate) const fn on_idle(&mut self) {
        (self.window, self.poor_windows, self.roomy_since) = (None, 0, None);
    }

    /// Takes a frame slot into account. Returns the new size if it changes.
    pub(crate) fn on_slot(&mut self, now: Time, load: SlotLoad) -> Option<Size> {
        let window = self.window.get_or_insert(Window {
            began: now,
            made: 0,
            skipped: 0,
            rendering: Span::ZERO,
            encoding: Span::ZERO,
        });
        window.made += u32::from(load.slot == FrameSlot::Captured);
        window.skipped += u32::from(load.slot == FrameSlot::Skipped);
        window.rendering += load.rendering;
        window.encoding += load.encoding;
        if now - window.began < WINDOW {
            return None;
        }
        let window = self.window.take()?;
        let before = self.current;
        self.on_window(now, &window);
        (self.current != before).then(|| self.sizes[self.current])
    }

    fn on_window(&mut self, now: Time, window: &Window) {
        let passed = (now - window.began).as_secs_f64();
        let wanted = self.fps * passed - f64::from(window.skipped);
        let share = if wanted >= 1.0 { f64::from(window.made) / wanted } else { 1.0 };
        if self.grew_at.is_some_and(|grew_at| now - grew_at > PROBATION) {
            self.grew_at = None;
            self.pauses[self.current] = FIRST_PAUSE;
        }
        if share < MIN_PICTURE_SHARE {
            self.roomy_since = None;
            self.poor_windows += 1;
            if self.poor_windows >= POOR_WINDOWS_BEFORE_SHRINKING {
                self.shrink(share);
            }
            return;
        }
        self.poor_windows = 0;
        // A path that carries few pictures says nothing about larger ones.
        let Some(next) = self.sizes.get(self.current + 1).filter(|_| window.skipped == 0) else { return };
        let growth = pixels(*next) / pixels(self.sizes[self.current]);
        let busiest = window.rendering.max(window.encoding).as_secs_f64() / passed;
        if busiest * growth > MAX_TIME_SHARE {
            self.roomy_since = None;
        } else if now - *self.roomy_since.get_or_insert(window.began) >= self.pauses[self.current + 1] {
            (self.current, self.roomy_since, self.grew_at) = (self.current + 1, None, Some(now));
        }
    }

    /// Chooses the largest smaller size whose pictures the machine makes at the present rate of pixels.
    fn shrink(&mut self, share: f64) {
        self.poor_windows = 0;
        if self.grew_at.take().is_some() {
            let pause = &mut self.pauses[self.current];
            *pause = (*pause * 2).min(MAX_PAUSE);
        }
        let sustained = pixels(self.sizes[self.current]) * share;
        let fits = self.sizes[..self.current].iter().rposition(|size| pixels(*size) <= sustained);
        self.current = fits.unwrap_or(0);
    }
}

fn pixels(size: Size) -> f64 {
    f64::from(size.width) * f64::from(size.height)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FPS: u16 = 30;

    /// A machine on which rendering and encoding, side by side, take this many nanoseconds a pixel.
    #[derive(Clone, Copy)]
    struct Machine {
        rendering: f64,
        encoding: f64,
    }

    /// A studio on such a machine, in virtual time.
    struct Simulation {
        adaptation: SizeAdaptation,
        size: Size,
        now: Time,
        encoder_free_at: Time,
        changes: Vec<(Time, Size)>,
    }

    impl Simulation {
        fn new(height: u16) -> Self {
            let size = of_height(height);
            let adaptation = SizeAdaptation::new(sizes_for(size), size, FPS);
            Self { adaptation, size, now: Time::ZERO, encoder_free_at: Time::ZERO, changes: Vec::new() }
        }

        fn run(&mut self, seconds: i64, machine: Machine) {
            let (end, interval) = (self.now + Span::from_secs(seconds), Span::from_secs(1) / i64::from(FPS));
            while self.now < end {
                let take = |nanos: f64| Span::from_nanos((pixels(self.size) * nanos) as i64);
                let (mut rendering, mut encoding) = (Span::ZERO, Span::ZERO);
                // One picture may wait while another is encoded.
                let slot = if self.encoder_free_at > self.now + interval {
                    FrameSlot::EncoderBusy
                } else {
                    (rendering, encoding) = (take(machine.rendering), take(machine.encoding));
                    self.encoder_free_at = self.encoder_free_at.max(self.now + rendering) + encoding;
                    FrameSlot::Captured
                };
                self.now += interval.max(rendering);
                if let Some(size) = self.adaptation.on_slot(self.now, SlotLoad { slot, rendering, encoding }) {
                    self.changes.push((self.now, size));
                    self.size = size;
                }
            }
        }
    }

    fn of_height(height: u16) -> Size {
        Size { width: height / 9 * 16, height }
    }

    /// Sustains 960x540 with a share of 0.5, and 1280x720 with 0.9.
    const MIDDLING: Machine = Machine { rendering: 32.0, encoding: 20.0 };
    const FAST: Machine = Machine { rendering: 5.0, encoding: 8.0 };
    const SLOW: Machine = Machine { rendering: 90.0, encoding: 20.0 };

    #[test]
    fn the_size_settles_where_the_machine_sustains_it_wherever_it_started() {
        for (machine, expected) in [(MIDDLING, 540), (FAST, 720), (SLOW, 360)] {
            for start in [360, 540, 720] {
                let mut simulation = Simulation::new(start);
                simulation.run(60, machine);
                // What runs at full rate stays, even if it leaves little room.
                let settled = simulation.size.height;
                let runs = f64::from(FPS) * pixels(simulation.size) * machine.rendering.max(machine.encoding) < 0.95e9;
                assert!(settled == expected || (start > expected && runs), "{start}: {settled} for {expected}");
            }
        }
    }

    #[test]
    fn the_size_follows_the_machine_s_load_down_and_up() {
        let mut simulation = Simulation::new(720);
        simulation.run(60, FAST);
        assert!(simulation.changes.is_empty(), "{:?}", simulation.changes);
        simulation.run(20, SLOW);
        assert_eq!(simulation.size.height, 360, "{:?}", simulation.changes);
        simulation.run(60, FAST);
        assert_eq!(simulation.size.height, 720, "{:?}", simulation.changes);
    }

    #[test]
    fn a_size_that_fails_again_and_again_is_tried_ever_less_often() {
        let mut simulation = Simulation::new(540);
        // Each time that it looks as if there were room, another program takes the time of the larger size.
        for _ in 0..360 {
            let machine = if simulation.size.height > 540 { SLOW } else { Machine { rendering: 10.0, encoding: 10.0 } };
            simulation.run(5, machine);
        }
        let grown = simulation.changes.iter().filter(|(_, size)| size.height == 720).count();
        assert!((4..=9).contains(&grown), "{grown} attempts in half an hour");
    }

    #[test]
    fn a_size_that_was_given_and_a_path_that_carries_little_change_nothing() {
        let given = Size { width: 800, height: 600 };
        let mut fixed = SizeAdaptation::new(Vec::new(), given, FPS);
        let mut limited = SizeAdaptation::new(sizes_for(of_height(360)), of_height(360), FPS);
        for slot in 1..10_000 {
            let now = Time::ZERO + Span::from_millis(50) * slot;
            let load = |slot| SlotLoad { slot, rendering: Span::ZERO, encoding: Span::ZERO };
            assert_eq!(fixed.on_slot(now, load(FrameSlot::EncoderBusy)), None);
            assert_eq!(limited.on_slot(now, load(FrameSlot::Skipped)), None);
        }
        assert!(!fixed.can_shrink());
    }
}
