//! The viewer's handle and its threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use nearlight_events::Summary;
use nearlight_net::Clock;
use nearlight_session::{ClockEstimate, ReceiverStatistics};
use nearlight_units::{Bitrate, Span, Time, lock};
use nearlight_wire::{ApplicationMessage, DevicesDescription, Pose, Welcome};
use tokio::sync::{mpsc, watch};

use crate::inbox::{Event, EventKind, Inbox, Incoming};
use crate::picture::{Pool, ReceivedPicture};
use crate::player::{
    Decoded, PictureReport, Player, PointerRequest, Screen, Status, UserInput, UserOutput, WatchStatus, channels,
};
use crate::{Input, Messages, Options, Target, ViewerError};

/// Longest sleep of the callback thread. It is also woken by pictures, events and the end.
const MAX_CALLBACK_WAIT: Duration = Duration::from_hours(1);

/// A viewer's statistics. Rates and times are updated every half second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Whether the viewer is connected to a server.
    pub connected: bool,
    /// Number of connections so far.
    pub connections: u32,
    /// Pictures displayed per second.
    pub fps: f64,
    /// Median time so far from an input to the display of the first picture that shows it; `None` before the first such picture.
    pub motion_to_photon: Option<Span>,
    pub received_rate: Bitrate,
    /// Statistics of the newest connection.
    pub received: ReceiverStatistics,
    pub clock: Option<ClockEstimate>,
    /// Pictures that newer ones replaced before the program took them.
    pub pictures_passed_over: u64,
    /// Events that the program did not take in time.
    pub events_dropped: u64,
    /// Sample frames that the program did not take in time.
    pub sound_dropped: u64,
}

/// State that the player's threads and the program share.
struct Shared {
    clock: Clock,
    inbox: Inbox,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connected: bool,
    connections: u32,
    /// Whether both the server's owner and the user permit sharing of clipboard texts.
    clipboard: bool,
    /// Why there is no connection.
    last_error: Option<String>,
    /// The user's last pose, which is the first input that a new server gets.
    presence: Option<Input>,
    watching: Option<WatchStatus>,
    ended: Option<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn on_status(&self, status: Status) {
        let mut state = self.state();
        match status {
            Status::Connecting { last_error } => {
                state.last_error.clone_from(&last_error);
                state.watching = None;
                if std::mem::replace(&mut state.connected, false) {
                    let reason = last_error.unwrap_or_else(|| "the connection ended".to_owned());
                    drop(state);
                    self.inbox.push_event(self.clock.now(), EventKind::ConnectionLost(reason));
                }
            }
            Status::Watching(watching) => state.watching = Some(*watching),
        }
    }

    /// Records a new connection. Returns the user's pose, which the new server gets first.
    fn on_welcome(&self, welcome: &Welcome) -> Input {
        let mut state = self.state();
        state.connected = true;
        state.connections += 1;
        state.clipboard = welcome.clipboard;
        state.presence.get_or_insert(Input::Head(welcome.start)).clone()
    }
}

/// A screen that passes pictures to the inbox.
struct InboxScreen {
    shared: Arc<Shared>,
    pool: Arc<Pool>,
}

impl Screen for InboxScreen {
    fn on_picture(&self, decoded: &Decoded<'_>) {
        self.shared.inbox.push_picture(self.pool.receive(decoded));
    }
}

/// A viewer in this process. All methods may be called from any thread. Dropping it closes the connection.
pub struct Viewer {
    shared: Arc<Shared>,
    tells_display: bool,
    /// Whether the user permits sharing of clipboard texts.
    clipboard: bool,
    inputs: mpsc::Sender<UserInput>,
    reports: mpsc::UnboundedSender<PictureReport>,
    devices: watch::Sender<DevicesDescription>,
    messages: Messages,
    stop: watch::Sender<bool>,
    closed: AtomicBool,
    thread: Mutex<Option<JoinHandle<Result<Summary, ViewerError>>>>,
    callback: Mutex<Option<JoinHandle<()>>>,
}

impl Viewer {
    /// Connects to the server of a link, `http[s]://HOST:PORT/#token=...` or `ether:[INTERFACE/]ADDRESS#token=...`, and waits at most
    /// [`Options::connect_limit`] until it has welcomed the viewer. If the connection is lost later, the viewer reconnects by itself.
    pub fn connect(link: &str, options: &Options) -> Result<Self, ViewerError> {
        Self::connect_to(Target::open(link)?, options)
    }

