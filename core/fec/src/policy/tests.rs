use nearlight_units::{Bitrate, Bytes, Span};

use super::*;
use crate::gilbert::{Interleaved, LossProcess};

fn facts() -> FrameFacts {
    FrameFacts {
        sources: 32,
        packet: Bytes::new(1_200),
        key: false,
        index: 5,
        group: 0,
        interval: Span::from_micros(16_667),
        deadline: Span::from_millis(50),
        round_trip: Span::from_millis(20),
        jitter: Span::from_millis(2),
        losses: LossSummary::random(LossProcess::new(0.01, 4.0 / 3.0)),
        rate: Bitrate::from_mbps(20),
        distortion: RateDistortion::TYPICAL,
        interleaved: false,
        window: 8,
    }
}

fn total(repairs: impl Iterator<Item = u16>) -> f64 {
    repairs.map(f64::from).sum()
}

#[test]
fn sums_of_some_packets_are_planned_as_what_they_recover() {
    // No round trip fits, and nothing but this frame can be covered.
    let facts = FrameFacts { round_trip: Span::from_millis(100), window: 1, sources: 12, ..facts() };
    for (loss, burst) in [(0.01, 1.0), (0.02, 1.33), (0.05, 2.0)] {
        let losses = LossSummary { random: LossProcess::new(loss, burst), ..facts.losses };
        let any = Planner::default().plan(&FrameFacts { losses, ..facts });
        let sums = Planner::default().plan(&FrameFacts { losses, interleaved: true, ..facts });
        assert!(any.repairs > 0 && sums.repairs > 0, "{loss} {burst}: {any:?} {sums:?}");
        let fails = Interleaved::new(losses.random).fails(12, usize::from(sums.repairs));
        assert!(sums.expected_loss.is_some_and(|expected| (expected - fails).abs() < 1e-9), "{sums:?}");
        assert!(sums.expected_loss > any.expected_loss || sums.repairs > any.repairs, "{any:?} {sums:?}");
        // A packet more or less is not worth it.
        let cost = |repairs: u16| {
            let late = sums.candidates[0].map(|nothing| nothing.cost).unwrap_or_default()
                / Interleaved::new(losses.random).fails(12, 0);
            f64::from(repairs) + late * Interleaved::new(losses.random).fails(12, usize::from(repairs))
        };
        assert!(cost(sums.repairs) <= cost(sums.repairs + 1) && cost(sums.repairs) <= cost(sums.repairs - 1));
    }
}

/// 1 % loss, 30 frames a second, 1,400-byte packets, key frames four times the size of the nine others.
#[test]
fn nebula_redundancy_matches_the_reconstruction_s_figures() {
    for (mbps, expected) in [(2.0, 0.135), (3.0, 0.099), (4.5, 0.066)] {
        let other = mbps * 1e6 / 8.0 / 3.0 / 13.0;
        let packets = |index: u32| ((if index == 0 { 4.0 * other } else { other }) / 1_400.0_f64).ceil() as u16;
        let repairs = total((0..10).map(|index| nebula_repairs(packets(index), 0.01, index, 10)));
        let all = repairs + total((0..10).map(packets));
        assert!((repairs / all - expected).abs() < 0.006, "{mbps} Mb/s: {}", repairs / all);
    }
}

#[test]
fn nebula_protects_by_place_and_loss_and_never_nothing() {
    // sources, loss, index, group, repairs
    let table = [
        (1, 0.0, 0, 10, 1),
        (40, 0.0, 3, 10, 1),
        (100, 0.01, 0, 10, 3),
        (100, 0.01, 9, 10, 2),
        (100, 0.05, 0, 10, 27),
        (100, 0.05, 5, 10, 16),
        (100, 0.05, 9, 10, 8),
        (100, 0.05, 19, 10, 8),
        (100, 0.05, 0, 0, 27),
        // 100 * 0.02 / 0.98 * (1 + 2 * (10 - i) / 10)
        (100, 0.02, 0, 10, 7),
        (100, 0.02, 5, 10, 5),
        (1_000, 0.9, 9, 10, 1_400),
    ];
    for (sources, loss, index, group, repairs) in table {
        assert_eq!(nebula_repairs(sources, loss, index, group), repairs, "{sources} {loss} {index} {group}");
    }
}

