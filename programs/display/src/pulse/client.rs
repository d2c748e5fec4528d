//! One client's protocol state: commands in, replies out, without IO.

use std::collections::BTreeMap;
use std::io::Cursor;

use nearlight_sound::SoundBlock;
use nearlight_units::Span;
use pulseaudio::protocol::{
    AuthReply, ClientInfoList, Command, CommandReply, CreatePlaybackStreamReply, CreateRecordStreamReply,
    DESCRIPTOR_SIZE, Descriptor, DescriptorFlags, LookupReply, MAX_VERSION, MIN_VERSION, PlaybackLatency,
    PlaybackStreamParams, ProtocolError, PulseError, RecordLatency, RecordStreamParams, Request, SetClientNameReply,
    SetPlaybackStreamBufferAttrReply, SetRecordStreamBufferAttrReply, SinkInputInfoList, SourceOutputInfoList,
    StatInfo, Underflow, read_descriptor, write_ack_message, write_command_message, write_descriptor, write_error,
    write_reply_message,
};

use crate::pulse::format::StreamFormat;
use crate::pulse::introspection::{
    LATENCY_MICROSECONDS, MICROPHONE, SINK, server_info, sink, sink_input, source, source_output,
};
use crate::pulse::recording::Recording;
use crate::pulse::stream::{MAX_BUFFERED_BYTES, Stream};
use crate::pulse::tags;

