//! Any symbols that suffice give the frame back, and no others do.

use crate::support;
use nearlight_fec::{Code, Decoder, Encoder, Kernel, Outcome, SymbolError, digest};
use nearlight_units::{Bytes, FrameId};
use proptest::prelude::*;
use rand_pcg::Pcg32;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use support::{LIMIT, Sent, below, shuffle};

/// Feeds symbols in the given order (repairs count on from the last source) until the frame is complete.
fn decode(sent: &Sent, order: &[u16]) -> Decoder {
    let mut decoder = Decoder::new(Kernel::best(), sent.code, LIMIT).expect("within the limit");
    for number in order {
        sent.feed(&mut decoder, *number).expect("a symbol of the frame");
    }
    decoder
}

#[test]
fn any_five_of_nine_symbols_recover_the_frame_and_no_four_do() {
    let sent = Sent::new(FrameId(1), 5 * 40 - 3, 5, 4);
    for set in 0_u32..1 << 9 {
        let order: Vec<u16> = (0..9).filter(|number| set >> number & 1 == 1).collect();
        let decoder = decode(&sent, &order);
        if order.len() >= 5 {
            assert_eq!(decoder.frame(), Some(sent.frame.as_slice()), "{order:?}");
        } else {
            assert_eq!(decoder.frame(), None, "{order:?}");
            assert_eq!(usize::from(decoder.needed()), 5 - order.len(), "{order:?}");
        }
    }
}

/// The whole matrix, not samples: two sources and any two of as many repairs as a frame of two may have.
#[test]
fn any_two_of_256_symbols_recover_a_frame_of_two() {
    let sent = Sent::new(FrameId(2), 32, 2, 254);
    for first in 0..256 {
        for second in first + 1..256 {
            assert_eq!(decode(&sent, &[first, second]).frame(), Some(sent.frame.as_slice()), "{first} {second}");
        }
    }
}

#[test]
fn random_sets_recover_large_frames_in_any_order() {
    let mut random = Pcg32::seed_from_u64(3);
    for (sources, repairs) in [(1_u16, 255_u16), (10, 20), (100, 25), (128, 128), (200, 56), (255, 1)] {
        for trial in 0..8 {
            let sent = Sent::new(FrameId(trial), u32::from(sources) * 70 - 5, sources, repairs);
            let mut order: Vec<u16> = (0..sources + repairs).collect();
            shuffle(&mut random, &mut order);
            order.truncate(usize::from(sources));
            assert_eq!(decode(&sent, &order).frame(), Some(sent.frame.as_slice()), "{sources} {trial} {order:?}");
        }
    }
}

/// Every kernel decodes what another encoded.
#[test]
fn kernels_agree_on_the_code() {
    let mut random = Pcg32::seed_from_u64(4);
    let sent = Sent::new(FrameId(8), 30 * 1_200 - 17, 30, 12);
    for kernel in Kernel::available() {
        let mut order: Vec<u16> = (0..42).collect();
        shuffle(&mut random, &mut order);
        let mut decoder = Decoder::new(kernel, sent.code, LIMIT).expect("within the limit");
        for number in &order[..30] {
            sent.feed(&mut decoder, *number).expect("a symbol of the frame");
        }
        assert_eq!(decoder.frame(), Some(sent.frame.as_slice()), "{}", kernel.name());
        let mut repairs = vec![0; 12 * 1_200];
        Encoder::new(kernel).repairs(&sent.code, &sent.frame, 0..12, &mut repairs).expect("encodes");
        assert_eq!(repairs, sent.repairs, "{}", kernel.name());
    }
}

#[test]
fn later_repairs_do_not_change_earlier_ones() {
    let sent = Sent::new(FrameId(3), 12_000, 10, 6);
    let mut encoder = Encoder::default();
    for number in 0..6_usize {
        let mut one = vec![0; 1_200];
        encoder.repairs(&sent.code, &sent.frame, number as u16..number as u16 + 1, &mut one).expect("encodes");
        assert_eq!(one, &sent.repairs[number * 1_200..][..1_200]);
    }
}

/// P(no recovery) with e missing and exactly e seeded repairs is 1 - product of (1 - q^-i): 0.0039 for nonzero coefficients of
/// GF(256), and 0 for a single missing symbol.
#[test]
fn seeded_repairs_fail_as_rarely_as_theory_says() {
    let mut random = Pcg32::seed_from_u64(5);
    let trials = if cfg!(debug_assertions) { 100 } else { 20_000 };
    let (sources, size) = (300_u16, 16_u32);
    let mut failed = 0;
    for trial in 0..trials {
        let sent = Sent::new(FrameId(trial), u32::from(sources) * size, sources, 5);
        let mut order: Vec<u16> = (0..sources).collect();
        shuffle(&mut random, &mut order);
        order.truncate(usize::from(sources) - 4);
        order.extend(sources..sources + 4);
        let mut decoder = decode(&sent, &order);
        if !decoder.is_complete() {
            failed += 1;
            assert_eq!(decoder.needed(), 1);
            sent.feed(&mut decoder, sources + 4).expect("a repair");
        }
        assert!(decoder.frame().is_none_or(|frame| frame == sent.frame));
    }
    let expected = f64::from(trials) * 0.0039;
    assert!((f64::from(failed) - expected).abs() < 5.0 * expected.sqrt() + 1.0, "{failed} of {trials}");
}

