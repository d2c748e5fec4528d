//! The charts of a study's page.

use nearlight_report::statistics::Ecdf;
use nearlight_report::{Axis, Bar, Bars, Chart, Ecdfs, Lines, Plot, Series};

use super::{DOWN, UP, VIDEO, directions};
use crate::batches::Batches;
use crate::study::{Dot, Study};
use crate::{Comparison, DirectionComparison, Distribution};

fn ecdf(x: Axis, curves: Vec<(String, Distribution)>) -> Plot {
    let curves = curves.into_iter().filter_map(|(name, of)| Some((name, Ecdf::new(of.curve)?)));
    Plot::Ecdf(Ecdfs { x, curves: curves.collect(), moments: Vec::new() })
}

/// Times from microseconds to seconds.
pub(super) fn times(title: &str, caption: &str, curves: Vec<(String, Distribution)>) -> Chart {
    Chart::new(title, caption, ecdf(Axis::new("Time", "ms").logarithmic(), curves))
}

/// Times of one order.
pub(super) fn linear(title: &str, caption: &str, of: Option<&Distribution>) -> Chart {
    // One frame in a thousand should not push the others together.
    let to = of.map_or(1.0, |of| (of.p99 * 1.5).min(of.max).max(1e-3));
    let curves = of.map(|of| (VIDEO.to_owned(), of.clone())).into_iter().collect();
    Chart::new(title, caption, ecdf(Axis::new("Time", "ms").range(0.0, to), curves))
}

pub(super) fn sizes(title: &str, caption: &str, quantity: &str, unit: &str, of: &Distribution) -> Chart {
    let axis = Axis::new(quantity, unit).range(0.0, of.max * 1.05);
    Chart::new(title, caption, ecdf(axis, vec![(VIDEO.to_owned(), of.clone())]))
}

pub(super) fn scaled(of: &Distribution, factor: f64) -> Distribution {
    let curve = of.curve.iter().map(|value| value * factor).collect();
    Distribution { curve, max: of.max * factor, ..of.clone() }
}

fn dots(name: impl Into<String>, dots: &[Dot], from: f64, to: f64) -> Series {
    let points = dots.iter().map(|dot| (dot.at.as_millis_f64(), f64::from(dot.size)));
    Series::dots(name, points.filter(|point| (from..to).contains(&point.0)).collect())
}

