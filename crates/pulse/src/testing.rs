//! What clients of tests ask for.

use pulseaudio::protocol::stream::BufferAttr;
use pulseaudio::protocol::{SampleFormat, SampleSpec};

/// Everything as the server likes.
pub(crate) const DEFAULTS: BufferAttr =
    BufferAttr { max_length: !0, target_length: !0, pre_buffering: !0, minimum_request_length: !0, fragment_size: !0 };

pub(crate) const fn spec(format: SampleFormat, channels: u8, sample_rate: u32) -> SampleSpec {
    SampleSpec { format, channels, sample_rate }
}
