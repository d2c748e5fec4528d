//! The server's end: a source that paces itself.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use nearlight_pulse::SoundServer;
use nearlight_scene::{
    Application, ApplicationMessage, Output, PictureSink, PushSource, SceneError, SoundFeed, Viewer, ViewerInput,
};
use nearlight_sound::SoundBlock;
use nearlight_units::{Span, Time};
use nearlight_wire::{CursorShape, Haptics, HapticsTarget, MAX_HAPTICS_MILLISECONDS};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::DisplayError;
use crate::capture::Watch;
use crate::connection::{Place, Ringer, ThreadError, bell};
use crate::controls::Standing;
use crate::cursor::hidden;
use crate::gamepad::Rumble;
use crate::injection::{Consequence, Heard};
use crate::microphone::Microphone;
use crate::specification::{Demand, Ending, ProgramOptions, Report, SOUND_SOCKET, Task};
use crate::sway;
use crate::threads::{Bells, Threads, open_x};
use crate::windows::{Order, Told};

/// Outputs that wait for the studio, which takes them at once.
const MOST_OUTPUTS: usize = 256;

/// What viewers are told before the end gets so long to leave.
const GOODBYE: Duration = Duration::from_millis(200);

/// What a viewer's page asks of the display, as a message of the application's own.
#[derive(Debug, Deserialize)]
struct Request {
    display: Wish,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wish {
    /// Brings a window to the front.
    Activate(u32),
    /// Closes a window.
    Close(u32),
    /// The viewer's window has this size, in CSS pixels.
    Window([u16; 2]),
    /// Hands the controls on, or no longer wants them: `null`.
    Release(()),
    /// Would like the controls: `null`.
    Take(()),
}

/// A program on a display, as the studio sees it.
pub struct ProgramSource {
    name: String,
    graphics: String,
    size: (u16, u16),
    supervisor: Supervisor,
    sound: Option<SoundServer>,
    /// The one that is heard, and whose it is.
    microphone: Option<(Microphone, Option<Viewer>)>,
    parts: Option<Parts>,
    shared: Arc<Shared>,
    capture_bell: Ringer,
    windows_bell: Ringer,
    heard: Option<Sender<Heard>>,
    orders: Option<Sender<Order>>,
    /// Who has been told how the pointer looks.
    know_pointer: BTreeSet<Viewer>,
}

/// What the program plays.
struct Played(SoundServer);

impl SoundFeed for Played {
    fn next_block(&mut self) -> (SoundBlock, Span) {
        self.0.next_block()
    }

    fn plays_unheard(&self) -> bool {
        true
    }

    fn is_idle(&self) -> bool {
        !self.0.has_clients()
    }
}

/// What a thread does until the source is gone.
type Work = Box<dyn FnOnce(&Shared) -> Result<(), ThreadError> + Send>;

/// What the source starts with.
struct Parts {
    threads: Threads,
    orders: Receiver<Order>,
    heard: Receiver<Heard>,
    reports: BufReader<ChildStdout>,
}

struct Supervisor {
    process: Child,
    demands: Demands,
}

/// The supervisor's standard input.
#[derive(Clone)]
struct Demands(Arc<Mutex<Option<ChildStdin>>>);

impl Demands {
    fn say(&self, line: &impl Serialize) -> std::io::Result<()> {
        let Some(input) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) else { return Ok(()) };
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        input.write_all(&line)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // The end of its input ends the program.
        *self.demands.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.process.wait();
    }
}

struct Shared {
    sink: OnceLock<Arc<dyn PictureSink>>,
    watch: Watch,
    state: Mutex<State>,
    ending: Arc<OnceLock<Ending>>,
    /// The program can have so many gamepads.
    gamepads: AtomicU8,
    name: String,
}

