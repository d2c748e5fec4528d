//! `nearlight serve`.

mod help;
pub(crate) mod identity;
mod proxies;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use nearlight_codec::CodecKind;
#[cfg(target_os = "linux")]
use nearlight_display::ProgramSource;
use nearlight_events::create_private_file;
use nearlight_net::link_layer::HardwareAddress;
use nearlight_net::{Clock, EthernetInterface, Token};
use nearlight_rooms::Role;
use nearlight_scene::{Backend, Conversion, PushSource, SourceKind};
use nearlight_server::{
    BoundServer, IceServer, PictureSize, ServeOptions, Server, ServerError, UnityMode, UnityOptions,
};
use nearlight_session::pace::Mode;
use nearlight_units::Bitrate;
use nearlight_wire::RecoveryPolicy;

use self::identity::{IdentityArguments, StateFiles};
use self::proxies::ProxyArguments;
use crate::announcement::{Announcement, OutputArguments, Style};
use crate::experiment::{Experiment, ServerExperiment};
use crate::fleet::FleetSecurity;
use crate::log::format::LogFormat;
#[cfg(target_os = "linux")]
use crate::program::ProgramArguments;
use crate::sandbox::{SandboxNeeds, ServerSandbox, certificate_paths};
use crate::signals::{reload_on_hangup, stop_signal};
use crate::{agones, fleet, log, memory, parse};

