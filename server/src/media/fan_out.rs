//! The studio of a source that paces itself: its pictures are encoded once for all viewers who receive the same ones.
//!
//! Viewers with the same codec and kind of display form a group. [`Simulcast`] decides which of them gets which layer; this module
//! carries that out. A single viewer has an encoder of its own, with the latency marker below its pictures. Shared pictures carry no
//! marker, so motion-to-photon latency cannot be measured while there are several viewers.
//!
//! With [`EncoderPlacement::Inline`], the thread that submits a picture does the studio's work for it and encodes it. The studio's own
//! thread then handles inputs and viewers only, and encodes when a viewer needs a picture again while none is submitted.

mod group;
mod viewer;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use nearlight_codec::Encoders;
use nearlight_net::Clock;
use nearlight_scene::predict::Predictor;
use nearlight_scene::{
    PictureSink, Planes, PlanesContent, PushSource, SceneError, SubmittedPicture, ViewerDisplay, ViewerInput,
};
use nearlight_session::{
    MAX_LAYERS, MemberId, PictureUpdate, SharedStatistics, Simulcast, UNKNOWN_TO_DISPLAY, share_layers,
};
use nearlight_units::{Time, lock};

use self::group::ViewerGroup;
use self::viewer::{Encoding, ForwardedInput, Viewer};
use crate::media::encoding::EncoderPlacement;
use crate::media::pictures::Pictures;
use crate::media::sound::Mixer;
use crate::media::studio::{Format, StudioOptions, forward_outputs, forward_to_application};
use crate::metrics::{Metrics, SharedFigures};
use crate::session::exchange::SessionExchange;

/// While no new picture arrives, interval at which the studio checks whether a viewer still needs the current one.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Longest time that a submitting thread waits for the picture's packets to leave. It does not wait for packets that the pacer holds back.
/// Guess: several times what a session's task takes to wake up.
const MAX_SEND_WAIT: Duration = Duration::from_millis(5);
/// Inputs that may wait for a picture that shows them. If a client sends more between two pictures, some are attributed to a later one.
const MAX_PENDING_INPUTS: usize = 64;

/// Queued events for the studio, which drains the queue at once. Between two drains each viewer has at most two for inputs and messages,
/// pictures and outputs have one each, and sessions begin one at a time, so no sender ever waits for room.
const MAX_QUEUED_EVENTS: usize = 1_024;

/// An event for the studio's thread.
#[derive(Debug)]
pub(crate) enum FanOutEvent {
    Viewer(Arc<SessionExchange>),
    Input,
    Picture,
    Failed(SceneError),
    Closed,
}

/// The settings that all viewers share.
struct StudioContext {
    format: Format,
    clock: Clock,
    encoders: Encoders,
    shared_encodes: bool,
    placement: EncoderPlacement,
}

/// The body of the studio's thread.
pub(crate) struct FanOut {
    received: Receiver<FanOutEvent>,
    state: Arc<Mutex<State>>,
}

/// The state that the studio's thread shares with a source that encodes in its own thread.
struct State {
    source: Box<dyn PushSource>,
    pictures: Arc<Pictures>,
    events: SyncSender<FanOutEvent>,
    sound: Option<Mixer>,
    metrics: Arc<Metrics>,
    common: StudioContext,
    groups: Vec<ViewerGroup>,
    /// The number of the newest picture that was offered to all viewers.
    offered: u64,
}

impl FanOut {
    /// Starts the source. Returns the channel on which viewers are announced, and the body of the studio's thread.
    pub(crate) fn start(
        mut source: Box<dyn PushSource>,
        options: StudioOptions,
    ) -> std::io::Result<(SyncSender<FanOutEvent>, Self)> {
        let StudioOptions { format, clock, encoders, sound, shared_encodes, metrics, placement, .. } = options;
        let (events, received) = sync_channel(MAX_QUEUED_EVENTS);
        let pictures = Arc::new(Pictures::new(clock, events.clone()));
        let here = Arc::new(EncodingSink { pictures: Arc::clone(&pictures), state: OnceLock::new() });
        match placement {
            EncoderPlacement::Thread => source.start(Arc::<Pictures>::clone(&pictures))?,
            EncoderPlacement::Inline => source.start(Arc::<EncodingSink>::clone(&here))?,
        }
        let common = StudioContext { format, clock, encoders, shared_encodes, placement };
        let (groups, offered) = (Vec::new(), 0);
        let own = events.clone();
        let state = State { source, pictures, events: own, sound, metrics, common, groups, offered };
        let state = Arc::new(Mutex::new(state));
        let _ = here.state.set(Arc::downgrade(&state));
        Ok((events, Self { received, state }))
    }

