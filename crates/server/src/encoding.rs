//! One encoder for each client: on its own thread, so that one picture is encoded while the next one is rendered, or in the thread that
//! hands the picture over.
//!
//! With a thread, pictures travel in a ring of two buffers: the studio fills one while the encoder reads the other; no pixel is copied.
//! A picture that a source has submitted is encoded where it lies if it has the viewer's size; the buffer then travels unused.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use nearlight_codec::quality::Change;
use nearlight_codec::{CodecError, CodecKind, Encoder, EncoderConfig, Encoders, Picture, Size};
use nearlight_net::Clock;
use nearlight_session::{AnsweredTargets, Distortion, EncodeRequest, EncodedFrame};
use nearlight_units::{Bitrate, FrameId, InputSeq, Span, Time};
use nearlight_wire::marker::{Marker, Strip};
use nearlight_wire::{FrameHeader, View};

use crate::mailbox::{Delivery, EncoderMailbox};
use crate::pictures::SharedPicture;

/// One picture being encoded and one queued.
const PICTURES: usize = 2;

/// The rows that the marker occupies below pictures of the configured size; none if the pictures are too narrow, or if the encoder does not
/// accept that height.
pub(crate) fn strip_below(encoders: &Encoders, codec: CodecKind, config: EncoderConfig) -> Option<Strip> {
    let strip = Strip::of_width(config.size.width)?;
    let coded = EncoderConfig { size: config.size.with_strip(Some(strip)), ..config };
    encoders.describe(codec, coded).is_ok().then_some(strip)
}

/// A rendered and converted picture to encode.
#[derive(Debug)]
pub(crate) struct Job {
    /// May have the marker appended below.
    pub(crate) picture: Picture,
    /// Takes the place of `picture`, whose contents are old.
    pub(crate) in_place: Option<InPlace>,
    /// The submitted picture that it was made of, if it was.
    pub(crate) captured: Option<Arc<SharedPicture>>,
    pub(crate) facts: PictureFacts,
}

/// The contents of its frame header.
#[derive(Debug)]
pub(crate) struct PictureFacts {
    /// The picture's size without the marker.
    pub(crate) size: Size,
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

/// A submitted picture that is encoded without a copy of it.
#[derive(Debug)]
pub(crate) struct InPlace {
    captured: Arc<SharedPicture>,
    /// To be added below it while it is encoded.
    marker: Option<(Strip, Marker)>,
}

/// Where pictures are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// In a thread of the encoder's own.
    Beside,
    /// In the thread that hands the picture over.
    Here,
}

#[derive(Debug)]
enum Work {
    Beside {
        jobs: Sender<Job>,
        free: Receiver<Picture>,
        thread: JoinHandle<()>,
    },
    /// No encoder once it has failed or the session is gone.
    Here {
        coding: Option<Box<Coding>>,
        spare: Option<Picture>,
    },
}

/// The studio's end of an encoder.
#[derive(Debug)]
pub(crate) struct EncoderLane {
    work: Work,
    next: Option<Picture>,
    mailbox: Arc<EncoderMailbox>,
    encoders: Encoders,
    /// For pictures of the newest size.
    config: EncoderConfig,
    strip: Option<Strip>,
}

/// An encoder that is given no more pictures, and its thread.
#[derive(Debug)]
pub(crate) struct EndingLane(Option<JoinHandle<()>>);

impl EndingLane {
    /// Its last frame was delivered.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl EncoderLane {
    /// Starts the thread, for pictures of the configured size at first. It ends when the lane is dropped or the session is gone.
    pub(crate) fn start(
        mailbox: Arc<EncoderMailbox>,
        config: EncoderConfig,
        clock: Clock,
        encoders: Encoders,
    ) -> std::io::Result<Self> {
        // There are never more jobs than pictures, so no job is ever refused: its frame id would be missing from the encoder's count.
        let (jobs, work) = channel();
        let (give_back, free) = sync_channel(PICTURES);
        let strip = Self::strip_for(&mailbox, &encoders, config);
        let coded = EncoderConfig { size: config.size.with_strip(strip), ..config };
        for _ in 0..PICTURES {
            let _ = give_back.try_send(Picture::new(coded.size));
        }
        let (shared, factory) = (Arc::clone(&mailbox), encoders.clone());
        let thread = thread::Builder::new().name(format!("encode-{}", mailbox.viewer.0)).spawn(move || {
            let opened = Coding::open(Arc::clone(&shared), &factory, coded, clock);
            let done = opened.and_then(|coding| coding.encode_all(&work, &give_back));
            if let Err(error) = done {
                shared.on_encoder_failed(&error);
            }
        })?;
        let work = Work::Beside { jobs, free, thread };
        Ok(Self { work, next: None, mailbox, encoders, config, strip })
    }

