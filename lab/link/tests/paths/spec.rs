//! The text form: what it accepts, and how it explains what it does not.

use std::fs;

use nearlight_link::{Delay, Hop, PathSpec};
use nearlight_units::{Bitrate, Span, Time};
use serde::Deserialize;

use crate::drive::{evenly, path, run};

#[test]
fn one_line_reads_as_it_is_written_by_hand() {
    let cases = [
        ("rate=10mbit,delay=10ms,loss=1%,queue=100ms", "rate=10mbit,queue=100ms,delay=10ms,loss=1%"),
        ("queue=64KiB , rate=2.5Mbit", "rate=2500kbit,queue=65536b"),
        ("loss=1%,25%,delay=5ms", "loss=1%/25%,delay=5ms"),
        ("jitter=log-normal,20ms,30ms,200ms", "jitter=log-normal/20ms/30ms/200ms"),
        ("wifi=standard-11ax,mcs:7,delay=5ms", "wifi=standard-11ax/mcs:7,delay=5ms"),
        ("rate=35mbit/10mbit@40s/35mbit@60s", "rate=35mbit/10mbit@40s/35mbit@60s"),
        ("rate=35mbit,burst=3kb,queue=50ms,aqm=codel", "rate=35mbit,burst=3kb,queue=50ms,aqm=codel"),
        ("rate=35mbit,bucket=htb,burst=3kb", "rate=35mbit,burst=3kb,bucket=htb"),
        ("rate=1mbit,queue=300ms", "rate=1mbit"),
        ("trace=a/b.mahi,scale=2.5,aqm=pie/20ms", "trace=a/b.mahi,aqm=pie/20ms,scale=2.5"),
        ("offset=12s,trace=a/b.mahi", "trace=a/b.mahi,offset=12s"),
        ("model=5g/60mbit,fine=tdd", "model=5g/60mbit,fine=tdd"),
        ("model=drawn/2mbit/10mbit/5s,queue=1000p", "model=drawn/2mbit/10mbit/5s,queue=1000p"),
        ("model=log-normal/8100kbit/5mbit/2s", "model=log-normal/8100kbit/5mbit/2s"),
        ("jitter=log-normal/20ms/38800us/200ms", "jitter=log-normal/20ms/38800us/200ms"),
        ("jitter=30ms/100mbit,reorder=1%,duplicate=0.5%", "jitter=30ms/100mbit,reorder=1%/5ms,duplicate=0.5%"),
        ("jitter=0%:0ms/50%:2ms/100%:30ms", "jitter=0%:0s/50%:2ms/100%:30ms"),
        ("gilbert=1%/30%", "gilbert=1%/30%/100%/0%"),
        ("outage=5s+2s,freeze=1s+100ms@10s", "outage=5s+2s,freeze=1s+100ms@10s"),
        ("police=10mbit/30kb,rate=5mbit,rate=3mbit,queue=9p", "police=10mbit/30kb,rate=5mbit,rate=3mbit,queue=9p"),
        ("", ""),
    ];
    for (text, written) in cases {
        let spec: PathSpec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(spec.to_string(), written);
    }
}

#[test]
fn errors_say_what_is_allowed() {
    let cases = [
        ("speed=10mbit", &["`speed`", "rate, trace, model, queue", "freeze"][..]),
        ("rate=10", &["`rate=10`", "mbit", "10mbit"]),
        ("rate=10mbps", &["`rate=10mbps`", "bit, kbit, mbit or gbit"]),
        ("rate=0mbit", &["not all 0"]),
        ("rate=1mbit/2mbit@5s/3mbit@5s", &["ascending"]),
        ("delay=10", &["ns, us, ms, s or min"]),
        ("loss=120%", &["1% or 0.01"]),
        ("loss=1%/2%/3%", &["1%/25%"]),
        ("10mbit", &["key=value", "rate=10mbit"]),
        ("delay=10ms,queue=5ms", &["`queue`", "rate=, trace= or model="]),
        ("rate=1mbit,queue=1ms,queue=2ms", &["`queue`", "twice"]),
        ("rate=1mbit,bucket=htb", &["burst=3kb"]),
        ("rate=1mbit,burst=3kb,fine=tdd", &["`burst`", "`fine`"]),
        ("rate=1mbit,aqm=red", &["codel", "pie", "l4s-step"]),
        ("rate=1mbit,scale=0", &["0.01 to 1000"]),
        ("rate=10mbit,offset=3s", &["`offset`", "`rate=10mbit`", "trace=FILE"]),
        ("trace=a.mahi,offset=3", &["`offset=3`", "12s"]),
        ("outage=5s", &["5s+2s"]),
        ("outage=0s+9s@5s", &["shorter than its period"]),
        ("trace=", &["Mahimahi", "t_s,mbps"]),
    ];
    for (text, words) in cases {
        let error = text.parse::<PathSpec>().expect_err(text).to_string();
        for word in words {
            assert!(error.contains(word), "{text}: {error}");
        }
    }
    let many = vec!["delay=1ms"; 65].join(",");
    assert!(many.parse::<PathSpec>().expect_err("many hops").to_string().contains("64"));
}

#[derive(Debug, Deserialize)]
struct Plan {
    path: PathSpec,
}

