//! The studio: one thread that owns the source of pictures, advances the shared world and renders each client's view.
//!
//! If the source paces itself, the thread runs [`crate::media::fan_out`] instead.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearlight_codec::convert::{self, PixelOrder};
use nearlight_codec::{CodecError, EncoderConfig, Encoders, Picture, PictureView, Size};
use nearlight_net::Clock;
use nearlight_scene::predict::Predictor;
use nearlight_scene::{
    Application, OpenedSource, PixelFormat, Pixels, PlanesView, RenderRequest, RenderedPicture, SceneError, Source,
    ViewerInput,
};
use nearlight_session::{
    CaptureAlignment, CaptureDecision, CaptureFacts, CaptureSchedule, FrameSkipper, ReceivedInput, UNKNOWN_TO_DISPLAY,
};
use nearlight_units::{InputSeq, Span, Time};
use nearlight_wire::{DisplayKind, Fov, InputSample, Pose, View, marker::Marker};

use crate::media::adaptation::{SizeAdaptation, SlotLoad};
use crate::media::encoding::{EncodeJob, EncoderLane, EncoderPlacement, PictureFacts, display_budget};
use crate::media::fan_out::{FanOut, FanOutEvent};
use crate::media::overload::{FrameSlot, OverloadMonitor};
use crate::media::sound::Mixer;
use crate::metrics::Metrics;
use crate::rooms::SharedRoom;
use crate::session::exchange::{SessionExchange, ToApplication};

/// Smallest width and height to which a controller can shrink a picture. Guess: the world is still recognisable in it.
const MIN_PICTURE: Size = Size { width: 256, height: 144 };

/// Half the interpupillary distance in metres: adults average 63 mm.
const HALF_INTERPUPILLARY_METRES: f32 = 0.0315;

/// The size and frame rate of the pictures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub(crate) size: Size,
    pub(crate) fps: u16,
    /// Whether a screen's picture has a half for each eye, as a headset's has.
    pub(crate) stereo: bool,
}

impl Format {
    pub(crate) fn frame_interval(self) -> Span {
        Span::from_secs(1) / i64::from(self.fps)
    }

    /// Returns the number of views in the picture for a display.
    pub(crate) const fn views_for(self, display: DisplayKind) -> u8 {
        match display {
            DisplayKind::Screen if !self.stereo => 1,
            DisplayKind::Screen | DisplayKind::Headset => 2,
        }
    }

    /// Returns the size of the picture for a display, with each side multiplied by `scale`. Both eyes of a headset together get as many
    /// pixels as a screen, and each eye's half is square, in whole macroblocks.
    pub(crate) fn size_for(self, display: DisplayKind, scale: f64) -> Size {
        let Size { width, height } = self.size;
        if display == DisplayKind::Screen {
            let shrunk = |side: u16, least: u16| {
                let even = (f64::from(side) * scale / 2.0).round() as u16 * 2;
                even.max(least.min(side)).min(side)
            };
            return Size { width: shrunk(width, MIN_PICTURE.width), height: shrunk(height, MIN_PICTURE.height) };
        }
        let pixels = f64::from(width) * f64::from(height);
        let side = ((pixels / 2.0).sqrt() * scale / 16.0).round().max(8.0) * 16.0;
        Size { width: side as u16 * 2, height: side as u16 }
    }
}

/// The settings of the studio.
pub(crate) struct StudioOptions {
    pub(crate) format: Format,
    /// The sizes that pictures may have instead, smallest first; none if the size was given.
    pub(crate) sizes: Vec<Size>,
    /// What the owner can do if the machine is too slow.
    pub(crate) advice: &'static str,
    pub(crate) clock: Clock,
    pub(crate) encoders: Encoders,
    /// The mixer; none if there is no sound.
    pub(crate) sound: Option<Mixer>,
    /// The room that represents the world; none if the source is not a room.
    pub(crate) room: Option<Arc<SharedRoom>>,
    pub(crate) captures: CaptureAlignment,
    /// Whether viewers who receive the same pictures share encoders.
    pub(crate) shared_encodes: bool,
    /// The thread in which pictures of a source that paces itself are encoded.
    pub(crate) placement: EncoderPlacement,
    pub(crate) metrics: Arc<Metrics>,
}

