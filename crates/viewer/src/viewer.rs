//! The viewer and its threads, as a program holds them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use nearlight_events::Summary;
use nearlight_net::Clock;
use nearlight_session::{ClockEstimate, ReceiverStatistics};
use nearlight_units::{Bitrate, Span, Time};
use nearlight_wire::{ApplicationMessage, DevicesDescription, Pose, Welcome};
use tokio::sync::{mpsc, watch};

use crate::inbox::{Event, Inbox, Incoming, What};
use crate::picture::{Pool, ReceivedPicture};
use crate::player::{
    Decoded, Happening, Player, PointerRequest, Screen, Status, UserInput, UserOutput, Watching, channels,
};
use crate::{Input, Messages, Options, Target, ViewerError};

/// How long a waiting callback thread sleeps where nothing comes.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// What a viewer has counted, as of the last half second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// A server has welcomed the viewer, and the connection was not lost.
    pub connected: bool,
    /// How often one has.
    pub connections: u32,
    /// Pictures displayed a second.
    pub fps: f64,
    /// Median so far, from an input to the display of the first picture that shows it; none before one was.
    pub motion_to_photon: Option<Span>,
    pub received_rate: Bitrate,
    /// Of the newest connection.
    pub received: ReceiverStatistics,
    pub clock: Option<ClockEstimate>,
    /// Pictures that newer ones replaced before the program took them.
    pub pictures_passed_over: u64,
    /// Events that the program did not take in time.
    pub events_dropped: u64,
    /// Sample frames that the program did not take in time.
    pub sound_dropped: u64,
}

/// What player and program share.
struct Shared {
    clock: Clock,
    inbox: Inbox,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connected: bool,
    connections: u32,
    /// Owner and user allow texts of the clipboard.
    clipboard: bool,
    /// Why there is no connection.
    trouble: Option<String>,
    /// Where the user was last: a new server has to know before anything else.
    presence: Option<Input>,
    watching: Option<Watching>,
    ended: Option<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_status(&self, status: Status) {
        let mut state = self.state();
        match status {
            Status::Connecting { trouble } => {
                state.trouble.clone_from(&trouble);
                state.watching = None;
                if std::mem::replace(&mut state.connected, false) {
                    let reason = trouble.unwrap_or_else(|| "the connection ended".to_owned());
                    drop(state);
                    self.inbox.push_event(self.clock.now(), What::Lost(reason));
                }
            }
            Status::Watching(watching) => state.watching = Some(*watching),
        }
    }

    /// Answers where the user is, which the new server is told first.
    fn on_welcome(&self, welcome: &Welcome) -> Input {
        let mut state = self.state();
        state.connected = true;
        state.connections += 1;
        state.clipboard = welcome.clipboard;
        state.presence.get_or_insert(Input::Head(welcome.start)).clone()
    }
}

/// The display of a program that polls.
struct InboxScreen {
    shared: Arc<Shared>,
    pool: Arc<Pool>,
}

impl Screen for InboxScreen {
    fn on_picture(&self, decoded: &Decoded<'_>) {
        self.shared.inbox.push_picture(self.pool.receive(decoded));
    }
}

/// A viewer in this process. Every call may come from any thread; dropping it closes it.
pub struct Viewer {
    shared: Arc<Shared>,
    tells_display: bool,
    /// The user allows texts of the clipboard.
    clipboard: bool,
    inputs: mpsc::Sender<UserInput>,
    happenings: mpsc::UnboundedSender<Happening>,
    devices: watch::Sender<DevicesDescription>,
    messages: Messages,
    stop: watch::Sender<bool>,
    closed: AtomicBool,
    thread: Mutex<Option<JoinHandle<Result<Summary, ViewerError>>>>,
    callback: Mutex<Option<JoinHandle<()>>>,
}

impl Viewer {
    /// Connects to the server of a link, `http[s]://HOST:PORT/#token=...` or `ether:[INTERFACE/]ADDRESS#token=...`, and waits until it has
    /// welcomed the viewer, at most [`Options::connect_limit`]. When the connection is lost later, the viewer opens another one by itself.
    pub fn connect(link: &str, options: &Options) -> Result<Self, ViewerError> {
        Self::connect_to(Target::open(link)?, options)
    }

