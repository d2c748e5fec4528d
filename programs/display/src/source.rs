//! The server's end: a source that paces itself, and the messages to viewers' pages.

mod messages;
mod shared;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use crate::clock::pause;
use crate::pulse::SoundServer;
use nearlight_scene::{
    Application, ApplicationMessage, Output, PictureSink, PushSource, SceneError, SoundFeed, Viewer, ViewerInput,
};
use nearlight_sound::SoundBlock;
use nearlight_units::{Span, Time, lock};
use nearlight_wire::CursorShape;
use serde::Serialize;

use self::messages::{PageMessage, PageRequest, message, page_message};
use self::shared::{SharedSource, State};
use crate::DisplayError;
use crate::input::controls::ControlState;
use crate::microphone::Microphone;
use crate::specification::{ProgramExit, ProgramOptions, Report, SOUND_SOCKET, SupervisorCommand, Task};
use crate::supervisor::environment;
use crate::sway;
use crate::threads::{ThreadInputs, Threads, open_x};
use crate::watchdog::{Activity, OBSERVATION_INTERVAL, Watchdog};
use crate::x11::capture::CaptureFlags;
use crate::x11::connection::{DisplayAddress, ThreadError, Waker, wake_pipe};
use crate::x11::injection::{InjectionEvent, InjectionHost, ViewerEvent};
use crate::x11::windows::{WindowCommand, WindowEvent};

/// Maximum number of viewers' events that wait for the display. Guess: eight viewers with 60 a second while a program blocks it for half a minute.
const MAX_QUEUED_VIEWER_EVENTS: usize = 16 << 10;
/// Maximum number of viewers' texts for the clipboard among them, of up to [`MAX_CLIPBOARD_BYTES`](nearlight_wire::MAX_CLIPBOARD_BYTES)
/// each. Guess: nobody pastes as often while a program blocks the display.
const MAX_WAITING_TEXTS: usize = 8;
/// Maximum number of commands that wait for the thread that manages windows. Guess: it takes them at once unless a program blocks the display.
const MAX_QUEUED_WINDOW_COMMANDS: usize = 64;

/// Time for the last messages to viewers to be sent before their sessions end. Guess: a round trip of a slow path.
const GOODBYE_DELAY: Duration = Duration::from_millis(200);

/// The target of log lines that a program has printed. The supervisor limits them.
pub const OUTPUT_LOG_TARGET: &str = "nearlight_display::output";

/// A program on a display, as a source for the studio.
pub struct ProgramSource {
    name: String,
    graphics: String,
    size: (u16, u16),
    supervisor: Supervisor,
    sound: Option<SoundServer>,
    /// The microphone that the program records, and the viewer whose packets it decodes.
    microphone: Option<(Microphone, Option<Viewer>)>,
    /// What the threads need; `None` once they have started.
    startup: Option<Startup>,
    shared: Arc<SharedSource>,
    capture_waker: Waker,
    windows_waker: Waker,
    viewer_events: Option<SyncSender<ViewerEvent>>,
    window_commands: Option<SyncSender<WindowCommand>>,
    /// Viewers that were sent the display's state, such as the pointer's shape.
    informed: BTreeSet<Viewer>,
    /// The viewer whose text for the clipboard is on its way.
    announcer: Option<Viewer>,
}

/// The sound that the program plays.
struct ProgramSound(SoundServer);

impl SoundFeed for ProgramSound {
    fn next_block(&mut self) -> (SoundBlock, Span) {
        self.0.next_block()
    }

    fn plays_without_listeners(&self) -> bool {
        true
    }

    fn is_idle(&self) -> bool {
        !self.0.has_clients()
    }
}

/// The body of a thread, which runs until the source is gone.
type ThreadBody = Box<dyn FnOnce(&SharedSource) -> Result<(), ThreadError> + Send>;

/// What the threads need when the source starts.
struct Startup {
    threads: Threads,
    window_commands: Receiver<WindowCommand>,
    viewer_events: Receiver<ViewerEvent>,
    reports: BufReader<ChildStdout>,
    watchdog: Watchdog,
}

struct Supervisor {
    process: Child,
    input: SupervisorInput,
}

/// The supervisor's standard input.
#[derive(Clone)]
struct SupervisorInput(Arc<Mutex<Option<ChildStdin>>>);

