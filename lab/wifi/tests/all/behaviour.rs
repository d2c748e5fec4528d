//! A cell's behaviour against closed forms and rules that hold for any cell.

use nearlight_link::{FlowId, Packet};
use nearlight_units::{Bitrate, Bytes, Span, Time};
use nearlight_wifi::traffic::{PeriodicConfig, VideoConfig};
use nearlight_wifi::{
    Category, Cell, CellConfig, CellSpec, Direction, Exchange, Kind, Mode, Phases, Report, Scenario, Timing,
};

fn config(text: &str, sessions: usize) -> CellConfig {
    text.parse::<CellSpec>().unwrap_or_else(|error| panic!("{text}: {error}")).config(sessions)
}

/// Headsets with video at this rate and poses; 0: with poses only.
fn headsets(text: &str, count: usize, mbps: u64) -> Scenario {
    let video = VideoConfig::study(Bitrate::from_mbps(mbps.max(1)));
    let scenario = Scenario::study(config(text, count), video);
    let video = scenario.video.filter(|_| mbps > 0);
    let poses = (count > 0).then_some(PeriodicConfig { jitter: 0.05, ..PeriodicConfig::POSES });
    Scenario { headsets: count, video, poses, runs: 2, duration: Span::from_secs(5), ..scenario }
}

#[track_caller]
fn run(scenario: &Scenario) -> Report {
    scenario.run().expect("a scenario that can run")
}

#[track_caller]
fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance * expected, "{what}: {value} instead of {expected}");
}

/// What happened on the air, for as long as `offers` last.
fn exchanges(config: CellConfig, offers: impl Iterator<Item = (Time, usize, Direction, Category)>) -> Vec<Exchange> {
    let mut cell = Cell::new(config, 3).expect("a cell");
    cell.set_record(1_000_000);
    for (id, (at, station, direction, category)) in offers.enumerate() {
        let lane = cell.lane(station, direction, category).expect("a lane");
        cell.offer(at, lane, Packet::new(id as u64, FlowId(0), Bytes::new(1_200)));
        while cell.poll(at).is_some() {}
    }
    std::iter::from_fn(|| cell.poll_exchange()).collect()
}

/// One sender alone: backoff, protection, data, acknowledgement, again and again.
#[test]
fn a_saturated_sender_reaches_what_the_durations_allow() {
    for (text, direction) in [("komondor-vr", "down"), ("standard-11ax", "up"), ("standard-11ax/mcs:4/rts:no", "up")] {
        let report = run(&headsets(&format!("{text}/loss:0%/background:saturated-{direction}"), 0, 0));
        let cell = config(text, 1);
        let timing = if text == "komondor-vr" { Timing::KOMONDOR } else { Timing::STANDARD };
        let station = &cell.stations[0];
        let mode = Mode::new(cell.width.whole(), station.mcs, station.streams, station.guard).expect("a mode");
        let bits = timing.packet_bits(Bytes::new(1_500));
        let queue = if direction == "up" { cell.station_queue } else { cell.access_point_queue };
        let packets = (timing.data_bits(mode, Span::MAX) / bits).min(256).min(u64::from(queue));
        let protection = if cell.rts_cts { timing.protection() } else { Span::ZERO };
        // Two slots of AIFS, and half the window of 31.
        let before = timing.sifs + timing.slot * 2 + timing.slot * 31 / 2 + protection;
        let exchange =
            before + timing.data(mode, bits * packets) + timing.sifs + timing.acknowledgement(packets as usize);
        let expected = Bytes::new(1_500 * packets).over(exchange).as_mbps_f64();
        let link = if direction == "up" { &report.stations[0].uplink } else { &report.stations[0].downlink };
        assert_near(text, link.delivered_mbps, expected, 0.005);
    }
}

/// Bianchi, IEEE JSAC 18(3), 2000, equations 7 and 9: how often saturated stations collide.
#[test]
fn saturated_stations_collide_as_often_as_bianchis_model_says() {
    let (window, doublings) = (32.0, 5);
    for stations in [2, 5, 10, 20] {
        let text = format!("komondor-vr/loss:0%{}", "/background:saturated-up".repeat(stations));
        let report = run(&Scenario { runs: 4, duration: Span::from_secs(20), ..headsets(&text, 0, 0) });
        let others = stations as i32 - 1;
        let attempts = |collides: f64| {
            let twice = 1.0 - 2.0 * collides;
            2.0 * twice / (twice * (window + 1.0) + collides * window * (1.0 - (2.0 * collides).powi(doublings)))
        };
        let (mut low, mut high) = (0.0, 0.499_f64);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            let implied = 1.0 - (1.0 - attempts(middle)).powi(others);
            if implied > middle { low = middle } else { high = middle }
        }
        let attempt = attempts(low);
        let alone = stations as f64 * attempt * (1.0 - attempt).powi(others);
        let expected = 1.0 - alone / (1.0 - (1.0 - attempt).powi(stations as i32));
        let exchanges: u64 = report.stations.iter().map(|station| station.uplink.ampdu_mpdus.count).sum();
        let exchanges = exchanges as f64 / report.simulated_s;
        let share = report.collisions_per_s / (report.collisions_per_s + exchanges);
        assert_near(&format!("collisions of {stations} stations"), share, expected, 0.08);
    }
}

