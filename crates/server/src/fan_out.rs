//! The studio of a source that paces itself: its pictures are encoded once for all viewers who receive the same ones.
//!
//! Viewers with the same codec and kind of display form an audience. [`Simulcast`] decides which of them gets which layer; this module
//! carries that out. A single viewer has an encoder of its own, with the latency marker below its pictures. Shared pictures carry no
//! marker, so motion-to-photon latency cannot be measured while there are several viewers.
//!
//! With [`Where::Here`], whoever submits a picture does the studio's work for it and encodes it, in its own thread. The studio's thread then
//! takes inputs and viewers only, and encodes where a viewer needs a picture again while none is submitted.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use nearlight_codec::{CodecKind, EncoderConfig, Encoders, Size};
use nearlight_net::Clock;
use nearlight_scene::predict::Predictor;
use nearlight_scene::{PictureSink, Planes, PlanesContent, PushSource, SceneError, SubmittedPicture, ViewerDisplay};
use nearlight_session::{
    CaptureDecision, CaptureFacts, FrameSkipper, LayerFrame, MOST_LAYERS, MemberFacts, MemberId, PictureNews,
    SharedStatistics, Simulcast, SkipReason, UNKNOWN_TO_DISPLAY, share_layers,
};
use nearlight_units::{InputSeq, Time};
use nearlight_wire::{DisplayKind, View, marker::Marker};

use crate::encoding::{EncoderLane, EndingLane, Job, Where, display_budget};
use crate::layer::{LayerEncoder, LayerJob, Recipient};
use crate::mailbox::{Delivery, EncoderMailbox};
use crate::metrics::{Metrics, SharedFigures};
use crate::pictures::{Pictures, SharedPicture};
use crate::sound::Mixer;
use crate::studio::{Format, StudioOptions, hand_over, put_out, views_at};

/// While no new picture arrives, how often to check whether a viewer still needs the current one.
const LOOK: Duration = Duration::from_millis(50);
/// How long whoever submits a picture waits at most for its packets to leave. Guess: several times what a session's task takes to wake up;
/// what the pacer holds back is not waited for.
const LONGEST_SEND: Duration = Duration::from_millis(5);
/// Inputs that wait for a picture that may show them. If a client sends more between two pictures, some are attributed to a later picture.
const MOST_INPUTS: usize = 64;

/// Queued news for the studio, which drains the queue at once. Between two drains each viewer has at most two for inputs and messages,
/// pictures and outputs have one each, and sessions begin one at a time, so no sender ever waits for room.
const MOST_NEWS: usize = 1_024;

/// What the studio is notified of.
#[derive(Debug)]
pub(crate) enum News {
    Viewer(Arc<EncoderMailbox>),
    Input,
    Picture,
    Failed(SceneError),
    Closed,
}

/// An input that was passed to the source.
#[derive(Clone, Copy, Debug)]
struct Given {
    input: InputSeq,
    received_at: Time,
    handed_at: Time,
}

/// How a viewer's pictures are encoded.
enum Coding {
    /// By an encoder of its own.
    Own { lane: Box<EncoderLane>, skipper: FrameSkipper, newest: u64 },
    /// That encoder is still encoding a picture.
    Ending(EndingLane),
    /// Not at all, or by a layer that delivers under this number.
    Layer(u64),
}

struct Watcher {
    mailbox: Arc<EncoderMailbox>,
    member: MemberId,
    coding: Coding,
    predictor: Predictor,
    views: Vec<View>,
    given: VecDeque<Given>,
    shown: Option<Given>,
    left: bool,
}

impl Watcher {
    /// Determines what the pictures captured since then show.
    fn on_captured(&mut self, captured_at: Time) {
        while self.given.front().is_some_and(|given| given.handed_at <= captured_at) {
            self.shown = self.given.pop_front();
        }
    }

    /// The input that a picture shows, and when that input arrived.
    fn shown(&self, captured: &SharedPicture) -> (InputSeq, Time) {
        self.shown.map_or((InputSeq(0), captured.captured_at), |shown| (shown.input, shown.received_at))
    }

