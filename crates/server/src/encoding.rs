//! One encoder on one thread for each client, so that one picture is coded while the next one is drawn.
//!
//! Pictures travel in a ring of two buffers: the studio fills one while the encoder reads the other; no pixel is copied.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use nearlight_codec::quality::Change;
use nearlight_codec::{CodecError, Encoder, EncoderConfig, Encoders, Picture, Reference, Size};
use nearlight_net::Clock;
use nearlight_session::{AnsweredTargets, Distortion, EncodedFrame, EncoderTarget};
use nearlight_units::{FrameId, InputSeq, Span, Time};
use nearlight_wire::{FrameHeader, View, marker};

use crate::mailbox::{Delivery, EncoderMailbox};

/// One picture in work and one on its way.
const PICTURES: usize = 2;

/// A drawn and converted picture with what its frame header says.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) picture: Picture,
    pub(crate) id: FrameId,
    pub(crate) input: InputSeq,
    pub(crate) input_received_at: Time,
    pub(crate) render_started_at: Time,
    pub(crate) rendered_at: Time,
    pub(crate) converted_at: Time,
    pub(crate) display_at: Time,
    pub(crate) deadline: Time,
    pub(crate) views: Vec<View>,
}

/// The studio's end of an encoder thread.
#[derive(Debug)]
pub(crate) struct EncoderLane {
    jobs: Sender<Job>,
    free: Receiver<Picture>,
    next: Option<Picture>,
    thread: JoinHandle<()>,
}

/// An encoder thread that gets no more pictures.
#[derive(Debug)]
pub(crate) struct EndingLane(JoinHandle<()>);

impl EndingLane {
    /// Its last frame was delivered.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}

impl EncoderLane {
    /// Starts the thread. It ends when the lane is dropped or the session is gone.
    pub(crate) fn start(
        mailbox: Arc<EncoderMailbox>,
        config: EncoderConfig,
        clock: Clock,
        encoders: Encoders,
    ) -> std::io::Result<Self> {
        // As many jobs as pictures at most. No job is ever refused: its frame id would be missing from the encoder's count.
        let (jobs, work) = channel();
        let (give_back, free) = sync_channel(PICTURES);
        for _ in 0..PICTURES {
            let _ = give_back.try_send(Picture::new(config.size));
        }
        let thread = thread::Builder::new().name(format!("encode-{}", mailbox.viewer.0)).spawn(move || {
            let opened = encoders.open(mailbox.codec, config);
            let coded = opened.and_then(|encoder| encode_all(&mailbox, encoder, config, (clock, &work, &give_back)));
            if let Err(error) = coded {
                tracing::error!(viewer = mailbox.viewer.0, %error, "the encoder failed");
                mailbox.deliver(Delivery::Failed(error.to_string()));
            }
        })?;
        Ok(Self { jobs, free, next: None, thread })
    }

    /// What is in work is still delivered.
    pub(crate) fn end(self) -> EndingLane {
        EndingLane(self.thread)
    }

    /// Whether there is a picture to draw into: not while the encoder is behind.
    pub(crate) fn has_picture(&mut self) -> bool {
        self.next = self.poll_picture();
        self.next.is_some()
    }

    /// A picture to draw into; none while the encoder is behind.
    pub(crate) fn poll_picture(&mut self) -> Option<Picture> {
        self.next.take().or_else(|| self.free.try_recv().ok())
    }

    /// Gives a picture back that was not drawn after all.
    pub(crate) fn put_back(&mut self, picture: Picture) {
        self.next = Some(picture);
    }