/// Maximum number of simultaneous streams of a client. Guess: players have one or two.
const MAX_STREAMS: usize = 8;
/// Maximum number of bytes of a command. A single property may have 64 KiB.
const MAX_COMMAND_BYTES: usize = 256 * 1_024;
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
            let Some(mut payload) = self.received.get(begin..begin + length).map(<[u8]>::to_vec) else { break };
            done = begin + length;
            if descriptor.channel == NO_CHANNEL {
                tags::replace_unknown_encodings(&mut payload);
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
                self.change(request, params.index, |stream| stream.set_volume(params.volume))
            }
            Command::SetSinkInputMute(params) => {
                self.change(request, params.index, |stream| stream.set_muted(params.mute))
            }
            Command::UpdatePlaybackStreamSampleRate(params) => {
                let stream = self.streams.get_mut(&params.index);
                match stream.map(|stream| stream.set_rate(params.sample_rate)) {
                    Some(false) => self.refuse(request, PulseError::Invalid),
                    found => self.acknowledge(request, found.is_some()),
                }
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
            // A client sees its own streams only.
            Command::GetSinkInputInfo(channel) => match self.streams.get(channel) {
                Some(stream) => self.reply(request, &sink_input(self.number, *channel, stream)),
                None => self.refuse(request, PulseError::NoEntity),
            },
            Command::GetSinkInputInfoList => {
                let streams = self.streams.iter();
                let all: SinkInputInfoList =
                    streams.map(|(channel, stream)| sink_input(self.number, *channel, stream)).collect();
                self.reply(request, &all)
            }
            Command::GetSourceOutputInfo(channel) => match self.recordings.get(channel) {
                Some(recording) => self.reply(request, &source_output(self.number, *channel, recording)),
                None => self.refuse(request, PulseError::NoEntity),
            },
            Command::GetSourceOutputInfoList => {
                let recordings = self.recordings.iter();
                let all: SourceOutputInfoList =
                    recordings.map(|(channel, recording)| source_output(self.number, *channel, recording)).collect();
                self.reply(request, &all)
            }
            Command::LookupSink(_) | Command::LookupSource(_) => self.reply(request, &LookupReply(0)),
            Command::GetClientInfoList
            | Command::GetModuleInfoList
            | Command::GetCardInfoList
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
        let format = StreamFormat::choose(params.sample_spec, params.channel_map, &params.formats);
        let Some(format) = format else { return self.refuse(request, PulseError::NotSupported) };
        if !self.has_room() {
            return self.refuse(request, PulseError::TooLarge);
        }
        let mut stream = Stream::new(format, params.buffer_attr);
        if let Some(volume) = params.cvolume {
            stream.set_volume(volume);
        }
        stream.set_corked(params.flags.start_corked);
        stream.set_muted(params.flags.start_muted == Some(true));
        let channel = self.new_channel();
        let reply = CreatePlaybackStreamReply {
            channel,
            stream_index: channel,
            requested_bytes: stream.begin(),
            buffer_attr: stream.attributes(),
            sample_spec: format.spec,
            channel_map: format.map,
            stream_latency: LATENCY_MICROSECONDS,
            sink_index: 0,
            sink_name: Some(SINK.into()),
            suspended: false,
            format: format.info(),
        };
        self.streams.insert(channel, stream);
        self.reply(request, &reply)
    }

    fn create_recording(&mut self, request: u32, params: &RecordStreamParams) -> Result<(), ProtocolError> {
        let format = StreamFormat::choose(params.sample_spec, params.channel_map, &params.formats);
        let recording = format.and_then(|format| Recording::new(format, params.buffer_attr));
        let Some(mut recording) = recording.filter(|_| self.records && self.has_room()) else {
            return self.refuse(request, PulseError::NotSupported);
        };
        recording.set_corked(params.flags.start_corked);
        let channel = self.new_channel();
        let reply = CreateRecordStreamReply {
            channel,
            stream_index: channel,
            buffer_attr: recording.attributes(),
            sample_spec: recording.format().spec,
            channel_map: recording.format().map,
            stream_latency: LATENCY_MICROSECONDS,
            // In this reply, these fields describe the source.
            sink_index: 0,
            sink_name: Some(MICROPHONE.into()),
            suspended: false,
            format: recording.format().info(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pulse::testing::DEFAULTS;
    use nearlight_sound::BLOCK_FRAMES;
    use pulseaudio::protocol::{
        AuthParams, ChannelMap, ChannelVolume, FormatEncoding, FormatInfo, Prop, SampleFormat, SampleSpec,
        SinkInputInfo, read_reply_message,
    };

    /// A client that speaks a version of the protocol, as its library sends commands and reads replies.
    fn connected(version: u16) -> Client {
        let mut client = Client::new(1, true);
        let auth = AuthParams { version, supports_shm: false, supports_memfd: false, cookie: vec![0; 256] };
        send(&mut client, &Command::Auth(auth));
        let reply: AuthReply = reply(&mut client);
        assert_eq!(reply.version, MAX_VERSION);
        client
    }

    fn send(client: &mut Client, command: &Command) {
        let mut bytes = Vec::new();
        write_command_message(&mut bytes, 7, command, client.version).expect("written into memory");
        client.on_bytes(&bytes).expect("a valid message");
    }

    fn reply<R: CommandReply + pulseaudio::protocol::TagStructRead>(client: &mut Client) -> R {
        let bytes = std::mem::take(client.replies());
        read_reply_message(&mut Cursor::new(bytes), client.version).expect("a reply").1
    }

    /// The request of a player that offers formats and leaves the older fields empty.
    fn offering(formats: Vec<FormatInfo>) -> Command {
        Command::CreatePlaybackStream(PlaybackStreamParams {
            sample_spec: SampleSpec { format: SampleFormat::Invalid, channels: 0, sample_rate: 0 },
            channel_map: ChannelMap::empty(),
            buffer_attr: DEFAULTS,
            // What clients send whose number of channels is in the formats.
            cvolume: Some(ChannelVolume::norm(32)),
            formats,
            ..PlaybackStreamParams::default()
        })
    }

    #[test]
    fn a_player_that_offers_formats_only_is_heard() {
        let mut pcm = FormatInfo::new(FormatEncoding::Pcm);
        for (property, value) in [
            (Prop::FormatSampleFormat, c"\"s16be\""),
            (Prop::FormatRate, c"48000"),
            (Prop::FormatChannels, c"1"),
            (Prop::FormatChannelMap, c"\"mono\""),
        ] {
            pcm.props.set(property, value);
        }
        let mut client = connected(MAX_VERSION);
        send(&mut client, &offering(vec![FormatInfo::new(FormatEncoding::Ac3Iec61937), pcm.clone()]));
        let created: CreatePlaybackStreamReply = reply(&mut client);
        assert_eq!(created.sample_spec, SampleSpec { format: SampleFormat::S16Be, channels: 1, sample_rate: 48_000 });
        assert_eq!((created.channel_map, created.format), (ChannelMap::mono(), pcm));
        let samples = 16_384_i16.to_be_bytes().repeat(created.requested_bytes as usize / 2);
        client.on_samples(created.channel, &samples).expect("samples");
        let mut block = [0.0; BLOCK_FRAMES * 2];
        client.mix(&mut block);
        assert!(block.iter().all(|sample| (sample - 0.5).abs() < 0.01), "{}", block[0]);
    }

    #[test]
    fn a_stream_begins_with_its_volume_and_its_client_can_ask_for_it() {
        let mut client = connected(MAX_VERSION);
        let spec = SampleSpec { format: SampleFormat::U8, channels: 1, sample_rate: 48_000 };
        send(
            &mut client,
            &Command::CreatePlaybackStream(PlaybackStreamParams {
                sample_spec: spec,
                buffer_attr: DEFAULTS,
                cvolume: Some(ChannelVolume::muted(1)),
                ..PlaybackStreamParams::default()
            }),
        );
        let created: CreatePlaybackStreamReply = reply(&mut client);
        client.on_samples(created.channel, &[255; 4_800]).expect("samples");
        client.replies().clear();
        let mut block = [0.0; BLOCK_FRAMES * 2];
        client.mix(&mut block);
        assert!(block.iter().all(|sample| sample.abs() < 1e-6), "{}", block[0]);
        client.replies().clear();
        send(&mut client, &Command::GetSinkInputInfo(created.stream_index));
        let info: SinkInputInfo = reply(&mut client);
        assert_eq!((info.sample_spec, info.cvolume, info.has_volume), (spec, ChannelVolume::muted(1), true));
    }

    #[test]
    fn a_player_without_a_supported_format_is_refused_and_stays_connected() {
        let mut client = connected(MAX_VERSION);
        send(&mut client, &offering(vec![FormatInfo::new(FormatEncoding::DtsIec61937)]));
        let bytes = std::mem::take(client.replies());
        let refusal = read_reply_message::<CreatePlaybackStreamReply>(&mut Cursor::new(bytes), client.version);
        assert!(matches!(refusal, Err(ProtocolError::ServerError(PulseError::NotSupported))), "{refusal:?}");
        assert_eq!(client.streams.len(), 0);
    }
}