    fn facts(&self) -> MemberFacts {
        let target = self.mailbox.target();
        let is_ready = match &self.coding {
            Coding::Own { .. } => false,
            Coding::Ending(lane) => lane.has_ended(),
            Coding::Layer(_) => true,
        };
        MemberFacts {
            rate: target.encoder.rate,
            scale: target.step.scale,
            frame_rate: target.step.frame_rate,
            key: self.mailbox.is_key_wanted(),
            refusal: target.refusal,
            is_ready,
        }
    }

    fn kind(&self) -> (CodecKind, DisplayKind) {
        (self.mailbox.codec, self.mailbox.target().display)
    }
}

/// Viewers who can receive the same frames.
struct Audience {
    kind: (CodecKind, DisplayKind),
    simulcast: Simulcast,
    layers: [Option<LayerEncoder>; MOST_LAYERS],
    watchers: Vec<Watcher>,
    /// The counts of `simulcast` at the last update of the metrics.
    counted: SharedStatistics,
}

/// What all viewers have in common.
struct Common {
    format: Format,
    clock: Clock,
    encoders: Encoders,
    shared_encodes: bool,
    place: Where,
}

/// The studio's thread.
pub(crate) struct FanOut {
    heard: Receiver<News>,
    stage: Arc<Mutex<Stage>>,
}

/// What the studio's thread and a source that encodes in its own share.
struct Stage {
    source: Box<dyn PushSource>,
    pictures: Arc<Pictures>,
    news: SyncSender<News>,
    sound: Option<Mixer>,
    metrics: Arc<Metrics>,
    common: Common,
    audiences: Vec<Audience>,
    /// The newest picture that was offered to all viewers.
    offered: u64,
}

impl FanOut {
    /// Returns the channel on which viewers are announced.
    pub(crate) fn start(
        mut source: Box<dyn PushSource>,
        options: StudioOptions,
    ) -> std::io::Result<(SyncSender<News>, Self)> {
        let StudioOptions { format, clock, encoders, sound, shared_encodes, metrics, place, .. } = options;
        let (news, heard) = sync_channel(MOST_NEWS);
        let pictures = Arc::new(Pictures::new(clock, news.clone()));
        let here = Arc::new(HerePictures { pictures: Arc::clone(&pictures), stage: OnceLock::new() });
        match place {
            Where::Beside => source.start(Arc::<Pictures>::clone(&pictures))?,
            Where::Here => source.start(Arc::<HerePictures>::clone(&here))?,
        }
        let common = Common { format, clock, encoders, shared_encodes, place };
        let (audiences, offered) = (Vec::new(), 0);
        let own = news.clone();
        let stage = Stage { source, pictures, news: own, sound, metrics, common, audiences, offered };
        let stage = Arc::new(Mutex::new(stage));
        let _ = here.stage.set(Arc::downgrade(&stage));
        Ok((news, Self { heard, stage }))
    }

    pub(crate) fn run(self) -> Result<(), SceneError> {
        let Self { heard, stage } = self;
        loop {
            let nobody = lock(&stage).is_without_viewers();
            let first = if nobody {
                let Ok(news) = heard.recv() else { return Ok(()) };
                Some(news)
            } else {
                match heard.recv_timeout(LOOK) {
                    Ok(news) => Some(news),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            };
            let mut stage = lock(&stage);
            for news in first.into_iter().chain(heard.try_iter().collect::<Vec<_>>()) {
                match news {
                    News::Viewer(mailbox) => stage.take_in(mailbox),
                    News::Input | News::Picture => {}
                    News::Failed(error) => {
                        stage.fail(&error);
                        return Err(error);
                    }
                    News::Closed => return Ok(()),
                }
            }
            stage.round();
        }
    }
}

fn lock(stage: &Mutex<Stage>) -> MutexGuard<'_, Stage> {
    // A thread that panicked has ended its session's encoder at worst.
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where pictures go that are encoded in the thread that submits them.
struct HerePictures {
    pictures: Arc<Pictures>,
    /// Gone when the studio has ended.
    stage: OnceLock<Weak<Mutex<Stage>>>,
}

impl HerePictures {
    fn encode(&self) {
        if let Some(stage) = self.stage.get().and_then(Weak::upgrade) {
            let mut stage = lock(&stage);
            stage.round();
            stage.wait_until_sent();
            // What was done meanwhile is known before the next picture is drawn.
            let now = stage.common.clock.now();
            stage.take_inputs(now);
        }
    }
}

impl PictureSink for HerePictures {
    fn now(&self) -> Time {
        self.pictures.now()
    }

