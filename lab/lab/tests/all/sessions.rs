//! Sessions in virtual time against closed forms, and with codecs that really run.

use crate::support;
use nearlight_lab::{Cell, ResultsHeader, RunRecord, report, run, run_means, summarise};
use support::{first_run, parse};

/// Frames of exactly 20 Mb/s in bursts over a wire of 40 Mb/s.
#[test]
fn a_frame_takes_its_own_length_on_the_wire_and_the_delay() {
    let record = first_run(
        r#"
        question = "?"
        [all]
        duration = "20s"
        warm_up = "5s"
        controllers = ["fixed"]
        pacing = "burst"
        headers = 0
        [all.source]
        fps = 50
        minimum = "20mbit"
        start = "20mbit"
        maximum = "20mbit"
        deviation = 0.0
        [[all.path]]
        name = "wire"
        forward = "rate=40mbit,queue=100ms,delay=7ms"
        feedback = "delay=7ms"
        "#,
    );
    let media = &record.media[0];
    let mean = |histogram: &nearlight_lab::Histogram| histogram.mean().expect("samples") / 1e3;
    // A frame is 20 ms of 20 Mb/s, so 10 ms of 40 Mb/s; its packets wait from 0 to 10 ms.
    assert!((mean(&media.frame_network_latency) - 17.0).abs() < 0.2, "{}", mean(&media.frame_network_latency));
    assert!((mean(&media.one_way_delay) - 12.0).abs() < 0.2, "{}", mean(&media.one_way_delay));
    assert!((mean(&media.queue_delay) - 4.9).abs() < 0.2, "{}", mean(&media.queue_delay));
    assert_eq!((media.sent_frames, media.received_frames, media.packets_lost), (700, 700, 0));
    let rate = media.bytes_received as f64 * 8.0 / 15.0 / 1e6;
    assert!((rate - 20.0).abs() < 0.2, "{rate} Mb/s");
    // Capture to display: 3 ms, 5 ms, the network, 4 ms of decoding, and on average half of a refresh interval.
    let total = mean(&media.frame_latency);
    assert!((29.0..=29.0 + 20.0).contains(&total), "{total} ms");
}

/// A client that only requests key frames drops everything from a loss to the next of them.
#[test]
fn without_repair_a_loss_costs_frames_until_the_next_key_frame() {
    let text = |recovery: &str| {
        format!(
            r#"
            question = "?"
            [all]
            duration = "30s"
            controllers = ["fixed"]
            pacing = "burst"
            [all.source]
            start = "20mbit"
            key_ratio = 1.0
            [all.client]
            recovery = "{recovery}"
            [[all.path]]
            name = "lossy"
            forward = "rate=100mbit,delay=10ms,loss=0.1%"
            feedback = "delay=10ms"
            "#
        )
    };
    let (repair, intra) = (first_run(&text("retransmission")), first_run(&text("intra")));
    let dropped = |run: &RunRecord| run.media[0].sent_frames - run.media[0].received_frames;
    assert!(dropped(&repair) <= 2 && repair.media[0].key_frames == 1, "{} dropped", dropped(&repair));
    // About 63 of 2,088 frames lose a packet; each costs a round trip at least, two frames at 72 a second.
    assert!(dropped(&intra) > 100 && intra.media[0].key_frames > 30, "{} dropped", dropped(&intra));
    assert!(intra.media[0].received_frames > 1_000, "{}", intra.media[0].received_frames);
}

#[test]
fn a_real_codec_in_the_loop_says_how_good_pictures_are() {
    let text = r#"
        question = "?"
        [all]
        duration = "4s"
        controllers = ["fixed"]
        [all.source]
        fps = 30
        encoder = "h264"
        size = "160x96"
        start = "1mbit"
        [[all.path]]
        name = "lossy"
        forward = "rate=5mbit,delay=10ms,loss=1%"
        feedback = "delay=10ms"
    "#;
    let (one, again) = (first_run(text), first_run(text));
    let media = &one.media[0];
    assert!(media.psnr.count() > 60, "{} pictures", media.psnr.count());
    let (psnr, ssim) = (media.psnr.mean().expect("pictures") / 1e3, media.ssim.mean().expect("pictures") / 1e6);
    assert!((25.0..60.0).contains(&psnr) && (0.8..1.0).contains(&ssim), "{psnr} dB, {ssim}");
    assert_eq!((media.psnr.mean(), media.ssim.mean()), (again.media[0].psnr.mean(), again.media[0].ssim.mean()));
}

/// A link that carries a third of what `fixed` sends, and carries nothing for three of 30 seconds.
const CROWDED: &str = r#"
question = "?"
[all]
duration = "35s"
warm_up = "5s"
controllers = ["fixed", "scream-v2"]
[all.source]
fps = 60
minimum = "1mbit"
start = "30mbit"
maximum = "30mbit"
[all.client]
recovery = "intra"
[[all.path]]
name = "crowded"
forward = "rate=10mbit,queue=50ms,delay=5ms"
feedback = "delay=5ms"
"#;

