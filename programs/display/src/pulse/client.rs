//! One client's protocol state: commands in, replies out, without IO.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::Cursor;

use nearlight_sound::SoundBlock;
use nearlight_units::Span;
use nearlight_wire::SOUND_RATE;
use pulseaudio::protocol::{
    AuthReply, ChannelMap, ChannelVolume, ClientInfoList, Command, CommandReply, CreatePlaybackStreamReply,
    CreateRecordStreamReply, DESCRIPTOR_SIZE, Descriptor, DescriptorFlags, FormatEncoding, FormatInfo, LookupReply,
    MAX_VERSION, MIN_VERSION, PlaybackLatency, PlaybackStreamParams, ProtocolError, PulseError, RecordLatency,
    RecordStreamParams, Request, SampleFormat, SampleSpec, ServerInfo, SetClientNameReply,
    SetPlaybackStreamBufferAttrReply, SetRecordStreamBufferAttrReply, SinkInfo, SourceInfo, StatInfo, Underflow,
    read_descriptor, write_ack_message, write_command_message, write_descriptor, write_error, write_reply_message,
};

use crate::pulse::recording::Recording;
use crate::pulse::stream::{MAX_BUFFERED_BYTES, Stream};
use crate::pulse::tags;

/// Maximum number of simultaneous streams of a client. Guess: players have one or two.
const MAX_STREAMS: usize = 8;
/// Maximum number of bytes of a command. A single property may have 64 KiB.
const MAX_COMMAND_BYTES: usize = 256 * 1_024;
const SINK: &std::ffi::CStr = c"nearlight";
/// The source's name if there is no microphone. It records nothing.
const MONITOR: &std::ffi::CStr = c"nearlight.monitor";
const MICROPHONE: &std::ffi::CStr = c"nearlight.microphone";
/// The latency from a client's buffer to the ear that is reported to clients, in microseconds. Guess: a block, its packet, and a typical
/// network.
const LATENCY_MICROSECONDS: u64 = 40_000;
/// The channel number of messages, which belong to no channel.
const NO_CHANNEL: u32 = u32::MAX;

/// A client and its streams.
#[derive(Default)]
pub(crate) struct Client {
    number: u32,
    version: u16,
    authenticated: bool,
    streams: BTreeMap<u32, Stream>,
    /// Whether there is a microphone.
    records: bool,
    recordings: BTreeMap<u32, Recording>,
    next_stream: u32,
    received: Vec<u8>,
    replies: Vec<u8>,
}

impl Client {
    pub(crate) fn new(number: u32, records: bool) -> Self {
        Self { number, records, version: MIN_VERSION, ..Self::default() }
    }

    /// Handles bytes that the client has sent. After an error the client must be disconnected.
    pub(crate) fn on_bytes(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        self.received.extend_from_slice(bytes);
        let mut done = 0;
        while let Some(header) = self.received.get(done..done + DESCRIPTOR_SIZE) {
            let descriptor = read_descriptor(&mut &*header)?;
            let length = descriptor.length as usize;
            let most = if descriptor.channel == NO_CHANNEL { MAX_COMMAND_BYTES } else { MAX_BUFFERED_BYTES };
            if length > most {
                return Err(ProtocolError::Invalid(format!("a message of {length} bytes")));
            }
            let begin = done + DESCRIPTOR_SIZE;
            let Some(payload) = self.received.get(begin..begin + length).map(<[u8]>::to_vec) else { break };
            done = begin + length;
            if descriptor.channel == NO_CHANNEL {
                self.on_message(&payload)?;
            } else {
                self.on_samples(descriptor.channel, &payload)?;
            }
        }
        self.received.drain(..done);
        Ok(())
    }

    /// Returns the bytes to send. The caller removes those that it has sent.
    pub(crate) fn replies(&mut self) -> &mut Vec<u8> {
        &mut self.replies
    }

