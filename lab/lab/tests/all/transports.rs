//! Sessions over WebRTC in virtual time: exact, as good as over our own datagrams, and with the same decisions.

use crate::support;
use nearlight_lab::{MediaRecord, Plan, RunRecord, run};
use support::{parse, refusal};

/// One session, with a controller, redundancy, transport, distance of feedback and path.
fn plan((controller, fec): (&str, &str), transport: &str, feedback: &str, path: &str) -> Plan {
    let text = format!(
        r#"
        question = "?"
        [all]
        duration = "20s"
        warm_up = "5s"
        sample = "200ms"
        controllers = ["{controller}"]
        fec = "{fec}"
        pacing = "interval:5ms"
        transport = "{transport}"
        feedback_every = "{feedback}"
        [all.source]
        fps = 60
        minimum = "1mbit"
        start = "6mbit"
        maximum = "20mbit"
        [[all.path]]
        name = "path"
        forward = "{path}"
        feedback = "delay=10ms"
        "#
    );
    parse(&text)
}

fn run_over(controller: &str, transport: &str, feedback: &str, path: &str) -> RunRecord {
    run_with((controller, "none"), transport, feedback, path)
}

fn run_with(system: (&str, &str), transport: &str, feedback: &str, path: &str) -> RunRecord {
    run(&plan(system, transport, feedback, path).cells[0], 1).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_run_over_webrtc_is_the_same_each_time() {
    let path = "rate=8mbit,queue=100ms,delay=10ms,loss=1%";
    let record = || {
        let record = run_over("gcc-libwebrtc", "webrtc", "62.5ms", path);
        serde_json::to_string(&record).expect("plain figures")
    };
    assert_eq!(record(), record());
}

#[test]
fn every_frame_arrives_and_inputs_come_back_as_pictures() {
    let record = run_over("fixed", "webrtc", "62.5ms", "rate=20mbit,queue=100ms,delay=10ms");
    let media = &record.media[0];
    assert_eq!((media.sent_frames, media.received_frames, media.packets_lost), (840, 840, 0));
    assert_eq!(media.key_frames, 0, "the first one alone, before what is measured");
    assert!(media.displayed >= 835, "{} displayed", media.displayed);
    let own = run_over("fixed", "webtransport", "62.5ms", "rate=20mbit,queue=100ms,delay=10ms");
    let mean = |histogram: &nearlight_lab::Histogram| histogram.mean().expect("samples") / 1e3;
    for (name, over_rtc, over_own) in [
        ("frames", mean(&media.frame_network_latency), mean(&own.media[0].frame_network_latency)),
        ("display", mean(&media.frame_latency), mean(&own.media[0].frame_latency)),
        ("newest inputs", mean(&media.motion_to_photon), mean(&own.media[0].motion_to_photon)),
        ("inputs", mean(&media.input_to_photon), mean(&own.media[0].input_to_photon)),
    ] {
        assert!(
            (over_rtc - over_own).abs() < 1.0,
            "{name}: {over_rtc} ms over WebRTC, {over_own} ms over our own datagrams"
        );
    }
}

#[test]
fn losses_are_recovered() {
    let record = run_over("fixed", "webrtc", "62.5ms", "rate=20mbit,queue=100ms,delay=10ms,loss=1%");
    let media = &record.media[0];
    assert_eq!(media.sent_frames, 840);
    assert!(media.received_frames >= 838, "{} received", media.received_frames);
    assert!(
        media.packets_lost > 50 && media.retransmissions > 50,
        "{} lost, {} sent again",
        media.packets_lost,
        media.retransmissions
    );
}

#[test]
fn repairs_spare_requests_and_waiting() {
    let path = "rate=20mbit,queue=100ms,delay=25ms,loss=2%";
    let [none, planned] = ["none", "fixed:20"].map(|fec| run_with(("fixed", fec), "webrtc", "62.5ms", path));
    let [none, planned] = [&none.media[0], &planned.media[0]];
    assert_eq!((none.sent_frames, planned.sent_frames), (840, 840));
    let share = |media: &MediaRecord| media.redundant_bytes as f64 / (media.redundant_bytes + media.other_bytes) as f64;
    // What is sent again counts as well.
    let shares = [share(none), share(planned)];
    assert!(shares[0] < 0.04 && (0.1..0.3).contains(&shares[1]), "redundant were {shares:?} of what was sent");
    assert!(planned.received_frames >= 838, "{} received", planned.received_frames);
    assert!(
        planned.retransmissions * 2 < none.retransmissions,
        "{} sent again, without redundancy {}",
        planned.retransmissions,
        none.retransmissions
    );
    let [planned, none] = [planned, none].map(|media| media.frame_network_latency.mean().expect("samples") / 1e3);
    assert!(planned + 1.0 < none, "{planned} ms, without redundancy {none} ms");
}

/// Mean of the target over the measured time, in Mb/s, and how far one series is from another on average, as a share of that.
fn apart(one: &RunRecord, other: &RunRecord) -> f64 {
    let measured = |record: &RunRecord| record.media[0].target[25..].to_vec();
    let (one, other) = (measured(one), measured(other));
    let mean = other.iter().map(|rate| f64::from(*rate)).sum::<f64>() / other.len() as f64;
    let differences = one.iter().zip(&other).map(|(one, other)| (f64::from(*one) - f64::from(*other)).abs());
    differences.sum::<f64>() / one.len() as f64 / mean
}

#[test]
fn controllers_decide_alike_over_both_transports() {
    let path = "rate=12mbit/6mbit@12s,queue=100ms,delay=10ms";
    for controller in ["gcc-libwebrtc", "nada-rfc8698", "scream-v2"] {
        let webrtc = run_over(controller, "webrtc", "62.5ms", path);
        let own = run_over(controller, "webtransport", "62.5ms", path);
        let difference = apart(&webrtc, &own);
        eprintln!("{controller}: {difference:.3}");
        assert!(difference < 0.15, "{controller}: targets are {:.1} % apart", difference * 100.0);
    }
}

#[test]
fn what_webrtc_has_no_means_for_is_refused() {
    for (further, what) in [
        ("[all.client]\nrecovery = \"intra\"", "recovery"),
        ("ecn = \"ect1\"", "marks"),
        ("feedback_every = \"2s\"", "feedback_every"),
    ] {
        let text = format!(
            "question = \"?\"\n[all]\nduration = \"5s\"\ntransport = \"webrtc\"\n{further}\n[[all.path]]\nname = \"p\"\nforward = \"delay=1ms\"\n"
        );
        let error = refusal(&text);
        assert!(error.contains(what), "`{error}` does not say `{what}`");
    }
}
