//! The program as the studio sees it: a source that paces itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use nearlight_scene::{
    Application, ApplicationMessage, DevicesDescription, Output, PictureSink, PushSource, SoundFeed, Viewer,
    ViewerDisplay, ViewerInput,
};
use nearlight_sound::{Converter, Feed};
use nearlight_units::{Time, lock};
use nearlight_wire::CursorShape;

use crate::event::{EventKind, Events};
use crate::viewer::Viewers;

/// Maximum number of outputs to viewers that wait until the studio takes them. Guess: several pictures' worth of more messages than a
/// program has a reason to send.
const MAX_QUEUED_OUTPUTS: usize = 1_024;

/// The pointer of viewers that connect. By default it is free: the program knows where it is and need not draw one.
pub(crate) struct Pointer {
    pub(crate) cursor: CursorShape,
    pub(crate) captured: bool,
}

impl Default for Pointer {
    fn default() -> Self {
        Self { cursor: CursorShape::Named("default".into()), captured: false }
    }
}

/// State that the program's threads and the server's threads share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) sink: OnceLock<Arc<dyn PictureSink>>,
    pub(crate) watched: AtomicBool,
    pub(crate) events: Events,
    viewers: Mutex<Viewers>,
    outputs: Mutex<VecDeque<(Viewer, Output)>>,
    pointer: Mutex<Pointer>,
    pub(crate) submitted: AtomicU64,
    pub(crate) unwatched: AtomicU64,
    /// `None` when the options have sound disabled.
    pub(crate) sound: Option<SoundInput>,
}

/// The path of the program's sound to the encoders.
#[derive(Debug, Default)]
pub(crate) struct SoundInput {
    pub(crate) converter: Mutex<Converter>,
    /// Locked only while converted samples are copied.
    pub(crate) feed: Arc<Mutex<Feed>>,
}

impl Shared {
    pub(crate) fn with_sound(sound: bool) -> Self {
        Self { sound: sound.then(SoundInput::default), ..Self::default() }
    }

    pub(crate) fn viewers(&self) -> MutexGuard<'_, Viewers> {
        lock(&self.viewers)
    }

    fn outputs(&self) -> MutexGuard<'_, VecDeque<(Viewer, Output)>> {
        lock(&self.outputs)
    }

    /// Returns the pointer of viewers that connect.
    pub(crate) fn pointer(&self) -> MutexGuard<'_, Pointer> {
        lock(&self.pointer)
    }

    /// Queues all of the outputs, or none when there is not enough room for all of them. Returns whether they are queued.
    pub(crate) fn queue_outputs(&self, outputs: impl ExactSizeIterator<Item = (Viewer, Output)>) -> bool {
        let mut queue = self.outputs();
        let fits = queue.len() + outputs.len() <= MAX_QUEUED_OUTPUTS;
        // The studio takes everything once it is notified, so that one notification for a queue that was empty is enough.
        let must_notify = fits && queue.is_empty() && outputs.len() > 0;
        if fits {
            queue.extend(outputs);
        }
        drop(queue);
        if let Some(sink) = self.sink.get().filter(|_| must_notify) {
            sink.on_output();
        }
        fits
    }

    pub(crate) fn has_outputs(&self) -> bool {
        !self.outputs().is_empty()
    }
}

/// The program as a source of pictures for the studio.
pub(crate) struct ProgramSource {
    pub(crate) name: String,
    pub(crate) shared: Arc<Shared>,
}

impl Application for ProgramSource {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn on_viewer_joined(&mut self, now: Time, viewer: Viewer) {
        self.shared.viewers().on_joined(viewer);
        self.shared.events.push(now, Some(viewer), EventKind::ViewerJoined);
    }

    fn on_display(&mut self, _now: Time, viewer: Viewer, display: &ViewerDisplay<'_>) {
        self.shared.viewers().on_display(viewer, display);
    }

    fn on_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput) {
        let is_first = self.shared.viewers().on_input(viewer, input);
        if is_first {
            // A viewer that sends input has had its welcome, so that it takes this output.
            let Pointer { cursor, captured } = &*self.shared.pointer();
            let output = Output::Pointer { cursor: cursor.clone(), captured: *captured };
            self.shared.queue_outputs([(viewer, output)].into_iter());
        }
        for event in &input.events {
            self.shared.events.push(now, Some(viewer), EventKind::Input(event.clone()));
        }
        self.shared.events.push(now, Some(viewer), EventKind::Moved);
    }

    fn on_viewer_left(&mut self, viewer: Viewer) {
        self.shared.viewers().on_left(viewer);
        let now = self.shared.sink.get().map_or(Time::ZERO, |sink| sink.now());
        self.shared.events.push(now, Some(viewer), EventKind::ViewerLeft);
    }

    fn on_devices(&mut self, now: Time, viewer: Viewer, devices: &DevicesDescription) {
        self.shared.events.push(now, Some(viewer), EventKind::Devices(devices.clone()));
    }

    fn on_message(&mut self, now: Time, viewer: Viewer, message: ApplicationMessage) {
        self.shared.events.push(now, Some(viewer), EventKind::Message(message));
    }

    fn on_clipboard(&mut self, now: Time, viewer: Viewer, text: String) {
        self.shared.events.push(now, Some(viewer), EventKind::Clipboard(text));
    }

    fn poll_output(&mut self) -> Option<(Viewer, Output)> {
        self.shared.outputs().pop_front()
    }
}

impl PushSource for ProgramSource {
    fn start(&mut self, sink: Arc<dyn PictureSink>) -> std::io::Result<()> {
        let _ = self.shared.sink.set(sink);
        Ok(())
    }

    fn set_watched(&mut self, watched: bool) {
        self.shared.watched.store(watched, Ordering::Relaxed);
    }

    fn sound(&mut self) -> Option<Box<dyn SoundFeed>> {
        self.shared.sound.as_ref().map(|sound| Box::new(Arc::clone(&sound.feed)) as Box<dyn SoundFeed>)
    }
}
