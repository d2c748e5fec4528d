//! The device reached directly and through an access point, in virtual time.
//!
//! Through an access point each packet crosses the channel twice: from the host, a station, to the access point, which sends it on to
//! the device. Both contend for the same channel. Directly, the host is the one that the device is associated with (Wi-Fi Direct's group
//! owner), and each packet crosses it once.

use nearlight_link::{FlowId, Hop as _, Packet, PacketOutcome};
use nearlight_units::{Bytes, Span, Time};
use nearlight_wifi::{Category, Cell, CellConfig, Channel, ConfigError, Direction, Mcs, Neighbour, Preset, SharedCell};

/// OpenUVR's card was 802.11ac at 867 Mb/s on 80 MHz: two streams at this scheme. The cell is 802.11ax, whose symbols are four times as long.
const MCS_INDEX: u8 = 9;
/// Twelve other access points were in the room; how much they sent is not told. Guess.
const OTHER_NETWORKS: Neighbour = Neighbour { load: 0.3, burst: Span::from_millis(1) };
/// IP and UDP around a packet of 1,400 bytes.
const PACKET_SIZE: Bytes = Bytes::new(1_428);
const SIMULATED_FRAMES: u64 = 2_000;

/// Microseconds from a frame's first packet to its last one's arrival.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) through_access_point: Vec<f64>,
    pub(crate) direct: Vec<f64>,
}

/// Frames of this many packets, so many a second.
pub(crate) fn simulate(packets: u64, fps: u16) -> Result<Network, ConfigError> {
    Ok(Network { through_access_point: frames(packets, fps, true)?, direct: frames(packets, fps, false)? })
}

fn config(stations: usize) -> CellConfig {
    let mut config = CellConfig::preset(Preset::Standard11ax).with_stations(stations);
    for station in &mut config.stations {
        station.channel = Channel::Fixed { loss: 0.01 };
        if let Ok(scheme) = Mcs::try_from(MCS_INDEX) {
            station.mcs = scheme;
        }
    }
    config.neighbours = vec![OTHER_NETWORKS];
    config
}

fn frames(packets: u64, fps: u16, relayed: bool) -> Result<Vec<f64>, ConfigError> {
    let cell = SharedCell::new(Cell::new(config(if relayed { 2 } else { 1 }), 1)?);
    let mut to_device = cell.port(0, Direction::Downlink, Category::Video)?;
    let mut to_access_point = relayed.then(|| cell.port(1, Direction::Uplink, Category::Video)).transpose()?;
    let interval = Span::from_secs(1) / i64::from(fps);
    let mut took = Vec::new();
    for frame in 0..SIMULATED_FRAMES {
        let start = Time::ZERO + interval * (frame as i64 + 1);
        let limit = start + interval * 4;
        for number in 0..packets {
            let packet = Packet::new(frame * packets + number, FlowId(0), PACKET_SIZE);
            match &mut to_access_point {
                Some(port) => port.offer(start, packet),
                None => to_device.offer(start, packet),
            }
        }
        let (mut left, mut last) = (packets, start);
        while left > 0 {
            let next = [Some(&to_device), to_access_point.as_ref()].into_iter().flatten();
            let Some(now) = next.filter_map(nearlight_link::Hop::poll_timeout).min().filter(|now| *now <= limit) else {
                break;
            };
            if let Some(port) = &mut to_access_point {
                while let Some(exit) = port.poll(now) {
                    if exit.outcome == PacketOutcome::Delivered {
                        to_device.offer(exit.at.max(now), exit.packet);
                    } else {
                        left -= 1;
                    }
                }
            }
            while let Some(exit) = to_device.poll(now) {
                left -= 1;
                last = last.max(exit.at);
            }
        }
        took.push((last - start).as_nanos() as f64 / 1e3);
    }
    Ok(took)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::report::Figures;

    #[test]
    fn the_second_hop_takes_about_as_long_as_the_first() {
        let Network { through_access_point, direct } = simulate(30, 60).expect("a cell");
        let [relayed, direct] = [through_access_point, direct].map(|took| Figures::of(took).expect("samples").median);
        assert!((1.6..3.0).contains(&(relayed / direct)), "{relayed} {direct}");
    }
}
