//! One encoder per client. It runs on its own thread, so that one picture is encoded while the next one is rendered, or in the thread that
//! submits the picture.
//!
//! With a thread, pictures travel in a ring of two buffers: the studio fills one while the encoder reads the other, and no pixel is
//! copied. A submitted picture of the viewer's size is encoded in place; the buffer then travels unused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use nearlight_codec::quality::PictureDifference;
use nearlight_codec::{CodecError, CodecKind, Encoder, EncoderConfig, Encoders, Picture, Size};
use nearlight_net::Clock;
use nearlight_session::{AnsweredTargets, Distortion, EncodeRequest, EncodedFrame};
use nearlight_units::{Bitrate, FrameId, InputSeq, Span, Time};
use nearlight_wire::marker::{Marker, Strip};
use nearlight_wire::{FrameHeader, View};

use crate::media::pictures::SharedPicture;
use crate::session::exchange::{Delivery, SessionExchange};

/// Picture buffers of an encoder with a thread: one picture being encoded and one queued.
const BUFFERED_PICTURES: usize = 2;

/// Returns the rows that the marker occupies below pictures of the configured size. None if the pictures are too narrow, or if the
/// encoder does not accept the resulting height.
pub(crate) fn strip_below(encoders: &Encoders, codec: CodecKind, config: EncoderConfig) -> Option<Strip> {
    let strip = Strip::of_width(config.size.width)?;
    let coded = EncoderConfig { size: config.size.with_strip(Some(strip)), ..config };
    encoders.describe(codec, coded).is_ok().then_some(strip)
}

/// A rendered and converted picture to encode.
#[derive(Debug)]
pub(crate) struct EncodeJob {
    /// The pixels, with the marker below them if the client crops it.
    pub(crate) picture: Picture,
    /// A submitted picture to encode instead of `picture`, whose contents are then stale.
    pub(crate) in_place: Option<InPlacePicture>,
    /// The submitted picture that `picture` was made from, if any.
    pub(crate) captured: Option<Arc<SharedPicture>>,
    pub(crate) facts: PictureFacts,
}

/// The fields of a frame's header that are known before encoding.
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

/// A submitted picture that is encoded without being copied.
#[derive(Debug)]
pub(crate) struct InPlacePicture {
    captured: Arc<SharedPicture>,
    /// The marker to write below the picture while it is encoded.
    marker: Option<(Strip, Marker)>,
}

/// The thread in which pictures are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EncoderPlacement {
    /// The encoder's own thread.
    Thread,
    /// The thread that submits the picture.
    Inline,
}

#[derive(Debug)]
enum Worker {
    Thread {
        jobs: SyncSender<EncodeJob>,
        free: Receiver<Picture>,
        thread: JoinHandle<()>,
    },
    /// `task` is none once the encoder has failed or the session is gone.
    Inline {
        task: Option<Box<EncodeTask>>,
        spare: Option<Picture>,
    },
}

/// The studio's end of an encoder.
#[derive(Debug)]
pub(crate) struct EncoderLane {
    work: Worker,
    next: Option<Picture>,
    exchange: Arc<SessionExchange>,
    encoders: Encoders,
    /// The configuration for pictures of the newest size.
    config: EncoderConfig,
    strip: Option<Strip>,
    encoding_time: EncodingTime,
}

/// How long an encoder has worked, in nanoseconds.
#[derive(Clone, Debug, Default)]
struct EncodingTime(Arc<AtomicU64>);

impl EncodingTime {
    fn add(&self, span: Span) {
        self.0.fetch_add(span.as_nanos().unsigned_abs(), Ordering::Relaxed);
    }

    fn take(&self) -> Span {
        Span::from_nanos(i64::try_from(self.0.swap(0, Ordering::Relaxed)).unwrap_or(i64::MAX))
    }
}

/// The thread of an encoder that gets no more pictures, while it finishes the last one.
#[derive(Debug)]
pub(crate) struct DrainingLane(Option<JoinHandle<()>>);

