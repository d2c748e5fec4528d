//! What the header of a slice says about references: OpenH264 does not otherwise report what it predicted from and what it keeps.

use super::bitstream::{BitReader, KEY_SLICE, SLICE, Sequence, nal_units, without_emulation_prevention};

/// Bytes of a slice that are read: its header is far shorter.
const LONGEST_HEADER: usize = 64;
/// Commands of either list in one header; OpenH264 writes three at most.
const MOST_COMMANDS: u32 = 8;

/// A picture that a frame refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referred {
    /// This many frame numbers back.
    Short(u32),
    /// A long-term reference by its index.
    Long(u8),
}

/// A picture that the decoder is told to keep, as the long-term reference with this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Itself(u8),
    /// The picture this many frame numbers back.
    Earlier(u32, u8),
}

/// The header of a frame's first slice; all slices of a frame agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub frame_number: u16,
    /// Of a key frame.
    pub key_number: Option<u16>,
    /// The first of the list; none in a key frame.
    pub referred: Option<Referred>,
    pub mark: Option<Mark>,
}

/// Reads the first slice (ITU-T H.264 section 7.3.3) of a frame that OpenH264 encoded with the features that we use: none where it is
/// anything else.
pub fn first_slice(bits: &[u8], sequence: Sequence) -> Option<Slice> {
    let nal =
        nal_units(bits).find(|nal| nal.first().is_some_and(|header| matches!(header & 0x1F, SLICE | KEY_SLICE)))?;
    let (header, payload) = nal.split_first()?;
    let bytes = without_emulation_prevention(&payload[..payload.len().min(LONGEST_HEADER)]);
    let mut reader = BitReader { bytes: &bytes, position: 0 };
    reader.unsigned()?; // first_mb_in_slice
    reader.unsigned()?; // slice_type
    reader.unsigned()?; // pic_parameter_set_id
    let frame_number = reader.bits(sequence.frame_number_bits)? as u16;
    let (mut key_number, mut referred, mut mark) = (None, None, None);
    if header & 0x1F == KEY_SLICE {
        key_number = Some(u16::try_from(reader.unsigned()?).ok()?); // idr_pic_id
        reader.bit()?; // no_output_of_prior_pics_flag
        mark = reader.bit()?.then_some(Mark::Itself(0)); // long_term_reference_flag
    } else {
        if reader.bit()? {
            reader.unsigned()?; // num_ref_idx_l0_active_minus1
        }
        referred = Some(if reader.bit()? { first_referred(&mut reader)? } else { Referred::Short(1) });
        if header >> 5 & 3 > 0 && reader.bit()? {
            marking(&mut reader, &mut mark)?;
        }
    }
    Some(Slice { frame_number, key_number, referred, mark })
}

/// Reads `ref_pic_list_modification` (section 7.3.3.1).
fn first_referred(reader: &mut BitReader<'_>) -> Option<Referred> {
    let mut first = None;
    for _ in 0..MOST_COMMANDS {
        let referred = match reader.unsigned()? {
            0 => Referred::Short(reader.unsigned()?.checked_add(1)?),
            2 => Referred::Long(u8::try_from(reader.unsigned()?).ok()?),
            3 => return first,
            _ => return None,
        };
        first.get_or_insert(referred);
    }
    None
}

/// Reads the commands of `dec_ref_pic_marking` (section 7.3.3.3).
fn marking(reader: &mut BitReader<'_>, mark: &mut Option<Mark>) -> Option<()> {
    for _ in 0..MOST_COMMANDS {
        match reader.unsigned()? {
            0 => return Some(()),
            1 | 2 | 4 => {
                reader.unsigned()?;
            }
            3 => {
                let back = reader.unsigned()?.checked_add(1)?;
                *mark = Some(Mark::Earlier(back, u8::try_from(reader.unsigned()?).ok()?));
            }
            6 => *mark = Some(Mark::Itself(u8::try_from(reader.unsigned()?).ok()?)),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    /// A NAL unit of these bits, filled up with zeros.
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
        let short = |back| Some(Referred::Short(back));
        let cases = [
            ("key frame that is kept", 0x65, "1 011 1 0000 010 0 1", slice(0, Some(1), None, Some(Mark::Itself(0)))),
            ("key frame that is not", 0x65, "1 011 1 0000 1 0 0", slice(0, Some(0), None, None)),
            ("plain", 0x61, "1 1 1 0011 0 0 0", slice(3, None, short(1), None)),
            ("the frame before the last", 0x61, "1 1 1 0011 0 1 1 010 00100 0", slice(3, None, short(2), None)),
            ("a kept frame", 0x61, "1 1 1 1111 1 1 1 011 010 00100 0", slice(15, None, Some(Referred::Long(1)), None)),
            (
                "kept itself",
                0x61,
                "1 1 1 0100 0 1 1 1 00100 1 00101 011 010 1 00111 010 1",
                slice(4, None, short(1), Some(Mark::Itself(1))),
            ),
            (
                "keeps the frame before",
                0x61,
                "1 1 1 0100 0 1 1 1 00100 1 00100 1 1 1",
                slice(4, None, short(1), Some(Mark::Earlier(1, 0))),
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
