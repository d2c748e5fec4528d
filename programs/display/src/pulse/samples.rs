//! Conversion of samples between a client's format and fractions of full scale.

use pulseaudio::protocol::SampleFormat;

/// Offset that µ-law adds to a magnitude of 14 bits (ITU-T G.711), here in 16 bits.
const ULAW_BIAS: i32 = 0x84;
/// Largest magnitude that µ-law can express without the bias, in 16 bits.
const ULAW_CLIP: i32 = 32_635;

/// Converts a sample to a fraction of full scale. `bytes` has the format's size.
pub(crate) fn decode(format: SampleFormat, bytes: &[u8]) -> f32 {
    let word = |bytes: &[u8]| bytes.try_into().unwrap_or([0; 4]);
    // 24-bit samples are placed in the upper three bytes of a word.
    let low = |bytes: &[u8]| i32::from_le_bytes([0, bytes[0], bytes[1], bytes[2]]);
    let high = |bytes: &[u8]| i32::from_be_bytes([bytes[0], bytes[1], bytes[2], 0]);
    let long = |value: i32| value as f32 / 2_147_483_648.0;
    let short = |value: i16| f32::from(value) / 32_768.0;
    let float = |value: f32| if value.is_finite() { value.clamp(-4.0, 4.0) } else { 0.0 };
    match format {
        SampleFormat::U8 => (f32::from(bytes[0]) - 128.0) / 128.0,
        SampleFormat::Alaw => short(from_alaw(bytes[0])),
        SampleFormat::Ulaw => short(from_ulaw(bytes[0])),
        SampleFormat::S16Le => short(i16::from_le_bytes([bytes[0], bytes[1]])),
        SampleFormat::S16Be => short(i16::from_be_bytes([bytes[0], bytes[1]])),
        SampleFormat::Float32Le => float(f32::from_le_bytes(word(bytes))),
        SampleFormat::Float32Be => float(f32::from_be_bytes(word(bytes))),
        SampleFormat::S32Le => long(i32::from_le_bytes(word(bytes))),
        SampleFormat::S32Be => long(i32::from_be_bytes(word(bytes))),
        SampleFormat::S24Le | SampleFormat::S24In32Le => long(low(bytes)),
        SampleFormat::S24Be => long(high(bytes)),
        SampleFormat::S24In32Be => long(high(&bytes[1..])),
        SampleFormat::Invalid => 0.0,
    }
}

/// Appends a sample in a client's format.
pub(crate) fn encode(format: SampleFormat, sample: f32, bytes: &mut Vec<u8>) {
    let sample = sample.clamp(-1.0, 1.0);
    let short = (sample * 32_767.0) as i16;
    let long = (f64::from(sample) * 2_147_483_647.0) as i32;
    let [_, low @ ..] = long.to_le_bytes();
    let [high @ .., _] = long.to_be_bytes();
    match format {
        SampleFormat::U8 => bytes.push((sample * 127.0 + 128.0) as u8),
        SampleFormat::Alaw => bytes.push(to_alaw(short)),
        SampleFormat::Ulaw => bytes.push(to_ulaw(short)),
        SampleFormat::S16Le => bytes.extend(short.to_le_bytes()),
        SampleFormat::S16Be => bytes.extend(short.to_be_bytes()),
        SampleFormat::Float32Le => bytes.extend(sample.to_le_bytes()),
        SampleFormat::Float32Be => bytes.extend(sample.to_be_bytes()),
        SampleFormat::S32Le => bytes.extend(long.to_le_bytes()),
        SampleFormat::S32Be => bytes.extend(long.to_be_bytes()),
        SampleFormat::S24Le => bytes.extend(low),
        SampleFormat::S24Be => bytes.extend(high),
        SampleFormat::S24In32Le => bytes.extend((long >> 8).to_le_bytes()),
        SampleFormat::S24In32Be => bytes.extend((long >> 8).to_be_bytes()),
        SampleFormat::Invalid => {}
    }
}

