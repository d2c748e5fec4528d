//! The cell as a hop: what every hop promises, in any cell and however it is polled.

use nearlight_link::{DropReason, Exit, FlowId, Hop, Packet, PacketOutcome, PathSpec};
use nearlight_units::{Bytes, Span, Time};
use nearlight_wifi::{CellSpec, Cells, Direction, Users, load_path};
use proptest::prelude::*;

/// An offered packet: when, on which port, how large.
type Offer = (u64, usize, u64);

/// Long enough for every retry of everything.
const LATEST: Time = Time::from_secs(60);

fn spec(text: &str) -> CellSpec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Two sessions, downlink and uplink each.
fn ports(text: &str, seed: u64) -> Vec<Box<dyn Hop>> {
    let mut cells = Cells::new(2, seed);
    let mut port = |session, direction| cells.hop(&spec(text), Users::One(session), direction).expect(text);
    let all = [(0, Direction::Downlink), (0, Direction::Uplink), (1, Direction::Downlink), (1, Direction::Uplink)];
    all.into_iter().map(|(session, direction)| Box::new(port(session, direction)) as Box<dyn Hop>).collect()
}

/// Offers in order of time; `nosy` also polls every port every 50 µs, others only at the very end.
fn exits(text: &str, seed: u64, offers: &[Offer], nosy: bool) -> Vec<Vec<Exit>> {
    let mut ports = ports(text, seed);
    let mut exits = vec![Vec::new(); ports.len()];
    let mut left = offers.len();
    let mut look = |ports: &mut Vec<Box<dyn Hop>>, now: Time| {
        for (port, exits) in ports.iter_mut().zip(&mut exits) {
            let before = exits.len();
            exits.extend(std::iter::from_fn(|| port.poll(now)));
            left -= exits.len() - before;
        }
        left
    };
    let mut looked = 0;
    for (id, &(at, port, size)) in offers.iter().enumerate() {
        while nosy && looked < at {
            look(&mut ports, Time::from_micros(looked));
            looked += 50;
        }
        let at = Time::from_micros(at);
        ports[port].offer(at, Packet::new(id as u64, FlowId(port as u32), Bytes::new(size)));
    }
    let mut now = Time::from_micros(looked);
    while look(&mut ports, now) > 0 && now < LATEST {
        now += Span::from_millis(50);
    }
    exits
}

#[test]
fn two_sessions_slow_each_other_down_in_one_cell_and_not_in_two() {
    let offers: Vec<Offer> = (0..400).flat_map(|n| [(n * 100, 0, 1_200), (n * 100, 2, 1_200)]).collect();
    let alone: Vec<Offer> = offers.iter().copied().filter(|offer| offer.1 == 0).collect();
    let mean =
        |exits: &[Exit]| exits.iter().map(|exit| exit.packet.queued.as_nanos()).sum::<i64>() / exits.len() as i64;
    let together = mean(&exits("komondor-vr", 1, &offers, false)[0]);
    let apart = mean(&exits("komondor-vr", 1, &alone, false)[0]);
    assert!(together > apart * 12 / 10, "{together} ns together, {apart} ns alone");

    let (mut cells, mut held) = (Cells::new(2, 1), Vec::new());
    for (session, text) in
        [(0, "komondor-vr/cell:left"), (1, "komondor-vr/cell:right"), (1, "komondor-vr/cell:left/as:video")]
    {
        held.push(cells.hop(&spec(text), Users::One(session), Direction::Downlink).expect("a hop"));
    }
    assert_eq!(cells.cells().count(), 2);
    let taken =
        cells.hop(&spec("komondor-vr/cell:right"), Users::One(1), Direction::Downlink).err().expect("it is taken");
    assert!(taken.to_string().contains("one queue"), "{taken}");
    assert!(cells.hop(&spec("komondor-vr"), Users::One(2), Direction::Downlink).is_err());
}

