//! Tests what every codec promises about its streams: quality, rate, key frames, sizes.

use nearlight_codec::{
    CodecError, CodecKind, Decoder, EncodedPicture, Encoder, EncoderConfig, Picture, Reference, Size, new_decoder,
    new_encoder, quality, sample,
};
use nearlight_units::Bitrate;

const SMALL: Size = Size { width: 640, height: 360 };

fn encoder(kind: CodecKind, size: Size, rate: Bitrate) -> Box<dyn Encoder> {
    new_encoder(kind, EncoderConfig { size, fps: 30, rate, threads: 1 }).unwrap()
}

fn decode(decoder: &mut dyn Decoder, coded: &EncodedPicture) -> Picture {
    let mut picture = Picture::new(SMALL);
    decoder.decode(&coded.bits).unwrap().expect("a picture per frame").copy_to(&mut picture);
    picture
}

fn bytes(frames: &[EncodedPicture]) -> usize {
    frames.iter().map(|frame| frame.bits.len()).sum()
}

#[test]
fn pictures_survive_coding() {
    for kind in CodecKind::ALL {
        let mut encoder = encoder(kind, SMALL, Bitrate::from_mbps(4));
        let mut decoder = new_decoder(kind).unwrap();
        for moment in 0..30 {
            let picture = sample::moving_picture(SMALL, moment);
            let coded = encoder.encode(&picture, Reference::Newest).unwrap();
            let decoded = decode(&mut *decoder, &coded);
            let psnr = quality::psnr(picture.view(), decoded.view()).unwrap();
            let ssim = quality::ssim(picture.view(), decoded.view()).unwrap();
            // VP8 starts with a coarse key frame, a third of its share, and takes some frames to refine the fine grain.
            let fine = if moment < 10 { 0.7 } else { 0.8 };
            assert!(psnr >= 30.0 && ssim >= fine, "{kind}: frame {moment} has {psnr:.2} dB, SSIM {ssim:.3}");
            let chroma = decoded.blue.iter().zip(&picture.blue).all(|(got, wanted)| got.abs_diff(*wanted) < 40);
            assert!(chroma, "{kind}: frame {moment} lost its colour");
        }
    }
}

#[test]
fn an_encoder_knows_how_good_its_pictures_are() {
    for (kind, threads) in [(CodecKind::H264, 1), (CodecKind::H264, 2), (CodecKind::Vp8, 1)] {
        let config = EncoderConfig { size: SMALL, fps: 30, rate: Bitrate::from_mbps(2), threads };
        let mut encoder = new_encoder(kind, config).unwrap();
        let mut decoder = new_decoder(kind).unwrap();
        for moment in 0..32 {
            let picture = sample::moving_picture(SMALL, moment);
            let coded = encoder.encode(&picture, Reference::Newest).unwrap();
            let decoded = decode(&mut *decoder, &coded);
            let reported = coded.distortion.unwrap();
            let wanted = quality::mean_squared_error(picture.view(), decoded.view()).unwrap();
            // OpenH264 includes the rows that pad the last macroblocks.
            assert!((reported / wanted - 1.0).abs() < 0.03, "{kind}: frame {moment} has {wanted}, reported {reported}");
        }
    }
}

#[test]
fn key_frames_come_only_when_asked_for() {
    for kind in CodecKind::ALL {
        let mut encoder = encoder(kind, SMALL, Bitrate::from_mbps(2));
        let mut keys = Vec::new();
        for frame in 0..120 {
            // A cut in the middle, which would make an encoder with scene-change detection insert a key frame.
            let moment = if frame < 60 { frame } else { 5_000 + frame };
            let reference = if frame == 90 { Reference::Nothing } else { Reference::Newest };
            if encoder.encode(&sample::moving_picture(SMALL, moment), reference).unwrap().is_key() {
                keys.push(frame);
            }
        }
        assert_eq!(keys, [0, 90], "{kind}");
    }
}

#[test]
fn the_rate_is_held_at_the_frame_rates_of_headsets() {
    for (kind, fps) in CodecKind::ALL.into_iter().flat_map(|kind| [60, 72, 90, 120].map(|fps| (kind, fps))) {
        let rate = Bitrate::from_mbps(4);
        let mut encoder = new_encoder(kind, EncoderConfig { size: SMALL, fps, rate, threads: 1 }).unwrap();
        // The first second starts with a key frame.
        let frames: Vec<_> = (0..3 * u32::from(fps))
            .map(|moment| encoder.encode(&sample::moving_picture(SMALL, moment), Reference::Newest).unwrap())
            .collect();
        let sent = bytes(&frames[usize::from(fps)..]) as f64 * 8.0 / 2.0 / rate.as_bps() as f64;
        assert!((0.9..1.1).contains(&sent), "{kind} at {fps} frames a second: {sent:.2} of the rate");
    }
}

