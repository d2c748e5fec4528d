//! A parser of the references in slice headers. OpenH264 does not report which frame it predicted from and which it keeps.

use super::bitstream::{BitReader, KEY_SLICE, SLICE, Sequence, nal_units, without_emulation_prevention};

/// Bytes of a slice that are read. The header is far shorter.
const MAX_SLICE_HEADER_BYTES: usize = 64;
/// Commands of either list in one header. OpenH264 writes at most three.
const MAX_MARKING_COMMANDS: u32 = 8;

/// A picture that a frame refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferencePicture {
    /// A short-term reference, this many frame numbers back.
    Short(u32),
    /// A long-term reference by its index.
    Long(u8),
}

/// A picture that the decoder must keep as a long-term reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongTermMarking {
    /// The current picture, under this index.
    Current(u8),
    /// The picture this many frame numbers back, under this index.
    Earlier(u32, u8),
}

/// The header of a frame's first slice. All slices of a frame agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub frame_number: u16,
    /// The number of a key frame (`idr_pic_id`); none for other frames.
    pub key_number: Option<u16>,
    /// The first picture of the reference list; none in a key frame.
    pub referred: Option<ReferencePicture>,
    pub mark: Option<LongTermMarking>,
}

/// Parses the first slice header (ITU-T H.264 section 7.3.3) of a frame that OpenH264 has encoded with the features in use here. Returns
/// none for anything else.
pub fn first_slice(bits: &[u8], sequence: Sequence) -> Option<Slice> {
    let nal =
        nal_units(bits).find(|nal| nal.first().is_some_and(|header| matches!(header & 0x1F, SLICE | KEY_SLICE)))?;
    let (header, payload) = nal.split_first()?;
    let bytes = without_emulation_prevention(&payload[..payload.len().min(MAX_SLICE_HEADER_BYTES)]);
    let mut reader = BitReader { bytes: &bytes, position: 0 };
    reader.unsigned()?; // first_mb_in_slice
    reader.unsigned()?; // slice_type
    reader.unsigned()?; // pic_parameter_set_id
    let frame_number = reader.bits(sequence.frame_number_bits)? as u16;
    let (mut key_number, mut referred, mut mark) = (None, None, None);
    if header & 0x1F == KEY_SLICE {
        key_number = Some(u16::try_from(reader.unsigned()?).ok()?); // idr_pic_id
        reader.bit()?; // no_output_of_prior_pics_flag
        mark = reader.bit()?.then_some(LongTermMarking::Current(0)); // long_term_reference_flag
    } else {
        if reader.bit()? {
            reader.unsigned()?; // num_ref_idx_l0_active_minus1
        }
        referred = Some(if reader.bit()? { first_referred(&mut reader)? } else { ReferencePicture::Short(1) });
        if header >> 5 & 3 > 0 && reader.bit()? {
            marking(&mut reader, &mut mark)?;
        }
    }
    Some(Slice { frame_number, key_number, referred, mark })
}

/// Parses `ref_pic_list_modification` (section 7.3.3.1).
fn first_referred(reader: &mut BitReader<'_>) -> Option<ReferencePicture> {
    let mut first = None;
    for _ in 0..MAX_MARKING_COMMANDS {
        let referred = match reader.unsigned()? {
            0 => ReferencePicture::Short(reader.unsigned()?.checked_add(1)?),
            2 => ReferencePicture::Long(u8::try_from(reader.unsigned()?).ok()?),
            3 => return first,
            _ => return None,
        };
        first.get_or_insert(referred);
    }
    None
}

/// Parses the commands of `dec_ref_pic_marking` (section 7.3.3.3).
fn marking(reader: &mut BitReader<'_>, mark: &mut Option<LongTermMarking>) -> Option<()> {
    for _ in 0..MAX_MARKING_COMMANDS {
        match reader.unsigned()? {
            0 => return Some(()),
            1 | 2 | 4 => {
                reader.unsigned()?;
            }
            3 => {
                let back = reader.unsigned()?.checked_add(1)?;
                *mark = Some(LongTermMarking::Earlier(back, u8::try_from(reader.unsigned()?).ok()?));
            }
            6 => *mark = Some(LongTermMarking::Current(u8::try_from(reader.unsigned()?).ok()?)),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    /// Returns a NAL unit of these bits, padded with zeros.
    fn nal(header: u8, bits: &str) -> Vec<u8> {
        let mut bytes = vec![0, 0, 1, header];
        for eight in bits.replace(' ', "").as_bytes().chunks(8) {
            bytes.push(eight.iter().enumerate().fold(0, |byte, (at, bit)| byte | (bit - b'0') << (7 - at)));
        }
        bytes
    }

    #[test]
    fn headers_written_by_hand_are_read() {
        let sequence = Sequence {
            profile: 66,
            constraints: 0xC0,
            level: 42,
            size: Size { width: 16, height: 16 },
            frame_number_bits: 4,
        };
        let slice = |frame_number, key_number, referred, mark| Some(Slice { frame_number, key_number, referred, mark });
        let short = |back| Some(ReferencePicture::Short(back));
        let cases = [
            (
                "key frame that is kept",
                0x65,
                "1 011 1 0000 010 0 1",
                slice(0, Some(1), None, Some(LongTermMarking::Current(0))),
            ),
            ("key frame that is not", 0x65, "1 011 1 0000 1 0 0", slice(0, Some(0), None, None)),
            ("plain", 0x61, "1 1 1 0011 0 0 0", slice(3, None, short(1), None)),
            ("the frame before the last", 0x61, "1 1 1 0011 0 1 1 010 00100 0", slice(3, None, short(2), None)),
            (
                "a kept frame",
                0x61,
                "1 1 1 1111 1 1 1 011 010 00100 0",
                slice(15, None, Some(ReferencePicture::Long(1)), None),
            ),
            (
                "kept itself",
                0x61,
                "1 1 1 0100 0 1 1 1 00100 1 00101 011 010 1 00111 010 1",
                slice(4, None, short(1), Some(LongTermMarking::Current(1))),
            ),
            (
                "keeps the frame before",
                0x61,
                "1 1 1 0100 0 1 1 1 00100 1 00100 1 1 1",
                slice(4, None, short(1), Some(LongTermMarking::Earlier(1, 0))),
            ),
            ("not used as a reference", 0x01, "1 1 1 0100 0 1 1 1 00100", slice(4, None, short(1), None)),
            ("cut short", 0x61, "1 1 1 01", None),
            ("no end of the list", 0x61, "1 1 1 0100 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", None),
        ];
        for (name, header, bits, wanted) in cases {
            assert_eq!(first_slice(&nal(header, bits), sequence), wanted, "{name}");
        }
    }
}