/// Maximum number of viewers and members who wait for the studio, which takes them between pictures. Guess: more never join at once.
const MAX_QUEUED_ARRIVALS: usize = 256;

/// A viewer or a member for whom the studio has to work.
enum Arrival {
    Viewer(Arc<SessionExchange>),
    /// A member of the room has joined over a network.
    Member,
}

/// The channel on which arrivals are announced, by the kind of source.
enum Arrivals {
    OnDemand(SyncSender<Arrival>),
    SelfPaced(SyncSender<FanOutEvent>),
}

/// Announces the end explicitly: a source that paces itself holds a sender too, so its studio would never see the channel closed.
impl Drop for Arrivals {
    fn drop(&mut self) {
        if let Self::SelfPaced(events) = self {
            let _ = events.send(FanOutEvent::Closed);
        }
    }
}

/// The handle of the studio's thread, which ends when the handle is dropped. The drop waits for it: a graphics driver that still draws while
/// the process exits crashes.
pub(crate) struct Studio {
    /// None once the thread has been asked to end.
    arrivals: Option<Arrivals>,
    thread: Option<JoinHandle<Result<(), SceneError>>>,
}

impl Studio {
    pub(crate) fn start(source: OpenedSource, options: StudioOptions) -> std::io::Result<Self> {
        let name = || thread::Builder::new().name("studio".into());
        let (arrivals, thread) = match source {
            OpenedSource::OnDemand(source) => {
                let (announcing, arrivals) = sync_channel(MAX_QUEUED_ARRIVALS);
                let StudioOptions { format, sizes, advice, clock, encoders, sound, room, captures, .. } = options;
                let adaptation = SizeAdaptation::new(sizes, format.size, format.fps);
                let viewers = Vec::new();
                let render_loop =
                    RenderLoop { source, format, adaptation, advice, clock, encoders, sound, room, captures, viewers };
                (Arrivals::OnDemand(announcing), name().spawn(move || render_loop.run(&arrivals))?)
            }
            OpenedSource::SelfPaced(source) => {
                let (events, fan_out) = FanOut::start(source, options)?;
                (Arrivals::SelfPaced(events), name().spawn(move || fan_out.run())?)
            }
        };
        Ok(Self { arrivals: Some(arrivals), thread: Some(thread) })
    }

    /// Adds a viewer. Returns false when the studio has failed. Waits while too many others are being added.
    pub(crate) fn add_viewer(&self, exchange: Arc<SessionExchange>) -> bool {
        match &self.arrivals {
            Some(Arrivals::OnDemand(arrivals)) => arrivals.send(Arrival::Viewer(exchange)).is_ok(),
            Some(Arrivals::SelfPaced(events)) => events.send(FanOutEvent::Viewer(exchange)).is_ok(),
            None => false,
        }
    }

    /// Wakes the studio because a member has joined the world's room over a network. The world then advances without viewers too.
    pub(crate) fn on_member(&self) {
        if let Some(Arrivals::OnDemand(arrivals)) = &self.arrivals {
            // If the queue is full, the studio wakes up anyway.
            let _ = arrivals.try_send(Arrival::Member);
        }
    }

