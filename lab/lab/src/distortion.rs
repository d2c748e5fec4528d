//! End-to-end distortion: from encoding, from lost frames, and from frames predicted from them.
//!
//! It is measured frame by frame with a real codec, and modelled as by Nebula: `D = D_enc + D_trans + D_dec`, mean squared errors of luma
//! (Alhilal et al., WWW 2022, section 3.2 and Figure 2).
//!
//! # Departures
//! * The published text lacks the equations. Here `D_enc = alpha / (R - R_0)`, `D_trans = beta p_f` and `D_dec = gamma p_f / f_I`, with `f_I`
//!   key frames a second and `p_f = 1 - (1 - p)^packets`, since any lost packet costs us the frame. In the paper `D_trans` is proportional to
//!   the loss of packets.
//! * `packets` is the number in the mean frame at the rate, so that the model depends on the rate alone. Key frames are larger and are lost
//!   more often, the others less often. Because `p_f` is concave, its value for the mean frame is a little above the mean of both.

use std::fmt::Write as _;

use nearlight_codec::quality::mean_squared_error;
use nearlight_codec::{CodecError, CodecKind, EncoderConfig, Picture, Reference, Size, new_decoder, new_encoder};
use nearlight_link::{Probability, Random};
use nearlight_report::{Axis, Chart, Document, Lines, Plot, Section, Series};
use nearlight_units::Bitrate;

use crate::encoder::game;

/// Payload of a packet in bytes.
const PACKET_PAYLOAD: f64 = 1_200.0;

/// Measured with `nearlight lab distortion --measure --csv`: libvpx's VP8 on the game at [`Setting::NEBULA`].
const MEASUREMENTS_CSV: &str = include_str!("encoder/distortion.csv");

/// Bit rates of Nebula's ladder at 1080p.
pub const RATES: [Bitrate; 7] = [
    Bitrate::from_kbps(1_000),
    Bitrate::from_kbps(1_800),
    Bitrate::from_kbps(2_500),
    Bitrate::from_kbps(3_500),
    Bitrate::from_kbps(4_500),
    Bitrate::from_kbps(6_500),
    Bitrate::from_kbps(9_000),
];

/// Returns the measurements that are compiled in.
#[must_use]
pub fn measurements() -> Vec<Measurement> {
    let line = |line: &str| {
        let fields: Vec<f64> = line.split(',').filter_map(|field| field.parse().ok()).collect();
        let &[rate, frame_loss, encoder, transmission, decoder, freeze] = fields.as_slice() else { return None };
        Some(Measurement { rate, frame_loss, encoder, transmission, decoder, freeze })
    };
    MEASUREMENTS_CSV.lines().filter_map(line).collect()
}

/// Formats measurements as CSV, one per line, as [`measurements`] reads them.
#[must_use]
pub fn to_csv(measured: &[Measurement]) -> String {
    let mut csv = "bps,frame_loss,encoder,transmission,decoder,freeze\n".to_owned();
    for Measurement { rate, frame_loss, encoder, transmission, decoder, freeze } in measured {
        let _ = writeln!(csv, "{rate:.0},{frame_loss:.4},{encoder:.4},{transmission:.4},{decoder:.4},{freeze:.4}");
    }
    csv
}

/// The conditions of a measurement, alike for all rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    pub size: Size,
    pub fps: u16,
    /// Frames from one key frame to the next.
    pub group: u32,
    pub frames: u32,
    /// Packet loss ratio; losses are independent.
    pub loss: f64,
    /// Independent patterns of losses over the same frames.
    pub patterns: u32,
}

impl Setting {
    /// Nebula's setting: 1080p at 30 frames a second, groups of 10 frames, 1 % packet loss.
    pub const NEBULA: Self =
        Self { size: Size { width: 1_920, height: 1_080 }, fps: 30, group: 10, frames: 90, loss: 0.01, patterns: 16 };

    fn key_frames_per_second(&self) -> f64 {
        f64::from(self.fps) / f64::from(self.group)
    }

