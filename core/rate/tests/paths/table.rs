//! How each controller does on a set of links, as a table of numbers: a change of behaviour is a visible difference.
//!
//! `NEARLIGHT_UPDATE=1 cargo test -p nearlight-rate --test paths table` writes the tables anew.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread;

use crate::link::{Link, Path, Summary};
use nearlight_rate::{Bounds, PRESETS};
use nearlight_units::{Bitrate, Span};

fn links() -> Vec<(&'static str, Link)> {
    let link = |mbps| Link::of(Bitrate::from_mbps(mbps));
    let queue = |millis| link(20).capacity.bytes_in(Span::from_millis(millis));
    vec![
        ("2 Mb/s", link(2)),
        ("5 Mb/s", link(5)),
        ("20 Mb/s", link(20)),
        ("80 Mb/s", link(80)),
        ("20 Mb/s, queue 15 ms", Link { queue: queue(15), ..link(20) }),
        ("20 Mb/s, queue 300 ms", Link { queue: queue(300), ..link(20) }),
        ("20 Mb/s, round trip 100 ms", Link { one_way: Span::from_millis(50), ..link(20) }),
        ("20 Mb/s, 2 % lost", Link { loss: 0.02, ..link(20) }),
        ("50 Mb/s, 5 % lost", Link { loss: 0.05, ..link(50) }),
        ("50 Mb/s, 10 % lost", Link { loss: 0.1, ..link(50) }),
    ]
}

fn row(name: &str, summary: &Summary) -> String {
    let tenths = |rate: Bitrate| (rate.as_bps() + 50_000) / 100_000;
    let millis = |span: Span| (span.as_micros() + 500) / 1_000;
    format!(
        "{name:<28}{:>8}{:>10}{:>8}{:>8}{:>8}{:>10}{:>8}",
        tenths(summary.target),
        tenths(summary.received),
        millis(summary.queue_median),
        millis(summary.queue_p95),
        millis(summary.queue_maximum),
        (summary.lost * 1_000.0).round() as u64,
        summary.probes,
    )
}

fn table(preset: &str) -> String {
    let mut table = format!(
        "{preset}: the first 15 s at most 100 Mb/s, start 8 Mb/s\n\n{:<28}{:>8}{:>10}{:>8}{:>8}{:>8}{:>10}{:>8}\n{:<28}{:>8}{:>10}{:>8}{:>8}{:>8}{:>10}{:>8}\n",
        "link",
        "target",
        "received",
        "queue",
        "queue",
        "queue",
        "lost",
        "probes",
        "",
        "100kb/s",
        "100kb/s",
        "p50 ms",
        "p95 ms",
        "max ms",
        "permille",
        "",
    );
    for (name, link) in links() {
        let mut path = Path::new(preset, Bounds::up_to(Bitrate::from_mbps(100)), link, 7);
        let summary = path.run(Span::from_secs(15));
        writeln!(table, "{}", row(name, &summary)).expect("a string takes all");
    }
    table
}

/// The story that every controller lives through: capacity in Mb/s until a second, 1 % of all packets lost.
const STORY: [(u64, i64); 4] = [(20, 9), (5, 18), (40, 27), (20, 36)];
/// Seconds in a cell.
const CELL: i64 = 3;

/// Target and queue of one controller along the story.
fn story(preset: &str) -> String {
    let link = |mbps| Link { loss: 0.01, ..Link::of(Bitrate::from_mbps(mbps)) };
    let mut path = Path::new(preset, Bounds::up_to(Bitrate::from_mbps(100)), link(STORY[0].0), 7);
    let mut row = format!("{preset:<20}");
    let mut second = 0;
    for (mbps, until) in STORY {
        path.link.capacity = Bitrate::from_mbps(mbps);
        while second < until {
            let cell = path.run(Span::from_secs(CELL));
            second += CELL;
            let (target, queue) = (cell.target.as_bps() as f64 / 1e6, cell.queue_median.as_millis_f64());
            write!(row, "{:>9}", format!("{target:.1}/{queue:.0}")).expect("a string takes all");
        }
    }
    row
}

fn stories() -> String {
    let mut table = String::from("Target in Mb/s and median queue in ms of each 3 s; 1 % of all packets lost.\n\n");
    let mut head = format!("{:<20}", "capacity, Mb/s");
    for second in (0..STORY[STORY.len() - 1].1).step_by(CELL as usize) {
        let capacity = STORY.iter().find(|(_, until)| second < *until).map_or(0, |(mbps, _)| *mbps);
        write!(head, "{capacity:>9}").expect("a string takes all");
    }
    writeln!(table, "{head}").expect("a string takes all");
    for row in of_all(story) {
        writeln!(table, "{row}").expect("a string takes all");
    }
    table
}

/// The rows of each preset, computed in parallel.
fn of_all(tell: fn(&str) -> String) -> Vec<String> {
    thread::scope(|scope| {
        let threads: Vec<_> = PRESETS.iter().map(|preset| scope.spawn(|| tell(preset.name))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a table")).collect()
    })
}

#[test]
fn tables_are_as_recorded() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/paths/tables");
    let update = std::env::var_os("NEARLIGHT_UPDATE").is_some();
    let mut changed = String::new();
    let tables = PRESETS.iter().map(|preset| preset.name).zip(of_all(table));
    for (name, now) in tables.chain([("one-story", stories())]) {
        let file = folder.join(format!("{name}.txt"));
        if update {
            std::fs::write(&file, &now).expect("the table is written");
            continue;
        }
        let recorded = std::fs::read_to_string(&file).unwrap_or_default();
        for (was, is) in recorded.lines().zip(now.lines()).filter(|(was, is)| was != is) {
            writeln!(changed, "{name}\n- {was}\n+ {is}").expect("a string takes all");
        }
        if recorded.lines().count() != now.lines().count() {
            writeln!(changed, "{name}: other rows\n{now}").expect("a string takes all");
        }
    }
    assert!(
        changed.is_empty(),
        "the controllers behave differently:\n{changed}\nIf that is meant: NEARLIGHT_UPDATE=1 cargo test -p nearlight-rate --test paths table"
    );
}
