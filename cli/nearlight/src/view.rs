//! `nearlight view`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
#[cfg(target_os = "linux")]
use clap::builder::{OsStringValueParser, TypedValueParser};
use nearlight_client::{
    ApplicationMessage, DisplayOrder, ExitClass, HeadlessOptions, Messages, Outage, Target, ViewOptions, WindowOptions,
    headless, message_json, summary_json, summary_table, window,
};
#[cfg(target_os = "linux")]
use nearlight_client::{KmsOptions, kms};
use nearlight_codec::CodecKind;
use nearlight_net::Link;
use nearlight_units::Span;
use nearlight_wire::DisplayKind;

use crate::experiment::{Experiment, ViewerExperiment};
use crate::{parse, sandbox};

/// The usual port of a server, as an example.
const SERVER_PORT: u16 = 8090;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct ViewArguments {
    /// The complete link that `nearlight serve` printed, including the token; quote it for the shell. In an Ethernet link,
    /// `ether:INTERFACE/ADDRESS#token=...`, the local interface can be omitted if there is only one
    url: String,
    /// Run without a window, with a simulated user who walks and looks around
    #[arg(long)]
    headless: bool,
    /// Show the stream on a display without X11 or Wayland, from a text console; --drm=/dev/dri/card1 selects the graphics card
    /// [default: the first card with a display]
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "CARD", value_parser = maybe_path(), num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "headless")]
    drm: Option<PathBuf>,
    /// With --drm: use the display on this connector, such as HDMI-A-1 [default: the first one with a display]
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "NAME", requires = "drm")]
    connector: Option<String>,
    /// Stop after this many seconds [default: when the window closes, or at Ctrl-C]
    #[arg(long, value_parser = parse::seconds)]
    seconds: Option<Span>,
    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
    /// Request a headset's two views
    #[arg(long)]
    stereo: bool,
    /// Offer only this codec
    #[arg(long)]
    codec: Option<CodecKind>,
    /// With --headless: refresh rate of a virtual display [default: pictures are displayed as soon as they are decoded]
    #[arg(long, requires = "headless", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    display_hz: Option<u16>,
    /// What to show if two pictures arrive within one refresh of the display: both, one after the other (in-turn), or only the newest
    /// (newest)
    #[arg(long, value_name = "ORDER", default_value = "in-turn")]
    order: DisplayOrder,
    /// Request a key frame after each loss instead of retransmissions
    #[arg(long)]
    intra: bool,
    /// Write all events to this file as JSON lines
    #[arg(long)]
    events: Option<PathBuf>,
    /// Write the stages of every frame and all events as a Chrome trace, for Perfetto
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Write the stages of every displayed frame as CSV
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Write the last picture as a PNG file
    #[arg(long)]
    screenshot: Option<PathBuf>,
    /// With --headless: write the received sound as a WAV file
    #[arg(long, value_name = "FILE", requires = "headless")]
    record_sound: Option<PathBuf>,
    /// Exchange clipboard text with the application if the server allows it too: on or off
    #[arg(long, default_value = "off", value_parser = parse::switch, value_name = "on|off", action = clap::ArgAction::Set)]
    clipboard: bool,
    /// Send this text to the application once the session has begun; repeatable
    #[arg(long, value_name = "TEXT")]
    send: Vec<String>,
    /// Print each message from the application as a JSON line
    #[arg(long)]
    print_messages: bool,
    #[command(flatten)]
    pub experiment: ViewerExperiment,
    /// Interrupt the path: START:LENGTH in seconds; repeatable
    #[arg(long)]
    outage: Vec<Outage>,
    /// Change the local port after this many seconds; repeatable
    #[arg(long, value_parser = parse::seconds)]
    rebind: Vec<Span>,
}

