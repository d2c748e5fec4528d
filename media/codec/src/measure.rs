//! Measures encoding and decoding on this machine, for `nearlight doctor` and for choosing a picture size at start.

use nearlight_units::{Span, Time};

use crate::{CodecError, CodecKind, EncoderConfig, Reference, describe_encoder, new_decoder, new_encoder, sample};

/// Frames that are timed: a second at 30 frames per second, enough for a median.
const MEASURED_FRAMES: u32 = 30;

/// The times of each step in a self-test, for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecTimings {
    /// Library and version.
    pub name: String,
    pub encode_median: Span,
    pub decode_median: Span,
}

/// Encodes and decodes moving pictures, a key frame first, and times every step with `clock`.
pub fn measure(kind: CodecKind, config: EncoderConfig, clock: &dyn Fn() -> Time) -> Result<CodecTimings, CodecError> {
    let name = describe_encoder(kind, config)?.name;
    let mut encoder = new_encoder(kind, config)?;
    let mut decoder = new_decoder(kind)?;
    let (mut encoding, mut decoding) = (Vec::new(), Vec::new());
    for moment in 0..MEASURED_FRAMES {
        let picture = sample::moving_picture(config.size, moment);
        let start = clock();
        let coded = encoder.encode(&picture, Reference::Newest)?;
        let encoded = clock();
        decoder.decode(&coded.bits)?;
        encoding.push(encoded.saturating_since(start));
        decoding.push(clock().saturating_since(encoded));
    }
    Ok(CodecTimings { name, encode_median: median(encoding), decode_median: median(decoding) })
}

fn median(mut spans: Vec<Span>) -> Span {
    spans.sort_unstable();
    spans[spans.len() / 2]
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use nearlight_units::Bitrate;

    use super::*;
    use crate::Size;

    #[test]
    fn every_step_is_timed_by_the_given_clock() {
        let ticks = Cell::new(0);
        // Each reading of the clock is one millisecond later than the previous one.
        let clock = || {
            ticks.set(ticks.get() + 1);
            Time::from_millis(ticks.get())
        };
        let config =
            EncoderConfig { size: Size { width: 320, height: 180 }, fps: 30, rate: Bitrate::from_mbps(1), threads: 1 };
        for kind in CodecKind::ALL {
            let measured = measure(kind, config, &clock).unwrap();
            assert_eq!((measured.encode_median, measured.decode_median), (Span::from_millis(1), Span::from_millis(1)));
            assert!(measured.name.chars().any(|letter| letter.is_ascii_digit()), "{}", measured.name);
        }
    }
}