#[test]
fn a_path_in_writing_leads_through_the_cell() {
    let text = "delay=3ms,wifi=komondor-vr/loss:0%,delay=2ms";
    let mut cells = Cells::new(1, 7);
    let path: PathSpec = text.parse().expect("a path");
    let loaded = load_path(&path).expect("a path");
    let mut way = |direction| cells.path(&loaded, 1, Users::One(0), direction).expect("a path");
    let (mut down, mut up) = (way(Direction::Downlink), way(Direction::Uplink));
    for (path, id) in [(&mut down, 1), (&mut up, 2)] {
        path.offer(Time::from_millis(10 * id), Packet::new(id, FlowId(0), Bytes::new(1_243)));
        let mut exit = None;
        while let (None, Some(next)) = (exit, path.poll_timeout()) {
            exit = path.poll(next);
        }
        let delay = exit.expect("it arrives").at - Time::from_millis(10 * id);
        assert_eq!(delay, Span::from_millis(5) + Span::from_micros(374));
    }
    let wrong: PathSpec = "wifi=komondor-vr/mcs:12".parse().expect("a path");
    assert!(load_path(&wrong).expect_err("no such scheme").to_string().contains("0 to 11"));
}

/// Any cell that the words can describe, and what goes through it.
fn any_cell() -> impl Strategy<Value = String> {
    let preset = prop_oneof![Just("komondor-vr"), Just("standard-11ax")];
    let extras = [
        "in-order:yes",
        "rts:no",
        "downlink-ofdma:4",
        "trigger:2ms/triggered-stations:4",
        "trigger:1ms/triggered-contend:yes/order:deadline-first",
        "background:saturated-up",
        "background:40mbit-down",
        "neighbour:40%",
        "scan:20ms@70ms",
        "snr:24~5@50ms",
        "snr:20~3@20ms/adapt:ideal",
        "loss:60%",
        "as:voice",
        "as:video",
        "access-point-queue:20/station-queue:5",
        "mcs:3/streams:1/width:20",
        "retries:1",
    ];
    (preset, prop::sample::subsequence(extras.to_vec(), 0..5))
        .prop_map(|(preset, extras)| extras.iter().fold(preset.to_owned(), |text, extra| format!("{text}/{extra}")))
}

