//! Systems: a rate controller with its redundancy and its recovery, in virtual time.

use crate::support;
use std::path::Path;

use nearlight_lab::plan::{Published, PublishedFigure};
use nearlight_lab::{FrameLossCounts, ResultsHeader, RunRecord, STAGE_METRICS, report, run, run_means, summarise};
use support::{first_run, parse, refusal};

fn text(system: &str) -> String {
    format!(
        r#"
        question = "?"
        [all]
        duration = "20s"
        pacing = "burst"
        [all.source]
        fps = 30
        minimum = "4mbit"
        start = "4mbit"
        maximum = "4mbit"
        [all.client]
        vsync_hz = 120
        deadline = "500ms"
        [[all.path]]
        name = "lossy"
        forward = "rate=20mbit,queue=1000p,delay=10ms,loss=1%,25%"
        feedback = "delay=10ms"
        [[all.system]]
        {system}
        "#
    )
}

fn run_system(system: &str) -> RunRecord {
    first_run(&text(system))
}

fn figure(run: &RunRecord, name: &str) -> f64 {
    run_means(run).get(name).copied().unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn every_way_of_recovery_does_what_it_says() {
    let repair = run_system("controller = 'fixed'");
    let none = run_system("controller = 'fixed'\nrecovery = 'none'\nkey_every = 10");
    let protected = run_system("controller = 'fixed'\nfec = 'nebula'\nrecovery = 'none'\nkey_every = 10");
    let group = run_system("controller = 'fixed'\nfec = 'escot-gop'\nrecovery = 'group'\nkey_every = 10");
    // About one packet in a hundred leaves again, nothing is lost for good and no key frame is needed.
    assert!((0.003..0.03).contains(&figure(&repair, "redundancy_ratio")));
    assert!(figure(&repair, "residual_frame_loss") < 0.005 && repair.media[0].key_frames == 1);
    // Of 14 packets one is lost in an eighth of the frames; each spoils its followers up to the next key frame.
    let (lost, bad) = (figure(&none, "residual_frame_loss"), figure(&none, "bad_frame_ratio"));
    assert!((0.05..0.25).contains(&lost) && bad > 2.0 * lost, "{lost} {bad}");
    assert!(none.media[0].redundant_bytes == 0 && none.media[0].retransmissions == 0, "nobody asks");
    assert!((55..=60).contains(&none.media[0].key_frames), "{}", none.media[0].key_frames);
    assert!(
        figure(&protected, "bad_frame_ratio") < 0.6 * bad && figure(&protected, "recovered_by_retransmission") == 0.0
    );
    assert!(figure(&protected, "recovered_by_repair") > 20.0);
    // A picture waits for nine others, 300 ms, and for the group's 67 ms on the wire.
    let waits = figure(&group, "motion_to_photon_ms") - figure(&none, "motion_to_photon_ms");
    assert!((300.0..450.0).contains(&waits), "{waits} ms");
    assert!(figure(&group, "bad_frame_ratio") < bad);
}

#[test]
fn openuvr_shows_damage_until_its_key_frame_comes() {
    let [usual, long] =
        ["openuvr", "openuvr:60"].map(|name| run_system(&format!("controller = 'fixed'\nrecovery = '{name}'")));
    for run in [&usual, &long] {
        let media = &run.media[0];
        assert_eq!((media.retransmissions, media.redundant_bytes, media.stuck), (0, 0, 0));
        // What is damaged is not good, and what was dropped is not shown.
        let (damaged, bad) = (figure(run, "damaged_frame_ratio"), figure(run, "bad_frame_ratio"));
        assert!(damaged > 0.0 && bad > damaged, "{damaged} {bad}");
        assert!(figure(run, "frame_drop_ratio") > 0.05, "of 14 packets one is lost in an eighth of the frames");
    }
    // A fixed period of two seconds, without requests, leaves fewer key frames and longer damage.
    assert!(usual.media[0].key_frames > 2 * long.media[0].key_frames, "{}", long.media[0].key_frames);
    let [short, longer] = [&usual, &long].map(|run| figure(run, "longest_damage_ms"));
    assert!(longer > 1_000.0 && short < longer, "{short} {longer}");
    assert!(figure(&usual, "recovered_by_key_frame") > 10.0);
    let reference = run_system("controller = 'fixed'\nrecovery = 'reference'");
    assert_eq!((reference.media[0].damaged, figure(&reference, "longest_damage_ms")), (0, 0.0));
}

/// An outage of half a second: what was sent during it cannot be repaired.
#[test]
fn an_outage_is_recovered_by_a_frame_that_the_receiver_has_seen() {
    let figures = |recovery: &str| {
        let plan =
            text(&format!("controller = 'fixed'\nrecovery = '{recovery}'")).replace(",loss=1%,25%", ",outage=8s+700ms");
        let plan = parse(&plan);
        let run = run(&plan.cells[0], 1).unwrap_or_else(|error| panic!("{error}"));
        ["key_frames", "recovered_by_reference", "recovered_by_key_frame", "bad_frame_ratio"]
            .map(|name| figure(&run, name))
    };
    let [reference, repair] = ["reference", "retransmission"].map(figures);
    assert_eq!((reference[..3].to_vec(), repair[..3].to_vec()), (vec![1.0, 1.0, 0.0], vec![2.0, 0.0, 1.0]));
    assert!(reference[3] <= repair[3] && reference[3] < 0.1, "{reference:?} {repair:?}");
}

#[test]
fn over_tcp_everything_arrives_and_waits_for_what_was_lost() {
    let tcp = run_system("controller = 'tcp-cubic'\nkey_every = 10");
    let media = &tcp.media[0];
    assert!(figure(&tcp, "residual_frame_loss") < 0.05, "late while the window grows and after time-outs");
    assert!(
        media.received_frames == media.sent_frames && media.retransmissions > 10,
        "{} sent again",
        media.retransmissions
    );
    let udp = run_system("controller = 'fixed'");
    let p99 = |run: &RunRecord| run.media[0].frame_network_latency.quantile(0.99).expect("frames");
    assert!(p99(&tcp) > p99(&udp), "{} {}", p99(&tcp), p99(&udp));
    assert!((3.5..5.0).contains(&figure(&tcp, "received_mbps")));
}

#[test]
fn the_buffer_rule_stays_down_where_frames_are_shown_as_they_come() {
    let plan = text("controller = 'buffer-occupancy'\nrecovery = 'none'\nkey_every = 10")
        .replace("minimum = \"4mbit\"", "minimum = \"200kbit\"");
    let plan = parse(&plan);
    let run = run(&plan.cells[0], 1).unwrap_or_else(|error| panic!("{error}"));
    // A live source fills no buffer: the rate stays on the lowest rungs although the path carries 20 Mb/s.
    assert!(figure(&run, "received_mbps") < 0.6, "{}", figure(&run, "received_mbps"));
}

/// What a session of the buffer rule came to, with so many frames in the client's buffer, and its targets in kb/s, ten a second.
fn with_buffer(frames: u8, forward: &str) -> (RunRecord, Vec<u32>) {
    let plan = text("controller = 'buffer-occupancy'")
        .replace("minimum = \"4mbit\"", "minimum = \"200kbit\"")
        .replace("start = \"4mbit\"", "start = \"200kbit\"")
        .replace("maximum = \"4mbit\"", "maximum = \"6500kbit\"")
        .replace("duration = \"20s\"", "duration = \"45s\"\nsample = \"100ms\"\nwarm_up = \"0s\"")
        .replace("rate=20mbit,queue=1000p,delay=10ms,loss=1%,25%", forward)
        .replace("vsync_hz = 120", &format!("vsync_hz = 120\nplayback_buffer = {frames}"));
    let plan = parse(&plan);
    let run = run(&plan.cells[0], 1).unwrap_or_else(|error| panic!("{error}"));
    let targets = run.media[0].target.clone();
    (run, targets)
}

#[test]
fn the_buffer_rule_leaves_its_lowest_rung_where_the_client_plays_from_a_buffer() {
    let (run, targets) = with_buffer(11, "rate=20mbit,queue=1000p,delay=10ms");
    assert_eq!((targets[0], targets[targets.len() - 1]), (200, 6_500));
    assert!(targets.windows(2).all(|pair| pair[0] <= pair[1]), "{targets:?}");
    // What that costs: eleven frame intervals.
    let latency = figure(&run, "frame_latency_ms");
    assert!((370.0..420.0).contains(&latency), "{latency} ms");
    let (run, targets) = with_buffer(0, "rate=20mbit,queue=1000p,delay=10ms");
    assert!(targets.iter().all(|target| *target == 200), "{targets:?}");
    assert!(figure(&run, "frame_latency_ms") < 40.0);
}

#[test]
fn the_buffer_rule_goes_down_and_up_with_what_the_path_carries() {
    // 20 Mb/s but for six seconds in thirty, in which the path carries as much as the third of nine rungs; a run begins anywhere in it.
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("buffer-dip.csv");
    std::fs::write(&trace, "t_s,mbps\n0,20\n12,1\n18,20\n30,20\n").expect("a file");
    let (_, targets) = with_buffer(11, &format!("trace={},queue=1000p,delay=10ms", trace.display()));
    let mut left = targets.iter();
    for (target, what) in [(6_500, "full at first"), (200, "empty in the dip"), (6_500, "full after it")] {
        assert!(left.any(|rung| *rung == target), "the buffer is {what}: {targets:?}");
    }
}

#[test]
fn fitted_captures_leave_less_to_chance() {
    let means = |captures: &str| {
        let system = format!("controller = 'fixed'\nfec = 'planner'\ncaptures = '{captures}'");
        let plan = parse(&text(&system));
        assert_eq!(
            plan.cells[0].labels.get("captures").map(String::as_str),
            (captures == "fitted").then_some("fitted")
        );
        let run = |seed| run(&plan.cells[0], seed).unwrap_or_else(|error| panic!("{error}"));
        (1..=8).map(|seed| figure(&run(seed), "motion_to_photon_ms")).collect::<Vec<_>>()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let spread =
        |values: &[f64]| values.iter().copied().fold(0.0, f64::max) - values.iter().copied().fold(f64::MAX, f64::min);
    let (even, fitted) = (means("even"), means("fitted"));
    // Seeds differ by where captures fall between two refreshes, of which there are 120 a second; half of one is to be had on average.
    assert!(mean(&fitted) < mean(&even) - 2.0, "{fitted:?} {even:?}");
    assert!(spread(&fitted) < 0.5 * spread(&even), "{fitted:?} {even:?}");
}

#[test]
fn systems_that_cannot_work_are_refused() {
    for (system, says) in [
        ("controller = 'nobody'", "there is no rate controller `nobody`"),
        ("controller = 'fixed'\nfec = 'nobody'", "there is no redundancy policy `nobody`"),
        ("controller = 'fixed'\nrecovery = 'none'", "add key_every"),
        ("controller = 'fixed'\nrecovery = 'group'\nkey_every = 11", "from 1 to 10"),
        ("controller = 'fixed'\nrecovery = 'prayer'", "openuvr:FRAMES (0 to 600); in plans also none and group"),
        ("controller = 'tcp-cubic'\nfec = 'planner'", "leave out `fec`"),
        ("controller = 'tcp-tahoe'", "tcp-cubic"),
        ("controller = 'tcp-cubic'\ncaptures = 'fitted'", "leave out `captures`"),
        ("controller = 'fixed'\ncaptures = 'odd'", "unknown variant `odd`"),
    ] {
        let error = refusal(&text(system));
        assert!(error.contains(says), "{system}: {error}");
    }
}

#[test]
fn stages_say_where_a_frames_time_went() {
    let record = run_system("controller = 'fixed'\nrecovery = 'none'\nkey_every = 10");
    let stages: Vec<f64> = STAGE_METRICS.iter().map(|stage| figure(&record, stage)).collect();
    let of = |name: &str| figure(&record, &format!("stage_{name}_ms"));
    // Those of the plan are constants, and a packet takes 10 ms and its own length, 0.5 ms at 20 Mb/s.
    for (name, constant) in [("render", record.render), ("encode", record.encode)] {
        assert!((of(name) - constant.as_millis_f64()).abs() < 0.1, "{name}: {}", of(name));
    }
    assert!(of("decode") >= record.decode.as_millis_f64() - 0.1 && of("network") > 10.0, "{stages:?}");
    let from_capture: f64 = stages.iter().sum::<f64>() - of("input") - of("wait");
    assert!((from_capture - figure(&record, "frame_latency_ms")).abs() < 0.5, "{stages:?}");
    let over_tcp = run_system("controller = 'tcp-cubic'\nkey_every = 10");
    assert!(STAGE_METRICS.iter().all(|stage| !run_means(&over_tcp).contains_key(stage)));
}

#[test]
fn damage_lasts_as_long_as_it_does_where_there_is_any() {
    let record = run_system("controller = 'fixed'");
    let with = |bad, runs| {
        let mut record = record.clone();
        record.media[0].frame_losses = Some(FrameLossCounts { residual: 0, bad, runs });
        record
    };
    let frames = |records: &[&RunRecord]| {
        let figure = summarise(&record.labels, records).metrics["recovery_frames"];
        (figure.mean, figure.n)
    };
    assert_eq!(frames(&[&with(0, 0), &with(6, 2)]), (3.0, 1));
    assert_eq!(frames(&[&with(0, 0), &with(0, 0)]), (0.0, 2));
}

#[test]
fn a_page_has_systems_side_by_side_and_published_figures_beside_ours() {
    let systems =
        "controller = 'fixed'\n[[all.system]]\ncontroller = 'fixed'\nfec = 'nebula'\nrecovery = 'none'\nkey_every = 10";
    let plan = parse(&text(systems));
    let runs: Vec<RunRecord> =
        plan.cells.iter().map(|cell| run(cell, 1).unwrap_or_else(|error| panic!("{error}"))).collect();
    let page = |published: &[Published]| {
        let head = ResultsHeader {
            plan: plan.name.clone(),
            question: plan.question.clone(),
            notes: plan.notes.clone(),
            published: published.to_vec(),
            digest: plan.digest,
            commit: String::new(),
            program: 0,
            live: false,
            shard: None,
        };
        report::document(&head, &runs).to_html()
    };
    let published = Published {
        source: "somebody".to_owned(),
        labels: [("fec".to_owned(), "nebula".to_owned())].into(),
        metrics: [
            ("motion_to_photon_ms".to_owned(), PublishedFigure::Below(131.0)),
            ("stage_decode_ms".to_owned(), PublishedFigure::Exactly(9.125)),
        ]
        .into(),
    };
    let (without, with) = (page(&[]), page(&[published]));
    // One section for both.
    assert_eq!(with.matches("<section").count(), 1);
    assert!(with.contains("motion to photon, published") && with.contains("below 131") && with.contains("9.12"));
    assert!(without.contains("motion to photon") && !without.contains(", published"));
}
