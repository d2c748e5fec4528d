//! Measures end-to-end distortion over the rates of Nebula's ladder at 1080p: prints the CSV that `src/encoder/distortion.csv` holds.
//!
//! `cargo run --release -p nearlight-lab --example distortion > crates/lab/src/encoder/distortion.csv`

use nearlight_codec::{CodecError, CodecKind};
use nearlight_lab::distortion::{Setting, measure};
use nearlight_units::Bitrate;

fn main() -> Result<(), CodecError> {
    println!("kbps_wanted,bps,frame_loss,encoder,transmission,decoder,freeze");
    for kbps in [1_000, 1_800, 2_500, 3_500, 4_500, 6_500, 9_000] {
        let point = measure(&Setting::NEBULA, CodecKind::Vp8, Bitrate::from_kbps(kbps), 1)?;
        let rest = [point.frame_loss, point.encoder, point.transmission, point.decoder, point.freeze];
        let rest: Vec<String> = rest.iter().map(|value| format!("{value:.4}")).collect();
        println!("{kbps},{:.0},{}", point.rate, rest.join(","));
    }
    Ok(())
}
