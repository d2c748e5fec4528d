//! Groups packets into video frames: by media timestamps where they are visible, otherwise by silences.

mod periodic;

use nearlight_units::{Span, Time};
use serde::Serialize;

use crate::batches::{Burst, bursts, even_silence, silence};
use crate::distribution::Distribution;
use crate::traffic::Packet;

/// How the end of a frame is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameDetection {
    /// Packets of one RTP time are a frame; the last one has the marker.
    Timestamps,
    /// Silences that come round with the frame rate.
    Rhythm,
    /// Silences that cut the stream at even distances.
    Evenness,
    /// Any silence longer than those within a burst: a frame sent in several batches counts as several.
    Gaps,
}

impl FrameDetection {
    /// Returns words that follow "found" or "told apart".
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Timestamps => "by the times in their headers",
            Self::Rhythm => "by silences that come round with that rate",
            Self::Evenness => "by silences at even distances",
            Self::Gaps => "by any silence, so that one sent in several batches counts as several",
        }
    }
}

/// One frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub first: Time,
    pub last: Time,
    pub size: u64,
    pub packets: u32,
    /// RTP timestamp, unwrapped.
    pub ticks: i64,
    pub marked: bool,
}

/// The frames of a stream, and the index of each packet's frame.
pub(crate) struct StreamFrames {
    pub by: FrameDetection,
    pub frames: Vec<Frame>,
    pub of_packet: Vec<u32>,
}

/// Figures of a stream's frames.
#[derive(Clone, Debug, Serialize)]
pub struct Frames {
    pub found_by: FrameDetection,
    pub count: usize,
    /// Frames a second: the slope of their number over the times of their first packets, so that it does not hang on two packets.
    /// `None` for too few frames to tell.
    pub fps: Option<f64>,
    /// Frames a second on the sender's media clock, which the network does not disturb.
    pub source_fps: Option<f64>,
    /// Bytes as Ethernet frames.
    pub size_bytes: Distribution,
    pub packets: Distribution,
    /// Interval between the first packets of successive frames.
    pub interval_ms: Option<Distribution>,
    /// Time from a frame's first packet to its last.
    pub assembly_ms: Distribution,
    /// Frames of RTP whose last packet is not among those captured.
    pub without_end: usize,
}

/// Fewer frames do not determine a rate: two packets that come together would be a hundred thousand frames a second. Guess.
const MIN_FRAMES_FOR_RATE: usize = 5;

/// All video has this RTP clock (RFC 3551 section 5).
pub(crate) const VIDEO_CLOCK: f64 = 90e3;

/// Finds frames by RTP timestamps. `packets` belong to one stream, in order of time.
pub(crate) fn by_timestamps(packets: &[Packet]) -> StreamFrames {
    let mut ticks = Vec::with_capacity(packets.len());
    let mut at = 0_i64;
    for (index, packet) in packets.iter().enumerate() {
        let before = packets[index.saturating_sub(1)].timestamp;
        at += i64::from(packet.timestamp.wrapping_sub(before) as i32);
        ticks.push((at, index as u32));
    }
    ticks.sort_unstable();
    let mut frames: Vec<Frame> = Vec::new();
    let mut of_packet = vec![0; packets.len()];
    for (ticks, index) in ticks {
        let packet = &packets[index as usize];
        if frames.last().is_none_or(|frame| frame.ticks != ticks) {
            frames.push(Frame { ticks, ..Frame::new(packet) });
        } else if let Some(frame) = frames.last_mut() {
            frame.on_packet(packet);
        }
        of_packet[index as usize] = frames.len() as u32 - 1;
    }
    StreamFrames { by: FrameDetection::Timestamps, frames, of_packet }
}

/// Packets smaller than this share of a full one may be messages, sound or acknowledgements beside pictures, which are cut into equal packets. Guess.
const MIN_FULL_SHARE: f64 = 0.5;
/// A full packet is larger than this share of all. Guess: with sound and feedback beside it, video is still a tenth of the packets.
const FULL_PACKET_QUANTILE: f64 = 0.9;
/// Largest full packet in bytes: an Ethernet frame with header. Longer ones were joined by offload.
const MAX_FULL_PACKET: u32 = 1_514;
/// Small packets with more of the bytes than this may be the pictures. Guess.
const MAX_SMALL_PACKET_SHARE: f64 = 0.2;