    pub(crate) fn run(self) -> Result<(), SceneError> {
        let Self { received, state } = self;
        loop {
            let unwatched = lock(&state).is_without_viewers();
            let first = if unwatched {
                let Ok(event) = received.recv() else { return Ok(()) };
                Some(event)
            } else {
                match received.recv_timeout(RECHECK_INTERVAL) {
                    Ok(event) => Some(event),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            };
            let mut state = lock(&state);
            for event in first.into_iter().chain(received.try_iter().collect::<Vec<_>>()) {
                match event {
                    FanOutEvent::Viewer(exchange) => state.add_viewer(exchange),
                    FanOutEvent::Input | FanOutEvent::Picture => {}
                    FanOutEvent::Failed(error) => {
                        state.fail(&error);
                        return Err(error);
                    }
                    FanOutEvent::Closed => return Ok(()),
                }
            }
            state.update();
        }
    }
}

/// A sink that encodes each picture in the thread that submits it.
struct EncodingSink {
    pictures: Arc<Pictures>,
    /// The weak reference is dangling once the studio has ended.
    state: OnceLock<Weak<Mutex<State>>>,
}

impl EncodingSink {
    fn encode(&self) {
        if let Some(state) = self.state.get().and_then(Weak::upgrade) {
            let mut state = lock(&state);
            state.update();
            state.wait_until_sent();
            // Inputs that arrived meanwhile reach the source before it draws the next picture.
            let now = state.common.clock.now();
            state.take_inputs(now);
        }
    }
}

impl PictureSink for EncodingSink {
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

    fn is_coarse(&self) -> bool {
        self.pictures.is_coarse()
    }

    fn on_output(&self) {
        self.pictures.on_output();
    }

    fn on_failed(&self, error: SceneError) {
        self.pictures.on_failed(error);
    }
}

impl State {
    /// Returns whether there are no viewers, after informing the source of that.
    fn is_without_viewers(&mut self) -> bool {
        let unwatched = self.groups.is_empty();
        self.pictures.set_watched(!unwatched);
        if unwatched {
            self.source.set_watched(false);
        }
        unwatched
    }

    /// Handles everything that follows from new pictures, inputs and outputs.
    fn update(&mut self) {
        let now = self.common.clock.now();
        self.take_inputs(now);
        let viewers = self.groups.iter().flat_map(|group| &group.viewers);
        forward_outputs(self.source.as_mut(), &viewers.map(|viewer| viewer.exchange.as_ref()));
        self.regroup(now);
        self.offer(now);
        if let (Some(sound), Some(cues)) = (&self.sound, self.source.poll_cues()) {
            sound.on_cues(cues);
        }
        self.update_metrics();
    }

    fn fail(&self, error: &SceneError) {
        if !matches!(error, SceneError::ProgramEnded(_)) {
            tracing::error!(%error, "there are no more pictures");
        }
        for viewer in self.groups.iter().flat_map(|group| &group.viewers) {
            viewer.exchange.failure.report(error.to_string());
        }
    }

    fn wait_until_sent(&self) {
        let began = self.common.clock.now();
        for viewer in self.groups.iter().flat_map(|group| &group.viewers) {
            let spent = (self.common.clock.now() - began).as_nanos().unsigned_abs();
            viewer.exchange.wait_until_sent(MAX_SEND_WAIT.saturating_sub(Duration::from_nanos(spent)));
        }
    }

    fn add_viewer(&mut self, exchange: Arc<SessionExchange>) {
        exchange.set_events(self.events.clone());
        let member = MemberId(exchange.viewer.0);
        let encoding = Encoding::Layer(exchange.stream.begin_chain());
        let viewer = Viewer {
            exchange,
            member,
            encoding,
            predictor: Predictor::default(),
            views: Vec::new(),
            passed: VecDeque::new(),
            shown: None,
            left: false,
        };
        if self.groups.is_empty() {
            self.pictures.set_watched(true);
            self.source.set_watched(true);
        }
        let now = self.common.clock.now();
        self.source.on_viewer_joined(now, viewer.exchange.viewer);
        self.assign_group(now, viewer);
    }

