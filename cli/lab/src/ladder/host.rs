//! The host: from a finished picture to its packets, by one thread or two.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use nearlight_codec::{CodecKind, Encoder, EncoderConfig, Picture, Reference, convert, new_encoder};
use nearlight_units::{Bitrate, lock};

use crate::ladder::clock;
use crate::ladder::device::StepTurn;
use crate::ladder::network::{Calls, End};
use crate::ladder::pictures::TestPictures;
use crate::ladder::step::Step;

/// System calls of handing over to another thread: waking it, and its wait.
const HAND_OVER_CALLS: Calls = 2;

/// A frame as the host has seen it; times are nanoseconds of [`clock::now`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SentFrame {
    pub(crate) number: u32,
    /// The picture was complete in the program's memory.
    pub(crate) finished_at: u64,
    pub(crate) encode_began_at: u64,
    pub(crate) encoded_at: u64,
    /// All packets were handed to the kernel.
    pub(crate) handed_at: u64,
    pub(crate) calls: Calls,
    pub(crate) cpu: u64,
    pub(crate) bytes: usize,
}

/// A picture on its way to the encoder.
struct PictureJob {
    step: Step,
    number: u32,
    finished_at: u64,
    /// System calls spent on it so far.
    calls: Calls,
    cpu: u64,
    /// The converted picture. None if the program drew into the encoder's planes.
    converted: Option<Picture>,
}

/// Encodes and sends.
struct Streamer {
    pictures: Arc<TestPictures>,
    end: End,
    rate: Bitrate,
    fps: u16,
    encoders: BTreeMap<Step, Box<dyn Encoder>>,
    key_wanted: Arc<AtomicBool>,
}

impl Streamer {
    fn stream(&mut self, work: &PictureJob) -> io::Result<SentFrame> {
        let PictureJob { step, number, finished_at, .. } = *work;
        let mut calls = work.calls;
        let lost = self.key_wanted.swap(false, Ordering::Relaxed);
        let mut reference = if lost { Reference::Nothing } else { Reference::Newest };
        if step.reports() {
            // A report has to be read to know what it requests; here none requests anything.
            let mut asked = false;
            while self.end.receive(step.method(), |report| asked |= report.bits.first() == Some(&1)).is_ok() {
                calls += 1;
            }
            calls += 1;
            reference = if asked { Reference::Nothing } else { reference };
        }
        let config = EncoderConfig {
            size: self.pictures.size,
            fps: self.fps,
            rate: self.rate,
            threads: EncoderConfig::default_threads(),
        };
        let encoder = match self.encoders.entry(step) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(new_encoder(CodecKind::H264, config).map_err(io::Error::other)?)
            }
        };
        let encode_began_at = clock::now();
        let picture = work.converted.as_ref().unwrap_or_else(|| self.pictures.planes(number));
        let coded = encoder.encode(picture, reference).map_err(io::Error::other)?;
        let encoded_at = clock::now();
        calls += self.end.send(step.method(), number, &coded.bits)?;
        let handed_at = clock::now();
        let bytes = coded.bits.len();
        Ok(SentFrame { number, finished_at, encode_began_at, encoded_at, handed_at, calls, cpu: work.cpu, bytes })
    }
}

/// Maximum number of pictures that the other thread has. Then the next one waits. Guess: two seconds at 60 a second, more than a machine is
/// ever behind whose figures mean anything.
const MAX_UNDER_WAY: usize = 120;

type StreamResult = (io::Result<SentFrame>, Option<Picture>);

/// Takes finished pictures of the program.
pub(crate) struct Host {
    pictures: Arc<TestPictures>,
    streamer: Arc<Mutex<Streamer>>,
    works: SyncSender<PictureJob>,
    done: Receiver<StreamResult>,
    /// Pictures to convert into.
    spare: Vec<Picture>,
    sent: Vec<SentFrame>,
    under_way: u32,
}

