//! Measures frame sizes of OpenH264 on the moving picture, for the model of them: prints the CSV that `src/encoder/fit.csv` holds.
//!
//! `cargo run --release -p nearlight-lab --example fit > lab/lab/src/encoder/fit.csv`

use nearlight_codec::{CodecError, CodecKind, Size};
use nearlight_lab::{Capture, Content, FrameEncoder, PictureEncoder, PictureSource};
use nearlight_units::{Bitrate, Span, Time};

/// OpenH264 assumes at most 60 frames a second (`MAX_FRAME_RATE`): above, it exceeds its rate in proportion.
const FPS: u16 = 60;
const FRAMES: u32 = 432;
/// Interval of key frame requests, in frames. The rate halves in the middle of the run.
const KEY_EVERY: u32 = 144;
const HALVED_AT: u32 = 216;

fn main() -> Result<(), CodecError> {
    println!("size,mbps,frame,target_bytes,key,bytes");
    for (size, rates) in [((640, 360), &[2, 10][..]), ((1280, 720), &[15][..])] {
        let size = Size { width: size.0, height: size.1 };
        for &mbps in rates {
            let full = Bitrate::from_mbps(mbps);
            let mut encoder =
                PictureEncoder::new(CodecKind::H264, PictureSource::new(Content::Sample, size), FPS, full)?;
            for number in 0..FRAMES {
                let rate = if number < HALVED_AT { full } else { full.mul_f64(0.5) };
                let key = number % KEY_EVERY == KEY_EVERY - 1;
                let at = Time::ZERO + Span::from_secs(i64::from(number)) / i64::from(FPS);
                let coded = encoder.encode(&Capture::plain(number, at, rate, key))?;
                let target = rate.as_bps() / 8 / u64::from(FPS);
                println!("{size},{mbps},{number},{target},{},{}", u8::from(coded.is_key()), coded.bits.len());
            }
        }
    }
    Ok(())
}
