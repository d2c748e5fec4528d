use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use nearlight_wire::SOUND_PAUSE;

use super::*;

/// A tone whose phase reveals its moment: left is its sine, right its cosine.
const HERTZ: f64 = 100.0;
/// The server's clock is ahead by this.
const AHEAD: Span = Span::from_secs(77);

/// The path's effect on datagrams.
#[derive(Clone, Copy)]
struct Path {
    delay: Span,
    jitter: Span,
    loss: f64,
    /// Mean length of a run of losses.
    burst: f64,
}

const CLEAN: Path = Path { delay: Span::from_millis(5), jitter: Span::ZERO, loss: 0.0, burst: 1.0 };

/// Server, path, player and output in virtual time. Blocks carry only their number: the decoder knows the tone.
struct SoundSimulation {
    player: SoundPlayer,
    path: Path,
    due_after: Span,
    /// Parts per million by which the server's and the output's clocks run fast.
    server_ppm: f64,
    output_ppm: f64,
    /// From requesting samples until they are heard.
    latency: Span,
    /// The decoder's latency, and the blocks in it.
    decoding: Span,
    in_decoder: Vec<(Time, BlockId)>,
    random: Pcg64Mcg,
    in_burst: bool,
    /// Blocks in which the server is silent, which it announces three times and every 400 ms.
    silent: std::ops::Range<u32>,
    /// Blocks that the server skips because it is late.
    skipped: std::ops::Range<u32>,
    now: Time,
    next_block: u32,
    next_pull: f64,
    in_flight: BTreeMap<(Time, u32), Vec<u8>>,
    /// Frames heard, and when.
    heard: Vec<(Time, [f32; 2])>,
}

impl SoundSimulation {
    fn new(seed: u64, path: Path) -> Self {
        Self {
            player: SoundPlayer::default(),
            path,
            due_after: Span::from_millis(40),
            server_ppm: 0.0,
            output_ppm: 0.0,
            latency: Span::ZERO,
            decoding: Span::ZERO,
            in_decoder: Vec::new(),
            random: Pcg64Mcg::seed_from_u64(seed),
            in_burst: false,
            silent: 0..0,
            skipped: 0..0,
            now: Time::from_secs(1),
            next_block: 7_800,
            next_pull: 1e9,
            in_flight: BTreeMap::new(),
            heard: Vec::new(),
        }
    }

    /// The client's moment of a block, whatever the server's clock says.
    fn made_at(&self, block: u32) -> Time {
        let server = f64::from(block) * 1e7 - AHEAD.as_nanos() as f64;
        Time::from_nanos((1e9 + (server - 1e9) / (1.0 + self.server_ppm / 1e6)) as u64)
    }

    /// The clock synchronization's estimate, without error.
    fn clock(&self) -> ClockEstimate {
        let server = 1e9 + (self.now.as_nanos() as f64 - 1e9) * (1.0 + self.server_ppm / 1e6);
        let offset = AHEAD + Span::from_nanos(server as i64 - self.now.as_nanos() as i64);
        ClockEstimate { offset, error: Span::ZERO, round_trip: Span::from_millis(10), drift_ppm: 0.0 }
    }

