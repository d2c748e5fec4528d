//! Frames are lost and the stream continues without a key frame: the encoder predicts from a frame that the receiver has decoded, and from
//! then on the receiver's picture is bit-exact with the sender's.

use std::collections::{BTreeMap, BTreeSet};

use nearlight_codec::{
    CodecKind, Decoder, Encoder, EncoderConfig, Picture, Reference, Size, new_decoder, new_encoder, sample,
};
use nearlight_units::{Bitrate, FrameId};
use proptest::prelude::*;

const SIZE: Size = Size { width: 192, height: 112 };

fn config(threads: u8) -> EncoderConfig {
    EncoderConfig { size: SIZE, fps: 30, rate: Bitrate::from_kbps(800), threads }
}

/// A sender, a receiver behind a lossy path, and a decoder at the sender that gets every frame.
struct Link {
    encoder: Box<dyn Encoder>,
    beside: Box<dyn Decoder>,
    receiver: Box<dyn Decoder>,
    /// The frames that the receiver has decoded.
    decoded: BTreeSet<FrameId>,
    /// Acknowledgements in flight, by the frame at which they arrive.
    acknowledgements: BTreeMap<u32, FrameId>,
    round_trip: u32,
    number: u32,
    keys: Vec<u32>,
    /// The frames requested as recoveries and how far back each refers.
    recoveries: Vec<(u32, u32)>,
}

impl Link {
    fn new(kind: CodecKind, threads: u8, round_trip: u32) -> Self {
        Self {
            encoder: new_encoder(kind, config(threads)).unwrap(),
            beside: new_decoder(kind).unwrap(),
            receiver: new_decoder(kind).unwrap(),
            decoded: BTreeSet::new(),
            acknowledgements: BTreeMap::new(),
            round_trip,
            number: 0,
            keys: Vec::new(),
            recoveries: Vec::new(),
        }
    }

    /// Encodes a frame. Returns whether the receiver could decode it; if so, its picture is checked against the sender's.
    fn frame(&mut self, reference: Reference, arrives: bool) -> bool {
        let id = FrameId(self.number);
        if let Some(decoded) = self.acknowledgements.remove(&self.number) {
            self.encoder.on_decoded(decoded);
        }
        let coded = self.encoder.encode(&sample::moving_picture(SIZE, self.number), reference).unwrap();
        self.number += 1;
        if coded.is_key() {
            self.keys.push(id.0);
        }
        if let (Reference::Acknowledged, Some(predicted_from)) = (reference, coded.reference) {
            assert!(
                self.decoded.contains(&predicted_from),
                "frame {id} refers to {predicted_from}, which was not decoded"
            );
            self.recoveries.push((id.0, id.0 - predicted_from.0));
        }
        let mut wanted = Picture::new(SIZE);
        self.beside.decode(&coded.bits).unwrap().expect("a picture per frame").copy_to(&mut wanted);
        let decodes = arrives && coded.reference.is_none_or(|reference| self.decoded.contains(&reference));
        if decodes {
            let mut got = Picture::new(SIZE);
            self.receiver.decode(&coded.bits).unwrap().expect("a picture per frame").copy_to(&mut got);
            assert!(got == wanted, "frame {id} is not the sender's picture");
            self.decoded.insert(id);
            self.acknowledgements.insert(id.0 + self.round_trip, id);
        }
        decodes
    }
}

#[test]
fn after_a_loss_the_pictures_are_the_senders_again_without_a_key_frame() {
    for (kind, threads) in [(CodecKind::Vp8, 1), (CodecKind::H264, 1), (CodecKind::H264, 2)] {
        for round_trip in [1, 2, 5] {
            let mut link = Link::new(kind, threads, round_trip);
            for number in 0..100 {
                // Every 20 frames a loss of 1 to 5 frames; it is reported to the sender a round trip later.
                let (period, phase) = (number / 20, number % 20);
                let lost = (10..11 + period).contains(&phase);
                let reference =
                    if phase == 10 + round_trip + period { Reference::Acknowledged } else { Reference::Newest };
                let decodes = link.frame(reference, !lost);
                let broken = (10..10 + round_trip + period).contains(&phase);
                assert_eq!(decodes, !broken, "{kind} round trip {round_trip}: frame {number}");
            }
            assert_eq!(link.keys, [0], "{kind} round trip {round_trip}");
            assert_eq!(link.recoveries.len(), 5);
            let farthest = link.recoveries.iter().map(|(_, back)| *back).max().unwrap();
            // What is acknowledged is a round trip old, a candidate waits another one, and then frames were lost.
            assert!(farthest <= 4 * round_trip + 10, "{kind} round trip {round_trip}: {:?}", link.recoveries);
        }
    }
}