    /// Adds a viewer to the group that can receive the same frames, or to a group of its own if nothing is shared.
    fn assign_group(&mut self, now: Time, viewer: Viewer) {
        let (kind, shared) = (viewer.kind(), self.common.shared_encodes);
        let place = self.groups.iter().position(|group| shared && group.kind == kind);
        let index = place.unwrap_or_else(|| {
            let Format { size, fps, .. } = self.common.format;
            self.groups.push(ViewerGroup {
                kind,
                simulcast: Simulcast::new(size.pixels() as u32, fps),
                layers: [const { None }; MAX_LAYERS],
                viewers: Vec::new(),
                counted: SharedStatistics::default(),
            });
            self.groups.len() - 1
        });
        let group = &mut self.groups[index];
        group.simulcast.on_member(now, viewer.member, viewer.facts());
        group.viewers.push(viewer);
    }

    fn take_inputs(&mut self, now: Time) {
        for viewer in self.groups.iter_mut().flat_map(|group| &mut group.viewers) {
            if viewer.exchange.has_left() {
                viewer.left = true;
                self.source.on_viewer_left(viewer.exchange.viewer);
                continue;
            }
            let handed = forward_to_application(self.source.as_mut(), now, &viewer.exchange);
            let Some((sample, received_at)) = handed else { continue };
            viewer.predictor.on_sample(received_at, &sample.views);
            let target = viewer.exchange.stream.target();
            let capture_to_display = target.render_to_display.unwrap_or(UNKNOWN_TO_DISPLAY);
            let display = ViewerDisplay { kind: target.display, views: &sample.views, received_at, capture_to_display };
            if viewer.exchange.acts() {
                self.source.on_display(now, viewer.exchange.viewer, &display);
            } else {
                // A source notices a viewer by its first input, so it gets an empty one of a spectator.
                self.source.on_input(now, viewer.exchange.viewer, &ViewerInput::default());
            }
            viewer.views = sample.views;
            if viewer.passed.len() < MAX_PENDING_INPUTS {
                viewer.passed.push_back(ForwardedInput { input: sample.seq, received_at, handed_at: now });
            }
        }
    }

    /// Drops viewers who have left, and moves those who have put on a headset or taken it off.
    fn regroup(&mut self, now: Time) {
        let mut moved = Vec::new();
        for group in &mut self.groups {
            let ViewerGroup { viewers, simulcast, kind, .. } = group;
            let gone = viewers.extract_if(.., |viewer| viewer.left || viewer.kind() != *kind);
            for mut viewer in gone {
                simulcast.on_member_left(now, viewer.member);
                if !viewer.left {
                    if let Encoding::Layer(chain) = &mut viewer.encoding {
                        *chain = viewer.exchange.stream.begin_chain();
                    }
                    moved.push(viewer);
                }
            }
        }
        for viewer in moved {
            self.assign_group(now, viewer);
        }
        // Their counts must reach the metrics before they are dropped.
        self.update_metrics();
        self.groups.retain(|group| !group.viewers.is_empty());
    }

    fn offer(&mut self, now: Time) {
        let Some(captured) = self.pictures.newest() else { return };
        let update = if captured.number == self.offered { PictureUpdate::Unchanged } else { PictureUpdate::New };
        self.offered = captured.number;
        let mut kinds: Vec<&mut Simulcast> = self.groups.iter_mut().map(|group| &mut group.simulcast).collect();
        share_layers(now, &mut kinds);
        let (mut own, only) = (0, self.groups.len() == 1);
        for group in &mut self.groups {
            own += group.offer(now, &self.common, (&captured, update), only);
        }
        self.metrics.on_own_encodes(own);
    }

    fn update_metrics(&mut self) {
        let mut figures = SharedFigures::default();
        for group in &mut self.groups {
            let now = group.simulcast.statistics();
            figures.on_counted(group.counted, now);
            group.counted = now;
            figures.layers += group.layers.iter().flatten().count();
            let sharing = |viewer: &&Viewer| group.simulcast.layer_of(viewer.member).is_some();
            figures.sharing += group.viewers.iter().filter(sharing).count();
        }
        self.metrics.on_shared(&figures);
    }
}
