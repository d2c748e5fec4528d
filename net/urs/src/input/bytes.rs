//! Little-endian reading with bounds checks.

use super::InputError;

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], InputError> {
        let left = &self.bytes[self.position..];
        if left.len() < count {
            let need = self.position.saturating_add(count);
            return Err(InputError::Truncated { need, have: self.bytes.len() });
        }
        self.position += count;
        Ok(&left[..count])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], InputError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, InputError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, InputError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, InputError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, InputError> {
        self.array().map(i32::from_le_bytes)
    }

    /// Reads a number. Infinities and NaN become 0: the web client computes them before it knows the picture's size.
    pub(super) fn f32(&mut self) -> Result<f32, InputError> {
        let value = self.array().map(f32::from_le_bytes)?;
        Ok(if value.is_finite() { value } else { 0.0 })
    }

    /// Reads a number of double precision. See [`Reader::f32`].
    pub(super) fn f64(&mut self) -> Result<f64, InputError> {
        let value = self.array().map(f64::from_le_bytes)?;
        Ok(if value.is_finite() { value } else { 0.0 })
    }

    pub(super) fn pair(&mut self) -> Result<[f32; 2], InputError> {
        Ok([self.f32()?, self.f32()?])
    }

    pub(super) const fn left(&self) -> usize {
        self.bytes.len() - self.position
    }

    pub(super) const fn finish(&self) -> Result<(), InputError> {
        match self.left() {
            0 => Ok(()),
            left => Err(InputError::Trailing(left)),
        }
    }
}
