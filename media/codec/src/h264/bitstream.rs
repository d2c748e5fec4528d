//! A parser of as much H.264 syntax as is needed to know, before a frame is decoded, what the decoder would do.

use crate::{CodecError, Size};

const CODEC: &str = "H.264";

/// NAL unit types (ITU-T H.264 table 7-1) of the streams of ordinary encoders.
pub const SLICE: u8 = 1;
pub const KEY_SLICE: u8 = 5;
const SUPPLEMENTAL: u8 = 6;
const SEQUENCE_PARAMETERS: u8 = 7;
const PICTURE_PARAMETERS: u8 = 8;
const DELIMITER: u8 = 9;
const FILLER: u8 = 12;

/// Bytes of sequence parameters that are read. A set with every optional part of the supported profiles is far shorter.
const MAX_PARAMETER_SET_BYTES: usize = 256;

/// Reference pictures of a stream, each of which costs the decoder a picture's memory. Guess: four times what a low-delay stream needs.
const MAX_REFERENCE_FRAMES: u32 = 4;

/// The contents of an access unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessUnit {
    /// Whether it has at least one slice, so that it decodes to a picture.
    pub picture: bool,
    /// Whether all its slices belong to a key frame.
    pub key: bool,
    pub sequence: Option<Sequence>,
}

/// The contents of sequence parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub profile: u8,
    /// The constraint flags, most significant bit first.
    pub constraints: u8,
    pub level: u8,
    /// Size before cropping.
    pub size: Size,
    /// Number of bits of a frame number, 4 to 16.
    pub frame_number_bits: u32,
}

impl Sequence {
    /// Returns WebCodecs' codec string of the stream (RFC 6381 section 3.3).
    #[cfg(test)]
    pub fn codec_string(self) -> String {
        format!("avc1.{:02X}{:02X}{:02X}", self.profile, self.constraints, self.level)
    }
}

/// Inspects the NAL units of an access unit in Annex B format.
///
/// Rejects unit types of scalable or multi-view coding, which would reach parts of the decoder that Nearlight's streams do not need.
/// Rejects sequence parameters that do not parse or whose size exceeds [`crate::MAX_SIDE`].
pub fn inspect(bits: &[u8]) -> Result<AccessUnit, CodecError> {
    let mut unit = AccessUnit { key: true, ..AccessUnit::default() };
    for nal in nal_units(bits) {
        let Some((header, payload)) = nal.split_first() else { continue };
        match header & 0x1F {
            SLICE => (unit.picture, unit.key) = (true, false),
            KEY_SLICE => unit.picture = true,
            SEQUENCE_PARAMETERS => {
                let sequence = parse_sequence(payload).ok_or_else(|| refused("sequence parameters do not parse"))?;
                sequence.size.check()?;
                unit.sequence = Some(sequence);
            }
            SUPPLEMENTAL | PICTURE_PARAMETERS | DELIMITER | FILLER => {}
            _ => return Err(refused("a NAL unit of an unexpected type")),
        }
    }
    unit.key &= unit.picture;
    Ok(unit)
}

pub fn refused(reason: &str) -> CodecError {
    CodecError::Bits { codec: CODEC, reason: reason.to_owned() }
}

/// Returns the NAL units, which are the bytes between start codes.
pub fn nal_units(bits: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = after_start_code(bits);
    std::iter::from_fn(move || {
        let current = rest?;
        rest = after_start_code(current);
        let length = rest.map_or(current.len(), |rest| current.len() - rest.len() - 3);
        Some(&current[..length])
    })
}

fn after_start_code(bits: &[u8]) -> Option<&[u8]> {
    let mut from = 0;
    // A start code is a 1 after two zeros. Looking for the 1 first skips three bytes at a time.
    while let Some(byte) = bits.get(from + 2) {
        match byte {
            0 => from += 1,
            1 if bits[from] == 0 && bits[from + 1] == 0 => return Some(&bits[from + 3..]),
            _ => from += 3,
        }
    }
    None
}

/// Parses sequence parameters (section 7.3.2.1.1) up to the picture's size. Returns none if they end early or are out of range.
fn parse_sequence(payload: &[u8]) -> Option<Sequence> {
    let bytes = without_emulation_prevention(payload);
    let [profile, constraints, level, rest @ ..] = bytes.as_slice() else { return None };
    let mut reader = BitReader { bytes: rest, position: 0 };
    reader.unsigned()?; // seq_parameter_set_id
    if matches!(profile, 44 | 83 | 86 | 100 | 110 | 118 | 122 | 128 | 134 | 135 | 138 | 139 | 244) {
        skip_high_profile_fields(&mut reader)?;
    }
    let frame_number_bits = reader.unsigned()?.checked_add(4).filter(|bits| *bits <= 16)?;
    match reader.unsigned()? {
        0 => {
            reader.unsigned()?; // log2_max_pic_order_cnt_lsb_minus4
        }
        1 => {
            reader.bit()?; // delta_pic_order_always_zero_flag
            reader.unsigned()?; // offset_for_non_ref_pic
            reader.unsigned()?; // offset_for_top_to_bottom_field
            let cycle = reader.unsigned()?;
            if cycle > 255 {
                return None;
            }
            for _ in 0..cycle {
                reader.unsigned()?;
            }
        }
        2 => {}
        _ => return None,
    }
    if reader.unsigned()? > MAX_REFERENCE_FRAMES {
        return None; // max_num_ref_frames
    }
    reader.bit()?; // gaps_in_frame_num_value_allowed_flag
    let columns = reader.unsigned()?.checked_add(1)?;
    let rows = reader.unsigned()?.checked_add(1)?;
    let frames_only = reader.bit()?;
    let rows = if frames_only { rows } else { rows.checked_mul(2)? };
    let size = Size { width: pixels(columns)?, height: pixels(rows)? };
    Some(Sequence { profile: *profile, constraints: *constraints, level: *level, size, frame_number_bits })
}