    /// False when the encoder has ended.
    pub(crate) fn encode(&mut self, job: Job) -> bool {
        self.jobs.send(job).is_ok()
    }
}

fn encode_all(
    mailbox: &EncoderMailbox,
    mut encoder: Box<dyn Encoder>,
    config: EncoderConfig,
    (clock, work, give_back): (Clock, &Receiver<Job>, &SyncSender<Picture>),
) -> Result<(), CodecError> {
    let mut size: Size = config.size;
    let mut rate = config.rate;
    let mut answered = AnsweredTargets::default();
    // The marker changes with every frame, and nobody misses it.
    let mut change = Change::below(marker::HEIGHT);
    // The encoder counts from 0, also where the client has had frames before.
    let mut first = None;
    for job in work {
        let target = mailbox.target();
        let first = *first.get_or_insert(job.id);
        if job.picture.size != size {
            size = job.picture.size;
            encoder.set_size(size)?;
        }
        if !mailbox.announce(size, job.views.len() as u8) {
            return Ok(());
        }
        let EncoderTarget { rate: wanted, acknowledged, key, recover, .. } = answered.open(target.encoder);
        if wanted != rate {
            rate = wanted;
            // A rate that the library does not take is no reason to end a session that runs well at the one before.
            if let Err(error) = encoder.set_rate(rate) {
                tracing::warn!(viewer = mailbox.viewer.0, %rate, %error, "the encoder keeps its rate; lower --max-rate");
            }
        }
        if let Some(frame) = acknowledged.and_then(|frame| frame.0.checked_sub(first.0)) {
            encoder.on_decoded(FrameId(frame));
        }
        let reference = match (key, recover) {
            (true, _) => Reference::Nothing,
            (false, true) => Reference::Acknowledged,
            (false, false) => Reference::Newest,
        };
        let coded = encoder.encode(&job.picture, reference)?;
        answered.on_coded(job.id, coded.is_key(), reference == Reference::Acknowledged);
        let header = FrameHeader {
            width: size.width,
            height: size.height,
            input: job.input,
            input_received_at: job.input_received_at,
            render_started_at: job.render_started_at,
            rendered_at: job.rendered_at,
            converted_at: job.converted_at,
            encoded_at: clock.now(),
            display_at: job.display_at,
            deadline: job.deadline,
            views: job.views,
        };
        let distortion = Distortion { coded: coded.distortion, frozen: change.on_picture(&job.picture) };
        let _ = give_back.try_send(job.picture);
        let reference = coded.reference.map(|frame| FrameId(first.0 + frame.0));
        let bits = coded.bits.into();
        let frame = EncodedFrame { id: job.id, reference, header, bits, distortion, group_index: None };
        if !mailbox.deliver(Delivery::Frame(frame)) {
            return Ok(());
        }
    }
    Ok(())
}

/// How long a frame is of use after its rendering began: three frames, and a tenth of a second at least, in which a repair over
/// a mobile path still fits.
pub(crate) fn display_budget(frame_interval: Span) -> Span {
    (frame_interval * 3).max(Span::from_millis(100))
}

#[cfg(test)]
mod tests {
    use nearlight_codec::{CodecKind, Coded, EncoderDescription, EncoderFactory};
    use nearlight_rate::Step;
    use nearlight_scene::Viewer;
    use nearlight_units::Bitrate;
    use nearlight_wire::DisplayKind;
    use tokio::sync::mpsc;

    use super::*;
    use crate::mailbox::StreamTarget;

    const CONFIG: EncoderConfig =
        EncoderConfig { size: Size { width: 256, height: 144 }, fps: 30, rate: Bitrate::from_mbps(1), threads: 1 };

    fn target(rate: Bitrate, key: bool) -> StreamTarget {
        StreamTarget {
            encoder: EncoderTarget { rate, key, recover: false, acknowledged: None, next: FrameId(0) },
            refusal: None,
            display: DisplayKind::Screen,
            step: Step { rung: 0, scale: 1.0, frame_rate: 1.0 },
            best_capture: None,
            render_to_display: None,
            sound: Bitrate::ZERO,
        }
    }

    fn mailbox(target: StreamTarget, deliveries: mpsc::Sender<Delivery>) -> Arc<EncoderMailbox> {
        let mailbox = EncoderMailbox::new(Viewer(1), CodecKind::Vp8, target, deliveries, mpsc::channel(1).0);
        Arc::new(mailbox.with_stream(CONFIG.size, 0))
    }

