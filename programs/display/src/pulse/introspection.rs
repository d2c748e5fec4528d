//! Describes the server, its one sink and source, and a client's streams.

use std::ffi::{CStr, CString};

use nearlight_wire::SOUND_RATE;
use pulseaudio::protocol::{
    ChannelMap, ChannelVolume, FormatEncoding, FormatInfo, SampleFormat, SampleSpec, ServerInfo, SinkInfo,
    SinkInputInfo, SourceInfo, SourceOutputInfo,
};

use crate::pulse::recording::Recording;
use crate::pulse::stream::Stream;

pub(super) const SINK: &CStr = c"nearlight";
/// The source's name if there is no microphone. It records nothing.
const MONITOR: &CStr = c"nearlight.monitor";
pub(super) const MICROPHONE: &CStr = c"nearlight.microphone";
/// The latency from a client's buffer to the ear that is reported to clients, in microseconds. Guess: a block, its packet, and a typical
/// network.
pub(super) const LATENCY_MICROSECONDS: u64 = 40_000;

const fn spec() -> SampleSpec {
    SampleSpec { format: SampleFormat::Float32Le, channels: 2, sample_rate: SOUND_RATE }
}

pub(super) fn server_info(records: bool) -> ServerInfo {
    ServerInfo {
        server_name: Some(c"nearlight".into()),
        // Clients compare it with versions of PulseAudio.
        server_version: Some(c"15.0.0".into()),
        user_name: Some(c"program".into()),
        host_name: Some(c"localhost".into()),
        sample_spec: spec(),
        cookie: 1,
        default_sink_name: Some(SINK.into()),
        // SDL fails if there is no default source.
        default_source_name: Some(source_name(records)),
        channel_map: ChannelMap::stereo(),
    }
}

pub(super) fn sink() -> SinkInfo {
    SinkInfo {
        name: CString::from(SINK),
        description: Some(c"Viewers".into()),
        sample_spec: spec(),
        channel_map: ChannelMap::stereo(),
        cvolume: ChannelVolume::norm(2),
        ..SinkInfo::new_dummy(0)
    }
}

fn source_name(records: bool) -> CString {
    if records { MICROPHONE.into() } else { MONITOR.into() }
}

pub(super) fn source(records: bool) -> SourceInfo {
    let description = if records { c"The viewer's microphone" } else { c"What viewers hear" };
    SourceInfo {
        index: 0,
        name: source_name(records),
        description: Some(description.into()),
        sample_spec: spec(),
        channel_map: ChannelMap::stereo(),
        cvolume: ChannelVolume::norm(2),
        formats: vec![FormatInfo::new(FormatEncoding::Pcm)],
        ..SourceInfo::default()
    }
}

/// Describes a playback stream of this client.
pub(super) fn sink_input(client: u32, channel: u32, stream: &Stream) -> SinkInputInfo {
    SinkInputInfo {
        index: channel,
        name: c"playback".into(),
        client_index: Some(client),
        sink_index: 0,
        sample_spec: stream.format().spec,
        channel_map: stream.format().map,
        cvolume: stream.volume(),
        buffer_latency: u64::try_from(stream.buffered_time().as_nanos() / 1_000).unwrap_or(0),
        sink_latency: LATENCY_MICROSECONDS,
        muted: stream.is_muted(),
        corked: stream.is_corked(),
        has_volume: true,
        volume_writable: true,
        format: stream.format().info(),
        ..SinkInputInfo::default()
    }
}

/// Describes a recording stream of this client.
pub(super) fn source_output(client: u32, channel: u32, recording: &Recording) -> SourceOutputInfo {
    SourceOutputInfo {
        index: channel,
        name: c"recording".into(),
        client_index: Some(client),
        source_index: 0,
        sample_spec: recording.format().spec,
        channel_map: recording.format().map,
        cvolume: ChannelVolume::norm(recording.format().spec.channels),
        source_latency: LATENCY_MICROSECONDS,
        corked: !recording.is_running(),
        format: recording.format().info(),
        ..SourceOutputInfo::default()
    }
}