/// EIFS: IEEE 802.11-2020, section 10.3.2.3.7.
#[test]
fn who_heard_a_lost_packet_with_errors_leaves_time_for_its_acknowledgement() {
    let packet = |at, station, direction| (at, station, direction, Category::BestEffort);
    let offers = (0..3_000).flat_map(|turn| {
        let at = Time::from_micros(1_000 + 4_000 * turn);
        [packet(at, 0, Direction::Uplink), packet(at, 1, Direction::Uplink), packet(at, 0, Direction::Downlink)]
    });
    let all = exchanges(config("standard-11ax/loss:50%", 2), offers);
    let (mut downlink, mut sender, mut understood, mut misheard) = (0, 0, 0, 0);
    for pair in all.windows(2) {
        let (lost, next) = (&pair[0], &pair[1]);
        let is_lost = lost.packets == 1 && lost.delivered == 0 && lost.direction == Direction::Uplink;
        if !is_lost || lost.kind != Kind::Single || next.kind != Kind::Single {
            continue;
        }
        // The medium is reserved for the acknowledgement, until 44 us after the data: then follow an AIFS of 34 us and whole slots.
        let pause = (next.start - lost.end).as_nanos() / 1_000;
        let begins_at = |micros: i64| (pause - (micros - 44) - 34) % 9 == 0;
        if next.direction == Direction::Downlink {
            downlink += 1;
            assert!(begins_at(60), "its receiver: {pair:?}");
        } else if next.station == lost.station {
            sender += 1;
            assert!(begins_at(45), "its sender, after the timeout: {pair:?}");
        } else {
            assert!(begins_at(44) || begins_at(60), "{pair:?}");
            understood += u32::from(begins_at(44));
            misheard += u32::from(begins_at(60));
        }
    }
    assert!(downlink > 100 && sender > 100 && understood > 100, "{downlink} {sender} {understood}");
    // Every other packet was misheard; who understood begins earlier, and so more often.
    assert!((0.6..1.0).contains(&(f64::from(misheard) / f64::from(understood))), "{misheard} of {understood}");
}

#[test]
fn the_access_point_serves_its_stations_equally() {
    let text = format!("standard-11ax{}", "/background:saturated-down".repeat(4));
    let report = run(&headsets(&text, 0, 0));
    let rates: Vec<f64> = report.stations.iter().map(|station| station.downlink.delivered_mbps).collect();
    let mean = rates.iter().sum::<f64>() / 4.0;
    for rate in rates {
        assert_near("a station's share", rate, mean, 0.02);
    }
}

/// The last of three stations is ten times slower. What each station gets depends on which one the access point serves next.
#[test]
fn the_order_of_service_decides_what_a_slow_station_costs_the_others() {
    let share = |serve: &str| {
        let text = format!("standard-11ax/serve:{serve}{}", "/background:saturated-down".repeat(3));
        let mut scenario = headsets(&text, 0, 0);
        scenario.cell.stations[2].mcs = 1.try_into().expect("a scheme");
        let report = run(&scenario);
        let of = |station: usize| &report.stations[station].downlink;
        (of(2).airtime_ratio / of(0).airtime_ratio, of(2).delivered_mbps / of(0).delivered_mbps)
    };
    let (airtime, _) = share("airtime-fair");
    assert_near("airtime where it is shared", airtime, 1.0, 0.03);
    // One access each: the slow one's are longer, up to the longest transmission.
    let (airtime, packets) = share("in-turn");
    assert!(airtime > 2.0 && packets < 0.9, "{airtime} times the airtime, {packets} times the packets");
    // Queues that are always full hold equal shares of arrivals.
    let (airtime, _) = share("oldest-first");
    assert!(airtime > 2.0, "{airtime} times the airtime");
}