/// What viewers are told.
struct State {
    pointer: (CursorShape, bool),
    /// The display draws it itself, where whoever has the controls has moved it.
    pointer_in_picture: bool,
    windows: String,
    standing: Standing,
    viewers: BTreeSet<Viewer>,
    outputs: VecDeque<(Viewer, Output)>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_told(&self, told: Told) {
        let mut state = self.state();
        let output = match told {
            Told::Pointer { cursor, captured } => {
                state.pointer = (cursor.clone(), captured);
                Output::Pointer { cursor, captured }
            }
            Told::Clipboard(text) => Output::Clipboard(text),
            Told::Resized => return,
            Told::Windows(windows) => {
                state.windows = windows_for_page(&windows);
                Output::Message(message(&state.windows))
            }
        };
        let viewers: Vec<Viewer> = state.viewers.iter().copied().collect();
        state.put_out(viewers.into_iter().map(|viewer| (viewer, output.clone())));
        drop(state);
        self.ring();
    }

    /// Who has the controls, for each viewer as it concerns them.
    fn tell_standing(&self, standing: Option<Standing>) {
        let mut state = self.state();
        state.standing = standing.unwrap_or_else(|| std::mem::take(&mut state.standing));
        let mut told: Vec<_> = state.viewers.iter().map(|viewer| (*viewer, state.standing_for(*viewer))).collect();
        if state.pointer_in_picture {
            told.extend(state.viewers.iter().map(|viewer| (*viewer, state.pointer_for(*viewer))));
        }
        state.put_out(told.into_iter());
        drop(state);
        self.ring();
    }

    /// The one of the driver's gamepads vibrates that is the program's of this number.
    fn on_rumble(&self, number: u8, Rumble { strong, weak, milliseconds }: Rumble) {
        let mut state = self.state();
        let source = state.standing.gamepads.get(usize::from(number)).copied().flatten();
        let Some((driver, gamepad)) = state.standing.driver.zip(source) else { return };
        let strength = |of: u16| f32::from(of) / f32::from(u16::MAX);
        let milliseconds = if milliseconds == 0 { u16::MAX } else { milliseconds }.min(MAX_HAPTICS_MILLISECONDS);
        let haptics = Haptics {
            target: HapticsTarget::Gamepad(gamepad),
            milliseconds,
            strong: strength(strong),
            weak: strength(weak),
        };
        state.put_out(std::iter::once((driver, Output::Haptics(haptics))));
        drop(state);
        self.ring();
    }

    fn tell_all(&self, text: &str) {
        let mut state = self.state();
        let viewers: Vec<Viewer> = state.viewers.iter().copied().collect();
        state.put_out(viewers.into_iter().map(|viewer| (viewer, Output::Message(message(text)))));
        drop(state);
        self.ring();
    }

    fn ring(&self) {
        if let Some(sink) = self.sink.get() {
            sink.on_output();
        }
    }

    fn fail(&self, reason: String) {
        self.end(SceneError::Program(reason));
    }

    fn end(&self, why: SceneError) {
        if let Some(sink) = self.sink.get().filter(|_| !self.watch.is_closed()) {
            sink.on_failed(why);
        }
    }
}

impl State {
    fn put_out(&mut self, outputs: impl Iterator<Item = (Viewer, Output)>) {
        let room = MOST_OUTPUTS.saturating_sub(self.outputs.len());
        self.outputs.extend(outputs.take(room));
    }

    fn pointer_for(&self, viewer: Viewer) -> Output {
        let (cursor, captured) = self.pointer.clone();
        let drives = self.standing.driver == Some(viewer);
        Output::Pointer { cursor: if self.pointer_in_picture && drives { hidden() } else { cursor }, captured }
    }

    fn standing_for(&self, viewer: Viewer) -> Output {
        let Standing { driver, asking, .. } = &self.standing;
        let holder = driver.map(|driver| if driver == viewer { "you" } else { "other" });
        let content = json!({
            "holder": holder,
            "asked": asking.contains(&viewer),
            "wanted": holder == Some("you") && !asking.is_empty(),
            "viewers": self.viewers.len(),
        });
        Output::Message(message(&for_page("controls", &content)))
    }
}

