//! Runs the decoder on its own thread, so that a slow picture delays no datagram.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use nearlight_codec::{CodecKind, Decoder, Decoders, Size};
use nearlight_net::Clock;
use nearlight_session::{ClockEstimate, ReadyFrame};
use tokio::sync::mpsc::UnboundedSender;

use super::{Decoded, PictureReport, Screen, Ticket};
use crate::ViewerError;

/// Maximum number of frames in the decoder: one that is being decoded and one that waits. The decoder then never idles, and the receiver
/// can still skip later frames.
pub const MAX_FRAMES_IN_DECODER: usize = 2;

/// A frame to decode.
pub struct Job {
    pub frame: ReadyFrame,
    /// The current estimate of the server's clock.
    pub clock: Option<ClockEstimate>,
}

/// The thread's state.
struct DecoderWorker {
    decoder: Box<dyn Decoder>,
    /// Whether concealment of losses was switched on.
    conceals: bool,
    epoch: u32,
    clock: Clock,
    screen: Arc<dyn Screen>,
    reports: UnboundedSender<PictureReport>,
}

/// A handle of the thread, which decodes frames in order and reports each as [`PictureReport::Decoded`].
pub struct DecoderThread {
    kind: CodecKind,
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// The destinations of a decoder's pictures and reports.
pub struct DecoderOutputs {
    pub clock: Clock,
    pub screen: Arc<dyn Screen>,
    pub reports: UnboundedSender<PictureReport>,
}

impl DecoderThread {
    /// Starts the thread. `epoch` distinguishes its reports from those of earlier decoders.
    pub fn start(
        decoders: &Decoders,
        kind: CodecKind,
        epoch: u32,
        outputs: DecoderOutputs,
    ) -> Result<Self, ViewerError> {
        let DecoderOutputs { clock, screen, reports } = outputs;
        let worker = DecoderWorker { decoder: decoders.open(kind)?, conceals: false, epoch, clock, screen, reports };
        let (jobs, queue) = sync_channel(MAX_FRAMES_IN_DECODER);
        let thread = std::thread::Builder::new()
            .name("decoder".into())
            .spawn(move || worker.run(&queue))
            .map_err(|source| ViewerError::System { what: "thread for the decoder", source })?;
        Ok(Self { kind, jobs: Some(jobs), thread: Some(thread) })
    }

    pub const fn kind(&self) -> CodecKind {
        self.kind
    }

    /// Submits a frame without blocking. The caller keeps at most [`MAX_FRAMES_IN_DECODER`] frames in the decoder.
    pub fn decode(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // Fails only if the thread has panicked. Its report is then missing.
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

impl DecoderWorker {
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
            let _ = self.reports.send(PictureReport::Decoded { ticket, at, outcome });
            if let Some(picture) = picture.filter(|_| frame.show || self.screen.takes_every_picture()) {
                let size = Size { width: frame.header.width, height: frame.header.height };
                let (picture, marker) = picture.without_strip(size);
                let (header, key, damaged) = (&frame.header, frame.key, frame.damaged);
                self.screen.on_picture(&Decoded { ticket, at, picture, marker, header, clock, key, damaged });
            }
        }
    }
}
