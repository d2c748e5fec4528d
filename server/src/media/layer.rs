//! One encoder for all viewers who receive the same frames. It runs on its own thread or in the thread that submits pictures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use nearlight_codec::quality::PictureDifference;
use nearlight_codec::{CodecError, CodecKind, Encoder, EncoderConfig, Encoders, Picture, Reference, Size};
use nearlight_net::Clock;
use nearlight_session::Distortion;
use nearlight_units::{Bitrate, InputSeq, Span, Time};
use nearlight_wire::{FrameHeader, View};

use crate::media::encoding::display_budget;
use crate::media::pictures::SharedPicture;
use crate::session::exchange::{SessionExchange, SharedFrame};

/// Jobs in progress, as for a viewer's own encoder: one picture being encoded and one queued.
const MAX_QUEUED_JOBS: usize = 2;

/// A viewer of a frame, and the fields of the frame header that depend on the viewer.
#[derive(Debug)]
pub(crate) struct Recipient {
    pub(crate) exchange: Arc<SessionExchange>,
    /// The number that `StreamExchange::begin_chain` returned.
    pub(crate) chain: u64,
    pub(crate) input: InputSeq,
    pub(crate) input_received_at: Time,
    pub(crate) display_at: Time,
    pub(crate) views: Vec<View>,
}

/// A picture to encode.
#[derive(Debug)]
pub(crate) struct LayerJob {
    pub(crate) captured: Arc<SharedPicture>,
    pub(crate) size: Size,
    /// Number of eyes whose pictures lie side by side, 1 or 2.
    pub(crate) eyes: u8,
    pub(crate) rate: Bitrate,
    pub(crate) key: bool,
    pub(crate) recipients: Vec<Recipient>,
}

/// The studio's end of a layer's encoder. The encoder's thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct LayerEncoder(Worker);

#[derive(Debug)]
enum Worker {
    Thread {
        jobs: SyncSender<LayerJob>,
        in_work: Arc<AtomicUsize>,
    },
    /// The task is none once it has failed.
    Inline(Option<Box<EncodeTask>>),
}

impl LayerEncoder {
    pub(crate) fn start(
        codec: CodecKind,
        config: EncoderConfig,
        clock: Clock,
        encoders: Encoders,
    ) -> std::io::Result<Self> {
        // An encoder with this many jobs is busy and gets no further ones, so sending never waits.
        let (jobs, work) = sync_channel(MAX_QUEUED_JOBS);
        let in_work = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&in_work);
        thread::Builder::new().name("encode-layer".into()).spawn(move || {
            let mut task = EncodeTask::open(&encoders, codec, config, clock);
            for job in work {
                let coded = task.code(&job);
                counted.fetch_sub(1, Ordering::Relaxed);
                if !coded {
                    return;
                }
            }
        })?;
        Ok(Self(Worker::Thread { jobs, in_work }))
    }

    /// Opens an encoder that runs in the caller's thread: [`LayerEncoder::encode`] returns when the frames were delivered.
    pub(crate) fn inline(codec: CodecKind, config: EncoderConfig, clock: Clock, encoders: &Encoders) -> Self {
        Self(Worker::Inline(Some(Box::new(EncodeTask::open(encoders, codec, config, clock)))))
    }

    /// Returns whether the encoder has no room for another picture.
    pub(crate) fn is_busy(&self) -> bool {
        match &self.0 {
            Worker::Thread { in_work, .. } => in_work.load(Ordering::Relaxed) >= MAX_QUEUED_JOBS,
            Worker::Inline(_) => false,
        }
    }

    /// Encodes a picture, or queues it for the encoder's thread. Returns false if the encoder has failed, of which the recipients were
    /// informed.
    pub(crate) fn encode(&mut self, job: LayerJob) -> bool {
        match &mut self.0 {
            Worker::Thread { jobs, in_work } => {
                in_work.fetch_add(1, Ordering::Relaxed);
                jobs.send(job).is_ok()
            }
            Worker::Inline(task) => {
                if !task.as_mut().is_some_and(|task| task.code(&job)) {
                    *task = None;
                }
                task.is_some()
            }
        }
    }
}

struct EncodeTask {
    codec: CodecKind,
    /// The encoder, or why it could not be opened.
    encoder: Result<Box<dyn Encoder>, String>,
    config: EncoderConfig,
    clock: Clock,
    difference: PictureDifference,
    fitted: Picture,
}

impl std::fmt::Debug for EncodeTask {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EncodeTask").field("config", &self.config).finish_non_exhaustive()
    }
}

impl EncodeTask {
    fn open(encoders: &Encoders, codec: CodecKind, config: EncoderConfig, clock: Clock) -> Self {
        let encoder = encoders.open(codec, config).map_err(|error| error.to_string());
        Self {
            codec,
            encoder,
            config,
            clock,
            difference: PictureDifference::default(),
            fitted: Picture::new(config.size),
        }
    }

    /// Encodes a picture and delivers the frames. Returns false if the encoder has failed, of which the recipients were informed.
    fn code(&mut self, job: &LayerJob) -> bool {
        let coded = self.encode(job);
        if let Err(error) = &coded {
            tracing::error!(%error, "the encoder of several clients failed");
            for recipient in &job.recipients {
                recipient.exchange.failure.report(error.to_string());
            }
        }
        coded.is_ok()
    }

    fn encode(&mut self, job: &LayerJob) -> Result<(), CodecError> {
        let LayerJob { captured, size, eyes, rate, key, .. } = job;
        let Self { codec, encoder, fitted, difference, .. } = self;
        let encoder = match encoder {
            Ok(encoder) => encoder,
            Err(reason) => {
                let call = "opening an encoder";
                return Err(CodecError::Library { codec: codec.name(), call, reason: reason.clone() });
            }
        };
        if *size != self.config.size {
            encoder.set_size(*size)?;
            self.config.size = *size;
        }
        if *rate != self.config.rate {
            self.config.rate = *rate;
            // A rate that the library rejects is no reason to end sessions that run well at the previous one.
            if let Err(error) = encoder.set_rate(*rate) {
                tracing::warn!(%rate, %error, "the encoder rejected a new rate and keeps the old one; lower --max-rate");
            }
        }
        let shared = captured.read();
        let (seen, copies) = captured.for_eyes(*eyes);
        let picture = if captured.size == *size && seen == *size && copies == 1 {
            &*shared
        } else {
            fitted.fit(captured.part(&shared, *eyes), *size, copies);
            fitted
        };
        let reference = if *key { Reference::Nothing } else { Reference::Newest };
        let coded = encoder.encode(picture, reference)?;
        captured.on_coded(coded.distortion);
        let distortion = Distortion { coded: coded.distortion, frozen: difference.on_picture(picture.view()) };
        let frame = SharedFrame { key: coded.is_key(), size: *size, bits: &coded.bits, distortion };
        let encoded_at = self.clock.now();
        let budget = display_budget(Span::from_secs(1) / i64::from(self.config.fps));
        for recipient in &job.recipients {
            let header = FrameHeader {
                width: size.width,
                height: size.height,
                input: recipient.input,
                input_received_at: recipient.input_received_at,
                render_started_at: captured.captured_at,
                rendered_at: captured.captured_at,
                converted_at: captured.converted_at,
                encoded_at,
                display_at: recipient.display_at,
                deadline: captured.captured_at + budget,
                views: recipient.views.clone(),
            };
            recipient.exchange.stream.deliver_shared(recipient.chain, &frame, header);
        }
        Ok(())
    }
}