fn message(text: &str) -> ApplicationMessage {
    ApplicationMessage { data: text.as_bytes().to_vec(), reliable: true }
}

/// The windows to choose from, for the page.
fn windows_for_page(windows: &[(u32, String, bool)]) -> String {
    let choices = windows.iter().map(|(window, title, seen)| json!({ "window": window, "title": title, "seen": seen }));
    for_page("windows", &choices.collect())
}

/// A message for the page: what it concerns, and its content.
fn for_page(subject: &str, content: &Value) -> String {
    json!({ "display": { subject: content } }).to_string()
}

impl ProgramSource {
    /// Starts the display and connects to it; the program itself is started with the source. `supervisor` is a command that runs
    /// [`crate::supervise`]. Starts no thread, so that the caller can still give up privileges.
    pub fn open(options: &ProgramOptions, fps: u16, supervisor: (&Path, &[&str])) -> Result<Self, DisplayError> {
        let mut command = Command::new(supervisor.0);
        command.args(supervisor.1).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A terminal's interrupt is for the server alone, which ends the program in good order.
        command.process_group(0);
        let mut process = command.spawn().map_err(DisplayError::Supervisor)?;
        let (demands, reports) = (Demands(Arc::new(Mutex::new(process.stdin.take()))), process.stdout.take());
        let supervisor = Supervisor { process, demands };
        let lost = || DisplayError::Supervisor(std::io::Error::other("it has no pipes"));
        let mut reports = BufReader::new(reports.ok_or_else(lost)?);
        supervisor.demands.say(&Task::Supervise(options.clone())).map_err(DisplayError::Supervisor)?;
        let first = if options.display.is_some() { None } else { next_report(&mut reports) };
        if let Some(Report::Failed { reason }) = first {
            return Err(DisplayError::Program(reason));
        }
        let watch = Watch::default();
        let (capture_bell, hears_capture) = bell().map_err(DisplayError::Memory)?;
        let (windows_bell, hears_windows) = bell().map_err(DisplayError::Memory)?;
        let bells = Bells { capture: hears_capture, windows: hears_windows, watch: watch.clone() };
        let (threads, folder) = match (&options.display, first) {
            (Some(name), _) => (open_x(&Place::Named(name.clone()), None, options, fps, bells)?, None),
            (None, Some(Report::Display { number, cookie, folder, card })) => {
                (open_x(&Place::Own { number, cookie }, card, options, fps, bells)?, Some(folder))
            }
            (None, Some(Report::Compositor { wayland, own, folder })) => {
                (sway::open(&wayland, &own, (options.size, options.largest), fps, bells)?, Some(folder))
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
        let (heard_to, heard) = channel();
        let (orders_to, orders) = channel();
        let state = State {
            pointer: (CursorShape::Named("default".into()), false),
            pointer_in_picture: threads.pointer_in_picture,
            windows: String::new(),
            standing: Standing::default(),
            viewers: BTreeSet::new(),
            outputs: VecDeque::new(),
        };
        let shared = Shared {
            sink: OnceLock::new(),
            watch,
            state: Mutex::new(state),
            ending: Arc::default(),
            gamepads: AtomicU8::new(0),
            name: program,
        };
        Ok(Self {
            name,
            graphics: threads.graphics.clone(),
            size: (width & !1, height & !1),
            supervisor,
            sound,
            microphone: microphone.map(|microphone| (microphone, None)),
            parts: Some(Parts { threads, orders, heard, reports }),
            shared: Arc::new(shared),
            capture_bell,
            windows_bell,
            heard: Some(heard_to),
            orders: Some(orders_to),
            know_pointer: BTreeSet::new(),
        })
    }

    /// Of its first picture, in pixels.
    #[must_use]
    pub const fn size(&self) -> (u16, u16) {
        self.size
    }

    /// What draws the OpenGL of the display's programs, for people.
    #[must_use]
    pub fn graphics(&self) -> &str {
        &self.graphics
    }

    /// How the program ended, once it has and is not started again.
    #[must_use]
    pub fn ending(&self) -> Arc<OnceLock<Ending>> {
        Arc::clone(&self.shared.ending)
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // A thread that has ended has reported why.
            let _ = orders.send(order);
            self.windows_bell.ring();
        }
    }

    /// The program hears whoever has the controls.
    fn on_microphone(&mut self, viewer: Viewer, packet: &[u8]) {
        let drives = self.shared.state().standing.driver == Some(viewer);
        let Some((microphone, heard)) = self.microphone.as_mut().filter(|_| drives) else { return };
        if heard.replace(viewer) != Some(viewer) {
            microphone.restart();
        }
        microphone.on_message(packet);
    }

    /// Before the source has started, nobody has the controls.
    fn now(&self) -> Time {
        self.shared.sink.get().map_or(Time::ZERO, |sink| sink.now())
    }

    fn hear(&self, heard: Heard) {
        if let Some(to) = &self.heard {
            let _ = to.send(heard);
        }
    }
}

fn next_report(reports: &mut BufReader<ChildStdout>) -> Option<Report> {
    let mut line = String::new();
    reports.read_line(&mut line).ok().filter(|read| *read > 0)?;
    serde_json::from_str(&line).ok()
}

/// Logs what the supervisor reports, and ends the source when the program has ended for good.
fn follow(mut reports: BufReader<ChildStdout>, shared: &Shared) {
    let name = &shared.name;
    loop {
        match next_report(&mut reports) {
            Some(Report::Started { how, gamepads }) => {
                shared.gamepads.store(gamepads, Ordering::Relaxed);
                tracing::info!("{name} runs: {how}");
            }
            Some(Report::Output { line }) => tracing::info!("{name}: {line}"),
            Some(Report::Rumble { gamepad, rumble }) => shared.on_rumble(gamepad, rumble),
            Some(Report::Ended { ending, again: true }) => {
                tracing::warn!("{name} ended with {ending} and is started again");
                let words = format!("{name} ended with {ending}. It is started again.");
                shared.tell_all(&for_page("notice", &words.into()));
            }
            Some(Report::Ended { ending, again: false }) => {
                let _ = shared.ending.set(ending);
                let words = format!("{name} has ended with {ending}");
                tracing::info!("{words}");
                shared.tell_all(&for_page("ended", &words.clone().into()));
                pause();
                return shared.end(SceneError::ProgramEnded(words));
            }
            Some(Report::Failed { reason }) => return shared.fail(reason),
            Some(Report::Display { .. } | Report::Compositor { .. }) => {}
            None => return shared.fail(format!("the supervisor of {name} has ended")),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "viewers are to be told before their sessions end")]
fn pause() {
    thread::sleep(GOODBYE);
}

impl Application for ProgramSource {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn on_viewer_joined(&mut self, _now: Time, viewer: Viewer) {
        self.shared.state().viewers.insert(viewer);
        self.shared.tell_standing(None);
        // Its first picture is a key frame, which is coarse.
        self.shared.watch.joined.store(true, Ordering::Relaxed);
        self.capture_bell.ring();
    }

    fn on_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput) {
        if self.know_pointer.insert(viewer) {
            // Whoever sends input has had its welcome, and is not told in vain.
            let mut state = self.shared.state();
            let pointer = state.pointer_for(viewer);
            let program = message(&for_page("program", &self.shared.name.clone().into()));
            let windows = (!state.windows.is_empty()).then(|| Output::Message(message(&state.windows)));
            let standing = state.standing_for(viewer);
            let outputs = [Output::Message(program), pointer, standing];
            let records = self.microphone.is_some();
            let microphone = records.then(|| Output::Message(message(&for_page("microphone", &true.into()))));
            state.put_out(outputs.into_iter().chain(windows).chain(microphone).map(|output| (viewer, output)));
        }
        self.hear(Heard::Input { now, viewer, input: Box::new(input.clone()) });
    }

    fn on_viewer_left(&mut self, viewer: Viewer) {
        self.shared.state().viewers.remove(&viewer);
        self.know_pointer.remove(&viewer);
        self.shared.tell_standing(None);
        self.hear(Heard::Left { now: self.now(), viewer });
    }

    fn on_message(&mut self, now: Time, viewer: Viewer, message: ApplicationMessage) {
        if !message.reliable {
            return self.on_microphone(viewer, &message.data);
        }
        match serde_json::from_slice(&message.data).map(|Request { display }| display) {
            Ok(Wish::Activate(window)) => self.order(Order::Activate(window)),
            Ok(Wish::Close(window)) => self.order(Order::Close(window)),
            Ok(Wish::Window([width, height])) => self.hear(Heard::Window { viewer, size: (width, height) }),
            Ok(Wish::Release(())) => self.hear(Heard::Released { now, viewer }),
            Ok(Wish::Take(())) => self.hear(Heard::Asked { now, viewer }),
            Err(error) => tracing::debug!(viewer = viewer.0, %error, "a message that is none for a display"),
        }
    }

    fn on_clipboard(&mut self, _now: Time, _viewer: Viewer, text: String) {
        self.order(Order::Clipboard(text));
    }

    fn poll_output(&mut self) -> Option<(Viewer, Output)> {
        self.shared.state().outputs.pop_front()
    }
}

impl PushSource for ProgramSource {
    fn start(&mut self, sink: Arc<dyn PictureSink>) -> std::io::Result<()> {
        let Some(parts) = self.parts.take() else { return Ok(()) };
        let Parts { threads: Threads { capture, windows, injection, .. }, orders, heard, reports } = parts;
        let _ = self.shared.sink.set(Arc::clone(&sink));
        let spawn = |name: &str, work: Work| {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name(name.into());
            thread.spawn(move || {
                if let Err(error) = work(&shared) {
                    shared.fail(format!("the display of {} failed: {error}", shared.name));
                }
            })
        };
        let capture_bell = self.capture_bell.clone();
        let managed = move |shared: &Shared| {
            windows(&orders, &|told| match told {
                Told::Resized => capture_bell.ring(),
                told => shared.on_told(told),
            })
        };
        spawn("windows", Box::new(managed))?;
        spawn("capture", Box::new(move |_: &Shared| capture(sink.as_ref())))?;
        let (demands, orders, windows_bell) =
            (self.supervisor.demands.clone(), self.orders.clone(), self.windows_bell.clone());
        let injected = move |shared: &Shared| {
            let done = injection.run(&heard, &shared.gamepads, &|consequence| match consequence {
                Consequence::Standing(standing) => shared.tell_standing(Some(standing)),
                // If the supervisor has ended, its end is reported.
                Consequence::Window(size) => {
                    if let Some(orders) = &orders {
                        let _ = orders.send(Order::Resize(size));
                        windows_bell.ring();
                    }
                }
                Consequence::Gamepad(change) => drop(demands.say(&Demand::Gamepad(change))),
            });
            // The windows' thread ends when nobody can give it orders.
            drop(orders);
            windows_bell.ring();
            done
        };
        spawn("injection", Box::new(injected))?;
        spawn(
            "program",
            Box::new(move |shared: &Shared| {
                follow(reports, shared);
                Ok(())
            }),
        )?;
        self.supervisor.demands.say(&Demand::Start)
    }

    fn sound(&mut self) -> Option<Box<dyn SoundFeed>> {
        let mut server = self.sound.take()?;
        match server.start() {
            Ok(()) => Some(Box::new(Played(server))),
            Err(error) => {
                tracing::error!(%error, "the program stays without sound");
                None
            }
        }
    }

    fn set_watched(&mut self, watched: bool) {
        self.shared.watch.watched.store(watched, Ordering::Relaxed);
        self.capture_bell.ring();
    }
}

impl Drop for ProgramSource {
    fn drop(&mut self) {
        self.shared.watch.closed.store(true, Ordering::Relaxed);
        (self.heard, self.orders) = (None, None);
        self.capture_bell.ring();
        self.windows_bell.ring();
    }
}
