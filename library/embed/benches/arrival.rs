//! Measures the delay that the receiving end adds to a frame: from its last packet until the decoder has its bits.
//!
//! Host and viewer communicate through a relay, which reads the clock before it passes each packet to the kernel. The viewer's decoder is a
//! stub that reads the clock when it is called. The time between includes the relay's system call, the viewer's wake-up, decryption,
//! reassembly and the decoder's thread. For comparison, the benchmark measures the operating system alone: a packet wakes a thread, which
//! notifies a second one. Prints a table.

mod common;

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{Path, noted, quantiles};
use nearlight_embed::{Content, Options, Size, Span, Time};
use nearlight_net::Clock;

/// Number of pictures of a run.
const PICTURES: usize = 300;
const INTERVAL: Duration = Duration::from_micros(16_667);
/// Microseconds from one packet to the next: none, and those of links with 200 and 100 Mb/s.
const SPACINGS: [i64; 3] = [0, 50, 100];

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("microseconds (median, 95 %), 60 frames a second");
    for spacing in SPACINGS {
        measure(Span::from_micros(spacing));
    }
}

fn measure(spacing: Span) {
    let size = Size { width: 1_280, height: 720 };
    // Without repairs, a frame is complete only with its last packet.
    let path = Path::open_paced(Options { fec: "none".into(), ..Options::default() }, size, spacing);
    let (socket, wake_ups) = wake_up_chain(path.clock);
    let mut spans = Vec::new();
    for _ in 0..PICTURES {
        let planes = path.host.lend(size).expect("planes");
        path.host.submit_planes(planes, &Content::default()).expect("a picture");
        std::thread::park_timeout(INTERVAL / 2);
        let at = path.clock.now();
        socket.send(&[7; 1_200]).expect("a packet");
        std::thread::park_timeout(INTERVAL / 2);
        spans.extend(wake_ups.try_iter().map(|woken| woken - at));
    }
    let (decoded, passed) = (noted(&path.decoded), noted(&path.passed));
    path.close();
    println!("a packet -> a thread -> a second one, and nothing else: {}", quantiles(&spans));
    let spans: Vec<Span> = decoded
        .iter()
        .filter_map(|at| passed.iter().rev().find(|passed| *passed <= at).map(|passed| *at - *passed))
        .collect();
    println!(
        "a frame's last packet -> the decoder's input, packets {} us apart, {} frames of {:.0} packets: {}",
        spacing.as_micros(),
        spans.len(),
        passed.len() as f64 / decoded.len().max(1) as f64,
        quantiles(&spans)
    );
}

/// Returns a socket whose packets wake a thread, which notifies a second one, and the times when the second one wakes. The threads end with
/// the process.
fn wake_up_chain(clock: Clock) -> (UdpSocket, Receiver<Time>) {
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let (near, far) = (bind(), bind());
    near.connect(far.local_addr().expect("an address")).expect("a connection");
    #[expect(clippy::disallowed_methods, reason = "at most one message waits")]
    let ((notify, notified), (report, wake_ups)) = (channel(), channel());
    std::thread::spawn(move || while far.recv(&mut [0; 2_000]).is_ok_and(|_| notify.send(()).is_ok()) {});
    std::thread::spawn(move || while notified.recv().is_ok_and(|()| report.send(clock.now()).is_ok()) {});
    (near, wake_ups)
}
