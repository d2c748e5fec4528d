//! Runs of a plan over an emulated link in real time, with the server and the headless client as processes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;

use anyhow::{Context as _, bail, ensure};
use nearlight_codec::{CodecKind, Size};
use nearlight_emulate::{Layer, Link, LinkMethod, LinkOptions, MethodChoice, Report, machine_time};
use nearlight_lab::live::{self, LiveBulk, LiveLink, LiveNote, LiveRun};
use nearlight_lab::plan::{Encoder, Setting};
use nearlight_lab::{Cell, Histogram, RunError, RunRecord};
use nearlight_net::Link as Address;
use nearlight_system::{ask_to_end, end_with_this_thread};
use nearlight_units::{Bitrate, Bytes, Span, Time};
use serde::Deserialize;

use super::bulk::{self, KernelLaw, Sender};
use crate::stand_in::{StandIn, take_time};

/// Size of the model's pictures, which are never displayed: small, so that drawing and converting them costs almost nothing.
const PICTURE_SIZE: Size = Size { width: 320, height: 180 };
/// Longest time until clients can connect to the server, and until a process ends. Guess.
const PROCESS_TIMEOUT: Span = Span::from_secs(15);
/// Interval at which the processes are checked.
const CHECK_INTERVAL: Span = Span::from_millis(50);

/// Makes live runs, one after the other.
pub(super) struct Live {
    /// Folder for the processes' event files.
    scratch: PathBuf,
    announced: Once,
}

/// A receiver's counts over time, and the link's counters at the beginning and the end of the measured time.
struct BulkCounts {
    counts: Vec<(Time, u64)>,
    before: Report,
    after: Report,
}

impl Live {
    pub(super) fn new(folder: &Path) -> anyhow::Result<Self> {
        let scratch = folder.join("live");
        fs::create_dir_all(&scratch).with_context(|| format!("cannot write to `{}`", scratch.display()))?;
        Ok(Self { scratch, announced: Once::new() })
    }

    pub(super) fn run(&self, cell: &Cell, seed: u64) -> Result<RunRecord, RunError> {
        let done = if cell.media.is_empty() { self.run_bulk(cell, seed) } else { self.run_once(cell, seed) };
        done.map_err(|error| RunError::Live(nearlight_cli::terminal::in_words(&error)))
    }

