//! A controller's behaviour on a path, as scenarios. Figures are those that it reaches, with some room.

use crate::link::{Link, Path};
use nearlight_rate::{Bounds, Limit};
use nearlight_units::{Bitrate, Span};

/// Random losses of three runs; a story must hold for each.
const SEEDS: [u64; 3] = [1, 2, 3];

const fn mbps(rate: u64) -> Bitrate {
    Bitrate::from_mbps(rate)
}

fn path(link: Link, seed: u64) -> Path {
    Path::new("gcc-libwebrtc", Bounds::up_to(mbps(100)), link, seed)
}

#[test]
fn probes_take_the_start_to_the_capacity_within_a_second() {
    for capacity in [20, 50, 80] {
        let mut path = path(Link::of(mbps(capacity)), 1);
        let start = path.run(Span::from_secs(5));
        assert!(start.converged.is_some_and(|after| after < Span::from_secs(1)), "{start:?}");
        assert!(start.queue_p95 < Span::from_millis(30), "{start:?}");
        let settled = path.run(Span::from_secs(20));
        assert!(settled.target > mbps(capacity).mul_f64(0.82), "{settled:?}");
        assert!(settled.received > mbps(capacity).mul_f64(0.82), "{settled:?}");
        assert!(settled.queue_p95 < Span::from_millis(15) && settled.lost < 0.001, "{settled:?}");
    }
}

#[test]
fn a_start_above_the_capacity_comes_down() {
    let mut path = path(Link::of(mbps(5)), 1);
    let start = path.run(Span::from_secs(5));
    assert!(start.congested < Span::from_secs(1), "{start:?}");
    let settled = path.run(Span::from_secs(25));
    assert!(settled.received > mbps(4) && settled.congested == Span::ZERO, "{settled:?}");
}

#[test]
fn a_fall_to_a_quarter_is_answered_in_300_ms_and_its_queue_gone_in_1200_ms_and_the_rate_comes_back() {
    // The fall comes at any place between two probes.
    for seconds in [8, 12, 20] {
        let mut path = path(Link::of(mbps(20)), 1);
        path.run(Span::from_secs(seconds));
        path.link.capacity = mbps(5);
        path.run(Span::from_millis(300));
        assert!(path.decision.target < mbps(5), "{:?}", path.decision);
        assert_eq!(path.decision.binding, Limit::Delay);
        let falling = path.run(Span::from_secs(3));
        assert!(falling.congested < Span::from_millis(900), "after {seconds} s: {falling:?}");
        let low = path.run(Span::from_secs(8));
        assert!(low.received > mbps(4) && low.congested == Span::ZERO, "{low:?}");
        path.link.capacity = mbps(20);
        let risen = path.run(Span::from_secs(17));
        assert!(risen.highest_target > mbps(16), "one stagnant probe later: {risen:?}");
        let back = path.run(Span::from_secs(5));
        assert!(back.target > mbps(16), "{back:?}");
    }
}

#[test]
fn random_loss_up_to_5_percent_does_not_collapse_the_rate() {
    for seed in SEEDS {
        for (capacity, loss) in [(20, 0.02), (50, 0.02), (50, 0.05)] {
            let mut path = path(Link { loss, ..Link::of(mbps(capacity)) }, seed);
            path.run(Span::from_secs(5));
            let settled = path.run(Span::from_secs(15));
            assert!(settled.target > mbps(capacity).mul_f64(0.8), "{loss}, seed {seed}: {settled:?}");
        }
    }
}

#[test]
fn without_feedback_the_rate_falls_and_a_probe_restores_it() {
    for blocked in [false, true] {
        let mut path = path(Link::of(mbps(20)), 1);
        let before = path.run(Span::from_secs(10));
        // Either only feedback is lost, or everything.
        path.link.feedback = false;
        path.link.open = !blocked;
        path.run(Span::from_secs(2));
        assert!(path.decision.target < before.target.mul_f64(0.6), "{:?}", path.decision);
        assert_eq!(path.decision.binding, Limit::FeedbackTimeout);
        path.link.feedback = true;
        path.link.open = true;
        let after = path.run(Span::from_secs(2));
        assert!(after.converged.is_some_and(|after| after < Span::from_millis(200)), "{after:?}");
        assert!(path.decision.target > mbps(16), "{:?}", path.decision);
    }
}

#[test]
fn a_long_outage_ends_at_the_minimum_and_the_timer_rests() {
    let mut path = path(Link { feedback: false, ..Link::of(mbps(20)) }, 1);
    path.run(Span::from_secs(10));
    assert_eq!(path.decision.target, Bounds::MINIMUM);
    let due = path.controller.poll_timeout();
    assert!(due.is_none_or(|(at, _)| at > path.now + Span::from_millis(100)), "{due:?}");
}

#[test]
fn an_application_that_sends_little_gets_no_more_than_probes_have_shown() {
    let mut path = path(Link::of(mbps(20)), 1);
    path.demand = mbps(3);
    let little = path.run(Span::from_secs(30));
    assert!(little.highest_target <= mbps(20), "{little:?}");
    assert!(little.queue_maximum < Span::from_millis(30), "{little:?}");
    path.demand = Bitrate::MAX;
    let full = path.run(Span::from_secs(10));
    assert!(full.target > mbps(16) && full.queue_p95 < Span::from_millis(35), "{full:?}");
}

#[test]
fn growth_ends_at_one_and_a_half_times_what_the_application_sends() {
    let mut path = path(Link::of(mbps(60)), 1);
    // Above 65 % of the estimate the application does not count as limiting, and the maximum keeps probes small.
    path.set_bounds(Bounds { minimum: mbps(1), start: mbps(8), maximum: mbps(8) });
    path.demand = mbps(6);
    path.run(Span::from_secs(3));
    path.set_bounds(Bounds { minimum: mbps(1), start: mbps(8), maximum: mbps(9) });
    let grown = path.run(Span::from_secs(30));
    assert!(grown.highest_target <= mbps(6).mul_f64(1.5), "{grown:?}");
    // With room above, the path's capacity is as far as probes can show.
    path.set_bounds(Bounds::up_to(mbps(100)));
    let grown = path.run(Span::from_secs(60));
    assert!(grown.highest_target <= mbps(60), "{grown:?}");
}

#[test]
fn bounds_are_kept_while_they_move() {
    let mut path = path(Link::of(mbps(30)), 1);
    for maximum in [10, 2, 40, 15, 100, 1] {
        let bounds = Bounds { minimum: mbps(1), start: mbps(8), maximum: mbps(maximum) }.in_order();
        path.set_bounds(bounds);
        let kept = path.run(Span::from_secs(3));
        assert!(kept.highest_target <= mbps(maximum), "{kept:?}");
    }
    path.set_bounds(Bounds { minimum: mbps(4), start: mbps(8), maximum: mbps(100) });
    assert!(path.run(Span::from_secs(5)).target > mbps(20), "a raised maximum is probed for");
}