    /// Connects like [`Viewer::connect`] to a target that was opened before.
    pub fn connect_to(target: Target, options: &Options) -> Result<Self, ViewerError> {
        let clock = Clock::start();
        let shared = Arc::new(Shared { clock, inbox: Inbox::new(options.pictures_kept), state: Mutex::default() });
        let (handles, ports) = channels();
        let (ready, welcomed) = sync_channel(1);
        let view = options.view_options(target);
        let messages = view.messages.clone();
        let screen = InboxScreen { shared: Arc::clone(&shared), pool: Arc::default() };
        let [on_status, on_sound] = [&shared; 2].map(Arc::clone);
        let player = Player {
            clock,
            options: view,
            display_hz: options.display_hz,
            screen: Arc::new(screen),
            ports,
            on_status: Box::new(move |status| on_status.on_status(status)),
            on_output: on_output(Arc::clone(&shared), handles.inputs.clone(), ready),
            on_sound: Box::new(move |at, samples| on_sound.inbox.push_sound(at, samples)),
        };
        let task = Task { shared: Arc::clone(&shared), messages: messages.clone(), pointer: handles.pointer };
        let thread = thread::Builder::new()
            .name("nearlight viewer".into())
            .spawn(move || task.run(player))
            .map_err(|source| ViewerError::System { what: "thread for the viewer", source })?;
        let viewer = Self {
            shared,
            tells_display: options.tells_display,
            clipboard: options.clipboard,
            inputs: handles.inputs,
            reports: handles.picture_reports,
            devices: handles.devices,
            messages,
            stop: handles.stop,
            closed: AtomicBool::new(false),
            thread: Mutex::new(Some(thread)),
            callback: Mutex::default(),
        };
        viewer.wait_until_welcomed(&welcomed, options.connect_limit)?;
        Ok(viewer)
    }

