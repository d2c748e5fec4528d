//! The newer format: blocks, several interfaces each with its link type and clock resolution.

use std::io::Read;

use nearlight_units::Time;

use super::input::{Input, Shortage};
use super::{Counts, LinkType, MAX_PACKET, PacketLocation, StopReason};

/// Type of the block that begins a section; reads the same in both byte orders.
pub(super) const SECTION_BLOCK: u32 = 0x0a0d_0d0a;
const INTERFACE_BLOCK: u32 = 1;
/// Obsolete, but still met.
const PACKET_BLOCK: u32 = 2;
const SIMPLE_PACKET_BLOCK: u32 = 3;
const STATISTICS_BLOCK: u32 = 5;
const ENHANCED_PACKET_BLOCK: u32 = 6;

/// Type and length before a block's body, length behind it.
const BLOCK_FRAMING: usize = 12;
/// Interfaces of a section. Guess: no machine captures on more at once; a damaged file may claim millions.
const MAX_INTERFACES: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct Sections {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// Units of a second.
    resolution: u64,
    /// Seconds that every time lacks.
    offset: i64,
}

impl Interface {
    fn time(self, units: u64) -> Time {
        let nanos = match self.resolution {
            1_000_000 => u128::from(units) * 1_000,
            1_000_000_000 => u128::from(units),
            resolution => u128::from(units) * 1_000_000_000 / u128::from(resolution),
        };
        let nanos = i128::try_from(nanos).unwrap_or(i128::MAX).saturating_add(i128::from(self.offset) * 1_000_000_000);
        Time::from_nanos(nanos.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

impl Sections {
    pub fn record<R: Read>(&mut self, input: &mut Input<R>, counts: &mut Counts) -> Result<PacketLocation, StopReason> {
        loop {
            let begun = input.offset();
            let placed = |stop: StopReason| stop.at(begun);
            let (kind, length) = self.block(input).map_err(placed)?;
            match kind {
                ENHANCED_PACKET_BLOCK | PACKET_BLOCK => match self.packet(input, kind, length).map_err(placed)? {
                    Some(found) => return Ok(found),
                    None => counts.unplaced += 1,
                },
                INTERFACE_BLOCK => self.interface(input, length).map_err(placed)?,
                _ if kind == STATISTICS_BLOCK && length <= Input::<R>::MAX_TAKE => {
                    counts.dropped += self.drops(input, length).map_err(placed)?;
                }
                _ => {
                    counts.untimed += u64::from(kind == SIMPLE_PACKET_BLOCK);
                    input.skip(length as u64).map_err(|shortage| placed(StopReason::within(shortage, "a block")))?;
                }
            }
        }
    }

    /// The next block's type and whole length, its bytes not yet taken.
    fn block<R: Read>(&mut self, input: &mut Input<R>) -> Result<(u32, usize), StopReason> {
        let within = |shortage| StopReason::between(shortage, "a block's header");
        let head = input.peek(8).map_err(within)?;
        let section = head[..4] == SECTION_BLOCK.to_be_bytes();
        if section {
            let head = input.peek(BLOCK_FRAMING).map_err(within)?;
            self.big_endian = match u32::from_be_bytes([head[8], head[9], head[10], head[11]]) {
                0x1a2b_3c4d => true,
                0x4d3c_2b1a => false,
                other => return Err(StopReason::damaged(format!("a section's byte-order mark is {other:#010x}"))),
            };
            self.interfaces.clear();
        }
        let head = input.peek(8).map_err(within)?;
        let (kind, length) = (self.number(head, 0), self.number(head, 4));
        if length < BLOCK_FRAMING as u32 || !length.is_multiple_of(4) {
            return Err(StopReason::damaged(format!("a block has an invalid length of {length} bytes")));
        }
        Ok((if section { SECTION_BLOCK } else { kind }, length as usize))
    }

    fn interface<R: Read>(&mut self, input: &mut Input<R>, length: usize) -> Result<(), StopReason> {
        if !(BLOCK_FRAMING + 8..=Input::<R>::MAX_TAKE).contains(&length) || self.interfaces.len() >= MAX_INTERFACES {
            return Err(StopReason::damaged("an interface is described in an impossible way"));
        }
        let big_endian = self.big_endian;
        let bytes = whole(input, length, big_endian)?;
        let (mut resolution, mut offset) = (1_000_000, 0);
        options(big_endian, &bytes[16..length - 4], |code, value| match (code, value.len()) {
            (9, 1) if value[0] & 0x80 == 0 => resolution = 10_u64.saturating_pow(u32::from(value[0])),
            (9, 1) => resolution = 1_u64.checked_shl(u32::from(value[0] & 0x7f)).unwrap_or(u64::MAX),
            (14, 8) => offset = long(big_endian, value) as i64,
            _ => {}
        });
        let link = LinkType::from_number(short(big_endian, &bytes[8..]));
        self.interfaces.push(Interface { link, resolution: resolution.max(1), offset });
        Ok(())
    }

    /// The next packet; none where its block is whole but names an interface that is not described.
    fn packet<R: Read>(
        &self,
        input: &mut Input<R>,
        kind: u32,
        length: usize,
    ) -> Result<Option<PacketLocation>, StopReason> {
        const FIXED_FIELDS: usize = 28;
        if !(FIXED_FIELDS + 4..=Input::<R>::MAX_TAKE).contains(&length) {
            return Err(StopReason::damaged(format!("a packet's block claims {length} bytes")));
        }
        let big_endian = self.big_endian;
        let bytes = input.peek(FIXED_FIELDS).map_err(|shortage| StopReason::within(shortage, "a packet's block"))?;
        let place = if kind == PACKET_BLOCK {
            usize::from(short(big_endian, &bytes[8..]))
        } else {
            self.number(bytes, 8) as usize
        };
        let interface = self.interfaces.get(place).copied();
        let units = u64::from(self.number(bytes, 12)) << 32 | u64::from(self.number(bytes, 16));
        let (captured, original) = (self.number(bytes, 20), self.number(bytes, 24));
        if captured > MAX_PACKET || captured as usize > length - FIXED_FIELDS - 4 {
            return Err(StopReason::damaged(format!(
                "a packet has a length of {captured} bytes in a block of {length}"
            )));
        }
        let part = FIXED_FIELDS..FIXED_FIELDS + captured as usize;
        let behind = input.peek(length).map_err(|shortage| StopReason::within(shortage, "a packet's block"))?;
        closed(behind, big_endian)?;
        let range = input.hold(length, part).map_err(|shortage| StopReason::within(shortage, "a packet's block"))?;
        let found = |interface: Interface| PacketLocation {
            at: interface.time(units),
            length: original.max(captured),
            link: interface.link,
            range,
        };
        Ok(interface.map(found))
    }

    /// Packets dropped at an interface, for want of room or by the operating system.
    fn drops<R: Read>(&self, input: &mut Input<R>, length: usize) -> Result<u64, StopReason> {
        let big_endian = self.big_endian;
        let bytes = whole(input, length, big_endian)?;
        let mut drops = 0_u64;
        let from = 20.min(length - 4);
        options(big_endian, &bytes[from..length - 4], |code, value| {
            if matches!(code, 5 | 7) && value.len() == 8 {
                drops = drops.saturating_add(long(big_endian, value));
            }
        });
        Ok(drops)
    }

    fn number(&self, bytes: &[u8], at: usize) -> u32 {
        number(self.big_endian, &bytes[at..])
    }
}

/// A whole block, taken.
fn whole<R: Read>(input: &mut Input<R>, length: usize, big_endian: bool) -> Result<&[u8], StopReason> {
    let bytes = input.take(length).map_err(|shortage: Shortage| StopReason::within(shortage, "a block"))?;
    closed(bytes, big_endian)?;
    Ok(bytes)
}

/// A block ends with its length once more.
fn closed(block: &[u8], big_endian: bool) -> Result<(), StopReason> {
    let behind = number(big_endian, &block[block.len() - 4..]) as usize;
    if behind == block.len() {
        return Ok(());
    }
    Err(StopReason::damaged(format!("a block says {} bytes at its beginning and {behind} at its end", block.len())))
}

fn options(big_endian: bool, mut bytes: &[u8], mut each: impl FnMut(u16, &[u8])) {
    while bytes.len() >= 4 {
        let (code, length) = (short(big_endian, bytes), usize::from(short(big_endian, &bytes[2..])));
        let padded = 4 + length.next_multiple_of(4);
        if code == 0 || bytes.len() < 4 + length {
            return;
        }
        each(code, &bytes[4..4 + length]);
        bytes = bytes.get(padded..).unwrap_or_default();
    }
}

fn short(big_endian: bool, bytes: &[u8]) -> u16 {
    let bytes = [bytes[0], bytes[1]];
    if big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
}

fn number(big_endian: bool, bytes: &[u8]) -> u32 {
    let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

fn long(big_endian: bool, bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[..8]);
    if big_endian { u64::from_be_bytes(eight) } else { u64::from_le_bytes(eight) }
}