#[test]
fn the_order_of_service_decides_between_packets_that_wait() {
    let order = |serve: &str| {
        let packet = |(station, at)| (Time::from_micros(at), station, Direction::Downlink, Category::BestEffort);
        // All wait when the next slot begins; what is offered long after them lets it happen.
        let offers = [(2, 1_000), (1, 1_001), (0, 1_002), (0, 20_000)].into_iter().map(packet);
        let all = exchanges(config(&format!("standard-11ax/loss:0%/serve:{serve}"), 3), offers);
        all.iter().filter_map(|exchange| exchange.station).collect::<Vec<_>>()
    };
    assert_eq!(order("oldest-first"), [2, 1, 0]);
    assert_eq!(order("in-turn"), [0, 1, 2]);
    assert_eq!(order("airtime-fair"), [0, 1, 2]);
}

/// Heusse et al., INFOCOM 2003: a slow station takes the airtime, and all become slow.
#[test]
fn one_slow_station_slows_all_others() {
    let both = run(&headsets("standard-11ax/background:saturated-up/background:saturated-up", 0, 0));
    let mut scenario = headsets("standard-11ax/background:saturated-up/background:saturated-up", 0, 0);
    scenario.cell.stations[1].mcs = 0.try_into().expect("a scheme");
    let slowed = run(&scenario);
    let rate = |report: &Report| report.stations[0].uplink.delivered_mbps;
    assert!(rate(&slowed) < rate(&both) * 0.7, "{} beside {}", rate(&slowed), rate(&both));
}

#[test]
fn urgent_categories_wait_less_beside_saturated_stations() {
    let delay = |category| {
        let text = "standard-11ax/background:saturated-up/background:saturated-up/background:saturated-down";
        let scenario = Scenario { pose_category: category, ..headsets(text, 1, 0) };
        run(&scenario).headsets.ul_packet_delay_ms.mean
    };
    let delays = Category::ALL.map(delay);
    assert!(delays.is_sorted(), "{delays:?}");
    assert!(delays[0] * 2.0 < delays[2], "{delays:?}");
}

#[test]
fn a_transmit_opportunity_is_kept_to_its_limit_and_used() {
    let cell = config("standard-11ax/mcs:2/streams:1/width:20/loss:0%/aggregate:2", 1);
    let limit = cell.edca[1].txop.expect("video has a limit");
    let offers = (0..3_000).map(|n| (Time::from_micros(n * 300), 0, Direction::Downlink, Category::Video));
    let all = exchanges(cell, offers);
    let mut accesses: Vec<(Time, Time, usize)> = Vec::new();
    for exchange in &all {
        match accesses.last_mut() {
            Some((_, end, count)) if exchange.start == *end => (*end, *count) = (exchange.end, *count + 1),
            _ => accesses.push((exchange.start, exchange.end, 1)),
        }
    }
    assert!(accesses.iter().all(|(start, end, _)| *end - *start <= limit), "{accesses:?}");
    assert!(accesses.iter().any(|(_, _, count)| *count > 1), "no opportunity was used twice");
}

#[test]
fn nobody_talks_to_a_station_that_scans() {
    let cell = config("standard-11ax/scan:30ms@100ms", 2);
    // Half the interval is on the channel before the first scan.
    let away = |at: Time| (at.as_micros() + 50_000) % 100_000 < 30_000;
    let offers = (0..20_000).flat_map(|n| {
        let at = Time::from_micros(n * 100);
        [(at, (n % 2) as usize, Direction::Downlink), (at, 0, Direction::Uplink)]
    });
    let all = exchanges(cell, offers.map(|(at, station, direction)| (at, station, direction, Category::BestEffort)));
    assert!(all.len() > 1_000);
    for exchange in all.iter().filter(|exchange| exchange.kind == Kind::Single) {
        assert!(!away(exchange.start), "{exchange:?}");
    }
}

#[test]
fn neighbours_take_the_share_that_they_are_given() {
    let report = run(&Scenario {
        runs: 4,
        duration: Span::from_secs(30),
        ..headsets("standard-11ax/neighbour:30%/neighbour:10%@500us", 1, 0)
    });
    assert_near("their airtime", report.neighbour_airtime_ratio, 0.4, 0.03);
    let quiet = run(&headsets("standard-11ax", 1, 50)).headsets.dl_packet_delay_ms.p99;
    let loud = run(&headsets("standard-11ax/neighbour:60%@4ms", 1, 50)).headsets.dl_packet_delay_ms.p99;
    assert!(loud > quiet * 2.0, "{loud} ms beside {quiet} ms");
}