#[test]
fn who_sends_most_and_shows_little_in_time_is_neither_headed_nor_marked() {
    let plan = parse(CROWDED);
    let runs: Vec<RunRecord> = plan
        .cells
        .iter()
        .flat_map(|cell| [1, 2, 3].map(|seed| run(cell, seed).unwrap_or_else(|error| panic!("{error}"))))
        .collect();
    let figure = |controller: &str, name: &str| {
        let of: Vec<&RunRecord> = runs.iter().filter(|run| run.labels["controller"] == controller).collect();
        summarise(&of[0].labels, &of).metrics[name]
    };
    let (wild, mild) = (|name| figure("fixed", name), |name| figure("scream-v2", name));
    assert!(wild("received_mbps").mean > mild("received_mbps").mean, "the survivors' figure is the better one");
    assert!(wild("in_time_ratio").mean < 0.2 && mild("in_time_ratio").mean > 0.8, "{:?}", mild("in_time_ratio"));
    assert!(wild("utility").mean < 0.2 && mild("utility").mean > 0.4, "{:?}", mild("utility"));
    assert!(wild("frame_latency_all_ms").p95.is_infinite() && mild("frame_latency_all_ms").p50 < 100.0);
    let head = ResultsHeader {
        plan: plan.name.clone(),
        question: plan.question.clone(),
        notes: String::new(),
        published: Vec::new(),
        digest: plan.digest,
        commit: String::new(),
        program: 0,
        live: false,
        shard: None,
    };
    let html = report::document(&head, &runs).to_html();
    assert!(html.contains("scream-v2 serves the user best"), "the headline");
    let heads = html.split("<thead>").nth(1).expect("a table");
    let place = |title: &str| heads.find(title).unwrap_or_else(|| panic!("no {title}"));
    assert!(place("shown in time") < place("utility") && place("utility") < place("received"), "what serves leads");
    let row =
        html.split("<th scope=\"row\">fixed</th>").nth(1).and_then(|row| row.split("</tr>").next()).expect("a row");
    assert!(!row.contains("<b>"), "nothing of {row} is marked");
}

#[test]
fn an_outage_is_a_stall_and_its_captures_are_not_in_time() {
    let text = |outage: &str| {
        CROWDED
            .replace("[\"fixed\", \"scream-v2\"]", "[\"fixed\"]")
            .replace("\"30mbit\"", "\"5mbit\"")
            .replace("delay=5ms\"\nfeedback", &format!("delay=5ms{outage}\"\nfeedback"))
    };
    let [whole, cut, ended] =
        ["", ",outage=15s+3s", ",outage=15s+60s"].map(|outage| run_means(&first_run(&text(outage))));
    assert!(whole["in_time_ratio"] > 0.99 && whole["stalls_per_minute"] == 0.0, "{whole:?}");
    // Three of 30 seconds, and what it takes to come back.
    assert!((0.1..0.12).contains(&cut["stall_ratio"]) && (cut["stalls_per_minute"] - 2.0).abs() < 0.01, "{cut:?}");
    assert!((0.86..0.9).contains(&cut["in_time_ratio"]), "{cut:?}");
    let lost = whole["utility"] - cut["utility"];
    assert!((lost - cut["stall_ratio"] * (1.0 + whole["utility"])).abs() < 0.01, "lost frames and the penalty: {lost}");
    // The picture is frozen from the 15th second to the end: 20 of 30 seconds.
    assert!((ended["stall_ratio"] - 2.0 / 3.0).abs() < 0.01, "{ended:?}");
    assert!((ended["in_time_ratio"] - 10.0 / 29.0).abs() < 0.02 && ended["utility"] < 0.0, "{ended:?}");
}

#[test]
fn frames_that_the_sender_leaves_out_are_not_in_time() {
    // Over TCP, frames that wait for too long are skipped, and none of the rest is lost.
    let means = run_means(&first_run(&CROWDED.replace("controllers = [\"fixed\", \"scream-v2\"]", "").replace(
        "recovery = \"intra\"\n[[all.path]]",
        "deadline = \"10s\"\n[[all.system]]\ncontroller = \"tcp-cubic\"\n[[all.path]]",
    )));
    assert!(means["frame_drop_ratio"] < 0.05 && means["frame_skip_ratio"] > 0.5, "{means:?}");
    assert!(means["in_time_ratio"] < 0.5, "{means:?}");
}

#[test]
fn where_the_path_carries_less_than_the_lowest_rate_most_that_fit_are_in_time() {
    let plan = support::shipped("below-minimum");
    for (path, least) in [("300k", 0.04), ("500k", 0.2), ("800k", 0.5), ("steps", 0.5)] {
        let has = |name: &str, value: &str, cell: &Cell| cell.labels.get(name).is_some_and(|has| has == value);
        let wanted = |cell: &&Cell| has("path", path, cell) && has("controller", "frame-clocked", cell);
        let cell = plan.cells.iter().find(wanted).expect("a cell");
        let in_time = |seed| run_means(&run(cell, seed).expect("a run"))["in_time_ratio"];
        let mean = (1..=3).map(in_time).sum::<f64>() / 3.0;
        assert!(mean > least, "{path}: {mean}");
    }
}