    fn run(&mut self, seconds: f64) -> &mut Self {
        let end = self.now + Span::from_secs_f64(seconds);
        while self.now < end {
            self.now += Span::from_micros(500);
            while self.made_at(self.next_block) <= self.now {
                self.send();
            }
            while let Some(entry) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let bytes = entry.remove();
                let Ok(nearlight_wire::ToClient::Sound(sound)) = nearlight_wire::ToClient::parse(&bytes) else {
                    panic!("a sound is read back")
                };
                let clock = Some(self.clock());
                self.player.on_sound(self.now, &sound, clock);
                self.decode();
            }
            if self.player.poll_timeout().is_some_and(|at| at <= self.now) {
                self.decode();
                assert!(self.player.poll_timeout().is_none_or(|at| at > self.now), "its wake is served");
            }
            self.finish_decoding();
            while self.next_pull <= self.now.as_nanos() as f64 {
                self.pull();
            }
        }
        self
    }

    fn send(&mut self) {
        let block = self.next_block;
        self.next_block += 1;
        let changes = if self.in_burst {
            1.0 / self.path.burst
        } else {
            self.path.loss / self.path.burst / (1.0 - self.path.loss)
        };
        self.in_burst ^= self.random.random_bool(changes.min(1.0));
        if self.in_burst || self.skipped.contains(&block) {
            return;
        }
        let [packet, before] = [block, block - 1].map(|block| {
            if self.silent.contains(&block) { SOUND_PAUSE.to_vec() } else { block.to_be_bytes().to_vec() }
        });
        let silent_for = self.silent.contains(&block).then(|| block - self.silent.start);
        if silent_for.is_some_and(|blocks| blocks >= 3 && blocks % 40 != 0) {
            return;
        }
        let follows =
            (self.silent.start == self.silent.end || block != self.silent.end) && !self.skipped.contains(&(block - 1));
        let before = if follows { before } else { Vec::new() };
        let made_at = RemoteTime::from_millis(10 * u64::from(block));
        let due_after_us = self.due_after.as_micros() as u32;
        let sound = Sound { block: BlockId(block), made_at, due_after_us, packet: &packet, before: &before };
        let jitter = self.path.jitter.mul_f64(self.random.random_range(0.0..1.0));
        self.in_flight.insert((self.now + self.path.delay + jitter, block), sound.to_bytes());
    }

    fn decode(&mut self) {
        while let Some(packet) = self.player.poll_packet(self.now) {
            assert_eq!(packet.bytes, packet.block.0.to_be_bytes());
            self.in_decoder.push((self.now + self.decoding, packet.block));
        }
        self.finish_decoding();
    }

    fn finish_decoding(&mut self) {
        while self.in_decoder.first().is_some_and(|(at, _)| *at <= self.now) {
            let (_, block) = self.in_decoder.remove(0);
            let mut samples = [0.0; BLOCK_FRAMES * 2];
            for (index, frame) in samples.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let seconds = f64::from(block.0) / 100.0 + index as f64 / f64::from(SOUND_RATE);
                *frame = tone(seconds);
            }
            self.player.on_decoded(block, &samples);
        }
    }

    fn pull(&mut self) {
        let at = Time::from_nanos(self.next_pull as u64);
        let heard_at = at + self.latency;
        let mut samples = [0.0; BLOCK_FRAMES * 2];
        self.player.play(at, heard_at, Some(self.clock()), &mut samples);
        self.decode();
        for (index, frame) in samples.as_chunks::<2>().0.iter().enumerate() {
            self.heard.push((heard_at + span(index as f64), *frame));
        }
        self.next_pull += 1e7 / (1.0 + self.output_ppm / 1e6);
    }

    fn delay(&self) -> Span {
        self.player.statistics(self.now).delay.expect("somebody listens")
    }

    /// Mean delay of the last second in seconds, computed from the samples alone: the one between minus half a period and half a period.
    fn delay_by_phase(&self) -> f64 {
        let period = 1.0 / HERTZ;
        let recent = &self.heard[self.heard.len() - 48_000..];
        let delays = recent.iter().map(|(at, [left, right])| {
            let server = (*at + AHEAD).as_secs_f64() + (at.as_secs_f64() - 1.0) * self.server_ppm / 1e6;
            let phase = f64::from(left.atan2(*right)) / std::f64::consts::TAU * period;
            (server - phase + period / 2.0).rem_euclid(period) - period / 2.0
        });
        delays.sum::<f64>() / 48_000.0
    }

    /// The largest difference between successive samples after `from` seconds: the tone's own is 0.0131.
    fn largest_step(&self, from: f64) -> f32 {
        let heard = self.since(from);
        let steps = heard.windows(2).map(|pair| (pair[0][0] - pair[1][0]).abs().max((pair[0][1] - pair[1][1]).abs()));
        steps.fold(0.0, f32::max)
    }

    /// The quietest ten milliseconds after `from` seconds: the tone's amplitude is 1.
    fn softest(&self, from: f64) -> f32 {
        let heard = self.since(from);
        let loudness = |block: &[[f32; 2]]| {
            block.iter().map(|[left, right]| left * left + right * right).sum::<f32>() / block.len() as f32
        };
        heard.chunks_exact(BLOCK_FRAMES).map(loudness).fold(f32::MAX, f32::min)
    }

    fn since(&self, from: f64) -> Vec<[f32; 2]> {
        let from = Time::from_secs(1) + Span::from_secs_f64(from);
        self.heard.iter().filter(|(at, _)| *at >= from).map(|(_, frame)| *frame).collect()
    }

    fn counts(&self) -> SoundCounts {
        self.player.statistics(self.now).counts
    }
}