    /// Returns the probability that a frame of mean size loses a packet, at a rate in bit/s.
    fn frame_loss(&self, rate: f64) -> f64 {
        let packets = rate / (f64::from(self.fps) * 8.0 * PACKET_PAYLOAD);
        1.0 - libm::pow(1.0 - self.loss, packets)
    }
}

/// Mean squared errors at one rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measurement {
    /// The encoder's actual rate for its target, in bit/s.
    pub rate: f64,
    /// Share of frames that lost a packet.
    pub frame_loss: f64,
    pub encoder: f64,
    pub transmission: f64,
    pub decoder: f64,
    /// Mean squared error of repeating the previous picture.
    pub freeze: f64,
}

const fn reference(key: bool) -> Reference {
    if key { Reference::Nothing } else { Reference::Newest }
}

/// A receiver that repeats the previous picture when a frame is lost, and still decodes frames predicted from it.
struct LossyReceiver {
    decoder: Box<dyn nearlight_codec::Decoder>,
    shown: Picture,
    random: Random,
    damaged: bool,
}

/// Encodes the game at `rate` and drops packets.
///
/// # Errors
///
/// The codec failed.
pub fn measure(setting: &Setting, kind: CodecKind, rate: Bitrate, seed: u64) -> Result<Measurement, CodecError> {
    let Setting { size, fps, group, frames, loss, patterns } = *setting;
    let mut encoder = new_encoder(kind, EncoderConfig { size, fps, rate, threads: 1 })?;
    let mut clean = new_decoder(kind)?;
    let lossy = |pattern: u32| {
        let random = Random::new(seed + u64::from(pattern));
        Ok(LossyReceiver { decoder: new_decoder(kind)?, shown: Picture::new(size), random, damaged: false })
    };
    let mut receivers = (0..patterns).map(lossy).collect::<Result<Vec<LossyReceiver>, CodecError>>()?;
    let (mut sum, mut bits, mut lost) = (Measurement::default(), 0, 0_u32);
    let mut before = game::picture(size, 0);
    for number in 0..frames {
        let source = game::picture(size, number);
        let coded = encoder.encode(&source, reference(number.is_multiple_of(group)))?;
        bits += coded.bits.len() * 8;
        let own = clean.decode(&coded.bits)?.map_or(Ok(0.0), |picture| mean_squared_error(picture, source.view()))?;
        sum.encoder += own;
        sum.freeze += mean_squared_error(before.view(), source.view())?;
        let arrives = libm::pow(1.0 - loss, (coded.bits.len() as f64 / PACKET_PAYLOAD).ceil());
        for receiver in &mut receivers {
            // The first frame always arrives: there is nothing to show before it.
            let is_lost = number > 0 && !receiver.random.happens(Probability::clamped(arrives));
            receiver.damaged = if is_lost { true } else { receiver.damaged && !coded.is_key() };
            if is_lost {
                lost += 1;
                sum.transmission += mean_squared_error(receiver.shown.view(), source.view())? - own;
                continue;
            }
            if let Some(picture) = receiver.decoder.decode(&coded.bits).ok().flatten() {
                if receiver.damaged {
                    sum.decoder += mean_squared_error(picture, source.view())? - own;
                }
                picture.copy_to(&mut receiver.shown);
            }
        }
        before = source;
    }
    let (each, all) = (f64::from(frames), f64::from(frames * patterns));
    Ok(Measurement {
        rate: bits as f64 / each * f64::from(fps),
        frame_loss: f64::from(lost) / all,
        encoder: sum.encoder / each,
        transmission: sum.transmission / all,
        decoder: sum.decoder / all,
        freeze: sum.freeze / f64::from(frames - 1),
    })
}

/// The constants of Nebula's distortion model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Squared levels times bit/s.
    pub alpha: f64,
    /// Rate at which the encoder's distortion would be infinite, in bit/s.
    pub rate_0: f64,
    pub beta: f64,
    /// Squared levels per second.
    pub gamma: f64,
    pub freeze: f64,
    /// Share of the variance of the total distortion that the model explains from the rate alone (R squared).
    pub explained: f64,
}