#[derive(Debug, Args)]
#[command(mut_args(help::arrange), after_help = help::EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct ServeArguments {
    /// Port for the page (TCP) and the media (UDP); 0 picks a free one
    #[arg(long, default_value_t = 8090)]
    port: u16,
    /// Port for WebRTC (UDP) [default: the one after --port]
    #[arg(long)]
    rtc_port: Option<u16>,
    /// STUN or TURN server for WebRTC clients whose network blocks both the UDP port and the page's TCP port: stun:HOST:PORT or
    /// turn:NAME:PASSWORD@HOST:PORT?transport=tcp; repeatable
    #[arg(long = "ice-server", value_name = "URL")]
    ice_servers: Vec<IceServer>,
    /// Address to listen on [default: all addresses]
    #[arg(long)]
    address: Option<IpAddr>,
    /// Public address that forwards the same ports to this machine; repeatable
    ///
    /// It may be the address of a router or a container host. Links and WebRTC candidates contain it.
    #[arg(long = "announce", value_name = "ADDRESS")]
    announced: Vec<IpAddr>,
    /// Also serve clients of `nearlight view` over Ethernet frames on this interface, without IP (Linux; needs `CAP_NET_RAW` at
    /// the start); repeatable
    #[arg(long, value_name = "INTERFACE")]
    ethernet: Vec<String>,
    /// Answer only these MAC addresses over Ethernet [default: every client that knows the token]
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',', requires = "ethernet")]
    ethernet_allow: Option<Vec<HardwareAddress>>,
    /// Additional host name of this server, such as one in your DNS; repeatable. Requests for any name other than these, this machine's
    /// and the certificate's are refused
    #[arg(long = "host", value_name = "NAME", value_parser = parse::host)]
    hosts: Vec<String>,
    #[command(flatten)]
    proxies: ProxyArguments,
    /// Pairing token, instead of the one that is kept between runs
    ///
    /// It has at least 16 characters.
    #[arg(long, env = "NEARLIGHT_TOKEN", hide_env_values = true)]
    token: Option<Token>,
    #[command(flatten)]
    identity: IdentityArguments,
    /// PEM file with a certificate chain that browsers trust [default: a self-signed certificate]
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the private key of --cert
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
    /// Serve a glTF scene (.glb, .gltf or a folder with one) instead of the built-in world
    #[arg(long, value_name = "FILE", conflicts_with_all = ["video", "test_card"])]
    scene: Option<PathBuf>,
    /// Serve a film with its sound in a loop, in any format that the ffmpeg command decodes
    #[arg(long, value_name = "FILE", conflicts_with = "test_card")]
    video: Option<PathBuf>,
    /// Serve a test card
    #[arg(long)]
    test_card: bool,
    /// Graphics API: auto, vulkan or gl
    #[arg(long, default_value = "auto")]
    backend: Backend,
    /// What converts pictures of the built-in world and of scenes for the encoder: shader (the last rendering pass draws the encoder's
    /// planes), processor, or auto (shader on a GPU, processor with software rendering)
    #[arg(long, default_value = "auto")]
    conversion: Conversion,
    /// Picture size such as 1280x720, or auto
    ///
    /// auto adapts to what this machine can render and encode. For a program it follows the viewer's window.
    #[arg(long, default_value = "auto", value_parser = parse::picture_size)]
    size: PictureSize,
    /// Frames per second, or auto, which measures what this machine sustains
    #[arg(long, default_value = "auto", value_parser = parse::fps)]
    fps: Fps,
    /// Send side-by-side stereo to screens as well, for example at 3664x1920 for a headset that shows a flat stream. Headsets on the
    /// page always get one square view per eye
    #[arg(long)]
    stereo: bool,
    #[arg(long, default_value = "h264", help = format!("Preferred codec: {}", CodecKind::ALL.map(CodecKind::name).join(" or ")))]
    codec: CodecKind,
    /// Rate controller; `nearlight lab list` names all of them
    #[arg(long, default_value = nearlight_rate::PRESETS[0].name)]
    controller: String,
    /// Redundancy policy (FEC): planner, planner:PERCENT (with an upper limit), nebula, planner-as-nebula, escot-gop, webrtc,
    /// fixed:PERCENT or none. WebRTC clients need to accept FlexFEC [default: planner; none if --recovery never requests
    /// retransmissions, on which planner relies]
    #[arg(long, value_name = "POLICY")]
    fec: Option<String>,
    /// How clients recover from losses. reference: request packets, then a frame predicted from one that they have decoded;
    /// retransmission: request packets, then a key frame; intra: request a key frame at once and freeze until it arrives;
    /// openuvr[:FRAMES]: keep decoding damaged pictures and request a key frame after each frame until one arrives, while the server
    /// ignores requests for FRAMES frames (default 6) after a key frame. WebRTC clients recover in their own way; a WebSocket loses nothing
    #[arg(long, default_value = "reference", value_name = "POLICY")]
    recovery: RecoveryPolicy,
    /// Initial rate, or the constant rate with `--controller fixed`. Rates are upper limits: simple pictures need fewer bits
    #[arg(long, value_parser = parse::bitrate)]
    rate: Option<Bitrate>,
    /// Maximum rate, including redundancy [default: a quarter of a bit per pixel]
    #[arg(long, value_parser = parse::bitrate)]
    max_rate: Option<Bitrate>,
    /// Minimum rate
    #[arg(long, value_parser = parse::bitrate)]
    min_rate: Option<Bitrate>,
    /// Pacing mode: burst, interval[:5ms], spread or compressed
    #[arg(long, default_value = "compressed")]
    pacing: Mode,
    /// Congestion control of the TCP connections that carry media, such as bbr or cubic (Linux) [default: the system's]
    #[arg(long, value_name = "NAME")]
    tcp_control: Option<String>,
    /// When to capture frames: fitted (aligned with a single client's inputs and display refreshes) or even (equally spaced)
    #[arg(long, default_value = "fitted", value_parser = parse::captures, value_name = "fitted|even", action = clap::ArgAction::Set)]
    captures: bool,
    /// Encode each picture of a program, --video or --test-card once for all clients, in up to three layers of rate and size: on or off.
    /// With off, and with other sources, each client has its own encoder
    #[arg(long, default_value = "on", value_parser = parse::switch, value_name = "on|off", action = clap::ArgAction::Set)]
    shared_encodes: bool,
    /// Maximum datagram size in bytes [default: what the transport allows]
    #[arg(long, value_parser = clap::value_parser!(u16).range(640..))]
    datagram: Option<u16>,
    /// Send sound to clients: on or off
    #[arg(long, default_value = "on", value_parser = parse::switch, value_name = "on|off", action = clap::ArgAction::Set)]
    sound: bool,
    /// Share clipboard text with clients that allow it too: on or off
    #[arg(long, default_value = "off", value_parser = parse::switch, value_name = "on|off", action = clap::ArgAction::Set)]
    clipboard: bool,
    /// Maximum number of simultaneous clients
    #[arg(long, default_value = "8", value_parser = parse::count)]
    pub max_clients: usize,
    /// Maximum number of members of all rooms together; 0 for no rooms
    #[arg(long, default_value_t = 256)]
    max_members: usize,
    /// Share all rooms with the other servers on this NATS server: nats://HOST:PORT or tls://HOST:PORT, with NAME:PASSWORD@ or TOKEN@ before
    /// the host if it asks for them. The NATS server must run with -js
    #[arg(long, value_name = "URL", env = "NEARLIGHT_NATS", hide_env_values = true)]
    nats: Option<String>,
    #[command(flatten)]
    security: FleetSecurity,
    /// Run as a game server of this fleet: report readiness, health and occupied places, and exit when told to. `AGONES_SDK_HTTP_PORT`
    /// contains the port of Agones' SDK; it is 9358 by default
    #[arg(long)]
    fleet: Option<Fleet>,
    /// Accept Unity Render Streaming's web clients, which have no token: anyone who can reach the port can view and control the scene. In
    /// private mode, only one client can use each connection name
    #[arg(long, value_name = "MODE", num_args = 0..=1, default_missing_value = "public")]
    unity_render_streaming: Option<UnityMode>,
    /// Require a token from Unity's clients, as ?token=TOKEN in the URL of their signalling
    #[arg(long, requires = "unity_render_streaming")]
    unity_token: bool,
    /// Serve Unity's own web client at /unity/, from the package's folder `client`, which contains `public` and `src`
    #[arg(long, requires = "unity_render_streaming", value_name = "FOLDER")]
    unity_pages: Option<PathBuf>,
    /// Write all events to this file as JSON lines
    #[arg(long)]
    events: Option<PathBuf>,
    #[command(flatten)]
    pub experiment: ServerExperiment,
    /// Drop capabilities, access to most of the file system and unneeded system calls (Linux): on or off
    #[arg(long, default_value = "on", value_parser = parse::switch, value_name = "on|off", action = clap::ArgAction::Set)]
    sandbox: bool,
    /// User that the server becomes if root has started it (Linux) [default: nearlight, if there is such a user, else nobody; not with
    /// --sandbox off]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    program: ProgramArguments,
    /// TOML file with options, a key for each: see `nearlight config show`. Options of the command line take precedence
    #[arg(long, value_name = "FILE", env = "NEARLIGHT_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
}