fn tone(seconds: f64) -> [f32; 2] {
    let (sin, cos) = (std::f64::consts::TAU * HERTZ * seconds.rem_euclid(1.0)).sin_cos();
    [sin as f32, cos as f32]
}

fn ms(milliseconds: f64) -> Span {
    Span::from_secs_f64(milliseconds / 1e3)
}

#[test]
fn on_a_good_path_sound_is_played_when_its_picture_is_due() {
    let mut simulation = SoundSimulation::new(1, CLEAN);
    simulation.run(5.0);
    assert!((simulation.delay() - ms(40.0)).abs() < ms(0.1), "{:?}", simulation.delay());
    // 40 ms are four periods of the tone.
    let by_phase = simulation.delay_by_phase();
    assert!(by_phase.abs() < 1e-4, "{by_phase}");
    let SoundCounts { lost, concealed, late, .. } = simulation.counts();
    assert_eq!((lost, concealed, late), (0, 0, 0));
    assert!(simulation.largest_step(0.2) < 0.0135, "{}", simulation.largest_step(0.2));
}

#[test]
fn a_picture_that_is_shown_too_soon_is_followed_as_soon_as_the_path_allows() {
    let mut simulation = SoundSimulation::new(1, CLEAN);
    (simulation.due_after, simulation.latency) = (ms(5.0), ms(12.0));
    simulation.run(5.0);
    // Path, output, a request of ten milliseconds and the decoder.
    assert!((simulation.delay() - ms(5.0 + 12.0 + 10.0 + 5.0)).abs() < ms(2.5), "{:?}", simulation.delay());
    assert_eq!(simulation.counts().concealed, 0);
}

#[test]
fn single_losses_are_not_heard_and_runs_of_them_are_covered() {
    for seed in 0..4 {
        let mut simulation = SoundSimulation::new(seed, Path { loss: 0.05, ..CLEAN });
        simulation.run(30.0);
        let SoundCounts { packets, lost, repeated, concealed, .. } = simulation.counts();
        assert!((100..200).contains(&lost) && packets > 2_750, "seed {seed}: {packets} {lost}");
        // Two in a row: 5 % of the losses.
        assert!(
            concealed <= lost / 8 && repeated + concealed >= lost - 2,
            "seed {seed}: {repeated} {concealed} of {lost}"
        );
        assert!(simulation.softest(0.2) > 0.7, "seed {seed}: {}", simulation.softest(0.2));
        assert!(simulation.largest_step(0.2) < 0.03, "seed {seed}: {}", simulation.largest_step(0.2));
    }
}

#[test]
fn bursts_fade_without_clicks_and_end_in_step() {
    for seed in 0..4 {
        let mut simulation = SoundSimulation::new(seed, Path { loss: 0.1, burst: 12.0, ..CLEAN });
        simulation.run(30.0);
        assert!(simulation.counts().concealed > 50, "seed {seed}: {:?}", simulation.counts());
        assert!(simulation.largest_step(0.2) < 0.04, "seed {seed}: {}", simulation.largest_step(0.2));
        assert!((simulation.delay() - ms(40.0)).abs() < ms(3.0), "seed {seed}: {:?}", simulation.delay());
    }
}

