//! The server's end.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use anyhow::Context as _;
use clap::Args;
use nearlight_codec::{CodecKind, Encoder, EncoderConfig, Picture, Reference, Size};
use nearlight_events::{Event, Origin};
use nearlight_lab::MAX_WAIT_OVER_TCP;
use nearlight_net::Clock;
use nearlight_net::tcp::{set_congestion_control, tcp_info};
use nearlight_units::{Bitrate, FrameId, Span, Time, lock};
use nearlight_wire::TcpInfo;

use super::{FrameHeader, Journal, TRAFFIC_INTERVAL, sleep_until};
use crate::stand_in::{self, StandIn};
use nearlight_cli::parse;

#[derive(Debug, Args)]
pub(in crate::lab) struct TcpServeArguments {
    /// Congestion control, by its name in the kernel
    #[arg(long)]
    law: String,
    #[arg(long)]
    fps: u16,
    #[arg(long, value_parser = parse::bitrate)]
    rate: Bitrate,
    /// Frames from one key frame to the next; 0: none after the first
    #[arg(long)]
    key_every: u32,
    #[arg(long)]
    width: u16,
    #[arg(long)]
    height: u16,
    #[arg(long)]
    codec: CodecKind,
    /// What stands in for the codec, as JSON
    #[arg(long)]
    stand_in: StandIn,
    #[arg(long)]
    clock_origin: u64,
    #[arg(long)]
    events: PathBuf,
}

/// State shared by the threads.
#[derive(Default)]
struct Shared {
    /// The newest input that arrived.
    known_input: AtomicU32,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// Encoded frames that the socket has not accepted.
#[derive(Default)]
struct Queue {
    frames: VecDeque<QueuedFrame>,
    ended: bool,
}

struct QueuedFrame {
    captured_at: Time,
    /// Head and bits.
    bytes: Vec<u8>,
}

/// Serves one client until it leaves. The first line on standard output is JSON with the port.
pub(in crate::lab) fn serve(arguments: &TcpServeArguments) -> anyhow::Result<ExitCode> {
    let clock = stand_in::clock(Some(arguments.clock_origin));
    let size = Size { width: arguments.width, height: arguments.height };
    let config = EncoderConfig { size, fps: arguments.fps, rate: arguments.rate, threads: 1 };
    let encoder = arguments.stand_in.encoders(clock).open(arguments.codec, config)?;
    let journal = Journal::create(&arguments.events, Origin::Server)?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).context("cannot open a port")?;
    println!("{}", serde_json::json!({ "port": listener.local_addr()?.port() }));
    let (stream, _) = listener.accept().context("no client connected")?;
    stream.set_nodelay(true)?;
    set_congestion_control(&stream, &arguments.law).with_context(|| {
        let law = &arguments.law;
        format!("this kernel has no TCP with {law}; `modprobe tcp_{law}` may load it")
    })?;
    let shared = Shared::default();
    thread::scope(|scope| {
        scope.spawn(|| read_inputs(&stream, &shared));
        scope.spawn(|| write_frames(&stream, &shared));
        let captured =
            CaptureLoop { clock, shared: &shared, journal: &journal, stream: &stream }.run(arguments, encoder);
        shared.end();
        // Unblocks both threads from their system calls.
        let _ = stream.shutdown(std::net::Shutdown::Both);
        captured
    })?;
    journal.finish()?;
    Ok(ExitCode::SUCCESS)
}

impl Shared {
    fn end(&self) {
        lock(&self.queue).ended = true;
        self.changed.notify_all();
    }
}

fn read_inputs(mut stream: &TcpStream, shared: &Shared) {
    let mut input = [0; 4];
    while stream.read_exact(&mut input).is_ok() {
        shared.known_input.fetch_max(u32::from_be_bytes(input), Ordering::Relaxed);
    }
    shared.end();
}

fn write_frames(mut stream: &TcpStream, shared: &Shared) {
    loop {
        let mut queue = lock(&shared.queue);
        let frame = loop {
            if queue.ended {
                return;
            }
            if let Some(frame) = queue.frames.pop_front() {
                break frame;
            }
            queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        if stream.write_all(&frame.bytes).is_err() {
            shared.end();
            return;
        }
    }
}

struct CaptureLoop<'a> {
    clock: Clock,
    shared: &'a Shared,
    journal: &'a Journal,
    stream: &'a TcpStream,
}

impl CaptureLoop<'_> {
    /// Captures until the client has left.
    fn run(&self, arguments: &TcpServeArguments, mut encoder: Box<dyn Encoder>) -> anyhow::Result<()> {
        let interval = Span::from_secs(1) / i64::from(arguments.fps.max(1));
        let nothing = Picture::new(Size { width: arguments.width, height: arguments.height });
        let (mut number, mut since_key) = (0, 0);
        let begin = self.clock.now();
        let (mut due, mut reported_at) = (begin, begin);
        let rate = arguments.rate;
        let event = Event::RateDecision { target: rate, pacing: rate, binding: "fixed".into(), candidates: Vec::new() };
        self.journal.write(begin, &event)?;
        loop {
            sleep_until(self.clock, due);
            let now = self.clock.now();
            if now - reported_at >= TRAFFIC_INTERVAL {
                reported_at = now;
                self.report_traffic(now)?;
            }
            let queue = lock(&self.shared.queue);
            if queue.ended {
                return self.report_traffic(now);
            }
            let oldest = queue.frames.front().map(|frame| frame.captured_at);
            drop(queue);
            due = (due + interval).max(now);
            if oldest.is_some_and(|oldest| now - oldest > MAX_WAIT_OVER_TCP) {
                self.journal.write(now, &Event::FrameSkipped { reason: "socket full".into() })?;
                continue;
            }
            let key = since_key == 0 || (arguments.key_every > 0 && since_key >= arguments.key_every);
            let input = self.shared.known_input.load(Ordering::Relaxed);
            let reference = if key { Reference::Nothing } else { Reference::Newest };
            let coded = encoder.encode(&nothing, reference)?;
            since_key = if coded.is_key() { 1 } else { since_key + 1 };
            let encoded_at = self.clock.now();
            let head = FrameHeader { number, input, captured_at: now, encoded_at, length: coded.bits.len() as u32 };
            let frame = FrameId(number);
            let (bytes, key) = (coded.bits.len() as u64, coded.is_key());
            let event = Event::FrameSent { frame, bytes, key, reference: coded.reference, symbols: 0 };
            self.journal.write(encoded_at, &event)?;
            number += 1;
            let bytes = [&head.to_bytes()[..], &coded.bits].concat();
            lock(&self.shared.queue).frames.push_back(QueuedFrame { captured_at: now, bytes });
            self.shared.changed.notify_all();
        }
    }

    fn report_traffic(&self, now: Time) -> anyhow::Result<()> {
        let TcpInfo { segments_sent: segments, bytes_sent: bytes, retransmissions, .. } =
            tcp_info(self.stream).context("TCP_INFO")?;
        let event = Event::Traffic { packets: segments, bytes, retransmissions, repairs: 0 };
        self.journal.write(now, &event)
    }
}
