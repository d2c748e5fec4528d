//! Splits encoded pictures into RTP payloads: H.264 by RFC 6184 (packetization mode 1), VP8 by RFC 7741.

use crate::CodecKind;

/// NAL unit types of H.264 table 7-1 and RFC 6184 table 1.
const ACCESS_UNIT_DELIMITER: u8 = 9;
const FILLER: u8 = 12;
const AGGREGATE: u8 = 24;
const FRAGMENT: u8 = 28;
const TYPE_MASK: u8 = 0x1f;
/// Mask of the forbidden bit and the importance (`nal_ref_idc`).
const IMPORTANCE_MASK: u8 = 0xe0;

/// Bytes of VP8's descriptor: extension byte, picture identifier of two bytes.
const VP8_DESCRIPTOR: usize = 4;

/// Returns a depacketizer, which reassembles payloads of a picture.
#[cfg(any(test, feature = "player"))]
pub(crate) fn depacketizer(codec: CodecKind) -> Box<dyn rtc::rtp::packetizer::Depacketizer> {
    match codec {
        CodecKind::H264 => Box::new(rtc::rtp::codec::h264::H264Packet::default()),
        CodecKind::Vp8 => Box::new(rtc::rtp::codec::vp8::Vp8Packet::default()),
    }
}

/// A picture split for RTP: all payloads concatenated, and where each ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Payloads {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<u32>,
}

impl Payloads {
    /// Splits an encoded picture into payloads of at most `most` bytes, of nearly equal size if it must be fragmented. Pictures are
    /// numbered by `picture` (only VP8 transmits it). An empty picture yields one empty payload.
    pub(crate) fn cut(codec: CodecKind, picture: u16, bits: &[u8], most: usize) -> Self {
        let mut payloads = Self { bytes: Vec::with_capacity(bits.len() + bits.len() / 64 + 64), ends: Vec::new() };
        match codec {
            CodecKind::H264 => payloads.cut_h264(bits, most),
            CodecKind::Vp8 => payloads.cut_vp8(picture, bits, most),
        }
        if payloads.ends.is_empty() {
            payloads.end();
        }
        payloads
    }

    fn end(&mut self) {
        self.ends.push(self.bytes.len() as u32);
    }

    fn cut_vp8(&mut self, picture: u16, bits: &[u8], most: usize) {
        let [high, low] = picture.to_be_bytes();
        let mut start = 0x10;
        for part in split_evenly(bits, most.saturating_sub(VP8_DESCRIPTOR)) {
            self.bytes.extend_from_slice(&[0x80 | start, 0x80, 0x80 | high, low]);
            self.bytes.extend_from_slice(part);
            self.end();
            start = 0;
        }
    }

    fn cut_h264(&mut self, bits: &[u8], most: usize) {
        let mut together: Vec<&[u8]> = Vec::new();
        let mut size = 1;
        for unit in units(bits).filter(|unit| !matches!(unit[0] & TYPE_MASK, ACCESS_UNIT_DELIMITER | FILLER)) {
            let fits = size + 2 + unit.len() <= most && u16::try_from(unit.len()).is_ok();
            if !fits {
                self.flush(&mut together);
                size = 1;
            }
            if unit.len() > most {
                self.fragment(unit, most);
            } else {
                size += 2 + unit.len();
                together.push(unit);
            }
        }
        self.flush(&mut together);
    }

    fn flush(&mut self, together: &mut Vec<&[u8]>) {
        match together[..] {
            [] => return,
            [unit] => self.bytes.extend_from_slice(unit),
            _ => {
                let importance = together.iter().map(|unit| unit[0] & IMPORTANCE_MASK).max().unwrap_or(0);
                self.bytes.push(importance | AGGREGATE);
                for unit in together.iter() {
                    self.bytes.extend_from_slice(&(unit.len() as u16).to_be_bytes());
                    self.bytes.extend_from_slice(unit);
                }
            }
        }
        together.clear();
        self.end();
    }

    fn fragment(&mut self, unit: &[u8], most: usize) {
        let (head, body) = (unit[0], &unit[1..]);
        let mut left = body.len();
        for part in split_evenly(body, most.saturating_sub(2)) {
            let (first, last) = (left == body.len(), left == part.len());
            left -= part.len();
            let place = if first { 0x80 } else { 0 } | if last { 0x40 } else { 0 };
            self.bytes.extend_from_slice(&[(head & IMPORTANCE_MASK) | FRAGMENT, place | (head & TYPE_MASK)]);
            self.bytes.extend_from_slice(part);
            self.end();
        }
    }
}

/// Splits bytes into as few parts as fit, of nearly equal size: a short last packet would cost as much as a full one.
fn split_evenly(bytes: &[u8], most: usize) -> impl Iterator<Item = &[u8]> {
    let parts = bytes.len().div_ceil(most.max(1));
    (0..parts).map(move |part| &bytes[bytes.len() * part / parts..bytes.len() * (part + 1) / parts])
}

/// Splits H.264 annex B into the NAL units between the start codes.
fn units(bits: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = after_start_code(bits);
    std::iter::from_fn(move || {
        let unit = rest?;
        let end = unit.windows(3).position(|bytes| bytes == [0, 0, 1]);
        rest = end.map(|end| &unit[end + 3..]);
        Some(&unit[..end.unwrap_or(unit.len())])
    })
    // Zeros before a start code of four bytes and after a unit are not part of it.
    .map(|unit| &unit[..unit.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)])
    .filter(|unit| !unit.is_empty())
}

fn after_start_code(bits: &[u8]) -> Option<&[u8]> {
    let start = bits.windows(3).position(|bytes| bytes == [0, 0, 1])?;
    Some(&bits[start + 3..])
}

#[cfg(test)]
mod tests;
