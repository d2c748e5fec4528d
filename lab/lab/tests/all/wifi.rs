//! Wi-Fi cells in plans: as hops of sessions, and as cells of the traffic model.

use crate::support;
use nearlight_lab::{Options, Plan, ResultsHeader, RunRecord, report, run};
use support::{first_run, parse, refusal};

fn summary(plan: &Plan) -> String {
    let options = Options { seeds: Some(2), ..Options::default() };
    support::json(&support::outcome(plan, &options).summary)
}

/// Sessions of a fixed rate whose only hop is a cell.
fn sessions(count: &str, cell: &str, more: &str) -> String {
    format!(
        r#"
        question = "?"
        [all]
        duration = "6s"
        warm_up = "1s"
        controllers = ["fixed"]
        pacing = "burst"
        phases = "staggered"
        {more}
        [all.source]
        fps = 60
        minimum = "30mbit"
        start = "30mbit"
        maximum = "30mbit"
        [[all.path]]
        name = "cell"
        forward = "delay=2ms,wifi={cell}"
        feedback = "wifi={cell},delay=2ms"
        [[all.media]]
        count = {count}
        "#
    )
}

#[test]
fn headsets_of_one_plan_share_a_cell_both_ways() {
    let (alone, three) =
        (first_run(&sessions("1", "standard-11ax", "")), first_run(&sessions("3", "standard-11ax", "")));
    assert_eq!((alone.media.len(), three.media.len()), (1, 3));
    let cell = |record: &RunRecord| record.wifi.iter().map(|wifi| wifi.record.clone()).next().expect("one cell");
    let (one, all) = (cell(&alone), cell(&three));
    assert_eq!((alone.wifi.len(), three.wifi.len(), all.sessions), (1, 1, 3));
    // Three times the video, and feedback and input of three on the way back.
    assert!((2.7..3.3).contains(&(all.delivered_mbps() / one.delivered_mbps())), "{}", all.delivered_mbps());
    assert!(all.uplink.delivered > one.uplink.delivered * 2 && all.airtime_ratio() > one.airtime_ratio() * 1.5);
    // Staggered batches hardly meet; aligned ones wait for one another.
    let aligned = cell(&first_run(&sessions("3", "standard-11ax", "").replace("staggered", "aligned")));
    let delays = [&one, &all, &aligned].map(|record| record.dl_packet_delay.mean().as_secs_f64());
    assert!((delays[1] / delays[0] - 1.0).abs() < 0.2 && delays[2] > delays[0] * 1.5, "{delays:?}");
    for media in &three.media {
        assert!(media.received_frames + 2 >= media.sent_frames, "{} of {}", media.received_frames, media.sent_frames);
        let mean = media.frame_network_latency.mean().expect("frames") / 1e3;
        assert!((2.5..15.0).contains(&mean), "{mean} ms with 2 ms of delay");
    }
}

#[test]
fn sessions_in_a_cell_give_the_same_bytes_each_time() {
    let plan = parse(&sessions("2", "standard-11ax/in-order:yes/background:saturated-up", "fec = \"planner\""));
    let record = |seed| serde_json::to_string(&run(&plan.cells[0], seed).expect("a run")).expect("a line");
    assert_eq!(record(1), record(1));
    assert_ne!(record(1), record(2));
}

#[test]
fn a_saturated_station_takes_its_share_from_the_sessions() {
    let quiet = first_run(&sessions("1", "standard-11ax", ""));
    let busy = first_run(&sessions("1", "standard-11ax/background:saturated-up", ""));
    let delay = |record: &RunRecord| record.media[0].frame_network_latency.quantile(0.99).expect("frames");
    assert!(delay(&busy) > delay(&quiet) * 1.5, "{} and {} us", delay(&busy), delay(&quiet));
    let record = &busy.wifi[0].record;
    assert!(record.others.delivered_bytes > record.downlink.delivered_bytes && record.airtime_ratio() > 0.8);
}