#[test]
fn tables_say_the_same_as_one_line() {
    let cases = [
        (r#"path = "rate=10mbit,queue=100ms,delay=10ms""#, "rate=10mbit,queue=100ms,delay=10ms"),
        (
            r#"path = [{ queue = "50ms", rate = ["35mbit", "10mbit@40s"], aqm = "codel", scale = 2 }, { delay = "10ms" }]"#,
            "rate=35mbit/10mbit@40s,queue=50ms,aqm=codel,scale=2",
        ),
        (r#"path = { loss = ["1%", "25%"] }"#, "loss=1%/25%"),
        (r#"path = ["rate=5mbit", { loss = 0.01 }]"#, "rate=5mbit,loss=1%"),
        ("[[path]]\nrate = \"5mbit\"\nburst = \"3kb\"\n[[path]]\ndelay = \"5ms\"\n", "rate=5mbit,burst=3kb,delay=5ms"),
    ];
    for (toml, line) in cases {
        let plan: Plan = toml::from_str(toml).unwrap_or_else(|error| panic!("{toml}: {error}"));
        let line = if line.contains("scale") { format!("{line},delay=10ms") } else { line.to_owned() };
        assert_eq!(plan.path, line.parse().expect("a path"), "{toml}");
    }
    for (toml, words) in [
        (r#"path = { rate = "5mbit", delay = "5ms" }"#, "a table describes one hop"),
        ("path = [{ speed = 1 }]", "allowed are"),
        ("path = 5", "a path: one line"),
        (&format!("path = [{}]", "{ delay = \"1ms\" },".repeat(65)), "64 hops"),
    ] {
        let error = toml::from_str::<Plan>(toml).expect_err(toml).to_string();
        assert!(error.contains(words), "{toml}: {error}");
    }
}

#[test]
fn cells_are_made_by_those_who_know_them() {
    let spec: PathSpec = "delay=1ms,wifi=home/mcs:7,loss=1%".parse().expect("a path");
    assert_eq!(spec.to_string(), "delay=1ms,wifi=home/mcs:7,loss=1%");
    assert!("wifi=".parse::<PathSpec>().is_err());
    let refused = spec.build(1).err().expect("no cell").to_string();
    assert!(refused.contains("wifi=home/mcs:7") && refused.contains("rate="), "{refused}");
    let wrong = spec.load_with(&mut |_| Err("no such home".to_owned())).expect_err("no cell").to_string();
    assert!(wrong.contains("wifi=home/mcs:7") && wrong.contains("no such home"), "{wrong}");

    let loaded = spec.load_with(&mut |_| Ok(())).expect("a path");
    let mut seen = Vec::new();
    let mut make = |settings: &str| {
        seen.push(settings.to_owned());
        if settings == "home/mcs:7" { Ok(Delay::new(Span::from_millis(5)).into()) } else { Err("no such home") }
    };
    let path = loaded.path_with(1, &mut make).expect("a path");
    assert_eq!((seen, path.min_delay()), (vec!["home/mcs:7".to_owned()], Span::from_millis(6)));
}

#[test]
fn traces_come_from_files() {
    let folder = std::env::temp_dir().join(format!("nearlight-link-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        fs::write(&file, text).expect("a file");
        file.display().to_string()
    };
    let packets = write("steady.mahi", "1\n2\n3\n4\n");
    let series = write("steps.csv", "t_s,mbps\n0,8\n1,16\n");
    let bad = write("bad.mahi", "1\ntwo\n");

    assert_eq!(path(&format!("trace={packets}"), 1).capacity(Time::from_secs(1)), Some(Bitrate::from_mbps(12)));
    let mut path = path(&format!("trace={series},scale=2"), 1);
    for (at, mbps) in [(500, 16), (1_500, 32), (2_500, 16)] {
        assert_eq!(path.capacity(Time::from_millis(at)), Some(Bitrate::from_mbps(mbps)));
    }
    let exits = run(&mut path, evenly(3, 2_000, Span::ZERO));
    assert_eq!(exits.last().map(|exit| exit.at), Some(Time::from_millis(3)));

    // A trace begins at the path's offset, or else at the builder's, and wraps around.
    let loaded = |text: String| text.parse::<PathSpec>().expect("a path").load().expect("traces");
    let rate = |path: &mut nearlight_link::Path, at| {
        path.capacity(Time::from_millis(at)).expect("a rate").as_bps() / 1_000_000
    };
    let rates = |loaded: nearlight_link::LoadedPath| {
        let mut path = loaded.path(1);
        [0, 600, 1_600].map(|at| rate(&mut path, at))
    };
    let (free, pinned) = (loaded(format!("trace={series}")), loaded(format!("trace={series},offset=3500ms")));
    assert_eq!(rates(free.clone()), [8, 8, 16]);
    assert_eq!(rates(free.starting_at(0.25)), [8, 16, 8]);
    assert_eq!(rates(free.starting_at(0.5)), [16, 16, 8]);
    assert_eq!([rates(pinned.clone()), rates(pinned.starting_at(0.5))], [[16, 8, 16]; 2]);

    let error = |spec: String| spec.parse::<PathSpec>().expect("a path").build(1).err().expect("no path").to_string();
    for (spec, words) in [
        (format!("trace={bad}"), &["bad.mahi", "line 2", "`two`"][..]),
        ("trace=no/such.mahi".to_owned(), &["no/such.mahi", "existing file"]),
        (format!("trace={packets},fine=tdd"), &["`fine`", "steady.mahi"]),
        (format!("trace={packets},burst=3kb"), &["`burst`", "steady.mahi"]),
    ] {
        let found = error(spec);
        assert!(words.iter().all(|word| found.contains(word)), "{found}");
    }
    fs::remove_dir_all(&folder).expect("the folder is ours");
}

#[test]
fn a_loaded_path_can_be_built_for_many_seeds() {
    let loaded = "model=5g,queue=50ms,loss=5%".parse::<PathSpec>().expect("a path").load().expect("no files");
    let exits = |seed| run(&mut loaded.path(seed), evenly(2_000, 1_200, Span::from_micros(100)));
    assert_eq!(exits(1), exits(1));
    assert_ne!(exits(1), exits(2));
}
