//! Sessions in virtual time against closed forms, and with codecs that really run.

use std::path::Path;

use nearlight_lab::{Plan, RunRecord, run};

fn run_text(text: &str) -> RunRecord {
    let plan = Plan::parse(Path::new("test.toml"), text).unwrap_or_else(|error| panic!("{error}"));
    run(&plan.cells[0], 1).unwrap_or_else(|error| panic!("{error}"))
}

/// Frames of exactly 20 Mb/s in bursts over a wire of 40 Mb/s.
#[test]
fn a_frame_takes_its_own_length_on_the_wire_and_the_delay() {
    let record = run_text(
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

/// A client that asks for key frames only drops everything from a loss to the next of them.
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
    let (repair, intra) = (run_text(&text("repair")), run_text(&text("intra")));
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
    let (one, again) = (run_text(text), run_text(text));
    let media = &one.media[0];
    assert!(media.psnr.count() > 60, "{} pictures", media.psnr.count());
    let (psnr, ssim) = (media.psnr.mean().expect("pictures") / 1e3, media.ssim.mean().expect("pictures") / 1e6);
    assert!((25.0..60.0).contains(&psnr) && (0.8..1.0).contains(&ssim), "{psnr} dB, {ssim}");
    assert_eq!((media.psnr.mean(), media.ssim.mean()), (again.media[0].psnr.mean(), again.media[0].ssim.mean()));
}
