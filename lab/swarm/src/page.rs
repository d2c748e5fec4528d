//! A run as an HTML page.

use std::collections::BTreeMap;

use nearlight_report::{Axis, Bar, Bars, Cell, Chart, Column, Document, Ecdfs, Plot, Row, Section, Table, Tile};

use nearlight_report::statistics::Ecdf;

use crate::tally::MAX_FLUENT_DELAY;
use crate::{Carrier, Quantiles, Summary, Video, Voices};

const ALL: &str = "seen by all";
const ONE: &str = "seen by one";
const NAIVE: &str = "naive broadcast, seen by all";
const STARTUP: &str = "start-up";

/// `fact` names the server, or what was simulated.
#[must_use]
pub fn document(summary: &Summary, fact: &str) -> Document {
    let Summary { members, rooms, joined, .. } = summary;
    let behaviours: Vec<String> = summary
        .behaviours
        .iter()
        .map(|behaviour| {
            serde_json::to_value(behaviour).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
        })
        .collect();
    let lead = format!(
        "{joined} of {members} synthetic members joined {}. They sent {} poses a second each while they moved.",
        if *rooms == 1 { "one room".to_owned() } else { format!("{rooms} rooms") },
        summary.pose_hz
    );
    let mut document = Document::new("A crowd in rooms", lead)
        .fact(if summary.virtual_time { "Path" } else { "Server" }, fact)
        .fact("Behaviours", behaviours.join(", "))
        .fact("Carrier", summary.carrier.map_or("packets of the path", Carrier::name))
        .fact(
            "Length",
            format!("{:.0} s{}", summary.seconds, if summary.complete { "" } else { ", stopped before its end" }),
        )
        .fact("Time", if summary.virtual_time { "virtual" } else { "real" })
        .colours([ALL, ONE, NAIVE, STARTUP])
        .section(interaction(summary))
        .section(correctness(summary))
        .section(startup(summary))
        .section(cost(summary));
    if let Some(voices) = &summary.voices {
        document = document.section(spoken(voices));
    }
    if let Some(video) = &summary.video {
        document = document.section(watched(video));
    }
    if !summary.ended.is_empty() {
        document = document.section(ended(summary));
    }
    document
}

fn tile(name: &str, quantiles: Option<Quantiles>) -> Tile {
    let value = |value: f64| format!("{value:.1}");
    match quantiles {
        Some(figures) => Tile::new(name, value(figures.p50), "ms").note(format!(
            "median; 95 %: {:.1} ms, 99 %: {:.1} ms, longest: {:.1} ms, of {}",
            figures.p95, figures.p99, figures.max, figures.count
        )),
        None => Tile::new(name, "-", "").note("no samples"),
    }
}

fn curves(curves: [(&str, &[f64]); 3]) -> Vec<(String, Ecdf)> {
    curves.into_iter().filter_map(|(name, samples)| Some((name.to_owned(), Ecdf::new(samples.to_vec())?))).collect()
}

fn interaction(summary: &Summary) -> Section {
    let limit = MAX_FLUENT_DELAY.as_millis_f64();
    let naive: &[f64] = summary.naive.as_ref().map_or(&[], |naive| &naive.interaction_samples);
    // The chart ends with the longest delay.
    let all = [&summary.interaction_samples[..], &summary.delivery_samples[..], naive].into_iter().flatten();
    let longest = all.copied().fold(0.0, f64::max);
    let plot = Ecdfs {
        x: Axis::new("Delay", "ms").logarithmic(),
        curves: curves([(ALL, &summary.interaction_samples), (ONE, &summary.delivery_samples), (NAIVE, naive)]),
        moments: if longest >= limit { vec![(limit, "fluent".to_owned())] } else { Vec::new() },
    };
    let caption = "Share of actions whose effect was seen at most so long after they were asked for: by every member of the room, and by \
                   each member by itself. The further left, the better.";
    let fluency = summary.fluency.map_or_else(|| "-".to_owned(), |share| format!("{:.2}", share * 100.0));
    let answer = match summary.interaction_ms {
        Some(figures) => format!(
            "Half of all shared actions were seen by everybody in the room after {:.1} ms, 99 % after {:.1} ms.",
            figures.p50, figures.p99
        ),
        None => "Nobody acted, or nobody saw it.".to_owned(),
    };
    let section = Section::new("Interaction")
        .question("How long until everybody in a room sees what one of them does?")
        .answer(answer)
        .tiles(vec![
            tile("Interaction latency", summary.interaction_ms),
            Tile::new("Collaborative fluency", fluency, "%")
                .note(format!("of {} shared actions were seen by all within {limit:.0} ms", summary.shared_actions)),
        ]);
    if plot.curves.is_empty() {
        section
    } else {
        section.chart(Chart::new("Until an action is seen", caption, Plot::Ecdf(plot)))
    }
}

fn correctness(summary: &Summary) -> Section {
    let good = summary.lost_events == 0 && summary.disagreeing == 0 && summary.unanswered_actions == 0;
    let answer = if good {
        format!("Yes: nothing was lost, and all {} members that were compared at rest agree.", summary.compared)
    } else {
        "No: see the figures.".to_owned()
    };
    let count = |name: &str, value: u64, note: &str| Tile::new(name, value.to_string(), "").note(note);
    Section::new("Agreement")
        .question("Did everybody see everything, and is it the same everywhere at rest?")
        .answer(answer)
        .tiles(vec![
            count("Lost events", summary.lost_events, "changes that a member should have seen one by one and did not"),
            count(
                "Disagreeing",
                summary.disagreeing,
                "members that know something else than most of their room at rest",
            ),
            count("Unanswered", summary.unanswered_actions, "actions of which nobody saw an effect or a refusal"),
            count("Refused", summary.refused_actions, "actions that came too late: somebody else was first"),
        ])
}

