//! Shared by the path's benchmarks: a host and a viewer whose codecs take no time, and a relay between them that records when packets
//! arrive.
#![allow(dead_code, reason = "each measurement needs some of the times")]

use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nearlight_client::headless::watch_until;
use nearlight_client::{HeadlessOptions, ViewOptions};
use nearlight_codec::{
    CodecError, CodecKind, Decoder, Decoders, EncodedPicture, Encoder, EncoderConfig, EncoderDescription,
    EncoderFactory, Encoders, Picture as Planes, PictureView, Reference,
};
use nearlight_embed::{Bitrate, EventKind, Host, Options, Size, Span, Time};
use nearlight_net::Clock;
use nearlight_units::{FrameId, lock};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// Minimum number of bytes of a media packet; the session's other packets are shorter.
const MIN_MEDIA_PACKET_BYTES: usize = 500;
/// A time limit longer than any run.
const NO_TIME_LIMIT: Span = Span::from_secs(3_600);

/// Number of bytes of an encoded frame: 19 Mb/s at 60 frames a second.
const FRAME_BYTES: usize = 40_000;

/// Returns the median and the 95th percentile, in microseconds, as text.
pub fn quantiles(spans: &[Span]) -> String {
    let mut sorted: Vec<i64> = spans.iter().map(|span| span.as_micros()).collect();
    sorted.sort_unstable();
    let at = |share: usize| sorted.get(sorted.len() * share / 100).copied().unwrap_or_default();
    format!("{} ({})", at(50), at(95))
}

/// Recorded times.
pub type Times = Arc<Mutex<Vec<Time>>>;

fn note(times: &Times, at: Time) {
    lock(times).push(at);
}

pub fn noted(times: &Times) -> Vec<Time> {
    lock(times).clone()
}

/// A host with a viewer behind a relay.
pub struct Path {
    pub host: Host,
    /// Clock of all times below.
    pub clock: Clock,
    /// The times when the kernel received each media packet for the viewer.
    pub sent: Times,
    /// The times when the relay was about to forward each of them.
    pub passed: Times,
    /// The times when the viewer's decoder was called.
    pub decoded: Times,
    stop: watch::Sender<bool>,
    viewer: JoinHandle<()>,
}

impl Path {
    /// Opens a host and a viewer with codecs that take no time, and a rate that does not determine when a packet leaves. The relay forwards
    /// packets as they arrive.
    pub fn open(options: Options, size: Size) -> Self {
        Self::open_paced(options, size, Span::ZERO)
    }

    /// Opens a path like [`Path::open`]. The relay forwards at most one media packet in each `spacing`, like a link that takes so long to
    /// carry one.
    pub fn open_paced(options: Options, size: Size, spacing: Span) -> Self {
        let options = Options {
            address: Some(Ipv4Addr::LOCALHOST.into()),
            encoders: Encoders::new(StubEncoders),
            width: size.width,
            height: size.height,
            rate_mbps: Some(30.0),
            ..options
        };
        let host = Host::open(&options).expect("a server");
        let (clock, sent, passed, decoded) = (Clock::start(), Times::default(), Times::default(), Times::default());
        let mut link = host.links().remove(0);
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, link.port));
        link.port = relay(server, clock, spacing, Arc::clone(&sent), Arc::clone(&passed));
        let called = Arc::clone(&decoded);
        let decoders = Decoders::new(move |_| {
            let grey = Planes::new(size);
            Ok(Box::new(StubDecoder { grey, clock, called: Arc::clone(&called) }))
        });
        let view = ViewOptions { decoders, first_picture: NO_TIME_LIMIT, ..ViewOptions::new(link) };
        let (stop, stopped) = watch::channel(false);
        let viewer = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
            // The result is an error, because the grey pictures have no marker.
            let _ = runtime.block_on(watch_until(HeadlessOptions::new(view), clock, stopped));
        });
        while host.wait_event(Duration::from_secs(30)).expect("a viewer").kind != EventKind::ViewerJoined {}
        Self { host, clock, sent, passed, decoded, stop, viewer }
    }

    pub fn close(self) {
        self.stop.send(true).expect("a viewer");
        self.viewer.join().expect("no panic");
        self.host.close().expect("an end");
    }
}

