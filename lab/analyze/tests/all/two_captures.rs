//! A stream captured where it leaves and where it arrives, on clocks that differ.

use crate::support;
use nearlight_analyze::{ClockError, Comparison, Limits, Study, Traffic};
use support::file::{EPOCH, Form, pcap, pcapng};
use support::stream::Stream;
use support::{Datagram, Dice};

const DOWN_MS: f64 = 3.0;
const UP_MS: f64 = 3.0;

struct Network {
    loss: f64,
    duplicates: f64,
    late: f64,
}

/// What arrives of `sent`: at least 3 ms later, some much later.
fn cross(network: &Network, sent: &[Datagram], dice: &mut Dice) -> (Vec<Datagram>, usize) {
    let mut lost = 0;
    let mut arrived: Vec<Datagram> = Vec::new();
    for datagram in sent {
        if dice.share() < network.loss {
            lost += usize::from(datagram.down);
            continue;
        }
        let base = if datagram.down { DOWN_MS } else { UP_MS };
        let late = if dice.share() < network.late { 4.0 } else { 0.0 };
        let delay = base + late + 0.5 * dice.normal().abs();
        let there = Datagram { nanos: datagram.nanos + (delay * 1e6) as i64, ..datagram.clone() };
        if dice.share() < network.duplicates {
            arrived.push(Datagram { nanos: there.nanos + 1_000, ..there.clone() });
        }
        arrived.push(there);
    }
    arrived.sort_by_key(|datagram| datagram.nanos);
    (arrived, lost)
}

/// Datagrams as each end sees them.
fn ends(network: &Network, seed: u64) -> (Vec<Datagram>, Vec<Datagram>, usize) {
    let made = Stream { seed, seconds: 6.0, ..Stream::default() }.make();
    let mut dice = Dice::new(seed ^ 0xa5a5);
    let (down, up): (Vec<_>, Vec<_>) = made.datagrams.into_iter().partition(|datagram| datagram.down);
    let (down_there, lost) = cross(network, &down, &mut dice);
    let (up_here, _) = cross(network, &up, &mut dice);
    let join = |one: Vec<Datagram>, other: Vec<Datagram>| {
        let mut both = [one, other].concat();
        both.sort_by_key(|datagram| datagram.nanos);
        both
    };
    (join(down, up_here), join(down_there, up), lost)
}

fn compare(network: &Network, seed: u64, drift_ppm: f64) -> (Comparison, usize) {
    let (here, there, lost) = ends(network, seed);
    let ahead = Form { epoch: EPOCH + 1_234_567_000, drift_ppm, snaplen: 120, ..Form::default() };
    let read = |file: Vec<u8>| Traffic::read(file.as_slice(), &Limits::default()).unwrap();
    let found = Comparison::new(&read(pcap(&Form::default(), &here)), &read(pcapng(&ahead, &there)), None).unwrap();
    (found, lost)
}

#[test]
fn clocks_are_fitted_and_delays_are_right() {
    for (seed, drift_ppm) in [(1, 35.0), (2, -80.0)] {
        let (found, _) = compare(&Network { loss: 0.0, duplicates: 0.0, late: 0.0 }, seed, drift_ppm);
        let clock = found.clock.as_ref().unwrap();
        assert!(clock.both_ways);
        assert!((clock.drift_ppm - drift_ppm).abs() < 6.0, "seed {seed}: {clock:?}");
        assert!((clock.offset_ms - 1_234.567).abs() < 0.05, "seed {seed}: {clock:?}");
        assert!((clock.uncertain_by_ms.unwrap() - DOWN_MS).abs() < 0.1, "seed {seed}: {clock:?}");
        for (way, fastest) in [(&found.downlink, DOWN_MS), (&found.uplink, UP_MS)] {
            let delay = way.delay_ms.as_ref().unwrap();
            assert!((delay.min - fastest).abs() < 0.1, "seed {seed}: {delay:?}");
            // The mean of half a normal deviation's absolute value lies at 0.8 of it.
            assert!((delay.mean - fastest - 0.4).abs() < 0.1, "seed {seed}: {delay:?}");
            assert_eq!((way.lost, way.duplicated, way.unseen, way.repeated), (0, 0, 0, 0), "seed {seed}");
        }
    }
}