/// Shows or measures a stream until its end.
///
/// # Errors
/// For people.
pub fn run(arguments: ViewArguments, experiment: Experiment) -> anyhow::Result<ExitCode> {
    let json = arguments.json;
    let surface = Surface::of(&arguments);
    let clock = experiment.clock;
    if arguments.clipboard && !matches!(surface, Surface::Window) {
        bail!("--clipboard on needs a window: remove --headless or --drm");
    }
    let texts = arguments.send.clone();
    let printing = arguments.print_messages;
    let view = options(arguments, experiment)?;
    let messages = view.messages.clone();
    let hint = proxy_hint(&view.target);
    for text in texts {
        let message = ApplicationMessage { data: text.into_bytes(), reliable: true };
        messages.send(message).context("--send")?;
    }
    let printer = printing.then(|| thread::spawn(move || print(&messages)));
    let watched = match surface {
        Surface::Window => window::run(WindowOptions::new(view)),
        Surface::None { display_hz } => {
            headless::run(HeadlessOptions { display_hz, ..HeadlessOptions::new(view) }, clock)
        }
        #[cfg(target_os = "linux")]
        Surface::Display { card, connector } => kms::run(KmsOptions { view, card, connector }),
    };
    if let Some(printer) = printer {
        printer.join().map_err(|_| anyhow!("the application's messages could not be printed"))??;
    }
    match watched {
        Ok(summary) if json => println!("{}", summary_json(&summary)),
        Ok(summary) => print!("{}", summary_table(&summary)),
        Err(error) => {
            let hint = hint.filter(|_| error.class() != ExitClass::Refused).unwrap_or_default();
            eprintln!("nearlight: {error}{hint}");
            return Ok(ExitCode::from(error.class().code()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns what to do if there is no session with the server of this link, if the link leads through a reverse proxy, which passes on no UDP.
fn proxy_hint(target: &Target) -> Option<String> {
    let Target::Page(link) = target else { return None };
    let own =
        Link { port: SERVER_PORT, path: "/".into(), token: Some("…".into()), certificate: None, ..link.clone() };
    (link.path != "/").then(|| {
        format!(". This link leads through a reverse proxy, which a native viewer bypasses: name the server's own port, as in {own}")
    })
}

/// A path that may be empty, which stands for none.
#[cfg(target_os = "linux")]
fn maybe_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// The display of the pictures.
enum Surface {
    Window,
    None {
        display_hz: Option<u16>,
    },
    #[cfg(target_os = "linux")]
    Display {
        card: Option<PathBuf>,
        connector: Option<String>,
    },
}

impl Surface {
    fn of(arguments: &ViewArguments) -> Self {
        #[cfg(target_os = "linux")]
        if let Some(card) = &arguments.drm {
            let card = Some(card.clone()).filter(|card| !card.as_os_str().is_empty());
            return Self::Display { card, connector: arguments.connector.clone() };
        }
        if arguments.headless { Self::None { display_hz: arguments.display_hz } } else { Self::Window }
    }
}

/// Prints messages as they arrive, until the viewer has ended.
fn print(messages: &Messages) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().build().context("cannot start an event loop for messages")?;
    runtime.block_on(async {
        while let Some(message) = messages.recv().await {
            println!("{}", message_json(&message));
        }
    });
    Ok(())
}

fn target(url: &str) -> anyhow::Result<Target> {
    let target = Target::open(url).context("the link")?;
    if let Target::Ethernet { .. } = target {
        sandbox::give_up_raw_frames()?;
    }
    Ok(target)
}

fn options(arguments: ViewArguments, experiment: Experiment) -> anyhow::Result<ViewOptions> {
    let mut view = ViewOptions::new(target(&arguments.url)?);
    view.length = arguments.seconds;
    if arguments.stereo {
        view.display = DisplayKind::Headset;
    }
    if let Some(codec) = arguments.codec {
        view.codecs = vec![codec];
    }
    view.display_order = arguments.order;
    view.clipboard = arguments.clipboard;
    view.intra_only = arguments.intra;
    view.decoders = experiment.decoders;
    view.record.events = arguments.events;
    view.record.trace = arguments.trace;
    view.record.csv = arguments.csv;
    view.record.screenshot = arguments.screenshot;
    view.record.sound = arguments.record_sound;
    view.sound = arguments.headless;
    view.path.emulated = experiment.paths;
    view.path.outages = arguments.outage;
    view.path.rebinds = arguments.rebind;
    Ok(view)
}