    /// The same without a thread: [`EncoderLane::encode`] returns when the frame was delivered.
    pub(crate) fn here(
        mailbox: Arc<EncoderMailbox>,
        config: EncoderConfig,
        clock: Clock,
        encoders: Encoders,
    ) -> Result<Self, CodecError> {
        let strip = Self::strip_for(&mailbox, &encoders, config);
        let coded = EncoderConfig { size: config.size.with_strip(strip), ..config };
        let coding = Coding::open(Arc::clone(&mailbox), &encoders, coded, clock)?;
        let work = Work::Here { coding: Some(Box::new(coding)), spare: Some(Picture::new(coded.size)) };
        Ok(Self { work, next: None, mailbox, encoders, config, strip })
    }

    fn strip_for(mailbox: &EncoderMailbox, encoders: &Encoders, config: EncoderConfig) -> Option<Strip> {
        let strip = mailbox.marker.then(|| strip_below(encoders, mailbox.codec, config)).flatten();
        if mailbox.marker && strip.is_none() {
            let (viewer, size) = (mailbox.viewer.0, config.size);
            tracing::info!(viewer, %size, "these pictures are too narrow or too high for the latency marker; motion-to-photon is not measured");
        }
        strip
    }

    /// Adds the marker below a picture if the client crops it and the encoder accepts that height.
    pub(crate) fn add_marker(&mut self, marker: Marker, picture: &mut Picture) {
        if let Some(strip) = self.strip_below(picture.size) {
            picture.add_marker(strip, marker);
        }
    }

    /// A submitted picture of this viewer's size, encoded where it lies. None where the marker has to be written below it and others may
    /// read it meanwhile: unless this viewer is the `only` one, they would wait.
    pub(crate) fn in_place(&mut self, captured: &Arc<SharedPicture>, marker: Marker, only: bool) -> Option<InPlace> {
        let marker = self.strip_below(captured.size).map(|strip| (strip, marker));
        (only || marker.is_none()).then(|| InPlace { captured: Arc::clone(captured), marker })
    }

    fn strip_below(&mut self, size: Size) -> Option<Strip> {
        if size != self.config.size {
            self.config.size = size;
            self.strip = Self::strip_for(&self.mailbox, &self.encoders, self.config);
        }
        self.strip
    }

    /// Frames being encoded are still delivered.
    pub(crate) fn end(self) -> EndingLane {
        EndingLane(match self.work {
            Work::Beside { thread, .. } => Some(thread),
            Work::Here { .. } => None,
        })
    }

    /// Whether a picture buffer is free to render into; none is while the encoder is behind.
    pub(crate) fn has_picture(&mut self) -> bool {
        self.next = self.poll_picture();
        self.next.is_some()
    }

    /// A picture buffer to render into; none while the encoder is behind.
    pub(crate) fn poll_picture(&mut self) -> Option<Picture> {
        self.next.take().or_else(|| match &mut self.work {
            Work::Beside { free, .. } => free.try_recv().ok(),
            // Whoever hands pictures over does not wait for a session that is behind.
            Work::Here { spare, .. } => spare.take_if(|_| self.mailbox.has_room()),
        })
    }

    /// Returns a picture buffer that was not used.
    pub(crate) fn put_back(&mut self, picture: Picture) {
        self.next = Some(picture);
    }

    /// False when the encoder has ended.
    pub(crate) fn encode(&mut self, job: Job) -> bool {
        match &mut self.work {
            Work::Beside { jobs, .. } => jobs.send(job).is_ok(),
            Work::Here { coding, spare } => {
                let encoded = coding.as_mut().map_or(Ok(None), |coding| coding.encode(job));
                if let Err(error) = &encoded {
                    self.mailbox.on_encoder_failed(error);
                }
                let delivered = encoded.ok().flatten().filter(|_| !self.mailbox.has_left());
                *spare = delivered
                    .and_then(|(picture, frame)| self.mailbox.deliver(Delivery::Frame(frame)).then_some(picture));
                if spare.is_none() {
                    *coding = None;
                }
                coding.is_some()
            }
        }
    }
}

/// An encoder and the session that its frames go to.
struct Coding {
    mailbox: Arc<EncoderMailbox>,
    encoder: Box<dyn Encoder>,
    clock: Clock,
    coded_size: Size,
    rate: Bitrate,
    answered: AnsweredTargets,
    change: Change,
    /// The encoder counts from 0, even if the client has received frames before.
    first: Option<FrameId>,
}