/// Those of one encrypted stream's packets that carry its pictures: large ones, and what comes behind them without a silence.
///
/// Sound each ten milliseconds would otherwise be what comes round, and an acknowledgement would begin a frame. All packets where small
/// ones carry more than a little.
pub(crate) fn pictures(packets: Vec<Packet>) -> Vec<Packet> {
    let mut sizes: Vec<u32> = packets.iter().map(|packet| packet.size.min(MAX_FULL_PACKET)).collect();
    sizes.sort_unstable();
    let place = (sizes.len() as f64 * FULL_PACKET_QUANTILE) as usize;
    let least = sizes.get(place).map_or(0.0, |full| f64::from(*full) * MIN_FULL_SHARE);
    let is_small = |packet: &Packet| f64::from(packet.size) < least;
    let bytes = |packets: &mut dyn Iterator<Item = &Packet>| packets.map(|packet| u64::from(packet.size)).sum::<u64>();
    let small = bytes(&mut packets.iter().filter(|packet| is_small(packet)));
    if small == 0 || small as f64 > MAX_SMALL_PACKET_SHARE * bytes(&mut packets.iter()) as f64 {
        return packets;
    }
    let large: Vec<Packet> = packets.iter().filter(|packet| !is_small(packet)).copied().collect();
    let silence = silence(&large).unwrap_or(Span::ZERO);
    let mut last = None;
    let belongs = |packet: &Packet| {
        let behind = last.is_some_and(|last| packet.at - last <= silence);
        if !is_small(packet) {
            last = Some(packet.at);
        }
        behind || !is_small(packet)
    };
    packets.iter().copied().filter(belongs).collect()
}

/// Finds frames by silences. `packets` belong to one stream, in order of time.
pub(crate) fn by_silences(packets: &[Packet]) -> StreamFrames {
    let mut bursts = bursts(packets, silence(packets));
    let (by, begins) = if let Some(begins) = periodic::frame_starts(&bursts) {
        (FrameDetection::Rhythm, begins)
    } else if let Some(silence) = even_silence(packets) {
        bursts = self::bursts(packets, Some(silence));
        (FrameDetection::Evenness, vec![true; bursts.len()])
    } else {
        (FrameDetection::Gaps, vec![true; bursts.len()])
    };
    let mut frames: Vec<Frame> = Vec::new();
    let mut of_packet = Vec::with_capacity(packets.len());
    for (Burst { packets: range, .. }, begins) in bursts.iter().zip(begins) {
        for packet in &packets[range.clone()] {
            let fresh = frames.is_empty() || begins && of_packet.len() == range.start;
            if fresh {
                frames.push(Frame::new(packet));
            } else if let Some(frame) = frames.last_mut() {
                frame.on_packet(packet);
            }
            of_packet.push(frames.len() as u32 - 1);
        }
    }
    StreamFrames { by, frames, of_packet }
}

impl Frames {
    /// Returns words that follow "frames at".
    pub(crate) fn rate_in_words(&self) -> String {
        self.fps.map_or_else(|| "a rate that they do not tell".to_owned(), |fps| format!("{fps:.2} fps"))
    }
}

impl Frame {
    fn new(packet: &Packet) -> Self {
        Self {
            first: packet.at,
            last: packet.at,
            size: u64::from(packet.size),
            packets: 1,
            ticks: 0,
            marked: packet.marker,
        }
    }

    fn on_packet(&mut self, packet: &Packet) {
        self.first = self.first.min(packet.at);
        self.last = self.last.max(packet.at);
        self.size += u64::from(packet.size);
        self.packets += 1;
        self.marked |= packet.marker;
    }
}

impl StreamFrames {
    /// Computes the frame rate by least squares. None if all frames have the same time, or are too few.
    fn rate(&self) -> Option<f64> {
        if self.frames.len() < MIN_FRAMES_FOR_RATE {
            return None;
        }
        let origin = self.frames.first()?.first;
        let since = |frame: &Frame| (frame.first - origin).as_secs_f64();
        let count = self.frames.len() as f64;
        let middle = self.frames.iter().map(since).sum::<f64>() / count;
        let (mut both, mut square) = (0.0, 0.0);
        for (number, frame) in self.frames.iter().enumerate() {
            let away = since(frame) - middle;
            both += away * (number as f64 - (count - 1.0) / 2.0);
            square += away * away;
        }
        // A clock that was set back makes time run backwards.
        (square > 0.0).then(|| both / square).filter(|rate| *rate > 0.0)
    }

    /// `None` for no frames.
    pub fn figures(&self) -> Option<Frames> {
        let (first, last) = (self.frames.first()?, self.frames.last()?);
        let steps = (self.frames.len() - 1) as f64;
        let reported = self.frames.len() >= MIN_FRAMES_FOR_RATE;
        let rate = |span: f64| (reported && span > 0.0).then(|| steps / span);
        let by_timestamps = self.by == FrameDetection::Timestamps;
        let assembly = |frame: &Frame| frame.last.saturating_since(frame.first);
        let intervals = self.frames.windows(2).map(|pair| pair[1].first - pair[0].first);
        Some(Frames {
            found_by: self.by,
            count: self.frames.len(),
            fps: self.rate(),
            source_fps: rate((last.ticks - first.ticks) as f64 / VIDEO_CLOCK).filter(|_| by_timestamps),
            size_bytes: Distribution::of(self.frames.iter().map(|frame| frame.size as f64))?,
            packets: Distribution::of(self.frames.iter().map(|frame| f64::from(frame.packets)))?,
            interval_ms: Distribution::of_spans(intervals),
            assembly_ms: Distribution::of_spans(self.frames.iter().map(assembly))?,
            without_end: self.frames.iter().filter(|frame| by_timestamps && !frame.marked).count(),
        })
    }
}