/// All streams over a tenth of a second: the largest ones' packets, where each stream has some.
pub(super) fn evolution(study: &Study) -> Option<Chart> {
    const TIMELINE_MS: f64 = 100.0;
    let busiest = study.excerpts.streams.first()?;
    // From where the excerpt of the largest stream allows it.
    let last = busiest.last()?.at.as_millis_f64();
    let from = (last - TIMELINE_MS).max(0.0) / 2.0;
    let rows = study.streams.iter().zip(&study.excerpts.streams);
    let series: Vec<Series> = rows
        .map(|(row, packets)| {
            let direction = if row.downlink { DOWN } else { UP };
            dots(format!("{} {direction}", row.kind.name()), packets, from, from + TIMELINE_MS)
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    Some(Chart::new(
        "A tenth of a second",
        "Figure 7. Each dot is a packet of its size. Columns of dots are batches; their distance is the rhythm of the sender.",
        Plot::Lines(Lines {
            x: Axis::new("Time", "ms").range(from, from + TIMELINE_MS),
            y: Axis::new("Packet size", "B").range(0.0, 1_500.0),
            series,
            ..Lines::default()
        }),
    ))
}

/// Each stream but the largest over as long as it takes to see a pattern.
pub(super) fn patterns(study: &Study) -> Vec<Chart> {
    /// Most packets shown of a pattern.
    const MAX_PACKETS_SHOWN: usize = 60;
    /// Most streams drawn.
    const MAX_STREAMS_SHOWN: usize = 8;
    let rows = study.streams.iter().zip(&study.excerpts.streams).skip(1);
    let charts = rows.filter(|row| row.1.len() > 2).take(MAX_STREAMS_SHOWN).map(|(row, packets)| {
        let shown = &packets[..packets.len().min(MAX_PACKETS_SHOWN)];
        let (first, last) = (shown[0].at.as_millis_f64(), shown[shown.len() - 1].at.as_millis_f64());
        let direction = if row.downlink { DOWN } else { UP };
        let name = format!("{} {direction}", row.kind.name());
        let caption = format!(
            "Figure 8. The first {} packets; {:.2} ms apart on average.",
            shown.len(),
            row.mean_gap_ms.unwrap_or(0.0)
        );
        let margin = ((last - first) * 0.02).max(1e-3);
        let top = shown.iter().map(|dot| dot.size).max().unwrap_or(0);
        Chart::new(
            format!("{} {direction}", row.name()),
            caption,
            Plot::Lines(Lines {
                x: Axis::new("Time", "ms").range(first - margin, last + margin),
                y: Axis::new("Packet size", "B").range(0.0, f64::from(top) * 1.2),
                series: vec![dots(name, shown, f64::NEG_INFINITY, f64::INFINITY)],
                ..Lines::default()
            }),
        )
    });
    charts.collect()
}

/// Video packets by frame.
pub(super) fn staircase(study: &Study) -> Chart {
    let packets = &study.excerpts.video;
    let last = packets.iter().map(|dot| dot.at.as_millis_f64()).fold(0.0, f64::max);
    let points = |odd: u32| {
        let own = packets.iter().filter(move |dot| dot.batch % 2 == odd);
        let mut points: Vec<(f64, f64)> = own.map(|dot| (dot.at.as_millis_f64(), f64::from(dot.frame) + 1.0)).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    };
    Chart::new(
        "Packets of nine frames",
        "Figure 11. A step is a frame, a dot a packet of it; batches take turns in colour. Dots of one column on two steps are a batch with \
         packets of two frames; wide gaps between columns are instants without a packet.",
        Plot::Lines(Lines {
            x: Axis::new("Time", "ms").range(-0.02 * last, 1.02 * last.max(1e-3)),
            y: Axis::new("Frame", "").range(0.0, 10.0),
            series: vec![Series::dots("one batch", points(0)), Series::dots("the next batch", points(1))],
            ..Lines::default()
        }),
    )
}

/// Plots how many packets leave at an instant.
pub(super) fn instants(batches: &Batches) -> Chart {
    /// Bars, besides that of idle instants.
    const MAX_BARS: usize = 12;
    let counts = &batches.packets_of_instant;
    let width = (counts.len().saturating_sub(1)).div_ceil(MAX_BARS).max(1);
    let share = |count: u64| count as f64 / batches.instants.max(1) as f64 * 100.0;
    let bar = |name: String, count: u64| Bar { name, value: share(count), ..Bar::default() };
    let mut rows = vec![bar("none".into(), counts[0])];
    for (index, group) in counts[1..].chunks(width).enumerate() {
        let from = 1 + index * width;
        let to = from + group.len() - 1;
        let name = if from == to { from.to_string() } else { format!("{from} to {to}") };
        rows.push(bar(name, group.iter().sum()));
    }
    Chart::new(
        "Packets of an instant",
        "Figure 13. Share of the instants by how many video packets they had; the first bar are idle ones.",
        Plot::Bars(Bars { x: Axis::new("Instants", "%"), rows }),
    )
}

/// Plots delays over time. None without a common clock.
pub(super) fn delays_over_time(comparison: &Comparison) -> Option<Chart> {
    comparison.clock.as_ref()?;
    let series = |name: &str, direction: &DirectionComparison| Series::dots(name, direction.delays.clone());
    let mut series: Vec<Series> = directions(comparison).map(|(name, direction)| series(name, direction)).collect();
    for one in &mut series {
        one.points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    Some(Chart::new(
        "One-way delay",
        "After the clocks were fitted. A floor that rises or falls would say that they were not.",
        Plot::Lines(Lines { x: Axis::new("Time", "s"), y: Axis::new("Delay", "ms"), series, ..Lines::default() }),
    ))
}

pub(super) fn changed_gaps(comparison: &Comparison) -> Vec<Chart> {
    let chart = |title: &str, direction: &DirectionComparison| {
        let named = |name: &str, of: &Option<Distribution>| of.clone().map(|of| (name.to_owned(), of));
        let curves = [named("where sent", &direction.sent_gap_ms), named("where received", &direction.received_gap_ms)];
        times(
            title,
            "Figure 16. The further apart the curves, the more the network changed.",
            curves.into_iter().flatten().collect(),
        )
    };
    directions(comparison).map(|(name, direction)| chart(&format!("Time between packets, {name}"), direction)).collect()
}
