//! What the measurements of the path share: a host and a viewer whose codecs take no time, and a relay between them that notes when packets come.
#![allow(dead_code, reason = "each measurement needs some of the times")]

use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nearlight_client::headless::watch_until;
use nearlight_client::{HeadlessOptions, ViewOptions};
use nearlight_codec::{
    CodecError, CodecKind, Coded, Decoder, Decoders, Encoder, EncoderConfig, EncoderDescription, EncoderFactory,
    Encoders, Picture as Planes, PictureView, Reference,
};
use nearlight_embed::{Bitrate, Host, Options, Size, Span, Time, What};
use nearlight_net::Clock;
use nearlight_units::FrameId;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// A frame's packets are longer than the session's other ones.
const LEAST: usize = 500;
/// Longer than a run.
const UNLIMITED: Span = Span::from_secs(3_600);

/// Bytes of a frame: 19 Mb/s at 60 a second.
const FRAME: usize = 40_000;

/// The median and the 95th percentile, in microseconds.
pub fn quantiles(spans: &[Span]) -> String {
    let mut sorted: Vec<i64> = spans.iter().map(|span| span.as_micros()).collect();
    sorted.sort_unstable();
    let at = |share: usize| sorted.get(sorted.len() * share / 100).copied().unwrap_or_default();
    format!("{} ({})", at(50), at(95))
}

pub type Times = Arc<Mutex<Vec<Time>>>;

fn note(times: &Times, at: Time) {
    times.lock().unwrap_or_else(PoisonError::into_inner).push(at);
}

pub fn noted(times: &Times) -> Vec<Time> {
    times.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A host with a viewer behind a relay.
pub struct Path {
    pub host: Host,
    /// Of all times below.
    pub clock: Clock,
    /// When the kernel had each packet of a frame on its way to the viewer.
    pub sent: Times,
    /// When the relay was about to pass it on.
    pub passed: Times,
    /// When the viewer's decoder was called.
    pub decoded: Times,
    stop: watch::Sender<bool>,
    viewer: JoinHandle<()>,
}

impl Path {
    /// With codecs that take no time, and a rate that does not decide when a packet leaves. The relay passes packets on as they come.
    pub fn open(options: Options, size: Size) -> Self {
        Self::open_paced(options, size, Span::ZERO)
    }

    /// The same; the relay passes on a packet of a frame every `spacing` at most, as a link does that carries one in that time.
    pub fn open_paced(options: Options, size: Size, spacing: Span) -> Self {
        let options = Options {
            address: Some(Ipv4Addr::LOCALHOST.into()),
            encoders: Encoders::new(Stubs),
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
        let view = ViewOptions { decoders, first_picture: UNLIMITED, ..ViewOptions::new(link) };
        let (stop, stopped) = watch::channel(false);
        let viewer = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
            // It finds no marker in its pictures, which is an error.
            let _ = runtime.block_on(watch_until(HeadlessOptions::new(view), clock, stopped));
        });
        while host.wait_event(Duration::from_secs(30)).expect("a viewer").what != What::ViewerJoined {}
        Self { host, clock, sent, passed, decoded, stop, viewer }
    }

    pub fn close(self) {
        self.stop.send(true).expect("a viewer");
        self.viewer.join().expect("no panic");
        self.host.close().expect("an end");
    }
}

/// Passes packets on between a viewer and the server at `server`; answers its own port. Its threads end with the process.
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
            *to.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
            // As on any network, what cannot be sent is lost.
            let _ = to_server.send(&bytes[..length]);
        }
    });
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        let mut free = clock.now();
        while let Ok((length, waited)) = recv(&far, &mut bytes) {
            let Some(address) = *viewer.lock().unwrap_or_else(PoisonError::into_inner) else { continue };
            if length >= LEAST {
                note(&sent, clock.now() - waited);
                // To sleep takes longer than the packet.
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

/// A packet's length, and how long the kernel had it. On the loopback interface that is since it was sent.
fn recv(socket: &UdpSocket, bytes: &mut [u8]) -> nix::Result<(usize, Span)> {
    let mut buffers = [IoSliceMut::new(bytes)];
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut buffers, Some(&mut control), MsgFlags::empty())?;
    let now = Duration::from(clock_gettime(ClockId::CLOCK_REALTIME)?);
    let came = message.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
        _ => None,
    });
    let waited = now.saturating_sub(came.expect("a time of arrival"));
    Ok((message.bytes, Span::from_nanos(waited.as_nanos() as i64)))
}

/// Answers a grey picture, in no time.
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

/// Answers bits that no decoder takes, in no time.
struct Stub(Vec<u8>);

struct Stubs;

impl EncoderFactory for Stubs {
    fn describe(&self, kind: CodecKind, config: EncoderConfig) -> Result<EncoderDescription, CodecError> {
        Encoders::default().describe(kind, config)
    }

    fn open(&self, _: CodecKind, _: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> {
        Ok(Box::new(Stub(vec![7; FRAME])))
    }
}

impl Encoder for Stub {
    fn encode(&mut self, _: &Planes, _: Reference) -> Result<Coded, CodecError> {
        Ok(Coded { bits: self.0.as_slice().into(), reference: None, distortion: None })
    }

    fn on_decoded(&mut self, _: FrameId) {}

    fn set_rate(&mut self, _: Bitrate) -> Result<(), CodecError> {
        Ok(())
    }

    fn set_size(&mut self, _: Size) -> Result<(), CodecError> {
        Ok(())
    }
}