#[test]
fn uneven_paths_are_waited_for() {
    for seed in 0..4 {
        let mut simulation = SoundSimulation::new(seed, Path { jitter: ms(60.0), ..CLEAN });
        simulation.run(20.0);
        let settled = simulation.counts();
        assert!((ms(70.0)..ms(90.0)).contains(&simulation.delay()), "seed {seed}: {:?}", simulation.delay());
        simulation.run(20.0);
        let concealed = simulation.counts().concealed - settled.concealed;
        assert!(concealed < 40, "seed {seed}: {concealed} of 2000 blocks");
        // The path's delay has become even: sound is in sync with its picture again.
        simulation.path.jitter = Span::ZERO;
        simulation.run(25.0);
        assert!((simulation.delay() - ms(40.0)).abs() < ms(4.0), "seed {seed}: {:?}", simulation.delay());
    }
}

#[test]
fn a_path_that_becomes_slow_is_followed_within_a_second() {
    let mut simulation = SoundSimulation::new(3, CLEAN);
    simulation.run(10.0);
    simulation.path.delay = ms(90.0);
    simulation.run(1.0);
    let soon = simulation.counts();
    assert!(soon.concealed < 20, "{soon:?}");
    simulation.run(5.0);
    assert_eq!(simulation.counts().concealed, soon.concealed);
    assert!((simulation.delay() - ms(105.0)).abs() < ms(6.0), "{:?}", simulation.delay());
}

#[test]
fn a_decoder_that_is_slow_is_waited_for() {
    let mut simulation = SoundSimulation::new(9, CLEAN);
    simulation.due_after = Span::ZERO;
    simulation.run(2.0);
    let before = simulation.player.counts.concealed;
    // An overloaded machine.
    simulation.decoding = Span::from_millis(40);
    simulation.run(3.0);
    let settled = simulation.player.counts;
    assert!(settled.late > 0 && settled.concealed - before < 150, "{settled:?}");
    simulation.run(5.0);
    let counts = simulation.player.counts;
    assert!(counts.concealed - settled.concealed <= 10, "{settled:?}, then {counts:?}");
}

#[test]
fn clocks_that_drift_apart_stay_together() {
    for (server, output) in [(200.0, -300.0), (-200.0, 300.0), (0.0, 1_000.0)] {
        let mut simulation = SoundSimulation::new(1, Path { jitter: ms(4.0), ..CLEAN });
        (simulation.server_ppm, simulation.output_ppm) = (server, output);
        simulation.run(60.0);
        assert_eq!(simulation.counts().concealed, 0, "{server} {output}");
        assert!((simulation.delay() - ms(40.0)).abs() < ms(5.0), "{server} {output}: {:?}", simulation.delay());
        assert!(simulation.largest_step(0.2) < 0.0136, "{server} {output}: {}", simulation.largest_step(0.2));
    }
}

#[test]
fn after_an_outage_sound_goes_on_where_its_picture_is() {
    let mut simulation = SoundSimulation::new(1, CLEAN);
    simulation.run(3.0);
    (simulation.path.burst, simulation.in_burst) = (f64::INFINITY, true);
    simulation.run(2.0);
    let silent = simulation.heard.len();
    let died = |(_, frame): &(Time, [f32; 2])| frame.iter().all(|sample| *sample == 0.0);
    assert!(simulation.heard[silent - 4_800..].iter().all(died), "it has died away");
    (simulation.path, simulation.in_burst) = (CLEAN, false);
    simulation.run(1.0);
    assert!((simulation.delay() - ms(40.0)).abs() < ms(1.0), "{:?}", simulation.delay());
    assert!(simulation.softest(5.2) > 0.99 && simulation.largest_step(0.2) < 0.04);
}