impl DrainingLane {
    /// Returns whether the last frame was delivered.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl EncoderLane {
    /// Starts an encoder on its own thread, for pictures of the configured size at first. The thread ends when the lane is dropped or the
    /// session is gone.
    pub(crate) fn start(
        exchange: Arc<SessionExchange>,
        config: EncoderConfig,
        clock: Clock,
        encoders: Encoders,
    ) -> std::io::Result<Self> {
        // There are never more jobs than picture buffers, so sending never waits. A refused job would leave a gap in the encoder's frame
        // numbers.
        let (jobs, work) = sync_channel(BUFFERED_PICTURES);
        let (give_back, free) = sync_channel(BUFFERED_PICTURES);
        let strip = Self::strip_for(&exchange, &encoders, config);
        let coded = EncoderConfig { size: config.size.with_strip(strip), ..config };
        for _ in 0..BUFFERED_PICTURES {
            let _ = give_back.try_send(Picture::new(coded.size));
        }
        let (shared, factory) = (Arc::clone(&exchange), encoders.clone());
        let encoding_time = EncodingTime::default();
        let spent = encoding_time.clone();
        let thread = thread::Builder::new().name(format!("encode-{}", exchange.viewer.0)).spawn(move || {
            let opened = EncodeTask::open(Arc::clone(&shared), &factory, coded, clock, spent);
            let done = opened.and_then(|task| task.encode_all(&work, &give_back));
            if let Err(error) = done {
                shared.on_encoder_failed(&error);
            }
        })?;
        let work = Worker::Thread { jobs, free, thread };
        Ok(Self { work, next: None, exchange, encoders, config, strip, encoding_time })
    }

    /// Opens an encoder that runs in the caller's thread: [`EncoderLane::encode`] returns when the frame was delivered.
    pub(crate) fn inline(
        exchange: Arc<SessionExchange>,
        config: EncoderConfig,
        clock: Clock,
        encoders: Encoders,
    ) -> Result<Self, CodecError> {
        let strip = Self::strip_for(&exchange, &encoders, config);
        let coded = EncoderConfig { size: config.size.with_strip(strip), ..config };
        let encoding_time = EncodingTime::default();
        let task = EncodeTask::open(Arc::clone(&exchange), &encoders, coded, clock, encoding_time.clone())?;
        let work = Worker::Inline { task: Some(Box::new(task)), spare: Some(Picture::new(coded.size)) };
        Ok(Self { work, next: None, exchange, encoders, config, strip, encoding_time })
    }

