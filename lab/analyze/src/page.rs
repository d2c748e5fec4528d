//! A study as a page, with the figures of the study it follows: their numbers are in the captions.

mod figures;

use std::fmt::Write as _;

use nearlight_report::{Cell, Chart, Column, Document, Row, Section, Table, Tile};

use crate::study::{DirectionSummary, StreamRow, Study, Video};
use crate::{CaptureSummary, Comparison, DirectionComparison, Disruption, Distribution, PacketGroups, Stalls};

const DOWN: &str = "downlink";
const UP: &str = "uplink";
const VIDEO: &str = "video";

/// The page of a capture, or of two.
pub fn document(study: &Study, comparison: Option<&Comparison>) -> Document {
    let lead = format!(
        "{:.1} s of {} sending to {}: {} packets down, {} up.",
        study.duration_s, study.sender, study.receiver, study.downlink.packets, study.uplink.packets
    );
    let mut document = Document::new("What is in this capture", lead)
        .fact("Capture", capture(&study.capture))
        .colours([DOWN, UP, VIDEO])
        .section(streams(study));
    for warning in &study.warnings {
        document = document.fact("Warning", warning.as_str());
    }
    for warning in comparison.iter().flat_map(|comparison| &comparison.receiver.warnings) {
        document = document.fact("Warning of the receiver's capture", warning.as_str());
    }
    if let Some(video) = &study.video {
        document = document.section(packets_and_frames(video)).section(batches(study, video)).section(arrivals(video));
    }
    if let Some(comparison) = comparison {
        document = document.section(between(comparison));
        if let Some(video) = &comparison.receiver.video {
            document = document.section(received(video));
        }
    }
    document
}