impl SupervisorInput {
    fn send(&self, line: &impl Serialize) -> std::io::Result<()> {
        let Some(input) = &mut *lock(&self.0) else { return Ok(()) };
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        input.write_all(&line)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // The supervisor ends the program when its input closes.
        *lock(&self.input.0) = None;
        let _ = self.process.wait();
    }
}

impl ProgramSource {
    /// Starts the display and connects to it. The program itself is started with the source. `supervisor` is a command that runs
    /// [`crate::supervise`]. Starts no thread, so that the caller can still give up privileges.
    pub fn open(options: &ProgramOptions, fps: u16, supervisor: (&Path, &[&str])) -> Result<Self, DisplayError> {
        let mut command = Command::new(supervisor.0);
        command.args(supervisor.1).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env_clear().envs(environment::for_supervisor(std::env::vars_os(), options.display.is_some()));
        // Ctrl+C on the terminal must reach only the server, which then ends the program in order.
        command.process_group(0);
        let mut process = command.spawn().map_err(DisplayError::Supervisor)?;
        let (input, reports) = (SupervisorInput(Arc::new(Mutex::new(process.stdin.take()))), process.stdout.take());
        let supervisor = Supervisor { process, input };
        let lost = || DisplayError::Supervisor(std::io::Error::other("it has no pipes"));
        let mut reports = BufReader::new(reports.ok_or_else(lost)?);
        supervisor.input.send(&Task::Supervise(options.clone())).map_err(DisplayError::Supervisor)?;
        let first = if options.display.is_some() { None } else { next_report(&mut reports) };
        if let Some(Report::Failed { reason }) = first {
            return Err(DisplayError::Program(reason));
        }
        let flags = CaptureFlags::default();
        let (capture_waker, capture_wakes) = wake_pipe().map_err(DisplayError::Memory)?;
        let (windows_waker, windows_wakes) = wake_pipe().map_err(DisplayError::Memory)?;
        let injection = Activity::default();
        let watchdog =
            Watchdog::new([capture_wakes.activity(), windows_wakes.activity(), &injection].map(Clone::clone));
        let inputs = ThreadInputs { capture: capture_wakes, windows: windows_wakes, flags: flags.clone(), injection };
        let (threads, folder) = match (&options.display, first) {
            (Some(name), _) => (open_x(&DisplayAddress::Named(name.clone()), None, options, fps, inputs)?, None),
            (None, Some(Report::Display { number, cookie, folder, card })) => {
                (open_x(&DisplayAddress::Own { number, cookie }, card, options, fps, inputs)?, Some(folder))
            }
            (None, Some(Report::Compositor { wayland, own, folder })) => {
                (sway::open(&wayland, &own, (options.size, options.max_size), fps, inputs)?, Some(folder))
            }
            _ => return Err(DisplayError::Supervisor(std::io::Error::other("it ended without a reason"))),
        };
        let socket = folder.filter(|_| options.sound).map(|folder| folder.join(SOUND_SOCKET));
        let microphone = (options.microphone && socket.is_some()).then(Microphone::new).transpose()?;
        let feed = microphone.as_ref().map(Microphone::feed);
        let sound = socket.map(|socket| SoundServer::bind(&socket, feed)).transpose().map_err(DisplayError::Sound)?;
        let program =
            options.command.first().map(|program| Path::new(program).file_name().unwrap_or(program).to_owned());
        let program = program.unwrap_or_else(|| OsString::from("a display")).to_string_lossy().into_owned();
        let (width, height) = threads.size;
        let name = format!("{program} {}", threads.name);
        let (viewer_event_sender, viewer_events) = sync_channel(MAX_QUEUED_VIEWER_EVENTS);
        let (window_command_sender, window_commands) = sync_channel(MAX_QUEUED_WINDOW_COMMANDS);
        let state = State {
            pointer: (CursorShape::Named("default".into()), false),
            pointer_in_picture: threads.pointer_in_picture,
            windows: String::new(),
            trouble: None,
            controls: ControlState::default(),
            viewers: BTreeSet::new(),
            names: BTreeMap::new(),
            outputs: VecDeque::new(),
        };
        let shared = SharedSource {
            sink: OnceLock::new(),
            flags,
            state: Mutex::new(state),
            exit: Arc::default(),
            gamepads: AtomicU8::new(0),
            events_lost: AtomicBool::new(false),
            waiting_texts: AtomicUsize::new(0),
            name: program,
        };
        Ok(Self {
            name,
            graphics: threads.graphics.clone(),
            size: (width & !1, height & !1),
            supervisor,
            sound,
            microphone: microphone.map(|microphone| (microphone, None)),
            startup: Some(Startup { threads, window_commands, viewer_events, reports, watchdog }),
            shared: Arc::new(shared),
            capture_waker,
            windows_waker,
            viewer_events: Some(viewer_event_sender),
            window_commands: Some(window_command_sender),
            informed: BTreeSet::new(),
            announcer: None,
        })
    }

