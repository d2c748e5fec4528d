//! Starts all parts of the server and shuts them down in order.

mod links;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use nearlight_codec::Size;
use nearlight_events::create_private_file;
use nearlight_fec::policy::{UnknownPolicy, new_policy};
use nearlight_net::link_layer::HardwareAddress;
use nearlight_net::tcp::{CongestionControlError, check_congestion_control};
use nearlight_net::{
    CertificateHash, Clock, EthernetInterface, EthernetLink, EthernetListener, Identity, Limits, ListenOptions,
    Listener, NetError, SessionInfo, Token, TokenError, bind_udp,
};
use nearlight_rate::{Bounds, UnknownController, new_controller};
use nearlight_scene::{Application, OpenedSource, PacedTestCard, PushSource, SceneError, SourceKind, SustainedFormat};
use nearlight_session::CaptureAlignment;
use nearlight_units::Bitrate;
use nearlight_webrtc::Certificate;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Interval;

use crate::access::admission::Admission;
use crate::access::certificate::CertificateSource;
use crate::access::code_pairing::CodePairing;
use crate::access::hosts::Hosts;
use crate::access::link_register::{self, LinkRegister};
use crate::access::pairing::Pairing;
use crate::event_log::{EventLog, EventLogThread};
use crate::http::Site;
use crate::http::devices;
use crate::http::forwarding::{PathPrefix, TrustedProxies};
use crate::http::given_links;
use crate::http::page::{self, ModelFile, PageState, ProxyAccess};
use crate::media::adaptation::sizes_for;
use crate::media::encoding::EncoderPlacement;
use crate::media::overload::advice;
use crate::media::sound::Mixer;
use crate::media::source::{MAX_RATE, bounds, check_rates, choose_format, open_source};
use crate::media::studio::{Format, Studio, StudioOptions};
use crate::metrics::{Metrics, Observer};
use crate::options::{IceServer, PictureSize, ServeOptions, UnityOptions};
use crate::rooms::{self, Rooms, SharedRoom};
use crate::session::starts::StartingPlaces;
use crate::state::{OfferLimiter, ServerState, extra_handshakes};
use crate::transports::Acceptors;
use crate::transports::rtc::whep::HttpRefusal;
use crate::transports::rtc::{self, RtcEndpoint};

/// Interval at which the age of a self-signed certificate, or the file of the owner's, is checked. A machine that was asleep or whose clock was
/// set has a valid one again after that time.
pub(crate) const CERTIFICATE_CHECK: Duration = Duration::from_secs(10);
/// Interval at which the server checks that the studio still runs.
const STUDIO_CHECK: Duration = Duration::from_millis(500);
/// Sessions that may wait to begin.
const MAX_WAITING_SESSIONS: usize = 64;
/// Longest time that sessions may take to say goodbye when the server shuts down.
const GOODBYE_LIMIT: Duration = Duration::from_secs(2);

