//! What the receiving end adds to a frame: from its last packet until the decoder has its bits.
//!
//! Host and viewer talk through a relay, which reads the clock before it hands each packet to the kernel. The viewer's decoder is a stub that reads it
//! when it is called. In between lie the relay's system call, the viewer's wake-up, decryption, reassembly and the decoder's thread. Prints a
//! table.

mod common;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use common::{quantiles, stub_encoders};
use nearlight_client::headless::watch_until;
use nearlight_client::{HeadlessOptions, ViewOptions};
use nearlight_codec::{CodecError, Decoder, Decoders, PictureView};
use nearlight_embed::{Content, Host, Options, Size, Span, Time, What};
use nearlight_net::Clock;
use tokio::sync::watch;

const PICTURES: usize = 120;
/// The stub's viewer sees nothing and reports nothing, so that a frame may leave every 66 ms.
const PAUSE: Duration = Duration::from_millis(80);
/// A frame's packets are longer than the session's other ones.
const LEAST: usize = 500;
/// Longer than the run.
const UNLIMITED: Span = Span::from_secs(3_600);

type Times = Arc<Mutex<Vec<Time>>>;

fn note(times: &Times, at: Time) {
    times.lock().unwrap_or_else(PoisonError::into_inner).push(at);
}

/// Answers no picture, in no time.
struct Stub {
    clock: Clock,
    called: Times,
}

impl Decoder for Stub {
    fn name(&self) -> String {
        "stub".into()
    }

    fn decode(&mut self, _: &[u8]) -> Result<Option<PictureView<'_>>, CodecError> {
        note(&self.called, self.clock.now());
        Ok(None)
    }
}

/// Passes packets on between a viewer and the server at `server`; answers its own port. Notes when it is about to pass on each packet of a frame.
/// Its threads end with the process.
fn relay(server: SocketAddr, clock: Clock, passed: Times) -> u16 {
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let (near, far) = (Arc::new(bind()), Arc::new(bind()));
    far.connect(server).expect("a server");
    let port = near.local_addr().expect("a port").port();
    let viewer = Arc::new(Mutex::new(None));
    let (to_server, from, to) = (Arc::clone(&far), Arc::clone(&near), Arc::clone(&viewer));
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok((length, address)) = from.recv_from(&mut bytes) {
            *to.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
            // As on any network, what cannot be sent is lost.
            let _ = to_server.send(&bytes[..length]);
        }
    });
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(length) = far.recv(&mut bytes) {
            let Some(address) = *viewer.lock().unwrap_or_else(PoisonError::into_inner) else { continue };
            if length >= LEAST {
                note(&passed, clock.now());
            }
            let _ = near.send_to(&bytes[..length], address);
        }
    });
    port
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let size = Size { width: 1_280, height: 720 };
    let options = Options {
        address: Some(Ipv4Addr::LOCALHOST.into()),
        encoders: stub_encoders(),
        // A frame is complete with its last packet and not before.
        fec: "none".into(),
        rate_mbps: Some(30.0),
        ..Options::default()
    };
    let host = Host::open(&options).expect("a server");
    let (clock, called, passed) = (Clock::start(), Times::default(), Times::default());
    let mut link = host.links().remove(0);
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, link.port));
    link.port = relay(server, clock, Arc::clone(&passed));
    let decoded = Arc::clone(&called);
    let decoders = Decoders::new(move |_| Ok(Box::new(Stub { clock, called: Arc::clone(&decoded) })));
    let view = ViewOptions { decoders, first_picture: UNLIMITED, ..ViewOptions::new(link) };
    let (stop, stopped) = watch::channel(false);
    let viewer = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
        runtime.block_on(watch_until(HeadlessOptions::new(view), clock, stopped))
    });
    while host.wait_event(Duration::from_secs(30)).expect("a viewer").what != What::ViewerJoined {}
    for _ in 0..PICTURES {
        host.submit_planes(host.lend(size).expect("planes"), &Content::default()).expect("a picture");
        std::thread::park_timeout(PAUSE);
    }
    stop.send(true).expect("a viewer");
    // It has seen nothing, which is an error.
    let _ = viewer.join().expect("no panic");
    host.close().expect("an end");
    let called = called.lock().unwrap_or_else(PoisonError::into_inner);
    let passed = passed.lock().unwrap_or_else(PoisonError::into_inner);
    let last_before = |at: &Time| passed.iter().rev().find(|passed| *passed <= at).map(|passed| *at - *passed);
    let spans: Vec<Span> = called.iter().filter_map(last_before).collect();
    println!("a frame's last packet -> the decoder's input, microseconds (median, 95 %)");
    println!(
        "{} frames of {:.0} packets: {}",
        spans.len(),
        passed.len() as f64 / called.len().max(1) as f64,
        quantiles(&spans)
    );
}