#[test]
fn rate_changes_take_effect_without_a_key_frame() {
    for kind in CodecKind::ALL {
        let mut encoder = encoder(kind, SMALL, Bitrate::from_mbps(2));
        let mut moment = 0;
        let mut second = |encoder: &mut dyn Encoder| -> Vec<EncodedPicture> {
            let frames = moment..moment + 30;
            moment = frames.end;
            frames
                .map(|moment| encoder.encode(&sample::moving_picture(SMALL, moment), Reference::Newest).unwrap())
                .collect()
        };
        second(&mut *encoder);
        for (rate, share) in [(2_000, 1.0), (1_000, 0.5), (1_500, 0.75), (3_000, 1.5)] {
            encoder.set_rate(Bitrate::from_kbps(rate)).unwrap();
            let frames = second(&mut *encoder);
            assert!(frames.iter().all(|frame| !frame.is_key()), "{kind} at {rate} kb/s");
            let got = bytes(&frames) as f64 / 250_000.0;
            assert!((got / share - 1.0).abs() < 0.15, "{kind} at {rate} kb/s: {got:.3} instead of {share} of 2 Mb/s");
        }
    }
}

#[test]
fn size_changes_start_with_a_key_frame_at_the_present_rate() {
    for kind in CodecKind::ALL {
        let mut encoder = encoder(kind, SMALL, Bitrate::from_mbps(8));
        let mut decoder = new_decoder(kind).unwrap();
        encoder.set_rate(Bitrate::from_mbps(2)).unwrap();
        for (width, height) in [(640, 360), (960, 540), (320, 180), (1280, 720), (1280, 720), (322, 182)] {
            let size = Size { width, height };
            let changes = size != SMALL && (width, height) != (1280, 720);
            encoder.set_size(size).unwrap();
            let frames: Vec<_> = (0..30)
                .map(|moment| encoder.encode(&sample::moving_picture(size, moment), Reference::Newest).unwrap())
                .collect();
            assert!(!changes || frames[0].is_key(), "{kind} {size}");
            assert!(frames[1..].iter().all(|frame| !frame.is_key()), "{kind} {size}");
            for frame in &frames {
                assert_eq!(decode(&mut *decoder, frame).size, size, "{kind}");
            }
            assert!(bytes(&frames[5..]) < 2 * 250_000, "{kind} {size}: {} bytes", bytes(&frames[5..]));
        }
    }
}

#[test]
fn wrong_pictures_are_errors() {
    for kind in CodecKind::ALL {
        let mut encoder = encoder(kind, SMALL, Bitrate::from_mbps(2));
        let other = Picture::new(Size { width: 320, height: 180 });
        assert!(matches!(encoder.encode(&other, Reference::Newest), Err(CodecError::Size { .. })), "{kind}");
        let mut short = Picture::new(SMALL);
        short.red.pop();
        assert!(matches!(encoder.encode(&short, Reference::Newest), Err(CodecError::Buffer { .. })), "{kind}");
        let mut long = Picture::new(SMALL);
        long.luma.push(0);
        assert!(encoder.encode(&long, Reference::Newest).unwrap().is_key(), "{kind}");
        for (width, height) in [(0, 0), (2, 2), (641, 360), (8192, 16), (65534, 65534)] {
            assert!(encoder.set_size(Size { width, height }).is_err(), "{kind} {width}x{height}");
        }
        assert!(
            !encoder.encode(&Picture::new(SMALL), Reference::Newest).unwrap().is_key(),
            "{kind}: the refused sizes changed nothing"
        );
        for rate in [Bitrate::ZERO, Bitrate::MAX] {
            encoder.set_rate(rate).unwrap();
            encoder.encode(&Picture::new(SMALL), Reference::Newest).unwrap();
        }
    }
}

#[test]
fn names_are_read_and_written() {
    for kind in CodecKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    let error = "h265".parse::<CodecKind>().unwrap_err().to_string();
    assert_eq!(error, "there is no codec \"h265\"; choose one of: h264, vp8");
}