fn startup(summary: &Summary) -> Section {
    let plot = Ecdfs {
        x: Axis::new("Delay", "ms").logarithmic(),
        curves: curves([(STARTUP, &summary.startup_samples), ("", &[]), ("", &[])]),
        moments: Vec::new(),
    };
    let caption = "Share of members that knew their room at most so long after they began to connect.";
    let section = Section::new("Start-up and stalls")
        .question("How long does joining take, and does the room fall silent?")
        .answer(format!(
            "Members noticed {} stalls, {:.2} s together: nothing arrived for more than 250 ms while others moved.",
            summary.stalls, summary.stalled_seconds
        ))
        .tiles(vec![
            tile("Start-up delay", summary.startup_ms),
            Tile::new("Came again", summary.retries.to_string(), "")
                .note("attempts to join after the server had asked a member to come again"),
        ]);
    if plot.curves.is_empty() {
        section
    } else {
        section.chart(Chart::new("Until the room is known", caption, Plot::Ecdf(plot)))
    }
}

fn cost(summary: &Summary) -> Section {
    let kibibytes = |bytes: f64| bytes / 1_024.0;
    let columns =
        vec![Column::new("Received by a member", "KiB/s").decimals(2), Column::new("Server", "cores").decimals(3)];
    let mut rows = vec![Row::new(
        "rooms",
        vec![Cell::figure(kibibytes(summary.received_bytes_per_second)), Cell::figure_if(summary.server_cores)],
    )];
    let mut bars = vec![("rooms", summary.received_bytes_per_second)];
    if let Some(naive) = &summary.naive {
        let cells = vec![Cell::figure(kibibytes(naive.received_bytes_per_second)), Cell::figure_if(naive.server_cores)];
        rows.push(Row::new("naive broadcast", cells));
        bars.push(("naive broadcast", naive.received_bytes_per_second));
    }
    let table = Table {
        caption: "Messages without the headers of WebSocket, QUIC, TCP, UDP and IP. The naive broadcast forwards every pose as JSON to everybody else in \
                  the room."
            .to_owned(),
        corner: "Poses by".to_owned(),
        columns,
        rows,
    };
    let bars = Bars {
        x: Axis::new("Received by a member", "KiB/s"),
        rows: bars.into_iter().map(|(name, bytes)| bar(name, kibibytes(bytes))).collect(),
    };
    Section::new("Cost")
        .question("What does a neighbour cost?")
        .answer(format!(
            "{:.2} KiB/s for each other member of the room; a member sends {:.2} KiB/s.",
            kibibytes(summary.received_bytes_per_neighbour_per_second),
            kibibytes(summary.sent_bytes_per_second)
        ))
        .table(table)
        .chart(Chart::new(
            "Bytes of one member",
            "What one member receives on the average. Less is better.",
            Plot::Bars(bars),
        ))
}

fn spoken(voices: &Voices) -> Section {
    Section::new("Voices")
        .question("How long until a member is heard?")
        .answer(match voices.delay_ms {
            Some(delays) => format!(
                "Half of all packets of voices were heard after {:.1} ms, 99 % after {:.1} ms.",
                delays.p50, delays.p99
            ),
            None => "Nobody heard anybody.".to_owned(),
        })
        .tiles(vec![
            tile("Voice", voices.delay_ms),
            Tile::new("Sent", voices.sent.to_string(), "")
                .note("packets; each is heard by those near the speaker, who hear eight others at most"),
        ])
}

fn watched(video: &Video) -> Section {
    let mut section = Section::new("Video")
        .question("What do members get that also take the server's video stream?")
        .answer(format!(
            "{} of {} clients got pictures: {:.1} a second and {:.2} Mb/s each on the average.",
            video.watched, video.clients, video.fps, video.received_mbps
        ))
        .tiles(vec![
            tile("First picture", video.startup_ms),
            tile("Capture to decoder", video.frame_ms),
            Tile::new("Stalled", format!("{:.2}", video.stall_ratio * 100.0), "%").note("of the time, on the average"),
            Tile::new("Late", video.late.to_string(), "").note("pictures after their deadline"),
            Tile::new("Lost", video.lost.to_string(), "").note("pictures that never came"),
        ]);
    if !video.failed.is_empty() {
        section = section.table(reasons("Clients without a picture.", "Clients", &video.failed));
    }
    section
}

fn ended(summary: &Summary) -> Section {
    let table = reasons("Memberships that ended before the run did, or did not begin.", "Members", &summary.ended);
    Section::new("Members that left early").question("Who was not there to the end?").table(table)
}

fn reasons(caption: &str, who: &str, counts: &BTreeMap<String, u64>) -> Table {
    let row = |(words, count): (&String, &u64)| Row::new(words.clone(), vec![Cell::figure(*count as f64)]);
    Table {
        caption: caption.to_owned(),
        corner: "Reason".to_owned(),
        columns: vec![Column::new(who, "").decimals(0)],
        rows: counts.iter().map(row).collect(),
    }
}

fn bar(name: &str, value: f64) -> Bar {
    Bar { name: name.to_owned(), value, ci95: None, published: None }
}