    fn run_once(&self, cell: &Cell, seed: u64) -> anyhow::Result<RunRecord> {
        let zero = machine_time();
        let law = cell.system.reliable.map(|law| KernelLaw::of(&law)).transpose()?;
        let command = match &law {
            Some(law) => self.serve_tcp(cell, (seed, zero), law.name())?,
            None => self.serve(cell, seed, zero)?,
        };
        let mut server = Process::start(command, "the server")?;
        let door = server.first_line()?;
        let [down, up] = live::paths(cell, seed)?;
        let service = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, door.port)));
        // With other means a gateway or a relay would terminate the connection before the link, and none of the segments under this
        // congestion control would cross it.
        let wanted = if law.is_some() { MethodChoice::Only(LinkMethod::Root) } else { MethodChoice::Any };
        let [down_seed, up_seed] = live::path_seeds(seed);
        let seeds = [up_seed, down_seed];
        let link = Link::open(&LinkOptions { up, down, seeds, layer: Layer::Ip, wanted, service })?;
        self.announced.call_once(|| announce(&link));
        let (host, port) = (link.host().to_string(), link.port().unwrap_or(door.port));
        let mut command = match door.url {
            // To other machines, a server serves its page over HTTPS only.
            Some(url) => {
                let secure = !link.host().is_loopback();
                self.view(cell, &Address { secure, host, port, ..Address::parse(&url)? }, zero)?
            }
            None => self.view_tcp(cell, &format!("{host}:{port}"), zero)?,
        };
        link.enter(&mut command.0);
        let mut client = Process::start(command, "the client")?;
        let setting = &cell.setting;
        let since_opening = |report: &Report| Span::from_secs_f64(report.seconds);
        let origin = machine_time() - since_opening(&link.report());
        let wait = |until: Span, client: &mut Process, server: &mut Process| -> anyhow::Result<Report> {
            loop {
                let left = until - (machine_time() - origin);
                if left <= Span::ZERO {
                    return Ok(link.report());
                }
                client.check()?;
                server.check()?;
                take_time(left.min(CHECK_INTERVAL));
            }
        };
        let before = wait(setting.warm_up, &mut client, &mut server)?;
        let after = wait(setting.duration, &mut client, &mut server)?;
        // It measures its duration from the first picture, so it ends a little later.
        client.finish()?;
        if law.is_some() {
            // With its only client it ends by itself.
            server.finish()?;
        } else {
            server.end()?;
        }
        let read = |name: &str| {
            let file = self.scratch.join(name);
            fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))
        };
        let (server_events, client_events) = (read("server.jsonl")?, read("client.jsonl")?);
        ensure!(client_events.contains("\"frame_ready\""), "no frame arrived; the path may be too bad to connect");
        let live = LiveRun {
            cell,
            seed,
            origin: Time::ZERO + (origin - zero),
            server_events: &server_events,
            client_events: &client_events,
            link: moved(&before, &after),
            note: note(&after),
        };
        Ok(live::record(&live)?)
    }

    /// One transfer of the kernel's TCP from this process to one behind the link.
    fn run_bulk(&self, cell: &Cell, seed: u64) -> anyhow::Result<RunRecord> {
        let law = KernelLaw::of(&live::law_of(cell).context("the cell has no transfer")?)?;
        let [down, up] = live::paths(cell, seed)?;
        let [down_seed, up_seed] = live::path_seeds(seed);
        // With other means a gateway or a relay would terminate the connection before the link.
        let wanted = MethodChoice::Only(LinkMethod::Root);
        let seeds = [up_seed, down_seed];
        let link = Link::open(&LinkOptions { up, down, seeds, layer: Layer::Ip, wanted, service: None })?;
        self.announced.call_once(|| announce(&link));
        let sender = Sender::start(law.name())?;
        let received = self.receive_bulk(cell, &link, sender.port);
        let BulkCounts { counts: received, before, after } = match received {
            Ok(received) => received,
            Err(error) => {
                sender.give_up();
                return Err(error);
            }
        };
        sender.finish()?;
        Ok(live::record_bulk(&LiveBulk { cell, seed, received, link: moved(&before, &after), note: note(&after) }))
    }

    fn receive_bulk(&self, cell: &Cell, link: &Link, port: u16) -> anyhow::Result<BulkCounts> {
        let setting = &cell.setting;
        let counted = self.scratch.join("received.txt");
        let (mut command, words) = self.command("receiver")?;
        let output = fs::File::create(&counted).with_context(|| format!("cannot write `{}`", counted.display()))?;
        command
            .args(["lab", "bulk-receive", &format!("{}:{port}", link.host())])
            .args(["--seconds", &setting.duration.as_secs_f64().to_string()])
            .args(["--sample", &setting.sample.as_secs_f64().to_string()])
            .stdout(output);
        link.enter(&mut command);
        let mut receiver = Process::start((command, words), "the receiver")?;
        let origin = machine_time() - Span::from_secs_f64(link.report().seconds);
        let mut wait = |until: Span| -> anyhow::Result<Report> {
            loop {
                let left = until - (machine_time() - origin);
                if left <= Span::ZERO {
                    return Ok(link.report());
                }
                receiver.check()?;
                take_time(left.min(CHECK_INTERVAL));
            }
        };
        let (before, after) = (wait(setting.warm_up)?, wait(setting.duration)?);
        receiver.finish()?;
        let words = fs::read_to_string(&counted).with_context(|| format!("cannot read `{}`", counted.display()))?;
        Ok(BulkCounts { counts: bulk::counts(&words, origin)?, before, after })
    }

    /// A command for this program, and the file that receives its standard error.
    fn command(&self, what: &str) -> anyhow::Result<(Command, PathBuf)> {
        let program = std::env::current_exe().context("the program's own file")?;
        let mut command = Command::new(program);
        let words = self.scratch.join(format!("{what}.log"));
        let file = fs::File::create(&words).with_context(|| format!("cannot write `{}`", words.display()))?;
        command.env("NEARLIGHT_LOG", "warn").stdin(Stdio::null()).stderr(file);
        Ok((command, words))
    }

    fn serve_tcp(&self, cell: &Cell, (seed, zero): (u64, Time), law: &str) -> anyhow::Result<(Command, PathBuf)> {
        let setting = &cell.setting;
        // Encoded at the highest rate, whatever arrives.
        let highest = setting.source.bounds.maximum;
        let Source { stand_in, codec, size } = source(setting, highest, seed);
        let (mut command, words) = self.command("server")?;
        command
            .args(["lab", "tcp-serve", "--law", law, "--codec", codec.name(), "--rate", &kbps(highest)])
            .args(["--fps", &setting.source.fps.to_string(), "--key-every", &cell.system.group.to_string()])
            .args(["--width", &size.width.to_string(), "--height", &size.height.to_string()]);
        self.set_server(&mut command, &stand_in, zero)?;
        Ok((command, words))
    }

    fn view_tcp(&self, cell: &Cell, address: &str, zero: Time) -> anyhow::Result<(Command, PathBuf)> {
        let setting = &cell.setting;
        let (mut command, words) = self.command("client")?;
        command
            .args(["lab", "tcp-view", address, "--seconds", &setting.duration.as_secs_f64().to_string()])
            .args(["--codec", source(setting, setting.source.bounds.maximum, 0).codec.name()]);
        self.set_client(&mut command, setting, zero);
        Ok((command, words))
    }

    /// Arguments of every server, whatever carries its frames.
    fn set_server(&self, command: &mut Command, stand_in: &StandIn, zero: Time) -> anyhow::Result<()> {
        command
            .args(["--stand-in", &serde_json::to_string(stand_in)?, "--clock-origin", &zero.as_nanos().to_string()])
            .arg("--events")
            .arg(self.scratch.join("server.jsonl"))
            .stdout(Stdio::piped());
        end_with_this_thread(command);
        Ok(())
    }

    /// Sets the arguments that every client has.
    fn set_client(&self, command: &mut Command, setting: &Setting, zero: Time) {
        command
            .args(["--display-hz", &setting.client.refresh.to_string(), "--clock-origin", &zero.as_nanos().to_string()])
            .arg("--events")
            .arg(self.scratch.join("client.jsonl"))
            .stdout(Stdio::null());
        if matches!(setting.source.encoder, Encoder::Model(_)) {
            command.args(["--stand-in-decode", &setting.client.decode.as_nanos().to_string()]);
        }
    }

    fn serve(&self, cell: &Cell, seed: u64, zero: Time) -> anyhow::Result<(Command, PathBuf)> {
        let setting = &cell.setting;
        let bounds = live::bounds_of(cell);
        let Source { stand_in, codec, size } = source(setting, bounds.start, seed);
        let (mut command, words) = self.command("server")?;
        command
            .args([
                "serve",
                "--json",
                "--port",
                "0",
                "--test-card",
                "--max-clients",
                "1",
                "--size",
                &format!("{}x{}", size.width, size.height),
                "--codec",
                codec.name(),
            ])
            .args(["--fps", &setting.source.fps.to_string(), "--controller", live::controller_of(cell)])
            .args(["--rate", &kbps(bounds.start), "--min-rate", &kbps(bounds.minimum)])
            .args(["--captures", cell.system.captures.name()])
            .args(["--max-rate", &kbps(bounds.maximum), "--pacing", &setting.pacing.to_string()])
            .args(["--fec", &cell.system.fec, "--recovery", &cell.system.recovery.to_string()])
            .args(["--datagram", &setting.datagram.to_string()])
            .env_remove("NEARLIGHT_TOKEN");
        self.set_server(&mut command, &stand_in, zero)?;
        Ok((command, words))
    }

    fn view(&self, cell: &Cell, address: &Address, zero: Time) -> anyhow::Result<(Command, PathBuf)> {
        let setting = &cell.setting;
        let (mut command, words) = self.command("client")?;
        command
            .args(["view", &address.to_string(), "--headless", "--json"])
            .args(["--seconds", &setting.duration.as_secs_f64().to_string()]);
        self.set_client(&mut command, setting, zero);
        Ok((command, words))
    }
}

