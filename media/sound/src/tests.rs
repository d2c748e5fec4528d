use glam::{Quat, Vec3};
use nearlight_units::{Bitrate, Span};
use nearlight_wire::{Pose, SOUND_PAUSE};

use crate::ears::{Path, paths_of as paths};
use crate::{BLOCK_FRAMES, Cues, Ears, Hum, Room, SoundBlock, SoundDecoder, SoundEncoder, Strike, StrikeKind, Timbre};

const HERE: Pose = Pose { position: [0.0, 1.6, 0.0], orientation: [0.0, 0.0, 0.0, 1.0] };

fn at(x: f32, z: f32) -> Vec3 {
    Vec3::new(x, 1.6, z)
}

fn knock(place: Vec3) -> Cues {
    let strike = Strike { place, struck: StrikeKind::Ball { hertz: 500.0 }, level: 0.5 };
    Cues { hums: Vec::new(), strikes: vec![strike] }
}

fn hum(place: Vec3) -> Cues {
    Cues { hums: vec![Hum { id: 1, place, timbre: Timbre::Tone { hertz: 440.0 }, level: 0.5 }], strikes: Vec::new() }
}

/// Returns this many blocks as one pair of ears hears them.
fn listen(room: &mut Room, ears: &mut Ears, head: &Pose, blocks: usize) -> Vec<f32> {
    let mut heard = Vec::new();
    for _ in 0..blocks {
        room.advance();
        heard.extend_from_slice(&ears.hear(room, head));
    }
    heard
}

fn loudness(samples: impl Iterator<Item = f32>) -> f32 {
    let (sum, count) = samples.fold((0.0, 0), |(sum, count), sample| (sum + sample * sample, count + 1));
    (sum / count.max(1) as f32).sqrt()
}

fn sides(heard: &[f32]) -> (f32, f32) {
    (loudness(heard.iter().copied().step_by(2)), loudness(heard.iter().copied().skip(1).step_by(2)))
}

#[test]
fn a_sound_from_the_right_reaches_the_left_ear_late_and_softly() {
    let [left, right] = paths(&HERE, at(3.0, 0.0));
    // Woodworth: 0.0875 / 343 · (π/2 + 1) s at 48 kHz.
    assert!((left.delay - 31.48).abs() < 0.01 && right.delay == 0.0, "{left:?} {right:?}");
    let gain = |path: Path| path.clear + path.dull;
    assert!(gain(left) * 5.0 < gain(right) && left.dull > left.clear && right.dull == 0.0, "{left:?} {right:?}");
    let turned = Pose { orientation: Quat::from_rotation_y(std::f32::consts::PI).to_array(), ..HERE };
    let [left, right] = paths(&turned, at(3.0, 0.0));
    assert!(gain(left) > gain(right) && left.delay == 0.0, "turned round: {left:?} {right:?}");
    let [left, right] = paths(&HERE, at(0.0, -3.0));
    assert_eq!((left.delay, left.dull, right.dull), (right.delay, 0.0, 0.0), "ahead");
    assert!((left.clear - right.clear).abs() < 1e-6, "ahead: {left:?} {right:?}");
    let [behind, _] = paths(&HERE, at(0.0, 3.0));
    assert!(behind.dull > 0.1 && (gain(behind) - gain(left)).abs() < 1e-6, "behind it is as loud and duller");
}

#[test]
fn twice_as_far_is_half_as_loud_and_nothing_is_louder_than_near() {
    let gain = |metres: f32| paths(&HERE, at(0.0, -metres))[0].clear;
    assert!((gain(4.0) * 2.0 - gain(2.0)).abs() < 1e-6);
    assert!((gain(0.0) - gain(1.0)).abs() < 1e-6, "{}", gain(0.0));
}