    /// Returns the size of the first picture, in pixels.
    #[must_use]
    pub const fn size(&self) -> (u16, u16) {
        self.size
    }

    /// Describes what renders OpenGL on the display.
    #[must_use]
    pub fn graphics(&self) -> &str {
        &self.graphics
    }

    /// Returns how the program ended, which is set once it has ended and is not started again.
    #[must_use]
    pub fn exit(&self) -> Arc<OnceLock<ProgramExit>> {
        Arc::clone(&self.shared.exit)
    }

    fn send_window_command(&self, command: WindowCommand) {
        if let Some(commands) = &self.window_commands {
            queue_window_command(commands, command);
            self.windows_waker.wake();
        }
    }

    /// Decodes a microphone packet of the driver. Those of other viewers are ignored.
    fn on_microphone(&mut self, viewer: Viewer, packet: &[u8]) {
        let drives = self.shared.state().controls.driver == Some(viewer);
        let Some((microphone, speaker)) = self.microphone.as_mut().filter(|_| drives) else { return };
        if speaker.replace(viewer) != Some(viewer) {
            microphone.restart();
        }
        microphone.on_message(packet);
    }

    /// Returns the current time. It is zero before the source has started, when nobody has the controls.
    fn now(&self) -> Time {
        self.shared.sink.get().map_or(Time::ZERO, |sink| sink.now())
    }

    fn send_viewer_event(&self, event: ViewerEvent) {
        // If the thread has ended, it has reported why.
        if let Some(Err(TrySendError::Full(_))) = self.viewer_events.as_ref().map(|events| events.try_send(event)) {
            self.shared.on_event_lost();
        }
    }
}

/// What the injecting thread asks of the source.
struct Host {
    shared: Arc<SharedSource>,
    supervisor: SupervisorInput,
    commands: Option<SyncSender<WindowCommand>>,
    windows_waker: Waker,
}

impl Host {
    fn send_window_command(&self, command: WindowCommand) {
        if let Some(commands) = &self.commands {
            queue_window_command(commands, command);
            self.windows_waker.wake();
        }
    }
}

impl InjectionHost for Host {
    fn report(&self, event: InjectionEvent) {
        match event {
            InjectionEvent::Controls(controls) => self.shared.announce_controls(Some(controls)),
            InjectionEvent::Refused(viewer) => self.shared.on_refused(viewer),
            InjectionEvent::Clipboard(text) => {
                self.shared.on_text_taken();
                self.send_window_command(WindowCommand::SetClipboard(text));
            }
            InjectionEvent::ClipboardRefused(viewer) => {
                self.shared.on_text_taken();
                self.send_window_command(WindowCommand::WithdrawClipboard);
                self.shared.on_clipboard_refused(viewer);
            }
            InjectionEvent::WindowSize(size) => self.send_window_command(WindowCommand::Resize(size)),
            // Fails only if the supervisor has ended, which is reported elsewhere.
            InjectionEvent::Gamepad(change) => drop(self.supervisor.send(&SupervisorCommand::Gamepad(change))),
        }
    }

    fn gamepads(&self) -> u8 {
        self.shared.gamepads.load(Ordering::Relaxed)
    }

    fn take_events_lost(&self) -> Option<BTreeSet<Viewer>> {
        let lost = self.shared.events_lost.swap(false, Ordering::Relaxed);
        lost.then(|| {
            // The thread drops what waits.
            self.shared.waiting_texts.store(0, Ordering::Relaxed);
            self.shared.state().viewers.clone()
        })
    }
}

/// Watches the threads until the source is gone.
fn watch(mut watchdog: Watchdog, shared: &SharedSource) {
    while !shared.flags.is_closed() {
        let now = shared.sink.get().map_or(Time::ZERO, |sink| sink.now());
        if let Some(report) = watchdog.observe(now) {
            shared.on_trouble(report);
        }
        pause(OBSERVATION_INTERVAL);
    }
}