/// The source and the encoder of a server.
struct Source {
    stand_in: StandIn,
    codec: CodecKind,
    size: Size,
}

fn source(setting: &Setting, start: Bitrate, seed: u64) -> Source {
    match &setting.source.encoder {
        Encoder::Model(options) => {
            let encode = setting.source.encode;
            let stand_in = StandIn::Model { options: *options, start, encode, seed };
            Source { stand_in, codec: CodecKind::H264, size: PICTURE_SIZE }
        }
        Encoder::Codec { kind, size, .. } => Source { stand_in: StandIn::MovingPicture, codec: *kind, size: *size },
    }
}

fn kbps(rate: Bitrate) -> String {
    format!("{}kbps", rate.as_bps() as f64 / 1e3)
}

/// The contents of a server's first line.
#[derive(Debug, Deserialize)]
struct ServerLink {
    port: u16,
    /// The link. None when frames are sent over TCP.
    url: Option<String>,
}

fn announce(link: &Link) {
    for refusal in link.refused() {
        eprintln!("nearlight: cannot emulate a link with {}: {}", refusal.means, refusal.reason);
    }
    eprintln!("nearlight: live runs over a link emulated with {}", link.means());
    if !link.is_real_time() {
        eprintln!(
            "nearlight: no real-time priority (needs CAP_SYS_NICE): packets are late whenever the machine is busy"
        );
    }
}

