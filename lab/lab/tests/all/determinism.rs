//! A run in virtual time is a function of plan, program and seed: every plan that ships, shortened, gives the same bytes each time.

use crate::support;
use std::sync::Arc;

use nearlight_lab::plan::{Encoder, Setting, Transport};
use nearlight_lab::{Cell, Options, Outcome, Plan};
use nearlight_units::Span;
use support::json;

/// Length of a run over WebRTC: long enough for receiver reports, one a second.
const OVER_WEBRTC: Span = Span::from_millis(2_000);
const USUAL: Span = Span::from_millis(400);
/// A codec takes far longer than its model.
const WITH_CODEC: Span = Span::from_millis(150);
const WARM_UP: Span = Span::from_millis(100);

fn shorten(cell: &mut Cell) {
    let setting = &cell.setting;
    let most = match (&setting.source.encoder, setting.transport) {
        (Encoder::Codec { .. }, _) => WITH_CODEC,
        (Encoder::Model(_), Transport::WebRtc) => OVER_WEBRTC,
        (Encoder::Model(_), Transport::WebTransport) => USUAL,
    };
    let (duration, warm_up) = (setting.duration.min(most), setting.warm_up.min(WARM_UP));
    // What starts, pauses or stops later does so at the same share of the run.
    let share = duration.as_secs_f64() / setting.duration.as_secs_f64();
    let scale = |time: &mut Span| *time = time.mul_f64(share);
    for flow in &mut cell.flows {
        [&mut flow.start, &mut flow.stop].into_iter().for_each(scale);
    }
    for media in &mut cell.media {
        let pauses = media.pauses.iter_mut().flat_map(|(from, to)| [from, to]);
        [&mut media.start, &mut media.stop].into_iter().chain(pauses).for_each(scale);
    }
    cell.setting = Arc::new(Setting { duration, warm_up, ..Setting::clone(setting) });
    if let Some(traffic) = &mut cell.traffic {
        traffic.scenario.duration = traffic.scenario.duration.min(WITH_CODEC);
        traffic.scenario.warm_up = traffic.scenario.warm_up.min(WARM_UP);
        traffic.scenario.runs = 1;
    }
}

fn outcome(plan: &Plan, threads: usize) -> Outcome {
    let options = Options { seeds: Some(1), threads: Some(threads), ..Options::default() };
    support::outcome(plan, &options)
}

/// Labels of the cells whose two runs differ.
fn differing(plan: &mut Plan) -> Vec<String> {
    plan.cells.iter_mut().for_each(shorten);
    let [one, other] = [1, 2].map(|threads| outcome(plan, threads));
    assert_eq!(one.runs.len(), plan.cells.len(), "{}", plan.name);
    // Those that start last may send nothing that arrives in so short a run.
    let late = || one.runs.iter().flat_map(|run| &run.rivals).filter(|rival| rival.from > 0.0);
    let carried = late().filter(|rival| rival.delivered > 0 || rival.received.iter().any(|rate| *rate > 0)).count();
    assert!(carried * 2 >= late().count(), "{}: {carried} of {} late flows carry anything", plan.name, late().count());
    let runs = one.runs.iter().zip(&other.runs);
    let differ = runs.filter(|(one, other)| json(one) != json(other)).map(|(one, _)| json(&one.labels)).collect();
    if json(&one.summary) == json(&other.summary) { differ } else { [differ, vec!["the summary".into()]].concat() }
}

#[test]
fn every_shipped_plan_gives_the_same_bytes_twice_and_on_two_threads() {
    let mut plans = support::all_shipped();
    for plan in &mut plans {
        let differing = differing(plan);
        assert!(differing.is_empty(), "{}: {} cells differ: {differing:?}", plan.name, differing.len());
    }
    assert!(plans.len() >= 15, "{} plans", plans.len());
}

/// Losses in both directions make a run depend on the order of whatever goes out at the same time.
#[test]
fn a_lossy_session_over_webrtc_is_the_same_each_time() {
    let text = r#"
        question = "?"
        [all]
        duration = "20s"
        warm_up = "1s"
        sample = "200ms"
        controllers = ["gcc-libwebrtc"]
        transport = "webrtc"
        feedback_every = "10ms"
        [all.source]
        fps = 60
        [[all.path]]
        name = "path"
        forward = "rate=8mbit,queue=100ms,delay=15ms,loss=5%"
        feedback = "delay=15ms,loss=20%"
    "#;
    let plan = support::parse(text);
    let first = json(&outcome(&plan, 1).runs);
    for _ in 0..5 {
        assert!(json(&outcome(&plan, 1).runs) == first, "another run");
    }
}