/// A system that starts and stops servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Fleet {
    Agones,
}

/// Clap would treat a bare `Option` as an optional argument.
type Fps = Option<u16>;

impl ServeArguments {
    fn options(self, experiment: Experiment) -> anyhow::Result<ServeOptions> {
        // Where both are the owner's, the folder is for links and devices alone.
        let is_given = self.token.is_some() && self.cert.is_some();
        let files = self.identity.open(self.port, !is_given)?;
        let (identity_file, link_file) = files.map(|StateFiles { identity, links }| (identity, links)).unzip();
        let source = match (self.video, self.test_card) {
            #[cfg(target_os = "linux")]
            _ if self.program.is_given() => SourceKind::Own,
            (Some(file), _) => SourceKind::Video(file),
            (None, true) => SourceKind::TestCard,
            (None, false) => SourceKind::World { scene: self.scene },
        };
        let source = source.found()?;
        let (token_needed, pages) = (self.unity_token, self.unity_pages);
        let unity = self.unity_render_streaming.map(|mode| UnityOptions { mode, token_needed, pages });
        let options = ServeOptions {
            address: self.address,
            port: self.port,
            rtc_port: self.rtc_port,
            announced: self.announced,
            hosts: self.hosts,
            ice_servers: self.ice_servers,
            token: self.token,
            identity_file,
            link_file,
            certificate: self.cert.zip(self.key),
            backend: self.backend,
            conversion: self.conversion,
            size: self.size,
            fps: self.fps,
            codec: self.codec,
            controller: self.controller,
            fec: self.fec.unwrap_or_else(|| usual_redundancy(self.recovery).to_owned()),
            recovery: self.recovery,
            start_rate: self.rate,
            min_rate: self.min_rate,
            max_rate: self.max_rate,
            pacing: self.pacing,
            tcp_control: self.tcp_control,
            fitted_captures: self.captures,
            shared_encodes: self.shared_encodes,
            datagram: self.datagram,
            encoders: experiment.encoders,
            sound: self.sound,
            clipboard: self.clipboard,
            max_clients: self.max_clients,
            max_members: self.max_members,
            stereo: self.stereo,
            unity,
            events: self.events,
            emulated_paths: experiment.paths,
            ..ServeOptions::new(source)
        };
        Ok(self.proxies.complete(options))
    }
}