impl Model {
    /// Fits the model by least squares. None for fewer than three rates.
    #[must_use]
    pub fn fit(setting: &Setting, measured: &[Measurement]) -> Option<Self> {
        /// Steps in which the rate of infinite distortion is searched, from 0 to just below the lowest rate.
        const SEARCH_STEPS: u32 = 200;
        if measured.len() < 3 {
            return None;
        }
        let lowest = measured.iter().map(|point| point.rate).fold(f64::INFINITY, f64::min);
        let slope = |of: &dyn Fn(&Measurement) -> (f64, f64)| {
            let (mut products, mut squares) = (0.0, 0.0);
            for (x, y) in measured.iter().map(of) {
                products += x * y;
                squares += x * x;
            }
            if squares > 0.0 { products / squares } else { 0.0 }
        };
        let candidate = |step: u32| {
            let rate_0 = lowest * 0.98 * f64::from(step) / f64::from(SEARCH_STEPS);
            let alpha = slope(&|point| (1.0 / (point.rate - rate_0), point.encoder));
            let squares: f64 =
                measured.iter().map(|point| (alpha / (point.rate - rate_0) - point.encoder).powi(2)).sum();
            (squares, alpha, rate_0)
        };
        let (_, alpha, rate_0) = (0..=SEARCH_STEPS).map(candidate).min_by(|left, right| left.0.total_cmp(&right.0))?;
        let beta = slope(&|point| (setting.frame_loss(point.rate), point.transmission));
        let gamma = slope(&|point| (setting.frame_loss(point.rate) / setting.key_frames_per_second(), point.decoder));
        let count = measured.len() as f64;
        let freeze = measured.iter().map(|point| point.freeze).sum::<f64>() / count;
        let mut model = Self { alpha, rate_0, beta, gamma, freeze, explained: 0.0 };
        let mean = measured.iter().map(Measurement::whole).sum::<f64>() / count;
        let (mut off, mut spread) = (0.0, 0.0);
        for point in measured {
            off += (model.at(setting, point.rate).whole() - point.whole()).powi(2);
            spread += (point.whole() - mean).powi(2);
        }
        model.explained = if spread > 0.0 { 1.0 - off / spread } else { 0.0 };
        Some(model)
    }

    /// Returns the distortion that the model predicts at a rate in bit/s.
    #[must_use]
    pub fn at(&self, setting: &Setting, rate: f64) -> Measurement {
        let frame_loss = setting.frame_loss(rate);
        Measurement {
            rate,
            frame_loss,
            encoder: self.alpha / (rate - self.rate_0).max(1.0),
            transmission: self.beta * frame_loss,
            decoder: self.gamma * frame_loss / setting.key_frames_per_second(),
            freeze: self.freeze,
        }
    }
}

impl Measurement {
    /// Returns the total, `D_enc + D_trans + D_dec`.
    #[must_use]
    pub fn whole(&self) -> f64 {
        self.encoder + self.transmission + self.decoder
    }

    /// Returns `D_enc + D_trans`: the total in models of earlier work, where errors do not propagate to later frames.
    #[must_use]
    pub fn without_propagation(&self) -> f64 {
        self.encoder + self.transmission
    }
}

/// One of the three errors, or a sum of them.
type DistortionPart = fn(&Measurement) -> f64;

/// Line segments with which a curve of the model is drawn.
const CURVE_SEGMENTS: u32 = 120;