    fn submit(&self, picture: &SubmittedPicture<'_>) {
        if self.pictures.keep(picture) {
            self.encode();
        }
    }

    fn lend(&self, size: (u16, u16)) -> Planes {
        self.pictures.lend(size)
    }

    fn submit_planes(&self, planes: Planes, content: &PlanesContent<'_>) {
        if self.pictures.keep_submitted(planes, content) {
            self.encode();
        }
    }

    fn put_back(&self, planes: Planes) {
        self.pictures.put_back(planes);
    }

    fn on_output(&self) {
        self.pictures.on_output();
    }

    fn on_failed(&self, error: SceneError) {
        self.pictures.on_failed(error);
    }
}

impl Stage {
    /// Also tells the source.
    fn is_without_viewers(&mut self) -> bool {
        let nobody = self.audiences.is_empty();
        self.pictures.set_watched(!nobody);
        if nobody {
            self.source.set_watched(false);
        }
        nobody
    }

    /// Everything that follows from new pictures, inputs and outputs.
    fn round(&mut self) {
        let now = self.common.clock.now();
        self.take_inputs(now);
        let watchers = self.audiences.iter().flat_map(|audience| &audience.watchers);
        put_out(self.source.as_mut(), &watchers.map(|watcher| watcher.mailbox.as_ref()));
        self.regroup(now);
        self.offer(now);
        if let (Some(sound), Some(cues)) = (&self.sound, self.source.poll_cues()) {
            sound.on_cues(cues);
        }
        self.tell_metrics();
    }

    fn fail(&self, error: &SceneError) {
        tracing::error!(%error, "the studio stopped");
        for watcher in self.audiences.iter().flat_map(|audience| &audience.watchers) {
            watcher.mailbox.deliver(Delivery::Failed(error.to_string()));
        }
    }

    fn wait_until_sent(&self) {
        let began = self.common.clock.now();
        for watcher in self.audiences.iter().flat_map(|audience| &audience.watchers) {
            let spent = (self.common.clock.now() - began).as_nanos().unsigned_abs();
            watcher.mailbox.wait_until_sent(LONGEST_SEND.saturating_sub(Duration::from_nanos(spent)));
        }
    }

    fn take_in(&mut self, mailbox: Arc<EncoderMailbox>) {
        mailbox.set_news(self.news.clone());
        let member = MemberId(mailbox.viewer.0);
        let coding = Coding::Layer(mailbox.begin_chain());
        let watcher = Watcher {
            mailbox,
            member,
            coding,
            predictor: Predictor::default(),
            views: Vec::new(),
            given: VecDeque::new(),
            shown: None,
            left: false,
        };
        if self.audiences.is_empty() {
            self.pictures.set_watched(true);
            self.source.set_watched(true);
        }
        let now = self.common.clock.now();
        self.source.on_viewer_joined(now, watcher.mailbox.viewer);
        self.place(now, watcher);
    }

