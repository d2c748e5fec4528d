//! Frame sizes as a random process.
//!
//! A frame's size is its share of the current rate, less the excess of earlier frames, times a log-normal variation that lasts for some frames. The
//! rate in force follows the target with a lag. Key frames and new scenes are larger; where the content needs less than the rate, frames stay small.

use std::borrow::Cow;

use nearlight_codec::{CodecError, Reference};
use nearlight_link::{Probability, Random};
use nearlight_session::Distortion;
use nearlight_units::{Bitrate, FrameId, Span, Time};

use super::{Capture, CodedFrame, FrameEncoder};
use crate::plan::ModelOptions;

/// Smallest frame in bytes: nothing changed. Guess: a slice header and a few skipped runs.
const MIN_FRAME_BYTES: f64 = 64.0;
/// Largest frame in bytes. The session accepts up to 4 MiB.
const MAX_FRAME_BYTES: usize = 4_000_000;
/// The content of frames, which is never read.
static BLANK: [u8; MAX_FRAME_BYTES] = [0; MAX_FRAME_BYTES];
/// Largest credit in frames: low-latency rate control has a buffer of about one frame.
const MAX_CREDIT_FRAMES: f64 = 1.0;
/// Largest debt in frames; any excess is forgiven.
const MAX_DEBT_FRAMES: f64 = 20.0;
/// Least share of its size that a frame keeps while it repays a debt. Measured after key frames, see below.
const MIN_SHARE: f64 = 0.68;

/// The random process of frame sizes.
#[derive(Debug)]
pub struct Model {
    options: ModelOptions,
    fps: f64,
    /// The rate that frames currently follow, in bit/s.
    in_force: f64,
    variation: f64,
    /// Bytes that earlier frames took in excess of their share.
    owed: f64,
    limited: bool,
    random: Random,
    last_at: Option<Time>,
    /// The last encoded frame.
    newest: Option<FrameId>,
}

impl Model {
    #[must_use]
    pub fn new(options: ModelOptions, fps: u16, start: Bitrate, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let variation = options.deviation * random.normal();
        let in_force = start.as_bps() as f64;
        Self {
            options,
            fps: f64::from(fps),
            in_force,
            variation,
            owed: 0.0,
            limited: false,
            random,
            last_at: None,
            newest: None,
        }
    }

    /// Returns the next frame's size in bytes.
    pub fn size(&mut self, capture: &Capture) -> usize {
        let options = self.options;
        let since = capture.at.saturating_since(self.last_at.unwrap_or(capture.at));
        self.last_at = Some(capture.at);
        let target = capture.rate.as_bps() as f64;
        let step = if options.reaction > 0.0 { 1.0 - libm::exp(-1.0 / options.reaction) } else { 1.0 };
        self.in_force += (target - self.in_force) * step;
        let share = (self.in_force / 8.0 / self.fps).max(1.0);
        let fresh = (1.0 - options.correlation * options.correlation).sqrt() * options.deviation;
        self.variation = options.correlation * self.variation + fresh * self.random.normal();
        // Less half of the variance, so that the mean stays the share.
        let factor = libm::exp(self.variation - options.deviation * options.deviation / 2.0);
        let repaid = (self.owed / options.repay.max(1.0)).min(share * (1.0 - MIN_SHARE));
        let mut size = (share - repaid) * factor;
        if options.scene_every.is_some_and(|every| self.happens(since, every)) {
            size *= options.scene_ratio;
        }
        // A frame predicted from an older one is not larger: an acknowledged one is a round trip old.
        if capture.reference == Reference::Nothing {
            size *= options.key_ratio;
        }
        let phase = if self.limited { Some(options.limited_for) } else { options.limited_every };
        if options.limited_every.is_some() && phase.is_some_and(|mean| self.happens(since, mean)) {
            self.limited = !self.limited;
        }
        if self.limited {
            size = size.min(share * options.limited_share * factor);
        }
        let size = size.clamp(MIN_FRAME_BYTES, MAX_FRAME_BYTES as f64);
        self.owed = (self.owed + size - share).clamp(-MAX_CREDIT_FRAMES * share, MAX_DEBT_FRAMES * share);
        size as usize
    }

    fn happens(&mut self, since: Span, every: Span) -> bool {
        let chance = since.as_secs_f64() / every.as_secs_f64();
        self.random.happens(Probability::clamped(chance))
    }
}

impl FrameEncoder for Model {
    fn encode(&mut self, capture: &Capture) -> Result<CodedFrame, CodecError> {
        let bits = Cow::Borrowed(&BLANK[..self.size(capture)]);
        let reference = match capture.reference {
            Reference::Newest => self.newest,
            Reference::Acknowledged => capture.acknowledged,
            Reference::Nothing => None,
        };
        self.newest = Some(self.newest.map_or(FrameId(0), FrameId::next));
        Ok(CodedFrame { bits, reference, distortion: Distortion::UNKNOWN })
    }
}
