//! A run's summary as JSON and as a table.

use std::fmt::Write as _;

use nearlight_events::{Distribution, STAGES, Summary};
use nearlight_wire::{ApplicationMessage, Base64};

/// Returns the summary as one line of JSON, as docs/json.md describes it.
#[must_use]
pub fn summary_json(summary: &Summary) -> String {
    serde_json::to_string(summary).expect("a summary is plain data")
}

/// Returns an application message as one line of JSON, as docs/json.md describes it.
#[must_use]
pub fn message_json(message: &ApplicationMessage) -> String {
    let (name, content) = match str::from_utf8(&message.data) {
        Ok(text) => ("text", serde_json::json!(text)),
        Err(_) => ("base64", serde_json::json!(Base64(message.data.clone()))),
    };
    serde_json::json!({ "event": "message", "reliable": message.reliable, name: content }).to_string()
}

/// Returns the summary as a table for a terminal.
#[must_use]
pub fn summary_table(summary: &Summary) -> String {
    let Summary {
        frames,
        motion_to_photon_ms: motion,
        input_to_photon_ms: inputs,
        rate_mbps: rate,
        loss,
        recovery,
        stream,
        ..
    } = summary;
    let mut table = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(table, "{name:<18}{text}");
    };
    line("stream", format!("{} by {}, over {}", stream.codec, stream.encoder, stream.transport));
    line("adapter", stream.adapter.clone());
    line("frames", {
        let counts = format!("{} sent, {} completed, {} decoded, ", frames.sent, frames.completed, frames.decoded);
        {
            let damaged = if frames.damaged > 0 { format!(" ({} damaged)", frames.damaged) } else { String::new() };
            format!("{counts}{} displayed{damaged}, {} late, {} lost", frames.displayed, frames.late, frames.lost)
        }
    });
    line("frame rate", format!("{:.2} /s, longest pause {:.0} ms", summary.fps, summary.pause_ms_max));
    line(
        "stalls",
        match (summary.stall_ratio, summary.stalls_per_minute) {
            (Some(ratio), Some(count)) => format!("{:.2} % of the time, {count:.2} a minute", 100.0 * ratio),
            _ => "no picture yet".to_owned(),
        },
    );
    line("motion to photon", percentiles(motion, "frames"));
    line("input to photon", percentiles(inputs, "inputs"));
    line("rate", {
        format!("{:.2} Mb/s target, {:.2} Mb/s sent, {:.2} Mb/s received", rate.target, rate.sent, rate.received)
    });
    line("loss", {
        let counts = format!("{} packets lost, {} symbols retransmitted, ", loss.packets, loss.retransmitted);
        format!("{counts}{} further key frames", loss.key_frames)
    });
    line("redundancy", {
        let counts = [recovery.frames_by_repair, recovery.frames_by_late_repair, recovery.frames_by_retransmission];
        let [repair, late, again] = counts;
        let share = 100.0 * recovery.redundancy_ratio;
        format!("{share:.1} %, frames recovered by FEC {repair}, by late FEC {late}, by retransmission {again}")
    });
    line("recovery", {
        let (reference, key) = (recovery.recovered_by_reference, recovery.recovered_by_key_frame);
        let (mean, most) = (recovery.frames_to_recover_mean, recovery.frames_to_recover_max);
        format!(
            "past lost frames by reference {reference}, by key frame {key}; {mean:.1} newer frames by then, at most {most}"
        )
    });
    if let Some(sound) = &summary.sound {
        let counts = sound.counts;
        line("sound", {
            let delay = sound
                .delay_ms
                .map_or_else(|| "not played".to_owned(), |delay| format!("{delay:.0} ms after the world"));
            let lost =
                format!("{} packets, {} lost, {} blocks concealed", counts.packets, counts.lost, counts.concealed);
            let apart = sound.apart_ms.p50.map(|median| format!(", median {median:.0} ms from its picture"));
            format!("{lost}; {delay}{}", apart.unwrap_or_default())
        });
    }
    line("clocks", format!("known within {:.3} ms", summary.clock_error_ms));
    line("stage", "median     95 %".to_owned());
    for stage in STAGES {
        let share = |name| summary.stages_ms.get(stage.name()).and_then(|shares| shares[name].as_f64());
        let share = |name| share(name).map_or_else(|| format!("{:>9}", "–"), |millis| format!("{millis:>6.2} ms"));
        line(&format!("  {}", stage.name()), format!("{} {}", share("p50"), share("p95")));
    }
    table
}

/// Describes a distribution's percentiles. `samples` names what was sampled.
fn percentiles(distribution: &Distribution, samples: &str) -> String {
    let Distribution { p50: Some(p50), p95: Some(p95), p99: Some(p99), n } = *distribution else {
        return "not known: no displayed picture had a readable marker of a new input".to_owned();
    };
    format!("median {p50:.1} ms, 95 % {p95:.1} ms, 99 % {p99:.1} ms ({n} {samples})")
}

#[cfg(test)]
mod tests {
    use nearlight_events::{FrameCounts, SummaryBuilder, SummaryRest};
    use nearlight_units::Span;

    use super::*;

    #[test]
    fn the_object_has_every_documented_field() {
        let summary =
            SummaryBuilder::default().build(FrameCounts::default(), Span::from_secs(1), SummaryRest::default());
        let object: serde_json::Value = serde_json::from_str(&summary_json(&summary)).expect("JSON");
        let paths = [
            "/frames/sent",
            "/frames/completed",
            "/frames/decoded",
            "/frames/displayed",
            "/frames/late",
            "/frames/lost",
            "/fps",
            "/pause_ms_max",
            "/stall_ratio",
            "/stalls_per_minute",
            "/motion_to_photon_ms/p50",
            "/motion_to_photon_ms/p95",
            "/motion_to_photon_ms/p99",
            "/motion_to_photon_ms/n",
            "/input_to_photon_ms/p50",
            "/input_to_photon_ms/p95",
            "/input_to_photon_ms/p99",
            "/input_to_photon_ms/n",
            "/stage_sum_error_us_max",
            "/rate_mbps/target",
            "/rate_mbps/sent",
            "/rate_mbps/received",
            "/loss/packets",
            "/loss/retransmitted",
            "/loss/key_frames",
            "/recovery/redundancy_ratio",
            "/recovery/repairs",
            "/recovery/recovered_symbols",
            "/recovery/frames_by_repair",
            "/recovery/frames_by_late_repair",
            "/recovery/frames_by_retransmission",
            "/recovery/recovered_by_reference",
            "/recovery/recovered_by_key_frame",
            "/recovery/frames_to_recover_mean",
            "/recovery/frames_to_recover_max",
            "/recovery/residual_frame_loss",
            "/codec",
            "/encoder",
            "/adapter",
            "/transport",
        ];
        for path in paths {
            assert!(object.pointer(path).is_some(), "{path} is missing");
        }
        let stages = "input wait render convert encode pace network reassemble decode present";
        for stage in stages.split(' ') {
            for share in ["p50", "p95"] {
                assert!(object["stages_ms"][stage][share].is_null(), "{stage} {share}");
            }
        }
        let table = summary_table(&summary);
        assert!(stages.split(' ').all(|stage| table.contains(stage)), "{table}");
        assert!(table.contains("no displayed picture") && !table.contains("0.0 ms,"), "nothing was measured: {table}");
    }
}