#[test]
fn losses_duplicates_and_order() {
    for seed in 1..=2 {
        let (found, lost) = compare(&Network { loss: 0.02, duplicates: 0.01, late: 0.02 }, seed, 20.0);
        let down = &found.downlink;
        assert!(down.lost.abs_diff(lost as u64) <= 2, "seed {seed}: {} of {lost}", down.lost);
        let share = |count: u64| count as f64 / down.sent as f64;
        assert!((share(down.duplicated) - 0.01).abs() < 0.002, "seed {seed}: {down:?}");
        // Held back by 4 ms, nearly all of them are passed by others.
        assert!(share(down.reordered.unwrap()) > 0.015, "seed {seed}: {:?}", down.reordered);
        assert_eq!(down.unseen, 0, "seed {seed}");
        let runs = down.disruption.lost_in_a_row.as_ref().unwrap();
        // Chance alone joins a loss to the one before in as many cases as it loses packets.
        assert!((runs.mean - 1.0 / 0.98).abs() < 0.05, "seed {seed}: {runs:?}");
        assert_eq!((runs.mean * runs.count as f64).round() as u64, down.lost, "seed {seed}");
        assert_eq!(down.disruption.stalls.as_ref().unwrap().count, 0, "seed {seed}");
        assert_eq!(found.receiver.sender, "192.168.0.2:50000");
    }
}

/// As behind an access point: packets wait for the next of its turns, every 4 ms, and none gets one for a while.
#[test]
fn what_aggregates_and_silences_do_to_the_timing() {
    const TURN: i64 = 4_000_000;
    for (seed, silent_ms) in [(1, 120), (2, 300)] {
        let made = Stream { seed, seconds: 6.0, ..Stream::default() }.make().datagrams;
        let origin = made[0].nanos;
        let silent = origin + 3_000_000_000..origin + 3_000_000_000 + silent_ms * 1_000_000;
        let turn = |nanos: i64| {
            let next = (nanos / TURN + 1) * TURN;
            if silent.contains(&next) { (silent.end / TURN + 1) * TURN } else { next }
        };
        let carried = |datagram: &Datagram| Datagram { nanos: turn(datagram.nanos), ..datagram.clone() };
        let there: Vec<_> =
            made.iter().map(|datagram| if datagram.down { carried(datagram) } else { datagram.clone() }).collect();
        let read = |file: Vec<u8>| Traffic::read(file.as_slice(), &Limits::default()).unwrap();
        let file = |mut datagrams: Vec<Datagram>| {
            datagrams.sort_by_key(|datagram| datagram.nanos);
            read(pcap(&Form::default(), &datagrams))
        };
        let found = Comparison::new(&file(made), &file(there), None).unwrap();
        let (down, up) = (&found.downlink.disruption, &found.uplink.disruption);
        let simultaneous =
            [&down.sent_together, &down.received_together].map(|of| of.as_ref().unwrap().simultaneous_ratio);
        assert!(simultaneous[0] < 0.2 && simultaneous[1] > 0.5, "seed {seed}: {simultaneous:?}");
        let stalls = down.stalls.as_ref().unwrap();
        assert_eq!(stalls.count, 1, "seed {seed}: {stalls:?}");
        // It begins when the first packet was due that came after it, and ends at a turn.
        assert!((stalls.longest_ms - silent_ms as f64).abs() < 20.0, "seed {seed}: {stalls:?}");
        assert!(down.gap_change_ms.as_ref().unwrap().max > 0.9 * silent_ms as f64 / 2.0, "seed {seed}");
        assert!(
            up.stalls.as_ref().unwrap().count == 0 && up.gap_change_ms.as_ref().unwrap().max < 0.1,
            "seed {seed}: {up:?}"
        );
    }
}

#[test]
fn captures_of_different_streams_are_refused() {
    let read = |seed, alike: u8| {
        let mut made = Stream { seed, seconds: 1.0, quic: true, ..Stream::default() }.make();
        made.datagrams.iter_mut().find(|datagram| datagram.down).unwrap().payload = vec![alike; 500];
        Traffic::read(pcap(&Form::default(), &made.datagrams).as_slice(), &Limits::default()).unwrap()
    };
    let error = Comparison::new(&read(1, 0x41), &read(2, 0x42), None).unwrap_err().to_string();
    assert!(error.contains("no packet of the sender's"), "{error}");
    let error = Comparison::new(&read(1, 0x41), &read(2, 0x41), None).unwrap_err().to_string();
    assert!(error.contains("only 1 of "), "{error}");
}