fn pixels(macroblocks: u32) -> Option<u16> {
    u16::try_from(macroblocks.checked_mul(16)?).ok()
}

/// Skips the fields that only high profiles have. Returns none if they contain something unsupported.
fn skip_high_profile_fields(reader: &mut BitReader<'_>) -> Option<()> {
    let chroma_format = reader.unsigned()?;
    let (luma_depth, chroma_depth) = (reader.unsigned()?, reader.unsigned()?);
    let (bypass, scaling_matrix) = (reader.bit()?, reader.bit()?);
    (chroma_format == 1 && luma_depth == 0 && chroma_depth == 0 && !bypass && !scaling_matrix).then_some(())
}

/// Removes each emulation prevention byte: a 3 after two zeros, which keeps them from looking like a start code (section 7.4.1.1).
pub fn without_emulation_prevention(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut zeros = 0;
    for byte in payload.iter().take(MAX_PARAMETER_SET_BYTES) {
        if zeros >= 2 && *byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if *byte == 0 { zeros + 1 } else { 0 };
        bytes.push(*byte);
    }
    bytes
}

pub struct BitReader<'a> {
    pub bytes: &'a [u8],
    pub position: usize,
}

impl BitReader<'_> {
    pub fn bit(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.position / 8)?;
        let bit = byte >> (7 - self.position % 8) & 1;
        self.position += 1;
        Some(bit == 1)
    }

    /// Reads up to 32 bits as a number.
    pub fn bits(&mut self, count: u32) -> Option<u32> {
        (0..count).try_fold(0, |value, _| Some(value << 1 | u32::from(self.bit()?)))
    }

    /// Reads an Exp-Golomb number (section 9.1). Signed ones have the same length.
    pub fn unsigned(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.bit()? {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        let mut value = 1u64;
        for _ in 0..zeros {
            value = value << 1 | u64::from(self.bit()?);
        }
        u32::try_from(value - 1).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by hand: baseline profile, level 1.1, 11 by 9 macroblocks (176x144).
    const QCIF: [u8; 11] = [0, 0, 0, 1, 0x67, 66, 0xC0, 11, 0b1111_0110, 0b0001_0110, 0b0010_0111];

    #[test]
    fn a_known_sequence_parses() {
        let unit = inspect(&QCIF).unwrap();
        let sequence = unit.sequence.unwrap();
        assert_eq!(sequence.size, Size { width: 176, height: 144 });
        assert_eq!(sequence.codec_string(), "avc1.42C00B");
        assert!(!unit.picture && !unit.key);
    }

    /// Name, bits, and whether they hold a picture and a key frame, or none if they are rejected.
    type Case<'a> = (&'a str, &'a [u8], Option<(bool, bool)>);

    #[test]
    fn units_are_distinguished() {
        let cases: [Case<'_>; 8] = [
            ("nothing", &[], Some((false, false))),
            ("no start code", &[1, 2, 3, 4], Some((false, false))),
            ("start code at the end", &[0, 0, 1], Some((false, false))),
            ("a slice", &[0, 0, 1, 0x41, 9], Some((true, false))),
            ("a key slice", &[0, 0, 0, 1, 0x65, 9], Some((true, true))),
            ("both", &[0, 0, 1, 0x65, 9, 0, 0, 1, 0x41, 9], Some((true, false))),
            ("scalable", &[0, 0, 1, 0x74, 9], None),
            ("sequence cut short", &QCIF[..9], None),
        ];
        for (name, bits, wanted) in cases {
            let got = inspect(bits).ok().map(|unit| (unit.picture, unit.key));
            assert_eq!(got, wanted, "{name}");
        }
    }

    #[test]
    fn emulation_prevention_is_undone() {
        assert_eq!(without_emulation_prevention(&[0, 0, 3, 1, 0, 0, 3, 3, 3]), [0, 0, 1, 0, 0, 3, 3]);
    }

    #[test]
    fn start_codes_are_found_at_every_offset() {
        for offset in 0..8 {
            let mut bits = vec![7; offset];
            bits.extend([0, 0, 1, 0x65]);
            assert_eq!(nal_units(&bits).collect::<Vec<_>>(), [&[0x65]], "offset {offset}");
        }
    }
}
