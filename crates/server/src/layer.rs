//! One encoder on its own thread for all viewers who receive the same frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use nearlight_codec::quality::Change;
use nearlight_codec::{CodecError, CodecKind, EncoderConfig, Encoders, Picture, Reference, Size};
use nearlight_net::Clock;
use nearlight_session::Distortion;
use nearlight_units::{Bitrate, InputSeq, Span, Time};
use nearlight_wire::{FrameHeader, View};

use crate::encoding::display_budget;
use crate::mailbox::{Delivery, EncoderMailbox, SharedFrame};
use crate::pictures::SharedPicture;

/// One picture being encoded and one queued, as for a viewer's own encoder.
const MOST_JOBS: usize = 2;

/// A viewer of a frame, and the contents of its frame header.
#[derive(Debug)]
pub(crate) struct Recipient {
    pub(crate) mailbox: Arc<EncoderMailbox>,
    /// See [`EncoderMailbox::begin_chain`].
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
    /// For this many eyes, side by side.
    pub(crate) eyes: u8,
    pub(crate) rate: Bitrate,
    pub(crate) key: bool,
    pub(crate) recipients: Vec<Recipient>,
}

/// The studio's end of a layer's encoder thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct LayerEncoder {
    jobs: Sender<LayerJob>,
    in_work: Arc<AtomicUsize>,
}

impl LayerEncoder {
    pub(crate) fn start(
        codec: CodecKind,
        config: EncoderConfig,
        clock: Clock,
        encoders: Encoders,
    ) -> std::io::Result<Self> {
        let (jobs, work) = channel();
        let in_work = Arc::new(AtomicUsize::new(0));
        let coding = Coding { codec, config, clock, in_work: Arc::clone(&in_work) };
        thread::Builder::new().name("encode-layer".into()).spawn(move || coding.run(&encoders, &work))?;
        Ok(Self { jobs, in_work })
    }

    /// It has no room for another picture.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_work.load(Ordering::Relaxed) >= MOST_JOBS
    }

    /// False if the encoder has failed; the recipients have been informed.
    pub(crate) fn encode(&self, job: LayerJob) -> bool {
        self.in_work.fetch_add(1, Ordering::Relaxed);
        self.jobs.send(job).is_ok()
    }
}

struct Coding {
    codec: CodecKind,
    config: EncoderConfig,
    clock: Clock,
    in_work: Arc<AtomicUsize>,
}

impl Coding {
    fn run(mut self, encoders: &Encoders, work: &Receiver<LayerJob>) {
        let mut opened = encoders.open(self.codec, self.config);
        let mut change = Change::default();
        let mut fitted = Picture::new(self.config.size);
        for job in work {
            let coded = match &mut opened {
                Ok(encoder) => self.code(encoder.as_mut(), (&mut fitted, &mut change), &job),
                Err(error) => Err(CodecError::Library {
                    codec: self.codec.name(),
                    call: "opening an encoder",
                    reason: error.to_string(),
                }),
            };
            self.in_work.fetch_sub(1, Ordering::Relaxed);
            if let Err(error) = coded {
                tracing::error!(%error, "the encoder of several clients failed");
                for recipient in &job.recipients {
                    recipient.mailbox.deliver(Delivery::Failed(error.to_string()));
                }
                return;
            }
        }
    }

    fn code(
        &mut self,
        encoder: &mut dyn nearlight_codec::Encoder,
        (fitted, change): (&mut Picture, &mut Change),
        job: &LayerJob,
    ) -> Result<(), CodecError> {
        let LayerJob { captured, size, eyes, rate, key, .. } = job;
        if *size != self.config.size {
            encoder.set_size(*size)?;
            self.config.size = *size;
        }
        if *rate != self.config.rate {
            self.config.rate = *rate;
            // As for a viewer's own encoder: no reason to end sessions that run well at the previous rate.
            if let Err(error) = encoder.set_rate(*rate) {
                tracing::warn!(%rate, %error, "the encoder keeps its rate; lower --max-rate");
            }
        }
        let (view, copies) = captured.for_eyes(*eyes);
        let picture = if captured.picture.size == *size && view.size == *size && copies == 1 {
            &captured.picture
        } else {
            fitted.fit(view, *size, copies);
            fitted
        };
        let reference = if *key { Reference::Nothing } else { Reference::Newest };
        let coded = encoder.encode(picture, reference)?;
        let distortion = Distortion { coded: coded.distortion, frozen: change.on_picture(picture.view()) };
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
            recipient.mailbox.deliver_shared(recipient.chain, &frame, header);
        }
        Ok(())
    }
}
