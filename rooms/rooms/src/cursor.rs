//! Bounded reading and writing of the integers in `docs/wire.md`, section "Rooms".

use crate::MessageError;

/// Bytes of the longest 64-bit number in LEB128.
const MAX_VARINT_BYTES: usize = 10;

pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], MessageError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(MessageError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Returns the bytes that have not been read.
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(MessageError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, MessageError> {
        let (first, rest) = self.rest.split_first().ok_or(MessageError::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, MessageError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, MessageError> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, MessageError> {
        let mut value = 0;
        for place in 0..MAX_VARINT_BYTES {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            // Only one bit of the tenth byte fits into 64 bits.
            if place == MAX_VARINT_BYTES - 1 && bits > 1 {
                break;
            }
            value |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(MessageError::Field("varint"))
    }

    pub(crate) fn varint32(&mut self, field: &'static str) -> Result<u32, MessageError> {
        u32::try_from(self.varint()?).map_err(|_| MessageError::Field(field))
    }

    /// Reads a count of items, at most `most`.
    pub(crate) fn count(&mut self, most: usize, field: &'static str) -> Result<usize, MessageError> {
        let count = self.varint()?;
        if count <= most as u64 { Ok(count as usize) } else { Err(MessageError::Field(field)) }
    }

    /// Reads a signed number in zigzag coding.
    #[inline]
    pub(crate) fn signed(&mut self, field: &'static str) -> Result<i32, MessageError> {
        let value = u32::try_from(self.varint()?).map_err(|_| MessageError::Field(field))?;
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// Reads a length, at most `most`, and as many bytes.
    pub(crate) fn bytes(&mut self, most: usize, field: &'static str) -> Result<&'a [u8], MessageError> {
        let count = self.count(most, field)?;
        self.take(count)
    }

    /// Reads a length in bytes, at most `most`, and as much UTF-8 without control characters.
    pub(crate) fn text(&mut self, most: usize, field: &'static str) -> Result<&'a str, MessageError> {
        let bytes = self.bytes(most, field)?;
        let text = std::str::from_utf8(bytes).map_err(|_| MessageError::Field(field))?;
        if text.chars().any(char::is_control) { Err(MessageError::Field(field)) } else { Ok(text) }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) const fn finish(&self) -> Result<(), MessageError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(MessageError::Trailing(left)),
        }
    }
}

#[inline]
pub(crate) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub(crate) fn write_signed(out: &mut Vec<u8>, value: i32) {
    write_varint(out, u64::from((value << 1) as u32 ^ (value >> 31) as u32));
}

pub(crate) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
