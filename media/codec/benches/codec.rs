//! Measures a 720p frame at 10 Mb/s: conversion, encoding, decoding, and the quality metrics.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use nearlight_codec::convert::{PixelOrder, Pixels, to_picture, to_rgba};
use nearlight_codec::{CodecKind, EncoderConfig, Picture, Reference, Size, new_decoder, new_encoder, quality, sample};
use nearlight_units::Bitrate;

const SIZE: Size = Size { width: 1280, height: 720 };
const CONFIG: EncoderConfig = EncoderConfig { size: SIZE, fps: 30, rate: Bitrate::from_mbps(10), threads: 1 };

/// Returns pictures that the encoders cycle through, forwards and back so that motion never jumps.
fn pictures(size: Size) -> Vec<Picture> {
    (0..30).chain((1..29).rev()).map(|moment| sample::moving_picture(size, moment)).collect()
}

fn conversion(criterion: &mut Criterion) {
    let mut rgba = Vec::new();
    let mut picture = sample::moving_picture(SIZE, 0);
    to_rgba(picture.view(), &mut rgba).expect("a valid picture");
    criterion.bench_function("convert/rgba_to_picture", |bencher| {
        let pixels = Pixels { size: SIZE, order: PixelOrder::Rgba, bytes: &rgba, stride: 1280 * 4 };
        bencher.iter(|| to_picture(black_box(pixels), &mut picture).expect("valid pixels"));
    });
    criterion.bench_function("convert/picture_to_rgba", |bencher| {
        bencher.iter(|| to_rgba(black_box(picture.view()), &mut rgba).expect("a valid picture"));
    });
}

fn codecs(criterion: &mut Criterion) {
    let pictures = pictures(SIZE);
    for kind in CodecKind::ALL {
        let mut encoder = new_encoder(kind, CONFIG).expect("an encoder");
        let mut moments = pictures.iter().cycle();
        criterion.bench_function(&format!("encode/{kind}"), |bencher| {
            bencher.iter(|| encoder.encode(moments.next().expect("endless"), Reference::Newest).expect("bits"));
        });
        let mut encoder = new_encoder(kind, CONFIG).expect("an encoder");
        let coded: Vec<_> =
            pictures.iter().map(|picture| encoder.encode(picture, Reference::Newest).expect("bits").bits).collect();
        let mut decoder = new_decoder(kind).expect("a decoder");
        // The stream begins again with its key frame in each cycle: one frame in 58.
        let mut moments = coded.iter().cycle();
        criterion.bench_function(&format!("decode/{kind}"), |bencher| {
            bencher.iter(|| decoder.decode(moments.next().expect("endless")).expect("a picture").is_some());
        });
    }
}

/// Measures what more slices per picture gain in time and cost in quality at the same rate.
fn slices(criterion: &mut Criterion) {
    for (size, rate) in [(SIZE, CONFIG.rate), (Size { width: 1920, height: 1080 }, Bitrate::from_mbps(20))] {
        let pictures = pictures(size);
        for threads in 1..=4 {
            let config = EncoderConfig { size, rate, fps: 60, threads };
            let name = format!("slices/{size}, {threads} threads");
            let mut encoder = new_encoder(CodecKind::H264, config).expect("an encoder");
            let mut moments = pictures.iter().cycle();
            criterion.bench_function(&name, |bencher| {
                bencher.iter(|| encoder.encode(moments.next().expect("endless"), Reference::Newest).expect("bits"));
            });
            let mut encoder = new_encoder(CodecKind::H264, config).expect("an encoder");
            let mut decoder = new_decoder(CodecKind::H264).expect("a decoder");
            let (mut bytes, mut decibels) = (0, 0.0);
            for picture in &pictures {
                let bits = encoder.encode(picture, Reference::Newest).expect("bits").bits;
                bytes += bits.len();
                let decoded = decoder.decode(&bits).expect("a picture").expect("a picture");
                decibels += quality::psnr(picture.view(), decoded).expect("of one size");
            }
            let count = pictures.len() as f64;
            println!("{name}: {:.2} dB, {:.0} bytes a picture", decibels / count, bytes as f64 / count);
        }
    }
}

fn metrics(criterion: &mut Criterion) {
    let (one, other) = (sample::moving_picture(SIZE, 0), sample::moving_picture(SIZE, 1));
    criterion.bench_function("quality/psnr", |bencher| bencher.iter(|| quality::psnr(one.view(), other.view())));
    criterion.bench_function("quality/ssim", |bencher| bencher.iter(|| quality::ssim(one.view(), other.view())));
}

criterion_group!(benches, conversion, codecs, slices, metrics);
criterion_main!(benches);