impl std::fmt::Debug for Coding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Coding")
            .field("size", &self.coded_size)
            .field("rate", &self.rate)
            .finish_non_exhaustive()
    }
}

impl Coding {
    fn open(
        mailbox: Arc<EncoderMailbox>,
        encoders: &Encoders,
        config: EncoderConfig,
        clock: Clock,
    ) -> Result<Self, CodecError> {
        let encoder = encoders.open(mailbox.codec, config)?;
        let (coded_size, rate) = (config.size, config.rate);
        let (answered, change) = (AnsweredTargets::default(), Change::default());
        Ok(Self { mailbox, encoder, clock, coded_size, rate, answered, change, first: None })
    }

    fn encode_all(mut self, work: &Receiver<Job>, give_back: &SyncSender<Picture>) -> Result<(), CodecError> {
        for job in work {
            let Some((picture, frame)) = self.encode(job)? else { return Ok(()) };
            // Before the session has room for the frame.
            let _ = give_back.try_send(picture);
            if !self.mailbox.deliver(Delivery::Frame(frame)) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Encodes a picture. Returns its memory and the frame to deliver; none when the session is gone.
    fn encode(&mut self, job: Job) -> Result<Option<(Picture, EncodedFrame<'static>)>, CodecError> {
        let Job { picture, in_place, captured: original, facts } = job;
        // May wait for the session, with which nobody is to wait for the picture.
        if !self.mailbox.announce(facts.size, facts.views.len() as u8) {
            return Ok(None);
        }
        let frame = match in_place {
            None => self.encode_picture(&picture, facts),
            Some(InPlace { captured, marker: None }) => self.encode_picture(&captured.read(), facts),
            Some(InPlace { captured, marker: Some((strip, marker)) }) => {
                let mut shared = captured.write();
                shared.add_marker(strip, marker);
                let frame = self.encode_picture(&shared, facts);
                shared.set_size(captured.size);
                frame
            }
        };
        let frame = frame?;
        if let Some(original) = original {
            original.on_coded(frame.distortion.coded);
        }
        Ok(Some((picture, frame)))
    }

    fn encode_picture(&mut self, picture: &Picture, facts: PictureFacts) -> Result<EncodedFrame<'static>, CodecError> {
        let target = self.mailbox.target();
        let first = *self.first.get_or_insert(facts.id);
        if picture.size != self.coded_size {
            self.coded_size = picture.size;
            self.encoder.set_size(self.coded_size)?;
        }
        let EncodeRequest { rate: wanted, reference, acknowledged } = self.answered.request(target.encoder);
        if wanted != self.rate {
            self.rate = wanted;
            // A rate that the library rejects is no reason to end a session that runs well at the previous one.
            if let Err(error) = self.encoder.set_rate(wanted) {
                let viewer = self.mailbox.viewer.0;
                tracing::warn!(viewer, rate = %wanted, %error, "the encoder rejected a new rate and keeps the old one; lower --max-rate");
            }
        }
        if let Some(frame) = acknowledged.and_then(|frame| frame.0.checked_sub(first.0)) {
            self.encoder.on_decoded(FrameId(frame));
        }
        let coded = self.encoder.encode(picture, reference)?;
        self.answered.on_coded(facts.id, coded.is_key(), reference);
        let header = FrameHeader {
            width: facts.size.width,
            height: facts.size.height,
            input: facts.input,
            input_received_at: facts.input_received_at,
            render_started_at: facts.render_started_at,
            rendered_at: facts.rendered_at,
            converted_at: facts.converted_at,
            encoded_at: self.clock.now(),
            display_at: facts.display_at,
            deadline: facts.deadline,
            views: facts.views,
        };
        // The marker changes with every frame but does not count as a change of the picture.
        let frozen = self.change.on_picture(picture.view().top(facts.size.height));
        let distortion = Distortion { coded: coded.distortion, frozen };
        let reference = coded.reference.map(|frame| FrameId(first.0 + frame.0));
        let bits = coded.bits.into();
        Ok(EncodedFrame { id: facts.id, reference, header, bits, distortion, group_index: None })
    }
}

/// How long a frame stays useful after its rendering began: three frame intervals, but at least a tenth of a second, enough for a
/// retransmission over a mobile path.
pub(crate) fn display_budget(frame_interval: Span) -> Span {
    (frame_interval * 3).max(Span::from_millis(100))
}

#[cfg(test)]
mod tests {
    use nearlight_codec::{Coded, EncoderDescription, EncoderFactory, Reference};
    use nearlight_rate::Step;
    use nearlight_scene::Viewer;
    use nearlight_session::EncoderTarget;
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
        let facts = PictureFacts {
            size: CONFIG.size,
            id,
            input: InputSeq(0),
            input_received_at: Time::ZERO,
            render_started_at: Time::ZERO,
            rendered_at: Time::ZERO,
            converted_at: Time::ZERO,
            display_at: Time::ZERO,
            deadline: Time::ZERO,
            views: Vec::new(),
        };
        Job { picture, in_place: None, captured: None, facts }
    }

