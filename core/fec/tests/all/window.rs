//! Repairs that cover several frames complete whichever of them they can.

use crate::support;
use nearlight_fec::{Code, Coverage, Encoder, Kernel, MAX_WINDOW_FRAMES, Outcome, SymbolError, Window, digest};
use nearlight_units::{Bytes, FrameId};
use proptest::prelude::*;
use rand_pcg::Pcg32;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use support::{LIMIT, Sent, below};

/// Frames of different sizes and the repairs that cover them all.
struct Group {
    frames: Vec<Sent>,
    codes: Vec<Code>,
    repairs: Vec<Vec<u8>>,
}

impl Group {
    fn new(shapes: &[(u32, u16)], repairs: u16) -> Self {
        let frame =
            |(id, (bytes, sources)): (usize, &(u32, u16))| Sent::new(FrameId(10 + id as u32), *bytes, *sources, 4);
        let frames: Vec<Sent> = shapes.iter().enumerate().map(frame).collect();
        let codes: Vec<Code> = frames.iter().map(|sent| sent.code).collect();
        let length = codes.iter().map(Code::symbol_bytes).max().expect("a frame");
        let pairs: Vec<(Code, &[u8])> = frames.iter().map(|sent| (sent.code, sent.frame.as_slice())).collect();
        let mut coded = vec![0; length * usize::from(repairs)];
        Encoder::default().window_repairs(&pairs, 0..repairs, &mut coded).expect("encodes");
        Self { codes, repairs: coded.chunks(length).map(<[u8]>::to_vec).collect(), frames }
    }

    fn feed(&self, window: &mut Window, frame: usize, number: u16) -> Result<Outcome, SymbolError> {
        let sent = &self.frames[frame];
        match number.checked_sub(sent.code.sources()) {
            None => window.on_source(&sent.code, number, sent.symbol(number)),
            Some(repair) => window.on_repair(&sent.code, repair, sent.symbol(number)),
        }
    }

    fn feed_sources(&self, window: &mut Window, frame: usize, lost: &[u16]) {
        for number in (0..self.codes[frame].sources()).filter(|number| !lost.contains(number)) {
            self.feed(window, frame, number).expect("a source");
        }
    }

    fn feed_window(&self, window: &mut Window, number: u16) -> Result<Outcome, SymbolError> {
        window.on_window_repair(&Coverage { codes: &self.codes, number }, &self.repairs[usize::from(number)])
    }

    fn is_whole(&self, window: &Window, frame: usize) -> bool {
        let found = window.decoder(self.codes[frame].frame()).and_then(|decoder| decoder.frame());
        assert!(found.is_none_or(|found| found == self.frames[frame].frame));
        found.is_some()
    }
}

const SHAPES: &[(u32, u16)] = &[(12 * 100 - 7, 12), (5 * 64, 5), (9 * 130 - 100, 9)];

#[test]
fn a_late_repair_completes_the_old_frame() {
    let group = Group::new(SHAPES, 2);
    let mut window = Window::new(Kernel::best(), LIMIT);
    group.feed_sources(&mut window, 0, &[3, 11]);
    group.feed_sources(&mut window, 1, &[]);
    group.feed_sources(&mut window, 2, &[]);
    assert_eq!(window.poll_completed(), Some(FrameId(11)));
    assert_eq!(window.poll_completed(), Some(FrameId(12)));
    group.feed_window(&mut window, 1).expect("a repair");
    assert!(!group.is_whole(&window, 0));
    group.feed_window(&mut window, 0).expect("a repair");
    assert!(group.is_whole(&window, 0));
    assert_eq!((window.poll_completed(), window.poll_completed()), (Some(FrameId(10)), None));
}

