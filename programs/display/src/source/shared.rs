//! What the source shares with its threads: the state of which viewers are informed, and the outputs for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use nearlight_scene::{Output, PictureSink, SceneError, Viewer};
use nearlight_units::lock;
use nearlight_wire::{CursorShape, Haptics, HapticsTarget, MAX_HAPTICS_MILLISECONDS};
use serde_json::json;

use super::messages::{clipboard_output, message, page_message, windows_page_message};
use crate::input::controls::ControlState;
use crate::input::gamepad::Rumble;
use crate::specification::ProgramExit;
use crate::watchdog::TroubleReport;
use crate::x11::capture::CaptureFlags;
use crate::x11::cursor::hidden;
use crate::x11::windows::WindowEvent;

/// Maximum number of outputs queued for the studio. Guess: the studio takes them at once.
const MAX_QUEUED_OUTPUTS: usize = 256;

pub(super) struct SharedSource {
    pub(super) sink: OnceLock<Arc<dyn PictureSink>>,
    pub(super) flags: CaptureFlags,
    pub(super) state: Mutex<State>,
    pub(super) exit: Arc<OnceLock<ProgramExit>>,
    /// How many gamepads the program can have.
    pub(super) gamepads: AtomicU8,
    /// Whether viewers' events were lost, because the injecting thread took none for too long.
    pub(super) events_lost: AtomicBool,
    /// Number of texts for the clipboard that wait for that thread.
    pub(super) waiting_texts: AtomicUsize,
    pub(super) name: String,
}

/// State of which viewers are informed, and the queued outputs.
pub(super) struct State {
    pub(super) pointer: (CursorShape, bool),
    /// Whether the display draws the pointer into the picture, at the driver's position.
    pub(super) pointer_in_picture: bool,
    pub(super) windows: String,
    /// The sentence for viewers while a program hinders the display.
    pub(super) trouble: Option<String>,
    pub(super) controls: ControlState,
    pub(super) viewers: BTreeSet<Viewer>,
    /// Names of the viewers who have given one.
    pub(super) names: BTreeMap<Viewer, String>,
    pub(super) outputs: VecDeque<(Viewer, Output)>,
}

impl SharedSource {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn on_window_event(&self, event: WindowEvent) {
        match event {
            WindowEvent::Pointer { cursor, captured } => {
                self.state().pointer = (cursor.clone(), captured);
                self.broadcast(&Output::Pointer { cursor, captured });
            }
            WindowEvent::Clipboard(text) => {
                let driver = self.state().controls.driver;
                if let Some(driver) = driver {
                    self.send(driver, clipboard_output(text));
                }
            }
            WindowEvent::Resized => {}
            WindowEvent::Windows(windows) => {
                let windows = windows_page_message(&windows);
                let output = Output::Message(message(&windows));
                self.state().windows = windows;
                self.broadcast(&output);
            }
        }
    }

    /// Sends each viewer the state of the controls from its point of view, after updating the state with `controls` if there is one.
    pub(super) fn announce_controls(&self, controls: Option<ControlState>) {
        let mut state = self.state();
        state.controls = controls.unwrap_or_else(|| std::mem::take(&mut state.controls));
        let mut outputs: Vec<_> = state.viewers.iter().map(|viewer| (*viewer, state.controls_for(*viewer))).collect();
        if state.pointer_in_picture {
            outputs.extend(state.viewers.iter().map(|viewer| (*viewer, state.pointer_for(*viewer))));
        }
        state.queue(outputs.into_iter());
        drop(state);
        self.notify_sink();
    }

    /// Rumbles the driver's gamepad that backs the program's gamepad `number`.
    pub(super) fn on_rumble(&self, number: u8, Rumble { strong, weak, milliseconds }: Rumble) {
        let receiver = {
            let state = self.state();
            let gamepad = state.controls.gamepads.get(usize::from(number)).copied().flatten();
            state.controls.driver.zip(gamepad)
        };
        let Some((driver, gamepad)) = receiver else { return };
        let strength = |of: u16| f32::from(of) / f32::from(u16::MAX);
        let milliseconds = if milliseconds == 0 { u16::MAX } else { milliseconds }.min(MAX_HAPTICS_MILLISECONDS);
        let haptics = Haptics {
            target: HapticsTarget::Gamepad(gamepad),
            milliseconds,
            strong: strength(strong),
            weak: strength(weak),
        };
        self.send(driver, Output::Haptics(haptics));
    }

