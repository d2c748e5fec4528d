//! Active queues against their rules.

use nearlight_link::{DropReason, Ecn};
use nearlight_units::{Span, Time};

use crate::drive::{delivered, dropped, evenly, evenly_marked, path, run};

/// At 10 Mb/s a packet of 1,250 bytes takes 1 ms.
const SIZE: u64 = 1_250;

#[test]
fn codel_drops_by_its_square_root_law() {
    // 25 % more than fits: the queue grows by a packet each 4 ms, minus what CoDel drops.
    let exits = run(&mut path("rate=10mbit,aqm=codel,queue=unlimited", 1), evenly(5_000, SIZE, Span::from_micros(800)));
    let drops: Vec<Time> = dropped(&exits, DropReason::Aqm).iter().map(|exit| exit.at).collect();
    let above = delivered(&exits).iter().find(|exit| exit.packet.queued >= Span::from_millis(5)).expect("a queue").at;
    // The first drop: an interval after the delay went above the target, at the next packet's turn.
    let late = drops[0] - (above + Span::from_millis(99));
    assert!((0..=1_000_000).contains(&late.as_nanos()), "the first drop is {late} late");
    let mut next = drops[0];
    for (count, &drop) in drops.iter().enumerate().skip(1).take(60) {
        next += Span::from_secs_f64(0.1 / (count as f64).sqrt());
        let late = drop - next;
        assert!((-2..=1_000_002).contains(&late.as_nanos()), "drop {count} is {late} late");
    }
    assert!(drops.len() > 60);
}

#[test]
fn codel_lets_a_burst_pass() {
    // 50 ms worth of packets at once, then nothing for a while: the queue is gone before an interval is over.
    let bursts = (0..10).flat_map(|burst| {
        evenly(50, SIZE, Span::ZERO).map(move |(at, packet)| (at + Span::from_millis(200 * burst), packet))
    });
    let exits = run(&mut path("rate=10mbit,aqm=codel,queue=unlimited", 1), bursts);
    assert_eq!(delivered(&exits).len(), 500);
}

#[test]
fn codel_and_pie_mark_what_can_be_marked() {
    // Marks do not slow the sender here: for longer, PIE's probability would pass the limit up to which it marks.
    for (aqm, count) in [("codel", 3_000), ("pie", 1_800)] {
        let spec = format!("rate=10mbit,aqm={aqm},queue=unlimited");
        let mut path = path(&spec, 1);
        let exits = run(&mut path, evenly_marked(count, SIZE, Span::from_micros(980), Ecn::Ect0));
        assert_eq!(delivered(&exits).len() as u64, count, "{aqm}");
        let marked = exits.iter().filter(|exit| exit.packet.ecn == Ecn::Ce).count();
        assert!(marked > 0, "{aqm}");
        assert_eq!(path.flows()[0].marked, marked as u64);
    }
}

#[test]
fn pie_holds_its_target_against_a_constant_overload() {
    for (target, overload) in [("15ms", 1.1), ("15ms", 1.3), ("5ms", 1.2)] {
        let spec = format!("rate=10mbit,aqm=pie/{target},queue=unlimited");
        let apart = Span::from_millis(1).mul_f64(1.0 / overload);
        let exits = run(&mut path(&spec, 1), evenly(66_000, SIZE, apart));
        let settled: Vec<_> =
            exits.iter().filter(|exit| exit.at > Time::from_secs(20) && exit.at < Time::from_secs(50)).collect();
        let lost = settled.iter().filter(|exit| !exit.is_delivered()).count() as f64 / settled.len() as f64;
        let expected = 1.0 - 1.0 / overload;
        assert!((lost - expected).abs() < 0.02, "{spec}: lost {lost:.3}, the overload is {expected:.3}");
        let through: Vec<f64> =
            settled.iter().filter(|exit| exit.is_delivered()).map(|exit| exit.packet.queued.as_millis_f64()).collect();
        let mean = through.iter().sum::<f64>() / through.len() as f64;
        let target: f64 = target.trim_end_matches("ms").parse().expect("a number");
        assert!((mean - target).abs() < 0.3 * target + 1.0, "{spec}: {mean:.1} ms");
    }
}

#[test]
fn an_l4s_step_marks_exactly_what_waited_longer() {
    let exits = run(
        &mut path("rate=10mbit,aqm=l4s-step/3ms,queue=100ms", 1),
        evenly_marked(1_000, SIZE, Span::from_micros(900), Ecn::Ect1),
    );
    for exit in delivered(&exits) {
        assert_eq!(exit.packet.ecn == Ecn::Ce, exit.packet.queued > Span::from_millis(3), "{exit:?}");
    }
    assert!(delivered(&exits).iter().any(|exit| exit.packet.ecn == Ecn::Ce));
}

#[test]
fn an_l4s_ramp_marks_in_proportion() {
    let exits = run(
        &mut path("rate=10mbit,aqm=l4s-ramp/0ms/1000ms,queue=unlimited", 1),
        evenly_marked(20_000, SIZE, Span::from_micros(960), Ecn::Ect1),
    );
    for (from, to) in [(0, 250), (250, 500), (500, 750)] {
        let within = |span: Span| (Span::from_millis(from)..Span::from_millis(to)).contains(&span);
        let group: Vec<_> = exits.iter().filter(|exit| within(exit.packet.queued)).collect();
        let marked = group.iter().filter(|exit| exit.packet.ecn == Ecn::Ce).count() as f64 / group.len() as f64;
        let expected = (from + to) as f64 / 2_000.0;
        assert!((marked - expected).abs() < 0.04, "{from} to {to} ms: {marked:.3} of {}", group.len());
    }
}

#[test]
fn l4s_queues_leave_other_packets_alone() {
    for ecn in [Ecn::NotCapable, Ecn::Ect0] {
        for aqm in ["l4s-step", "l4s-ramp"] {
            let spec = format!("rate=10mbit,aqm={aqm},queue=50ms");
            let exits = run(&mut path(&spec, 1), evenly_marked(1_000, SIZE, Span::from_micros(500), ecn));
            assert!(delivered(&exits).iter().all(|exit| exit.packet.ecn == ecn), "{spec}");
            assert!(dropped(&exits, DropReason::Aqm).is_empty(), "{spec}");
        }
    }
}