    /// Adds a viewer to the audience that can receive the same frames; to an audience of its own if nothing is shared.
    fn place(&mut self, now: Time, watcher: Watcher) {
        let (kind, shared) = (watcher.kind(), self.common.shared_encodes);
        let place = self.audiences.iter().position(|audience| shared && audience.kind == kind);
        let index = place.unwrap_or_else(|| {
            let Format { size, fps, .. } = self.common.format;
            self.audiences.push(Audience {
                kind,
                simulcast: Simulcast::new(size.pixels() as u32, fps),
                layers: [const { None }; MOST_LAYERS],
                watchers: Vec::new(),
                counted: SharedStatistics::default(),
            });
            self.audiences.len() - 1
        });
        let audience = &mut self.audiences[index];
        audience.simulcast.on_member(now, watcher.member, watcher.facts());
        audience.watchers.push(watcher);
    }

    fn take_inputs(&mut self, now: Time) {
        for watcher in self.audiences.iter_mut().flat_map(|audience| &mut audience.watchers) {
            if watcher.mailbox.has_left() {
                watcher.left = true;
                self.source.on_viewer_left(watcher.mailbox.viewer);
                continue;
            }
            let handed = hand_over(self.source.as_mut(), now, &watcher.mailbox);
            let Some((sample, received_at)) = handed else { continue };
            watcher.predictor.on_sample(received_at, &sample.views);
            let target = watcher.mailbox.target();
            let capture_to_display = target.render_to_display.unwrap_or(UNKNOWN_TO_DISPLAY);
            let display = ViewerDisplay { kind: target.display, views: &sample.views, received_at, capture_to_display };
            self.source.on_display(now, watcher.mailbox.viewer, &display);
            watcher.views = sample.views;
            if watcher.given.len() < MOST_INPUTS {
                watcher.given.push_back(Given { input: sample.seq, received_at, handed_at: now });
            }
        }
    }

    /// Drops viewers who have left, and moves those who have put on a headset or taken it off.
    fn regroup(&mut self, now: Time) {
        let mut moved = Vec::new();
        for audience in &mut self.audiences {
            let Audience { watchers, simulcast, kind, .. } = audience;
            let gone = watchers.extract_if(.., |watcher| watcher.left || watcher.kind() != *kind);
            for mut watcher in gone {
                simulcast.on_member_left(now, watcher.member);
                if !watcher.left {
                    if let Coding::Layer(chain) = &mut watcher.coding {
                        *chain = watcher.mailbox.begin_chain();
                    }
                    moved.push(watcher);
                }
            }
        }
        for watcher in moved {
            self.place(now, watcher);
        }
        // Their counts must reach the metrics before they are dropped.
        self.tell_metrics();
        self.audiences.retain(|audience| !audience.watchers.is_empty());
    }

    fn offer(&mut self, now: Time) {
        let Some(captured) = self.pictures.newest() else { return };
        let news = if captured.number == self.offered { PictureNews::Same } else { PictureNews::New };
        self.offered = captured.number;
        let mut kinds: Vec<&mut Simulcast> =
            self.audiences.iter_mut().map(|audience| &mut audience.simulcast).collect();
        share_layers(now, &mut kinds);
        let mut own = 0;
        for audience in &mut self.audiences {
            own += audience.offer(now, &self.common, (&captured, news));
        }
        self.metrics.on_own_encodes(own);
    }