/// Queues a command for the thread that manages windows, which has reported why if it has ended.
fn queue_window_command(commands: &SyncSender<WindowCommand>, command: WindowCommand) {
    if let Err(TrySendError::Full(_)) = commands.try_send(command) {
        tracing::warn!("a viewer's request to a window is lost: a program blocks the display");
    }
}

fn next_report(reports: &mut BufReader<ChildStdout>) -> Option<Report> {
    let mut line = String::new();
    reports.read_line(&mut line).ok().filter(|read| *read > 0)?;
    serde_json::from_str(&line).ok()
}

/// Logs what the supervisor reports, and ends the source when the program has ended for good.
fn handle_reports(mut reports: BufReader<ChildStdout>, shared: &SharedSource) {
    let name = &shared.name;
    loop {
        match next_report(&mut reports) {
            Some(Report::Started { how, gamepads }) => {
                shared.gamepads.store(gamepads, Ordering::Relaxed);
                tracing::info!("{name} runs: {how}");
            }
            Some(Report::Output { line }) => tracing::info!(target: OUTPUT_LOG_TARGET, "{name}: {line}"),
            Some(Report::Rumble { gamepad, rumble }) => shared.on_rumble(gamepad, rumble),
            Some(Report::Ended { ending, again: true }) => {
                tracing::warn!("{name} ended with {ending} and is started again");
                shared.notify_all(format!("{name} ended with {ending}. It is started again."));
            }
            Some(Report::Ended { ending, again: false }) => {
                let _ = shared.exit.set(ending);
                let words = format!("{name} has ended with {ending}");
                tracing::info!("{words}");
                shared.broadcast(&Output::Message(message(&page_message("ended", &words.clone().into()))));
                pause(GOODBYE_DELAY);
                return shared.end(SceneError::ProgramEnded(words));
            }
            Some(Report::Failed { reason }) => return shared.fail(reason),
            Some(Report::Display { .. } | Report::Compositor { .. }) => {}
            None => return shared.fail(format!("the supervisor of {name} has ended")),
        }
    }
}

impl Application for ProgramSource {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn on_viewer_joined(&mut self, _now: Time, viewer: Viewer) {
        self.shared.state().viewers.insert(viewer);
        self.shared.announce_controls(None);
        // The viewer's first picture is a key frame of low quality, which is then sharpened.
        self.shared.flags.joined.store(true, Ordering::Relaxed);
        self.capture_waker.wake();
    }

    fn on_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput) {
        if self.informed.insert(viewer) {
            // A viewer that sends input has received its welcome and can handle these messages.
            let mut state = self.shared.state();
            let pointer = state.pointer_for(viewer);
            let program = message(&page_message("program", &self.shared.name.clone().into()));
            let windows = (!state.windows.is_empty()).then(|| Output::Message(message(&state.windows)));
            let controls = state.controls_for(viewer);
            let outputs = [Output::Message(program), pointer, controls];
            let records = self.microphone.is_some();
            let microphone = records.then(|| Output::Message(message(&page_message("microphone", &true.into()))));
            let trouble = state.trouble.clone().map(|words| page_message("notice", &words.into()));
            let trouble = trouble.map(|text| Output::Message(message(&text)));
            let all = outputs.into_iter().chain(windows).chain(microphone).chain(trouble);
            state.queue(all.map(|output| (viewer, output)));
        }
        self.send_viewer_event(ViewerEvent::Input { now, viewer, input: Box::new(input.clone()) });
    }

    fn on_viewer_left(&mut self, viewer: Viewer) {
        let mut state = self.shared.state();
        state.viewers.remove(&viewer);
        state.names.remove(&viewer);
        drop(state);
        self.informed.remove(&viewer);
        if self.announcer.take_if(|announcer| *announcer == viewer).is_some() {
            self.send_window_command(WindowCommand::WithdrawClipboard);
        }
        self.shared.announce_controls(None);
        self.send_viewer_event(ViewerEvent::Left { now: self.now(), viewer });
    }

    fn on_message(&mut self, now: Time, viewer: Viewer, message: ApplicationMessage) {
        if !message.reliable {
            return self.on_microphone(viewer, &message.data);
        }
        match serde_json::from_slice(&message.data).map(|PageMessage { display }| display) {
            Ok(PageRequest::Activate(window)) => self.send_window_command(WindowCommand::Activate(window)),
            Ok(PageRequest::Close(window)) => self.send_window_command(WindowCommand::Close(window)),
            Ok(PageRequest::Window([width, height])) => {
                self.send_viewer_event(ViewerEvent::WindowSize { viewer, size: (width, height) });
            }
            Ok(PageRequest::Release(())) => self.send_viewer_event(ViewerEvent::Released { now, viewer }),
            Ok(PageRequest::Take(())) => self.send_viewer_event(ViewerEvent::Requested { now, viewer }),
            Err(error) => tracing::debug!(viewer = viewer.0, %error, "a viewer sent an invalid message to the display"),
        }
    }

    fn on_name(&mut self, _now: Time, viewer: Viewer, name: String) {
        self.shared.state().names.insert(viewer, name);
        self.shared.announce_controls(None);
    }

    fn on_clipboard_announced(&mut self, _now: Time, viewer: Viewer) {
        if self.shared.may_paste(viewer) {
            self.announcer = Some(viewer);
            self.send_window_command(WindowCommand::AnnounceClipboard);
        }
    }

    fn on_clipboard(&mut self, now: Time, viewer: Viewer, text: String) {
        self.announcer.take_if(|announcer| *announcer == viewer);
        if self.shared.waiting_texts.load(Ordering::Relaxed) >= MAX_WAITING_TEXTS {
            return self.shared.on_event_lost();
        }
        self.shared.waiting_texts.fetch_add(1, Ordering::Relaxed);
        self.send_viewer_event(ViewerEvent::Clipboard { now, viewer, text });
    }

    fn poll_output(&mut self) -> Option<(Viewer, Output)> {
        self.shared.state().outputs.pop_front()
    }
}

