//! Requests of the tests' clients.

use pulseaudio::protocol::stream::BufferAttr;
use pulseaudio::protocol::{SampleFormat, SampleSpec};

/// Attributes that leave everything to the server.
pub(crate) const DEFAULTS: BufferAttr =
    BufferAttr { max_length: !0, target_length: !0, pre_buffering: !0, minimum_request_length: !0, fragment_size: !0 };

pub(crate) const fn spec(format: SampleFormat, channels: u8, sample_rate: u32) -> SampleSpec {
    SampleSpec { format, channels, sample_rate }
}