    fn tell_metrics(&mut self) {
        let mut figures = SharedFigures::default();
        for audience in &mut self.audiences {
            let now = audience.simulcast.statistics();
            figures.on_counted(audience.counted, now);
            audience.counted = now;
            figures.layers += audience.layers.iter().flatten().count();
            let sharing = |watcher: &&Watcher| audience.simulcast.layer_of(watcher.member).is_some();
            figures.sharing += audience.watchers.iter().filter(sharing).count();
        }
        self.metrics.on_shared(&figures);
    }
}

impl Audience {
    /// Returns how many pictures went to viewers' own encoders.
    fn offer(&mut self, now: Time, common: &Common, (captured, news): (&Arc<SharedPicture>, PictureNews)) -> u64 {
        let single = self.watchers.len() == 1;
        for watcher in &mut self.watchers {
            watcher.on_captured(captured.captured_at);
            if !single {
                watcher.end_own();
            }
            if watcher.mailbox.take_chain_broken() {
                self.simulcast.on_not_delivered(now, watcher.member);
            }
            self.simulcast.set_facts(now, watcher.member, watcher.facts());
        }
        self.simulcast.set_pixels(captured.picture.size.pixels() as u32, common.format.fps);
        let busy: [bool; MOST_LAYERS] =
            std::array::from_fn(|slot| self.layers[slot].as_ref().is_some_and(LayerEncoder::is_busy));
        let plan = self.simulcast.on_picture(now, news, busy);
        for (encoder, live) in self.layers.iter_mut().zip(plan.live) {
            if !live {
                *encoder = None;
            }
        }
        if news == PictureNews::New {
            for (member, reason) in &plan.skipped {
                if let Some(watcher) = self.watchers.iter().find(|watcher| watcher.member == *member) {
                    watcher.mailbox.on_skipped(*reason);
                }
            }
        }
        for frame in plan.frames {
            self.encode(common, captured, &frame);
        }
        let alone = plan.alone.and_then(|alone| self.watchers.iter_mut().find(|watcher| watcher.member == alone));
        alone.map_or(0, |watcher| u64::from(watcher.encode_own(now, common, captured, news)))
    }

    fn encode(&mut self, common: &Common, captured: &Arc<SharedPicture>, frame: &LayerFrame) {
        let (codec, display) = self.kind;
        let eyes = common.format.views_for(display);
        let source = Format { size: captured.for_eyes(eyes).0.size, ..common.format };
        let size = source.size_for(display, frame.scale);
        let slot = &mut self.layers[frame.layer];
        if slot.is_none() {
            let threads = EncoderConfig::usual_threads();
            let config = EncoderConfig { size, fps: common.format.fps, rate: frame.rate, threads };
            let encoder = match common.place {
                Where::Beside => LayerEncoder::start(codec, config, common.clock, common.encoders.clone()),
                Where::Here => Ok(LayerEncoder::here(codec, config, common.clock, &common.encoders)),
            };
            match encoder {
                Ok(encoder) => *slot = Some(encoder),
                Err(error) => {
                    for watcher in &mut self.watchers {
                        watcher.mailbox.deliver(Delivery::Failed(format!("no thread for the encoder: {error}")));
                        watcher.left = true;
                    }
                    return;
                }
            }
        }
        let recipients = self.watchers.iter_mut().filter(|watcher| frame.members.contains(&watcher.member));
        let recipients = recipients.map(|watcher| {
            if frame.joined.contains(&watcher.member) {
                watcher.coding = Coding::Layer(watcher.mailbox.begin_chain());
            }
            watcher.recipient(captured, (display, eyes), size)
        });
        let recipients: Vec<Recipient> = recipients.collect();
        let (captured, rate, key) = (Arc::clone(captured), frame.rate, frame.key);
        let job = LayerJob { captured, size, eyes, rate, key, recipients };
        if slot.as_mut().is_some_and(|encoder| !encoder.encode(job)) {
            // It has informed its recipients; a new encoder begins with a key frame.
            *slot = None;
            for watcher in &self.watchers {
                if frame.members.contains(&watcher.member) {
                    self.simulcast.on_not_delivered(common.clock.now(), watcher.member);
                }
            }
        }
    }
}

impl Watcher {
    /// Its encoder is given no more pictures.
    fn end_own(&mut self) {
        if matches!(self.coding, Coding::Own { .. })
            && let Coding::Own { lane, .. } = std::mem::replace(&mut self.coding, Coding::Layer(0))
        {
            self.coding = Coding::Ending(lane.end());
        }
    }

    /// When a picture is expected on its display, as far as that is known.
    fn display_at(&self, captured: &SharedPicture) -> Time {
        captured.captured_at + self.mailbox.target().render_to_display.unwrap_or(UNKNOWN_TO_DISPLAY)
    }

    /// The views that the picture was rendered for, a single one for both eyes; if it does not depend on views, this viewer's own.
    fn views(&self, captured: &SharedPicture, kind: (DisplayKind, u8), size: Size, at: Time) -> Vec<View> {
        if let Some(first) = captured.views.first() {
            return (0..usize::from(kind.1)).map(|eye| *captured.views.get(eye).unwrap_or(first)).collect();
        }
        views_at(&self.views, &self.predictor, kind, size, at)
    }