fn any_offers() -> impl Strategy<Value = Vec<Offer>> {
    let gap = prop_oneof![Just(0_u64), 1..20_u64, 100..4_000_u64];
    let size = prop_oneof![Just(1_200_u64), 40..1_500_u64, Just(20_000)];
    prop::collection::vec((gap, 0..4_usize, size), 1..300).prop_map(|offers| {
        let mut now = 0;
        let at = |(gap, port, size)| {
            now += gap;
            (now, port, size)
        };
        offers.into_iter().map(at).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_leaves_once_in_order_of_time_however_the_cell_is_polled(
        text in any_cell(),
        offers in any_offers(),
        seed in any::<u64>(),
    ) {
        let all = exits(&text, seed, &offers, false);
        prop_assert_eq!(&all, &exits(&text, seed, &offers, true));
        let mut ids: Vec<u64> = all.iter().flatten().map(|exit| exit.packet.id).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..offers.len() as u64).collect::<Vec<_>>());
        for (port, exits) in all.iter().enumerate() {
            prop_assert!(exits.windows(2).all(|pair| pair[0].at <= pair[1].at));
            for exit in exits {
                let (at, from, size) = offers[exit.packet.id as usize];
                prop_assert_eq!(from, port);
                let reasons = [DropReason::QueueFull, DropReason::TooLarge, DropReason::Retries];
                match exit.outcome {
                    PacketOutcome::Delivered => prop_assert!(exit.at > Time::from_micros(at) && size <= 11_454),
                    PacketOutcome::Dropped(reason) => prop_assert!(exit.at >= Time::from_micros(at) && reasons.contains(&reason)),
                }
            }
        }
    }

    #[test]
    fn in_order_release_is_in_order(offers in any_offers(), seed in any::<u64>()) {
        for exits in exits("standard-11ax/in-order:yes/loss:30%", seed, &offers, false) {
            let arrived = exits.iter().filter(|exit| exit.is_delivered()).map(|exit| exit.packet.id);
            prop_assert!(arrived.is_sorted());
        }
    }

    #[test]
    fn a_driver_that_waits_for_the_time_it_is_told_misses_nothing(
        text in any_cell(),
        offers in any_offers(),
        seed in any::<u64>(),
    ) {
        let mut ports = ports(&text, seed);
        // Queried again only after a port's own offers and polls: events at other ports never make an exit earlier.
        let mut wakes = vec![None; ports.len()];
        let mut offers = offers.iter().copied().enumerate().peekable();
        let mut left = offers.len();
        let mut now = Time::ZERO;
        while left > 0 {
            let wake = wakes.iter().copied().flatten().min();
            let offer = offers.peek().map(|(_, offer)| Time::from_micros(offer.0));
            now = [wake, offer].into_iter().flatten().min().expect("something is left").max(now);
            prop_assert!(now < LATEST, "{left} packets never leave");
            if offer == Some(now) && let Some((id, (_, port, size))) = offers.next() {
                ports[port].offer(now, Packet::new(id as u64, FlowId(0), Bytes::new(size)));
                wakes[port] = ports[port].poll_timeout();
            }
            for (port, wake) in ports.iter_mut().zip(&mut wakes) {
                if wake.is_none_or(|wake| wake > now) {
                    continue;
                }
                while let Some(exit) = port.poll(now) {
                    // Drops may be reported late.
                    prop_assert!(exit.at == now || !exit.is_delivered(), "{exit:?} is seen at {now:?}");
                    left -= 1;
                }
                *wake = port.poll_timeout();
            }
        }
    }

    #[test]
    fn one_hop_of_all_sessions_is_the_hops_of_each(text in any_cell(), offers in any_offers(), seed in any::<u64>()) {
        let apart = exits(&text, seed, &offers, false);
        let mut cells = Cells::new(2, seed);
        let mut hop = |direction| cells.hop(&spec(&text), Users::All(|flow| flow.0 as usize / 2), direction).expect("a hop");
        let mut hops = [hop(Direction::Downlink), hop(Direction::Uplink)];
        for (id, &(at, port, size)) in offers.iter().enumerate() {
            let packet = Packet::new(id as u64, FlowId(port as u32), Bytes::new(size));
            hops[port % 2].offer(Time::from_micros(at), packet);
        }
        for (direction, hop) in hops.iter_mut().enumerate() {
            let mut together = Vec::new();
            let mut now = Time::ZERO;
            while hop.poll_timeout().is_some() && now < LATEST {
                now += Span::from_millis(50);
                together.extend(std::iter::from_fn(|| hop.poll(now)));
            }
            prop_assert!(together.windows(2).all(|pair| pair[0].at <= pair[1].at));
            for session in 0..2 {
                let own: Vec<Exit> = together.iter().copied().filter(|exit| exit.packet.flow.0 as usize / 2 == session).collect();
                prop_assert_eq!(&own, &apart[session * 2 + direction]);
            }
        }
    }

    #[test]
    fn whoever_leaves_takes_its_packets_along_and_nobody_elses(
        text in any_cell(),
        offers in any_offers(),
        leaves in 0..300_usize,
        seed in any::<u64>(),
    ) {
        let mut cells = Cells::new(2, seed);
        let mut open = |session, direction| cells.hop(&spec(&text), Users::One(session), direction).expect("a hop");
        let both = [Direction::Downlink, Direction::Uplink];
        let mut staying = both.map(|direction| open(0, direction));
        let mut other = both.map(|direction| open(1, direction));
        let mut expected = [Vec::new(), Vec::new()];
        let mut now = Time::ZERO;
        for (id, &(at, port, size)) in offers.iter().enumerate() {
            now = Time::from_micros(at);
            if id == leaves {
                drop(other);
                other = both.map(|direction| open(1, direction));
                expected[1].clear();
            }
            let hops = if port < 2 { &mut staying } else { &mut other };
            hops[port % 2].offer(now, Packet::new(id as u64, FlowId(port as u32), Bytes::new(size)));
            expected[port / 2].push(id as u64);
        }
        let mut seen = [Vec::new(), Vec::new()];
        while now < LATEST && seen.iter().map(Vec::len).sum::<usize>() < expected.iter().map(Vec::len).sum() {
            now += Span::from_millis(50);
            for (hops, seen) in [&mut staying, &mut other].into_iter().zip(&mut seen) {
                for hop in hops {
                    seen.extend(std::iter::from_fn(|| hop.poll(now)).map(|exit| exit.packet.id));
                }
            }
        }
        for ids in &mut seen {
            ids.sort_unstable();
        }
        prop_assert_eq!(seen, expected);
    }
}