/// Why a server cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Scene(#[from] SceneError),
    #[error(transparent)]
    Controller(#[from] UnknownController),
    #[error(transparent)]
    Fec(#[from] UnknownPolicy),
    #[error("--tcp-control: {0}")]
    TcpControl(#[from] CongestionControlError),
    #[error("a picture of {width}x{height} cannot be encoded: {reason}")]
    Size { width: u16, height: u16, reason: String },
    #[error("{low_name} {low} is above {high_name} {high}: omit one of them or swap them")]
    Rates { low_name: &'static str, low: Bitrate, high_name: &'static str, high: Bitrate },
    #[error("--port and --rtc-port are both {0}: WebTransport and WebRTC need a UDP port each")]
    OnePortForBoth(u16),
    #[error("--unity-pages {0} is not a folder: name the `client` folder of Unity's package, or its `public`")]
    UnityPages(String),
    #[error("cannot write {path}: {source}")]
    File { path: String, source: std::io::Error },
    #[error("WebRTC cannot be offered: {0}")]
    WebRtc(String),
    #[error("the system cannot start more threads: {0}")]
    Thread(std::io::Error),
}

/// A server with open ports. Its links are known, and clients that connect early wait until the studio has started.
pub struct BoundServer {
    options: ServeOptions,
    clock: Clock,
    token: Token,
    identity: Identity,
    listener: Listener,
    endpoint: Arc<RtcEndpoint>,
    ethernet: Vec<EthernetListener>,
    ethernet_links: Vec<EthernetLink>,
    /// The file of the event log. The server may become a user who cannot open it.
    events: Option<File>,
}

/// A server that is ready for its first client.
pub struct Server {
    listener: Listener,
    ethernet: Vec<EthernetListener>,
    state: Arc<ServerState>,
    endpoint: Arc<RtcEndpoint>,
    ice_servers: Vec<IceServer>,
    page: Arc<PageState>,
    /// The names and addresses for which requests are answered.
    hosts: Hosts,
    proxies: TrustedProxies,
    /// The path below which a proxy serves the page.
    prefix: PathPrefix,
    unity: Option<UnityOptions>,
    certificate: Option<CertificateSource>,
    /// Notified when the certificate is to be checked at once.
    certificate_check: Arc<Notify>,
    closing: watch::Sender<bool>,
    event_log: Option<EventLogThread>,
    sustained: SustainedFormat,
}

impl BoundServer {
    /// Opens the port. Call it inside a tokio runtime.
    pub fn open(options: ServeOptions, clock: Clock) -> Result<Self, ServerError> {
        new_controller(&options.controller, Bounds::up_to(MAX_RATE))?;
        new_policy(&options.fec)?;
        check_rates(&options)?;
        if let Some(name) = &options.tcp_control {
            check_congestion_control(name)?;
        }
        if let Some(port) = options.rtc_port.filter(|port| *port == options.port && *port != 0) {
            return Err(ServerError::OnePortForBoth(port));
        }
        let pages = options.unity.as_ref().and_then(|unity| unity.pages.as_ref());
        if let Some(pages) = pages.filter(|pages| !pages.is_dir()) {
            return Err(ServerError::UnityPages(pages.display().to_string()));
        }
        let token = match (&options.token, &options.identity_file) {
            (Some(token), _) => token.clone(),
            (None, Some(file)) => file.token()?,
            (None, None) => Token::generate()?,
        };
        let identity = match (&options.certificate, &options.identity_file) {
            (Some((certificate, key)), _) => Identity::from_files(certificate, key)?,
            (None, Some(file)) => file.certificate(&options.hosts)?,
            (None, None) => Identity::self_signed(&options.hosts)?,
        };
        let limits = with_members(Limits::default(), options.max_members);
        let listen = ListenOptions { address: options.address, port: options.port, limits };
        let listener = Listener::bind(&listen, &identity, clock)?;
        let endpoint = Arc::new(open_rtc_endpoint(&options, &listener, clock)?);
        let events = options.events.as_deref().map(create_events_file).transpose()?;
        let (ethernet, ethernet_links) = (Vec::new(), Vec::new());
        Ok(Self { options, clock, token, identity, listener, endpoint, ethernet, ethernet_links, events })
    }

    /// Serves these Ethernet interfaces too, for clients that know the token and have one of the `allowed` addresses, or any address. Call
    /// it inside a tokio runtime.
    pub fn with_ethernet(
        mut self,
        interfaces: &[EthernetInterface],
        allowed: Option<&BTreeSet<HardwareAddress>>,
    ) -> Result<Self, ServerError> {
        for interface in interfaces {
            let listener = EthernetListener::start(interface, allowed.cloned(), &self.token, self.clock)?;
            self.ethernet.push(listener);
            let (server, token) = (interface.address(), Some(self.token.to_string()));
            self.ethernet_links.push(EthernetLink { interface: None, server, token });
        }
        Ok(self)
    }

    /// Returns the links for clients in the same network that connect without IP. Each client adds its own interface.
    #[must_use]
    pub fn ethernet_links(&self) -> &[EthernetLink] {
        &self.ethernet_links
    }

    /// Returns WebRTC's UDP port.
    #[must_use]
    pub fn rtc_port(&self) -> u16 {
        self.endpoint.port()
    }

    #[must_use]
    pub const fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Starts the renderer and everything else behind the port, which takes a second or two.
    pub fn start(self) -> Result<Server, ServerError> {
        let clock = self.clock;
        let source = open_source(&self.options, &move || clock.now())?;
        self.start_with(source)
    }

    /// Starts with a source that the program provides, instead of the one in the options. Rates and encoders are chosen for the options'
    /// size and frame rate.
    pub fn start_with_source(self, source: Box<dyn PushSource>) -> Result<Server, ServerError> {
        self.start_with(OpenedSource::SelfPaced(source))
    }

    fn start_with(self, mut source: OpenedSource) -> Result<Server, ServerError> {
        self.save_page();
        let Self { options, clock, token, identity, listener, endpoint, ethernet, events, .. } = self;
        let now = move || clock.now();
        let (format, sustained) = choose_format(&mut source, &options, &now)?;
        let hosts = hosts_of(&options, &identity);
        let (prefix, access) = proxy_access(&options, listener.port());
        // The pictures of a single client can be captured at the times that suit it best.
        let shared_encodes = options.shared_encodes && options.max_clients > 1;
        if shared_encodes && options.source == SourceKind::TestCard {
            let Size { width, height } = format.size;
            source = OpenedSource::SelfPaced(Box::new(PacedTestCard::new((width, height), format.fps)?));
        }
        let (sizes, bounds) = sizes_and_bounds(format, &options, &source);
        let (event_log, event_log_thread) =
            events.map(EventLog::start).transpose().map_err(ServerError::Thread)?.unzip();
        let SourceParts { adapter, demonstration, starts, model, world, sound } =
            SourceParts::of(&mut source, options.sound, clock)?;
        let captures = if options.fitted_captures { CaptureAlignment::Fitted } else { CaptureAlignment::Even };
        let metrics = Arc::new(Metrics::new());
        let studio = StudioOptions {
            format,
            sizes,
            advice: advice(options.size != PictureSize::Auto, options.fps.is_some()),
            clock,
            encoders: options.encoders.clone(),
            sound: sound.clone(),
            room: world.clone(),
            captures,
            shared_encodes,
            placement: if options.synchronous { EncoderPlacement::Inline } else { EncoderPlacement::Thread },
            metrics: Arc::clone(&metrics),
        };
        let studio = Studio::start(source, studio).map_err(ServerError::Thread)?;
        let (closing, closing_seen) = watch::channel(false);
        let state = Arc::new(ServerState {
            clock,
            pairing: Pairing::new(&token, Arc::new(LinkRegister::new(options.link_file)), pinned(&identity)),
            code_pairing: CodePairing::default(),
            handshakes: ServerState::new_handshakes(options.max_members),
            offers: OfferLimiter::new(),
            admission: Admission::new(options.max_clients),
            rooms: Rooms::new(options.max_members, world, options.fleet),
            next_session: AtomicU32::new(1),
            studio,
            sound,
            clipboard: options.clipboard,
            adapter,
            starts,
            demonstration,
            format,
            codec: options.codec,
            controller: options.controller,
            fec: options.fec,
            recovery: options.recovery,
            bounds,
            pacing: options.pacing,
            tcp_control: options.tcp_control.clone(),
            emulated_paths: options.emulated_paths.clone(),
            datagram: options.datagram.map_or(usize::MAX, usize::from),
            encoders: options.encoders,
            metrics,
            event_log,
            closing: closing_seen,
        });
        let page = page_state(&state, access, pinned(&identity), model);
        let (ice_servers, unity, event_log) = (options.ice_servers, options.unity, event_log_thread);
        Ok(Server {
            listener,
            ethernet,
            state,
            endpoint,
            ice_servers,
            page,
            hosts,
            proxies: TrustedProxies::new(options.trusted_proxies),
            prefix,
            unity,
            certificate: CertificateSource::new(&identity, options.certificate, &options.hosts, options.identity_file),
            certificate_check: Arc::default(),
            closing,
            event_log,
            sustained,
        })
    }
}

/// Returns how clients of a proxy reach the page and WebTransport, whose own port is `port`.
fn proxy_access(options: &ServeOptions, port: u16) -> (PathPrefix, ProxyAccess) {
    let prefix = options.public_url.as_ref().map(|link| PathPrefix::new(&link.path)).unwrap_or_default();
    (prefix, ProxyAccess { host: options.public_host(), udp_port: options.public_udp_port.unwrap_or(port) })
}

/// What a source has besides its pictures. It is asked for all of it before the studio takes it.
struct SourceParts {
    adapter: String,
    demonstration: bool,
    starts: StartingPlaces,
    model: Option<Arc<ModelFile>>,
    world: Option<Arc<SharedRoom>>,
    sound: Option<Mixer>,
}

impl SourceParts {
    /// Asks a source. Its sound is mixed from now on if it `sounds`.
    fn of(source: &mut OpenedSource, sounds: bool, clock: Clock) -> Result<Self, ServerError> {
        let (application, feed): (&mut dyn Application, _) = match source {
            OpenedSource::OnDemand(source) => (source.as_mut(), None),
            OpenedSource::SelfPaced(source) => {
                let feed = source.sound();
                (source.as_mut(), feed)
            }
        };
        let (adapter, cues) = (application.describe(), application.poll_cues());
        let world = application.objects().map(|objects| SharedRoom::new(clock.now(), &objects));
        let sounds = sounds && (cues.is_some() || feed.is_some());
        Ok(Self {
            adapter,
            demonstration: application.is_demonstration(),
            starts: StartingPlaces::new(application.starting_places()),
            model: application.model().map(ModelFile::new).map(Arc::new),
            world: world.transpose().expect("a world's objects have poses").map(Arc::new),
            sound: sounds.then(|| Mixer::start(clock, feed)).transpose().map_err(ServerError::Thread)?,
        })
    }
}

/// Returns the names and addresses for which requests are answered.
fn hosts_of(options: &ServeOptions, identity: &Identity) -> Hosts {
    let announced = options.announced.iter().map(ToString::to_string);
    Hosts::of_machine(identity, announced.chain(options.hosts.iter().cloned()).chain(options.public_host()))
}

/// Returns the state of the page's requests. `certificate` is the one that clients pin.
fn page_state(
    state: &Arc<ServerState>,
    access: ProxyAccess,
    certificate: Option<CertificateHash>,
    model: Option<Arc<ModelFile>>,
) -> Arc<PageState> {
    let [healthy, ready, checking] = [(); 3].map(|()| Arc::clone(state));
    Arc::new(PageState {
        metrics: Arc::clone(&state.metrics),
        info: RwLock::new(SessionInfo { certificate_sha256: certificate }),
        access,
        healthy: Box::new(move || !healthy.studio.has_failed()),
        obstacle: Box::new(move || ready.obstacle()),
        check: Box::new(move |from, token| {
            checking.check_token(from, token).map(|credential| credential.role).map_err(HttpRefusal::from)
        }),
        model,
    })
}

/// Returns the sizes between which the pictures adapt, in ascending order and empty if the size is fixed, and the bounds of the bit rate, which
/// are those of the largest size.
fn sizes_and_bounds(format: Format, options: &ServeOptions, source: &OpenedSource) -> (Vec<Size>, Bounds) {
    let adapts = options.size == PictureSize::Auto && matches!(source, OpenedSource::OnDemand(_));
    let sizes = if adapts { sizes_for(format.size) } else { Vec::new() };
    let largest = sizes.last().copied().unwrap_or(format.size);
    let bounds = bounds(Format { size: largest, ..format }, options);
    (sizes, bounds)
}

impl Server {
    /// Returns the name of the renderer or other source of the pictures.
    #[must_use]
    pub fn adapter(&self) -> &str {
        &self.state.adapter
    }

    /// Returns one line on size and frame rate, with the reason if they were measured.
    #[must_use]
    pub fn format(&self) -> String {
        let Format { size, fps, .. } = self.state.format;
        format!("{}x{} at {fps} fps: {}", size.width, size.height, self.sustained.reason)
    }

    /// Returns an observer, which reads the sessions' figures while the server runs.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer(Arc::clone(&self.state.metrics))
    }

    /// Returns what makes the server check its certificate at once when it is notified, instead of within [`CERTIFICATE_CHECK`].
    #[must_use]
    pub fn certificate_check(&self) -> Arc<Notify> {
        Arc::clone(&self.certificate_check)
    }

    /// Serves until `stop` completes, then says goodbye to every client.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
        let Self {
            listener,
            ethernet,
            state,
            endpoint,
            ice_servers,
            page,
            hosts,
            proxies,
            prefix,
            unity,
            mut certificate,
            certificate_check,
            closing,
            event_log,
            sustained: _,
        } = self;
        let (sessions, mut begun) = mpsc::channel(MAX_WAITING_SESSIONS);
        let listener = Arc::new(listener);
        let acceptors = Acceptors {
            state: &state,
            listener: &listener,
            ethernet,
            endpoint: &endpoint,
            ice_servers: &ice_servers,
            unity: unity.as_ref(),
        };
        let (routes, accepting) = acceptors.open(&sessions);
        rooms::open_world(&state, &sessions).await;
        let router = page::router(Arc::clone(&page))
            .merge(devices::router(Arc::clone(&state)))
            .merge(given_links::router(Arc::clone(&state), Arc::clone(&page)))
            .merge(routes);
        let site = Arc::new(Site::new(router, hosts, unity.is_some(), state.clock).behind(proxies, prefix));
        let mut next_certificate_check = tokio::time::interval(CERTIFICATE_CHECK);
        let mut check = tokio::time::interval(STUDIO_CHECK);
        let link_check = tokio::spawn(link_register::watch(Arc::clone(&state)));
        let mut tasks = Tasks { sessions: JoinSet::new(), pages: JoinSet::new(), accepting, link_check };
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(session) = begun.recv() => {
                    tasks.sessions.spawn(session);
                }
                Some(stream) = listener.accept_page() => {
                    if stream.framed() {
                        state.on_media_connection(&stream.tcp());
                        tasks.pages.spawn(rtc::streams::serve(stream, Arc::clone(&endpoint)));
                    } else {
                        tasks.pages.spawn(Arc::clone(&site).serve(stream));
                    }
                }
                Some(_) = tasks.pages.join_next() => {}
                Some(ended) = tasks.sessions.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a session failed");
                    }
                }
                () = tick_or(&mut next_certificate_check, &certificate_check) => if let Some(identity) = certificate.as_mut().and_then(CertificateSource::poll) {
                    replace_certificate(&listener, &page, &state.pairing, &identity);
                },
                _ = check.tick() => if state.studio.has_failed() {
                    break;
                },
            }
        }
        tasks.end(&closing, &listener).await;
        let links = Arc::clone(state.pairing.links());
        let _ = tokio::task::spawn_blocking(move || links.close()).await;
        drop((site, page, sessions, begun));
        finish(state, event_log).await
    }
}