    fn recipient(&self, captured: &SharedPicture, kind: (DisplayKind, u8), size: Size) -> Recipient {
        let chain = if let Coding::Layer(chain) = self.coding { chain } else { 0 };
        let (input, input_received_at) = self.shown(captured);
        let display_at = self.display_at(captured);
        let views = self.views(captured, kind, size, display_at);
        Recipient { mailbox: Arc::clone(&self.mailbox), chain, input, input_received_at, display_at, views }
    }

    /// Encodes a picture for this viewer alone, at exactly its rate. True if it was encoded.
    fn encode_own(&mut self, now: Time, common: &Common, captured: &Arc<SharedPicture>, news: PictureNews) -> bool {
        let target = self.mailbox.target();
        let kind = (target.display, common.format.views_for(target.display));
        let (view, copies) = captured.for_eyes(kind.1);
        let source = Format { size: view.size, ..common.format };
        let size = source.size_for(target.display, target.step.scale);
        match &self.coding {
            Coding::Own { .. } => {}
            Coding::Ending(lane) if !lane.has_ended() => return false,
            Coding::Ending(_) | Coding::Layer(_) => {
                // Frames that a layer is still encoding are no longer for it.
                self.mailbox.begin_chain();
                let threads = EncoderConfig::usual_threads();
                let config = EncoderConfig { size, fps: common.format.fps, rate: target.encoder.rate, threads };
                let (mailbox, encoders) = (Arc::clone(&self.mailbox), common.encoders.clone());
                let lane = match common.place {
                    Where::Beside => EncoderLane::start(mailbox, config, common.clock, encoders)
                        .map_err(|error| format!("no thread for the encoder: {error}")),
                    Where::Here => {
                        EncoderLane::here(mailbox, config, common.clock, encoders).map_err(|error| error.to_string())
                    }
                };
                match lane {
                    Ok(lane) => {
                        self.coding = Coding::Own { lane: Box::new(lane), skipper: FrameSkipper::default(), newest: 0 }
                    }
                    Err(error) => {
                        self.mailbox.deliver(Delivery::Failed(error));
                        self.left = true;
                        return false;
                    }
                }
            }
        }
        let wanted = self.mailbox.is_key_wanted();
        let Coding::Own { lane, skipper, newest } = &mut self.coding else { return false };
        if news == PictureNews::Same && *newest == captured.number && !wanted {
            return false;
        }
        let facts = CaptureFacts::new(target.refusal, target.step, lane.has_picture());
        if let CaptureDecision::Skip(reason) = skipper.on_moment(&facts) {
            // A picture that was skipped for the frame rate must not be sent later.
            if reason == SkipReason::FrameRate {
                *newest = captured.number;
            }
            if news == PictureNews::New {
                self.mailbox.on_skipped(reason);
            }
            return false;
        }
        let Some(mut picture) = lane.poll_picture() else { return false };
        *newest = captured.number;
        picture.fit(view, size, copies);
        let id = self.mailbox.take_frame_id();
        let (input, input_received_at) = self.shown(captured);
        if let Coding::Own { lane, .. } = &mut self.coding {
            lane.add_marker(Marker { frame: id, input }, &mut picture);
        }
        let display_at = self.display_at(captured);
        let job = Job {
            picture,
            size,
            id,
            input,
            input_received_at,
            render_started_at: captured.captured_at,
            rendered_at: captured.captured_at,
            converted_at: captured.converted_at,
            display_at,
            // A picture that has been static for long is as urgent as a new one.
            deadline: captured.captured_at.max(now) + display_budget(common.format.frame_interval()),
            views: self.views(captured, kind, size, display_at),
        };
        let Coding::Own { lane, .. } = &mut self.coding else { return false };
        self.left = !lane.encode(job);
        true
    }
}
