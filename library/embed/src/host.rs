//! The server and its threads, as an object of the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use nearlight_codec::Size;
use nearlight_net::{Clock, EthernetInterface, EthernetLink, Link};
use nearlight_scene::{ApplicationMessage, Output, PictureSink, Planes, PlanesContent, Viewer};
use nearlight_server::{BoundServer, Observer, ServerError, SessionStatistics, qr_code};
use nearlight_session::UNKNOWN_TO_DISPLAY;
use nearlight_sound::Portion;
use nearlight_units::{Span, Time, lock};
use nearlight_wire::{
    CursorShape, Haptics, HapticsTarget, MAX_CLIPBOARD_BYTES, MAX_CURSOR_SIDE, MAX_GAMEPADS, MAX_HAPTICS_MILLISECONDS,
    MAX_RELIABLE_MESSAGE_BYTES, MAX_UNRELIABLE_MESSAGE_BYTES,
};
use tokio::sync::oneshot;

use crate::HostError;
use crate::event::{Event, EventKind};
use crate::options::Options;
use crate::picture::{self, Content, Picture};
use crate::source::{Pointer, ProgramSource, Shared};
use crate::viewer::ViewerState;

/// Number of threads of the event loop, as in `nearlight serve`.
const WORKER_THREADS: usize = 2;
/// Maximum time for which [`Host::close`] waits: for messages until the studio has taken them, and for the last picture since its
/// submission. Guess: three frame intervals at 30 pictures a second.
const FLUSH_TIMEOUT: Span = Span::from_millis(100);
/// Interval at which [`Host::close`] checks whether everything has left. Guess: short beside [`FLUSH_TIMEOUT`].
const FLUSH_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum time for which the callback thread sleeps when no event comes. An event or [`Host::close`] wakes it earlier.
const MAX_CALLBACK_WAIT: Duration = Duration::from_hours(1);

/// Counters of a server in this process, since it was opened.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Number of submitted pictures.
    pub submitted: u64,
    /// Number of submitted pictures that were dropped without conversion because nobody watched.
    pub unwatched: u64,
    /// Number of events that were dropped because the program did not take them in time.
    pub events_dropped: u64,
    /// Number of sample frames of sound that were dropped because more was submitted than is played, or because nobody listened.
    pub sound_dropped: u64,
    /// Statistics of each connected viewer's session.
    pub viewers: Vec<(Viewer, SessionStatistics)>,
}

/// A server in this process. Dropping it closes it.
pub struct Host {
    clock: Clock,
    shared: Arc<Shared>,
    links: Vec<Link>,
    ethernet_links: Vec<EthernetLink>,
    observer: Observer,
    closed: AtomicBool,
    /// The reason why the server has ended by itself.
    failure: Arc<OnceLock<String>>,
    /// The time when the last picture was submitted.
    last_submitted_at: Mutex<Option<Time>>,
    running: Mutex<Option<ServerThread>>,
    callback: Mutex<Option<JoinHandle<()>>>,
}

/// The server's thread, and the means to stop it.
struct ServerThread {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// The server thread's report that clients can connect.
struct StartReport {
    links: Vec<Link>,
    ethernet_links: Vec<EthernetLink>,
    observer: Observer,
}

impl Host {
    /// Opens the ports and waits until viewers can connect, which takes tens of milliseconds. May be called inside the program's own async
    /// runtime.
    pub fn open(options: &Options) -> Result<Self, HostError> {
        let serve = options.serve_options()?;
        let allowed = options.allowed_addresses()?;
        let interfaces = options.ethernet.iter().map(|name| EthernetInterface::open(name));
        let interfaces = interfaces.collect::<Result<Vec<_>, _>>().map_err(ServerError::from)?;
        let (clock, shared, failure) =
            (Clock::start(), Arc::new(Shared::with_sound(options.sound)), Arc::new(OnceLock::new()));
        let program = ProgramSource { name: options.name.clone(), shared: Arc::clone(&shared) };
        let (stop, stopped) = oneshot::channel();
        let (ready, opened) = sync_channel(1);
        let task = ServerTask { clock, shared: Arc::clone(&shared), failure: Arc::clone(&failure) };
        let thread = thread::Builder::new().name("nearlight".into()).spawn(move || {
            let bind = || BoundServer::open(serve, clock)?.with_ethernet(&interfaces, allowed.as_ref());
            task.run(bind, program, &ready, stopped);
        })?;
        match opened.recv() {
            Ok(Ok(StartReport { links, ethernet_links, observer })) => Ok(Self {
                clock,
                shared,
                links,
                ethernet_links,
                observer,
                closed: AtomicBool::new(false),
                failure,
                last_submitted_at: Mutex::new(None),
                running: Mutex::new(Some(ServerThread { stop, thread })),
                callback: Mutex::new(None),
            }),
            Ok(Err(error)) => {
                let _ = thread.join();
                Err(error)
            }
            Err(_) => Err(HostError::Failed("its thread panicked while it started; see standard error".into())),
        }
    }