    fn job(picture: Picture, id: FrameId) -> Job {
        Job {
            picture,
            id,
            input: InputSeq(0),
            input_received_at: Time::ZERO,
            render_started_at: Time::ZERO,
            rendered_at: Time::ZERO,
            converted_at: Time::ZERO,
            display_at: Time::ZERO,
            deadline: Time::ZERO,
            views: Vec::new(),
        }
    }

    /// The session's loop stands still, so the encoder does, with its picture given back: the next pictures wait for both, and the
    /// session goes on wishing for the key frame that it has not seen.
    #[test]
    fn a_session_that_stalls_costs_no_frame_its_number_and_gets_one_key_frame() {
        let (deliveries, mut delivered) = mpsc::channel(1);
        let mailbox = mailbox(target(CONFIG.rate, true), deliveries);
        let mut lane = EncoderLane::start(mailbox, CONFIG, Clock::start(), Encoders::default()).expect("a thread");
        let mut next = FrameId(0);
        // One frame waits in the channel, one at its door, and every picture beyond them comes back only when the session goes on.
        for _ in 0..PICTURES + 2 {
            let picture = lane.free.recv().expect("the encoder runs");
            assert!(lane.encode(job(picture, next)));
            next = next.next();
        }
        drop(lane);
        let mut got = Vec::new();
        while let Some(delivery) = delivered.blocking_recv() {
            let Delivery::Frame(frame) = delivery else { panic!("{delivery:?}") };
            got.push((frame.id, frame.reference));
        }
        let wanted: Vec<_> = (0..next.0).map(|id| (FrameId(id), id.checked_sub(1).map(FrameId))).collect();
        assert_eq!(got, wanted);
    }

    /// Writes the rate that it codes at in place of a picture.
    struct Scribe(Bitrate);

    struct Scribes;

    impl EncoderFactory for Scribes {
        fn describe(&self, _: CodecKind, _: EncoderConfig) -> Result<EncoderDescription, CodecError> {
            Ok(EncoderDescription { name: "scribe".into(), codec_string: "vp8".into(), keeps_references: false })
        }

        fn open(&self, _: CodecKind, config: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> {
            Ok(Box::new(Scribe(config.rate)))
        }
    }

    impl Encoder for Scribe {
        fn encode(&mut self, _: &Picture, _: Reference) -> Result<Coded, CodecError> {
            Ok(Coded { bits: self.0.as_bps().to_be_bytes().into(), reference: None, distortion: None })
        }

        fn on_decoded(&mut self, _: FrameId) {}

        fn set_rate(&mut self, rate: Bitrate) -> Result<(), CodecError> {
            self.0 = rate;
            Ok(())
        }

        fn set_size(&mut self, _: Size) -> Result<(), CodecError> {
            Ok(())
        }
    }

    /// So a decision reaches the encoder within a frame, whatever carries the feedback: a browser's reports are farther apart.
    #[test]
    fn the_first_frame_after_a_decision_has_its_rate() {
        let (deliveries, mut delivered) = mpsc::channel(1);
        let mailbox = mailbox(target(CONFIG.rate, false), deliveries);
        let encoders = Encoders::new(Scribes);
        let mut lane = EncoderLane::start(Arc::clone(&mailbox), CONFIG, Clock::start(), encoders).expect("a thread");
        for (id, kbps) in (0..).zip([1_000, 8_000, 300, 301, 8_000]) {
            let rate = Bitrate::from_kbps(kbps);
            mailbox.set_target(target(rate, false));
            let picture = lane.free.recv().expect("the encoder runs");
            assert!(lane.encode(job(picture, FrameId(id))));
            let Some(Delivery::Frame(frame)) = delivered.blocking_recv() else { panic!("no frame at {rate}") };
            assert_eq!(*frame.bits, rate.as_bps().to_be_bytes());
        }
    }
}