    /// Ends the thread and returns how it ended.
    pub(crate) fn finish(mut self) -> Result<(), SceneError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), SceneError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        drop(self.arrivals.take());
        thread.join().unwrap_or_else(|_| Err(SceneError::Adapter("the studio thread panicked; see the log".into())))
    }

    /// Returns whether the studio's thread has ended.
    pub(crate) fn has_failed(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

impl Drop for Studio {
    fn drop(&mut self) {
        // Whoever wants to know how it ended calls `finish`.
        let _ = self.end();
    }
}

/// One viewer as the studio sees it.
struct ViewerState {
    exchange: Arc<SessionExchange>,
    lane: EncoderLane,
    predictor: Predictor,
    views: Vec<View>,
    input: InputSeq,
    input_received_at: Option<Time>,
    skipper: FrameSkipper,
    ended: bool,
}

struct RenderLoop {
    source: Box<dyn Source>,
    /// Its size is the present one.
    format: Format,
    adaptation: SizeAdaptation,
    /// What the owner can do if the machine is too slow.
    advice: &'static str,
    clock: Clock,
    encoders: Encoders,
    /// The mixer; none if there is no sound.
    sound: Option<Mixer>,
    room: Option<Arc<SharedRoom>>,
    captures: CaptureAlignment,
    viewers: Vec<ViewerState>,
}

impl RenderLoop {
    fn run(mut self, arrivals: &Receiver<Arrival>) -> Result<(), SceneError> {
        let mut schedule = CaptureSchedule::new(self.clock.now(), self.format.fps, self.captures);
        let mut overload = OverloadMonitor::new(self.format.fps);
        loop {
            if self.viewers.is_empty() {
                overload.on_idle();
                self.adaptation.on_idle();
            }
            if self.viewers.is_empty() && !self.room.as_ref().is_some_and(|room| room.has_remote_members()) {
                // Without viewers and members the studio sleeps until somebody joins.
                let Ok(arrival) = arrivals.recv() else { return Ok(()) };
                self.on_arrival(arrival);
                schedule.restart(self.clock.now());
            }
            let wait = schedule.due().saturating_since(self.clock.now());
            match arrivals.recv_timeout(Duration::from_nanos(wait.as_nanos().unsigned_abs())) {
                Ok(arrival) => {
                    self.on_arrival(arrival);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            let began = self.clock.now();
            let slot = self.draw_all().inspect_err(|error| {
                tracing::error!(%error, "there are no more pictures");
                for viewer in &self.viewers {
                    viewer.exchange.failure.report(error.to_string());
                }
            })?;
            let now = self.clock.now();
            self.adapt(now, SlotLoad { slot, rendering: now - began, encoding: self.take_encoding_time() });
            // As long as the size can still shrink, that is what helps.
            if let Some(made) = overload.on_slot(now, slot).filter(|_| !self.adaptation.can_shrink()) {
                let Format { size: Size { width, height }, fps, .. } = self.format;
                let advice = self.advice;
                tracing::warn!(
                    "this machine produces {made:.1} of {fps} pictures per second at {width}x{height}; {advice}"
                );
            }
            // This follows rendering, so that a picture that took longer than a frame interval shifts the next moments.
            schedule.on_passed(
                self.clock.now(),
                self.viewers.iter().map(|viewer| viewer.exchange.stream.target().best_capture),
            );
        }
    }

    /// Changes the size of the pictures if the machine sustains another one.
    fn adapt(&mut self, now: Time, load: SlotLoad) {
        let Some(size) = self.adaptation.on_slot(now, load) else { return };
        let before = self.format.size;
        self.format.size = size;
        tracing::info!(%before, now = %size, "the size of the pictures follows what this machine sustains");
    }

    /// Returns how long the busiest encoder has worked since the last call.
    fn take_encoding_time(&self) -> Span {
        self.viewers.iter().map(|viewer| viewer.lane.take_encoding_time()).max().unwrap_or(Span::ZERO)
    }

    fn on_arrival(&mut self, arrival: Arrival) {
        if let Arrival::Viewer(exchange) = arrival {
            self.add_viewer(exchange);
        }
    }

    fn add_viewer(&mut self, exchange: Arc<SessionExchange>) {
        let target = exchange.stream.target();
        let size = self.format.size_for(target.display, target.step.scale);
        let config = EncoderConfig {
            size,
            fps: self.format.fps,
            rate: target.encoder.rate,
            threads: EncoderConfig::default_threads(),
        };
        match EncoderLane::start(Arc::clone(&exchange), config, self.clock, self.encoders.clone()) {
            Ok(lane) => self.viewers.push(ViewerState {
                exchange,
                lane,
                predictor: Predictor::default(),
                views: Vec::new(),
                input: InputSeq(0),
                input_received_at: None,
                skipper: FrameSkipper::default(),
                ended: false,
            }),
            Err(error) => {
                exchange.failure.report(format!("no thread for the encoder: {error}"));
            }
        }
    }

    fn draw_all(&mut self) -> Result<FrameSlot, SceneError> {
        let now = self.clock.now();
        for viewer in &mut self.viewers {
            if viewer.exchange.has_left() {
                viewer.ended = true;
                self.source.on_viewer_left(viewer.exchange.viewer);
                continue;
            }
            if let Some((sample, received_at)) = forward_to_application(self.source.as_mut(), now, &viewer.exchange) {
                // Times are those of the server's clock. The client's differs by an unknown offset, and only differences matter here.
                viewer.predictor.on_sample(received_at, &sample.views);
                viewer.views = sample.views;
                viewer.input = sample.seq;
                viewer.input_received_at = Some(received_at);
            }
        }
        self.viewers.retain(|viewer| !viewer.ended);
        self.source.advance(now);
        if let Some(shared) = &self.room {
            shared.exchange(|room| self.source.exchange(now, room));
        }
        forward_outputs(self.source.as_mut(), &self.viewers.iter().map(|viewer| viewer.exchange.as_ref()));
        if let (Some(sound), Some(cues)) = (&self.sound, self.source.poll_cues()) {
            sound.on_cues(cues);
        }
        let mut slot = FrameSlot::Skipped;
        for viewer in &mut self.viewers {
            slot = slot.max(draw(self.source.as_mut(), self.format, self.clock, viewer)?);
        }
        Ok(slot)
    }
}

/// Forwards what a viewer has sent to the application, which takes nothing from spectators but their names and keys. Returns the newest
/// input, if any, and when it arrived.
pub(crate) fn forward_to_application(
    application: &mut dyn Application,
    now: Time,
    exchange: &SessionExchange,
) -> Option<(InputSample, Time)> {
    let (viewer, acts) = (exchange.viewer, exchange.acts());
    let input = exchange.input.take().map(|ReceivedInput { sample, received_at, events, hands, .. }| {
        if acts {
            let done = ViewerInput { head: sample.head, devices: sample.devices.clone(), hands, events };
            application.on_input(now, viewer, &done);
        } else {
            application.on_spectator(now, viewer);
        }
        (sample, received_at)
    });
    for to_application in exchange.application.take_client_data() {
        match to_application {
            ToApplication::Name(name) => application.on_name(now, viewer, name),
            ToApplication::SeatKey(key) => application.on_seat_key(now, viewer, key),
            _ if !acts => {}
            ToApplication::Message(message) => application.on_message(now, viewer, message),
            ToApplication::ClipboardAnnounced => application.on_clipboard_announced(now, viewer),
            ToApplication::Clipboard(text) => application.on_clipboard(now, viewer, text),
            ToApplication::Devices(devices) => application.on_devices(now, viewer, &devices),
        }
    }
    input
}

/// Forwards the application's outputs to the viewers.
pub(crate) fn forward_outputs<'a>(
    application: &mut dyn Application,
    viewers: &(impl Iterator<Item = &'a SessionExchange> + Clone),
) {
    while let Some((to, output)) = application.poll_output() {
        // A viewer that has left needs no output.
        if let Some(exchange) = viewers.clone().find(|exchange| exchange.viewer == to) {
            exchange.application.on_output(output);
        }
    }
}

/// Renders one client's picture and passes it to the encoder, unless the frame is skipped.
fn draw(
    source: &mut dyn Source,
    format: Format,
    clock: Clock,
    viewer: &mut ViewerState,
) -> Result<FrameSlot, SceneError> {
    let target = viewer.exchange.stream.target();
    let facts = CaptureFacts::new(target.refusal, target.step, viewer.lane.has_picture());
    let decision = viewer.skipper.on_moment(&facts);
    if let CaptureDecision::Skip(reason) = decision {
        viewer.exchange.skipped.on_skipped(reason);
        return Ok(decision.into());
    }
    let mut picture = viewer.lane.poll_picture().expect("a frame is captured where the lane has a picture");
    let size = format.size_for(target.display, target.step.scale);
    let render_started_at = clock.now();
    let display_at = render_started_at + target.render_to_display.unwrap_or(UNKNOWN_TO_DISPLAY);
    let wanted = (target.display, format.views_for(target.display));
    let views = views_at(&viewer.views, &viewer.exchange, &viewer.predictor, wanted, size, display_at);
    let id = viewer.exchange.stream.take_frame_id();
    let request =
        RenderRequest { viewer: viewer.exchange.viewer, views: &views, width: size.width, height: size.height };
    let mut rendered_at = render_started_at;
    let mut converted = Ok(());
    source.render(&request, &mut |rendered| {
        rendered_at = clock.now();
        converted = convert_rendered(rendered, &mut picture);
    })?;
    if let Err(error) = converted {
        viewer.lane.put_back(picture);
        return Err(SceneError::Adapter(format!("its picture cannot be converted: {error}")));
    }
    viewer.lane.add_marker(Marker { frame: id, input: viewer.input }, &mut picture);
    let facts = PictureFacts {
        size,
        id,
        input: viewer.input,
        input_received_at: viewer.input_received_at.unwrap_or(render_started_at),
        render_started_at,
        rendered_at,
        converted_at: clock.now(),
        display_at,
        deadline: render_started_at + display_budget(format.frame_interval()),
        views,
    };
    viewer.ended = !viewer.lane.encode(EncodeJob { picture, in_place: None, captured: None, facts });
    Ok(decision.into())
}

/// Returns the views to draw for a display, as [`Predictor::views_for`] predicts them. Before the first sample they are those of the place
/// at which the user starts.
pub(crate) fn views_at(
    sampled: &[View],
    exchange: &SessionExchange,
    predictor: &Predictor,
    (display, wanted): (DisplayKind, u8),
    size: Size,
    at: Time,
) -> Vec<View> {
    let wanted = usize::from(wanted);
    if sampled.len() == wanted {
        return predictor.views_for(display, at);
    }
    // Either the display has changed and its first sample has not arrived yet, or there has been no sample at all. A screen in stereo never
    // sends two views.
    let pose = sampled.first().map_or_else(|| exchange.input.head(), |view| view.pose);
    let aspect = f32::from(size.width) / wanted as f32 / f32::from(size.height);
    let view = View { pose, fov: Fov::symmetric(1.2, aspect) };
    match (display, sampled.first()) {
        (DisplayKind::Screen, known) if wanted == 2 => stereo_views(*known.unwrap_or(&view), size).to_vec(),
        _ => vec![view; wanted],
    }
}

/// Returns the views of both eyes in front of a screen, given the single view of the head. Each fills one half of the picture, with the
/// vertical field of view of the head.
fn stereo_views(view: View, size: Size) -> [View; 2] {
    let View { pose, fov } = view;
    let [x, y, z, w] = pose.orientation;
    let right = [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)];
    let across = (fov.up - fov.down) / 2.0 * f32::from(size.width) / 2.0 / f32::from(size.height);
    [-HALF_INTERPUPILLARY_METRES, HALF_INTERPUPILLARY_METRES].map(|shift| View {
        pose: Pose { position: std::array::from_fn(|axis| pose.position[axis] + shift * right[axis]), ..pose },
        fov: Fov { left: -across, right: across, ..fov },
    })
}

/// Converts a rendered picture into an encoder's picture, or copies it if the source's last pass has converted it.
fn convert_rendered(rendered: RenderedPicture<'_>, picture: &mut Picture) -> Result<(), CodecError> {
    match rendered {
        RenderedPicture::Pixels(pixels) => convert::to_picture(for_codec(pixels), picture),
        RenderedPicture::Planes(PlanesView { width, height, luma, blue, red, luma_stride, chroma_stride }) => {
            let size = Size { width, height };
            let view = PictureView { size, luma, blue, red, luma_stride, chroma_stride };
            view.check()?;
            view.copy_to(picture);
            Ok(())
        }
    }
}

pub(crate) fn for_codec(pixels: Pixels<'_>) -> convert::Pixels<'_> {
    let order = match pixels.format {
        PixelFormat::Rgba => PixelOrder::Rgba,
        PixelFormat::Bgra => PixelOrder::Bgra,
    };
    let size = Size { width: pixels.width, height: pixels.height };
    convert::Pixels { size, order, bytes: pixels.bytes, stride: pixels.stride }
}

#[cfg(test)]
mod lab_agreement;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_s_user_has_two_eyes_where_that_is_wanted() {
        let size = Size { width: 3_664, height: 1_920 };
        let stereo = Format { size, fps: 60, stereo: true };
        assert_eq!(stereo.size_for(DisplayKind::Screen, 1.0), size, "as it was asked for");
        assert_eq!([DisplayKind::Screen, DisplayKind::Headset].map(|display| stereo.views_for(display)), [2, 2]);
        assert_eq!(Format { stereo: false, ..stereo }.views_for(DisplayKind::Screen), 1);
        // A quarter turn to the left: what was on the right is ahead, which is towards -z.
        let half = std::f32::consts::FRAC_1_SQRT_2;
        let pose = Pose { position: [1.0, 1.6, 2.0], orientation: [0.0, half, 0.0, half] };
        let eyes = stereo_views(View { pose, fov: Fov::symmetric(1.2, 1.9) }, size);
        for (eye, z) in eyes.iter().zip([2.0315, 1.9685]) {
            let [x, y, found] = eye.pose.position;
            assert!((x - 1.0).abs() < 1e-5 && (y - 1.6).abs() < 1e-5 && (found - z).abs() < 1e-5, "{eye:?}");
            assert_eq!(Pose { position: pose.position, ..eye.pose }, pose, "neither eye squints");
            let Fov { left, right, down, up } = eye.fov;
            assert!(((right - left) / (up - down) - 1_832.0 / 1_920.0).abs() < 1e-5, "{eye:?}");
        }
    }

    #[test]
    fn pictures_shrink_in_proportion_down_to_the_least() {
        let format = Format { size: Size { width: 1920, height: 1080 }, fps: 30, stereo: false };
        let screen = |scale| format.size_for(DisplayKind::Screen, scale);
        let headset = |scale| format.size_for(DisplayKind::Headset, scale);
        let size = |width, height| Size { width, height };
        for (lines, screen_size) in [(1_080, (1_920, 1_080)), (720, (1_280, 720)), (540, (960, 540)), (144, (256, 144))]
        {
            assert_eq!(screen(f64::from(lines) / 1_080.0), size(screen_size.0, screen_size.1), "{lines}");
        }
        assert_eq!((screen(0.01), headset(0.01)), (size(256, 144), size(256, 128)));
        assert_eq!((headset(1.0), headset(0.5)), (size(2_048, 1_024), size(1_024, 512)));
        // A picture that is already small keeps its size.
        let small = Format { size: size(200, 100), ..format };
        assert_eq!(small.size_for(DisplayKind::Screen, 0.2), small.size);
        for lines in 100..=1_080 {
            let scale = f64::from(lines) / 1_080.0;
            assert!([screen(scale), headset(scale)].iter().all(|size| size.check().is_ok()), "{lines}");
        }
    }
}
