//! The study of one conversation: its streams, and its video.

mod other_conversations;
mod sequence;

use std::net::SocketAddr;

use nearlight_units::{Bytes, Span};
use serde::Serialize;

use crate::batches::{self, Batches, PacketGroups};
use crate::distribution::Distribution;
use crate::frames::{self, Frames, StreamFrames};
use crate::kind::Kind;
use crate::packet::Endpoint;
use crate::traffic::{CaptureSummary, Direction, MeasuredBy, Packet, Stream, Traffic, mark_repairs, may_be_video};
pub use other_conversations::OtherConversation;
pub use sequence::Sequence;

/// Conversations that are listed.
const MAX_LISTED_CONVERSATIONS: usize = 20;

/// Why there is no conversation to study.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    #[error("{why}")]
    NoDatagrams { packets: u64, why: String },
    #[error("{sender} sends and receives nothing in this capture; its conversations are:\n{conversations}")]
    NoSuchSender { sender: SocketAddr, conversations: String },
}

/// The results for one capture of a stream.
#[derive(Clone, Debug, Serialize)]
pub struct Study {
    pub capture: CaptureSummary,
    /// Caveats about the capture.
    pub warnings: Vec<String>,
    pub duration_s: f64,
    /// `address:port` of the end that sends most, or that was named.
    pub sender: String,
    pub receiver: String,
    /// The largest conversations of the capture, this one among them.
    pub conversations: Vec<ConversationSummary>,
    pub downlink: DirectionSummary,
    pub uplink: DirectionSummary,
    /// The study's Table 3: downlink first, by load.
    pub streams: Vec<StreamRow>,
    /// Other conversations of the same two machines, the largest first.
    pub beside: Vec<OtherConversation>,
    pub video: Option<Video>,
    /// Time from each STUN request to its response, as captured. Next to the sender, the sender's requests measure the round trip; the receiver's
    /// measure only the sender's response time.
    pub stun_sender_ms: Option<Distribution>,
    pub stun_receiver_ms: Option<Distribution>,
    /// Round trips from unencrypted RTCP, by the sender of the report that was answered.
    pub rtcp_sender_ms: Option<Distribution>,
    pub rtcp_receiver_ms: Option<Distribution>,
    #[serde(skip)]
    pub excerpts: Excerpts,
}

/// A line of the list of conversations.
#[derive(Clone, Debug, Serialize)]
pub struct ConversationSummary {
    pub ends: [String; 2],
    pub packets: u64,
    pub bytes: u64,
}

/// One direction of the conversation.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionSummary {
    pub packets: u64,
    pub bytes: u64,
    pub load_mbps: f64,
    /// Share of the conversation's bytes.
    pub share: f64,
    /// Between packets of whatever stream.
    pub gap_ms: Option<Distribution>,
}

/// A row of Table 3.
#[derive(Clone, Debug, Serialize)]
pub struct StreamRow {
    pub downlink: bool,
    pub kind: Kind,
    pub payload_type: Option<u8>,
    pub ssrc: Option<u32>,
    pub packets: u64,
    pub bytes: u64,
    /// Bytes as Ethernet frames.
    pub mean_size: f64,
    /// `None` for a single packet.
    pub mean_gap_ms: Option<f64>,
    /// Over the conversation's duration.
    pub load_mbps: f64,
    /// Share of the direction's bytes.
    pub share: f64,
    /// Packets missing, sent again and out of order, of RTP.
    pub sequence: Option<Sequence>,
}

impl StreamRow {
    /// Returns the name in tables.
    pub fn name(&self) -> String {
        match (self.payload_type, self.ssrc) {
            (Some(payload_type), Some(ssrc)) => format!("{} (PT {payload_type}, SSRC {ssrc:#010x})", self.kind.name()),
            _ => self.kind.name().to_owned(),
        }
    }
}

/// The stream that carries the pictures.
#[derive(Clone, Debug, Serialize)]
pub struct Video {
    pub stream: String,
    pub kind: Kind,
    pub size_bytes: Distribution,
    pub gap_ms: Option<Distribution>,
    pub frames: Frames,
    pub batches: Batches,
    pub together: PacketGroups,
    /// RFC 3550's interarrival jitter at the end, and the mean over packets, on the video clock.
    pub jitter_ms: Option<Distribution>,
}

