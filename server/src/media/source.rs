//! Opens the source of pictures that the options name, and chooses its size, its frame rate and the bounds of its bit rate.

use std::num::NonZeroUsize;

use nearlight_codec::Size;
use nearlight_rate::{Bounds, PRESETS};
use nearlight_scene::{
    OpenOptions, OpenedSource, PictureRequest, SceneError, SustainedFormat, choose_size, estimate_coding, open,
};
use nearlight_units::{Bitrate, Time};

use crate::media::overload::advice;
use crate::media::studio::Format;
use crate::options::{PictureSize, ServeOptions};
use crate::serve::ServerError;

/// Default size of a video: 720p30, which two processor cores sustain.
const DEFAULT_VIDEO_SIZE: (u16, u16) = (1_280, 720);
const DEFAULT_VIDEO_FPS: u16 = 30;

/// Bits per pixel beyond which quality hardly improves. At 0.18 OpenH264 encodes the project's own scene, moving in every frame, with
/// 39.5 dB: any gain beyond that is hard to see, and each bit costs time to encode and decode.
const MAX_USEFUL_BITS_PER_PIXEL: f64 = 0.25;
/// Default upper limit of the rate for any picture: common Wi-Fi 5 delivers three to four times this to one station.
pub(crate) const MAX_RATE: Bitrate = Bitrate::from_mbps(100);

/// Rejects rates that contradict one another.
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

/// Returns the controller's bounds: those that the owner requested, otherwise what the picture can use.
pub(crate) fn bounds(format: Format, options: &ServeOptions) -> Bounds {
    let (start, maximum) = (options.start_rate, options.max_rate);
    let pixels = f64::from(format.size.width) * f64::from(format.size.height) * f64::from(format.fps);
    let useful = Bitrate::from_bps((pixels * MAX_USEFUL_BITS_PER_PIXEL) as u64).min(MAX_RATE).max(Bounds::START);
    // A start rate above the default maximum raises the maximum.
    let maximum = maximum.unwrap_or_else(|| useful.max(start.unwrap_or(Bitrate::ZERO)));
    let usual = Bounds::up_to(maximum);
    // The lowest rung of a ladder is below the other controllers' minimum.
    let own = PRESETS.iter().find(|preset| preset.name == options.controller).map(|preset| preset.bounds.minimum);
    let usual_minimum = own.map_or(usual.minimum, |own| own.min(usual.minimum));
    let minimum = options.min_rate.unwrap_or(usual_minimum);
    Bounds { minimum, start: start.unwrap_or(usual.start), ..usual }.in_order()
}

/// Opens the source. A video is decoded to one size from the start, so `auto` cannot be measured for it.
pub(crate) fn open_source(options: &ServeOptions, now: &dyn Fn() -> Time) -> Result<OpenedSource, SceneError> {
    let size = match options.size {
        PictureSize::Auto => DEFAULT_VIDEO_SIZE,
        PictureSize::Fixed { width, height } => (width, height),
    };
    let fps = options.fps.unwrap_or(DEFAULT_VIDEO_FPS);
    let (backend, conversion) = (options.backend, options.conversion);
    open(&options.source, &OpenOptions { backend, conversion, size, fps, clock: now })
}

/// Chooses size and frame rate: what the owner requested, and otherwise what the machine sustains.
pub(crate) fn choose_format(
    source: &mut OpenedSource,
    options: &ServeOptions,
    now: &dyn Fn() -> Time,
) -> Result<(Format, SustainedFormat), ServerError> {
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
        OpenedSource::OnDemand(source) => choose_size(source.as_mut(), &wanted, now)?,
        OpenedSource::SelfPaced(_) => estimate_coding(
            wanted.size.unwrap_or(DEFAULT_VIDEO_SIZE),
            wanted.fps.unwrap_or(DEFAULT_VIDEO_FPS),
            processors,
        ),
    };
    if !sustained.keeps {
        tracing::warn!(
            "this machine does not sustain {}x{} at {} fps: {}; {}",
            sustained.width,
            sustained.height,
            sustained.fps,
            sustained.reason,
            advice(size.is_some(), options.fps.is_some())
        );
    }
    let SustainedFormat { width, height, fps, .. } = sustained;
    Ok((Format { size: Size { width, height }, fps, stereo: options.stereo }, sustained))
}
