//! While media arrive the picture moves: with any controller and any queue, losses are recovered or a key frame is requested.

use crate::support;
use nearlight_lab::{RunRecord, run};
use support::parse;

fn runs(controllers: &str, forward: &str, seeds: u64) -> Vec<RunRecord> {
    runs_over("webtransport", controllers, forward, seeds)
}

/// 20 s of a session whose client requests key frames where repairs fail.
fn runs_over(transport: &str, controllers: &str, forward: &str, seeds: u64) -> Vec<RunRecord> {
    runs_from(transport, controllers, "15mbit", forward, seeds)
}

/// Like [`runs_over`], with another start rate, which `fixed` keeps.
fn runs_from(transport: &str, controllers: &str, start: &str, forward: &str, seeds: u64) -> Vec<RunRecord> {
    let text = format!(
        r#"
        question = "?"
        [all]
        duration = "20s"
        controllers = {controllers}
        pacing = "burst"
        transport = "{transport}"
        datagram = 1400
        [all.source]
        fps = 72
        minimum = "5mbit"
        start = "{start}"
        maximum = "100mbit"
        render = "10ms"
        encode = "6ms"
        key_ratio = 1.0
        [all.client]
        decode = "8ms"
        recovery = "retransmission"
        [[all.path]]
        name = "path"
        forward = "rate=1gbit,{forward},delay=5ms"
        feedback = "delay=5ms"
        "#
    );
    let plan = parse(&text);
    let cells = plan.cells.iter().flat_map(|cell| (1..=seeds).map(move |seed| (cell, seed)));
    cells.map(|(cell, seed)| run(cell, seed).unwrap_or_else(|error| panic!("{error}"))).collect()
}

fn assert_moving(runs: &[RunRecord]) {
    for run in runs {
        let media = &run.media[0];
        let name = format!("{:?}, seed {}", run.labels, run.seed);
        assert_eq!(media.stuck, 0, "{name}: nothing was asked for");
        let longest = media.longest_standstill.expect("datagrams carry media");
        assert_eq!(media.overlong_standstills, Some(0), "{name}: {} ms", longest / 1_000);
    }
}

#[test]
fn no_picture_stands_over_mobile_paths_whatever_the_controller() {
    let all = runs("\"all\"", "model=5g/30mbit,burst=18kb,queue=100ms", 2);
    // Every controller but `fixed`.
    assert_eq!(all.len(), 2 * (nearlight_rate::PRESETS.len() - 1));
    assert_moving(&all);
}

/// A sender that never backs off: whatever the queue keeps of its frames, a key frame gets through.
#[test]
fn no_picture_stands_where_several_times_as_much_is_sent_as_a_short_queue_takes() {
    for path in ["rate=30mbit,queue=20p", "rate=10mbit,queue=10p", "rate=8mbit,queue=20ms", "rate=2mbit,queue=20ms"] {
        assert_moving(&runs_from("webtransport", r#"["fixed"]"#, "60mbit", path, 2));
    }
}

/// A queue of 100 ms at 40 Mb/s holds seconds' worth of the rate that remains in the dips.
#[test]
fn no_picture_stands_where_the_rate_falls_to_a_tenth() {
    let controllers = r#"["gcc-libwebrtc", "scream-v2", "cubic", "bbr", "frame-clocked", "nada-rfc8698"]"#;
    assert_moving(&runs(controllers, "rate=40mbit/4mbit@5s/25mbit@8s/6mbit@12s/40mbit@15s,burst=18kb,queue=500kb", 1));
}

/// A WebRTC client resumes at a complete key frame, whatever is missing before it.
#[test]
fn no_picture_stands_over_webrtc_where_the_rate_falls() {
    let controllers = r#"["gcc-libwebrtc", "scream-v2", "webrtc-like", "nada-rfc8698"]"#;
    for run in runs_over("webrtc", controllers, "rate=20mbit/6mbit@5s,queue=100ms", 1) {
        let media = &run.media[0];
        let longest = media.longest_standstill.expect("datagrams carry media");
        assert_eq!(media.overlong_standstills, Some(0), "{:?}: {} ms", run.labels, longest / 1_000);
    }
}

#[test]
fn no_picture_stands_after_outages() {
    let controllers = r#"["gcc-libwebrtc", "scream-v2", "cubic", "bbr", "frame-clocked", "nada-rfc8698"]"#;
    assert_moving(&runs(controllers, "rate=30mbit,queue=100ms,outage=4s+500ms/8s+2s/14s+3s", 1));
}

/// After an outage reports tell of packets that left seconds ago: they still lower the rate.
#[test]
fn a_sender_remembers_what_it_sent_before_a_long_queue() {
    for run in
        runs(r#"["frame-clocked", "gcc-libwebrtc"]"#, "rate=200mbit/200kbit@6s/10mbit@8s,burst=18kb,queue=2mb", 1)
    {
        let media = &run.media[0];
        // Samples are half a second; two seconds after the path is back the rate is one that it carries.
        let late = media.target.iter().skip(media.target.len() * 12 / 20);
        let mean = late.clone().map(|target| f64::from(*target)).sum::<f64>() / late.count() as f64 / 1e3;
        assert!(mean < 12.0, "{:?}: {mean} Mb/s where 10 are left", run.labels);
    }
}