/// Packets as they are, for pictures: not more than fit.
#[derive(Clone, Debug, Default)]
pub struct Excerpts {
    /// Time and size of packets, by row of Table 3.
    pub streams: Vec<Vec<Dot>>,
    /// The first frames of the excerpt: time, frame, batch.
    pub video: Vec<VideoDot>,
}

/// One packet.
#[derive(Clone, Copy, Debug)]
pub struct Dot {
    /// Time since the first packet.
    pub at: Span,
    pub size: u32,
}

/// One video packet.
#[derive(Clone, Copy, Debug)]
pub struct VideoDot {
    /// Time since the excerpt's beginning.
    pub at: Span,
    pub frame: u32,
    pub batch: u32,
}

/// The conversation under study and its streams.
pub(crate) struct Scope {
    pub conversation: u16,
    pub down: Direction,
    /// Index and stream, kinds settled.
    pub streams: Vec<(u16, Stream)>,
}

impl Scope {
    pub fn new(traffic: &Traffic, sender: Option<SocketAddr>) -> Result<Self, StudyError> {
        let Some((conversation, down)) = traffic.main(sender) else {
            return Err(match sender {
                Some(sender) if !traffic.conversations.is_empty() => {
                    let line =
                        |of: ConversationSummary| format!("  {} - {}: {} bytes\n", of.ends[0], of.ends[1], of.bytes);
                    StudyError::NoSuchSender {
                        sender,
                        conversations: conversations(traffic).into_iter().map(line).collect(),
                    }
                }
                _ => StudyError::NoDatagrams { packets: traffic.capture.packets, why: traffic.capture.no_datagrams() },
            });
        };
        Ok(Self::of(traffic, conversation, down))
    }

    pub fn of(traffic: &Traffic, conversation: u16, down: Direction) -> Self {
        let streams = traffic.streams.iter().enumerate().map(|(place, stream)| (place as u16, stream));
        let mut streams: Vec<(u16, Stream)> = streams
            .filter(|stream| stream.1.conversation == conversation)
            .map(|(place, stream)| (place, stream.clone()))
            .collect();
        for direction in [down, down.other()] {
            let mut own: Vec<_> = streams.iter().filter(|stream| stream.1.direction == direction).cloned().collect();
            mark_repairs(&mut own, &traffic.packets);
            for stream in &mut streams {
                if let Some(settled) = own.iter().find(|settled| settled.0 == stream.0) {
                    stream.1.kind = settled.1.kind;
                }
            }
        }
        Self { conversation, down, streams }
    }

    /// The downlink stream with the pictures: the largest of RTP video, or else the largest that may be.
    pub fn video(&self) -> Option<&(u16, Stream)> {
        let candidates = self.streams.iter().filter(|stream| stream.1.direction == self.down);
        candidates
            .filter(|stream| may_be_video(stream.1.kind))
            .max_by_key(|stream| (stream.1.kind == Kind::RtpVideo, stream.1.bytes))
    }

    pub fn packets(&self, traffic: &Traffic, wanted: impl Fn(&Stream) -> bool) -> Vec<Packet> {
        let mut among = vec![false; traffic.streams.len()];
        for (place, stream) in &self.streams {
            among[usize::from(*place)] = wanted(stream);
        }
        traffic.packets.iter().filter(|packet| among[usize::from(packet.stream)]).copied().collect()
    }
}

fn conversations(traffic: &Traffic) -> Vec<ConversationSummary> {
    let mut all: Vec<&_> = traffic.conversations.iter().collect();
    all.sort_by_key(|conversation| std::cmp::Reverse(conversation.bytes[0].saturating_add(conversation.bytes[1])));
    let summary = |conversation: &&crate::traffic::Conversation| ConversationSummary {
        ends: conversation.ends.map(name),
        packets: conversation.packets.iter().sum(),
        bytes: conversation.bytes.iter().sum(),
    };
    all.iter().take(MAX_LISTED_CONVERSATIONS).map(summary).collect()
}

fn name(end: Endpoint) -> String {
    SocketAddr::new(end.address, end.port).to_string()
}

impl Study {
    /// Studies the conversation of `sender`, or the largest one.
    ///
    /// # Errors
    ///
    /// There is no such conversation.
    pub fn new(traffic: &Traffic, sender: Option<SocketAddr>) -> Result<Self, StudyError> {
        let scope = Scope::new(traffic, sender)?;
        Ok(Self::of(traffic, &scope))
    }

