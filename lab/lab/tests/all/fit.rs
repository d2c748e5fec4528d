//! The model of frame sizes against OpenH264's own: the same script of rates and key frames, the same statistics.

use nearlight_lab::{Capture, Model, ModelOptions};
use nearlight_units::{Bitrate, Span, Time};

const MEASURED: &str = include_str!("../../src/encoder/fit.csv");
const FPS: u16 = 60;
/// The first frames, and those after a key frame until its excess is repaid.
const SETTLED: usize = 40;
const REPAID: usize = 30;

/// A coded frame: its share of the rate, its size, and whether it is a key frame.
#[derive(Clone, Copy)]
struct Frame {
    share: f64,
    bytes: f64,
    key: bool,
}

#[derive(Debug)]
struct Statistics {
    /// All bytes over all shares.
    total: f64,
    /// Mean and deviation of the logarithm of size over share, of frames far from key frames.
    deviation: f64,
    /// Key frames over their share.
    key: f64,
    /// The eight frames after a key frame over their share.
    after: f64,
    /// The first frame after the rate was halved, over its new share.
    halved: f64,
}

fn statistics(frames: &[Frame]) -> Statistics {
    let ratio = |frame: &Frame| frame.bytes / frame.share;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let calm = |index: &usize| !frames[index.saturating_sub(REPAID)..=*index].iter().any(|frame| frame.key);
    let logarithms: Vec<f64> =
        (SETTLED..frames.len()).filter(calm).map(|index| libm::log(ratio(&frames[index]))).collect();
    let centre = mean(&logarithms);
    let squares: Vec<f64> = logarithms.iter().map(|value| (value - centre).powi(2)).collect();
    let keys: Vec<usize> = (SETTLED..frames.len() - 8).filter(|index| frames[*index].key).collect();
    let after: Vec<f64> = keys.iter().flat_map(|index| &frames[index + 1..=index + 8]).map(ratio).collect();
    let halved = (1..frames.len()).find(|index| frames[*index].share < 0.75 * frames[index - 1].share).expect("a step");
    Statistics {
        total: frames[SETTLED..].iter().map(|frame| frame.bytes).sum::<f64>()
            / frames[SETTLED..].iter().map(|frame| frame.share).sum::<f64>(),
        deviation: mean(&squares).sqrt(),
        key: mean(&keys.iter().map(|index| ratio(&frames[*index])).collect::<Vec<_>>()),
        after: mean(&after),
        halved: ratio(&frames[halved]),
    }
}

/// Each stream's frames, with what the model makes of the same targets.
fn streams() -> Vec<(String, Vec<Frame>, Vec<Frame>)> {
    let mut streams: Vec<(String, Vec<Frame>, Vec<Frame>, Model)> = Vec::new();
    for line in MEASURED.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |index: usize| fields[index].parse::<u32>().expect("a number");
        let name = format!("{} at {} Mb/s", fields[0], fields[1]);
        if streams.last().is_none_or(|stream| stream.0 != name) {
            let start = Bitrate::from_mbps(number(1).into());
            let model = Model::new(ModelOptions::default(), FPS, start, 7);
            streams.push((name, Vec::new(), Vec::new(), model));
        }
        let Some((_, measured, modelled, model)) = streams.last_mut() else { continue };
        let (share, key, bytes) = (f64::from(number(3)), number(4) == 1, f64::from(number(5)));
        measured.push(Frame { share, bytes, key });
        let at = Time::ZERO + Span::from_secs(number(2).into()) / i64::from(FPS);
        let rate = Bitrate::from_bps(u64::from(number(3)) * 8 * u64::from(FPS));
        let size = model.size(&Capture::plain(number(2), at, rate, key));
        modelled.push(Frame { share, bytes: size as f64, key });
    }
    streams.into_iter().map(|(name, measured, modelled, _)| (name, measured, modelled)).collect()
}

#[test]
fn the_model_resembles_what_was_measured() {
    let streams = streams();
    assert_eq!(streams.len(), 3);
    let every: Vec<Statistics> = streams.iter().map(|(_, measured, _)| statistics(measured)).collect();
    for (name, _, modelled) in &streams {
        let found = statistics(modelled);
        let within = |value: f64, of: fn(&Statistics) -> f64, margin: f64| {
            let (least, most) =
                every.iter().map(of).fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
            assert!(
                value >= least / margin && value <= most * margin,
                "{name}: {value:.3} is not within {least:.3} and {most:.3}: {found:?}"
            );
        };
        within(found.total, |statistics| statistics.total, 1.05);
        within(found.deviation, |statistics| statistics.deviation, 1.5);
        within(found.key, |statistics| statistics.key, 1.3);
        within(found.after, |statistics| statistics.after, 1.1);
        within(found.halved, |statistics| statistics.halved, 1.3);
    }
}
