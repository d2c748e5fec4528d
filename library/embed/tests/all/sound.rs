//! Viewers hear the sound that a program submits, at its pitch. No test depends on timing.

use std::time::Duration;

use nearlight_embed::{Host, HostError, Options, Portion, PortionError, Samples};
use nearlight_viewer::{Options as ViewerOptions, Viewer};

/// Sampling rate in hertz.
const RATE: u32 = 44_100;
/// Number of frames of a portion: 20 ms.
const FRAMES: usize = 882;

fn options(sound: bool) -> Options {
    Options { address: Some([127, 0, 0, 1].into()), width: 320, height: 192, sound, ..Options::default() }
}

/// Returns a portion of a tone of 441 Hz. A portion does not consist of whole periods.
fn portion(number: usize) -> Vec<i16> {
    let phase = |frame| (frame as f32 * 441.0 / RATE as f32 * std::f32::consts::TAU).sin();
    (number * FRAMES..(number + 1) * FRAMES).map(|frame| (16_000.0 * phase(frame)) as i16).collect()
}

/// Returns the upward zero crossings of the left channel a second, or `None` when the samples are not loud.
fn pitch(samples: &[f32]) -> Option<f32> {
    let left: Vec<f32> = samples.iter().copied().step_by(2).collect();
    let loud = left.iter().map(|sample| sample * sample).sum::<f32>() / left.len() as f32;
    let crossings = left.windows(2).filter(|pair| pair[0] < 0.0 && pair[1] >= 0.0).count();
    (loud > 0.05).then(|| crossings as f32 * 48_000.0 / left.len() as f32)
}

#[test]
fn viewers_hear_what_the_program_submits() {
    let host = Host::open(&options(true)).expect("a server");
    let link = host.links().remove(0).to_string();
    let viewer = Viewer::connect(&link, &ViewerOptions { sound: true, ..ViewerOptions::default() }).expect("a viewer");
    let (mut heard, mut samples) = (Vec::new(), vec![0.0; 4_800]);
    for number in 0..150 {
        let samples_in = portion(number);
        let sound = Portion { samples: Samples::Short(&samples_in), channels: 1, rate: RATE };
        host.submit_sound(&sound).expect("sound");
        std::thread::park_timeout(Duration::from_millis(20));
        while let (count @ 1.., _) = viewer.read_sound(&mut samples) {
            heard.extend_from_slice(&samples[..count]);
        }
    }
    viewer.close().expect("an end");
    host.close().expect("an end");
    let mut pitches: Vec<f32> = heard.chunks_exact(9_600).filter_map(pitch).collect();
    pitches.sort_by(f32::total_cmp);
    assert!(pitches.len() >= 8, "{} of {} tenths of a second are loud", pitches.len(), heard.len() / 9_600);
    let median = pitches[pitches.len() / 2];
    assert!((median - 441.0).abs() < 10.0, "{pitches:?}");
}

#[test]
fn mistakes_are_reported_and_what_nobody_hears_is_bounded() {
    let silent = Host::open(&options(false)).expect("a server");
    let samples = vec![0.0; 48_000];
    let sound = Portion { samples: Samples::Float(&samples), channels: 2, rate: 48_000 };
    assert!(matches!(silent.submit_sound(&sound), Err(HostError::NoSound)));
    let host = Host::open(&options(true)).expect("a server");
    let wrong = Portion { channels: 3, ..sound };
    assert!(matches!(host.submit_sound(&wrong), Err(HostError::Sound(PortionError::Channels(3)))));
    for _ in 0..20 {
        host.submit_sound(&sound).expect("sound");
    }
    assert_eq!(host.statistics().sound_dropped, 20 * 24_000 - 9_600);
    host.close().expect("an end");
    assert!(matches!(host.submit_sound(&sound), Err(HostError::Closed)));
}