fn capture(capture: &CaptureSummary) -> String {
    let left_out = [
        (capture.not_ip, "not IP"),
        (capture.not_udp, "not UDP"),
        (capture.fragments, "later fragments"),
        (capture.cut_short, "cut short"),
        (capture.unknown_link, "in an unknown link layer"),
        (capture.untimed, "without a time"),
        (capture.dropped, "dropped while capturing"),
        (capture.untracked, "of streams beyond those followed"),
        (capture.beyond_limit, "beyond what frames are looked for in"),
    ];
    let mut words = format!("{} packets, {} UDP datagrams", capture.packets, capture.datagrams);
    for (count, what) in left_out.iter().filter(|left| left.0 > 0) {
        let _ = write!(words, "; {count} {what}");
    }
    words
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn streams(study: &Study) -> Section {
    let mut answer = format!(
        "{} of the bytes go down, at {:.2} Mb/s; {:.2} Mb/s go up.",
        percent(study.downlink.share),
        study.downlink.load_mbps,
        study.uplink.load_mbps
    );
    if let Some(largest) = study.streams.first() {
        let _ = write!(answer, " {} of the downlink is {}.", percent(largest.share), largest.name());
    }
    let own = study.streams.iter().map(|row| stream(row.name(), row));
    let caption = "Streams, as in Table 3. Sizes are those of Ethernet frames without tag and checksum";
    let mut section = Section::new("Which streams are there?")
        .question("Who sends what, how often, and how much?")
        .answer(answer)
        .table(streams_table(caption, own.collect()));
    let beside: Vec<Row> = study
        .beside
        .iter()
        .flat_map(|other| {
            let port = other.port().map_or(String::new(), |port| format!("port {port}: "));
            other.streams.iter().map(move |row| stream(format!("{port}{}", row.name()), row))
        })
        .collect();
    if !beside.is_empty() {
        let caption =
            "Other conversations of the same two machines, by the port at the sender's, shares of each conversation";
        section = section.table(streams_table(caption, beside));
    }
    let tiles: Vec<Tile> = study
        .round_trips()
        .into_iter()
        .filter_map(|(name, who, trip)| {
            let trip = trip.as_ref()?;
            let note = format!("asked by the {who}; median of {}, longest {:.2} ms", trip.count, trip.max);
            Some(Tile::new(format!("{name} round trip"), format!("{:.2}", trip.p50), "ms").note(note))
        })
        .collect();
    if !tiles.is_empty() {
        section = section.tiles(tiles);
    }
    let gaps = |name: &str, direction: &DirectionSummary| direction.gap_ms.clone().map(|gaps| (name.to_owned(), gaps));
    let curves = [gaps(DOWN, &study.downlink), gaps(UP, &study.uplink)].into_iter().flatten().collect();
    section = section.chart(figures::times(
        "Time between packets",
        "Figure 6. All packets of a direction, whatever their stream. A steep rise on the left are packets sent together.",
        curves,
    ));
    if let Some(chart) = figures::evolution(study) {
        section = section.chart(chart);
    }
    section.charts(figures::patterns(study))
}

fn stream(name: String, row: &StreamRow) -> Row {
    let direction = if row.downlink { DOWN } else { UP };
    let cells = vec![
        Cell::text(direction),
        Cell::figure(row.packets as f64),
        Cell::figure(row.mean_size),
        Cell::figure_if(row.mean_gap_ms),
        Cell::figure(row.load_mbps),
        Cell::figure(row.share * 100.0),
        row.sequence.as_ref().map_or(Cell::Empty, |of| Cell::figure(of.missing as f64)),
    ];
    Row::new(name, cells)
}

fn streams_table(caption: &str, rows: Vec<Row>) -> Table {
    Table {
        caption: caption.into(),
        corner: "Stream".into(),
        columns: vec![
            Column::new("Direction", ""),
            Column::new("Packets", "").decimals(0),
            Column::new("Mean size", "B").decimals(1),
            Column::new("Mean time between packets", "ms").decimals(2),
            Column::new("Load", "Mb/s").decimals(4),
            Column::new("Share of direction", "%").decimals(2),
            Column::new("Missing", "").decimals(0),
        ],
        rows,
    }
}

fn tile(name: &str, of: &Distribution, decimals: usize, unit: &str) -> Tile {
    let note = format!("median {:.decimals$}, 99 %: {:.decimals$}", of.p50, of.p99);
    Tile::new(name, format!("{:.decimals$}", of.mean), unit).note(note)
}

fn packets_and_frames(video: &Video) -> Section {
    let frames = &video.frames;
    let how = format!("Frames are told apart {}.", frames.found_by.in_words());
    let source = frames.source_fps.map_or(String::new(), |fps| format!("{fps:.3} on the sender's media clock"));
    let tiles = vec![
        Tile::new("Frame rate", frames.fps.map_or_else(|| "-".to_owned(), |fps| format!("{fps:.2}")), "fps")
            .note(source),
        tile("Frame size", &frames.size_bytes, 0, "B"),
        tile("Packets of a frame", &frames.packets, 1, ""),
        tile("Assembly delay", &frames.assembly_ms, 2, "ms"),
    ];
    let curves = |of: &Option<Distribution>| of.iter().map(|of| (VIDEO.to_owned(), of.clone())).collect();
    Section::new("What does the video look like?")
        .question("How large are frames, how often do they come, and how long does one take to be whole?")
        .answer(format!(
            "{} frames at {}, {:.1} KB each on average; the last packet of a frame comes {:.2} ms after its first. {how}",
            frames.count,
            frames.rate_in_words(),
            frames.size_bytes.mean / 1e3,
            frames.assembly_ms.mean
        ))
        .tiles(tiles)
        .charts(vec![
            figures::sizes("Size of video packets", "Figure 9a.", "Packet size", "B", &video.size_bytes),
            figures::times("Time between video packets", "Figure 9b. Steps tell packets sent together from pauses.", curves(&video.gap_ms)),
            figures::sizes("Size of frames", "Figure 10a.", "Frame size", "KB", &figures::scaled(&frames.size_bytes, 1e-3)),
            figures::linear("Time between frames", "Figure 10b. From first packet to first packet.", frames.interval_ms.as_ref()),
        ])
        .chart(figures::linear(
            "Assembly delay",
            "Figure 15c. From a frame's first packet to its last, where this was captured.",
            Some(&frames.assembly_ms),
        ))
}

fn batches(study: &Study, video: &Video) -> Section {
    let batches = &video.batches;
    let answer = match (batches.interval_ms, batches.on_grid) {
        (Some(interval), Some(grid)) => {
            let kept = match grid {
                grid if grid > 0.8 => "A timer releases them, whatever the frames do",
                grid if grid < 0.5 => "They follow no timer: each frame begins its own",
                _ => "They follow a timer loosely",
            };
            format!(
                "Every {interval:.3} ms, found by autocorrelation. {kept} (they keep to a grid by {grid:.2} of 1). Of {} instants {} had no packet.",
                batches.instants,
                percent(batches.idle_ratio)
            )
        }
        (Some(interval), None) => format!("Every {interval:.3} ms, found by autocorrelation."),
        (None, _) => "No rhythm was found: packets leave evenly, or there are too few.".to_owned(),
    };
    let mut tiles = vec![tile("Packets of a batch", &batches.packets, 1, "")];
    if let Some(per_frame) = &batches.per_frame {
        tiles.insert(0, tile("Batches of a frame", per_frame, 2, ""));
    }
    if let Some(silence) = batches.silence_us {
        let note = "a longer pause ends a batch: the valley in the histogram of gaps";
        tiles.push(Tile::new("Silence", format!("{silence:.0}"), "µs").note(note));
    }
    let mut charts: Vec<Chart> = Vec::new();
    if let Some(per_frame) = &batches.per_frame {
        charts.push(figures::sizes("Batches of a frame", "Figure 12.", "Batches", "", per_frame));
    }
    charts.push(figures::instants(batches));
    Section::new("How is a frame sent?")
        .question("Does the sender let go of a frame at once or in batches, and in what rhythm?")
        .answer(answer)
        .tiles(tiles)
        .chart(figures::staircase(study))
        .charts(charts)
}

fn arrivals(video: &Video) -> Section {
    let together = &video.together;
    let mut section = Section::new("Which packets come as one?")
        .question("Do packets arrive together, as those of a Wi-Fi aggregate do?")
        .answer(format!(
            "{} of the video packets have the time of the one before; {} are in groups less than {:.0} µs apart, of {:.1} packets on average.",
            percent(together.simultaneous_ratio),
            percent(together.grouped_ratio),
            together.within_us,
            together.group.mean
        ))
        .chart(figures::sizes("Packets that come as one", "Figure 18, where this was captured behind Wi-Fi.", "Packets", "", &together.group));
    if let Some(jitter) = &video.jitter_ms {
        section = section.tiles(vec![tile("Jitter", jitter, 2, "ms")]);
    }
    section.note(
        "A capture does not see aggregates. Packets that leave a sender's network card one after the other look the same as packets of one \
         aggregate: only a capture at the receiver, behind Wi-Fi, says something about the air.",
    )
}

fn between(comparison: &Comparison) -> Section {
    let row = |name: &str, direction: &DirectionComparison| {
        let delay = direction.delay_ms.as_ref();
        Row::new(
            name,
            vec![
                Cell::figure(direction.sent as f64),
                Cell::figure(direction.loss_ratio * 100.0),
                Cell::figure(direction.duplicated as f64),
                Cell::figure(direction.repeated as f64),
                Cell::figure_if(direction.reordered.map(|count| count as f64)),
                Cell::figure(direction.unseen as f64),
                Cell::figure_if(delay.map(|delay| delay.p50)),
                Cell::figure_if(delay.map(|delay| delay.p99)),
                Cell::figure_if(delay.map(|delay| delay.p9999)),
            ],
        )
    };
    let whole = |name: &str| Column::new(name, "").decimals(0);
    let table = Table {
        caption: "Packets that left while both captures ran".into(),
        corner: "Direction".into(),
        columns: vec![
            whole("Sent"),
            Column::new("Lost", "%").decimals(3),
            whole("Doubled on the way"),
            whole("Sent again"),
            whole("Out of order"),
            whole("Not seen to leave"),
            Column::new("Delay, median", "ms").decimals(3),
            Column::new("Delay, 99 %", "ms").decimals(3),
            Column::new("Delay, 99.99 %", "ms").decimals(3),
        ],
        rows: directions(comparison).map(|(name, direction)| row(name, direction)).collect(),
    };
    let mut section = Section::new("What did the network do?")
        .question("How long did packets take, how many were lost, and how was their timing changed?")
        .answer(summary_in_words(comparison))
        .table(table)
        .table(disruption(comparison));
    if let Some(chart) = figures::delays_over_time(comparison) {
        section = section.chart(chart);
    }
    section.charts(figures::changed_gaps(comparison))
}

/// Directions that both captures have packets of.
fn directions(comparison: &Comparison) -> impl Iterator<Item = (&'static str, &DirectionComparison)> {
    [(DOWN, &comparison.downlink), (UP, &comparison.uplink)].into_iter().filter(|direction| !direction.1.is_empty())
}

/// Summarises the comparison as far as possible: a direction may be missing, and without a common clock there are no delays.
fn summary_in_words(comparison: &Comparison) -> String {
    let sentence = |(name, direction): (&str, &DirectionComparison)| {
        let mut words = format!("On the {name} {} of the packets were lost", percent(direction.loss_ratio));
        if let Some(delay) = &direction.delay_ms {
            let _ = write!(words, ", half of the others took up to {:.2} ms", delay.p50);
        }
        if let Some(Stalls { count, over_ms, .. }) = &direction.disruption.stalls {
            let _ = write!(words, ", and {count} times packets were due and none came for over {over_ms:.0} ms");
        }
        words + ". "
    };
    directions(comparison).map(sentence).collect::<String>() + &comparison.clock_in_words()
}

fn disruption(comparison: &Comparison) -> Table {
    let row = |name: &str, direction: &DirectionComparison| {
        let Disruption { gap_change_ms, sent_together, received_together, stalls, lost_in_a_row } =
            &direction.disruption;
        let share = |of: &Option<PacketGroups>| Cell::figure_if(of.as_ref().map(|of| of.simultaneous_ratio * 100.0));
        Row::new(
            name,
            vec![
                share(sent_together),
                share(received_together),
                Cell::figure_if(gap_change_ms.as_ref().map(|change| change.p50)),
                Cell::figure_if(gap_change_ms.as_ref().map(|change| change.p99)),
                Cell::figure_if(stalls.as_ref().map(|stalls| stalls.count as f64)),
                Cell::figure_if(stalls.as_ref().map(|stalls| stalls.longest_ms)),
                Cell::figure_if(stalls.as_ref().map(|stalls| stalls.time_ratio * 100.0)),
                Cell::figure_if(lost_in_a_row.as_ref().map(|run| run.mean)),
                Cell::figure_if(lost_in_a_row.as_ref().map(|run| run.max)),
            ],
        )
    };
    Table {
        caption: "What became of the timing: a stall is a silence in which a packet was due".into(),
        corner: "Direction".into(),
        columns: vec![
            Column::new("Simultaneous where sent", "%").decimals(1),
            Column::new("Simultaneous where received", "%").decimals(1),
            Column::new("Gaps changed by, median", "ms").decimals(3),
            Column::new("Gaps changed by, 99 %", "ms").decimals(3),
            Column::new("Stalls", "").decimals(0),
            Column::new("Longest stall", "ms").decimals(1),
            Column::new("Time stalled", "%").decimals(2),
            Column::new("Lost in a row, mean", "").decimals(2),
            Column::new("Lost in a row, most", "").decimals(0),
        ],
        rows: directions(comparison).map(|(name, direction)| row(name, direction)).collect(),
    }
}

fn received(video: &Video) -> Section {
    let frames = &video.frames;
    Section::new("What arrived?")
        .question("What does the video look like at the receiver?")
        .answer(format!(
            "Frames at {}, whole {:.2} ms after their first packet on average; {} of the packets come in groups, of {:.1} on average.",
            frames.rate_in_words(),
            frames.assembly_ms.mean,
            percent(video.together.grouped_ratio),
            video.together.group.mean
        ))
        .charts(vec![
            figures::linear("Assembly delay at the receiver", "Figure 15c.", Some(&frames.assembly_ms)),
            figures::sizes("Packets that arrive as one", "Figure 18.", "Packets", "", &video.together.group),
        ])
}
