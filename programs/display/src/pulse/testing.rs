//! Requests of the tests' clients.

use pulseaudio::protocol::stream::BufferAttr;
use pulseaudio::protocol::{ChannelMap, SampleFormat, SampleSpec};

use crate::pulse::format::StreamFormat;

/// Attributes that leave everything to the server.
pub(crate) const DEFAULTS: BufferAttr =
    BufferAttr { max_length: !0, target_length: !0, pre_buffering: !0, minimum_request_length: !0, fragment_size: !0 };

/// Returns a format with default positions of its channels.
pub(crate) fn format(format: SampleFormat, channels: u8, sample_rate: u32) -> StreamFormat {
    StreamFormat::new(SampleSpec { format, channels, sample_rate }, ChannelMap::empty()).expect("a supported format")
}
