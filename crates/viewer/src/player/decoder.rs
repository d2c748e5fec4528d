//! The decoder on a thread of its own, so that a slow picture delays no datagram.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use nearlight_codec::{CodecKind, Decoder, Decoders, Size};
use nearlight_net::Clock;
use nearlight_session::{ClockEstimate, ReadyFrame};
use tokio::sync::mpsc::UnboundedSender;

use super::{Decoded, Happening, Screen, Ticket};
use crate::ViewerError;

/// Frames that the decoder holds: one being decoded and one waiting, so that it never idles while the receiver still decides for all later
/// ones whether they are worth showing.
pub const CAPACITY: usize = 2;

/// A frame to decode.
pub struct Job {
    pub frame: ReadyFrame,
    /// The server's clock against ours, as it is known by now.
    pub clock: Option<ClockEstimate>,
}

/// What the thread works with.
struct Work {
    decoder: Box<dyn Decoder>,
    conceals: bool,
    epoch: u32,
    clock: Clock,
    screen: Arc<dyn Screen>,
    reports: UnboundedSender<Happening>,
}

/// Decodes frames in order; each is answered with [`Happening::Decoded`].
pub struct DecoderThread {
    kind: CodecKind,
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// Where a decoder's pictures and reports go.
pub struct Outlets {
    pub clock: Clock,
    pub screen: Arc<dyn Screen>,
    pub reports: UnboundedSender<Happening>,
}

impl DecoderThread {
    /// `epoch` distinguishes its reports from those of earlier decoders.
    pub fn start(decoders: &Decoders, kind: CodecKind, epoch: u32, outlets: Outlets) -> Result<Self, ViewerError> {
        let Outlets { clock, screen, reports } = outlets;
        let work = Work { decoder: decoders.open(kind)?, conceals: false, epoch, clock, screen, reports };
        let (jobs, queue) = sync_channel(CAPACITY);
        let thread = std::thread::Builder::new()
            .name("decoder".into())
            .spawn(move || work.run(&queue))
            .map_err(|source| ViewerError::System { what: "thread for the decoder", source })?;
        Ok(Self { kind, jobs: Some(jobs), thread: Some(thread) })
    }

    pub const fn kind(&self) -> CodecKind {
        self.kind
    }

    /// Submits a frame. The caller keeps at most [`CAPACITY`] in flight, so this never waits.
    pub fn decode(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // Fails only when the thread has died, which its missing report shows.
            let _ = jobs.try_send(job);
        }
    }
}

impl Drop for DecoderThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Work {
    fn run(mut self, queue: &Receiver<Job>) {
        while let Ok(Job { frame, clock }) = queue.recv() {
            let ticket = Ticket { epoch: self.epoch, frame: frame.id };
            if frame.damaged && !std::mem::replace(&mut self.conceals, true) {
                self.decoder.set_concealing();
            }
            let decoded = self.decoder.decode(frame.bits());
            let at = self.clock.now();
            let (picture, outcome) = match decoded {
                Ok(picture) => (picture, Ok(())),
                Err(error) => (None, Err(error)),
            };
            let _ = self.reports.send(Happening::Decoded { ticket, at, outcome });
            if let Some(picture) = picture.filter(|_| frame.show || self.screen.takes_every_picture()) {
                let size = Size { width: frame.header.width, height: frame.header.height };
                let (picture, marker) = picture.without_strip(size);
                let (header, key, damaged) = (&frame.header, frame.key, frame.damaged);
                self.screen.on_picture(&Decoded { ticket, at, picture, marker, header, clock, key, damaged });
            }
        }
    }
}
