//! Tests the uplink that the access point solicits after downlink transmissions: which stations it asks, and what they send.

use nearlight_link::{FlowId, Packet};
use nearlight_units::{Bytes, Time};
use nearlight_wifi::{Category, Cell, CellSpec, Direction, Exchange, Kind};

const CELL: &str = "standard-11ax/downlink-ofdma:4/downlink-ofdma-always:yes/order:least-served/trigger:after-downlink";

/// A packet of 1,200 bytes, in microseconds from the start.
type Offer = (u64, usize, Direction);

/// What happened on the air, for as long as `offers` last.
fn exchanges(text: &str, stations: usize, offers: impl IntoIterator<Item = Offer>) -> Vec<Exchange> {
    let spec: CellSpec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut cell = Cell::new(spec.config(stations), 3).expect("a cell");
    cell.set_record(1_000_000);
    let mut offers: Vec<Offer> = offers.into_iter().collect();
    offers.sort_by_key(|offer| offer.0);
    for (id, (at, station, direction)) in offers.into_iter().enumerate() {
        let lane = cell.lane(station, direction, Category::BestEffort).expect("a lane");
        let at = Time::from_micros(at);
        cell.offer(at, lane, Packet::new(id as u64, FlowId(0), Bytes::new(1_200)));
        while cell.poll(at).is_some() {}
    }
    std::iter::from_fn(|| cell.poll_exchange()).collect()
}

/// One packet to each of `stations` every 3 ms, each of them a channel access of the access point's.
fn downlink(stations: usize, times: u64) -> impl Iterator<Item = Offer> {
    (0..times)
        .flat_map(move |time| (0..stations).map(move |station| (1_000 + 3_000 * time, station, Direction::Downlink)))
}

/// Returns the kind of each occupation of the medium, and the number of packets of its first part.
fn kinds(all: &[Exchange]) -> Vec<(Kind, usize)> {
    let mut first = all.to_vec();
    first.dedup_by_key(|exchange| exchange.number);
    first.into_iter().map(|exchange| (exchange.kind, exchange.packets)).collect()
}

#[test]
fn the_access_point_polls_after_downlink_and_then_asks_those_that_reported_packets() {
    let text = format!("{CELL}/loss:0%/triggered-contend:no");
    let shared = (Kind::MultiUser, 1);
    let (nothing, data) = ((Kind::Triggered, 0), (Kind::Triggered, 1));
    let asked = exchanges(&text, 2, downlink(2, 6).chain([(1_100, 1, Direction::Uplink)]));
    assert_eq!(kinds(&asked)[..5], [shared, nothing, data, shared, nothing]);
    assert_eq!(
        asked
            .iter()
            .find(|exchange| exchange.packets == 1 && exchange.direction == Direction::Uplink)
            .and_then(|exchange| exchange.station),
        Some(1)
    );
    // Nobody has anything: the access after the poll is downlink again.
    assert_eq!(kinds(&exchanges(&text, 2, downlink(2, 6)))[..4], [shared, nothing, shared, nothing]);
}

/// 80 MHz have units for one, two or four stations, so a poll leaves the third out; the access point does not know what that one has.
#[test]
fn stations_that_were_not_polled_are_asked_as_if_they_had_packets() {
    let text = format!("{CELL}/loss:0%/triggered-contend:no");
    let all = exchanges(&text, 3, downlink(2, 3).chain([(1_100, 2, Direction::Uplink)]));
    assert_eq!(kinds(&all)[..3], [(Kind::MultiUser, 1), (Kind::Triggered, 0), (Kind::Triggered, 1)]);
    assert_eq!(
        all.iter()
            .find(|exchange| exchange.packets > 0 && exchange.direction == Direction::Uplink)
            .and_then(|exchange| exchange.station),
        Some(2)
    );
}

#[test]
fn what_arrives_before_the_trigger_ends_is_sent_and_what_exceeds_the_report_waits() {
    let text = format!("{CELL}/loss:0%/triggered-contend:no");
    let poll = |all: &[Exchange]| {
        let polls: Vec<&Exchange> = all.iter().filter(|exchange| exchange.kind == Kind::Triggered).collect();
        (polls[0].end, polls[1].start)
    };
    let first = (1_100, 0, Direction::Uplink);
    let (reported, trigger) = poll(&exchanges(&text, 1, downlink(1, 4).chain([first])));
    let data = |late: u64, count: usize| {
        let more = std::iter::repeat_n((late, 0, Direction::Uplink), count);
        let all = exchanges(&text, 1, downlink(1, 4).chain([first]).chain(more));
        assert_eq!(poll(&all), (reported, trigger), "the same exchanges");
        all.iter()
            .find(|exchange| exchange.kind == Kind::Triggered && exchange.packets > 0)
            .map(|exchange| exchange.packets)
    };
    let during = trigger.as_micros() + 20;
    // A symbol has room for 2,041 bytes: one packet of 1,200 was reported, which takes a whole symbol.
    assert_eq!(data(during, 0), Some(1));
    assert_eq!(data(during, 1), Some(1));
    // Smaller ones than were reported would fit; here more was reported, and what arrives during the request takes the place.
    let second = (1_101, 0, Direction::Uplink);
    let two = exchanges(&text, 1, downlink(1, 4).chain([first, second]).chain([(during, 0, Direction::Uplink)]));
    let sent = two.iter().find(|exchange| exchange.kind == Kind::Triggered && exchange.packets > 0);
    assert_eq!(sent.map(|exchange| exchange.packets), Some(3));
}

#[test]
fn a_station_asks_what_arrived_where_no_acknowledgement_named_it() {
    let text = format!("{CELL}/loss:50%/triggered-contend:yes");
    let uplink = (0..6_000).map(|n| (500 + 500 * n, (n % 2) as usize, Direction::Uplink));
    let all = exchanges(&text, 2, downlink(2, 1_000).chain(uplink));
    let (mut lost, mut asked) = (0, 0);
    for station in 0..2 {
        let own = |exchange: &&Exchange| {
            exchange.station == Some(station)
                && exchange.direction == Direction::Uplink
                && matches!(exchange.kind, Kind::Single | Kind::Triggered)
        };
        let own: Vec<&Exchange> = all.iter().filter(own).collect();
        for pair in own.windows(2) {
            let unnamed = pair[0].kind == Kind::Triggered && pair[0].packets > 0 && pair[0].delivered == 0;
            lost += usize::from(unnamed);
            asked += usize::from(pair[1].packets == 0);
            assert_eq!(pair[1].packets == 0, unnamed, "{pair:?}");
        }
    }
    assert!(lost > 20 && lost == asked, "{lost} lost, {asked} asked");
}
