//! The marker in the picture, on which every latency figure rests, survives the lowest rate that a session uses.

use nearlight_codec::convert::{PixelOrder, Pixels, to_picture, to_rgba};
use nearlight_codec::{CodecKind, EncoderConfig, Picture, Reference, Size, new_decoder, new_encoder, sample};
use nearlight_units::{Bitrate, FrameId, InputSeq};
use nearlight_wire::marker::{CELL_PIXELS, COLUMNS, HEIGHT, Marker, WIDTH};

const SIZE: Size = Size { width: 1280, height: 720 };

/// Draws the marker into rendered pixels, as the renderer does, and converts them.
fn draw(moment: u32, marker: Marker) -> Picture {
    let mut rgba = Vec::new();
    to_rgba(sample::moving_picture(SIZE, moment).view(), &mut rgba).unwrap();
    let cells = marker.cells();
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let white = cells[y / CELL_PIXELS * COLUMNS + x / CELL_PIXELS];
            rgba[(y * 1280 + x) * 4..][..3].fill(if white { 255 } else { 0 });
        }
    }
    let mut picture = Picture::new(SIZE);
    let pixels = Pixels { size: SIZE, order: PixelOrder::Rgba, bytes: &rgba, stride: 1280 * 4 };
    to_picture(pixels, &mut picture).unwrap();
    picture
}

#[test]
fn marker_survives_one_megabit() {
    for kind in CodecKind::ALL {
        let config = EncoderConfig { size: SIZE, fps: 30, rate: Bitrate::from_mbps(1), threads: 1 };
        let mut encoder = new_encoder(kind, config).unwrap();
        let mut decoder = new_decoder(kind).unwrap();
        for moment in 0..60 {
            let marker = Marker { frame: FrameId(moment), input: InputSeq(moment.wrapping_mul(0x9E37_79B1)) };
            let coded = encoder.encode(&draw(moment, marker), Reference::Newest).unwrap();
            let picture = decoder.decode(&coded.bits).unwrap().expect("a picture per frame");
            assert_eq!(Marker::read(|x, y| picture.luma_at(x, y)), Some(marker), "{kind}: frame {moment}");
        }
    }
}
