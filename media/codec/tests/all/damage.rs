//! Bits from the network: damaged, truncated, missing or forged. Decoders return errors, never panic, and recover with the next key frame.

use nearlight_codec::{CodecError, CodecKind, EncoderConfig, Reference, Size, new_decoder, new_encoder, sample};
use nearlight_units::Bitrate;
use proptest::prelude::*;

const SIZE: Size = Size { width: 320, height: 180 };

/// Returns a stream with key frames where `keys` is set.
fn stream(kind: CodecKind, keys: &[bool]) -> Vec<Vec<u8>> {
    let mut encoder =
        new_encoder(kind, EncoderConfig { size: SIZE, fps: 30, rate: Bitrate::from_mbps(1), threads: 1 }).unwrap();
    let frames = keys.iter().zip(0..);
    frames
        .map(|(key, moment)| {
            encoder
                .encode(
                    &sample::moving_picture(SIZE, moment),
                    if *key { Reference::Nothing } else { Reference::Newest },
                )
                .unwrap()
                .bits
        })
        .collect()
}

fn codec() -> impl Strategy<Value = CodecKind> {
    prop::sample::select(&CodecKind::ALL[..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn garbage_is_refused(kind in codec(), bits in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let mut decoder = new_decoder(kind).unwrap();
        prop_assert!(!matches!(decoder.decode(&bits), Ok(Some(_))));
    }

    #[test]
    fn damaged_frames_do_no_harm(
        kind in codec(),
        conceals: bool,
        frame in 0usize..6,
        cut in prop::option::of(0.0f64..1.0),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let mut frames = stream(kind, &[true, false, false, false, false, false, true, false]);
        let bits = &mut frames[frame];
        if let Some(cut) = cut {
            bits.truncate((bits.len() as f64 * cut) as usize);
        }
        for (index, value) in flips {
            if !bits.is_empty() {
                let at = index.index(bits.len());
                bits[at] ^= value;
            }
        }
        let mut decoder = new_decoder(kind).unwrap();
        if conceals {
            decoder.set_concealing();
        }
        for (number, bits) in frames.iter().enumerate() {
            let picture = decoder.decode(bits);
            // Whatever the damage did, the key frame and the frames after it are intact.
            prop_assert!(number < 6 || matches!(picture, Ok(Some(_))), "frame {}: {:?}", number, picture.err());
        }
    }
}

#[test]
fn a_stream_must_start_with_a_key_frame() {
    for kind in CodecKind::ALL {
        let frames = stream(kind, &[true, false, false]);
        let mut decoder = new_decoder(kind).unwrap();
        assert!(matches!(decoder.decode(&frames[1]), Err(CodecError::Bits { .. })), "{kind}");
        assert!(matches!(decoder.decode(&frames[0]), Ok(Some(_))), "{kind}");
        assert!(matches!(decoder.decode(&frames[1]), Ok(Some(_))), "{kind}");
    }
}

/// Decodes a stream without frames 3 and 4. Returns the result of each other frame: none, the correct picture, or a wrong one.
fn without_two(kind: CodecKind, conceals: bool) -> Vec<Option<bool>> {
    let frames = stream(kind, &[true, false, false, false, false, false, false, false, true, false]);
    let (mut whole, mut lossy) = (new_decoder(kind).unwrap(), new_decoder(kind).unwrap());
    if conceals {
        lossy.set_concealing();
    }
    let decoded = frames.iter().enumerate().map(|(number, bits)| {
        let should = whole.decode(bits).unwrap().expect("a picture").luma.to_vec();
        let lost = (3..5).contains(&number);
        (!lost).then(|| lossy.decode(bits).ok().flatten().map(|picture| picture.luma == should))
    });
    decoded.flatten().collect()
}

#[test]
fn a_missing_reference_is_refused_or_decoded_into_a_damaged_picture() {
    let (whole, damaged) = (Some(true), Some(false));
    let refused = [whole, whole, whole, None, None, None, whole, whole];
    let concealed = [whole, whole, whole, damaged, damaged, damaged, whole, whole];
    assert_eq!(without_two(CodecKind::H264, false), refused);
    assert_eq!(without_two(CodecKind::H264, true), concealed);
    // VP8 frames have no numbers, so the loss is not detected.
    assert_eq!(without_two(CodecKind::Vp8, false), concealed);
    assert_eq!(without_two(CodecKind::Vp8, true), concealed);
}

/// Frames are lost regularly, and occasionally there is a key frame, which may be lost as well.
#[test]
fn whatever_frames_are_lost_a_concealing_decoder_goes_on() {
    for kind in CodecKind::ALL {
        let keys: Vec<bool> = (0..300).map(|number| number % 17 == 0).collect();
        let frames = stream(kind, &keys);
        let mut decoder = new_decoder(kind).unwrap();
        decoder.set_concealing();
        for (number, bits) in frames.iter().enumerate() {
            // Multiplying by a large odd number scatters the losses.
            let lost = number > 0 && ((number * 2_654_435_761) >> 7).is_multiple_of(5);
            if !lost {
                let decoded = decoder.decode(bits).map(|picture| picture.is_some());
                assert!(matches!(decoded, Ok(true)), "{kind}, frame {number}: {decoded:?}");
            }
        }
    }
}

#[test]
fn a_truncated_frame_is_an_error_until_the_next_key_frame() {
    for kind in CodecKind::ALL {
        let mut frames = stream(kind, &[true, false, false, false, true, false]);
        let half = frames[2].len() / 2;
        frames[2].truncate(half);
        let mut decoder = new_decoder(kind).unwrap();
        let shown: Vec<bool> = frames.iter().map(|bits| matches!(decoder.decode(bits), Ok(Some(_)))).collect();
        assert_eq!(shown, [true, true, false, false, true, true], "{kind}");
    }
}

/// The library returns neither a picture nor an error for some truncated frames.
#[test]
fn wherever_a_frame_is_truncated_the_next_key_frame_is_decoded() {
    for kind in CodecKind::ALL {
        let frames = stream(kind, &[true, false, true, false]);
        for length in 0..frames[1].len().min(300) {
            let mut decoder = new_decoder(kind).unwrap();
            let units = [&frames[0][..], &frames[1][..length], &frames[2], &frames[3]];
            let shown = units.map(|bits| matches!(decoder.decode(bits), Ok(Some(_))));
            assert_eq!(shown, [true, false, true, true], "{kind}, {length} bytes");
        }
    }
}

#[test]
fn a_missing_reference_is_noticed_by_h264_but_not_by_vp8() {
    for (kind, noticed) in [(CodecKind::H264, true), (CodecKind::Vp8, false)] {
        let frames = stream(kind, &[true, false, false, false, true]);
        let mut decoder = new_decoder(kind).unwrap();
        let shown = [0, 1, 3, 4].map(|frame: usize| matches!(decoder.decode(&frames[frame]), Ok(Some(_))));
        assert_eq!(shown, [true, true, !noticed, true], "{kind}");
    }
}

#[test]
fn huge_pictures_are_refused_before_they_cost_memory() {
    // A VP8 key frame of 16383x16383, and H.264 sequence parameters of 65536 by 65536 macroblocks.
    let vp8 = [0x10, 0, 0, 0x9D, 0x01, 0x2A, 0xFF, 0x3F, 0xFF, 0x3F, 0, 0, 0];
    let mut decoder = new_decoder(CodecKind::Vp8).unwrap();
    assert!(matches!(decoder.decode(&vp8), Err(CodecError::Shape { .. })));
    // seq_parameter_set_id 0, frame numbers of 4 bits, order type 2, 1 reference, no gaps, 512 columns, 512 rows, frames only.
    let fields = "1 1 011 010 0 0000000001000000000 0000000001000000000 1 1 0 0 1".replace(' ', "");
    let mut h264 = vec![0, 0, 0, 1, 0x67, 66, 0xC0, 52];
    for byte in fields.as_bytes().chunks(8) {
        h264.push(byte.iter().enumerate().fold(0, |bits, (at, bit)| bits | (bit - b'0') << (7 - at)));
    }
    let mut decoder = new_decoder(CodecKind::H264).unwrap();
    assert!(matches!(decoder.decode(&h264), Err(CodecError::Shape { .. })));
}