#[test]
fn fixed_shares_round_up() {
    for (percent, sources, repairs) in [(0, 40, 0), (20, 40, 8), (20, 1, 1), (1, 1_000, 10), (200, 3, 6)] {
        let plan = Fixed { percent }.plan(&FrameFacts { sources, ..facts() });
        assert_eq!(plan.repairs, repairs, "{percent} % of {sources}");
    }
}

#[test]
fn escot_sends_one_block_behind_the_group() {
    let mut policy = EscotGop::default();
    for group in 0..2 {
        for index in 0..10 {
            let losses = LossSummary::random(LossProcess::independent(0.02));
            let plan = policy.plan(&FrameFacts { index, key: index == 0, group: 10, window: 32, losses, ..facts() });
            // 320 symbols, 2 % / 98 % of them half again: 9.8.
            let expected = if index == 9 { (10, 10) } else { (0, index as u8 + 1) };
            assert_eq!((plan.repairs, plan.cover), expected, "group {group}, frame {index}");
        }
    }
}

#[test]
fn rounds_are_those_that_fit_the_deadline() {
    let rounds = |deadline, round_trip| {
        let span = Span::from_millis;
        FrameFacts { deadline: span(deadline), round_trip: span(round_trip), jitter: Span::ZERO, ..facts() }.rounds()
    };
    // The reference's example: 60 ms in all allow two rounds up to 20 ms of round trip and one up to 36.
    assert_eq!([(60, 20), (60, 21), (60, 36), (60, 37)].map(|(deadline, rtt)| rounds(deadline, rtt)), [2, 1, 1, 0]);
    assert_eq!([(0, 20), (-50, 20), (500, 0), (60, 10_000)].map(|(deadline, rtt)| rounds(deadline, rtt)), [0, 0, 3, 0]);
}

#[test]
fn the_planner_asks_where_a_round_trip_fits_and_prevents_where_none_does() {
    let mut planner = Planner::default();
    let near = planner.plan(&facts());
    assert_eq!((near.basis, near.rounds), (Basis::Demand, 1));
    assert!(near.repairs <= 1, "{near:?}");
    let far = planner.plan(&FrameFacts { round_trip: Span::from_millis(100), ..facts() });
    assert_eq!((far.basis, far.rounds), (Basis::Window, 0));
    assert!(far.repairs >= 3 && far.cover == 4, "{far:?}");
    let alone = planner.plan(&FrameFacts { round_trip: Span::from_millis(100), window: 1, ..facts() });
    assert_eq!((alone.basis, alone.cover), (Basis::Block, 1));
}

#[test]
fn the_winner_is_among_the_candidates_and_none_is_cheaper() {
    let mut planner = Planner::default();
    for round_trip in [5, 20, 40, 100, 300] {
        for key in [false, true] {
            let plan = planner.plan(&FrameFacts { round_trip: Span::from_millis(round_trip), key, ..facts() });
            let weighed: Vec<Candidate> = plan.candidates.into_iter().flatten().collect();
            let chosen = weighed.iter().find(|candidate| candidate.basis == plan.basis).expect("it was weighed");
            assert!(plan.repairs == chosen.repairs || (plan.repairs == 0 && plan.basis == Basis::Window), "{plan:?}");
            assert!(weighed.len() >= 2 && weighed.iter().all(|other| other.cost >= chosen.cost), "{plan:?}");
        }
    }
}