/// The default redundancy policy.
const fn usual_redundancy(recovery: RecoveryPolicy) -> &'static str {
    if recovery.requests_symbols() { "planner" } else { "none" }
}

impl ServeArguments {
    /// Nothing but the link is wanted; see [`Style`].
    pub const fn is_quiet(&self) -> bool {
        self.output.quiet
    }

    /// The format of the log that the user has chosen.
    pub const fn log_format(&self) -> Option<LogFormat> {
        self.output.log_format
    }
}

/// Serves until a signal, the program's end or the fleet ends it.
///
/// # Errors
/// For people.
pub fn run(arguments: ServeArguments, experiment: Experiment) -> anyhow::Result<ExitCode> {
    let service = Service::new(&arguments, experiment.clock)?;
    // The program runs outside the server's sandbox, in one of its own.
    #[cfg(target_os = "linux")]
    let program = arguments.program.open(arguments.size, arguments.fps, arguments.sound)?;
    let options = arguments.options(experiment)?;
    #[cfg(target_os = "linux")]
    let (options, own) = match program {
        Some(program) => (program.complete(options), Some(program.source)),
        None => (options, None),
    };
    #[cfg(target_os = "linux")]
    let ending = own.as_ref().map(ProgramSource::exit);
    #[cfg(target_os = "linux")]
    let own = own.map(|source| Box::new(source) as Box<dyn PushSource>);
    #[cfg(not(target_os = "linux"))]
    let own = None;
    memory::return_freed_memory();
    // Threads inherit the restrictions of the one that starts them.
    let restrictions = service.sandbox.enter(&needs(&options, &service.security)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build()?;
    runtime.block_on(async {
        let (server, announcer, stop) = service.start(options, own, &restrictions).await?;
        let ended = service.run(server, announcer, stop).await;
        // When the program exits, the server exits too, with the status that follows from how it ended.
        #[cfg(target_os = "linux")]
        if let Some(ending) = ending.and_then(|ending| ending.get().copied()) {
            log::notice(&format!("nearlight: the program has ended with {ending}"));
            return Ok(ExitCode::from(ending.status()));
        }
        ended?;
        Ok(ExitCode::SUCCESS)
    })
}

/// What surrounds a server: its output, sandbox, Ethernet interfaces and fleet.
struct Service {
    output: OutputArguments,
    clock: Clock,
    sandbox: ServerSandbox,
    interfaces: Vec<EthernetInterface>,
    allowed: Option<BTreeSet<HardwareAddress>>,
    nats: Option<String>,
    owner: Option<Fleet>,
    security: FleetSecurity,
    token: Option<Token>,
    /// Places for clients and for members.
    capacity: [usize; 2],
}

impl Service {
    fn new(arguments: &ServeArguments, clock: Clock) -> anyhow::Result<Self> {
        let interfaces = open_interfaces(arguments)?;
        validate(arguments)?;
        Ok(Self {
            output: arguments.output,
            clock,
            sandbox: ServerSandbox::new(arguments.sandbox, arguments.user.as_deref())?,
            interfaces,
            allowed: arguments.ethernet_allow.clone().map(BTreeSet::from_iter),
            nats: arguments.nats.clone(),
            owner: arguments.fleet,
            security: arguments.security.clone(),
            token: arguments.token.clone(),
            capacity: [arguments.max_clients, arguments.max_members],
        })
    }

    /// Starts the server and tells people and scripts where it is. Returns it with what announces it to its fleet, and the signal that ends
    /// it.
    async fn start(
        &self,
        options: ServeOptions,
        own: Option<Box<dyn PushSource>>,
        restrictions: &str,
    ) -> anyhow::Result<(Server, Option<fleet::Announcer>, impl Future<Output = ()>)> {
        let is_json = self.output.style() == Style::Json;
        // The link is not printed early for a file, which may be invalid, or as JSON: scripts expect that clients can connect at once. In all other
        // cases, clients that open the link early wait.
        let early = !is_json && options.source.files().is_empty();
        // People and scripts read the link first; messages about the start follow it.
        if !is_json {
            log::hold();
        }
        tracing::info!("sandbox: {restrictions}");
        let unity = options.unity.clone();
        let is_film = matches!(options.source, SourceKind::Video(_));
        let (server, announcer) = self.bind(options).await?;
        let announcement = announcement_of(&server);
        if early {
            self.announce(&announcement, unity.as_ref())?;
        }
        let server = self.start_source(server, own, is_film)?;
        check_pages(unity.as_ref())?;
        let stop = stop_signal(self.output.quiet)?;
        if !early {
            self.announce(&announcement, unity.as_ref())?;
        }
        if !self.output.quiet {
            let (adapter, format) = (server.adapter(), server.format());
            log::notice(&format!("Source: {adapter}\nStream: {format}"));
            log::hint("\nPress Ctrl-C to stop.");
        }
        reload_on_hangup(server.certificate_check())?;
        Ok((server, announcer, stop))
    }

    /// Opens the ports, after joining the servers that share their rooms.
    async fn bind(&self, options: ServeOptions) -> anyhow::Result<(BoundServer, Option<fleet::Announcer>)> {
        let carrier = match &self.nats {
            Some(url) => Some(fleet::join(url, &self.security, self.token.as_ref(), self.clock).await?),
            None => None,
        };
        let server = BoundServer::open(ServeOptions { fleet: carrier.clone(), ..options }, self.clock)?;
        let server = server.with_ethernet(&self.interfaces, self.allowed.as_ref())?;
        let announcer = carrier.map(|carrier| fleet::Announcer::new(carrier, self.clock, &server, self.capacity));
        Ok((server, announcer))
    }

    /// Prints the links, and then what was logged before them.
    fn announce(&self, announcement: &Announcement, unity: Option<&UnityOptions>) -> anyhow::Result<()> {
        self.output.print(announcement)?;
        log::release();
        if let Some(unity) = unity {
            log::notice(&unity_notice(unity));
        }
        Ok(())
    }

    /// Starts what is behind the port, and becomes the server's user.
    fn start_source(
        &self,
        server: BoundServer,
        own: Option<Box<dyn PushSource>>,
        is_film: bool,
    ) -> anyhow::Result<Server> {
        // A film's decoder opens it again for each time that it is played, and must not be root.
        if is_film {
            self.sandbox.change_user()?;
        }
        let started = match own {
            Some(source) => server.start_with_source(source),
            None => server.start(),
        };
        let server = match self.sandbox.user_name().filter(|_| is_film) {
            Some(user) => started.with_context(|| {
                format!(
                    "films are decoded as the user {user}, who has to be able to read the file; --user NAME names another"
                )
            })?,
            None => started?,
        };
        // Its ports, devices and the owner's files are open.
        if !is_film {
            self.sandbox.change_user()?;
        }
        Ok(server)
    }

    /// Serves until `stop`, or until the fleet that owns this server ends it.
    async fn run(
        &self,
        server: Server,
        announcer: Option<fleet::Announcer>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServerError> {
        let (observer, announced) = (server.observer(), server.observer());
        let places = self.capacity.iter().sum();
        let end = async {
            match self.owner {
                None => stop.await,
                Some(Fleet::Agones) => tokio::select! {
                    () = stop => {}
                    () = agones::serve(self.clock, places, move || observer.places_taken()) => {}
                },
            }
        };
        let announced_end = async {
            match &announcer {
                None => end.await,
                Some(announcer) => tokio::select! {
                    () = end => announcer.withdraw(),
                    () = announcer.run(&announced) => {}
                },
            }
        };
        server.run(announced_end).await
    }
}

/// Refuses a folder of Unity's pages that the server's user cannot read. All of them would be missing.
fn check_pages(unity: Option<&UnityOptions>) -> anyhow::Result<()> {
    let Some(pages) = unity.and_then(|unity| unity.pages.as_ref()) else { return Ok(()) };
    let read = std::fs::read_dir(pages).map(drop);
    read.with_context(|| {
        format!("the user that the server has become cannot read {}; --user NAME names another", pages.display())
    })
}

/// Opens the Ethernet interfaces. This needs a capability that the sandbox drops.
fn open_interfaces(arguments: &ServeArguments) -> anyhow::Result<Vec<EthernetInterface>> {
    let interfaces = arguments.ethernet.iter().map(|name| EthernetInterface::open(name));
    interfaces.collect::<Result<Vec<_>, _>>().context("--ethernet")
}

/// Refuses, in words, what this build or the chosen compositor cannot do.
fn validate(arguments: &ServeArguments) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    let is_own = arguments.program.is_given();
    #[cfg(not(target_os = "linux"))]
    let is_own = false;
    anyhow::ensure!(
        arguments.sandbox || arguments.user.is_none(),
        "--user applies to a server in its sandbox: leave out --user or --sandbox off"
    );
    anyhow::ensure!(
        arguments.conversion == Conversion::Auto || !(is_own || arguments.test_card || arguments.video.is_some()),
        "--conversion applies only to the built-in world and to --scene; remove it, because the processor converts the pictures of all other sources"
    );
    #[cfg(target_os = "linux")]
    arguments.program.reject_unused_options(arguments.sound)?;
    #[cfg(target_os = "linux")]
    anyhow::ensure!(
        !arguments.clipboard || arguments.program.has_clipboard(),
        "--clipboard on does not work with --compositor sway: remove it, or use --compositor x11"
    );
    anyhow::ensure!(
        arguments.nats.is_none() || fleet::IS_BUILT,
        "this build cannot share rooms with other servers. {}, or remove --nats.",
        fleet::HOW_TO_BUILD
    );
    Ok(())
}

/// Every link that leads to the server.
fn announcement_of(server: &BoundServer) -> Announcement {
    let (local, others) = (server.local_link(), server.other_links());
    let ethernet = server.ethernet_links().to_vec();
    let [guests, spectators] = [Role::Guest, Role::Spectator].map(|role| {
        let links = std::iter::once(&local).chain(others.iter().filter(|link| **link != local));
        links.map(|link| server.link_for(role, link)).collect()
    });
    let (port, rtc_port) = (server.port(), Some(server.rtc_port()));
    Announcement { local, others, guests, spectators, ethernet, port, rtc_port }
}

/// Returns what the sandbox must allow.
fn needs(options: &ServeOptions, security: &FleetSecurity) -> anyhow::Result<SandboxNeeds> {
    let pages = options.unity.as_ref().and_then(|unity| unity.pages.clone());
    let files = options.source.files().into_iter().chain(pages).chain(certificate_paths(options.certificate.as_ref()));
    let reads = files.chain(security.files()).collect();
    if let Some(events) = &options.events {
        // The sandbox refers to it by its path, so it must exist.
        create_private_file(events).with_context(|| format!("cannot write {}", events.display()))?;
    }
    let ports = [Some(options.port), options.rtc_port].into_iter().flatten().filter(|port| *port != 0);
    Ok(SandboxNeeds {
        reads,
        writes: options.events.clone().into_iter().collect(),
        lowest_port: ports.min().unwrap_or(0),
    })
}

/// Explains what the owner has opened, in plain words.
fn unity_notice(unity: &UnityOptions) -> String {
    let who = if unity.token_needed {
        "Unity Render Streaming's clients are accepted with ?token=TOKEN in their URL"
    } else {
        "WITHOUT A TOKEN, anyone who can reach this port with a client of Unity Render Streaming can view and control the scene"
    };
    format!("{who}. Their signalling is also accepted over plain HTTP from other machines; the media is encrypted.\n")
}
