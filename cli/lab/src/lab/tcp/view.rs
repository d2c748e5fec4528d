//! The client's end.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::{Context as _, bail};
use clap::Args;
use nearlight_codec::{CodecKind, Decoder, Decoders};
use nearlight_events::{Event, Origin, Timeline};
use nearlight_net::Clock;
use nearlight_units::{Bytes, FrameId, InputSeq, Span, Time, lock};

use super::{FrameHeader, Journal, TRAFFIC_INTERVAL, sleep_until};
use crate::stand_in;
use nearlight_cli::parse;

#[derive(Debug, Args)]
pub(in crate::lab) struct TcpViewArguments {
    /// HOST:PORT
    address: String,
    #[arg(long, value_parser = parse::seconds)]
    seconds: Span,
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    display_hz: u16,
    #[arg(long)]
    codec: CodecKind,
    /// In place of a decoder, nanoseconds for each frame
    #[arg(long)]
    stand_in_decode: Option<i64>,
    #[arg(long)]
    clock_origin: u64,
    #[arg(long)]
    events: PathBuf,
}

/// A complete frame and its arrival time.
struct CompleteFrame {
    head: FrameHeader,
    at: Time,
    bits: Vec<u8>,
}

/// A frame for the display, and when it was decoded.
#[derive(Clone, Copy)]
struct DecodedFrame {
    head: FrameHeader,
    whole_at: Time,
    at: Time,
}

/// State shared by the threads.
#[derive(Default)]
struct Shared {
    received: AtomicU64,
    /// The newest picture that has not been shown.
    newest: Mutex<Option<DecodedFrame>>,
    /// The server is gone, or has sent data that cannot be parsed.
    ended: AtomicBool,
}

/// Maximum number of frames that wait for the decoder. Then nothing is read, and TCP slows the server down. Guess: four seconds at 60 a second.
const MAX_QUEUED_FRAMES: usize = 240;

/// Watches for the given time.
pub(in crate::lab) fn view(arguments: &TcpViewArguments) -> anyhow::Result<ExitCode> {
    let clock = stand_in::clock(Some(arguments.clock_origin));
    let journal = Journal::create(&arguments.events, Origin::Client)?;
    let decoders = arguments
        .stand_in_decode
        .map_or_else(Decoders::default, |nanos| stand_in::model_decoders(Span::from_nanos(nanos)));
    let decoder = decoders.open(arguments.codec)?;
    let stream = TcpStream::connect(&arguments.address)
        .with_context(|| format!("the server at {} does not answer", arguments.address))?;
    stream.set_nodelay(true)?;
    let shared = Shared::default();
    thread::scope(|scope| {
        let (frames, waiting) = sync_channel(MAX_QUEUED_FRAMES);
        let (stream, shared, journal) = (&stream, &shared, &journal);
        // The receiver drops `frames` when it ends, which ends the decoder.
        let receiving = scope.spawn(move || {
            let received = receive(stream, clock, shared, journal, &frames);
            shared.ended.store(true, Ordering::Relaxed);
            received
        });
        let decoding = scope.spawn(move || decode(decoder, clock, shared, waiting));
        let shown = Display { clock, shared, journal, stream }.run(arguments);
        // Unblocks the receiver from its system call, which ends the decoder too.
        let _ = stream.shutdown(Shutdown::Both);
        let received = receiving.join().unwrap_or_else(|_| bail!("the receiver panicked"));
        let decoded = decoding.join().unwrap_or_else(|_| bail!("the decoder panicked"));
        decoded.and(received).and(shown)
    })?;
    journal.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn receive(
    stream: &TcpStream,
    clock: Clock,
    shared: &Shared,
    journal: &Journal,
    frames: &SyncSender<CompleteFrame>,
) -> anyhow::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(head) = FrameHeader::read(&mut reader).context("the server's frames")? {
        let mut bits = vec![0; head.length as usize];
        if reader.read_exact(&mut bits).is_err() {
            // The session ends in the middle of a frame.
            break;
        }
        let at = clock.now();
        shared.received.fetch_add((FrameHeader::ENCODED_BYTES + bits.len()) as u64, Ordering::Relaxed);
        journal.write(at, &Event::FrameReady { frame: FrameId(head.number) })?;
        if frames.send(CompleteFrame { head, at, bits }).is_err() {
            break;
        }
    }
    Ok(())
}

fn decode(
    mut decoder: Box<dyn Decoder>,
    clock: Clock,
    shared: &Shared,
    frames: Receiver<CompleteFrame>,
) -> anyhow::Result<()> {
    for CompleteFrame { head, at: whole_at, bits } in frames {
        if decoder.decode(&bits)?.is_some() {
            *lock(&shared.newest) = Some(DecodedFrame { head, whole_at, at: clock.now() });
        }
    }
    Ok(())
}

struct Display<'a> {
    clock: Clock,
    shared: &'a Shared,
    journal: &'a Journal,
    stream: &'a TcpStream,
}

impl Display<'_> {
    fn run(&self, arguments: &TcpViewArguments) -> anyhow::Result<()> {
        let interval = Span::from_secs(1) / i64::from(arguments.display_hz);
        let begin = self.clock.now();
        let (mut due, mut reported_at) = (begin, begin);
        let (mut inputs, mut shown_input) = (Vec::new(), 0);
        let mut stream = self.stream;
        while due - begin < arguments.seconds {
            sleep_until(self.clock, due);
            if self.shared.ended.load(Ordering::Relaxed) {
                bail!("the server closed the connection");
            }
            let now = self.clock.now();
            inputs.push(now);
            let sent = stream.write_all(&(inputs.len() as u32).to_be_bytes());
            sent.context("the server closed the connection")?;
            let shown = lock(&self.shared.newest).take();
            if let Some(shown) = shown {
                let newest = (shown.head.input as usize).min(inputs.len());
                self.show(now, &shown, newest.checked_sub(1).map(|index| inputs[index]))?;
                let frame = FrameId(shown.head.number);
                for (number, made_at) in (1..).zip(&inputs).take(newest).skip(shown_input) {
                    let (input, span) = (InputSeq(number), now - *made_at);
                    self.journal.write(now, &Event::InputToPhoton { input, frame, span })?;
                    if number as usize == newest {
                        self.journal.write(now, &Event::MotionToPhoton { input, frame, span })?;
                    }
                }
                shown_input = shown_input.max(newest);
            }
            if now - reported_at >= TRAFFIC_INTERVAL {
                reported_at = now;
                let bytes = Bytes::new(self.shared.received.load(Ordering::Relaxed));
                self.journal.write(now, &Event::Traffic { packets: 0, bytes, retransmissions: 0, repairs: 0 })?;
            }
            due = (due + interval).max(now);
        }
        Ok(())
    }

    /// It is not known when the kernel sent a frame's last segment, so the time in the socket's buffer counts as network time.
    fn show(&self, now: Time, shown: &DecodedFrame, input_at: Option<Time>) -> anyhow::Result<()> {
        let DecodedFrame { head: FrameHeader { number, input, captured_at, encoded_at, .. }, whole_at, at } = *shown;
        let timeline = Timeline {
            frame: FrameId(number),
            input: InputSeq(input),
            boundaries: [
                input_at.unwrap_or(captured_at),
                captured_at,
                captured_at,
                captured_at,
                captured_at,
                encoded_at,
                encoded_at,
                whole_at,
                whole_at,
                at,
                now,
            ],
            clock_error: Span::ZERO,
            late: false,
        };
        self.journal.write(now, &Event::FrameDisplayed { timeline })
    }
}