impl PushSource for ProgramSource {
    fn start(&mut self, sink: Arc<dyn PictureSink>) -> std::io::Result<()> {
        let Some(startup) = self.startup.take() else { return Ok(()) };
        let Startup { threads, window_commands, viewer_events, reports, watchdog } = startup;
        let Threads { capture, windows, injection, .. } = threads;
        let _ = self.shared.sink.set(Arc::clone(&sink));
        let spawn = |name: &str, body: ThreadBody| {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name(name.into());
            thread.spawn(move || {
                if let Err(error) = body(&shared) {
                    shared.fail(format!("the display of {} failed: {error}", shared.name));
                }
            })
        };
        let capture_waker = self.capture_waker.clone();
        let manage_windows = move |shared: &SharedSource| {
            windows(&window_commands, &|event| match event {
                WindowEvent::Resized => capture_waker.wake(),
                event => shared.on_window_event(event),
            })
        };
        spawn("windows", Box::new(manage_windows))?;
        spawn("capture", Box::new(move |_: &SharedSource| capture(sink.as_ref())))?;
        let host = Host {
            shared: Arc::clone(&self.shared),
            supervisor: self.supervisor.input.clone(),
            commands: self.window_commands.clone(),
            windows_waker: self.windows_waker.clone(),
        };
        let inject = move |_: &SharedSource| {
            let outcome = injection.run(&viewer_events, &host);
            // The windows' thread ends when all senders of its commands are dropped.
            let windows_waker = host.windows_waker.clone();
            drop(host);
            windows_waker.wake();
            outcome
        };
        spawn("injection", Box::new(inject))?;
        spawn(
            "program",
            Box::new(move |shared: &SharedSource| {
                handle_reports(reports, shared);
                Ok(())
            }),
        )?;
        spawn(
            "watchdog",
            Box::new(move |shared: &SharedSource| {
                watch(watchdog, shared);
                Ok(())
            }),
        )?;
        self.supervisor.input.send(&SupervisorCommand::Start)
    }

    fn sound(&mut self) -> Option<Box<dyn SoundFeed>> {
        let mut server = self.sound.take()?;
        match server.start() {
            Ok(()) => Some(Box::new(ProgramSound(server))),
            Err(error) => {
                tracing::error!(%error, "the program has no sound");
                None
            }
        }
    }

    fn set_watched(&mut self, watched: bool) {
        self.shared.flags.watched.store(watched, Ordering::Relaxed);
        self.capture_waker.wake();
    }
}

impl Drop for ProgramSource {
    fn drop(&mut self) {
        self.shared.flags.closed.store(true, Ordering::Relaxed);
        (self.viewer_events, self.window_commands) = (None, None);
        self.capture_waker.wake();
        self.windows_waker.wake();
    }
}
