//! A server with a viewer, whose encoder keeps the newest picture.
#![allow(dead_code, reason = "each test uses some of it")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearlight_codec::{
    CodecError, EncodedPicture, Encoder, EncoderConfig, EncoderDescription, EncoderFactory, Encoders, Picture,
    Reference,
};
use nearlight_embed::{Bitrate, CodecKind, EventKind, Host, Options, Size};
use nearlight_viewer::{FrameId, Options as ViewerOptions, Viewer};

pub const SIZE: Size = Size { width: 320, height: 192 };
/// An encoder factory that keeps the newest picture.
#[derive(Clone, Default)]
struct PictureTap(Arc<Mutex<Option<Picture>>>);

impl EncoderFactory for PictureTap {
    fn describe(&self, kind: CodecKind, config: EncoderConfig) -> Result<EncoderDescription, CodecError> {
        Encoders::default().describe(kind, config)
    }

    fn open(&self, kind: CodecKind, config: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> {
        Ok(Box::new(TappedEncoder(Encoders::default().open(kind, config)?, self.clone())))
    }
}

struct TappedEncoder(Box<dyn Encoder>, PictureTap);

impl Encoder for TappedEncoder {
    fn encode(&mut self, picture: &Picture, reference: Reference) -> Result<EncodedPicture, CodecError> {
        *self.1.0.lock().expect("no panic") = Some(picture.clone());
        self.0.encode(picture, reference)
    }

    fn on_decoded(&mut self, frame: FrameId) {
        self.0.on_decoded(frame);
    }

    fn set_rate(&mut self, rate: Bitrate) -> Result<(), CodecError> {
        self.0.set_rate(rate)
    }

    fn set_size(&mut self, size: Size) -> Result<(), CodecError> {
        self.0.set_size(size)
    }
}

/// Returns RGBA pixels whose colour changes from pixel to pixel. `shade` distinguishes pictures.
pub fn pattern(shade: u8) -> Vec<u8> {
    let pixel = |index: usize| {
        let (x, y) = (index % usize::from(SIZE.width), index / usize::from(SIZE.width));
        [(x * 3 / 4) as u8, (y + x / 8) as u8, shade, 255]
    };
    (0..SIZE.pixels()).flat_map(pixel).collect()
}

pub struct Watched {
    tap: PictureTap,
    _viewer: Viewer,
}

impl Watched {
    pub fn open() -> (Host, Self) {
        let tap = PictureTap::default();
        // With encoding in the calling thread, a picture is encoded once its submission returns.
        let options = Options {
            address: Some([127, 0, 0, 1].into()),
            width: SIZE.width,
            height: SIZE.height,
            synchronous: true,
            encoders: Encoders::new(tap.clone()),
            ..Options::default()
        };
        let host = Host::open(&options).expect("a server");
        let viewer = Viewer::connect(&host.links()[0].to_string(), &ViewerOptions::default()).expect("a viewer");
        while host.wait_event(Duration::from_secs(30)).expect("a viewer comes").kind != EventKind::ViewerJoined {}
        (host, Self { tap, _viewer: viewer })
    }

    /// Submits until an encoder gets a picture, because the session may skip some. Returns that picture.
    pub fn encoded(&self, mut submit: impl FnMut()) -> Picture {
        *self.tap.0.lock().expect("no panic") = None;
        for _ in 0..1_000 {
            submit();
            if let Some(picture) = self.tap.0.lock().expect("no panic").take() {
                return picture;
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        panic!("nothing is encoded");
    }
}

/// Returns the largest and the mean difference of two pictures' samples, without the padding rows.
pub fn difference(left: &Picture, right: &Picture) -> (u8, f64) {
    let planes = [(&left.luma, &right.luma), (&left.blue, &right.blue), (&left.red, &right.red)];
    let lengths = [SIZE.pixels(), SIZE.pixels() / 4, SIZE.pixels() / 4];
    let pairs = planes.iter().zip(lengths).flat_map(|((left, right), length)| {
        left[..length].iter().zip(&right[..length]).map(|(left, right)| left.abs_diff(*right))
    });
    let all: Vec<u8> = pairs.collect();
    (all.iter().copied().max().unwrap_or(0), all.iter().map(|value| f64::from(*value)).sum::<f64>() / all.len() as f64)
}