    /// Returns the time since the server was opened, on the clock of all times of this interface.
    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns links to the page: first the one for a browser on this machine, then those for other machines, the likeliest first. They are
    /// secrets: whoever has one can watch and control.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        self.links.clone()
    }

    /// Returns links for `nearlight view` and device programs in the same network, over Ethernet frames; one for each interface of the
    /// options. They are secrets as well. A client adds the name of its own interface when it has several.
    #[must_use]
    pub fn ethernet_links(&self) -> &[EthernetLink] {
        &self.ethernet_links
    }

    /// Returns a link as a QR code for a phone's camera, in lines of Unicode block characters.
    pub fn qr_code(link: &Link) -> Result<String, HostError> {
        qr_code(&link.to_string())
            .map_err(|error| HostError::Options(format!("the link does not fit a QR code: {error}")))
    }

    /// Returns whether anybody watches. When nobody does, pictures are dropped.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.shared.watched.load(Ordering::Relaxed)
    }

    /// Takes a picture: converts it once in the calling thread, and returns while other threads encode it. Memory is allocated only for the
    /// first pictures of a size. A picture that is older than its predecessor is dropped, as is one that nobody watches.
    ///
    /// With [`Options::synchronous`] the calling thread also encodes the picture and waits up to 5 ms for the packets that the pacer
    /// releases.
    pub fn submit(&self, picture: &Picture<'_>) -> Result<(), HostError> {
        let (sink, now) = (self.sink()?, self.clock.now());
        picture.check()?;
        if !self.count() {
            return Ok(());
        }
        let Size { width, height } = picture.size();
        let (planes, written) = picture.write(sink.lend((width, height)));
        if let Err(error) = written {
            sink.put_back(planes);
            return Err(error);
        }
        let content = Content { side_by_side: picture.is_stereo(), ..picture.content };
        self.submit_to(sink.as_ref(), now, planes, &content);
        Ok(())
    }

    /// Lends planes of this size for [`Host::submit_planes`], so that the program's picture is not copied. They contain an old picture.
    pub fn lend(&self, size: Size) -> Result<Planes, HostError> {
        size.check()?;
        Ok(self.sink()?.lend((size.width, size.height)))
    }

    /// Takes lent planes as a picture, without a copy.
    pub fn submit_planes(&self, planes: Planes, content: &Content<'_>) -> Result<(), HostError> {
        let sink = self.sink()?;
        let size = Size { width: planes.width, height: planes.height };
        picture::check(size, content.views, content.side_by_side)?;
        let lengths = [planes.luma.len(), planes.blue.len() * 4, planes.red.len() * 4];
        if lengths != [size.pixels(); 3] {
            return Err(HostError::Views("its planes are not those that were lent for its size"));
        }
        if self.count() {
            self.submit_to(sink.as_ref(), self.clock.now(), planes, content);
        } else {
            sink.put_back(planes);
        }
        Ok(())
    }

    /// Takes back lent planes without showing them.
    pub fn put_back(&self, planes: Planes) {
        if let Some(sink) = self.shared.sink.get() {
            sink.put_back(planes);
        }
    }

    /// Takes the program's next sound, which follows the sound submitted before, at the program's own pace. Viewers hear it together with
    /// the pictures of the same moment. Copies the samples and returns. At most 200 ms of sound are queued, and sound that nobody listens
    /// to is dropped.
    pub fn submit_sound(&self, portion: &Portion<'_>) -> Result<(), HostError> {
        self.check_open()?;
        let sound = self.shared.sound.as_ref().ok_or(HostError::NoSound)?;
        let mut converter = lock(&sound.converter);
        let converted = converter.convert(portion)?;
        // The converter stays locked, so that portions of several threads keep their order.
        lock(&sound.feed).push(converted);
        Ok(())
    }

    /// Counts a picture. Returns false when nobody watches.
    fn count(&self) -> bool {
        let watched = self.is_watched();
        self.shared.submitted.fetch_add(1, Ordering::Relaxed);
        self.shared.unwatched.fetch_add((!watched).into(), Ordering::Relaxed);
        watched
    }

    /// Passes a picture to the studio. `now` is the time of its submission, before it was converted.
    fn submit_to(&self, sink: &dyn PictureSink, now: Time, planes: Planes, content: &Content<'_>) {
        let Content { captured_at, views, side_by_side } = *content;
        // A picture from the future would make all pictures until then count as too old.
        let captured_at = captured_at.unwrap_or(now).min(now);
        sink.submit_planes(planes, &PlanesContent { captured_at, views, side_by_side });
        *lock(&self.last_submitted_at) = Some(now);
    }

    /// Takes the oldest queued event, without waiting.
    #[must_use]
    pub fn poll_event(&self) -> Option<Event> {
        self.shared.events.poll()
    }

    /// Takes the oldest queued event. When there is none, waits for one until `limit` has passed or the server is closed.
    #[must_use]
    pub fn wait_event(&self, limit: Duration) -> Option<Event> {
        self.shared.events.wait(limit)
    }

    /// Starts a thread that calls `on_event` with each event until the server is closed, as an alternative to polling. A slow callback only
    /// delays later events.
    pub fn set_callback(&self, mut on_event: impl FnMut(Event) + Send + 'static) -> Result<(), HostError> {
        self.check_open()?;
        let shared = Arc::clone(&self.shared);
        let mut callback = lock(&self.callback);
        if callback.is_some() {
            return Err(HostError::Output("the server has an event callback already: it cannot have two"));
        }
        let thread = thread::Builder::new().name("nearlight-events".into()).spawn(move || {
            loop {
                match shared.events.wait(MAX_CALLBACK_WAIT) {
                    Some(event) => on_event(event),
                    None if shared.events.is_closed() => return,
                    None => {}
                }
            }
        })?;
        *callback = Some(thread);
        Ok(())
    }

    /// Returns everybody who watches, with the views to draw for each, in order of arrival.
    #[must_use]
    pub fn viewers(&self) -> Vec<ViewerState> {
        self.shared.viewers().states(self.clock.now(), UNKNOWN_TO_DISPLAY)
    }

    /// Returns the viewer for whose views a picture for all viewers should be drawn: the one that acted last, otherwise the first to
    /// arrive.
    #[must_use]
    pub fn driver(&self) -> Option<ViewerState> {
        self.viewers().into_iter().find(|state| state.drives)
    }

    /// Sends a message to the page or program of one viewer, or of all of them.
    pub fn send(&self, to: Option<Viewer>, data: &[u8], reliable: bool) -> Result<(), HostError> {
        let most = if reliable { MAX_RELIABLE_MESSAGE_BYTES } else { MAX_UNRELIABLE_MESSAGE_BYTES };
        if data.len() > most {
            let what = if reliable { "the message" } else { "the message that may be lost" };
            return Err(HostError::TooLong { what, got: data.len(), most });
        }
        self.queue_output(to, &Output::Message(ApplicationMessage { data: data.to_vec(), reliable }))
    }

    /// Makes the gamepad or controller of one viewer, or of all of them, vibrate.
    pub fn haptics(&self, to: Option<Viewer>, pulse: Haptics) -> Result<(), HostError> {
        if pulse.milliseconds > MAX_HAPTICS_MILLISECONDS {
            return Err(HostError::Output("a pulse lasts 5000 ms at most: ask for it again"));
        }
        if ![pulse.strong, pulse.weak].iter().all(|strength| (0.0..=1.0).contains(strength)) {
            return Err(HostError::Output("a pulse's strength lies between 0 and 1"));
        }
        if matches!(pulse.target, HapticsTarget::Gamepad(number) if usize::from(number) >= MAX_GAMEPADS) {
            return Err(HostError::Output("gamepads have the numbers 0 to 3"));
        }
        self.queue_output(to, &Output::Haptics(pulse))
    }

    /// Sets the pointer's shape, and whether a click captures it so that only its movement is reported, for one viewer, or for all viewers
    /// and those who connect later. Until this is called, the pointer is free and has the system's default shape.
    pub fn set_pointer(&self, to: Option<Viewer>, cursor: CursorShape, captured: bool) -> Result<(), HostError> {
        if let CursorShape::Image { width, height, rgba, hotspot } = &cursor {
            let sides = [width, height].iter().all(|side| (1..=MAX_CURSOR_SIDE).contains(*side));
            if !sides || rgba.0.len() != usize::from(*width) * usize::from(*height) * 4 {
                return Err(HostError::Output("a pointer's image has up to 64 by 64 pixels of four bytes each"));
            }
            if hotspot[0] >= *width || hotspot[1] >= *height {
                return Err(HostError::Output("a pointer's hotspot lies within its image"));
            }
        }
        self.check_open()?;
        if to.is_none() {
            *self.shared.pointer() = Pointer { cursor: cursor.clone(), captured };
        }
        self.queue_output(to, &Output::Pointer { cursor, captured })
    }

    /// Sends a text to the clipboard of one viewer, or of all of them, provided that the viewer and the options allow it.
    pub fn set_clipboard(&self, to: Option<Viewer>, text: &str) -> Result<(), HostError> {
        if text.len() > MAX_CLIPBOARD_BYTES {
            let what = "the text for the clipboard";
            return Err(HostError::TooLong { what, got: text.len(), most: MAX_CLIPBOARD_BYTES });
        }
        self.queue_output(to, &Output::Clipboard(text.to_owned()))
    }

    fn queue_output(&self, to: Option<Viewer>, output: &Output) -> Result<(), HostError> {
        self.check_open()?;
        let viewers = self.shared.viewers();
        let to: Vec<Viewer> = match to {
            Some(viewer) if !viewers.contains(viewer) => return Err(HostError::NoViewer(viewer.0)),
            Some(viewer) => vec![viewer],
            None => viewers.numbers().collect(),
        };
        drop(viewers);
        let queued = self.shared.queue_outputs(to.into_iter().map(|viewer| (viewer, output.clone())));
        queued.then_some(()).ok_or(HostError::Full)
    }

    /// Returns the counters since the server was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics {
            submitted: self.shared.submitted.load(Ordering::Relaxed),
            unwatched: self.shared.unwatched.load(Ordering::Relaxed),
            events_dropped: self.shared.events.dropped(),
            sound_dropped: self.shared.sound.as_ref().map_or(0, |sound| lock(&sound.feed).dropped()),
            viewers: self.observer.sessions(),
        }
    }

    /// Returns whether the server was closed or has ended by itself. Only events that are already queued can then be taken.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.check_open().is_err()
    }

    fn check_open(&self) -> Result<(), HostError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(HostError::Closed);
        }
        self.failure.get().map_or(Ok(()), |reason| Err(HostError::Failed(reason.clone())))
    }

    fn sink(&self) -> Result<&Arc<dyn PictureSink>, HostError> {
        self.check_open()?;
        self.shared.sink.get().ok_or(HostError::Closed)
    }

    /// Waits until submitted pictures and messages have left, takes leave of every viewer and ends all threads: within 5 s, usually within
    /// half a second. Other calls return [`HostError::Closed`] from now on; queued events can still be taken.
    pub fn close(&self) -> Result<(), HostError> {
        let callback = lock(&self.callback).as_ref().map(|thread| thread.thread().id());
        if callback == Some(this_thread()) {
            return Err(HostError::CloseFromCallback);
        }
        let Some(ServerThread { stop, thread }) = lock(&self.running).take() else { return Ok(()) };
        self.closed.store(true, Ordering::Relaxed);
        self.flush();
        let _ = stop.send(());
        let ended = thread.join();
        self.shared.events.close();
        let callback = lock(&self.callback).take();
        if let Some(thread) = callback {
            let _ = thread.join();
        }
        ended.map_err(|_| HostError::Failed("its thread panicked; see standard error".into()))?;
        self.failure.get().map_or(Ok(()), |reason| Err(HostError::Failed(reason.clone())))
    }

    #[expect(clippy::disallowed_methods, reason = "a driver that waits for other threads")]
    fn flush(&self) {
        let began = self.clock.now();
        let submitted = lock(&self.last_submitted_at).unwrap_or(Time::ZERO);
        while self.is_watched() && self.failure.get().is_none() {
            let now = self.clock.now();
            let messages = self.shared.has_outputs() && now < began + FLUSH_TIMEOUT;
            // The studio has passed the last message to the sessions, and the last picture has been encoded and paced.
            if !messages && now >= submitted + FLUSH_TIMEOUT {
                return;
            }
            thread::sleep(FLUSH_POLL_INTERVAL);
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Only an explicit `close` reports errors.
        let _ = self.close();
    }
}