#[test]
fn one_frame_is_completed_while_another_still_waits() {
    let group = Group::new(SHAPES, 3);
    let mut window = Window::new(Kernel::best(), LIMIT);
    group.feed_sources(&mut window, 0, &[0]);
    group.feed_sources(&mut window, 1, &[1, 2]);
    group.feed_sources(&mut window, 2, &[]);
    group.feed_window(&mut window, 0).expect("a repair");
    group.feed_window(&mut window, 1).expect("a repair");
    // Two equations for three unknowns: nothing yet. The middle frame's own repairs then free both for the oldest one.
    assert!(!group.is_whole(&window, 0) && !group.is_whole(&window, 1));
    group.feed(&mut window, 1, 5).expect("a repair");
    assert!(group.is_whole(&window, 0) && group.is_whole(&window, 1));
}

#[test]
fn a_frame_of_which_nothing_came_is_recovered() {
    let group = Group::new(SHAPES, 5);
    let mut window = Window::new(Kernel::best(), LIMIT);
    group.feed_sources(&mut window, 0, &[]);
    group.feed_sources(&mut window, 2, &[]);
    for number in 0..5 {
        group.feed_window(&mut window, number).expect("a repair");
    }
    assert!(group.is_whole(&window, 1));
}

#[test]
fn a_forged_repair_is_noticed_by_the_next_one() {
    let group = Group::new(SHAPES, 3);
    let mut window = Window::new(Kernel::best(), LIMIT);
    group.feed_sources(&mut window, 0, &[4, 5, 6]);
    group.feed_sources(&mut window, 1, &[]);
    group.feed_sources(&mut window, 2, &[]);
    let mut forged = group.repairs[0].clone();
    forged[17] ^= 1;
    let coverage = Coverage { codes: &group.codes, number: 0 };
    window.set_digest(&group.codes[0], digest(&group.frames[0].frame)).expect("the first digest");
    window.on_window_repair(&coverage, &forged).expect("a repair's shape");
    group.feed_window(&mut window, 1).expect("a repair");
    group.feed_window(&mut window, 2).expect("a repair");
    assert!(window.decoder(FrameId(10)).is_some_and(nearlight_fec::Decoder::is_corrupt));
    assert!(!group.is_whole(&window, 0));
    assert!(group.is_whole(&window, 1) && group.is_whole(&window, 2));
}

#[test]
fn a_frame_of_forged_symbols_starts_over_without_the_repairs_that_they_spoiled() {
    let group = Group::new(SHAPES, 4);
    let mut window = Window::new(Kernel::best(), LIMIT);
    group.feed_sources(&mut window, 0, &[0]);
    group.feed_sources(&mut window, 1, &[0, 1]);
    let mut forged = group.frames[1].symbol(0).to_vec();
    forged[0] ^= 1;
    window.on_source(&group.codes[1], 0, &forged).expect("a source's shape");
    group.feed_window(&mut window, 0).expect("a repair");
    window.start_over(FrameId(11), digest(&group.frames[1].frame));
    group.feed_sources(&mut window, 1, &[2]);
    group.feed_sources(&mut window, 2, &[]);
    assert!((0..2).all(|frame| !group.is_whole(&window, frame)));
    group.feed_window(&mut window, 1).expect("a repair");
    group.feed_window(&mut window, 2).expect("a repair");
    assert!((0..3).all(|frame| group.is_whole(&window, frame)));
    window.start_over(FrameId(99), 0);
}

#[test]
fn lies_are_refused_with_their_reason() {
    let group = Group::new(SHAPES, 1);
    let mut window = Window::new(Kernel::best(), LIMIT);
    group.feed(&mut window, 1, 0).expect("a source");
    let code = |frame, bytes, sources| Code::new(FrameId(frame), bytes, sources).expect("a shape");
    let other = code(11, 320, 4);
    assert_eq!(window.on_source(&other, 0, &[0; 80]), Err(SymbolError::Inconsistent));
    let repair = |window: &mut Window, codes: &[Code], length: usize| {
        window.on_window_repair(&Coverage { codes, number: 0 }, &vec![0; length])
    };
    assert_eq!(repair(&mut window, &[], 0), Err(SymbolError::Window));
    assert_eq!(repair(&mut window, &[group.codes[0], group.codes[2]], 130), Err(SymbolError::Window));
    let long: Vec<Code> = (0..=MAX_WINDOW_FRAMES as u32).map(|frame| code(frame, 10, 1)).collect();
    assert_eq!(repair(&mut window, &long, 10), Err(SymbolError::Window));
    assert_eq!(repair(&mut window, &group.codes, 129), Err(SymbolError::Length { expected: 119, found: 129 }));
    assert_eq!(repair(&mut window, &[group.codes[0], other], 100), Err(SymbolError::Inconsistent));
    window.drop_before(FrameId(11));
    assert_eq!(group.feed_window(&mut window, 0), Err(SymbolError::TooOld));
    assert_eq!(group.feed(&mut window, 0, 0), Err(SymbolError::TooOld));
    assert!(matches!(window.on_source(&code(13, u32::MAX, 9), 0, &[]), Err(SymbolError::TooLarge { .. })));
}