#[test]
fn a_stream_that_jumps_is_followed() {
    let mut simulation = SoundSimulation::new(1, CLEAN);
    simulation.run(2.0);
    simulation.player.due_after = ms(40.0);
    simulation.due_after = ms(400.0);
    simulation.run(3.0);
    assert!((simulation.delay() - ms(400.0)).abs() < ms(10.0), "later: {:?}", simulation.delay());
    simulation.due_after = ms(40.0);
    simulation.run(3.0);
    assert!((simulation.delay() - ms(40.0)).abs() < ms(10.0), "sooner: {:?}", simulation.delay());
    assert!(simulation.largest_step(0.2) < 0.04, "{}", simulation.largest_step(0.2));
}

#[test]
fn hostile_numbers_hold_no_memory() {
    let mut player = SoundPlayer::default();
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let mut now = Time::from_secs(1);
    let clock = ClockEstimate { offset: AHEAD, error: Span::ZERO, round_trip: Span::ZERO, drift_ppm: 0.0 };
    let mut out = [0.0; BLOCK_FRAMES * 2];
    for _ in 0..20_000 {
        now += Span::from_micros(random.random_range(0..20_000));
        let block = if random.random_bool(0.5) { random.random() } else { random.random_range(0..400) };
        let made_at = RemoteTime::from_micros(random.random_range(0..1 << 53));
        let sound = Sound { block: BlockId(block), made_at, due_after_us: random.random(), packet: &[1], before: &[] };
        player.on_sound(now, &sound, random.random_bool(0.9).then_some(clock));
        player.play(now, now + Span::from_micros(random.random_range(0..1 << 20)), Some(clock), &mut out);
        assert!(out.iter().all(|sample| sample.abs() <= 1.5));
        while let Some(packet) = player.poll_packet(now) {
            player.on_decoded(packet.block, &[0.5; BLOCK_FRAMES * 2]);
        }
        let (waiting, decoded, held) = player.held();
        assert!(waiting <= MAX_WAITING && decoded <= MAX_WAITING && held < 5_000, "{waiting} {decoded} {held}");
    }
}

#[test]
fn blocks_that_a_late_server_skips_do_not_count_as_lost() {
    for seed in 0..4 {
        let mut simulation = SoundSimulation::new(seed, Path { loss: if seed == 0 { 0.0 } else { 0.05 }, ..CLEAN });
        simulation.skipped = 8_300..8_319;
        simulation.run(15.0);
        let SoundCounts { packets, lost, .. } = simulation.counts();
        // Only losses right before the gap cannot be told from it.
        let sent = 1_500 - 19;
        assert!(packets + lost <= sent && packets + lost >= sent - 4, "seed {seed}: {packets} {lost}");
        assert!(seed > 0 || lost == 0, "{lost}");
    }
}

#[test]
fn a_silent_server_sends_little_and_nothing_of_it_counts_as_lost() {
    for seed in 0..4 {
        let mut simulation = SoundSimulation::new(seed, Path { loss: if seed == 0 { 0.0 } else { 0.05 }, ..CLEAN });
        simulation.silent = 8_300..8_800;
        simulation.run(15.0);
        let SoundCounts { packets, lost, concealed, .. } = simulation.counts();
        let sent = 1_000 + 3 + 12;
        assert!(packets + lost <= sent && packets + lost >= sent - 2, "seed {seed}: {packets} {lost}");
        assert!(concealed <= lost / 8, "seed {seed}: {concealed} of {lost}");
        let heard = |from: f64, until: f64| {
            let time = |seconds: f64| Time::from_secs(1) + Span::from_secs_f64(seconds);
            let frames = simulation.heard.iter().filter(move |(at, _)| (time(from)..time(until)).contains(at));
            frames.fold(0.0_f32, |most, (_, [left, _])| most.max(left.abs()))
        };
        assert!(heard(5.1, 10.0) < 1e-9, "seed {seed}: silence is silence");
        assert!(heard(10.1, 10.2) > 0.9, "seed {seed}: and ends in time");
        assert!((simulation.delay() - ms(40.0)).abs() < ms(0.5), "seed {seed}: {:?}", simulation.delay());
    }
}