/// Forwards packets between a viewer and the server at `server`. Returns the port for the viewer. The threads end with the process.
fn relay(server: SocketAddr, clock: Clock, spacing: Span, sent: Times, passed: Times) -> u16 {
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let (near, far) = (Arc::new(bind()), Arc::new(bind()));
    far.connect(server).expect("a server");
    setsockopt(&far, sockopt::ReceiveTimestampns, &true).expect("times of arrival");
    let port = near.local_addr().expect("a port").port();
    let viewer = Arc::new(Mutex::new(None));
    let (to_server, from, to) = (Arc::clone(&far), Arc::clone(&near), Arc::clone(&viewer));
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok((length, address)) = from.recv_from(&mut bytes) {
            *lock(&to) = Some(address);
            // As on any network, a packet that cannot be sent is lost.
            let _ = to_server.send(&bytes[..length]);
        }
    });
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        let mut free = clock.now();
        while let Ok((length, waited)) = recv(&far, &mut bytes) {
            let Some(address) = *lock(&viewer) else { continue };
            if length >= MIN_MEDIA_PACKET_BYTES {
                note(&sent, clock.now() - waited);
                // Sleeping would take longer than the packet's time on the link.
                while clock.now() < free {
                    std::hint::spin_loop();
                }
                let now = clock.now();
                free = now + spacing;
                note(&passed, now);
            }
            let _ = near.send_to(&bytes[..length], address);
        }
    });
    port
}

/// Receives a packet. Returns its length, and how long the kernel had it: on the loopback interface, the time since it was sent.
fn recv(socket: &UdpSocket, bytes: &mut [u8]) -> nix::Result<(usize, Span)> {
    let mut buffers = [IoSliceMut::new(bytes)];
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut buffers, Some(&mut control), MsgFlags::empty())?;
    let now = Duration::from(clock_gettime(ClockId::CLOCK_REALTIME)?);
    let arrived_at = message.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
        _ => None,
    });
    let waited = now.saturating_sub(arrived_at.expect("a time of arrival"));
    Ok((message.bytes, Span::from_nanos(waited.as_nanos() as i64)))
}

/// A decoder that returns a grey picture immediately.
struct StubDecoder {
    grey: Planes,
    clock: Clock,
    called: Times,
}

impl Decoder for StubDecoder {
    fn name(&self) -> String {
        "stub".into()
    }

    fn decode(&mut self, _: &[u8]) -> Result<Option<PictureView<'_>>, CodecError> {
        note(&self.called, self.clock.now());
        Ok(Some(self.grey.view()))
    }
}

/// An encoder that immediately returns bytes that are no valid bitstream.
struct StubEncoder(Vec<u8>);

struct StubEncoders;

impl EncoderFactory for StubEncoders {
    fn describe(&self, kind: CodecKind, config: EncoderConfig) -> Result<EncoderDescription, CodecError> {
        Encoders::default().describe(kind, config)
    }

    fn open(&self, _: CodecKind, _: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> {
        Ok(Box::new(StubEncoder(vec![7; FRAME_BYTES])))
    }
}

impl Encoder for StubEncoder {
    fn encode(&mut self, _: &Planes, _: Reference) -> Result<EncodedPicture, CodecError> {
        Ok(EncodedPicture { bits: self.0.as_slice().into(), reference: None, distortion: None })
    }

    fn on_decoded(&mut self, _: FrameId) {}

    fn set_rate(&mut self, _: Bitrate) -> Result<(), CodecError> {
        Ok(())
    }

    fn set_size(&mut self, _: Size) -> Result<(), CodecError> {
        Ok(())
    }
}