    /// Adds the next 10 ms of all streams to the block. Returns the longest time that a stream's sound was buffered.
    pub(crate) fn mix(&mut self, block: &mut SoundBlock) -> Span {
        let (mut drained, mut waited) = (Vec::new(), Span::ZERO);
        for (channel, stream) in &mut self.streams {
            let (channel, played) = (*channel, stream.mix(block));
            let mut send = |command| write_command_message(&mut self.replies, NO_CHANNEL, &command, self.version);
            // Writing into memory cannot fail.
            if played.requested > 0 {
                let _ = send(Command::Request(Request { channel, length: played.requested }));
            }
            if played.starved {
                let offset = stream.position().1 as i64;
                let _ = send(Command::Underflow(Underflow { channel, offset }));
            }
            drained.extend(played.drained);
            waited = waited.max(played.waited);
        }
        for request in drained {
            let _ = write_ack_message(&mut self.replies, request);
        }
        waited
    }

    /// Passes the microphone's next 10 ms to all recordings.
    pub(crate) fn record(&mut self, block: &SoundBlock) {
        for (channel, recording) in &mut self.recordings {
            if let Some(bytes) = recording.on_block(block) {
                let (length, flags) = (bytes.len() as u32, DescriptorFlags::empty());
                // Writing into memory cannot fail.
                let _ =
                    write_descriptor(&mut self.replies, &Descriptor { length, channel: *channel, offset: 0, flags });
                self.replies.extend(bytes);
            }
        }
    }

    fn on_samples(&mut self, channel: u32, bytes: &[u8]) -> Result<(), ProtocolError> {
        // Samples of a deleted stream may still arrive.
        let Some(stream) = self.streams.get_mut(&channel) else { return Ok(()) };
        let (lost, begins) = stream.on_bytes(bytes);
        if lost > 0 {
            write_command_message(&mut self.replies, NO_CHANNEL, &Command::Overflow(channel), self.version)?;
        }
        if begins {
            write_command_message(&mut self.replies, NO_CHANNEL, &Command::Started(channel), self.version)?;
        }
        Ok(())
    }

    fn on_message(&mut self, payload: &[u8]) -> Result<(), ProtocolError> {
        if !tags::are_complete(payload) {
            return Err(ProtocolError::Invalid("a message with incomplete values".into()));
        }
        match Command::read_tag_prefixed(&mut Cursor::new(payload), self.version) {
            Ok((request, command)) => self.on_command(request, command),
            Err(ProtocolError::Unimplemented(request, _)) => self.refuse(request, PulseError::NotImplemented),
            Err(error) => Err(error),
        }
    }

    fn on_command(&mut self, request: u32, command: Command) -> Result<(), ProtocolError> {
        if !self.authenticated {
            let Command::Auth(params) = command else { return self.refuse(request, PulseError::AccessDenied) };
            // Only the program can reach the socket.
            (self.authenticated, self.version) = (true, params.version.clamp(MIN_VERSION, MAX_VERSION));
            return self.reply(request, &AuthReply { version: MAX_VERSION, ..AuthReply::default() });
        }
        match command {
            Command::SetClientName(_) => self.reply(request, &SetClientNameReply { client_id: self.number }),
            Command::CreatePlaybackStream(params) => self.create(request, &params),
            Command::DeletePlaybackStream(channel) => {
                let there = self.streams.remove(&channel).is_some();
                self.acknowledge(request, there)
            }
            Command::DrainPlaybackStream(channel) => match self.streams.get_mut(&channel) {
                Some(stream) => {
                    stream.drain(request);
                    Ok(())
                }
                None => self.refuse(request, PulseError::NoEntity),
            },
            Command::CorkPlaybackStream(params) => {
                self.change(request, params.channel, |stream| stream.set_corked(params.cork))
            }
            Command::FlushPlaybackStream(channel) => self.change(request, channel, Stream::flush),
            Command::TriggerPlaybackStream(channel) => self.change(request, channel, Stream::trigger),
            Command::PrebufPlaybackStream(channel) => self.change(request, channel, |_| ()),
            Command::SetPlaybackStreamName(params) => self.change(request, params.index, |_| ()),
            Command::SetSinkInputVolume(params) => {
                let channels: Vec<f32> =
                    params.volume.channels().iter().map(pulseaudio::protocol::Volume::to_linear).collect();
                let left = channels.first().copied().unwrap_or(1.0);
                let volume = [left, channels.get(1).copied().unwrap_or(left)];
                self.change(request, params.index, |stream| stream.set_volume(volume))
            }
            Command::SetSinkInputMute(params) => {
                self.change(request, params.index, |stream| stream.set_muted(params.mute))
            }
            Command::SetPlaybackStreamBufferAttr(params) => {
                let Some(stream) = self.streams.get_mut(&params.index) else {
                    return self.refuse(request, PulseError::NoEntity);
                };
                stream.set_attributes(params.buffer_attr);
                let buffer_attr = stream.attributes();
                self.reply(
                    request,
                    &SetPlaybackStreamBufferAttrReply { buffer_attr, configured_sink_latency: LATENCY_MICROSECONDS },
                )
            }
            Command::GetPlaybackLatency(params) => {
                let Some(stream) = self.streams.get(&params.channel) else {
                    return self.refuse(request, PulseError::NoEntity);
                };
                let (written, read) = stream.position();
                let latency = PlaybackLatency {
                    sink_usec: LATENCY_MICROSECONDS,
                    source_usec: 0,
                    playing: stream.is_playing(),
                    local_time: params.now,
                    // Client and server run on one machine and share its clock.
                    remote_time: params.now,
                    write_offset: written as i64,
                    read_offset: read as i64,
                    underrun_for: 0,
                    playing_for: read,
                };
                self.reply(request, &latency)
            }
            command => self.on_recording(request, command),
        }
    }

