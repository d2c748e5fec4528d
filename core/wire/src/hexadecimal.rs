//! Bytes as hexadecimal digits, the form of nonces, hashes and MACs in JSON and in links.

use std::fmt;

/// Writes two lower-case digits for each byte.
///
/// # Errors
/// If the formatter fails.
pub fn write(bytes: &[u8], formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
}

/// Reads exactly `N` bytes from digits of either case; none if the text is anything else.
#[must_use]
pub fn read<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let pairs: &[[u8; 2]; N] = pairs.try_into().ok()?;
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        let (high, low) = high.zip(low)?;
        *byte = (high << 4 | low) as u8;
    }
    Some(bytes)
}
