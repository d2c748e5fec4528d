//! The browser's counters where it receives by itself, as the page passes them a few times a second.

use nearlight_session::{RtpCounts, RtpSound};
use nearlight_units::Bytes;
use serde::Deserialize;

use crate::server_time;
use crate::sound::BLOCK_MOMENTS;

/// What the browser has counted of the pictures since the session began.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub(crate) struct PictureCounts {
    /// Negative where more arrived than were sent, as with duplicates.
    packets_lost: f64,
    packets: f64,
    bytes: f64,
    /// Packets that arrived more than once.
    repeated_packets: f64,
    redundant_bytes: f64,
    repairs: f64,
    /// Decoded ones.
    key_frames: f64,
}

impl From<PictureCounts> for RtpCounts {
    fn from(counts: PictureCounts) -> Self {
        Self {
            packets_lost: counts.packets_lost as u64,
            packets: counts.packets as u64,
            bytes: Bytes::new(counts.bytes as u64),
            repeated_packets: counts.repeated_packets as u64,
            redundant_bytes: Bytes::new(counts.redundant_bytes as u64),
            repairs: counts.repairs as u64,
            key_frames: counts.key_frames as u64,
        }
    }
}

/// Counters of the sound, which the browser also plays by itself.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub(crate) struct SoundCounts {
    packets: f64,
    packets_lost: f64,
    /// Samples that were concealed.
    concealed: f64,
    /// The moment of the world being heard: microseconds on the server's clock.
    heard: Option<f64>,
}

impl From<SoundCounts> for RtpSound {
    fn from(counts: SoundCounts) -> Self {
        Self {
            packets: counts.packets as u64,
            lost: counts.packets_lost as u64,
            concealed: counts.concealed as u64 / BLOCK_MOMENTS as u64,
            heard: counts.heard.map(server_time),
        }
    }
}
