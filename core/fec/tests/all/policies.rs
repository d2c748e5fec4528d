//! Costs and benefits of policies, with real codes over a channel with bursty losses.

use crate::support;
use nearlight_fec::LossProcess;
use nearlight_fec::policy::new_policy;
use nearlight_units::Span;
use support::session::{Cell, Outcomes, run};

/// Enough for residual losses of a per mille in release, and for a debug build to end within seconds.
const FRAMES: u32 = if cfg!(debug_assertions) { 600 } else { 1_500 };

fn cell(loss: f64, burst: f64, round_trip: i64) -> Cell {
    Cell {
        process: LossProcess::new(loss, burst),
        round_trip: Span::from_millis(round_trip),
        deadline: Span::from_millis(50),
        sources: 32,
        group: 0,
        frames: FRAMES,
        freeze: 100.0,
        seed: 1,
    }
}

fn outcomes(policy: &str, cell: Cell) -> Outcomes {
    run(cell, new_policy(policy).expect(policy).as_mut())
}

/// The planner's bad frames when it spends as much as `overhead`: time shared between the two nearest prices.
fn planner_at(cell: Cell, overhead: f64) -> f64 {
    let run = |freeze: f64| outcomes("planner", Cell { freeze, ..cell });
    let curve = [0.1, 0.2, 0.4, 0.6, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1e4].map(run);
    println!("{:?}", curve.map(|c| (c.overhead, c.bad)));
    let below = curve.iter().filter(|point| point.overhead <= overhead).min_by(|a, b| a.bad.total_cmp(&b.bad));
    let above = curve.iter().filter(|point| point.overhead > overhead).min_by(|a, b| a.overhead.total_cmp(&b.overhead));
    match (below, above) {
        (Some(below), Some(above)) => {
            let share = (overhead - below.overhead) / (above.overhead - below.overhead);
            below.bad.min(below.bad + (above.bad - below.bad) * share)
        }
        (Some(below), None) => below.bad,
        (None, _) => 1.0,
    }
}

#[test]
fn the_planner_spoils_fewer_frames_than_nebula_for_the_same_overhead() {
    for (loss, burst, round_trip) in
        [(0.01, 1.33, 5), (0.01, 1.33, 20), (0.05, 8.0, 20), (0.01, 1.33, 50), (0.03, 3.0, 100), (0.1, 1.33, 100)]
    {
        let cell = cell(loss, burst, round_trip);
        let nebula = outcomes("nebula", cell);
        let bad = planner_at(cell, nebula.overhead);
        assert!(bad < nebula.bad, "{cell:?}: {bad} at the overhead of {nebula:?}");
    }
}

#[test]
fn one_percent_of_loss_at_20_ms_costs_less_than_three_percent() {
    let found = outcomes("planner", cell(0.01, 4.0 / 3.0, 20));
    assert!(found.overhead <= 0.03 && found.residual <= 0.001, "{found:?}");
    // Sending it all beforehand costs several times as much.
    let far = outcomes("planner", cell(0.01, 4.0 / 3.0, 60));
    assert!(far.overhead > 3.0 * found.overhead && far.residual <= 0.003, "{far:?}");
}

#[test]
fn plans_expect_what_happens() {
    for (loss, burst, round_trip) in [(0.03, 3.0, 100), (0.05, 8.0, 100), (0.02, 1.33, 20)] {
        let cell = Cell { freeze: 3.0, ..cell(loss, burst, round_trip) };
        let found = outcomes("planner", cell);
        let chance = (found.expected * (1.0 - found.expected) / f64::from(cell.frames)).sqrt();
        // Losses come in bursts, so their number varies more than that of independent ones.
        let off = (found.residual - found.expected).abs();
        assert!(off <= 4.0 * burst.sqrt() * chance + 0.15 * found.expected, "{cell:?}: {found:?}");
    }
}

#[test]
fn a_clean_path_costs_nothing() {
    for policy in ["planner", "none"] {
        for round_trip in [5, 20, 100] {
            let found = outcomes(policy, cell(0.0, 1.0, round_trip));
            assert!(found.overhead + found.residual + found.bad == 0.0, "{policy}: {found:?}");
        }
    }
}

/// Groups of pictures: what is lost of a key frame spoils the whole group, so that it gets more.
#[test]
fn frames_of_a_group_are_protected_by_what_depends_on_them() {
    let cell = Cell { group: 10, ..cell(0.01, 1.33, 100) };
    for policy in ["planner", "nebula", "escot-gop"] {
        let found = outcomes(policy, cell);
        assert!(found.overhead < 0.3 && found.residual < 1.0, "{policy}: {found:?}");
    }
    assert!(outcomes("planner", cell).residual < outcomes("nebula", cell).residual);
}

/// An allowance that a path can live with is kept: requests are answered whatever it says, so a smaller one is not.
#[test]
fn a_budget_is_kept_and_spent_where_it_saves_most() {
    for (loss, burst, round_trip, percent) in [(0.01, 1.33, 60, 6_u16), (0.03, 3.0, 100, 20)] {
        let cell = cell(loss, burst, round_trip);
        let (free, held) = (outcomes("planner", cell), outcomes(&format!("planner:{percent}"), cell));
        let allowed = f64::from(percent) / 100.0;
        assert!(free.overhead > allowed && held.overhead < 1.2 * allowed, "{cell:?}: {free:?} {held:?}");
        let none = outcomes("none", cell);
        assert!(held.bad < 0.7 * none.bad, "{cell:?}: {held:?} {none:?}");
    }
    let clean = outcomes("planner:6", cell(0.0, 1.0, 60));
    assert!(clean.overhead.abs() < f64::EPSILON, "an allowance is not a duty: {clean:?}");
}
