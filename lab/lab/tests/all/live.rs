//! A live run's record from events that were made up, so that every figure is known beforehand.

use crate::support;
use std::fmt::Write as _;
use std::path::Path;

use nearlight_lab::live::{LiveLink, LiveNote, LiveRun, path_seeds, paths, record, refusal};
use nearlight_lab::{Histogram, Options, RunRecord, RunnerError, run, run_plan, summarise};
use nearlight_link::Hop as _;
use nearlight_units::{Bytes, Time};
use support::parse;

const PLAN: &str = r#"
question = "?"
[all]
duration = "10s"
warm_up = "2s"
sample = "1s"
controllers = ["scream-v2"]
[all.source]
fps = 50
[[all.path]]
name = "p"
forward = "rate=8mbit,delay=10ms"
feedback = "delay=10ms"
"#;

/// The path's time zero on the machine's clock.
const ORIGIN: u64 = 7_000_000_000;

/// 50 frames a second of 10,000 bytes; each is whole 25 ms after it was sent, every tenth never.
fn events() -> (String, String) {
    let (mut server, mut client) = (String::new(), String::new());
    let line = |text: &mut String, millis: u64, rest: &str| {
        let at = ORIGIN + millis * 1_000_000;
        writeln!(text, "{{\"at\":{at},\"origin\":\"server\",\"session\":1,{rest}}}").expect("memory");
    };
    line(
        &mut server,
        0,
        r#""event":"rate_decision","target":4000000,"pacing":6000000,"binding":"loss","candidates":[]"#,
    );
    for frame in 0..550_u64 {
        let sent = frame * 20;
        line(
            &mut server,
            sent,
            &format!(
                r#""event":"frame_sent","frame":{frame},"bytes":10000,"key":{},"reference":null,"symbols":9"#,
                frame == 0
            ),
        );
        let traffic = format!(
            r#""event":"traffic","packets":{},"bytes":{},"retransmissions":{frame},"repairs":0"#,
            frame * 9,
            frame * 10_000
        );
        line(&mut server, sent, &traffic);
        line(&mut client, sent + 10, &traffic);
        if frame % 10 == 0 {
            continue;
        }
        line(&mut client, sent + 25, &format!(r#""event":"frame_ready","frame":{frame}"#));
        // Captured 8 ms before it was sent; the mapping of the server's clock is wrong by a second, which must not matter.
        let server_time = |millis: u64| ORIGIN + (sent + 1_000 + millis) * 1_000_000;
        let mut boundaries = vec![server_time(0); 11];
        boundaries[5] = server_time(8);
        let timeline =
            format!(r#"{{"frame":{frame},"input":0,"boundaries":{boundaries:?},"clock_error":0,"late":false}}"#);
        line(&mut client, sent + 32, &format!(r#""event":"frame_displayed","timeline":{timeline}"#));
    }
    client.push_str("{\"at\":123,\"cut off");
    (server, client)
}

#[test]
fn events_of_both_ends_become_the_record_of_a_run() {
    let plan = parse(PLAN);
    let (server_events, client_events) = events();
    let mut one_way_delay = Histogram::default();
    one_way_delay.add_many(12_000, 100);
    let link =
        LiveLink { delivered: Bytes::new(4_200_000), offered: 4_000, lost: 40, one_way_delay, ..LiveLink::default() };
    let note = LiveNote { means: "root".to_owned(), ..LiveNote::default() };
    let (server_events, client_events) = (&server_events[..], &client_events[..]);
    let origin = Time::from_nanos(ORIGIN);
    let live = LiveRun { cell: &plan.cells[0], seed: 1, origin, server_events, client_events, link, note };
    let record = record(&live).expect("events of today");
    let figures = summarise(&record.labels, &[&record]).metrics;
    for (name, mean) in [
        ("target_mbps", 4.0),
        ("sent_mbps", 4.0),
        ("received_mbps", 4.0),
        ("frame_network_latency_ms", 25.0),
        ("frame_latency_ms", 40.0),
        ("one_way_delay_ms", 12.0),
        ("frame_drop_ratio", 0.1),
        ("late_frame_ratio", 0.0),
        ("in_time_ratio", 0.9),
        ("stall_ratio", 0.0),
        // Each frame has 4 Mb/s of at most 100: ln 5 / ln 101.
        ("utility", 0.9 * 0.348_73),
        ("packet_loss_ratio", 0.01),
        // One of a frame's nine packets, of the whole session over the measured time's packets.
        ("retransmission_ratio", 549.0 / (8.0 * 50.0 * 9.0)),
        ("key_frames", 0.0),
        // 4.2 MB in eight seconds of 8 Mb/s.
        ("utilisation", 0.525),
        ("convergence_s", 0.0),
    ] {
        let figure = figures.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert!((figure.mean - mean).abs() <= mean * 0.01, "{name}: {} rather than {mean}", figure.mean);
    }
    assert_eq!(record.live.as_ref().map(|note| note.means.as_str()), Some("root"));
    // 350 frames from 2 s to 9 s.
    let media = &record.media[0];
    assert_eq!((media.captured, media.sent_frames, media.received_frames, media.displayed), (350, 350, 315, 315));
    let latency = figures["frame_latency_all_ms"];
    assert!((latency.p50 - 40.0).abs() < 0.6 && latency.p95.is_infinite(), "a tenth was never displayed: {latency:?}");
}

#[test]
fn events_of_another_version_are_refused_rather_than_left_out_of_the_figures() {
    let plan = parse(PLAN);
    let (server, client) = events();
    let origin = Time::from_nanos(ORIGIN);
    let refused = |server_events: &str, client_events: &str| {
        let (link, note) = (LiveLink::default(), LiveNote::default());
        let live = LiveRun { cell: &plan.cells[0], seed: 1, origin, server_events, client_events, link, note };
        record(&live).err().map(|refused| refused.to_string())
    };
    assert_eq!(refused(&server, &client), None);
    for name in ["rate_decision", "frame_sent", "traffic"] {
        let renamed = server.replace(name, "something_else");
        assert!(refused(&renamed, &client).is_some_and(|words| words.contains("something_else")), "{name}");
    }
    for name in ["frame_ready", "frame_displayed", "traffic"] {
        let renamed = client.replace(name, "something_else");
        assert!(refused(&server, &renamed).is_some_and(|words| words.contains("something_else")), "{name}");
    }
}

#[test]
fn a_seed_means_the_same_capacity_live_as_in_virtual_time() {
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-ramp.csv");
    let steps = (0..30).map(|second| format!("{second},{}\n", second + 2)).collect::<Vec<_>>().concat();
    std::fs::write(&trace, format!("t_s,mbps\n{steps}")).expect("a file");
    let capacities = ["model=drawn/2mbit/10mbit/1s".to_owned(), format!("trace={}", trace.display())];
    for (capacity, seed) in capacities.iter().flat_map(|capacity| [1, 2, 77].map(|seed| (capacity, seed))) {
        let plan = parse(&PLAN.replace("rate=8mbit", capacity));
        let cell = &plan.cells[0];
        let link = LiveLink::default();
        let (note, origin) = (LiveNote::default(), Time::ZERO);
        let live = LiveRun { cell, seed, origin, server_events: "", client_events: "", link, note };
        let capacities = |record: &RunRecord| record.links[0].sides[0].capacity.clone();
        let reported = capacities(&record(&live).expect("no events"));
        assert_eq!(reported, capacities(&run(cell, seed).expect("a run")), "seed {seed}");
        let [there, _] = paths(cell, seed).expect("paths");
        let path = there.path(path_seeds(seed)[0]);
        let kept: Vec<_> = (1..=10).filter_map(|second| path.capacity(Time::from_secs(second))).collect();
        let kept: Vec<_> = kept.iter().map(|rate| (rate.as_bps() / 1_000) as u32).collect();
        assert_eq!(reported, kept, "seed {seed}: the link's own");
    }
}

#[test]
fn what_live_runs_cannot_do_is_refused_with_the_reason() {
    assert_eq!(refusal(&parse(PLAN).cells[0]), None);
    for (more, reason) in [
        ("[[all.flow]]\nkind = \"tcp\"\n", "competing flows"),
        ("[[all.media]]\n[[all.media]]\n", "several media"),
        ("[[all.media]]\nstart = \"1s\"\n", "starts later"),
        ("[[all.media]]\ndirection = \"back\"\n", "go back"),
        ("[[all.media]]\naccess = \"delay=1ms\"\n", "hops of its own"),
    ] {
        let plan = parse(&format!("{PLAN}{more}"));
        let options = Options { live: true, seeds: Some(1), ..Options::default() };
        let refused = run_plan(&plan, &options, &|| Time::ZERO, &mut |_| {}).expect_err(more);
        assert!(matches!(refused, RunnerError::NotLive { .. }) && refused.to_string().contains(reason), "{refused}");
    }
}