    /// Returns the round-trip distributions with their source and the requesting end.
    pub fn round_trips(&self) -> [(&'static str, &'static str, &Option<Distribution>); 4] {
        [
            ("STUN", "sender", &self.stun_sender_ms),
            ("STUN", "receiver", &self.stun_receiver_ms),
            ("RTCP", "sender", &self.rtcp_sender_ms),
            ("RTCP", "receiver", &self.rtcp_receiver_ms),
        ]
    }

    pub(crate) fn of(traffic: &Traffic, scope: &Scope) -> Self {
        let conversation = &traffic.conversations[usize::from(scope.conversation)];
        let first = scope.streams.iter().map(|stream| stream.1.first).min().unwrap_or_default();
        let last = scope.streams.iter().map(|stream| stream.1.last).max().unwrap_or_default();
        let duration = last.saturating_since(first);
        let ends = conversation.ends.map(name);
        let [sender, receiver] = if scope.down == Direction::Forth { ends } else { [ends[1].clone(), ends[0].clone()] };
        let total = conversation.bytes.iter().sum::<u64>().max(1);
        let direction = |direction: Direction| {
            let bytes = conversation.bytes[direction as usize];
            let packets = scope.packets(traffic, |stream| stream.direction == direction);
            DirectionSummary {
                packets: conversation.packets[direction as usize],
                bytes,
                load_mbps: Bytes::new(bytes).over(duration).as_mbps_f64(),
                share: bytes as f64 / total as f64,
                gap_ms: gaps(&packets),
            }
        };
        let rows = rows(traffic, scope, duration);
        let round_trips = |by: MeasuredBy, asked: Direction| {
            let own = traffic.round_trips.iter().filter(|trip| trip.conversation == scope.conversation);
            Distribution::of_spans(own.filter(|trip| (trip.by, trip.asked) == (by, asked)).map(|trip| trip.span))
        };
        let video = scope.video().and_then(|stream| video(traffic, scope, stream));
        let excerpts = Excerpts {
            streams: rows.iter().map(|(_, places)| excerpt(traffic, places, first)).collect(),
            video: video.as_ref().map(|video| video.1.clone()).unwrap_or_default(),
        };
        Self {
            capture: traffic.capture.clone(),
            warnings: traffic.capture.warnings(),
            duration_s: duration.as_secs_f64(),
            sender,
            receiver,
            conversations: conversations(traffic),
            downlink: direction(scope.down),
            uplink: direction(scope.down.other()),
            streams: rows.into_iter().map(|row| row.0).collect(),
            beside: other_conversations::other_conversations(traffic, scope, duration),
            video: video.map(|video| video.0),
            stun_sender_ms: round_trips(MeasuredBy::Stun, scope.down),
            stun_receiver_ms: round_trips(MeasuredBy::Stun, scope.down.other()),
            rtcp_sender_ms: round_trips(MeasuredBy::Rtcp, scope.down),
            rtcp_receiver_ms: round_trips(MeasuredBy::Rtcp, scope.down.other()),
            excerpts,
        }
    }
}

fn gaps(packets: &[Packet]) -> Option<Distribution> {
    Distribution::of_spans(packets.windows(2).map(|pair| pair[1].at - pair[0].at))
}

/// Whether the group is downlink, a representative stream, and all streams of it.
type Group<'a> = (bool, &'a Stream, Vec<&'a (u16, Stream)>);