#[test]
fn throughput_follows_the_signal_and_adaptation_comes_near_its_bound() {
    let rate = |text: &str| {
        run(&headsets(&format!("standard-11ax/{text}/background:saturated-down"), 0, 0)).stations[0]
            .downlink
            .delivered_mbps
    };
    let steady = [10, 20, 30, 40].map(|snr| rate(&format!("snr:{snr}/adapt:ideal")));
    assert!(steady.is_sorted() && steady[0] * 3.0 < steady[3], "{steady:?}");
    for channel in ["snr:30", "snr:25~3@500ms", "snr:20~5@100ms"] {
        let (real, bound) = (rate(channel), rate(&format!("{channel}/adapt:ideal")));
        assert!(real <= bound * 1.02, "{channel}: {real} of {bound} Mb/s");
        assert!(real >= bound * 0.6, "{channel}: {real} of {bound} Mb/s");
    }
    // A scheme that the signal does not support delivers no packets.
    assert!(rate("snr:15/adapt:fixed") < 1.0);
}

#[test]
fn downlink_ofdma_sends_to_several_at_once() {
    // Small packets for many gain: one preamble and one contention serve all.
    let text = "standard-11ax/mcs:9";
    let video =
        |text: &str| run(&Scenario { phases: Phases::Aligned, ..headsets(text, 8, 1) }).headsets.downlink.airtime_ratio;
    let (one, eight) = (video(text), video(&format!("{text}/downlink-ofdma:8")));
    assert!(eight < one * 0.8, "{eight} instead of {one}");
    let offers = (0..4_000)
        .map(|n| (Time::from_micros(n / 4 * 2_000), (n % 4) as usize, Direction::Downlink, Category::BestEffort));
    let all = exchanges(config("standard-11ax/loss:0%/downlink-ofdma:4", 4), offers);
    let shared: Vec<&Exchange> = all.iter().filter(|exchange| exchange.kind == Kind::MultiUser).collect();
    assert!(shared.len() > 2_000, "{}", shared.len());
    for pair in shared.windows(2).filter(|pair| pair[0].number == pair[1].number) {
        assert!(pair[0].station != pair[1].station && pair[0].start == pair[1].start && pair[0].end == pair[1].end);
    }
}

#[test]
fn triggered_uplink_does_not_collide_and_waits_for_its_trigger() {
    let text = "standard-11ax/mcs:9/loss:0%/trigger:2ms/triggered-stations:8";
    let triggered = run(&headsets(text, 8, 0));
    let free = run(&headsets("standard-11ax/loss:0%", 8, 0));
    assert!(triggered.collisions_per_s < 0.01 && free.collisions_per_s > 10.0, "{}", free.collisions_per_s);
    // Half an interval for the next trigger, then the exchange itself.
    let delay = triggered.headsets.ul_packet_delay_ms;
    assert!((1.0..1.8).contains(&delay.mean) && delay.max < 4.5, "{delay:?}");
    let slower = run(&headsets("standard-11ax/mcs:9/loss:0%/trigger:8ms/triggered-stations:8", 8, 0))
        .headsets
        .ul_packet_delay_ms;
    assert!(slower.mean > delay.mean + 2.0, "{slower:?}");
    // Those that may also contend wait less where there is room.
    let both = run(&headsets(&format!("{text}/triggered-contend:yes"), 8, 0)).headsets.ul_packet_delay_ms;
    assert!(both.mean < delay.mean, "{both:?}");
}

#[test]
fn deadlines_first_lets_the_impatient_go_first() {
    let mut scenario = Scenario {
        phases: Phases::Aligned,
        ..headsets("standard-11ax/mcs:7/downlink-ofdma:2/order:deadline-first", 6, 30)
    };
    scenario.cell.stations[4].patience = Span::from_millis(1);
    let report = run(&scenario);
    let delay = |station: usize| report.stations[station].video_frame_delay_ms.mean;
    for other in [0, 1, 2, 3, 5] {
        assert!(delay(4) < delay(other), "station {other}: {} and {} ms", delay(4), delay(other));
    }
}

#[test]
fn triggers_and_packets_for_stations_take_turns() {
    let text = "standard-11ax/trigger:1ms/background:saturated-up";
    let report = run(&headsets(text, 1, 10));
    let downlink = &report.headsets.downlink;
    assert_near("video", downlink.delivered as f64, downlink.offered as f64, 0.02);
    assert!(report.stations[1].uplink.delivered_mbps > 100.0);
}

#[test]
fn equal_scenarios_give_equal_reports() {
    let text = "standard-11ax/snr:28~4@50ms/neighbour:20%/scan:20ms@500ms/background:saturated-up/downlink-ofdma:4";
    let once = || serde_json::to_string(&run(&headsets(text, 3, 20))).expect("a report");
    assert_eq!(once(), once());
}
