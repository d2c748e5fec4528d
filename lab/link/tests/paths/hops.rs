//! Jitter, loss, disorder and outages.

use nearlight_link::{DropReason, GilbertElliott, Hop, Packet, Probability};
use nearlight_units::{Span, Time};

use crate::drive::{delivered, dropped, evenly, ids, micros, packet, path, run, times};

const COUNT: u64 = 400_000;

fn assert_near(name: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{name}: {found} instead of {expected} ± {tolerance}");
}

/// Which of many packets get lost.
fn losses(spec: &str, seed: u64) -> Vec<bool> {
    let exits = run(&mut path(spec, seed), evenly(COUNT, 1_200, Span::from_micros(1)));
    exits.iter().map(|exit| !exit.is_delivered()).collect()
}

fn share(losses: &[bool]) -> f64 {
    losses.iter().filter(|lost| **lost).count() as f64 / losses.len() as f64
}

fn mean_burst(losses: &[bool]) -> f64 {
    let bursts = losses.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
    losses.iter().filter(|lost| **lost).count() as f64 / bursts as f64
}

#[test]
fn a_delay_that_wanders_has_its_mean_deviation_and_memory_and_keeps_the_order() {
    // A fifth of the memory apart, so that hardly any packet has to wait for the one before.
    let apart = Span::from_millis(200);
    let sent: Vec<_> = evenly(100_000, 100, apart).collect();
    let exits = run(&mut path("jitter=log-normal/22.7ms/38.8ms/1s", 1), sent.iter().copied());
    assert_eq!(ids(&exits), (0..100_000).collect::<Vec<_>>(), "in order");
    let delays: Vec<f64> = exits.iter().zip(&sent).map(|(exit, (at, _))| (exit.at - *at).as_millis_f64()).collect();
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    let covariance = |lag: usize| {
        delays.iter().zip(&delays[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / delays.len() as f64
    };
    // 20,000 s are some 10,000 memories; the tail is heavy, so the deviation converges slowly.
    assert_near("mean", mean, 22.7, 2.0);
    assert_near("deviation", covariance(0).sqrt(), 38.8, 6.0);
    // exp(sigma^2 / e) - 1 over exp(sigma^2) - 1 with sigma^2 = ln(1 + (38.8 / 22.7)^2).
    assert_near("correlation after the memory", covariance(5) / covariance(0), 0.225, 0.08);
}

#[test]
fn independent_loss_has_its_share_and_no_memory() {
    let lost = losses("loss=5%", 1);
    // Five standard errors: 5 * sqrt(0.05 * 0.95 / 400,000), and for bursts 5 * sqrt(0.05 / (400,000 * 0.05)).
    assert_near("share", share(&lost), 0.05, 0.0018);
    assert_near("mean burst", mean_burst(&lost), 1.0 / 0.95, 0.008);
}

#[test]
fn netems_correlated_loss_is_a_gilbert_chain_with_the_stated_share() {
    for (spec, stated, correlation) in
        [("loss=1%/25%", 0.01, 0.25), ("loss=1%,25%", 0.01, 0.25), ("loss=10%/80%", 0.1, 0.8)]
    {
        let lost = losses(spec, 1);
        // The correlation stretches the variance of a share by (1 + c) / (1 - c).
        let error = 5.0 * (stated * (1.0 - stated) / COUNT as f64 * (1.0 + correlation) / (1.0 - correlation)).sqrt();
        assert_near(spec, share(&lost), stated, error);
        let both = lost.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64;
        let after_loss = both / lost.iter().filter(|lost| **lost).count() as f64;
        assert_near(spec, (after_loss - stated) / (1.0 - stated), correlation, 0.04);
        assert_near(spec, mean_burst(&lost), 1.0 / ((1.0 - stated) * (1.0 - correlation)), 0.2);
    }
}

#[test]
fn gilbert_and_elliotts_four_parameters_mean_what_they_say() {
    let lost = losses("gilbert=2%/20%/50%/1%", 1);
    let chance = |fraction| Probability::new(fraction).expect("a fraction");
    let chain = GilbertElliott {
        to_bad: chance(0.02),
        to_good: chance(0.2),
        loss_in_bad: chance(0.5),
        loss_in_good: chance(0.01),
    };
    // 1/11 of the packets meet the bad state.
    assert_near("closed form", chain.share_lost(), 0.5 / 11.0 + 0.01 * 10.0 / 11.0, 1e-12);
    assert_near("share", share(&lost), chain.share_lost(), 0.003);
    let lost = losses("gilbert=1%/30%", 1);
    assert_near("share of the simple chain", share(&lost), 1.0 / 31.0, 0.003);
    assert_near("mean burst of the simple chain", mean_burst(&lost), 1.0 / 0.3, 0.15);
}

#[test]
fn jitter_stays_within_bounds_and_has_rfc_8868s_moments() {
    // Far apart, so that keeping the order never interferes.
    let exits = run(&mut path("jitter=30ms", 1), evenly(50_000, 1_200, Span::from_millis(40)));
    let delays: Vec<f64> =
        exits.iter().map(|exit| (exit.at - micros(exit.packet.id * 40_000)).as_millis_f64()).collect();
    assert!(delays.iter().all(|delay| (0.0..=30.0).contains(delay)));
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    let deviation = (delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / delays.len() as f64).sqrt();
    assert_near("mean", mean, 15.0, 0.12);
    // Cutting at three deviations leaves 98.66 % of the deviation of 5 ms.
    assert_near("deviation", deviation, 4.933, 0.08);
}

#[test]
fn jitter_never_reorders() {
    for spec in ["jitter=30ms", "jitter=30ms/100mbit", "jitter=0%:1ms/90%:3ms/100%:50ms"] {
        let exits = run(&mut path(spec, 3), evenly(20_000, 1_200, Span::from_micros(270)));
        assert!(ids(&exits).is_sorted(), "{spec}");
        assert!(exits.is_sorted_by_key(|exit| exit.at), "{spec}");
        assert_eq!(exits.len(), 20_000);
        let closest = exits.windows(2).map(|pair| pair[1].at - pair[0].at).min();
        if spec.contains("100mbit") {
            assert!(
                closest >= Some(Span::from_micros(96)),
                "a line of 100 Mb/s sends 1,200 bytes in 96 µs: {closest:?}"
            );
        }
    }
}

#[test]
fn a_measured_distribution_comes_out_as_it_was_given() {
    let exits =
        run(&mut path("jitter=0%:1ms/50%:2ms/90%:10ms/100%:20ms", 1), evenly(40_000, 1_200, Span::from_millis(30)));
    let mut delays: Vec<f64> =
        exits.iter().map(|exit| (exit.at - micros(exit.packet.id * 30_000)).as_millis_f64()).collect();
    delays.sort_by(f64::total_cmp);
    for (percent, delay, tolerance) in
        [(0, 1.0, 0.01), (25, 1.5, 0.04), (50, 2.0, 0.1), (90, 10.0, 0.3), (95, 15.0, 0.6)]
    {
        assert_near(&format!("{percent} %"), delays[delays.len() * percent / 100], delay, tolerance);
    }
    assert!(delays[delays.len() - 1] <= 20.0);
}

#[test]
fn reordering_holds_some_back_by_the_time_it_says() {
    let exits = run(&mut path("reorder=10%/5ms", 1), evenly(10_000, 1_200, Span::from_millis(1)));
    assert_eq!(exits.len(), 10_000);
    let late = exits.iter().filter(|exit| exit.at == micros(exit.packet.id * 1_000 + 5_000)).count();
    let in_time = exits.iter().filter(|exit| exit.at == micros(exit.packet.id * 1_000)).count();
    assert_eq!(late + in_time, 10_000);
    assert!((850..1_150).contains(&late), "five standard errors around 1,000: {late}");
    assert!(!ids(&exits).is_sorted() && exits.is_sorted_by_key(|exit| exit.at));
}

#[test]
fn duplicates_are_extra_and_marked() {
    let mut path = path("duplicate=10%,delay=1ms", 1);
    let exits = run(&mut path, evenly(10_000, 1_200, Span::from_micros(10)));
    let copies = exits.iter().filter(|exit| exit.packet.duplicate).count();
    assert!((850..1_150).contains(&copies), "five standard errors around 1,000: {copies}");
    assert_eq!(exits.len(), 10_000 + copies);
    let counters = path.flows()[0];
    assert_eq!((counters.delivered, counters.duplicates), (10_000, copies as u64));
}

#[test]
fn copies_of_copies_have_an_end() {
    let mut path = path(&vec!["duplicate=100%"; 64].join(","), 1);
    let exits = run(&mut path, evenly(1, 1_200, Span::ZERO));
    assert_eq!(exits.len() as u64, Packet::PORTIONS);
}

#[test]
fn outages_drop_and_freezes_hold() {
    // A packet each 100 ms: 20 to 29 and 50 to 54 fall into the windows.
    let windows = "2s+1s/5s+500ms";
    let offers = || evenly(100, 1_200, Span::from_millis(100));
    let exits = run(&mut path(&format!("outage={windows}"), 1), offers());
    let lost: Vec<u64> = dropped(&exits, DropReason::Outage).iter().map(|exit| exit.packet.id).collect();
    assert_eq!(lost, (20..30).chain(50..55).collect::<Vec<_>>());

    let mut path = path(&format!("freeze={windows}"), 1);
    let exits = run(&mut path, offers());
    assert_eq!(delivered(&exits).len(), 100);
    for exit in exits {
        let expected = match exit.packet.id {
            20..30 => Time::from_secs(3),
            50..55 => Time::from_millis(5_500),
            id => Time::from_millis(id * 100),
        };
        assert_eq!(exit.at, expected);
    }
    assert_eq!(path.flows()[0].queued_longest, Span::from_secs(1));
}

#[test]
fn periodic_windows_come_back() {
    let exits = run(&mut path("outage=1s+200ms@10s", 1), evenly(400, 1_200, Span::from_millis(100)));
    let lost: Vec<u64> = dropped(&exits, DropReason::Outage).iter().map(|exit| exit.packet.id).collect();
    assert_eq!(lost, [10, 11, 110, 111, 210, 211, 310, 311]);
}

#[test]
fn a_path_without_hops_is_a_wire_without_length() {
    let mut path = path("", 1);
    let exits = run(&mut path, evenly(3, 1_200, Span::from_millis(1)));
    assert_eq!(times(&exits), [0, 1_000, 2_000]);
    assert_eq!(path.capacity(Time::ZERO), None);
}

#[test]
fn a_driver_is_woken_for_deliveries_only() {
    let mut path = path("rate=8mbit,delay=10ms,loss=0%", 1);
    path.offer(Time::ZERO, packet(0, 1_000));
    assert_eq!(path.poll_timeout(), Some(micros(11_000)), "not when the packet moves from the wire to the delay");
}