    fn wait_until_welcomed(&self, welcomed: &Receiver<()>, limit: Span) -> Result<(), ViewerError> {
        let wait = Duration::from_nanos(limit.as_nanos().unsigned_abs());
        match welcomed.recv_timeout(wait) {
            Ok(()) => Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                let error = self.shared.state().last_error.clone();
                let reason = error.unwrap_or_else(|| "the connection did not open in time".to_owned());
                Err(ViewerError::NoServer { seconds: limit.as_nanos() / 1_000_000_000, reason })
            }
            // The player has ended.
            Err(RecvTimeoutError::Disconnected) => {
                Err(self.close().err().unwrap_or_else(|| ViewerError::Ended("it gave no reason".to_owned())))
            }
        }
    }

    /// Returns the current time on the viewer's clock, which starts at 0 when the viewer is created. All its times are on this clock.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.clock.now()
    }

    /// Returns the next queued picture, if there is one. By default this is the newest one.
    #[must_use]
    pub fn poll_picture(&self) -> Option<ReceivedPicture> {
        self.wait_picture(Duration::ZERO)
    }

    /// Waits for a picture up to `limit`. Returns `None` on timeout, or if the viewer has ended: see [`Viewer::has_ended`].
    #[must_use]
    pub fn wait_picture(&self, limit: Duration) -> Option<ReceivedPicture> {
        let picture = self.shared.inbox.wait_picture(limit)?;
        self.take(&picture);
        Some(picture)
    }

    /// Returns the oldest queued event, if there is one.
    #[must_use]
    pub fn poll_event(&self) -> Option<Event> {
        self.wait_event(Duration::ZERO)
    }

    /// Waits for an event up to `limit`. Returns `None` on timeout, or if the viewer has ended.
    #[must_use]
    pub fn wait_event(&self, limit: Duration) -> Option<Event> {
        self.shared.inbox.wait_event(limit)
    }

    /// Fills `samples` with interleaved stereo sound at 48 kHz, from -1 to 1. Returns how many samples it filled, and when the first one is
    /// due. It may be called from an audio device's callback, which plays silence if too few samples are available.
    pub fn read_sound(&self, samples: &mut [f32]) -> (usize, Time) {
        self.shared.inbox.read_sound(samples)
    }

    /// Calls `on_incoming` on a separate thread with each event and picture until the viewer is closed, instead of polling. The callback
    /// may call all methods except [`Viewer::close`].
    pub fn set_callback(&self, mut on_incoming: impl FnMut(Incoming) + Send + 'static) -> Result<(), ViewerError> {
        self.check_open()?;
        let mut callback = self.callback();
        if callback.is_some() {
            return Err(ViewerError::Usage("there is a callback already: a viewer has one"));
        }
        let (shared, reports, tells_display) = (Arc::clone(&self.shared), self.reports.clone(), self.tells_display);
        let thread = thread::Builder::new().name("nearlight events".into()).spawn(move || {
            loop {
                match shared.inbox.wait_any(MAX_CALLBACK_WAIT) {
                    Some(incoming) => {
                        if let Incoming::Picture(picture) = &incoming
                            && !tells_display
                        {
                            report_displayed(&reports, picture, shared.clock.now());
                        }
                        on_incoming(incoming);
                    }
                    None if shared.inbox.is_closed() => return,
                    None => {}
                }
            }
        });
        *callback = Some(thread.map_err(|source| ViewerError::System { what: "thread for the callback", source })?);
        Ok(())
    }

    /// Reports that the picture was first displayed at `at`. This completes its timeline, and the server predicts the display time of the
    /// next pictures from it. Requires [`Options::tells_display`]; only the first report of a picture counts.
    pub fn displayed(&self, picture: &ReceivedPicture, at: Time) -> Result<(), ViewerError> {
        self.check_open()?;
        if !self.tells_display {
            return Err(ViewerError::Usage(
                "a picture counts as displayed when it is taken: set tells_display in the options to report it yourself",
            ));
        }
        report_displayed(&self.reports, picture, at.min(self.now().max(picture.info.decoded_at) + MAX_DISPLAY_LEAD));
        Ok(())
    }

    fn take(&self, picture: &ReceivedPicture) {
        if !self.tells_display {
            report_displayed(&self.reports, picture, self.now());
        }
    }

    /// Sends an input of the user. Inputs sent without a connection have no effect, except for the user's pose.
    pub fn send(&self, input: Input) -> Result<(), ViewerError> {
        self.check_open()?;
        input.validate()?;
        let at = self.now();
        let input = match input {
            Input::Head(head) => {
                self.shared.state().presence = Some(Input::Head(head));
                UserInput::Moved { at, head }
            }
            Input::Presence(presence) => {
                self.shared.state().presence = Some(Input::Presence(presence.clone()));
                UserInput::Present { at, presence }
            }
            Input::Device(input) => UserInput::Device { at, input },
            Input::Devices(devices) => {
                self.devices.send_replace(devices);
                return Ok(());
            }
            Input::Display { display, display_hz } => UserInput::Display { display, display_hz },
            Input::Clipboard(text) => {
                if !self.clipboard || !self.shared.state().clipboard {
                    return Err(ViewerError::Usage(
                        "the text was not sent: the viewer's options and the server's owner must both allow the clipboard",
                    ));
                }
                UserInput::Clipboard(text)
            }
        };
        self.inputs.try_send(input).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ViewerError::Full,
            mpsc::error::TrySendError::Closed(_) => self.ended_error(),
        })
    }

    /// Sends a message to the application. A reliable one has up to 16384 bytes and arrives once and in order. An unreliable one has up to
    /// 1100 bytes and may be lost, duplicated or reordered.
    pub fn send_message(&self, data: &[u8], reliable: bool) -> Result<(), ViewerError> {
        self.check_open()?;
        Ok(self.messages.send(ApplicationMessage { data: data.to_vec(), reliable })?)
    }

    /// Returns the user's pose as it was sent last, or initially the one that the server has set.
    #[must_use]
    pub fn head(&self) -> Pose {
        match &self.shared.state().presence {
            Some(Input::Head(head)) => *head,
            Some(Input::Presence(presence)) => presence.head,
            _ => Pose::default(),
        }
    }

    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let [pictures_passed_over, events_dropped, sound_dropped] = self.shared.inbox.dropped();
        let state = self.shared.state();
        let mut statistics = Statistics {
            connected: state.connected,
            connections: state.connections,
            pictures_passed_over,
            events_dropped,
            sound_dropped,
            ..Statistics::default()
        };
        if let Some(watching) = &state.watching {
            statistics.fps = watching.fps;
            statistics.motion_to_photon = watching.motion_to_photon;
            statistics.received_rate = watching.received;
            statistics.received = watching.statistics;
            statistics.clock = watching.clock;
        }
        statistics
    }

    /// Returns whether no more pictures will come, because the viewer was closed or has given up. [`EventKind::Ended`] says why.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.inbox.is_closed()
    }

    /// Says goodbye to the server and ends all threads, within 2 s and usually at once. Returns the run's summary. Must not be called from
    /// the callback.
    pub fn close(&self) -> Result<Summary, ViewerError> {
        if self.is_callback_thread() {
            return Err(ViewerError::Usage(
                "the viewer cannot be closed from its own callback: close it in another thread",
            ));
        }
        self.closed.store(true, Ordering::Relaxed);
        let thread = lock(&self.thread).take();
        let thread = thread.ok_or(ViewerError::Closed)?;
        let _ = self.stop.send(true);
        let outcome = thread.join();
        if let Some(callback) = self.callback().take() {
            let _ = callback.join();
        }
        outcome.unwrap_or_else(|_| Err(ViewerError::Ended("its thread panicked; see standard error".to_owned())))
    }

    fn callback(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        lock(&self.callback)
    }

    fn is_callback_thread(&self) -> bool {
        let id: Option<ThreadId> = self.callback().as_ref().map(|callback| callback.thread().id());
        id == Some(thread::current().id())
    }

    fn check_open(&self) -> Result<(), ViewerError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(ViewerError::Closed);
        }
        if self.has_ended() { Err(self.ended_error()) } else { Ok(()) }
    }

    fn ended_error(&self) -> ViewerError {
        let reason = self.shared.state().ended.clone();
        reason.map_or(ViewerError::Closed, ViewerError::Ended)
    }
}