/// Expands A-law (ITU-T G.711) to 16 bits.
fn from_alaw(byte: u8) -> i16 {
    let byte = byte ^ 0x55;
    let (exponent, mantissa) = (byte >> 4 & 7, i16::from(byte & 0xf) << 4);
    let magnitude = if exponent == 0 { mantissa + 8 } else { (mantissa + 0x108) << (exponent - 1) };
    if byte & 0x80 == 0 { -magnitude } else { magnitude }
}

/// Compresses 16 bits to A-law.
fn to_alaw(sample: i16) -> u8 {
    let sign = if sample < 0 { 0 } else { 0x80 };
    let magnitude = if sample < 0 { -(i32::from(sample) + 1) } else { i32::from(sample) };
    // The number of bits above the eight of the lowest segment.
    let exponent = (magnitude >> 8).checked_ilog2().map_or(0, |bits| bits as u8 + 1);
    let mantissa = (magnitude >> (4 + exponent.max(1) - 1) & 0xf) as u8;
    (sign | exponent << 4 | mantissa) ^ 0x55
}

/// Expands µ-law (ITU-T G.711) to 16 bits.
fn from_ulaw(byte: u8) -> i16 {
    let byte = !byte;
    let magnitude = ((i32::from(byte & 0xf) << 3) + ULAW_BIAS) << (byte >> 4 & 7);
    let value = (magnitude - ULAW_BIAS) as i16;
    if byte & 0x80 == 0 { value } else { -value }
}

/// Compresses 16 bits to µ-law.
fn to_ulaw(sample: i16) -> u8 {
    let sign = if sample < 0 { 0x80 } else { 0 };
    let magnitude = i32::from(sample).abs().min(ULAW_CLIP) + ULAW_BIAS;
    let exponent = magnitude.ilog2() as u8 - 7;
    let mantissa = (magnitude >> (exponent + 3) & 0xf) as u8;
    !(sign | exponent << 4 | mantissa)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_again_in_every_format() {
        use SampleFormat::*;
        for (format, error) in [
            (U8, 0.02),
            (Alaw, 0.025),
            (Ulaw, 0.025),
            (S16Le, 1e-4),
            (S16Be, 1e-4),
            (Float32Le, 1e-7),
            (Float32Be, 1e-7),
            (S32Le, 1e-6),
            (S32Be, 1e-6),
            (S24Le, 1e-6),
            (S24Be, 1e-6),
            (S24In32Le, 1e-6),
            (S24In32Be, 1e-6),
        ] {
            for sample in [-1.0, -0.7, -0.001, 0.0, 0.02, 0.5, 0.99_f32] {
                let mut bytes = Vec::new();
                encode(format, sample, &mut bytes);
                assert_eq!(bytes.len(), format.bytes_per_sample(), "{format:?}");
                let decoded = decode(format, &bytes);
                assert!((decoded - sample).abs() <= error, "{format:?}: {sample} became {decoded}");
            }
        }
    }

    #[test]
    fn companded_samples_have_the_values_of_the_standard() {
        // The smallest, a middle and the largest magnitude of each sign, in 16 bits (ITU-T G.711, tables 1 and 2).
        for (byte, value) in [(0xd5, 8), (0x55, -8), (0xaa, 32_256), (0x2a, -32_256), (0x80, 5_504)] {
            assert_eq!(from_alaw(byte), value, "A-law {byte:#x}");
        }
        for (byte, value) in [(0xff, 0), (0x80, 32_124), (0x00, -32_124), (0xf0, 120), (0x8f, 16_764)] {
            assert_eq!(from_ulaw(byte), value, "µ-law {byte:#x}");
        }
        for byte in 0..=u8::MAX {
            assert_eq!(to_alaw(from_alaw(byte)), byte, "A-law {byte:#x}");
            // µ-law has two zeros.
            assert_eq!(to_ulaw(from_ulaw(byte)), if byte == 0x7f { 0xff } else { byte }, "µ-law {byte:#x}");
        }
    }

    #[test]
    fn broken_floats_are_silence() {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(decode(SampleFormat::Float32Le, &value.to_le_bytes()).abs() < f32::EPSILON);
        }
    }
}