    fn free_picture(lane: &mut EncoderLane) -> Picture {
        let Work::Beside { free, .. } = &lane.work else { panic!("it has a thread") };
        free.recv().expect("the encoder runs")
    }

    /// Without a thread a frame is there when the call returns, and a session that is behind gets no picture encoded.
    #[test]
    fn a_lane_without_a_thread_never_waits_for_the_session() {
        let (deliveries, mut delivered) = mpsc::channel(4);
        let mailbox = mailbox(target(CONFIG.rate, true), deliveries);
        let mut lane = EncoderLane::here(mailbox, CONFIG, Clock::start(), Encoders::new(Scribes)).expect("an encoder");
        for id in 0..3 {
            let picture = lane.poll_picture().expect("the session takes frames");
            assert!(lane.encode(job(picture, FrameId(id))));
        }
        assert!(!lane.has_picture(), "a frame and its size would not fit");
        assert!(matches!(delivered.try_recv(), Ok(Delivery::Frame(frame)) if frame.id == FrameId(0)));
        let picture = lane.poll_picture().expect("there is room again");
        drop(delivered);
        assert!(!lane.encode(job(picture, FrameId(3))), "the session is gone");
        assert!(!lane.has_picture());
    }

    /// The session's loop is blocked, and so is the encoder, which has returned its picture. The next pictures wait for both, and the
    /// session keeps requesting the key frame that it has not seen.
    #[test]
    fn a_session_that_stalls_costs_no_frame_its_number_and_gets_one_key_frame() {
        let (deliveries, mut delivered) = mpsc::channel(1);
        let mailbox = mailbox(target(CONFIG.rate, true), deliveries);
        let mut lane = EncoderLane::start(mailbox, CONFIG, Clock::start(), Encoders::default()).expect("a thread");
        let mut next = FrameId(0);
        // One frame waits in the channel and one to enter it; every picture beyond them is returned only when the session resumes.
        for _ in 0..PICTURES + 2 {
            let picture = free_picture(&mut lane);
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

    #[test]
    fn the_marker_goes_below_pictures_that_leave_room_for_it() {
        let rows = |codec, width, height| {
            let config = EncoderConfig { size: Size { width, height }, ..CONFIG };
            strip_below(&Encoders::default(), codec, config).map(Strip::height)
        };
        for (codec, limit) in [(CodecKind::H264, None), (CodecKind::Vp8, Some(8))] {
            assert_eq!(rows(codec, 1280, 720), Some(8));
            assert_eq!((rows(codec, 256, 144), rows(codec, 128, 128)), (Some(24), None));
            // OpenH264's limit, and the longest side of any picture.
            assert_eq!((rows(codec, 3840, 2160), rows(codec, 2160, 4096)), (limit, None));
        }
    }

    /// Writes the rate that it encodes at instead of a picture.
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

    /// A decision reaches the encoder within a frame, whatever carries the feedback: a browser's reports are farther apart than that.
    #[test]
    fn the_first_frame_after_a_decision_has_its_rate() {
        let (deliveries, mut delivered) = mpsc::channel(1);
        let mailbox = mailbox(target(CONFIG.rate, false), deliveries);
        let encoders = Encoders::new(Scribes);
        let mut lane = EncoderLane::start(Arc::clone(&mailbox), CONFIG, Clock::start(), encoders).expect("a thread");
        for (id, kbps) in (0..).zip([1_000, 8_000, 300, 301, 8_000]) {
            let rate = Bitrate::from_kbps(kbps);
            mailbox.set_target(target(rate, false));
            let picture = free_picture(&mut lane);
            assert!(lane.encode(job(picture, FrameId(id))));
            let Some(Delivery::Frame(frame)) = delivered.blocking_recv() else { panic!("no frame at {rate}") };
            assert_eq!(*frame.bits, rate.as_bps().to_be_bytes());
        }
    }
}