/// Furthest that a reported display time may lie in the future. Guess: a display's next slot is closer, and a later time would keep the
/// picture's timeline open.
const MAX_DISPLAY_LEAD: Span = Span::from_millis(500);

fn report_displayed(reports: &mpsc::UnboundedSender<PictureReport>, picture: &ReceivedPicture, at: Time) {
    if picture.set_displayed() {
        let (ticket, marker) = (picture.ticket, picture.info.marker);
        // Fails only if the player has ended.
        let _ = reports.send(PictureReport::Displayed { ticket, at, marker });
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        if self.is_callback_thread() {
            // The thread cannot wait for itself. Player and callback end soon after.
            let _ = self.stop.send(true);
            return;
        }
        let _ = self.close();
    }
}

/// Returns the callback that converts the player's output into events.
fn on_output(
    shared: Arc<Shared>,
    inputs: mpsc::Sender<UserInput>,
    ready: SyncSender<()>,
) -> Box<dyn FnMut(UserOutput) + Send> {
    Box::new(move |output| {
        let at = shared.clock.now();
        let kind = match output {
            UserOutput::Welcome(welcome) => {
                let input = match shared.on_welcome(&welcome) {
                    Input::Presence(presence) => UserInput::Present { at, presence },
                    Input::Head(head) => UserInput::Moved { at, head },
                    _ => UserInput::Moved { at, head: welcome.start },
                };
                // The queue is full only if it contains newer input.
                let _ = inputs.try_send(input);
                if let Err(TrySendError::Disconnected(())) = ready.try_send(()) {
                    tracing::debug!("nobody waits for the welcome any more");
                }
                EventKind::Connected(welcome)
            }
            UserOutput::Stream(stream) => EventKind::Stream(stream),
            UserOutput::Haptics(haptics) => EventKind::Haptics(haptics),
            UserOutput::Clipboard(text) => EventKind::Clipboard(text),
        };
        shared.inbox.push_event(at, kind);
    })
}

/// State of the player's thread.
struct Task {
    shared: Arc<Shared>,
    messages: Messages,
    pointer: watch::Receiver<PointerRequest>,
}

impl Task {
    fn run(self, player: Player) -> Result<Summary, ViewerError> {
        let Self { shared, messages, mut pointer } = self;
        let outcome = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| ViewerError::System { what: "event loop", source })
            .and_then(|runtime| {
                let [for_messages, for_pointer] = [&shared; 2].map(Arc::clone);
                runtime.spawn(async move {
                    while let Some(message) = messages.recv().await {
                        for_messages.inbox.push_event(for_messages.clock.now(), EventKind::Message(message));
                    }
                });
                runtime.spawn(async move {
                    while pointer.changed().await.is_ok() {
                        let request = pointer.borrow_and_update().clone();
                        for_pointer.inbox.push_event(for_pointer.clock.now(), EventKind::Pointer(request));
                    }
                });
                runtime.block_on(player.run())
            });
        let reason = outcome.as_ref().err().map(ToString::to_string);
        shared.state().ended.clone_from(&reason);
        shared.inbox.push_event(shared.clock.now(), EventKind::Ended(reason));
        shared.inbox.close();
        outcome
    }
}