    fn strip_for(exchange: &SessionExchange, encoders: &Encoders, config: EncoderConfig) -> Option<Strip> {
        let strip = exchange.marker.then(|| strip_below(encoders, exchange.codec, config)).flatten();
        if exchange.marker && strip.is_none() {
            let (viewer, size) = (exchange.viewer.0, config.size);
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

    /// Prepares to encode a submitted picture of this viewer's size in place. Returns none if a marker has to be written below it while
    /// other viewers may read it, that is, unless this viewer is the `only` one.
    pub(crate) fn in_place(
        &mut self,
        captured: &Arc<SharedPicture>,
        marker: Marker,
        only: bool,
    ) -> Option<InPlacePicture> {
        let marker = self.strip_below(captured.size).map(|strip| (strip, marker));
        (only || marker.is_none()).then(|| InPlacePicture { captured: Arc::clone(captured), marker })
    }

    fn strip_below(&mut self, size: Size) -> Option<Strip> {
        if size != self.config.size {
            self.config.size = size;
            self.strip = Self::strip_for(&self.exchange, &self.encoders, self.config);
        }
        self.strip
    }

    /// Ends the lane. Frames that are being encoded are still delivered.
    pub(crate) fn end(self) -> DrainingLane {
        DrainingLane(match self.work {
            Worker::Thread { thread, .. } => Some(thread),
            Worker::Inline { .. } => None,
        })
    }

    /// Returns whether a picture buffer is free to render into. None is free while the encoder is behind.
    pub(crate) fn has_picture(&mut self) -> bool {
        self.next = self.poll_picture();
        self.next.is_some()
    }

    /// Returns a picture buffer to render into, or none while the encoder is behind.
    pub(crate) fn poll_picture(&mut self) -> Option<Picture> {
        self.next.take().or_else(|| match &mut self.work {
            Worker::Thread { free, .. } => free.try_recv().ok(),
            // The submitting thread must not wait for a session that is behind.
            Worker::Inline { spare, .. } => spare.take_if(|_| self.exchange.stream.has_room()),
        })
    }

    /// Returns how long the encoder has worked since the last call.
    pub(crate) fn take_encoding_time(&self) -> Span {
        self.encoding_time.take()
    }

    /// Returns a picture buffer that was not used.
    pub(crate) fn put_back(&mut self, picture: Picture) {
        self.next = Some(picture);
    }

    /// Encodes a picture, or queues it for the encoder's thread. Returns false when the encoder has ended.
    pub(crate) fn encode(&mut self, job: EncodeJob) -> bool {
        match &mut self.work {
            Worker::Thread { jobs, .. } => jobs.send(job).is_ok(),
            Worker::Inline { task, spare } => {
                let encoded = task.as_mut().map_or(Ok(None), |task| task.encode(job));
                if let Err(error) = &encoded {
                    self.exchange.on_encoder_failed(error);
                }
                let delivered = encoded.ok().flatten().filter(|_| !self.exchange.has_left());
                *spare = delivered.and_then(|(picture, frame)| {
                    self.exchange.stream.deliver(Delivery::Frame(frame)).then_some(picture)
                });
                if spare.is_none() {
                    *task = None;
                }
                task.is_some()
            }
        }
    }
}

/// An encoder and the session that its frames go to.
struct EncodeTask {
    exchange: Arc<SessionExchange>,
    encoder: Box<dyn Encoder>,
    clock: Clock,
    coded_size: Size,
    rate: Bitrate,
    answered: AnsweredTargets,
    difference: PictureDifference,
    /// The encoder counts from 0, even if the client has received frames before.
    first: Option<FrameId>,
    encoding_time: EncodingTime,
}

impl std::fmt::Debug for EncodeTask {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("EncodeTask")
            .field("size", &self.coded_size)
            .field("rate", &self.rate)
            .finish_non_exhaustive()
    }
}

impl EncodeTask {
    fn open(
        exchange: Arc<SessionExchange>,
        encoders: &Encoders,
        config: EncoderConfig,
        clock: Clock,
        encoding_time: EncodingTime,
    ) -> Result<Self, CodecError> {
        let encoder = encoders.open(exchange.codec, config)?;
        let (coded_size, rate) = (config.size, config.rate);
        let (answered, difference) = (AnsweredTargets::default(), PictureDifference::default());
        Ok(Self { exchange, encoder, clock, coded_size, rate, answered, difference, first: None, encoding_time })
    }

