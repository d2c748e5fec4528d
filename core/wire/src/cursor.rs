//! Big-endian reading with bounds checks, and the variable-length integers of `docs/wire.md`.

use nearlight_units::RemoteTime;

use crate::{PROTOCOL_VERSION, WireError};

/// Maximum of a time in microseconds, 285 years: exact in a browser's numbers, and far below the overflow of nanoseconds in 64 bits.
const MAX_MICROS: u64 = 1 << 53;

pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let left = &self.bytes[self.position..];
        if left.len() < count {
            return Err(WireError::Truncated { need: self.position + count, have: self.bytes.len() });
        }
        self.position += count;
        Ok(&left[..count])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a fraction, -32,767 to 32,767, which represents -1 to 1.
    pub(crate) fn fraction(&mut self) -> Result<i16, WireError> {
        let value = self.array().map(i16::from_be_bytes)?;
        if value == i16::MIN { Err(WireError::Field("fraction")) } else { Ok(value) }
    }

    pub(crate) fn i32(&mut self) -> Result<i32, WireError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads a byte below `end`.
    pub(crate) fn bounded(&mut self, end: usize, field: &'static str) -> Result<u8, WireError> {
        let value = self.u8()?;
        if usize::from(value) < end { Ok(value) } else { Err(WireError::Field(field)) }
    }

    /// Reads the number of items that follow, in one byte.
    pub(crate) fn count(&mut self, least: usize, most: usize, field: &'static str) -> Result<usize, WireError> {
        let count = usize::from(self.u8()?);
        if (least..=most).contains(&count) { Ok(count) } else { Err(WireError::Field(field)) }
    }

    /// Reads microseconds on some machine's clock, below [`MAX_MICROS`].
    pub(crate) fn time(&mut self) -> Result<RemoteTime, WireError> {
        Self::time_of(self.u64()?)
    }

    pub(crate) fn time_of(micros: u64) -> Result<RemoteTime, WireError> {
        if micros < MAX_MICROS { Ok(RemoteTime::from_micros(micros)) } else { Err(WireError::Field("time")) }
    }

    /// Reads a finite number. Infinities and NaN are an error of the peer.
    pub(crate) fn f32(&mut self, field: &'static str) -> Result<f32, WireError> {
        let value = self.array().map(f32::from_be_bytes)?;
        if value.is_finite() { Ok(value) } else { Err(WireError::Field(field)) }
    }

    /// Reads an LEB128 number of at most five bytes.
    pub(crate) fn varint(&mut self) -> Result<u32, WireError> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| WireError::Field("varint"));
            }
        }
        Err(WireError::Field("varint"))
    }

    /// Reads a signed number in zigzag coding.
    pub(crate) fn signed_varint(&mut self) -> Result<i32, WireError> {
        let value = self.varint()?;
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// Checks the version nibble and returns the kind nibble.
    pub(crate) fn kind(&mut self) -> Result<u8, WireError> {
        let first = self.u8()?;
        if first >> 4 == PROTOCOL_VERSION { Ok(first & 0x0f) } else { Err(WireError::Version(first >> 4)) }
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.position..];
        self.position = self.bytes.len();
        rest
    }

    pub(crate) const fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn finish(&self) -> Result<(), WireError> {
        match self.bytes.len() - self.position {
            0 => Ok(()),
            left => Err(WireError::Trailing(left)),
        }
    }
}

pub(crate) fn write_varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

pub(crate) fn write_signed_varint(bytes: &mut Vec<u8>, value: i32) {
    write_varint(bytes, (value << 1) as u32 ^ (value >> 31) as u32);
}

pub(crate) fn write_f32s(bytes: &mut Vec<u8>, values: &[f32]) {
    for value in values {
        bytes.extend_from_slice(&value.to_be_bytes());
    }
}
