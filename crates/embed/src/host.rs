//! The server and its threads, as a program holds them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use nearlight_codec::Size;
use nearlight_net::{Clock, EthernetInterface, EthernetLink, Link};
use nearlight_scene::{ApplicationMessage, Output, PictureSink, Planes, PlanesContent, Viewer};
use nearlight_server::{BoundServer, Observer, ServerError, SessionStatistics, qr_code};
use nearlight_session::UNKNOWN_TO_DISPLAY;
use nearlight_sound::Portion;
use nearlight_units::{Span, Time};
use nearlight_wire::{
    CursorShape, Haptics, HapticsTarget, MAX_CLIPBOARD_BYTES, MAX_CURSOR_SIDE, MAX_GAMEPADS, MAX_HAPTICS_MILLISECONDS,
    MAX_RELIABLE_MESSAGE_BYTES, MAX_UNRELIABLE_MESSAGE_BYTES,
};
use tokio::sync::oneshot;

use crate::HostError;
use crate::event::{Event, What};
use crate::options::Options;
use crate::picture::{self, Content, Picture};
use crate::source::{Pointer, Program, Shared};
use crate::viewer::ViewerState;

/// Threads of the event loop, as `nearlight serve` has.
const WORKERS: usize = 2;
/// How long [`Host::close`] lets what was sent before it leave: messages until the studio has taken them, at most so long, and the last
/// picture so long after its submission. It is also how long a picture is of use at 30 pictures a second.
const FLUSH: Span = Span::from_millis(100);
/// How often it looks.
const FLUSH_CHECK: Duration = Duration::from_millis(2);
/// How long a waiting callback thread sleeps where no event comes.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// What a server in this process has counted.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Pictures that were submitted.
    pub submitted: u64,
    /// Those of them that nobody watched: they were dropped unconverted.
    pub unwatched: u64,
    /// Events that the program did not take in time.
    pub events_dropped: u64,
    /// Sample frames of sound that were dropped because more was submitted than is played, or nobody listened.
    pub sound_dropped: u64,
    pub viewers: Vec<(Viewer, SessionStatistics)>,
}

/// A server in this process. Dropping it closes it.
pub struct Host {
    clock: Clock,
    shared: Arc<Shared>,
    links: Arc<RwLock<Vec<Link>>>,
    ethernet_links: Vec<EthernetLink>,
    observer: Observer,
    closed: AtomicBool,
    /// Why the server has ended by itself.
    failure: Arc<OnceLock<String>>,
    /// When the last picture was submitted.
    newest: Mutex<Option<Time>>,
    running: Mutex<Option<Running>>,
    callback: Mutex<Option<JoinHandle<()>>>,
}

struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// What the server's thread knows once clients can connect.
struct Ready {
    links: Arc<RwLock<Vec<Link>>>,
    ethernet_links: Vec<EthernetLink>,
    observer: Observer,
}

impl Host {
    /// Opens the ports and waits until viewers can connect: tens of milliseconds. May be called within an event loop of the program's own.
    pub fn open(options: &Options) -> Result<Self, HostError> {
        let serve = options.serve_options()?;
        let allowed = options.allowed_addresses()?;
        let interfaces = options.ethernet.iter().map(|name| EthernetInterface::open(name));
        let interfaces = interfaces.collect::<Result<Vec<_>, _>>().map_err(ServerError::from)?;
        let (clock, shared, failure) =
            (Clock::start(), Arc::new(Shared::with_sound(options.sound)), Arc::new(OnceLock::new()));
        let program = Program { name: options.name.clone(), shared: Arc::clone(&shared) };
        let (stop, stopped) = oneshot::channel();
        let (ready, opened) = sync_channel(1);
        let task = ServerTask { clock, shared: Arc::clone(&shared), failure: Arc::clone(&failure) };
        let thread = thread::Builder::new().name("nearlight".into()).spawn(move || {
            let bind = || BoundServer::open(serve, clock)?.with_ethernet(&interfaces, allowed.as_ref());
            task.run(bind, program, &ready, stopped);
        })?;
        match opened.recv() {
            Ok(Ok(Ready { links, ethernet_links, observer })) => Ok(Self {
                clock,
                shared,
                links,
                ethernet_links,
                observer,
                closed: AtomicBool::new(false),
                failure,
                newest: Mutex::new(None),
                running: Mutex::new(Some(Running { stop, thread })),
                callback: Mutex::new(None),
            }),
            Ok(Err(error)) => {
                let _ = thread.join();
                Err(error)
            }
            Err(_) => Err(HostError::Failed("its thread panicked while it started; see standard error".into())),
        }
    }

    /// The clock of every time here: nanoseconds since the server was opened.
    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Links to the page, for a browser on this machine first, then for others, the likeliest first. They are keys: whoever has one sees and
    /// acts. [`What::LinksChanged`] tells when they change, every ten days.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        self.links.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Links for `nearlight view` and device programs in the same network, over Ethernet frames; one for each interface of the options. They
    /// are keys as well. Whoever connects adds the name of an interface of its own, unless it has only one.
    #[must_use]
    pub fn ethernet_links(&self) -> &[EthernetLink] {
        &self.ethernet_links
    }

