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

#[test]
fn tables_are_as_recorded() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/paths/tables");
    let update = std::env::var_os("NEARLIGHT_UPDATE").is_some();
    let mut changed = String::new();
    let tables: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = PRESETS.iter().map(|preset| scope.spawn(|| table(preset.name))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a table")).collect()
    });
    for (preset, now) in PRESETS.iter().zip(tables) {
        let file = folder.join(format!("{}.txt", preset.name));
        if update {
            std::fs::write(&file, &now).expect("the table is written");
            continue;
        }
        let recorded = std::fs::read_to_string(&file).unwrap_or_default();
        for (was, is) in recorded.lines().zip(now.lines()).filter(|(was, is)| was != is) {
            writeln!(changed, "{}\n- {was}\n+ {is}", preset.name).expect("a string takes all");
        }
        if recorded.lines().count() != now.lines().count() {
            writeln!(changed, "{}: other rows\n{now}", preset.name).expect("a string takes all");
        }
    }
    assert!(
        changed.is_empty(),
        "the controllers behave differently:\n{changed}\nIf that is meant: NEARLIGHT_UPDATE=1 cargo test -p nearlight-rate --test paths table"
    );
}
