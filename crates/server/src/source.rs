//! The source of pictures as the options ask for it: its size, its frame rate and the rates that suit them.

use std::num::NonZeroUsize;

use nearlight_codec::Size;
use nearlight_rate::{Bounds, PRESETS};
use nearlight_scene::{OpenOptions, Opened, PictureRequest, SceneError, Sustained, choose_size, of_coding, open};
use nearlight_units::{Bitrate, Time};

use crate::options::{PictureSize, ServeOptions};
use crate::serve::ServerError;
use crate::studio::Format;

/// Default size of a video: 720p30, which two processor cores sustain.
const VIDEO_SIZE: (u16, u16) = (1_280, 720);
const VIDEO_FPS: u16 = 30;

/// Bits for each pixel that a picture can use. At 0.18 OpenH264 shows the project's own scene with 39.5 dB, moving in every frame: any gain
/// beyond that is hard to see, and each bit costs time to encode and decode.
const BITS_PER_PIXEL: f64 = 0.25;
/// Default upper limit for any picture: common Wi-Fi 5 delivers three to four times this to one station.
pub(crate) const MAX_RATE: Bitrate = Bitrate::from_mbps(100);

pub(crate) fn check_rates(options: &ServeOptions) -> Result<(), ServerError> {
    let [lowest, start, highest] =
        [("--min-rate", options.min_rate), ("--rate", options.start_rate), ("--max-rate", options.max_rate)];
    for ((low_name, low), (high_name, high)) in [(lowest, start), (start, highest), (lowest, highest)] {
        if let Some((low, high)) = low.zip(high).filter(|(low, high)| low > high) {
            return Err(ServerError::Rates { low_name, low, high_name, high });
        }
    }
    Ok(())
}

/// The controller's bounds: as the owner requested, otherwise what the picture can use.
pub(crate) fn bounds(format: Format, options: &ServeOptions) -> Bounds {
    let (start, maximum) = (options.start_rate, options.max_rate);
    let pixels = f64::from(format.size.width) * f64::from(format.size.height) * f64::from(format.fps);
    let useful = Bitrate::from_bps((pixels * BITS_PER_PIXEL) as u64).min(MAX_RATE).max(Bounds::START);
    // A start rate above the default maximum raises the maximum to it.
    let maximum = maximum.unwrap_or_else(|| useful.max(start.unwrap_or(Bitrate::ZERO)));
    let usual = Bounds::up_to(maximum);
    // A ladder's lowest rung is below what the others begin at.
    let own = PRESETS.iter().find(|preset| preset.name == options.controller).map(|preset| preset.bounds.minimum);
    let usual_minimum = own.map_or(usual.minimum, |own| own.min(usual.minimum));
    let minimum = options.min_rate.unwrap_or(usual_minimum);
    Bounds { minimum, start: start.unwrap_or(usual.start), ..usual }.in_order()
}

/// A video is decoded to one size from the start, so `auto` cannot be measured for it.
pub(crate) fn open_source(options: &ServeOptions, now: &dyn Fn() -> Time) -> Result<Opened, SceneError> {
    let size = match options.size {
        PictureSize::Auto => VIDEO_SIZE,
        PictureSize::Fixed { width, height } => (width, height),
    };
    let fps = options.fps.unwrap_or(VIDEO_FPS);
    let (backend, conversion) = (options.backend, options.conversion);
    open(&options.source, &OpenOptions { backend, conversion, size, fps, clock: now })
}

/// Size and frame rate as the owner requested, the rest as the machine sustains.
pub(crate) fn choose_format(
    source: &mut Opened,
    options: &ServeOptions,
    now: &dyn Fn() -> Time,
) -> Result<(Format, Sustained), ServerError> {
    let size = match options.size {
        PictureSize::Auto => None,
        PictureSize::Fixed { width, height } => {
            let size = Size { width, height };
            size.check().map_err(|error| ServerError::Size { width, height, reason: error.to_string() })?;
            Some((width, height))
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let wanted = PictureRequest { size, fps: options.fps, views: if options.stereo { 2 } else { 1 }, processors };
    let sustained = match source {
        Opened::OnDemand(source) => choose_size(source.as_mut(), &wanted, now)?,
        Opened::SelfPaced(_) => {
            of_coding(wanted.size.unwrap_or(VIDEO_SIZE), wanted.fps.unwrap_or(VIDEO_FPS), processors)
        }
    };
    if !sustained.keeps {
        tracing::warn!(
            "this machine does not sustain {}x{} at {} fps: {}; choose a smaller --size or --fps, or omit both: then they are measured",
            sustained.width,
            sustained.height,
            sustained.fps,
            sustained.reason
        );
    }
    let Sustained { width, height, fps, .. } = sustained;
    Ok((Format { size: Size { width, height }, fps, stereo: options.stereo }, sustained))
}