    /// A link as a code for a phone's camera, in lines of Unicode's block characters.
    pub fn qr_code(link: &Link) -> Result<String, HostError> {
        qr_code(&link.to_string())
            .map_err(|error| HostError::Options(format!("the link does not fit a QR code: {error}")))
    }

    /// Whether anybody watches. Where nobody does, pictures are dropped.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.shared.watched.load(Ordering::Relaxed)
    }

    /// Takes a picture: converts it once, in this thread, and returns while it is encoded beside. Memory is allocated only for the first
    /// pictures of a size. A picture that is older than one before it is dropped, as is one that nobody watches.
    ///
    /// With [`Options::synchronous`] this thread encodes it too and waits up to 5 ms until its packets have left, as far as the pacer lets them.
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
        self.hand_over(now, sink.as_ref(), planes, &content);
        Ok(())
    }

    /// Planes of a picture of this size for [`Host::submit_planes`], with an old picture in them: what a program draws there is not copied.
    pub fn lend(&self, size: Size) -> Result<Planes, HostError> {
        size.check()?;
        Ok(self.sink()?.lend((size.width, size.height)))
    }

    /// Takes planes that were lent as a picture, without a copy.
    pub fn submit_planes(&self, planes: Planes, content: &Content<'_>) -> Result<(), HostError> {
        let sink = self.sink()?;
        let size = Size { width: planes.width, height: planes.height };
        picture::check(size, content.views, content.side_by_side)?;
        let lengths = [planes.luma.len(), planes.blue.len() * 4, planes.red.len() * 4];
        if lengths != [size.pixels(); 3] {
            return Err(HostError::Views("its planes are not those that were lent for its size"));
        }
        if self.count() {
            self.hand_over(self.clock.now(), sink.as_ref(), planes, content);
        } else {
            sink.put_back(planes);
        }
        Ok(())
    }

    /// Gives planes back that are not to be shown.
    pub fn put_back(&self, planes: Planes) {
        if let Some(sink) = self.shared.sink.get() {
            sink.put_back(planes);
        }
    }

    /// Takes the program's next sound: it follows what was submitted before, at the program's own pace. Viewers hear it together with pictures
    /// of the same moment. Copies it and returns; of what viewers have not heard, 200 ms are kept. What nobody listens to is dropped.
    pub fn submit_sound(&self, portion: &Portion<'_>) -> Result<(), HostError> {
        self.check_open()?;
        let sound = self.shared.sound.as_ref().ok_or(HostError::NoSound)?;
        let mut converter = lock(&sound.converter);
        let converted = converter.convert(portion)?;
        // Both locks, so that portions of several threads stay in one order.
        lock(&sound.feed).push(converted);
        Ok(())
    }

    /// Counts a picture. False where nobody watches.
    fn count(&self) -> bool {
        let watched = self.is_watched();
        self.shared.submitted.fetch_add(1, Ordering::Relaxed);
        self.shared.unwatched.fetch_add((!watched).into(), Ordering::Relaxed);
        watched
    }

    /// `now`: when it was submitted, before it was converted.
    fn hand_over(&self, now: Time, sink: &dyn PictureSink, planes: Planes, content: &Content<'_>) {
        let Content { captured_at, views, side_by_side } = *content;
        // One from the future would keep out those that come before then.
        let captured_at = captured_at.unwrap_or(now).min(now);
        sink.submit_planes(planes, &PlanesContent { captured_at, views, side_by_side });
        *lock(&self.newest) = Some(now);
    }

    /// The oldest event that was not taken.
    #[must_use]
    pub fn poll_event(&self) -> Option<Event> {
        self.shared.events.poll()
    }

    /// The same; waits for one, at most so long, and not once the server is closed.
    #[must_use]
    pub fn wait_event(&self, limit: Duration) -> Option<Event> {
        self.shared.events.wait(limit)
    }

    /// Has a thread of its own take each event and call `on_event` with it, in place of polling, until the server is closed. A callback
    /// that takes long delays later events alone.
    pub fn set_callback(&self, mut on_event: impl FnMut(Event) + Send + 'static) -> Result<(), HostError> {
        self.check_open()?;
        let shared = Arc::clone(&self.shared);
        let mut callback = lock(&self.callback);
        if callback.is_some() {
            return Err(HostError::Output("the server has an event callback already: it cannot have two"));
        }
        let thread = thread::Builder::new().name("nearlight-events".into()).spawn(move || {
            loop {
                match shared.events.wait(LONGEST_WAIT) {
                    Some(event) => on_event(event),
                    None if shared.events.is_closed() => return,
                    None => {}
                }
            }
        })?;
        *callback = Some(thread);
        Ok(())
    }

    /// Everybody who watches, with the views to draw for each, in the order of their coming.
    #[must_use]
    pub fn viewers(&self) -> Vec<ViewerState> {
        self.shared.viewers().states(self.clock.now(), UNKNOWN_TO_DISPLAY)
    }

    /// The viewer whose views a picture for all is drawn for: who acted last, else who came first.
    #[must_use]
    pub fn driver(&self) -> Option<ViewerState> {
        self.viewers().into_iter().find(|state| state.drives)
    }

    /// A message for the page or program of a viewer, or of all.
    pub fn send(&self, to: Option<Viewer>, data: &[u8], reliable: bool) -> Result<(), HostError> {
        let most = if reliable { MAX_RELIABLE_MESSAGE_BYTES } else { MAX_UNRELIABLE_MESSAGE_BYTES };
        if data.len() > most {
            let what = if reliable { "the message" } else { "the message that may be lost" };
            return Err(HostError::TooLong { what, got: data.len(), most });
        }
        self.put_out(to, &Output::Message(ApplicationMessage { data: data.to_vec(), reliable }))
    }

    /// A pulse of a viewer's gamepad or controller, or of everybody's.
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
        self.put_out(to, &Output::Haptics(pulse))
    }

    /// How the pointer looks, and whether it is captured when the user clicks, for its movement: of a viewer, or of all and of those who
    /// come. Until it is set it is the system's usual one and free.
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
        self.put_out(to, &Output::Pointer { cursor, captured })
    }

    /// A text for the clipboard of a viewer who allows it, or of all, where the options allow it.
    pub fn set_clipboard(&self, to: Option<Viewer>, text: &str) -> Result<(), HostError> {
        if text.len() > MAX_CLIPBOARD_BYTES {
            let what = "the text for the clipboard";
            return Err(HostError::TooLong { what, got: text.len(), most: MAX_CLIPBOARD_BYTES });
        }
        self.put_out(to, &Output::Clipboard(text.to_owned()))
    }

    fn put_out(&self, to: Option<Viewer>, output: &Output) -> Result<(), HostError> {
        self.check_open()?;
        let viewers = self.shared.viewers();
        let to: Vec<Viewer> = match to {
            Some(viewer) if !viewers.contains(viewer) => return Err(HostError::NoViewer(viewer.0)),
            Some(viewer) => vec![viewer],
            None => viewers.numbers().collect(),
        };
        drop(viewers);
        let taken = self.shared.put_out(to.into_iter().map(|viewer| (viewer, output.clone())));
        taken.then_some(()).ok_or(HostError::Full)
    }

    /// What was counted since the server was opened.
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

    /// It was closed, or has ended by itself: no event comes any more but those that wait.
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

    /// Lets what was submitted and sent before leave, says goodbye to every viewer and ends all threads: within 5 s, usually within half a
    /// second. Other calls answer [`HostError::Closed`] from now on; events that were not taken still are there.
    pub fn close(&self) -> Result<(), HostError> {
        let callback = lock(&self.callback).as_ref().map(|thread| thread.thread().id());
        if callback == Some(this_thread()) {
            return Err(HostError::CloseFromCallback);
        }
        let Some(Running { stop, thread }) = lock(&self.running).take() else { return Ok(()) };
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

    #[expect(clippy::disallowed_methods, reason = "a driver that waits for others' threads")]
    fn flush(&self) {
        let began = self.clock.now();
        let submitted = lock(&self.newest).unwrap_or(Time::ZERO);
        while self.is_watched() && self.failure.get().is_none() {
            let now = self.clock.now();
            let messages = self.shared.has_outputs() && now < began + FLUSH;
            // The studio has handed the last message to the sessions; the last picture has been encoded and paced.
            if !messages && now >= submitted + FLUSH {
                return;
            }
            thread::sleep(FLUSH_CHECK);
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Whoever wants to know closes it.
        let _ = self.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn this_thread() -> ThreadId {
    thread::current().id()
}

/// The server's own thread.
struct ServerTask {
    clock: Clock,
    shared: Arc<Shared>,
    failure: Arc<OnceLock<String>>,
}

impl ServerTask {
    fn run(
        self,
        bind: impl FnOnce() -> Result<BoundServer, ServerError>,
        program: Program,
        ready: &SyncSender<Result<Ready, HostError>>,
        stopped: oneshot::Receiver<()>,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(WORKERS)
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
                let links = Arc::new(RwLock::new(links.collect::<Vec<_>>()));
                Ok((bound.start_own(Box::new(program))?, links, ethernet_links))
            });
            let (server, links, ethernet_links) = match opened {
                Ok(opened) => opened,
                Err(error) => return drop(ready.send(Err(error.into()))),
            };
            let _ = ready.send(Ok(Ready { links: Arc::clone(&links), ethernet_links, observer: server.observer() }));
            let on_renewal = |certificate| {
                let mut links = links.write().unwrap_or_else(PoisonError::into_inner);
                *links = links.iter().map(|link| link.renewed(certificate)).collect();
                self.shared.events.push(self.clock.now(), None, What::LinksChanged);
            };
            let stop = async move {
                // A host that is gone wants the end too.
                let _ = stopped.await;
            };
            if let Err(error) = server.run(stop, on_renewal).await {
                let reason = error.to_string();
                let _ = self.failure.set(reason.clone());
                self.shared.events.push(self.clock.now(), None, What::Failed(reason));
            }
        });
    }
}