fn this_thread() -> ThreadId {
    thread::current().id()
}

/// The work of the server's thread.
struct ServerTask {
    clock: Clock,
    shared: Arc<Shared>,
    failure: Arc<OnceLock<String>>,
}

impl ServerTask {
    fn run(
        self,
        bind: impl FnOnce() -> Result<BoundServer, ServerError>,
        program: ProgramSource,
        ready: &SyncSender<Result<StartReport, HostError>>,
        stopped: oneshot::Receiver<()>,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(WORKER_THREADS)
            .thread_name("nearlight-net")
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error.into()))),
        };
        runtime.block_on(async {
            let opened = bind().and_then(|bound| {
                let ethernet_links = bound.ethernet_links().to_vec();
                let links = [bound.local_link()].into_iter().chain(bound.other_links());
                let links = links.collect();
                Ok((bound.start_with_source(Box::new(program))?, links, ethernet_links))
            });
            let (server, links, ethernet_links) = match opened {
                Ok(opened) => opened,
                Err(error) => return drop(ready.send(Err(error.into()))),
            };
            let _ = ready.send(Ok(StartReport { links, ethernet_links, observer: server.observer() }));
            let stop = async move {
                // An error means that the host was dropped, which also ends the server.
                let _ = stopped.await;
            };
            if let Err(error) = server.run(stop).await {
                let reason = error.to_string();
                let _ = self.failure.set(reason.clone());
                self.shared.events.push(self.clock.now(), None, EventKind::Failed(reason));
            }
        });
    }
}