#[test]
fn what_is_struck_is_heard_at_once_and_ends() {
    for struck in [
        StrikeKind::Ball { hertz: 500.0 },
        StrikeKind::Crate { hertz: 150.0 },
        StrikeKind::Chime { hertz: 1_200.0 },
        StrikeKind::Air,
    ] {
        let mut room = Room::default();
        room.on_cues(&Cues { strikes: vec![Strike { place: at(1.0, -1.0), struck, level: 0.5 }], ..Cues::default() });
        let mut ears = Ears::default();
        let first = listen(&mut room, &mut ears, &HERE, 1);
        assert!(loudness(first.into_iter()) > 1e-3, "{struck:?} begins");
        listen(&mut room, &mut ears, &HERE, 600);
        assert!(room.is_empty(), "{struck:?} ends");
        assert_eq!(sides(&listen(&mut room, &mut ears, &HERE, 1)), (0.0, 0.0));
    }
}

#[test]
fn the_far_ear_hears_the_same_later() {
    let mut room = Room::default();
    room.on_cues(&knock(at(2.0, 0.0)));
    let heard = listen(&mut room, &mut Ears::default(), &HERE, 4);
    let side = |ear: usize| heard.iter().copied().skip(ear).step_by(2).collect::<Vec<_>>();
    let (left, right) = (side(0), side(1));
    let alike = |lag: usize| left[lag..].iter().zip(&right).map(|(left, right)| left * right).sum::<f32>();
    let best = (0..64).max_by(|a, b| alike(*a).total_cmp(&alike(*b))).expect("lags");
    // The path around the head takes 31.5 samples, and the low-pass of the head's shadow adds to it.
    assert!((31..=36).contains(&best), "{best} samples");
}

#[test]
fn a_head_that_turns_hears_a_hum_wander() {
    let mut room = Room::default();
    room.on_cues(&hum(at(-2.0, 0.0)));
    let mut ears = Ears::default();
    listen(&mut room, &mut ears, &HERE, 2);
    let (left, right) = sides(&listen(&mut room, &mut ears, &HERE, 10));
    assert!(left > 3.0 * right, "{left} {right}");
    let turned = Pose { orientation: Quat::from_rotation_y(std::f32::consts::PI).to_array(), ..HERE };
    let heard = listen(&mut room, &mut ears, &turned, 1);
    let steps = heard.iter().step_by(2).zip(heard.iter().step_by(2).skip(1)).map(|(one, other)| (one - other).abs());
    let largest = steps.fold(0.0, f32::max);
    assert!(largest < 0.03, "it wanders without a click: {largest}");
    let (left, right) = sides(&listen(&mut room, &mut ears, &turned, 10));
    assert!(right > 3.0 * left, "{left} {right}");
}

#[test]
fn a_hum_that_is_not_named_any_more_fades_within_a_block() {
    let mut room = Room::default();
    room.on_cues(&hum(at(0.0, -1.0)));
    let mut ears = Ears::default();
    assert!(loudness(listen(&mut room, &mut ears, &HERE, 5).into_iter()) > 0.01);
    room.on_cues(&Cues::default());
    let fading = listen(&mut room, &mut ears, &HERE, 1);
    assert!(fading[BLOCK_FRAMES * 2 - 1].abs() < 1e-3 && loudness(fading.into_iter()) > 1e-3);
    listen(&mut room, &mut ears, &HERE, 2);
    assert!(room.is_empty());
}

#[test]
fn a_room_full_of_noise_stays_within_full_scale_and_bounds() {
    let mut room = Room::default();
    let strike = |index: u32| Strike {
        place: at(0.1, -0.1),
        struck: StrikeKind::Ball { hertz: 100.0 * index as f32 },
        level: 1.0,
    };
    for round in 0..20 {
        let hums = (0..40).map(|id| Hum { id, place: at(0.0, 0.0), timbre: Timbre::Water, level: 9.0 }).collect();
        room.on_cues(&Cues { hums, strikes: (0..20).map(|index| strike(index + round)).collect() });
        let heard = listen(&mut room, &mut Ears::default(), &HERE, 1);
        assert!(heard.iter().all(|sample| sample.abs() <= 1.0));
    }
    assert!(room.len() <= 40, "{} sources", room.len());
}

