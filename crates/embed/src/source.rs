//! The program as the studio sees it: a source that paces itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nearlight_scene::{
    Application, ApplicationMessage, DevicesDescription, Output, PictureSink, PushSource, SoundFeed, Viewer,
    ViewerDisplay, ViewerInput,
};
use nearlight_sound::{Converter, Feed};
use nearlight_units::Time;
use nearlight_wire::CursorShape;

use crate::event::{Events, What};
use crate::viewer::Viewers;

/// What waits for viewers until the studio takes it. Guess: several pictures' worth of more than a program has a reason to say.
const MOST_OUTPUTS: usize = 1_024;

/// How the pointer of those looks who come: free, because a program knows where it is and need not draw one.
pub(crate) struct Pointer {
    pub(crate) cursor: CursorShape,
    pub(crate) captured: bool,
}

impl Default for Pointer {
    fn default() -> Self {
        Self { cursor: CursorShape::Named("default".into()), captured: false }
    }
}

/// What the program's threads and the server's have in common.
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
    /// None: the options ask for no sound.
    pub(crate) sound: Option<Sound>,
}

/// The program's sound on its way to the encoders.
#[derive(Debug, Default)]
pub(crate) struct Sound {
    pub(crate) converter: Mutex<Converter>,
    /// Held for a copy of what is converted.
    pub(crate) feed: Arc<Mutex<Feed>>,
}

impl Shared {
    pub(crate) fn with_sound(sound: bool) -> Self {
        Self { sound: sound.then(Sound::default), ..Self::default() }
    }

    pub(crate) fn viewers(&self) -> MutexGuard<'_, Viewers> {
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outputs(&self) -> MutexGuard<'_, VecDeque<(Viewer, Output)>> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For those who come.
    pub(crate) fn pointer(&self) -> MutexGuard<'_, Pointer> {
        self.pointer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False where there is no room for all of them: then none is taken.
    pub(crate) fn put_out(&self, outputs: impl ExactSizeIterator<Item = (Viewer, Output)>) -> bool {
        let mut waiting = self.outputs();
        let fits = waiting.len() + outputs.len() <= MOST_OUTPUTS;
        // Of what waits already the studio knows, and it takes all there is.
        let is_news = fits && waiting.is_empty() && outputs.len() > 0;
        if fits {
            waiting.extend(outputs);
        }
        drop(waiting);
        if let Some(sink) = self.sink.get().filter(|_| is_news) {
            sink.on_output();
        }
        fits
    }

    pub(crate) fn has_outputs(&self) -> bool {
        !self.outputs().is_empty()
    }
}

/// The studio's end.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) shared: Arc<Shared>,
}

impl Application for Program {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn on_viewer_joined(&mut self, now: Time, viewer: Viewer) {
        self.shared.viewers().on_joined(viewer);
        self.shared.events.push(now, Some(viewer), What::ViewerJoined);
    }

    fn on_display(&mut self, _now: Time, viewer: Viewer, display: &ViewerDisplay<'_>) {
        self.shared.viewers().on_display(viewer, display);
    }

    fn on_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput) {
        let is_first = self.shared.viewers().on_input(viewer, input);
        if is_first {
            // Whoever sends input has had its welcome, and is not told in vain.
            let Pointer { cursor, captured } = &*self.shared.pointer();
            let output = Output::Pointer { cursor: cursor.clone(), captured: *captured };
            self.shared.put_out([(viewer, output)].into_iter());
        }
        for event in &input.events {
            self.shared.events.push(now, Some(viewer), What::Input(event.clone()));
        }
        self.shared.events.push(now, Some(viewer), What::Moved);
    }

    fn on_viewer_left(&mut self, viewer: Viewer) {
        self.shared.viewers().on_left(viewer);
        let now = self.shared.sink.get().map_or(Time::ZERO, |sink| sink.now());
        self.shared.events.push(now, Some(viewer), What::ViewerLeft);
    }

    fn on_devices(&mut self, now: Time, viewer: Viewer, devices: &DevicesDescription) {
        self.shared.events.push(now, Some(viewer), What::Devices(devices.clone()));
    }

    fn on_message(&mut self, now: Time, viewer: Viewer, message: ApplicationMessage) {
        self.shared.events.push(now, Some(viewer), What::Message(message));
    }

    fn on_clipboard(&mut self, now: Time, viewer: Viewer, text: String) {
        self.shared.events.push(now, Some(viewer), What::Clipboard(text));
    }

    fn poll_output(&mut self) -> Option<(Viewer, Output)> {
        self.shared.outputs().pop_front()
    }
}

impl PushSource for Program {
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
