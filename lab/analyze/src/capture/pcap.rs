//! The classic format: one link type, one clock resolution.

use std::io::Read;

use nearlight_units::Time;

use super::input::Input;
use super::{Counts, LinkType, MAX_PACKET, PacketLocation, StopReason};

pub(super) const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// The meaning of the first four bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PcapFormat {
    big_endian: bool,
    /// Nanoseconds of one unit of the fraction.
    unit: u32,
}

impl PcapFormat {
    pub fn of(magic: [u8; 4]) -> Option<Self> {
        let (micro, nano) = (0xa1b2_c3d4, 0xa1b2_3c4d);
        let form = |big_endian, unit| Some(Self { big_endian, unit });
        match (u32::from_be_bytes(magic), u32::from_le_bytes(magic)) {
            (number, _) if number == micro => form(true, 1_000),
            (number, _) if number == nano => form(true, 1),
            (_, number) if number == micro => form(false, 1_000),
            (_, number) if number == nano => form(false, 1),
            _ => None,
        }
    }

    fn number(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

#[derive(Debug)]
pub(super) struct Header {
    form: PcapFormat,
    link: LinkType,
}

impl Header {
    pub fn parse(form: PcapFormat, bytes: &[u8]) -> Self {
        // The upper half of the field says whether frames end with a checksum, which is not read here.
        Self { form, link: LinkType::from_number(form.number(bytes, 20) as u16) }
    }

    pub fn record<R: Read>(&self, input: &mut Input<R>, counts: &mut Counts) -> Result<PacketLocation, StopReason> {
        loop {
            match self.next(input)? {
                Some(found) => return Ok(found),
                None => counts.unplaced += 1,
            }
        }
    }

    /// The next record; none where it is whole but has an impossible time.
    fn next<R: Read>(&self, input: &mut Input<R>) -> Result<Option<PacketLocation>, StopReason> {
        let begun = input.offset();
        let placed = |stop: StopReason| stop.at(begun);
        let bytes =
            input.peek(RECORD_HEADER).map_err(|shortage| placed(StopReason::between(shortage, "a packet's header")))?;
        let [seconds, fraction, captured, length] = [0, 4, 8, 12].map(|at| self.form.number(bytes, at));
        // Space that a file system gave to the file and that was never written, as after a crash.
        if [seconds, fraction, captured, length] == [0; 4] {
            return Err(placed(StopReason::damaged("zeros where a packet's header should be")));
        }
        if captured > MAX_PACKET {
            return Err(placed(StopReason::damaged(format!(
                "a packet has a length of {captured} bytes, above the limit of {MAX_PACKET}"
            ))));
        }
        let nanos = u64::from(fraction) * u64::from(self.form.unit);
        let whole = RECORD_HEADER + captured as usize;
        let range = input
            .hold(whole, RECORD_HEADER..whole)
            .map_err(|shortage| placed(StopReason::within(shortage, "a packet")))?;
        if nanos >= 1_000_000_000 {
            return Ok(None);
        }
        let at = Time::from_nanos(u64::from(seconds) * 1_000_000_000 + nanos);
        Ok(Some(PacketLocation { at, length: length.max(captured), link: self.link, range }))
    }
}