#[test]
fn the_same_cues_make_the_same_samples() {
    let story = || {
        let (mut room, mut ears) = (Room::default(), Ears::default());
        room.on_cues(&hum(at(1.0, -2.0)));
        let mut heard = listen(&mut room, &mut ears, &HERE, 3);
        room.on_cues(&knock(at(-1.0, -2.0)));
        heard.extend(listen(&mut room, &mut ears, &HERE, 20));
        heard
    };
    assert_eq!(story(), story());
}

#[test]
fn what_is_coded_decodes_to_what_was_heard() {
    let (mut room, mut ears) = (Room::default(), Ears::default());
    let mut encoder = SoundEncoder::new(Bitrate::from_kbps(64)).expect("libopus");
    let mut decoder = SoundDecoder::new().expect("libopus");
    assert_eq!(encoder.look_ahead(), Span::from_micros(2_500));
    let (mut heard, mut decoded, mut bytes) = (Vec::new(), Vec::new(), 0);
    for round in 0..100 {
        let mut cues = hum(at(1.0, -2.0));
        if round % 20 == 5 {
            cues.strikes = knock(at(-1.5, -1.0)).strikes;
        }
        room.on_cues(&cues);
        room.advance();
        let block: SoundBlock = ears.hear(&room, &HERE);
        heard.extend_from_slice(&block);
        let packet = encoder.encode(&block).expect("coded").expect("no pause");
        bytes += packet.len();
        decoded.extend_from_slice(&decoder.decode(&packet).expect("decoded"));
    }
    let kbps = bytes as f64 * 8.0 / 1_000.0;
    assert!((20.0..90.0).contains(&kbps), "{kbps} kb/s");
    // The look-ahead: 120 moments of two samples.
    let (signal, error) =
        heard.iter().zip(&decoded[240..]).skip(9_600).fold((0.0, 0.0), |(signal, error), (was, is)| {
            (signal + f64::from(was * was), error + f64::from((was - is) * (was - is)))
        });
    assert!(signal / error > 30.0, "{:.1} dB", 10.0 * (signal / error).log10());
}

#[test]
fn silence_is_announced_and_then_costs_one_packet_in_forty() {
    let mut encoder = SoundEncoder::new(Bitrate::from_kbps(64)).expect("libopus");
    let tone: SoundBlock = std::array::from_fn(|index| (index as f32 * 0.06).sin() * 0.5);
    let silence = [0.0; BLOCK_FRAMES * 2];
    for round in 0..2 {
        for block in 0..5 {
            assert!(encoder.encode(&tone).expect("coded").is_some_and(|packet| packet.len() > 1), "{round}, {block}");
        }
        let packets: Vec<Option<Vec<u8>>> = (0..500).map(|_| encoder.encode(&silence).expect("coded")).collect();
        assert!(
            packets[..20].iter().flatten().filter(|packet| packet.len() > 1).count() == 20,
            "what was heard fades out"
        );
        let sent: Vec<usize> = (20..500).filter(|block| packets[*block].is_some()).map(|block| block - 20).collect();
        assert_eq!(sent, [0, 1, 2, 40, 80, 120, 160, 200, 240, 280, 320, 360, 400, 440]);
        assert!(packets[20..].iter().flatten().all(|packet| packet == &SOUND_PAUSE));
    }
    let mut decoder = SoundDecoder::new().expect("libopus");
    let decoded = decoder.decode(&SOUND_PAUSE).expect("players without this rule decode it");
    assert!(decoded.iter().all(|sample| sample.abs() < 1e-3));
}

#[test]
fn packets_of_strangers_are_refused_and_do_no_harm() {
    let mut decoder = SoundDecoder::new().expect("libopus");
    let mut state = 7_u32;
    for length in 0..400 {
        let packet: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        let _ = decoder.decode(&packet);
    }
    assert!(decoder.decode(&[]).is_err(), "an empty packet is none");
}