    /// The same for a target that was opened before.
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
            happenings: handles.happenings,
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
                let trouble = self.shared.state().trouble.clone();
                let reason = trouble.unwrap_or_else(|| "the connection did not open in time".to_owned());
                Err(ViewerError::NoServer { seconds: limit.as_nanos() / 1_000_000_000, reason })
            }
            // The player has ended.
            Err(RecvTimeoutError::Disconnected) => {
                Err(self.close().err().unwrap_or_else(|| ViewerError::Ended("it gave no reason".to_owned())))
            }
        }
    }

    /// The clock of every time here: nanoseconds since the viewer was made.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.clock.now()
    }

    /// The newest picture, if one came since the last call.
    #[must_use]
    pub fn poll_picture(&self) -> Option<ReceivedPicture> {
        self.wait_picture(Duration::ZERO)
    }

    /// The newest picture; waits for one up to `limit`. None also where none will come any more: see [`Viewer::has_ended`].
    #[must_use]
    pub fn wait_picture(&self, limit: Duration) -> Option<ReceivedPicture> {
        let picture = self.shared.inbox.wait_picture(limit)?;
        self.take(&picture);
        Some(picture)
    }

    /// The oldest event that was not taken.
    #[must_use]
    pub fn poll_event(&self) -> Option<Event> {
        self.wait_event(Duration::ZERO)
    }

    /// The same; waits for one up to `limit`.
    #[must_use]
    pub fn wait_event(&self, limit: Duration) -> Option<Event> {
        self.shared.inbox.wait_event(limit)
    }

    /// Fills `samples`, left and right in turn at 48 kHz within -1 and 1, with sound that is due and was not read; answers how many samples
    /// it filled, and when the first one was due. An audio device's own callback may read; where too little has come, it plays silence.
    pub fn read_sound(&self, samples: &mut [f32]) -> (usize, Time) {
        self.shared.inbox.read_sound(samples)
    }

    /// Has `on_incoming` called with each event and picture in a thread of its own, in place of polling, until the viewer is closed. It may
    /// call everything but [`Viewer::close`].
    pub fn set_callback(&self, mut on_incoming: impl FnMut(Incoming) + Send + 'static) -> Result<(), ViewerError> {
        self.check_open()?;
        let mut callback = self.callback();
        if callback.is_some() {
            return Err(ViewerError::Usage("there is a callback already: a viewer has one"));
        }
        let (shared, happenings, tells_display) =
            (Arc::clone(&self.shared), self.happenings.clone(), self.tells_display);
        let thread = thread::Builder::new().name("nearlight events".into()).spawn(move || {
            loop {
                match shared.inbox.wait_any(LONGEST_WAIT) {
                    Some(incoming) => {
                        if let Incoming::Picture(picture) = &incoming
                            && !tells_display
                        {
                            tell_displayed(&happenings, picture, shared.clock.now());
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

    /// The user saw the picture first at `at`: this closes its timeline, and the server renders the next ones for the moment that they are
    /// seen. Only with [`Options::tells_display`]; once a picture.
    pub fn displayed(&self, picture: &ReceivedPicture, at: Time) -> Result<(), ViewerError> {
        self.check_open()?;
        if !self.tells_display {
            return Err(ViewerError::Usage(
                "a picture counts as displayed when it is taken: set tells_display in the options to report it yourself",
            ));
        }
        tell_displayed(&self.happenings, picture, at.min(self.now().max(picture.info.decoded_at) + FUTURE));
        Ok(())
    }

    fn take(&self, picture: &ReceivedPicture) {
        if !self.tells_display {
            tell_displayed(&self.happenings, picture, self.now());
        }
    }

    /// The user does this now. What is sent while no server is reached has no effect, but for where the user is.
    pub fn send(&self, input: Input) -> Result<(), ViewerError> {
        self.check_open()?;
        input.check()?;
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

    /// Sends the application a message: up to 16384 bytes that come once and in order, or with `reliable` false up to 1100 that may be lost,
    /// come twice or overtake others.
    pub fn send_message(&self, data: &[u8], reliable: bool) -> Result<(), ViewerError> {
        self.check_open()?;
        Ok(self.messages.send(ApplicationMessage { data: data.to_vec(), reliable })?)
    }

    /// Where the user is, as it was sent last; before, where the server wants the user to begin.
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
        let [pictures_passed_over, events_dropped, sound_dropped] = self.shared.inbox.untaken();
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

    /// No picture comes any more: the viewer was closed, or has given up, of which an event tells.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.inbox.is_closed()
    }

    /// Says goodbye to the server and ends all threads: within 2 s, usually at once. Answers what was measured. Not from the callback.
    pub fn close(&self) -> Result<Summary, ViewerError> {
        if self.is_callback_thread() {
            return Err(ViewerError::Usage(
                "the viewer cannot be closed from its own callback: close it in another thread",
            ));
        }
        self.closed.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = thread.ok_or(ViewerError::Closed)?;
        let _ = self.stop.send(true);
        let outcome = thread.join();
        if let Some(callback) = self.callback().take() {
            let _ = callback.join();
        }
        outcome.unwrap_or_else(|_| Err(ViewerError::Ended("its thread panicked; see standard error".to_owned())))
    }

    fn callback(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.callback.lock().unwrap_or_else(PoisonError::into_inner)
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

/// A display slot may lie ahead, but not further: a picture that is never seen would keep the timeline open.
const FUTURE: Span = Span::from_millis(500);

fn tell_displayed(happenings: &mpsc::UnboundedSender<Happening>, picture: &ReceivedPicture, at: Time) {
    if picture.set_displayed() {
        let (ticket, marker) = (picture.ticket, picture.info.marker);
        // A player that has ended needs no report.
        let _ = happenings.send(Happening::Displayed { ticket, at, marker });
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        if self.is_callback_thread() {
            // It cannot wait for itself; player and callback end soon after.
            let _ = self.stop.send(true);
            return;
        }
        let _ = self.close();
    }
}

/// Turns what the application says into events.
fn on_output(
    shared: Arc<Shared>,
    inputs: mpsc::Sender<UserInput>,
    ready: SyncSender<()>,
) -> Box<dyn FnMut(UserOutput) + Send> {
    Box::new(move |output| {
        let at = shared.clock.now();
        let what = match output {
            UserOutput::Welcome(welcome) => {
                let input = match shared.on_welcome(&welcome) {
                    Input::Presence(presence) => UserInput::Present { at, presence },
                    Input::Head(head) => UserInput::Moved { at, head },
                    _ => UserInput::Moved { at, head: welcome.start },
                };
                // Full only of newer input.
                let _ = inputs.try_send(input);
                if let Err(TrySendError::Disconnected(())) = ready.try_send(()) {
                    tracing::debug!("nobody waits for the welcome any more");
                }
                What::Connected(welcome)
            }
            UserOutput::Stream(stream) => What::Stream(stream),
            UserOutput::Haptics(haptics) => What::Haptics(haptics),
            UserOutput::Clipboard(text) => What::Clipboard(text),
        };
        shared.inbox.push_event(at, what);
    })
}

/// The player's thread.
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
                let [heard, pointed] = [&shared; 2].map(Arc::clone);
                runtime.spawn(async move {
                    while let Some(message) = messages.recv().await {
                        heard.inbox.push_event(heard.clock.now(), What::Message(message));
                    }
                });
                runtime.spawn(async move {
                    while pointer.changed().await.is_ok() {
                        let request = pointer.borrow_and_update().clone();
                        pointed.inbox.push_event(pointed.clock.now(), What::Pointer(request));
                    }
                });
                runtime.block_on(player.run())
            });
        let reason = outcome.as_ref().err().map(ToString::to_string);
        shared.state().ended.clone_from(&reason);
        shared.inbox.push_event(shared.clock.now(), What::Ended(reason));
        shared.inbox.close();
        outcome
    }
}
