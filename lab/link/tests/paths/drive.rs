//! Drivers of paths for tests.

use nearlight_link::{DropReason, Ecn, Exit, FlowId, Hop, Packet, PacketOutcome, Path, PathSpec};
use nearlight_units::{Bytes, Span, Time};

/// The path that `spec` describes.
pub fn path(spec: &str, seed: u64) -> Path {
    let spec: PathSpec = spec.parse().unwrap_or_else(|error| panic!("{spec}: {error}"));
    spec.build(seed).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

pub fn packet(id: u64, size: u64) -> Packet {
    Packet::new(id, FlowId(0), Bytes::new(size))
}

pub fn micros(micros: u64) -> Time {
    Time::from_micros(micros)
}

/// Offers packets at their times, polling whenever the path requests it, then waits until the path is empty.
pub fn run(path: &mut impl Hop, offers: impl IntoIterator<Item = (Time, Packet)>) -> Vec<Exit> {
    let mut exits = Vec::new();
    for (at, packet) in offers {
        wait_until(path, at, &mut exits);
        path.offer(at, packet);
    }
    wait_until(path, Time::FAR_FUTURE, &mut exits);
    exits
}

fn wait_until(path: &mut impl Hop, end: Time, exits: &mut Vec<Exit>) {
    while let Some(due) = path.poll_timeout().filter(|&due| due <= end) {
        while let Some(exit) = path.poll(due) {
            exits.push(exit);
        }
    }
}

/// Packets of one size at even distances.
pub fn evenly(count: u64, size: u64, apart: Span) -> impl Iterator<Item = (Time, Packet)> {
    evenly_marked(count, size, apart, Ecn::NotCapable)
}

pub fn evenly_marked(count: u64, size: u64, apart: Span, ecn: Ecn) -> impl Iterator<Item = (Time, Packet)> {
    (0..count).map(move |id| (Time::ZERO + apart * id as i64, packet(id, size).with_ecn(ecn)))
}

pub fn delivered(exits: &[Exit]) -> Vec<Exit> {
    exits.iter().copied().filter(Exit::is_delivered).collect()
}

pub fn dropped(exits: &[Exit], reason: DropReason) -> Vec<Exit> {
    exits.iter().copied().filter(|exit| exit.outcome == PacketOutcome::Dropped(reason)).collect()
}

/// Identities of what was delivered, in order.
pub fn ids(exits: &[Exit]) -> Vec<u64> {
    delivered(exits).iter().map(|exit| exit.packet.id).collect()
}

/// Times in microseconds of what was delivered.
pub fn times(exits: &[Exit]) -> Vec<u64> {
    delivered(exits).iter().map(|exit| exit.at.as_micros()).collect()
}
