//! `nearlight view`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use nearlight_client::{
    HeadlessOptions, Outage, Target, ViewOptions, WindowOptions, headless, summary_json, summary_table, window,
};
use nearlight_codec::CodecKind;
use nearlight_link::Probability;
use nearlight_net::{EthernetInterface, EthernetLink, Link};
use nearlight_units::Span;
use nearlight_wire::DisplayKind;

use crate::{parse, sandbox, stand_in};

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct ViewArguments {
    /// The link that `nearlight serve` printed, token and all; quote it for the shell. A link over Ethernet, `ether:ADDRESS#token=...`, takes
    /// the interface to use before the address, `ether:INTERFACE/ADDRESS#token=...`; it may be left out where there is only one
    url: String,
    /// Where the link names no certificate and no authority known to this machine vouches for the server's, take whatever one it shows:
    /// only the proof of the token then tells the server from somebody in between
    #[arg(long)]
    trust_first_use: bool,
    /// Watch without a window, with a user who walks and looks around
    #[arg(long)]
    headless: bool,
    /// Stop after this many seconds; without it when the window closes or at Ctrl-C
    #[arg(long, value_parser = parse::seconds)]
    seconds: Option<Span>,
    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
    /// Ask for a headset's two views
    #[arg(long)]
    stereo: bool,
    /// Offer only this codec
    #[arg(long)]
    codec: Option<CodecKind>,
    /// Headless: show pictures at this virtual display's slots; without it as soon as they are decoded
    #[arg(long, requires = "headless", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    display_hz: Option<u16>,
    /// Never ask for what was lost, but for a key frame at once
    #[arg(long)]
    intra: bool,
    /// Write what happens to this file, one JSON object a line
    #[arg(long)]
    events: Option<PathBuf>,
    /// Write every frame's stages, and all else that happens, as a Chrome trace, for Perfetto
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Write every displayed frame's stages as a table
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Write the last picture as PNG
    #[arg(long)]
    screenshot: Option<PathBuf>,
    /// Headless: write what is heard as WAV
    #[arg(long, value_name = "FILE", requires = "headless")]
    record_sound: Option<PathBuf>,
    /// Lose this share of datagrams on purpose, each way
    #[arg(long, default_value = "0")]
    drop: Probability,
    /// Seed of the losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Cut the path, as START:LENGTH in seconds; may be given several times
    #[arg(long)]
    outage: Vec<Outage>,
    /// Move to another local port after this many seconds; may be given several times
    #[arg(long, value_parser = parse::seconds)]
    rebind: Vec<Span>,
    /// For `nearlight lab run --live`: the server's frames are a model's, and each takes so many nanoseconds to decode
    #[arg(long, hide = true)]
    stand_in_decode: Option<i64>,
    /// For `nearlight lab run --live`: where the machine's clock stood at time zero
    #[arg(long, hide = true, requires = "headless")]
    clock_origin: Option<u64>,
}

pub(crate) fn run(arguments: ViewArguments) -> anyhow::Result<ExitCode> {
    let (json, without_window) = (arguments.json, arguments.headless);
    let display_hz = arguments.display_hz;
    let clock = stand_in::clock(arguments.clock_origin);
    let view = options(arguments)?;
    let watched = if without_window {
        headless::run(HeadlessOptions { display_hz, ..HeadlessOptions::new(view) }, clock)
    } else {
        window::run(WindowOptions::new(view))
    };
    match watched {
        Ok(summary) if json => println!("{}", summary_json(&summary)),
        Ok(summary) => print!("{}", summary_table(&summary)),
        Err(error) => {
            eprintln!("nearlight: {error}");
            return Ok(ExitCode::from(error.class().code()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn target(url: &str) -> anyhow::Result<Target> {
    if !EthernetLink::is_meant_by(url) {
        return Ok(Link::parse(url).context("the link")?.into());
    }
    let link = EthernetLink::parse(url).context("the link")?;
    let interface = Arc::new(EthernetInterface::of_link(&link)?);
    sandbox::give_up_raw_frames()?;
    Ok(Target::Ethernet { link, interface })
}

fn options(arguments: ViewArguments) -> anyhow::Result<ViewOptions> {
    let mut view = ViewOptions::new(target(&arguments.url)?);
    view.trust_first_use = arguments.trust_first_use;
    view.length = arguments.seconds;
    if arguments.stereo {
        view.display = DisplayKind::Headset;
    }
    if let Some(codec) = arguments.codec {
        view.codecs = vec![codec];
    }
    view.intra_only = arguments.intra;
    if let Some(nanos) = arguments.stand_in_decode {
        view.decoders = stand_in::model_decoders(Span::from_nanos(nanos));
    }
    view.record.events = arguments.events;
    view.record.trace = arguments.trace;
    view.record.csv = arguments.csv;
    view.record.screenshot = arguments.screenshot;
    view.record.sound = arguments.record_sound;
    view.sound = arguments.headless;
    view.path.drop = arguments.drop;
    view.path.seed = arguments.seed;
    view.path.outages = arguments.outage;
    view.path.rebinds = arguments.rebind;
    Ok(view)
}