    /// Handles commands for recording streams.
    fn on_recording(&mut self, request: u32, command: Command) -> Result<(), ProtocolError> {
        match command {
            Command::CreateRecordStream(params) => self.create_recording(request, &params),
            Command::DeleteRecordStream(channel) => {
                let there = self.recordings.remove(&channel).is_some();
                self.acknowledge(request, there)
            }
            Command::CorkRecordStream(params) => {
                self.change_recording(request, params.channel, |recording| recording.set_corked(params.cork))
            }
            Command::FlushRecordStream(channel) => self.change_recording(request, channel, Recording::flush),
            Command::SetRecordStreamName(params) => self.change_recording(request, params.index, |_| ()),
            Command::UpdateRecordStreamProplist(params) => self.change_recording(request, params.index, |_| ()),
            Command::SetRecordStreamBufferAttr(params) => {
                let Some(recording) = self.recordings.get_mut(&params.index) else {
                    return self.refuse(request, PulseError::NoEntity);
                };
                recording.set_attributes(params.buffer_attr);
                let buffer_attr = recording.attributes();
                let configured_source_latency = LATENCY_MICROSECONDS;
                self.reply(request, &SetRecordStreamBufferAttrReply { buffer_attr, configured_source_latency })
            }
            Command::GetRecordLatency(params) => {
                let Some(recording) = self.recordings.get(&params.channel) else {
                    return self.refuse(request, PulseError::NoEntity);
                };
                let sent = recording.position() as i64;
                let latency = RecordLatency {
                    sink_usec: 0,
                    source_usec: LATENCY_MICROSECONDS,
                    playing: recording.is_running(),
                    local_time: params.now,
                    // The clock is shared, as with playback.
                    remote_time: params.now,
                    write_offset: sent,
                    read_offset: sent,
                };
                self.reply(request, &latency)
            }
            command => self.introspect(request, &command),
        }
    }

    /// Answers queries about the server, which has one sink.
    fn introspect(&mut self, request: u32, command: &Command) -> Result<(), ProtocolError> {
        match command {
            Command::GetServerInfo => self.reply(request, &server_info(self.records)),
            Command::GetSinkInfo(_) => self.reply(request, &sink()),
            Command::GetSinkInfoList => self.reply(request, &vec![sink()]),
            Command::GetSourceInfo(_) => self.reply(request, &source(self.records)),
            Command::GetSourceInfoList => self.reply(request, &vec![source(self.records)]),
            Command::LookupSink(_) | Command::LookupSource(_) => self.reply(request, &LookupReply(0)),
            Command::GetClientInfoList
            | Command::GetModuleInfoList
            | Command::GetCardInfoList
            | Command::GetSinkInputInfoList
            | Command::GetSourceOutputInfoList
            | Command::GetSampleInfoList => self.reply(request, &ClientInfoList::new()),
            Command::Stat => self.reply(request, &StatInfo::default()),
            Command::Subscribe(_)
            | Command::UpdateClientProplist(_)
            | Command::UpdatePlaybackStreamProplist(_)
            | Command::SetSinkVolume(_)
            | Command::SetSinkMute(_)
            | Command::SetDefaultSink(_)
            | Command::SetDefaultSource(_) => self.acknowledge(request, true),
            _ => self.refuse(request, PulseError::NotImplemented),
        }
    }