/// Draws Nebula's Figure 2 from measurements at [`Setting::NEBULA`], with the model's curves.
#[must_use]
pub fn document(measured: &[Measurement]) -> Document {
    let setting = Setting::NEBULA;
    let lead = "What a frame loses on its way, over the rate that it is coded at: 1080p at 30 frames a second, VP8, a key frame every ten \
                frames, 1 % of packets lost and nothing recovered. Dots are measured. Lines are the model fitted to them, which knows the \
                rate and nothing else; without propagation it is that of earlier work, D_enc + D_trans.";
    let mut document = Document::new("End-to-end distortion", lead);
    let Some(model) = Model::fit(&setting, measured) else { return document };
    for (name, value) in [
        ("alpha, squared levels times Mb/s", model.alpha / 1e6),
        ("R_0, Mb/s", model.rate_0 / 1e6),
        ("beta, squared levels", model.beta),
        ("gamma, squared levels a second", model.gamma),
        ("a frozen picture, squared levels", model.freeze),
        ("explained of the variance", model.explained),
    ] {
        document = document.fact(name, format!("{value:.3}"));
    }
    let parts: [(&str, DistortionPart); 5] = [
        ("encoder", |point| point.encoder),
        ("transmission", |point| point.transmission),
        ("decoder", |point| point.decoder),
        ("end to end", Measurement::whole),
        ("end to end without propagation", Measurement::without_propagation),
    ];
    let (lowest, highest) = measured
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), point| (low.min(point.rate), high.max(point.rate)));
    let steps =
        (0..=CURVE_SEGMENTS).map(|step| lowest + (highest - lowest) * f64::from(step) / f64::from(CURVE_SEGMENTS));
    let modelled: Vec<Measurement> = steps.map(|rate| model.at(&setting, rate)).collect();
    let mut series = Vec::new();
    for (name, part) in parts {
        let points = |points: &[Measurement]| points.iter().map(|point| (point.rate / 1e6, part(point))).collect();
        series.push(Series::dots(format!("{name}, measured"), points(measured)));
        series.push(Series::line(format!("{name}, model"), points(&modelled)));
    }
    let lines =
        Lines { x: Axis::new("rate", "Mb/s"), y: Axis::new("mean squared error", ""), series, ..Lines::default() };
    let chart = Chart::new(
        "Distortion over rate",
        "Losses cost the more, the more packets a frame has. As in Figure 2 of the paper.",
        Plot::Lines(lines),
    );
    document.section(Section::new("Model and measurement").chart(chart))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_explains_what_was_measured() {
        let (setting, measured) = (Setting::NEBULA, measurements());
        assert_eq!(measured.len(), 7);
        let model = Model::fit(&setting, &measured).expect("enough points");
        assert!(model.explained > 0.9, "{model:?}");
        for point in &measured {
            let modelled = model.at(&setting, point.rate);
            assert!((modelled.encoder / point.encoder - 1.0).abs() < 0.15, "{modelled:?} {point:?}");
        }
        // As in the paper: it falls at first, then rises with the rate, earlier than without error propagation.
        let modelled: Vec<Measurement> = (1..84).map(|step| model.at(&setting, f64::from(step) * 1e5)).collect();
        let lowest = |of: fn(&Measurement) -> f64| {
            let points = modelled.iter().filter(|point| point.rate > model.rate_0 + 1e5);
            points.min_by(|left, right| of(left).total_cmp(&of(right))).map_or(0.0, |point| point.rate)
        };
        let (whole, without) = (lowest(Measurement::whole), lowest(Measurement::without_propagation));
        assert!(model.rate_0 + 5e5 < whole && whole < without && without < 4e6, "{whole} {without}");
        assert!(measured[6].whole() > 2.0 * measured[2].whole(), "{measured:?}");
        assert_eq!(to_csv(&measured), MEASUREMENTS_CSV);
        assert!(document(&measured).to_html().contains("end to end, model"));
    }

    #[test]
    fn a_fit_finds_the_constants_that_made_its_points() {
        let setting = Setting::NEBULA;
        let made = Model { alpha: 4e7, rate_0: 3e5, beta: 200.0, gamma: 900.0, freeze: 150.0, explained: 1.0 };
        let points: Vec<Measurement> = (1..8).map(|mbps| made.at(&setting, f64::from(mbps) * 1e6)).collect();
        let found = Model::fit(&setting, &points).expect("enough points");
        assert!((found.alpha / made.alpha - 1.0).abs() < 0.01 && (found.rate_0 - made.rate_0).abs() < 1e4, "{found:?}");
        assert!((found.beta - 200.0).abs() < 1e-6 && (found.gamma - 900.0).abs() < 1e-6 && found.explained > 0.999);
        assert_eq!(Model::fit(&setting, &points[..2]), None);
    }
}