#[test]
fn competing_flows_are_stations_too() {
    // Within the few seconds of a run CUBIC is still on its way up.
    let flow = "[[all.flow]]\nkind = \"tcp\"\nlaw = \"bbr\"\nstart = \"1s\"\n";
    let record = first_run(&format!("{}{flow}", sessions("2", "standard-11ax", "")));
    let got = record.rivals[0].delivered;
    assert!(got > 100_000, "a transfer gets what three sessions leave of 700 Mb/s, {got} kb/s");
    let cell = &record.wifi[0].record;
    assert!(cell.sessions == 2 && cell.others.delivered > cell.downlink.delivered, "its packets are no session's");
}

#[test]
fn redundancy_makes_up_for_what_the_cell_gives_up() {
    let lossy = "standard-11ax/loss:30%/retries:0";
    let (without, with) =
        (first_run(&sessions("1", lossy, "")), first_run(&sessions("1", lossy, "fec = \"fixed:60\"")));
    assert!(
        with.media[0].retransmissions * 2 < without.media[0].retransmissions,
        "{} {}",
        with.media[0].retransmissions,
        without.media[0].retransmissions
    );
}

const MODEL: &str = r#"
question = "?"
seeds = 2
[all]
duration = "1s"
phases = "random"
[all.wifi]
cell = "{preset}"
fps = "{fps}"
headsets = "{headsets}"
tau = "{tau_ms}ms"
batches = 3
runs = 2
[[all.sweep]]
name = "preset"
values = ["komondor-vr", "standard-11ax"]
[[all.sweep]]
name = "fps"
values = ["60", "90"]
[[all.sweep]]
name = "headsets"
values = ["2"]
[[all.sweep]]
name = "tau_ms"
values = ["0.01", "5.56"]
"#;

#[test]
fn the_traffic_model_prints_the_promised_labels_and_metrics() {
    let plan = parse(MODEL);
    assert_eq!(plan.cells.len(), 8);
    let text = summary(&plan);
    assert_eq!(text, summary(&plan), "the same seeds give the same bytes");
    let value: serde_json::Value = serde_json::from_str(&text).expect("an object");
    for cell in value["cells"].as_array().expect("cells") {
        for label in ["preset", "fps", "tau_ms", "headsets"] {
            assert!(cell["labels"][label].is_string(), "{label}");
        }
        for metric in [
            "dl_packet_delay_ms",
            "ul_packet_delay_ms",
            "video_frame_delay_ms",
            "ampdu_mpdus",
            "airtime_ratio",
            "delivered_mbps",
        ] {
            let figure = &cell["metrics"][metric];
            let [mean, median, last] = ["mean", "p50", "p99"].map(|name| figure[name].as_f64().expect(metric));
            assert!(mean > 0.0 && median > 0.0 && last >= median && figure["n"] == 2, "{metric}: {figure}");
        }
        let delivered = cell["metrics"]["delivered_mbps"]["mean"].as_f64().expect("a rate");
        assert!((95.0..115.0).contains(&delivered), "two headsets of 50 Mb/s get {delivered}");
    }
}

#[test]
fn a_seed_of_the_model_is_its_own_runs_and_the_first_shows_its_exchanges() {
    let plan = parse(MODEL);
    let (one, other) = (run(&plan.cells[0], 1).expect("a run"), run(&plan.cells[0], 2).expect("a run"));
    assert_eq!((one.wifi[0].record.exchanges.len(), other.wifi[0].record.exchanges.len()), (120, 0));
    assert_ne!(one.wifi[0].record.downlink, other.wifi[0].record.downlink);
    assert_eq!(one.simulated, plan.cells[0].length());
    // Two runs in one seed, or one run in each of two: the same four in all.
    let single = parse(&MODEL.replace("runs = 2", "runs = 1"));
    let offered = |record: &RunRecord| record.wifi[0].record.downlink.offered;
    let halves: u64 = [1, 2].map(|seed| offered(&run(&single.cells[0], seed).expect("a run"))).iter().sum();
    assert_eq!(offered(&one), halves);
}