    fn create(&mut self, request: u32, params: &PlaybackStreamParams) -> Result<(), ProtocolError> {
        // Newer clients offer formats and may leave the old field empty.
        let stream = Stream::new(params.sample_spec, params.buffer_attr).filter(|_| self.has_room());
        let Some(mut stream) = stream else { return self.refuse(request, PulseError::NotSupported) };
        stream.set_corked(params.flags.start_corked);
        stream.set_muted(params.flags.start_muted == Some(true));
        let channel = self.new_channel();
        let reply = CreatePlaybackStreamReply {
            channel,
            stream_index: channel,
            requested_bytes: stream.begin(),
            buffer_attr: stream.attributes(),
            sample_spec: stream.spec(),
            channel_map: params.channel_map,
            stream_latency: LATENCY_MICROSECONDS,
            sink_index: 0,
            sink_name: Some(SINK.into()),
            suspended: false,
            format: FormatInfo::new(FormatEncoding::Pcm),
        };
        self.streams.insert(channel, stream);
        self.reply(request, &reply)
    }

    fn create_recording(&mut self, request: u32, params: &RecordStreamParams) -> Result<(), ProtocolError> {
        let recording = Recording::new(params.sample_spec, params.buffer_attr);
        let Some(mut recording) = recording.filter(|_| self.records && self.has_room()) else {
            return self.refuse(request, PulseError::NotSupported);
        };
        recording.set_corked(params.flags.start_corked);
        let channel = self.new_channel();
        let reply = CreateRecordStreamReply {
            channel,
            stream_index: channel,
            buffer_attr: recording.attributes(),
            sample_spec: recording.spec(),
            channel_map: params.channel_map,
            stream_latency: LATENCY_MICROSECONDS,
            // In this reply, these fields describe the source.
            sink_index: 0,
            sink_name: Some(MICROPHONE.into()),
            suspended: false,
            format: FormatInfo::new(FormatEncoding::Pcm),
        };
        self.recordings.insert(channel, recording);
        self.reply(request, &reply)
    }

    fn has_room(&self) -> bool {
        self.streams.len() + self.recordings.len() < MAX_STREAMS
    }

    fn new_channel(&mut self) -> u32 {
        let channel = self.next_stream;
        self.next_stream = self.next_stream.wrapping_add(1);
        channel
    }

    fn change_recording(
        &mut self,
        request: u32,
        channel: u32,
        act: impl FnOnce(&mut Recording),
    ) -> Result<(), ProtocolError> {
        let there = self.recordings.get_mut(&channel).map(act).is_some();
        self.acknowledge(request, there)
    }

    fn change(&mut self, request: u32, channel: u32, act: impl FnOnce(&mut Stream)) -> Result<(), ProtocolError> {
        let there = self.streams.get_mut(&channel).map(act).is_some();
        self.acknowledge(request, there)
    }

    fn acknowledge(&mut self, request: u32, done: bool) -> Result<(), ProtocolError> {
        if done { write_ack_message(&mut self.replies, request) } else { self.refuse(request, PulseError::NoEntity) }
    }

    fn refuse(&mut self, request: u32, error: PulseError) -> Result<(), ProtocolError> {
        write_error(&mut self.replies, request, &error)
    }

    fn reply<R: CommandReply>(&mut self, request: u32, reply: &R) -> Result<(), ProtocolError> {
        write_reply_message(&mut self.replies, request, reply, self.version)
    }
}

const fn spec() -> SampleSpec {
    SampleSpec { format: SampleFormat::Float32Le, channels: 2, sample_rate: SOUND_RATE }
}

fn server_info(records: bool) -> ServerInfo {
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

fn sink() -> SinkInfo {
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

fn source(records: bool) -> SourceInfo {
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
