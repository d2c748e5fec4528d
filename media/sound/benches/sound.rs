//! Measures a block of ten milliseconds: synthesis once, and rendering, encoding and decoding for each listener.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use glam::Vec3;
use nearlight_sound::{Cues, Ears, Hum, Room, SoundDecoder, SoundEncoder, Strike, StrikeKind, Timbre};
use nearlight_units::Bitrate;
use nearlight_wire::Pose;

/// Returns a room with as many sounds as the plaza has: four hums, and chimes that are struck 11 times a second and ring for two seconds.
fn busy_room() -> Room {
    let mut room = Room::default();
    let place = |index: u16| Vec3::new(f32::from(index) - 4.0, 1.0 + f32::from(index % 3), -3.0);
    let timbre = |id| if id == 0 { Timbre::Water } else { Timbre::Tone { hertz: 110.0 * f32::from(id) } };
    let hums = (0..4).map(|id| Hum { id, place: place(id), timbre: timbre(id), level: 0.4 }).collect();
    let chime = |index| Strike {
        place: place(index),
        struck: StrikeKind::Chime { hertz: 440.0 + 100.0 * f32::from(index) },
        level: 0.3,
    };
    room.on_cues(&Cues { hums, strikes: (0..20).map(chime).collect() });
    room
}

fn blocks(criterion: &mut Criterion) {
    let head = Pose { position: [0.0, 1.6, 0.0], ..Pose::default() };
    criterion.bench_function("room", |bencher| {
        let mut room = busy_room();
        let mut left = 0;
        bencher.iter(|| {
            if left == 0 {
                (room, left) = (busy_room(), 100);
            }
            left -= 1;
            room.advance();
        });
    });
    let mut room = busy_room();
    room.advance();
    let mut ears = Ears::default();
    criterion.bench_function("ears", |bencher| bencher.iter(|| black_box(ears.hear(&room, &head))));
    let block = ears.hear(&room, &head);
    let mut encoder = SoundEncoder::new(Bitrate::from_kbps(64)).expect("libopus");
    criterion.bench_function("encode", |bencher| bencher.iter(|| encoder.encode(black_box(&block)).expect("coded")));
    let packet = encoder.encode(&block).expect("coded").expect("not silence");
    let mut decoder = SoundDecoder::new().expect("libopus");
    criterion.bench_function("decode", |bencher| bencher.iter(|| decoder.decode(black_box(&packet)).expect("decoded")));
}

criterion_group!(benches, blocks);
criterion_main!(benches);