#[test]
fn bad_plans_are_refused_with_file_key_and_reason() {
    let cases = [
        ("cell = \"{preset}\"", "cell = \"{preset}/mcs:12\"", "`wifi.cell`", "0 to 11"),
        ("cell = \"{preset}\"", "cell = \"{preset}/width:20/downlink-ofdma:2\"", "`wifi.headsets`", "MCS 9 or lower"),
        ("headsets = \"{headsets}\"", "headsets = 0", "`wifi.headsets`", "1 or more"),
        ("headsets = \"{headsets}\"", "headsets = 200", "`wifi.headsets`", "at most 128"),
        ("fps = \"{fps}\"", "fps = 0", "`wifi.fps`", "from 1 to 1000"),
        ("tau = \"{tau_ms}ms\"", "tau = \"2s\"", "`wifi.tau`", "time between batches"),
        ("batches = 3", "batches = 0", "`wifi.batches`", "number of batches"),
        ("runs = 2", "runs = 0", "`wifi.runs`", "number of runs"),
        ("runs = 2", "rate = \"1bit\"", "`wifi.rate`", "video rate"),
        ("runs = 2", "poses = 1000000", "`wifi.poses`", "periodic packets"),
        ("runs = 2", "video_as = \"fast\"", "`wifi.video_as`", "best-effort"),
        ("runs = 2", "speed = 3", "speed", "unknown field"),
        ("[all.wifi]", "controllers = [\"fixed\"]\n[all.wifi]", "leave path", "traffic of its own"),
        ("phases = \"random\"", "phases = \"wild\"", "wild", "staggered"),
    ];
    for (old, new, key, reason) in cases {
        let text = MODEL.replace(old, new);
        let error = refusal(&text);
        assert!(error.contains("wrong.toml") && error.contains(key) && error.contains(reason), "{new}\n{error}");
    }
}

#[test]
fn paths_with_bad_cells_are_refused_with_their_line() {
    let cases = [
        ("standard-11ax/mcs:12", "line 17", "0 to 11"),
        ("standard-11ax/width:20/downlink-ofdma:9", "line 17:", "MCS 9 or lower"),
        ("standard-11ax,wifi=standard-11ax", "line 17:", "is already a hop of another path"),
    ];
    for (cell, line, reason) in cases {
        let error = refusal(&sessions("2", cell, ""));
        assert!(error.contains("wrong.toml") && error.contains(line) && error.contains(reason), "{cell}\n{error}");
    }
    for (more, key) in [("fec = \"double\"", "planner"), ("phases = 3", "phases")] {
        let error = refusal(&sessions("2", "standard-11ax", more));
        assert!(error.contains(key), "{error}");
    }
    let many = refusal(&sessions("65", "standard-11ax", ""));
    assert!(many.contains("1 to 64"), "{many}");
}

fn page(plan: &Plan) -> String {
    let runs: Vec<RunRecord> = plan.cells.iter().map(|cell| run(cell, 1).expect("a run")).collect();
    let head = ResultsHeader {
        plan: plan.name.clone(),
        question: plan.question.clone(),
        notes: plan.notes.clone(),
        published: plan.published.clone(),
        digest: plan.digest,
        commit: String::new(),
        program: 0,
        live: false,
        shard: None,
    };
    report::document(&head, &runs).to_html()
}

#[test]
fn the_page_of_the_model_shows_delays_sizes_airtime_and_what_was_on_the_air() {
    let text = MODEL.replace("values = [\"2\"]", "values = [\"1\", \"2\", \"3\"]");
    let html = page(&parse(&text));
    for words in [
        "Headsets carried",
        "Packets to headsets",
        "Packets from headsets",
        "A-MPDU sizes",
        "Use of the channel",
        "On the air: 0.01",
        "On the air: 5.56",
        "headset 0, down",
        "headset 2, up",
        "packets",
        "Between batches, ms",
    ] {
        assert!(html.contains(words), "{words}");
    }
}

#[test]
fn the_page_of_sessions_shows_their_cell_besides() {
    let html = page(&parse(&sessions("2", "standard-11ax/neighbour:20%", "")));
    for words in ["Latency against rate", "Use of the channel", "neighbour", "headset 1, down", "On the air: fixed"] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.contains("Headsets carried"), "one number of headsets is not a comparison");
}