    fn encode_all(mut self, work: &Receiver<EncodeJob>, give_back: &SyncSender<Picture>) -> Result<(), CodecError> {
        for job in work {
            let Some((picture, frame)) = self.encode(job)? else { return Ok(()) };
            // The buffer is free again before the session has room for the frame.
            let _ = give_back.try_send(picture);
            if !self.exchange.stream.deliver(Delivery::Frame(frame)) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Encodes a picture. Returns its buffer and the frame to deliver, or none when the session is gone.
    fn encode(&mut self, job: EncodeJob) -> Result<Option<(Picture, EncodedFrame<'static>)>, CodecError> {
        let EncodeJob { picture, in_place, captured: original, facts } = job;
        // This may wait for the session, so the picture is not locked yet.
        if !self.exchange.stream.announce(facts.size, facts.views.len() as u8) {
            return Ok(None);
        }
        let frame = match in_place {
            None => self.encode_picture(&picture, facts),
            Some(InPlacePicture { captured, marker: None }) => self.encode_picture(&captured.read(), facts),
            Some(InPlacePicture { captured, marker: Some((strip, marker)) }) => {
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
        let target = self.exchange.stream.target();
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
                let viewer = self.exchange.viewer.0;
                tracing::warn!(viewer, rate = %wanted, %error, "the encoder rejected a new rate and keeps the old one; lower --max-rate");
            }
        }
        if let Some(frame) = acknowledged.and_then(|frame| frame.0.checked_sub(first.0)) {
            self.encoder.on_decoded(FrameId(frame));
        }
        let began = self.clock.now();
        let coded = self.encoder.encode(picture, reference)?;
        self.encoding_time.add(self.clock.now() - began);
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
        // The marker changes with every frame but does not count as a difference of the picture.
        let frozen = self.difference.on_picture(picture.view().top(facts.size.height));
        let distortion = Distortion { coded: coded.distortion, frozen };
        let reference = coded.reference.map(|frame| FrameId(first.0 + frame.0));
        let bits = coded.bits.into();
        Ok(EncodedFrame { id: facts.id, reference, header, bits, distortion, group_index: None })
    }
}

/// Returns how long a frame stays useful after its rendering began: three frame intervals, and at least 100 ms, which is enough for a
/// retransmission over a mobile path.
pub(crate) fn display_budget(frame_interval: Span) -> Span {
    (frame_interval * 3).max(Span::from_millis(100))
}

#[cfg(test)]
mod tests {
    use nearlight_codec::{EncodedPicture, EncoderDescription, EncoderFactory, Reference};
    use nearlight_scene::Viewer;
    use tokio::sync::mpsc;

    use super::*;
    use crate::session::exchange::StreamTarget;

    const CONFIG: EncoderConfig =
        EncoderConfig { size: Size { width: 256, height: 144 }, fps: 30, rate: Bitrate::from_mbps(1), threads: 1 };

    fn target(rate: Bitrate, key: bool) -> StreamTarget {
        let mut target = StreamTarget::of_screen(rate);
        target.encoder.key = key;
        target
    }

    fn exchange(target: StreamTarget, deliveries: mpsc::Sender<Delivery>) -> Arc<SessionExchange> {
        let exchange = SessionExchange::new(Viewer(1), CodecKind::Vp8, target, deliveries, mpsc::channel(1).0);
        Arc::new(exchange.with_stream(CONFIG.size, 0))
    }

    fn job(picture: Picture, id: FrameId) -> EncodeJob {
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
        EncodeJob { picture, in_place: None, captured: None, facts }
    }

    fn free_picture(lane: &mut EncoderLane) -> Picture {
        let Worker::Thread { free, .. } = &lane.work else { panic!("it has a thread") };
        free.recv().expect("the encoder runs")
    }

    /// Without a thread, a frame has been delivered when the call returns, and no picture is encoded for a session that is behind.
    #[test]
    fn a_lane_without_a_thread_never_waits_for_the_session() {
        let (deliveries, mut delivered) = mpsc::channel(4);
        let exchange = exchange(target(CONFIG.rate, true), deliveries);
        let mut lane = EncoderLane::inline(exchange, CONFIG, Clock::start(), Encoders::new(RateWriterFactory))
            .expect("an encoder");
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
        let exchange = exchange(target(CONFIG.rate, true), deliveries);
        let mut lane = EncoderLane::start(exchange, CONFIG, Clock::start(), Encoders::default()).expect("a thread");
        let mut next = FrameId(0);
        // One frame waits in the channel and one to enter it; every picture beyond them is returned only when the session resumes.
        for _ in 0..BUFFERED_PICTURES + 2 {
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
    struct RateWriter(Bitrate);

    struct RateWriterFactory;

    impl EncoderFactory for RateWriterFactory {
        fn describe(&self, _: CodecKind, _: EncoderConfig) -> Result<EncoderDescription, CodecError> {
            Ok(EncoderDescription { name: "rate writer".into(), codec_string: "vp8".into(), keeps_references: false })
        }

        fn open(&self, _: CodecKind, config: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> {
            Ok(Box::new(RateWriter(config.rate)))
        }
    }

    impl Encoder for RateWriter {
        fn encode(&mut self, _: &Picture, _: Reference) -> Result<EncodedPicture, CodecError> {
            Ok(EncodedPicture { bits: self.0.as_bps().to_be_bytes().into(), reference: None, distortion: None })
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
        let exchange = exchange(target(CONFIG.rate, false), deliveries);
        let encoders = Encoders::new(RateWriterFactory);
        let mut lane = EncoderLane::start(Arc::clone(&exchange), CONFIG, Clock::start(), encoders).expect("a thread");
        for (id, kbps) in (0..).zip([1_000, 8_000, 300, 301, 8_000]) {
            let rate = Bitrate::from_kbps(kbps);
            exchange.stream.set_target(target(rate, false));
            let picture = free_picture(&mut lane);
            assert!(lane.encode(job(picture, FrameId(id))));
            let Some(Delivery::Frame(frame)) = delivered.blocking_recv() else { panic!("no frame at {rate}") };
            assert_eq!(*frame.bits, rate.as_bps().to_be_bytes());
        }
    }
}
