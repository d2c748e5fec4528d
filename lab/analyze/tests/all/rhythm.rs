//! Frames, batches and their interval are found as they were made.

use crate::support;
use nearlight_analyze::{FrameDetection, Limits, Study, Traffic, Video};
use support::file::{Form, pcap};
use support::stream::{Made, Pacing, Stream};
use support::{Datagram, Dice};

fn video(datagrams: &[Datagram]) -> Video {
    let file = pcap(&Form::default(), datagrams);
    let traffic = Traffic::read(file.as_slice(), &Limits::default()).unwrap();
    Study::new(&traffic, None).unwrap().video.unwrap()
}

fn near(what: &str, found: f64, expected: f64, relative: f64) {
    assert!((found / expected - 1.0).abs() <= relative, "{what}: {found} where {expected} was made");
}

/// The figures asked for: an interval within 0.05 ms, a frame rate within 0.1 %.
fn check(stream: &Stream, made: &Made) -> Video {
    let found = video(&made.datagrams);
    let case = format!("{stream:?}");
    near(&format!("fps of {case}"), found.frames.fps.unwrap(), stream.fps, 1e-3);
    let interval = found.batches.interval_ms.unwrap_or_else(|| panic!("no interval in {case}"));
    let expected = if stream.pacing == Pacing::Burst { 1e3 / stream.fps } else { stream.interval_ms };
    assert!((interval - expected).abs() <= 0.05, "{interval} ms in {case}");
    found
}

#[test]
fn intervals_and_frame_rates() {
    for seed in 1..=2 {
        for (fps, frame) in [(30.0_f64, 150e3_f64), (60.0, 75e3), (72.0, 60e3), (90.0, 50e3)] {
            for (pacing, interval_ms) in [
                (Pacing::FromFrame, 5.56_f64),
                (Pacing::Timer, 5.56),
                (Pacing::Timer, 2.0),
                (Pacing::FromFrame, 1.4),
                (Pacing::Burst, 5.56),
            ] {
                // So many packets that a frame takes about 0.6 of its time to send, and never more than it has.
                let batch = (frame / 1_200.0 / (0.6 * 1e3 / fps / interval_ms).max(1.6)).ceil() as usize;
                let stream = Stream { seed, fps, frame, pacing, interval_ms, batch, seconds: 3.0, ..Stream::default() };
                let made = stream.make();
                let found = check(&stream, &made);
                assert_eq!(found.frames.found_by, FrameDetection::Timestamps);
                assert_eq!(found.frames.count, made.frames);
                // Where each frame begins anew, a large frame's last batch may leave with the next frame's first.
                if pacing != Pacing::FromFrame {
                    near("batches", found.batches.count as f64, made.batches as f64, 0.02);
                }
                near("source", found.frames.source_fps.unwrap(), fps, 1e-4);
                assert_eq!(found.frames.without_end, 0);
            }
        }
    }
}

#[test]
fn a_timer_is_distinguished_from_frames_that_begin_anew() {
    let on_grid = |pacing| {
        let stream = Stream { pacing, jitter_ms: 0.2, ..Stream::default() };
        check(&stream, &stream.make()).batches.on_grid.unwrap()
    };
    let (timer, from_frame) = (on_grid(Pacing::Timer), on_grid(Pacing::FromFrame));
    assert!(timer > 0.9, "{timer}");
    assert!(from_frame < 0.4, "{from_frame}");
}

#[test]
fn idle_instants_of_a_timer() {
    // 30 fps and a timer of 5.56 ms: six instants a frame, of which a frame takes as many as it has batches.
    let stream = Stream { fps: 30.0, frame: 100e3, batch: 30, pacing: Pacing::Timer, ..Stream::default() };
    let made = stream.make();
    let found = check(&stream, &made);
    let instants = made.datagrams.iter().map(|datagram| datagram.nanos).max().unwrap() as f64 / 5.56e6;
    near("instants", found.batches.instants as f64, instants, 0.01);
    near("idle", found.batches.idle as f64, instants - made.batches as f64, 0.03);
    let per_frame = found.batches.per_frame.unwrap();
    near("batches of a frame", per_frame.mean, made.batches as f64 / made.frames as f64, 0.02);
    let counted: u64 = found.batches.packets_of_instant.iter().sum();
    assert_eq!(counted, found.batches.instants);
}

