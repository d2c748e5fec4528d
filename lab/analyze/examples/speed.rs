//! How fast a capture is studied: `cargo run --release -p nearlight-analyze --example speed -- CAPTURE`. Without a capture, one
//! of ten minutes is made up.

#[path = "../tests/all/support/mod.rs"]
mod support;

use std::time::Instant;

use nearlight_analyze::{Limits, Study, Traffic};
use support::file::{Form, pcap};
use support::stream::Stream;

#[expect(clippy::disallowed_methods, reason = "measures")]
fn main() {
    let file = match std::env::args().nth(1) {
        Some(path) => std::fs::read(path).expect("the capture can be read"),
        None => pcap(&Form::default(), &Stream { seconds: 600.0, ..Stream::default() }.make().datagrams),
    };
    let begun = Instant::now();
    let traffic = Traffic::read(file.as_slice(), &Limits::default()).expect("a capture");
    let read = begun.elapsed().as_secs_f64();
    let study = Study::new(&traffic, None).expect("datagrams");
    let all = begun.elapsed().as_secs_f64();
    let packets = traffic.capture.packets as f64;
    println!("{packets} packets: read {:.2} M/s, studied {:.2} M/s", packets / read / 1e6, packets / all / 1e6);
    println!("{} streams", study.streams.len());
}