impl Host {
    pub(crate) fn new(
        pictures: Arc<TestPictures>,
        end: End,
        rate: Bitrate,
        fps: u16,
        key_wanted: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let spare = vec![Picture::new(pictures.size), Picture::new(pictures.size), Picture::new(pictures.size)];
        let streamer =
            Streamer { pictures: Arc::clone(&pictures), end, rate, fps, encoders: BTreeMap::new(), key_wanted };
        let streamer = Arc::new(Mutex::new(streamer));
        let ((works, waiting), (ended, done)) =
            (sync_channel::<PictureJob>(MAX_UNDER_WAY), sync_channel(MAX_UNDER_WAY));
        let streams = Arc::clone(&streamer);
        let stream = move || {
            while let Ok(work) = waiting.recv() {
                let began = clock::thread_time();
                let sent = lock(&streams).stream(&work);
                let cpu = clock::thread_time() - began;
                let sent = sent.map(|sent| SentFrame { cpu: sent.cpu + cpu, ..sent });
                if ended.send((sent, work.converted)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("stream".into()).spawn(stream)?;
        Ok(Self { pictures, streamer, works, done, spare, sent: Vec::new(), under_way: 0 })
    }

    /// Takes back what the other thread has done.
    fn collect(&mut self, waits: bool) -> io::Result<()> {
        while self.under_way > 0 && self.take_back(waits)? {}
        Ok(())
    }

    /// Takes back one picture. Returns false if none is done, and `waits` is not set.
    fn take_back(&mut self, waits: bool) -> io::Result<bool> {
        let streamed = if waits { self.done.recv().ok() } else { self.done.try_recv().ok() };
        let Some((sent, picture)) = streamed else {
            return if waits { Err(io::Error::other("the thread that encodes has panicked")) } else { Ok(false) };
        };
        self.under_way -= 1;
        self.spare.extend(picture);
        self.sent.push(sent?);
        Ok(true)
    }

    /// Streams a picture that was complete at `finished_at`. `pixels`: in a window's format; else the test pictures' planes are it.
    pub(crate) fn on_picture(
        &mut self,
        step: Step,
        number: u32,
        finished_at: u64,
        calls: Calls,
        pixels: Option<&[u8]>,
    ) -> io::Result<()> {
        let began = clock::thread_time();
        let converted = match pixels {
            None => None,
            Some(bytes) => {
                let size = self.pictures.size;
                let mut picture = self.spare.pop().unwrap_or_else(|| Picture::new(size));
                let stride = usize::from(size.width) * 4;
                let pixels = convert::Pixels { size, order: convert::PixelOrder::Bgra, bytes, stride };
                convert::to_picture(pixels, &mut picture).map_err(io::Error::other)?;
                Some(picture)
            }
        };
        let mut work = PictureJob { step, number, finished_at, calls, cpu: 0, converted };
        if step == Step::Synchronous {
            let sent = lock(&self.streamer).stream(&work)?;
            self.spare.extend(work.converted);
            self.sent.push(SentFrame { cpu: clock::thread_time() - began, ..sent });
            return Ok(());
        }
        work.calls += HAND_OVER_CALLS;
        work.cpu = clock::thread_time() - began;
        if self.under_way as usize == MAX_UNDER_WAY {
            self.take_back(true)?;
        }
        self.under_way += 1;
        self.works.send(work).map_err(|_| io::Error::other("the thread that encodes has ended"))?;
        self.collect(false)
    }

    /// A turn of a step within this process: a picture is complete at each moment.
    pub(crate) fn run(&mut self, turn: StepTurn, interval: u64) -> io::Result<()> {
        let start = clock::now() + interval;
        for number in turn.first..turn.first + turn.frames {
            clock::wait_until(start + u64::from(number - turn.first) * interval);
            let pictures = Arc::clone(&self.pictures);
            let pixels = turn.step.converts().then(|| pictures.pixels(number));
            self.on_picture(turn.step, number, clock::now(), 0, pixels)?;
        }
        Ok(())
    }

    /// Waits until everything is sent, and returns the frames since the last call.
    pub(crate) fn take_sent(&mut self) -> io::Result<Vec<SentFrame>> {
        self.collect(true)?;
        Ok(std::mem::take(&mut self.sent))
    }
}