#[test]
fn without_an_acknowledged_frame_recovery_is_a_key_frame() {
    for kind in CodecKind::ALL {
        let mut link = Link::new(kind, 1, 1_000);
        (0..5).for_each(|number| assert!(link.frame(Reference::Newest, number < 3) == (number < 3)));
        assert!(link.frame(Reference::Acknowledged, true));
        assert_eq!(link.keys, [0, 5], "{kind}");
        // Frames before that key frame, and a frame that never existed, cannot serve as references.
        for frame in [2, 4, 77, u32::MAX] {
            link.encoder.on_decoded(FrameId(frame));
        }
        assert!(link.frame(Reference::Acknowledged, true));
        assert_eq!(link.keys, [0, 5, 6], "{kind}");
        link.encoder.on_decoded(FrameId(6));
        assert!(link.frame(Reference::Newest, true) && link.frame(Reference::Acknowledged, true));
        assert_eq!(link.keys, [0, 5, 6], "{kind}");
    }
}

#[test]
fn a_frame_that_is_too_far_back_is_not_referred_to() {
    for kind in CodecKind::ALL {
        let mut link = Link::new(kind, 1, 1_000);
        link.frame(Reference::Newest, true);
        link.encoder.on_decoded(FrameId(0));
        (1..=254).for_each(|_| assert!(link.frame(Reference::Newest, true)));
        assert!(link.frame(Reference::Acknowledged, true));
        assert_eq!((link.keys.as_slice(), link.recoveries.as_slice()), (&[0][..], &[(255, 255)][..]), "{kind}");
        assert!(link.frame(Reference::Acknowledged, true));
        assert_eq!(link.keys, [0, 256], "{kind}");
    }
}

#[test]
fn a_new_size_forgets_what_was_kept() {
    for kind in CodecKind::ALL {
        let mut encoder = new_encoder(kind, config(1)).unwrap();
        let small = Size { width: 160, height: 90 };
        (0..3)
            .for_each(|moment| drop(encoder.encode(&sample::moving_picture(SIZE, moment), Reference::Newest).unwrap()));
        encoder.on_decoded(FrameId(2));
        encoder.set_size(small).unwrap();
        let references = [Reference::Newest, Reference::Newest, Reference::Acknowledged]
            .map(|reference| encoder.encode(&sample::moving_picture(small, 3), reference).unwrap().reference);
        assert_eq!(references, [None, Some(FrameId(3)), None], "{kind}");
    }
}

/// OpenH264 then rejects one of the frames that follow.
#[test]
fn a_recovery_that_is_lost_as_well_leaves_the_encoder_at_work() {
    for kind in CodecKind::ALL {
        for lost_after in [5, 17, 40] {
            let mut link = Link::new(kind, 1, 1);
            link.frame(Reference::Newest, false);
            link.frame(Reference::Acknowledged, true);
            link.frame(Reference::Acknowledged, false);
            for _ in 0..lost_after {
                link.frame(Reference::Newest, false);
            }
            assert!(link.frame(Reference::Acknowledged, true), "{kind} after {lost_after}");
            assert!(link.frame(Reference::Newest, true), "{kind} after {lost_after}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is lost, whenever reports reach the sender, and however often it recovers: what the receiver can decode according to the
    /// references that the encoder reports is the sender's picture.
    #[test]
    fn what_the_references_allow_is_decoded_without_drift(
        kind in prop::sample::select(&CodecKind::ALL[..]),
        round_trip in 1_u32..8,
        frames in prop::collection::vec((prop::bool::weighted(0.8), prop::bool::weighted(0.15)), 20..80),
    ) {
        let mut link = Link::new(kind, 1, round_trip);
        for (arrives, recovers) in frames {
            let reference = if recovers { Reference::Acknowledged } else { Reference::Newest };
            let decodes = link.frame(reference, arrives);
            prop_assert!(reference == Reference::Newest || decodes == arrives);
        }
    }
}