#[test]
fn losses_leave_rates_and_intervals_as_they_are() {
    for seed in 1..=2 {
        let stream = Stream { seed, ..Stream::default() };
        let mut made = stream.make();
        let mut dice = Dice::new(seed + 100);
        let before = made.datagrams.len();
        made.datagrams.retain(|_| dice.share() >= 0.02);
        let lost = before - made.datagrams.len();
        let file = pcap(&Form::default(), &made.datagrams);
        let traffic = Traffic::read(file.as_slice(), &Limits::default()).unwrap();
        let study = Study::new(&traffic, None).unwrap();
        let missing: u64 = study.streams.iter().filter_map(|row| row.sequence.as_ref()).map(|of| of.missing).sum();
        // Most of what was lost has a number; the first and the last packet of a stream may be gone unseen.
        assert!(missing as usize <= lost && missing as usize * 100 >= lost * 70, "{missing} of {lost}, seed {seed}");
        check(&stream, &made);
    }
}

#[test]
fn frames_without_headers_are_found_by_their_rhythm() {
    let stream = Stream { quic: true, seconds: 6.0, ..Stream::default() };
    let made = stream.make();
    let found = check(&stream, &made);
    assert_eq!(found.frames.found_by, FrameDetection::Rhythm);
    near("frames", found.frames.count as f64, made.frames as f64, 1e-3);
    let stream = Stream { pacing: Pacing::Burst, ..stream };
    let made = stream.make();
    let found = check(&stream, &made);
    assert_eq!(found.frames.found_by, FrameDetection::Evenness);
    assert_eq!(found.frames.count, made.frames);
}

#[test]
fn frames_made_at_uneven_times_are_found_beside_sound_each_ten_milliseconds() {
    for seed in 1..=3 {
        let fps = 30.0;
        let stream =
            Stream { seed, quic: true, fps, frame: 33e3, batch: 12, late_ms: 3.0, seconds: 12.0, ..Stream::default() };
        let mut made = stream.make();
        let mut dice = Dice::new(seed);
        for sound in 0..1_200_i64 {
            let mut payload = vec![0x40 | (dice.number() as u8 & 0x3f)];
            payload.extend((0..200).map(|_| dice.number() as u8));
            made.datagrams.push(Datagram { nanos: sound * 10_000_000, down: true, payload });
        }
        made.datagrams.sort_by_key(|datagram| datagram.nanos);
        let found = video(&made.datagrams);
        assert_eq!(found.frames.found_by, FrameDetection::Evenness, "seed {seed}");
        near("frames", found.frames.count as f64, made.frames as f64, 0.01);
        near("fps", found.frames.fps.unwrap(), fps, 3e-3);
        near("interval", found.batches.interval_ms.unwrap(), stream.interval_ms, 0.02);
        near("packets", found.size_bytes.p50, 1_242.0, 0.02);
    }
}

#[test]
fn aggregates_arrive_as_one() {
    // Groups of seven with the same time, a millisecond apart.
    let made = Stream { seconds: 2.0, ..Stream::default() }.make();
    let mut datagrams: Vec<Datagram> =
        made.datagrams.into_iter().filter(|datagram| datagram.payload.len() > 1_000).collect();
    for (index, datagram) in datagrams.iter_mut().enumerate() {
        datagram.nanos = (index / 7) as i64 * 1_000_000;
    }
    datagrams.truncate(datagrams.len() / 7 * 7);
    let found = video(&datagrams).together;
    near("group", found.group.mean, 7.0, 1e-9);
    near("simultaneous", found.simultaneous_ratio, 6.0 / 7.0, 1e-9);
    near("grouped", found.grouped_ratio, 1.0, 1e-9);
}