/// The link's counts between two reports.
fn moved(before: &Report, after: &Report) -> LiveLink {
    let mut dropped = std::collections::BTreeMap::new();
    for (reason, count) in after.down.dropped.iter().chain(&after.up.dropped).filter(|(_, count)| **count > 0) {
        *dropped.entry((*reason).to_owned()).or_insert(0) += count;
    }
    let histogram = |after: &nearlight_emulate::Lateness, before| {
        let mut histogram = Histogram::default();
        for (length, count) in after.since(before) {
            histogram.add_many(length.as_micros().unsigned_abs(), count);
        }
        histogram
    };
    let (from, to) = (&before.down, &after.down);
    LiveLink {
        delivered: Bytes::new(to.delivered.bytes - from.delivered.bytes),
        offered: to.offered.packets - from.offered.packets,
        lost: to.lost() - from.lost(),
        one_way_delay: histogram(&to.way, &from.way),
        queue_delay: histogram(&to.queued, &from.queued),
        dropped,
    }
}

fn note(report: &Report) -> LiveNote {
    let (up, down) = (&report.up, &report.down);
    LiveNote {
        means: report.means.to_owned(),
        real_time: report.real_time,
        missed: up.missed + down.missed,
        lateness_us_p50: up.lateness_us.p50.max(down.lateness_us.p50),
        lateness_us_p99: up.lateness_us.p99.max(down.lateness_us.p99),
    }
}

/// One of the two processes; it is killed when this is dropped.
struct Process {
    child: Child,
    name: &'static str,
    /// File with its standard error.
    words: PathBuf,
}

impl Process {
    fn start((mut command, words): (Command, PathBuf), name: &'static str) -> anyhow::Result<Self> {
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { child, name, words })
    }

    /// Reads the line that a server prints when clients can connect.
    fn first_line(&mut self) -> anyhow::Result<ServerLink> {
        let mut line = String::new();
        let output = self.child.stdout.as_mut().context("its output is not read")?;
        BufReader::new(output.take(4_096)).read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(door) => Ok(door),
            Err(_) => bail!("{} did not start: {}", self.name, self.last_words()),
        }
    }

    fn last_words(&self) -> String {
        let words = fs::read_to_string(&self.words).unwrap_or_default();
        words.lines().last().map_or_else(|| "it printed nothing".to_owned(), ToOwned::to_owned)
    }

    /// Fails if it has ended early.
    fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended early with {status}: {}", self.name, self.last_words()),
        }
    }

    /// Waits until it has ended by itself.
    fn finish(&mut self) -> anyhow::Result<()> {
        let since = machine_time();
        while machine_time() - since < PROCESS_TIMEOUT {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(_) => return self.check(),
                None => take_time(CHECK_INTERVAL),
            }
        }
        bail!("{} does not exit", self.name)
    }

    fn end(&mut self) -> anyhow::Result<()> {
        ask_to_end(&self.child);
        self.finish()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended normally, or something failed and its result is not needed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
