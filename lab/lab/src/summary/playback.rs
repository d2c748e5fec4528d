//! Figures of players of adaptive streaming.

use nearlight_report::statistics::jain as jain_index;

use super::{Samples, Take};
use crate::record::{PlaybackRecord, RivalRecord, RunRecord};

/// Takes the metrics of all players, with equal weight.
pub(super) fn metrics(run: &RunRecord, take: Take<'_>) {
    let players = || run.rivals.iter().filter_map(|rival| rival.playback.as_ref());
    let each = |figure: fn(&PlaybackRecord) -> Option<f64>| Samples::Values(players().filter_map(figure).collect());
    for (name, figure) in FIGURES {
        take(name, each(figure));
    }
    let rates: Vec<f64> = players().filter_map(bitrate).collect();
    if rates.len() > 1 {
        take("playback_jain", Samples::Values(jain_index(&rates).into_iter().collect()));
    }
}

/// Takes the metrics of one flow, if it is a player.
pub(super) fn of_player(rival: &RivalRecord, take: Take<'_>) {
    let Some(playback) = &rival.playback else { return };
    for (name, figure) in FIGURES {
        take(name, Samples::Values(figure(playback).into_iter().collect()));
    }
}

type Figure = fn(&PlaybackRecord) -> Option<f64>;

const FIGURES: [(&str, Figure); 6] = [
    ("playback_startup_s", |playback| playback.startup.map(nearlight_units::Span::as_secs_f64)),
    ("playback_mbps", bitrate),
    ("playback_switches", |playback| Some(playback.switches as f64)),
    ("playback_stalls", |playback| Some(playback.stalls as f64)),
    ("playback_stalled_s", |playback| Some(playback.stalled.as_secs_f64())),
    ("playback_quality", quality),
];

fn seconds(playback: &PlaybackRecord) -> f64 {
    playback.played.iter().map(|span| span.as_secs_f64()).sum()
}

/// Returns the mean played bit rate in Mb/s.
fn bitrate(playback: &PlaybackRecord) -> Option<f64> {
    let bits = playback.played.iter().zip(&playback.ladder).map(|(span, kbps)| span.as_secs_f64() * *kbps as f64);
    let played = seconds(playback);
    (played > 0.0).then(|| bits.sum::<f64>() / played / 1e3)
}

/// Returns the mean position of the bit rate on the ladder, from 0 for the lowest to 100 for the highest. Time without a picture counts as 0.
fn quality(playback: &PlaybackRecord) -> Option<f64> {
    let top = playback.ladder.len().saturating_sub(1).max(1) as f64;
    let places = playback.played.iter().enumerate().map(|(rung, span)| rung as f64 / top * span.as_secs_f64());
    let watched = playback.watched.as_secs_f64();
    (watched > 0.0).then(|| 100.0 * places.sum::<f64>() / watched)
}

#[cfg(test)]
mod tests {
    use nearlight_units::Span;

    use super::*;

    #[test]
    fn quality_counts_the_place_on_the_ladder_and_time_without_a_picture_as_nothing() {
        let played = [0, 10, 30].map(Span::from_secs).to_vec();
        let ladder = vec![100, 1_000, 4_000];
        let playback = PlaybackRecord { ladder, played, watched: Span::from_secs(50), ..PlaybackRecord::default() };
        assert!((quality(&playback).expect("played") - 100.0 * (0.5 * 10.0 + 30.0) / 50.0).abs() < 1e-9);
        assert!((bitrate(&playback).expect("played") - 3.25).abs() < 1e-9);
        let nothing = PlaybackRecord { ladder: vec![100], ..PlaybackRecord::default() };
        assert_eq!((quality(&nothing), bitrate(&nothing)), (None, None));
    }
}
