//! The marker below the picture, on which every latency figure rests, survives the lowest rate that a session uses.

use nearlight_codec::{CodecKind, EncoderConfig, Reference, Size, new_decoder, new_encoder, sample};
use nearlight_units::{Bitrate, FrameId, InputSeq};
use nearlight_wire::marker::{Marker, Strip};

#[test]
fn marker_survives_one_megabit() {
    for (kind, (width, height)) in
        CodecKind::ALL.into_iter().flat_map(|kind| [(1280, 720), (640, 360), (320, 180)].map(|size| (kind, size)))
    {
        let size = Size { width, height };
        let strip = Strip::of_width(width).expect("wide enough");
        let coded = size.with_strip(Some(strip));
        let config = EncoderConfig { size: coded, fps: 30, rate: Bitrate::from_mbps(1), threads: 1 };
        let mut encoder = new_encoder(kind, config).unwrap();
        let mut decoder = new_decoder(kind).unwrap();
        for moment in 0..60 {
            let marker = Marker { frame: FrameId(moment), input: InputSeq(moment.wrapping_mul(0x9E37_79B1)) };
            let mut picture = sample::moving_picture(size, moment);
            picture.add_marker(strip, marker);
            let bits = encoder.encode(&picture, Reference::Newest).unwrap().bits;
            let decoded = decoder.decode(&bits).unwrap().expect("a picture per frame");
            assert_eq!(decoded.size, coded);
            let (cut, read) = decoded.without_strip(size);
            assert_eq!((cut.size, read), (size, Some(marker)), "{kind} {size}: frame {moment}");
        }
    }
}