/// A frame of one-byte symbols, where a repair is its coefficients: two dependent ones are found and sent first.
#[test]
fn repairs_that_depend_on_each_other_cost_one_more_and_no_frame() {
    let sources = 300_u16;
    let sent = Sent::new(FrameId(77), u32::from(sources), sources, 2_000);
    let first_two = |repair: u16| {
        let mut frame = vec![0; usize::from(sources)];
        let mut coefficients = [0; 2];
        for (source, coefficient) in coefficients.iter_mut().enumerate() {
            frame.fill(0);
            frame[source] = 1;
            let output = std::slice::from_mut(coefficient);
            Encoder::default().repairs(&sent.code, &frame, repair..repair + 1, output).expect("encodes");
        }
        coefficients
    };
    let pairs: Vec<[u8; 2]> = (0..2_000).map(first_two).collect();
    let pair =
        (1..2_000).find_map(|newer| (0..newer).find(|older| pairs[*older] == pairs[newer]).map(|older| (older, newer)));
    let (older, newer) = pair.expect("2,000 draws of 65,025 pairs repeat one");
    let mut order: Vec<u16> = (2..sources).collect();
    order.extend([older, newer].map(|repair| sources + repair as u16));
    let mut decoder = decode(&sent, &order);
    assert_eq!((decoder.is_complete(), decoder.needed()), (false, 1));
    let third = (0..2_000).find(|other| pairs[*other] != pairs[older]).expect("another");
    sent.feed(&mut decoder, sources + third as u16).expect("a repair");
    assert_eq!(decoder.frame(), Some(sent.frame.as_slice()));
}

#[test]
fn a_frame_of_many_symbols_needs_no_blocks() {
    let sent = Sent::new(FrameId(6), 400 * 120, 400, 101);
    let lost = |number: &u16| number.is_multiple_of(4);
    let mut order: Vec<u16> = (0..400).filter(|number| !lost(number)).collect();
    order.extend(400..501);
    assert_eq!(decode(&sent, &order).frame(), Some(sent.frame.as_slice()));
}

#[test]
fn a_single_missing_symbol_is_always_recovered_by_any_one_repair() {
    for number in 0..200_u16 {
        let sent = Sent::new(FrameId(number.into()), 300 * 16, 300, 200);
        let mut order: Vec<u16> = (0..300).filter(|source| *source != number).collect();
        order.push(300 + number);
        assert_eq!(decode(&sent, &order).frame(), Some(sent.frame.as_slice()));
    }
}

#[test]
fn outcomes_tell_what_a_symbol_did() {
    let sent = Sent::new(FrameId(4), 4 * 50 - 10, 4, 3);
    let mut decoder = Decoder::new(Kernel::best(), sent.code, LIMIT).expect("within the limit");
    let mut feed = |number| sent.feed(&mut decoder, number).expect("a symbol");
    assert_eq!(feed(0), Outcome::Waiting { needed: 3 });
    assert_eq!(feed(0), Outcome::Redundant);
    assert_eq!(feed(4), Outcome::Waiting { needed: 2 });
    assert_eq!(feed(4), Outcome::Redundant);
    assert_eq!(feed(2), Outcome::Waiting { needed: 1 });
    assert_eq!(feed(5), Outcome::Complete { recovered: 2 });
    assert_eq!(feed(6), Outcome::Verified);
    assert_eq!(feed(3), Outcome::Verified);
    assert_eq!(feed(3), Outcome::Redundant);
    assert_eq!(decoder.into_frame(), Some(sent.frame));
}

#[test]
fn lies_are_refused_with_their_reason() {
    let code = Code::new(FrameId(0), 190, 4).expect("a shape");
    let mut decoder = Decoder::new(Kernel::best(), code, LIMIT).expect("within the limit");
    assert_eq!(decoder.on_source(4, &[0; 48]), Err(SymbolError::Index { index: 4, sources: 4 }));
    assert_eq!(decoder.on_source(0, &[0; 47]), Err(SymbolError::Length { expected: 48, found: 47 }));
    assert_eq!(decoder.on_source(3, &[0; 48]), Err(SymbolError::Length { expected: 46, found: 48 }));
    assert_eq!(decoder.on_repair(9, &[]), Err(SymbolError::Length { expected: 48, found: 0 }));
    for (bytes, sources) in [(0, 1), (1, 0), (1, 2), (10, 6), (0, 0)] {
        assert!(Code::new(FrameId(0), bytes, sources).is_err(), "{bytes} {sources}");
    }
    let huge = Code::new(FrameId(0), u32::MAX, u16::MAX).expect("a shape");
    assert!(matches!(Decoder::new(Kernel::best(), huge, LIMIT), Err(SymbolError::TooLarge { .. })));
}

