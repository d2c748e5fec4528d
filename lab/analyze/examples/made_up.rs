//! A made-up stream as two captures and their page, to try the analyser on: `cargo run -p nearlight-analyze --example made_up -- FOLDER`.

#[path = "../tests/all/support/mod.rs"]
mod support;

use std::path::PathBuf;

use nearlight_analyze::{Comparison, Limits, Study, Traffic, document};
use support::file::{EPOCH, Form, pcap, pcapng};
use support::stream::{Pacing, Stream};
use support::{Datagram, Dice};

/// Packets wait for the air and arrive as aggregates, some never.
fn air(sent: &[Datagram], dice: &mut Dice) -> Vec<Datagram> {
    let mut arrived = Vec::new();
    let (mut free, mut newest) = (0, 0);
    for datagram in sent {
        if dice.share() < 0.002 {
            continue;
        }
        if datagram.nanos > free {
            free = datagram.nanos + (350e3 + 600e3 * dice.share() * dice.share()) as i64;
        }
        newest = (free + 900_000).max(newest + 300);
        arrived.push(Datagram { nanos: newest, ..datagram.clone() });
    }
    arrived.sort_by_key(|datagram| datagram.nanos);
    arrived
}

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".into()));
    let made = Stream { fps: 60.0, frame: 99e3, batch: 40, pacing: Pacing::Timer, ..Stream::default() }.make();
    let mut dice = Dice::new(5);
    let (down, up): (Vec<_>, Vec<_>) = made.datagrams.into_iter().partition(|datagram| datagram.down);
    let (down_there, up_here) = (air(&down, &mut dice), air(&up, &mut dice));
    let both = |one: Vec<Datagram>, other: Vec<Datagram>| {
        let mut both = [one, other].concat();
        both.sort_by_key(|datagram| datagram.nanos);
        both
    };
    let ahead = Form { epoch: EPOCH + 42_000_000, drift_ppm: 11.0, ..Form::default() };
    let sender = pcap(&Form::default(), &both(down, up_here));
    let receiver = pcapng(&ahead, &both(down_there, up));
    let read = |file: &[u8]| Traffic::read(file, &Limits::default()).expect("a capture");
    let (here, there) = (read(&sender), read(&receiver));
    let study = Study::new(&here, None).expect("datagrams");
    let comparison = Comparison::new(&here, &there, None).expect("the same packets");
    let page = document(&study, Some(&comparison)).to_html().into_bytes();
    for (name, bytes) in [("sender.pcap", sender), ("receiver.pcapng", receiver), ("page.html", page)] {
        std::fs::write(folder.join(name), bytes).expect("the folder can be written to");
    }
}