/// Table 3 with the places of each row's streams: what is not a protocol of its own is one row.
fn rows(traffic: &Traffic, scope: &Scope, duration: Span) -> Vec<(StreamRow, Vec<u16>)> {
    let sequences = sequence::of_streams(traffic, scope);
    let mut groups: Vec<Group<'_>> = Vec::new();
    for stream in &scope.streams {
        let down = stream.1.direction == scope.down;
        let is_rtp = |kind: Kind| matches!(kind, Kind::Rtp | Kind::RtpAudio | Kind::RtpVideo | Kind::RtpRepair);
        let same = |group: &&mut Group<'_>| group.0 == down && group.1.kind == stream.1.kind && !is_rtp(stream.1.kind);
        match groups.iter_mut().find(same) {
            Some(group) => group.2.push(stream),
            None => groups.push((down, &stream.1, vec![stream])),
        }
    }
    let of_direction = |down: bool| {
        let own = scope.streams.iter().filter(move |stream| (stream.1.direction == scope.down) == down);
        own.map(|stream| stream.1.bytes).sum::<Bytes>().get().max(1) as f64
    };
    let mut rows: Vec<(StreamRow, Vec<u16>)> = groups
        .into_iter()
        .map(|(down, stream, members)| {
            let packets: u64 = members.iter().map(|member| member.1.packets).sum();
            let bytes: Bytes = members.iter().map(|member| member.1.bytes).sum();
            let first = members.iter().map(|member| member.1.first).min().unwrap_or_default();
            let last = members.iter().map(|member| member.1.last).max().unwrap_or_default();
            let rtp = stream.rtp.filter(|_| stream.kind != Kind::Other && stream.kind != Kind::QuicShort);
            let row = StreamRow {
                downlink: down,
                kind: stream.kind,
                payload_type: rtp.map(|rtp| rtp.payload_type),
                ssrc: rtp.map(|rtp| rtp.ssrc),
                packets,
                bytes: bytes.get(),
                mean_size: bytes.get() as f64 / packets.max(1) as f64,
                mean_gap_ms: (packets > 1).then(|| last.saturating_since(first).as_millis_f64() / (packets - 1) as f64),
                load_mbps: bytes.over(duration).as_mbps_f64(),
                share: bytes.get() as f64 / of_direction(down),
                sequence: rtp.and_then(|_| sequences.iter().find(|of| of.0 == members[0].0)).map(|of| of.1.clone()),
            };
            (row, members.iter().map(|member| member.0).collect())
        })
        .collect();
    rows.sort_by_key(|(row, _)| (!row.downlink, std::cmp::Reverse(row.bytes)));
    rows
}

/// The first packets of a row.
fn excerpt(traffic: &Traffic, places: &[u16], first: nearlight_units::Time) -> Vec<Dot> {
    const MAX_DOTS: usize = 3_000;
    let own = traffic.packets.iter().filter(|packet| places.contains(&packet.stream));
    own.take(MAX_DOTS).map(|packet| Dot { at: packet.at - first, size: packet.size }).collect()
}

fn video(traffic: &Traffic, scope: &Scope, stream: &(u16, Stream)) -> Option<(Video, Vec<VideoDot>)> {
    let is_rtp = stream.1.kind == Kind::RtpVideo;
    let (packets, found) = if is_rtp {
        let packets: Vec<Packet> = traffic.packets.iter().filter(|packet| packet.stream == stream.0).copied().collect();
        let found = frames::by_timestamps(&packets);
        (packets, found)
    } else {
        // A protocol without distinct headers may have looked like several streams.
        let of_the_row = |other: &Stream| other.direction == scope.down && other.kind == stream.1.kind;
        let packets = frames::pictures(scope.packets(traffic, of_the_row));
        let found = frames::by_silences(&packets);
        (packets, found)
    };
    let batching = batches::batching(&packets, &found)?;
    let dots = video_excerpt(&packets, &found, &batching.of_packet);
    debug_assert!(scope.streams.iter().any(|own| own.0 == stream.0));
    let video = Video {
        stream: stream.1.kind.name().to_owned(),
        kind: stream.1.kind,
        size_bytes: Distribution::of(packets.iter().map(|packet| f64::from(packet.size)))?,
        gap_ms: gaps(&packets),
        frames: found.figures()?,
        batches: batching.figures,
        together: batches::packet_groups(&packets)?,
        jitter_ms: if is_rtp { sequence::jitter(&packets) } else { None },
    };
    Some((video, dots))
}

/// Eight frames from the middle, where the rate has settled.
fn video_excerpt(packets: &[Packet], found: &StreamFrames, batches: &[u32]) -> Vec<VideoDot> {
    const EXCERPT_FRAMES: u32 = 9;
    const MAX_DOTS: usize = 4_000;
    let begin = (found.frames.len() as u32 / 2).saturating_sub(EXCERPT_FRAMES / 2);
    let shown = begin..begin + EXCERPT_FRAMES;
    let own = packets.iter().zip(&found.of_packet).zip(batches).filter(|((_, frame), _)| shown.contains(frame));
    let mut dots: Vec<VideoDot> = Vec::new();
    let mut since = None;
    for ((packet, frame), batch) in own.take(MAX_DOTS) {
        let since = *since.get_or_insert(packet.at);
        dots.push(VideoDot { at: packet.at - since, frame: frame - begin, batch: *batch });
    }
    dots
}