    /// Tells a viewer that its input has no effect.
    pub(super) fn on_refused(&self, viewer: Viewer) {
        self.send(viewer, Output::Message(message(&page_message("refused", &true.into()))));
    }

    /// Tells a viewer that its text is not on the program's clipboard.
    pub(super) fn on_clipboard_refused(&self, viewer: Viewer) {
        let words = "What you pasted did not reach the program, because another viewer has the controls.";
        self.send(viewer, Output::Message(message(&page_message("notice", &words.into()))));
    }

    /// Returns whether a viewer's text may be put on the clipboard: the driver's, or anyone's if nobody has the controls.
    pub(super) fn may_paste(&self, viewer: Viewer) -> bool {
        self.state().controls.driver.is_none_or(|driver| driver == viewer)
    }

    /// Tells the viewers and the log that a program hinders the display, or no longer does.
    pub(super) fn on_trouble(&self, report: TroubleReport) {
        let words = match report {
            TroubleReport::Hindered(trouble) => {
                let words = trouble.words(&self.name);
                tracing::warn!("{words}");
                self.state().trouble = Some(words.clone());
                words
            }
            TroubleReport::Recovered => {
                tracing::info!("the display of {} answers again", self.name);
                self.state().trouble = None;
                format!("The display of {} answers again.", self.name)
            }
        };
        self.notify_all(words);
    }

    /// Drops an event that the injecting thread has no room for. Viewers and log are told once, until the thread goes on.
    pub(super) fn on_event_lost(&self) {
        if !self.events_lost.swap(true, Ordering::Relaxed) {
            let words =
                format!("The display of {} takes no input: what was typed and done meanwhile is lost.", self.name);
            tracing::warn!("{words}");
            self.notify_all(words);
        }
    }

    /// Called when the injecting thread has taken a text for the clipboard.
    pub(super) fn on_text_taken(&self) {
        let less = |waiting: usize| Some(waiting.saturating_sub(1));
        let _ = self.waiting_texts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Sends a sentence to all viewers.
    pub(super) fn notify_all(&self, words: String) {
        self.broadcast(&Output::Message(message(&page_message("notice", &words.into()))));
    }

    fn send(&self, viewer: Viewer, output: Output) {
        self.state().queue(std::iter::once((viewer, output)));
        self.notify_sink();
    }

    pub(super) fn broadcast(&self, output: &Output) {
        let mut state = self.state();
        let viewers: Vec<Viewer> = state.viewers.iter().copied().collect();
        state.queue(viewers.into_iter().map(|viewer| (viewer, output.clone())));
        drop(state);
        self.notify_sink();
    }

    fn notify_sink(&self) {
        if let Some(sink) = self.sink.get() {
            sink.on_output();
        }
    }

    pub(super) fn fail(&self, reason: String) {
        self.end(SceneError::Program(reason));
    }

    pub(super) fn end(&self, reason: SceneError) {
        if let Some(sink) = self.sink.get().filter(|_| !self.flags.is_closed()) {
            sink.on_failed(reason);
        }
    }
}

impl State {
    pub(super) fn queue(&mut self, outputs: impl Iterator<Item = (Viewer, Output)>) {
        let room = MAX_QUEUED_OUTPUTS.saturating_sub(self.outputs.len());
        self.outputs.extend(outputs.take(room));
    }

    pub(super) fn pointer_for(&self, viewer: Viewer) -> Output {
        let (cursor, captured) = self.pointer.clone();
        let drives = self.controls.driver == Some(viewer);
        Output::Pointer { cursor: if self.pointer_in_picture && drives { hidden() } else { cursor }, captured }
    }

    pub(super) fn controls_for(&self, viewer: Viewer) -> Output {
        let ControlState { driver, requests, .. } = &self.controls;
        let holder = driver.map(|driver| if driver == viewer { "you" } else { "other" });
        let content = json!({
            "holder": holder,
            "name": driver.and_then(|driver| self.names.get(&driver)),
            "asked": requests.contains(&viewer),
            "wanted": holder == Some("you") && !requests.is_empty(),
            "viewers": self.viewers.len(),
        });
        Output::Message(message(&page_message("controls", &content)))
    }
}