proptest! {
    /// Whatever is lost and in whatever order the rest arrives, no frame is wrong, and all are complete once there are two more
    /// equations than unknowns.
    #[test]
    fn enough_symbols_complete_all_frames(seed: u64, lost in 0_u32..50) {
        let group = Group::new(SHAPES, 20);
        let mut random = Pcg32::seed_from_u64(seed);
        let mut arrivals = Vec::new();
        let mut missing = 0;
        for frame in 0..3 {
            for number in 0..group.codes[frame].sources() {
                if below(&mut random, 100) < lost {
                    missing += 1;
                } else {
                    arrivals.push((frame, number));
                }
            }
        }
        arrivals.extend((0..20.min(missing + 2)).map(|number| (3, number)));
        for last in (1..arrivals.len()).rev() {
            arrivals.swap(last, below(&mut random, last as u32 + 1) as usize);
        }
        let mut window = Window::new(Kernel::best(), LIMIT);
        for (frame, number) in arrivals {
            if frame == 3 { group.feed_window(&mut window, number) } else { group.feed(&mut window, frame, number) }
                .expect("a symbol");
        }
        for frame in 0..3 {
            prop_assert!(group.is_whole(&window, frame) || missing + 2 > 20, "frame {frame}, {missing} missing");
        }
    }

    /// Hostile symbols never panic, never take more memory than allowed, and never get past the digest.
    #[test]
    fn hostile_symbols_are_harmless(
        seed: u64,
        operations in proptest::collection::vec((0_u8..6, 0_usize..3, 0_u16..16, 0_u8..8), 0..120),
    ) {
        let limit = Bytes::new(40_000);
        let group = Group::new(SHAPES, 16);
        let mut random = Pcg32::seed_from_u64(seed);
        let mut window = Window::new(Kernel::best(), limit);
        for (kind, frame, number, lie) in operations {
            let sent = &group.frames[frame];
            for sent in &group.frames {
                let _ = window.set_digest(&sent.code, digest(&sent.frame));
            }
            let mut code = sent.code;
            if lie == 0 {
                let random = random.next_u32();
                code = Code::new(FrameId(8 + random % 64), random >> 20, (random >> 4) as u16 % 50).unwrap_or(code);
            }
            let mut symbol = vec![0; code.symbol_bytes()];
            random.fill_bytes(&mut symbol);
            let _ = match (kind, lie) {
                (0, 0 | 1) => window.on_source(&code, number, &symbol),
                (1, 0 | 1) => window.on_repair(&code, number, &symbol),
                (2, 0 | 1) => window.on_window_repair(&Coverage { codes: &[code], number }, &symbol),
                (2 | 3, _) => group.feed_window(&mut window, number),
                _ => group.feed(&mut window, frame, number % (sent.code.sources() + 4)),
            };
            prop_assert!(window.bytes() <= limit);
            for frame in &group.frames {
                let decoder = window.decoder(frame.code.frame()).filter(|decoder| *decoder.code() == frame.code);
                let found = decoder.and_then(|decoder| decoder.frame());
                prop_assert!(found.is_none_or(|found| found == frame.frame));
            }
        }
    }
}
