//! A study as lines of text.

use std::fmt::Write as _;

use crate::{Comparison, DirectionComparison, Disruption, Distribution, Stalls, StreamRow, Study};

/// Terminal output for one capture, or for two.
pub fn words(study: &Study, comparison: Option<&Comparison>) -> String {
    let mut text = format!("{} to {}, {:.1} s\n\n", study.sender, study.receiver, study.duration_s);
    let _ = writeln!(text, "{:<50}{:>10}{:>10}{:>10}{:>12}{:>9}", "", "packets", "mean B", "ms apart", "Mb/s", "share");
    streams(&mut text, &study.streams);
    for other in &study.beside {
        let _ = writeln!(text, "\nbeside it {} to {}", other.sender, other.receiver);
        streams(&mut text, &other.streams);
    }
    let round_trips = study.round_trips();
    if round_trips.iter().any(|(.., trip)| trip.is_some()) {
        text.push_str("\nround trips, by what tells them and who asked\n");
    }
    for (name, who, trip) in round_trips {
        line(&mut text, &format!("{name}, the {who}"), "ms", trip.as_ref());
    }
    if let Some(video) = &study.video {
        let (frames, batches) = (&video.frames, &video.batches);
        let rate = frames.fps.map_or_else(|| "which tell no rate".to_owned(), |fps| format!("{fps:.3} fps"));
        let _ = writeln!(text, "\nvideo: {} frames, {rate}, {}", frames.count, frames.found_by.in_words());
        line(&mut text, "frame size", "B", Some(&frames.size_bytes));
        line(&mut text, "between frames", "ms", frames.interval_ms.as_ref());
        line(&mut text, "assembly delay", "ms", Some(&frames.assembly_ms));
        line(&mut text, "batches of a frame", "", batches.per_frame.as_ref());
        line(&mut text, "packets of a batch", "", Some(&batches.packets));
        line(&mut text, "packets that came as one", "", Some(&video.together.group));
        match batches.interval_ms {
            Some(interval) => {
                let idle = batches.idle_ratio * 100.0;
                let _ =
                    writeln!(text, "batches every {interval:.3} ms; {idle:.1} % of {} instants idle", batches.instants);
            }
            None => text.push_str("batches in no rhythm\n"),
        }
    }
    if let Some(comparison) = comparison {
        let _ = writeln!(text, "\n{}", comparison.clock_in_words());
        for (name, of) in [("downlink", &comparison.downlink), ("uplink", &comparison.uplink)] {
            if !of.is_empty() {
                direction(&mut text, name, of);
            }
        }
    }
    text
}

fn streams(text: &mut String, rows: &[StreamRow]) {
    for (down, heading) in [(true, "downlink"), (false, "uplink")] {
        let _ = writeln!(text, "{heading}");
        for row in rows.iter().filter(|row| row.downlink == down) {
            let gap = row.mean_gap_ms.map_or_else(|| "-".to_owned(), |gap| format!("{gap:.2}"));
            let _ = writeln!(
                text,
                "  {:<48}{:>10}{:>10.2}{gap:>10}{:>12.4}{:>7.1} %",
                row.name(),
                row.packets,
                row.mean_size,
                row.load_mbps,
                row.share * 100.0
            );
        }
    }
}

fn direction(text: &mut String, name: &str, direction: &DirectionComparison) {
    let order = direction.reordered.map_or_else(String::new, |count| format!(", {count} out of order"));
    let _ = writeln!(
        text,
        "{name}: {} of {} lost, {} doubled, {} sent again{order}",
        direction.lost, direction.sent, direction.duplicated, direction.repeated
    );
    line(text, "delay", "ms", direction.delay_ms.as_ref());
    let Disruption { gap_change_ms, sent_together, received_together, stalls, lost_in_a_row } = &direction.disruption;
    line(text, "gaps changed by", "ms", gap_change_ms.as_ref());
    line(text, "lost in a row", "", lost_in_a_row.as_ref());
    if let (Some(sent), Some(received)) = (sent_together, received_together) {
        let _ = writeln!(
            text,
            "  simultaneous              {:.1} % where sent, {:.1} % where received",
            sent.simultaneous_ratio * 100.0,
            received.simultaneous_ratio * 100.0
        );
    }
    if let Some(Stalls { over_ms, count, longest_ms, time_ratio }) = stalls {
        let _ = writeln!(
            text,
            "  stalls over {over_ms:.1} ms       {count}, the longest {longest_ms:.1} ms, {:.2} % of the time",
            time_ratio * 100.0
        );
    }
}

fn line(text: &mut String, name: &str, unit: &str, of: Option<&Distribution>) {
    if let Some(of) = of {
        let Distribution { mean, p50, p99, max, .. } = of;
        let _ = writeln!(text, "  {name:<26}mean {mean:.2} {unit}, median {p50:.2}, 99 % {p99:.2}, most {max:.2}");
    }
}