/// A capture on a clock that is `ahead` at a time of the stream's.
fn on_clock(datagrams: &[Datagram], ahead: impl Fn(i64) -> i64) -> Traffic {
    let moved = |of: &Datagram| Datagram { nanos: of.nanos + ahead(of.nanos), ..of.clone() };
    let datagrams: Vec<Datagram> = datagrams.iter().map(moved).collect();
    Traffic::read(pcap(&Form::default(), &datagrams).as_slice(), &Limits::default()).unwrap()
}

#[test]
fn clocks_that_no_line_joins_are_refused_and_losses_are_still_reported() {
    let (here, there, lost) = ends(&Network { loss: 0.02, duplicates: 0.0, late: 0.0 }, 3);
    let (sender, receiver) = (on_clock(&here, |_| 0), on_clock(&there, |_| 0));
    let step = |by: i64| on_clock(&there, move |at| if at < 3_000_000_000 { 0 } else { by });
    for (name, one, other, refused, words) in [
        ("forward", &sender, &step(100_000_000), ClockError::SetDuringCapture, "was set during the capture"),
        ("back", &sender, &step(-2_000_000_000), ClockError::SetDuringCapture, "was set during the capture"),
        ("swapped", &receiver, &sender, ClockError::Swapped, "captures are swapped"),
    ] {
        let found = Comparison::new(one, other, None).unwrap();
        assert_eq!((found.clock_refused, found.clock.is_none()), (Some(refused), true), "{name}");
        let down = &found.downlink;
        assert!(down.delay_ms.is_none() && down.disruption.stalls.is_none(), "{name}: {down:?}");
        assert!(down.disruption.gap_change_ms.is_none(), "{name}: {down:?}");
        if refused == ClockError::SetDuringCapture {
            assert!(down.lost.abs_diff(lost as u64) <= 2 && down.reordered.is_none(), "{name}: {down:?}");
            assert!(down.disruption.lost_in_a_row.is_some(), "{name}");
        }
        let study = Study::new(one, None).unwrap();
        let text = nearlight_analyze::words(&study, Some(&found));
        assert!(text.contains(words) && !text.contains("stalls over") && !text.contains("ppm"), "{name}: {text}");
        let page = nearlight_analyze::document(&study, Some(&found)).to_html();
        assert!(page.contains(words) && !page.contains("One-way delay"), "{name}");
        let json = serde_json::to_value(&found).unwrap();
        assert!(json["clock"].is_null() && json["downlink"]["delay_ms"].is_null(), "{name}");
        assert_eq!(json["clock_refused"], if name == "swapped" { "swapped" } else { "set-during-capture" });
    }
}

#[test]
fn only_what_is_known_is_said() {
    let (here, there, _) = ends(&Network { loss: 0.0, duplicates: 0.0, late: 0.0 }, 4);
    let one_way = |datagrams: &[Datagram]| -> Vec<Datagram> {
        datagrams.iter().filter(|datagram| datagram.down).cloned().collect()
    };
    for (name, sender, receiver, both_ways) in [
        ("both ways", here.clone(), there.clone(), true),
        ("one way", one_way(&here), one_way(&there), false),
        // One of the captures was of one way only: the other's packets of the other way are no losses.
        ("one way of the sender", one_way(&here), there.clone(), false),
        ("one way of the receiver", here.clone(), one_way(&there), false),
    ] {
        let (sender, receiver) = (on_clock(&sender, |_| 0), on_clock(&receiver, |_| 0));
        let found = Comparison::new(&sender, &receiver, None).unwrap();
        let study = Study::new(&sender, None).unwrap();
        let text = nearlight_analyze::words(&study, Some(&found));
        let reported = &text[text.find("The receiver's clock").unwrap()..];
        assert_eq!(reported.contains("uplink:"), both_ways, "{name}: {reported}");
        assert_eq!(reported.contains("may be wrong by 3.0"), both_ways, "{name}: {reported}");
        assert_eq!(reported.contains("one way only"), !both_ways, "{name}: {reported}");
        let page = nearlight_analyze::document(&study, Some(&found)).to_html();
        assert_eq!(page.contains("On the uplink"), both_ways, "{name}");
        assert!(
            page.contains("On the downlink 0.0 % of the packets were lost, half of the others took up to"),
            "{name}"
        );
        for text in [&text, &page] {
            assert!(!text.contains("NaN") && !text.contains("inf "), "{name}");
        }
    }
}