/// The tasks of a server that runs.
struct Tasks {
    sessions: JoinSet<()>,
    /// Connections to the page's port.
    pages: JoinSet<()>,
    accepting: JoinSet<()>,
    link_check: JoinHandle<()>,
}

impl Tasks {
    /// Says goodbye to the clients, then ends all tasks.
    async fn end(mut self, closing: &watch::Sender<bool>, listener: &Listener) {
        self.link_check.abort();
        let _ = self.link_check.await;
        let _ = closing.send(true);
        let goodbyes = async { while self.sessions.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GOODBYE_LIMIT, goodbyes).await;
        self.sessions.shutdown().await;
        self.pages.shutdown().await;
        listener.shutdown("the server is shutting down").await;
        self.accepting.shutdown().await;
    }
}

/// Waits for the next tick, or until it is notified.
async fn tick_or(interval: &mut Interval, now: &Notify) {
    tokio::select! {
        _ = interval.tick() => {}
        () = now.notified() => {}
    }
}

/// Waits for the threads of the studio and of the event log. Nothing else may hold the server's state any more.
async fn finish(state: Arc<ServerState>, event_log: Option<EventLogThread>) -> Result<(), ServerError> {
    let state = Arc::into_inner(state).expect("sessions and pages have ended");
    let ServerState { studio, event_log: entries, .. } = state;
    drop(entries);
    let ended = tokio::task::spawn_blocking(move || {
        let ended = studio.finish();
        if let Some(thread) = event_log {
            thread.finish();
        }
        ended
    });
    match ended.await {
        Ok(ended) => Ok(ended?),
        Err(error) => Err(SceneError::Adapter(error.to_string()).into()),
    }
}