#[test]
fn a_forged_symbol_is_noticed_by_whatever_comes_in_surplus() {
    let sent = Sent::new(FrameId(5), 10 * 64 - 9, 10, 8);
    let forged = [0x5A; 64];
    for surplus in [0_u16, 16] {
        let mut decoder = Decoder::new(Kernel::best(), sent.code, LIMIT).expect("within the limit");
        decoder.on_repair(3, &forged).expect("a repair's length");
        for number in [1, 2, 3, 4, 5, 6, 7, 8, 11] {
            sent.feed(&mut decoder, number).expect("a symbol");
        }
        // The last source is not among the computed ones, so nothing has given the forgery away yet.
        let mut found = decoder.is_corrupt();
        found |= sent.feed(&mut decoder, surplus) == Ok(Outcome::Corrupt);
        assert!(found && decoder.frame().is_none(), "surplus {surplus}");
    }
}

#[test]
fn a_forged_symbol_is_noticed_by_the_digest_at_once() {
    let sent = Sent::new(FrameId(5), 10 * 64, 10, 8);
    for digest in [digest(&sent.frame), digest(&sent.frame) ^ 1] {
        let mut decoder = Decoder::new(Kernel::best(), sent.code, LIMIT).expect("within the limit");
        decoder.set_digest(digest).expect("the first digest");
        assert_eq!(decoder.set_digest(!digest), Err(SymbolError::Inconsistent));
        decoder.on_source(0, &[1; 64]).expect("a source's length");
        for number in 2..11 {
            sent.feed(&mut decoder, number).expect("a symbol");
        }
        assert!(decoder.is_corrupt() && decoder.frame().is_none());
    }
    let mut decoder = decode(&sent, &(1..11).collect::<Vec<_>>());
    decoder.set_digest(digest(&sent.frame)).expect("the first digest");
    assert_eq!(decoder.frame(), Some(sent.frame.as_slice()));
    let mut decoder = decode(&sent, &(1..11).collect::<Vec<_>>());
    decoder.set_digest(digest(&sent.frame) ^ 1).expect("the first digest");
    assert_eq!(decoder.frame(), None);
}

/// A decoder's memory is reused for the next frame, without traces of the last one.
#[test]
fn a_decoder_starts_over() {
    let first = Sent::new(FrameId(1), 20 * 100, 20, 10);
    let second = Sent::new(FrameId(2), 15 * 130 - 60, 15, 10);
    let mut decoder = decode(&first, &(5..30).collect::<Vec<_>>());
    assert!(decoder.is_complete());
    decoder.reset(second.code, Bytes::new(1 << 20)).expect("within the limit");
    assert_eq!((decoder.frame(), decoder.needed()), (None, 15));
    for number in 8..23 {
        second.feed(&mut decoder, number).expect("a symbol");
    }
    assert_eq!(decoder.frame(), Some(second.frame.as_slice()));
}

proptest! {
    /// Regardless of the order and repetition of symbols, the frame is correct as soon as enough different ones have arrived.
    #[test]
    fn any_arrivals_decode_or_wait(sources in 1_u16..40, repairs in 0_u16..40, short in 0_u32..20, seed: u64) {
        let size = 20 + u32::from(sources);
        let sent = Sent::new(FrameId(seed as u32), u32::from(sources) * size - short.min(size - 1), sources, repairs);
        let mut random = Pcg32::seed_from_u64(seed);
        let mut decoder = Decoder::new(Kernel::best(), sent.code, LIMIT).expect("within the limit");
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..2 * (sources + repairs) {
            let number = below(&mut random, u32::from(sources + repairs)) as u16;
            seen.insert(number);
            let outcome = sent.feed(&mut decoder, number);
            prop_assert_ne!(outcome, Ok(Outcome::Corrupt));
            prop_assert_eq!(decoder.is_complete(), seen.len() >= usize::from(sources));
            prop_assert!(decoder.frame().is_none_or(|frame| frame == sent.frame));
        }
    }

    /// Arbitrary symbols never panic, and with the digest no frame but the sender's is handed out.
    #[test]
    fn hostile_symbols_are_harmless(
        bytes in 1_u32..5_000,
        sources in 0_u16..80,
        seed: u64,
        operations in proptest::collection::vec((any::<bool>(), 0_u16..90, 0_u8..4), 0..200),
    ) {
        let Ok(code) = Code::new(FrameId(1), bytes, sources) else { return Ok(()) };
        let sent = Sent::new(FrameId(1), bytes, sources, 90);
        let mut random = Pcg32::seed_from_u64(seed);
        let mut decoder = Decoder::new(Kernel::best(), code, LIMIT).expect("within the limit");
        decoder.set_digest(digest(&sent.frame)).expect("the first digest");
        for (repair, number, lie) in operations {
            let honest = if repair { number + sources } else { number };
            if lie > 0 {
                let _ = sent.feed(&mut decoder, honest.min(sources + 89));
            } else {
                let mut symbol = vec![0; code.symbol_bytes()];
                random.fill_bytes(&mut symbol);
                let _ = if repair { decoder.on_repair(number, &symbol) } else { decoder.on_source(number, &symbol) };
            }
            prop_assert!(decoder.frame().is_none_or(|frame| frame == sent.frame));
        }
    }
}