#[test]
fn dearer_packets_and_cleaner_paths_buy_less() {
    let mut planner = Planner::default();
    let mut repairs = |change: &dyn Fn(&mut FrameFacts)| {
        let mut facts = FrameFacts { round_trip: Span::from_millis(100), window: 1, ..facts() };
        change(&mut facts);
        planner.plan(&facts).repairs
    };
    let usual = repairs(&|_| {});
    assert!(repairs(&|facts| facts.rate = Bitrate::from_mbps(1)) < usual);
    assert!(repairs(&|facts| facts.rate = Bitrate::from_mbps(100)) > usual);
    assert!(repairs(&|facts| facts.losses = LossSummary::random(LossProcess::new(0.001, 1.0))) < usual);
    assert!(repairs(&|facts| facts.losses = LossSummary::random(LossProcess::new(0.05, 1.33))) > usual);
    assert_eq!(repairs(&|facts| facts.losses = LossSummary::CLEAN), 0);
}

#[test]
fn congestion_loss_buys_nothing() {
    let losses = LossSummary { random: LossProcess::CLEAN, congestion: 0.2, total: 0.2 };
    for preset in POLICIES {
        let name = preset.name.replace('P', "15");
        // Redundancy that is added even without losses: a configured share, and Nebula's one packet.
        let always = |sources: u16| match name.as_str() {
            "fixed:15" => (sources * 15).div_ceil(100),
            "nebula" | "planner-as-nebula" => 1,
            _ => 0,
        };
        let mut policy = new_policy(&name).expect("a policy");
        for (index, round_trip) in (0..40).zip([5, 100].into_iter().cycle()) {
            let facts = FrameFacts { losses, index, round_trip: Span::from_millis(round_trip), ..facts() };
            let plan = policy.plan(&facts);
            assert!(plan.repairs <= always(facts.sources), "{name}: {plan:?}");
        }
    }
}

#[test]
fn answers_allow_for_their_own_losses() {
    let mut planner = Planner::default();
    let mut answer = |needed, deadline, loss| {
        let losses = LossSummary::random(LossProcess::new(loss, 1.33));
        let facts = FrameFacts { deadline: Span::from_millis(deadline), losses, ..facts() };
        planner.answer(&Shortage { needed, underway: 0, facts }).expect("it answers")
    };
    assert_eq!(answer(0, 50, 0.01), 0);
    // The last chance before the deadline is worth more than one with another round behind it.
    let (last, early) = (answer(4, 20, 0.01), answer(4, 80, 0.01));
    assert!(last > early && early >= 4, "{last} {early}");
    assert!(answer(4, 20, 0.1) > last);
    assert!(answer(500, 20, 0.01) > 500);
    assert_eq!(answer(u16::MAX, 20, 0.3), u16::MAX);
}

#[test]
fn absurd_facts_are_planned_for_all_the_same() {
    let mut policies: Vec<Box<dyn RedundancyPolicy>> =
        ["planner", "nebula", "escot-gop", "fixed:200", "none"].map(|name| new_policy(name).expect(name)).into();
    let spans = [Span::ZERO, Span::MAX, Span::from_secs(-1), Span::from_millis(10)];
    for policy in &mut policies {
        for sources in [0, 1, 300, u16::MAX] {
            for span in spans {
                let facts = FrameFacts {
                    sources,
                    packet: Bytes::new(u64::MAX),
                    index: u32::MAX,
                    group: 7,
                    interval: span,
                    deadline: span,
                    round_trip: span,
                    jitter: span,
                    losses: LossSummary::random(LossProcess::new(1.0, 1e9)),
                    rate: Bitrate::ZERO,
                    window: 0,
                    ..facts()
                };
                let plan = policy.plan(&facts);
                assert!(plan.cover >= 1 && (0.0..=1.0).contains(&plan.expected_loss.unwrap_or(0.0)), "{plan:?}");
                policy.answer(&Shortage { needed: sources, underway: 0, facts });
            }
        }
    }
}