/// Returns the certificate that clients pin. None if an authority has signed it, because such a certificate is renewed while links stay in
/// use.
fn pinned(identity: &Identity) -> Option<CertificateHash> {
    identity.is_self_signed().then(|| identity.certificate_sha256())
}

/// Presents another certificate from now on.
fn replace_certificate(listener: &Listener, page: &PageState, pairing: &Pairing, identity: &Identity) {
    let hash = pinned(identity);
    if let Some(hash) = hash {
        // A proof that is bound to the certificate may arrive as soon as the certificate is presented.
        pairing.set_certificate(hash);
    }
    if let Err(error) = listener.set_identity(identity) {
        return tracing::error!(%error, "the new certificate cannot be used");
    }
    *page.info.write().unwrap_or_else(std::sync::PoisonError::into_inner) = SessionInfo { certificate_sha256: hash };
}

/// Opens WebRTC's socket, on the port after the page's if that is free.
fn open_rtc_endpoint(options: &ServeOptions, listener: &Listener, clock: Clock) -> Result<RtcEndpoint, ServerError> {
    let beside = listener.port().checked_add(1).unwrap_or(0);
    let socket = match options.rtc_port {
        Some(port) => bind_udp(options.address, port)?,
        None => bind_udp(options.address, beside).or_else(|error| {
            tracing::warn!(%error, "the port after --port is not available for WebRTC, so a random free one is used; choose one with --rtc-port");
            bind_udp(options.address, 0)
        })?,
    };
    let certificate = Certificate::generate().map_err(|error| ServerError::WebRtc(error.to_string()))?;
    let reachable = listener.reachable_addresses();
    RtcEndpoint::new(socket, &options.announced, &reachable, listener.port(), certificate, clock)
        .map_err(|error| ServerError::WebRtc(error.to_string()))
}

/// Returns the limits with one more page connection for each member of a room. All of them may come from one address.
const fn with_members(limits: Limits, members: usize) -> Limits {
    Limits {
        handshakes: limits.handshakes + extra_handshakes(members),
        handshakes_per_address: limits.handshakes_per_address + extra_handshakes(members),
        pages: limits.pages + members,
        pages_per_address: limits.pages_per_address + members,
        reserved_pages: limits.reserved_pages + members,
        ..limits
    }
}

fn create_events_file(path: &Path) -> Result<File, ServerError> {
    create_private_file(path).map_err(|source| ServerError::File { path: path.display().to_string(), source })
}
