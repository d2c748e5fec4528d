//! `nearlight doctor`: what this machine can do, what is wrong, and what to do about it.

use std::process::ExitCode;

use bytes::Bytes;
use clap::Args;
use nearlight_codec::{CodecKind, EncoderConfig, Size, measure};
use nearlight_net::{
    Clock, ConnectOptions, Connection, Identity, Link, ListenOptions, Listener, NetError, Trust, connect,
};
use nearlight_units::{Bitrate, Span, Time};

/// Picture size for measuring the codecs: the one that the project's figures are stated for.
const PICTURE_SIZE: Size = Size { width: 1_280, height: 720 };
const TEST_RATE: Bitrate = Bitrate::from_mbps(10);
/// Datagrams of the self-test, one per millisecond: as many as in a second at 10 Mb/s.
const DATAGRAMS: u32 = 1_000;
const DATAGRAM_BYTES: usize = 1_100;
/// An encoder slower than this leaves no time to draw at 30 frames a second.
const SLOW_ENCODER: Span = Span::from_millis(15);

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Port that `nearlight serve` would use
    #[arg(long, default_value_t = 8090)]
    port: u16,
}

/// The finding on one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    /// Works, with limits that the user of a server should know.
    Limited,
    /// Does not work.
    Problem,
}

/// Counts findings as they are printed.
#[derive(Default)]
struct Findings {
    limits: u32,
    problems: u32,
}

impl Findings {
    fn good(&mut self, subject: &str, words: &str) {
        self.tell(Verdict::Good, subject, words, "");
    }

    fn problem(&mut self, subject: &str, words: &str, advice: &str) {
        self.tell(Verdict::Problem, subject, words, advice);
    }

    fn tell(&mut self, verdict: Verdict, subject: &str, words: &str, advice: &str) {
        let mark = match verdict {
            Verdict::Good => "ok",
            Verdict::Limited => "limited",
            Verdict::Problem => "PROBLEM",
        };
        self.limits += u32::from(verdict == Verdict::Limited);
        self.problems += u32::from(verdict == Verdict::Problem);
        println!("  {mark:<7}  {subject:<10} {words}");
        if verdict != Verdict::Good {
            println!("           {:<10} -> {advice}", "");
        }
    }

    /// The last line, and the command's exit status.
    fn summary(&self) -> (String, ExitCode) {
        let counted = |count: u32, name: &str| match count {
            1 => format!("One {name}"),
            _ => format!("{count} {name}s"),
        };
        match (self.problems, self.limits) {
            (0, 0) => ("Everything is in order.".into(), ExitCode::SUCCESS),
            (0, limits) => (format!("Everything works. {} to know of.", counted(limits, "limit")), ExitCode::SUCCESS),
            (problems, _) => (format!("{} to look at.", counted(problems, "problem")), ExitCode::FAILURE),
        }
    }
}

pub(crate) fn run(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let clock = Clock::start();
    let mut findings = Findings::default();
    println!("nearlight {}", env!("CARGO_PKG_VERSION"));
    adapters(&mut findings);
    codecs(&mut findings, clock);
    ffmpeg(&mut findings);
    programs(&mut findings);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build()?;
    runtime.block_on(network(&mut findings, clock, arguments.port));
    let (words, status) = findings.summary();
    println!("{words}");
    Ok(status)
}

fn adapters(findings: &mut Findings) {
    let adapters = nearlight_scene::list_adapters();
    if adapters.is_empty() {
        let advice = "install a driver; without a GPU Mesa's: apt install mesa-vulkan-drivers libegl1 libgl1-mesa-dri";
        findings.problem("graphics", "no adapter answers", advice);
    }
    for adapter in adapters {
        findings.good("graphics", &adapter.to_string());
    }
}

fn codecs(findings: &mut Findings, clock: Clock) {
    for kind in CodecKind::ALL {
        let config =
            EncoderConfig { size: PICTURE_SIZE, fps: 30, rate: TEST_RATE, threads: EncoderConfig::default_threads() };
        match measure(kind, config, &|| clock.now()) {
            Ok(measured) => {
                let words = format!(
                    "{}: {:.1} ms to encode, {:.1} ms to decode 1280x720 at 10 Mb/s",
                    measured.name,
                    measured.encode_median.as_millis_f64(),
                    measured.decode_median.as_millis_f64()
                );
                let (verdict, advice) = encoder_verdict(measured.encode_median);
                findings.tell(verdict, kind.name(), &words, advice);
            }
            Err(error) => findings.problem(kind.name(), &error.to_string(), "use the other codec"),
        }
    }
}

/// A slow encoder works: `nearlight serve` measures what the machine keeps up with unless it is told a size.
fn encoder_verdict(encode: Span) -> (Verdict, &'static str) {
    if encode <= SLOW_ENCODER {
        return (Verdict::Good, "");
    }
    let advice = "this machine is too slow for 30 such pictures a second in this codec; serve chooses a size and a frame rate that it \
        keeps unless --size and --fps are given, and takes the other codec with --codec";
    (Verdict::Limited, advice)
}

/// The datagrams of the self-test that came back over loopback.
fn echo_verdict(returned: u32) -> (Verdict, &'static str) {
    match returned {
        0 => (Verdict::Problem, "let a firewall pass UDP on the port"),
        few if few < DATAGRAMS * 99 / 100 => {
            (Verdict::Limited, "the machine is busy, or a firewall limits UDP: pictures will be lost in the same way")
        }
        _ => (Verdict::Good, ""),
    }
}

/// Checks ffmpeg. Only `--video` needs it, so its absence is not a problem.
fn ffmpeg(findings: &mut Findings) {
    let version = std::process::Command::new("ffmpeg").arg("-version").output();
    match version {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            findings.good("ffmpeg", text.lines().next().unwrap_or("installed"));
        }
        Err(_) => findings.good("ffmpeg", "not installed; only --video needs it (apt install ffmpeg)"),
    }
}

/// Checks the requirements for serving a program's window.
fn programs(findings: &mut Findings) {
    for (name, package, use_of_it) in [
        ("Xvfb", "xvfb", "serve -- PROGRAM needs it"),
        ("sway", "sway", "serve --compositor sway -- PROGRAM needs it"),
        ("bwrap", "bubblewrap", "serve -- PROGRAM needs it, unless --program-sandbox is off"),
    ] {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| file.is_file());
        let words = found.map_or_else(
            || format!("not installed; {use_of_it} (apt install {package})"),
            |file| file.display().to_string(),
        );
        findings.good(name, &words);
    }
    let shown = std::env::var("DISPLAY").ok().filter(|name| !name.is_empty()).map(|name| {
        let words = nearlight_display::graphics_on(&name).map_or_else(|error| error.to_string(), str::to_owned);
        format!("; with --display {name}: {words}")
    });
    match crate::program::graphics_of_own_display() {
        Ok(graphics) => findings.good("programs", &format!("{graphics} on Xvfb{}", shown.unwrap_or_default())),
        Err(error) => {
            let words = format!("no display for a program: {error:#}{}", shown.unwrap_or_default());
            findings.tell(Verdict::Limited, "programs", &words, "serve -- PROGRAM needs what the message names");
        }
    }
}

async fn network(findings: &mut Findings, clock: Clock, port: u16) {
    let identity = match Identity::self_signed(&[]) {
        Ok(identity) => identity,
        Err(error) => return findings.problem("network", &error.to_string(), "see the message"),
    };
    let listen = ListenOptions { port, ..ListenOptions::default() };
    let listener = match Listener::bind(&listen, &identity, clock) {
        Ok(listener) => {
            findings.good("port", &format!("{port} is free for UDP and TCP"));
            listener
        }
        Err(error) => {
            findings.problem("port", &error.to_string(), "stop that program, or give serve and doctor another --port");
            match Listener::bind(&ListenOptions::default(), &identity, clock) {
                Ok(listener) => listener,
                Err(error) => return findings.problem("network", &error.to_string(), "see the message"),
            }
        }
    };
    let addresses = listener.reachable_addresses();
    if addresses.is_empty() {
        findings.good("network", "no address that other machines could reach: this machine only");
    } else {
        let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        findings.good("network", &format!("other machines reach this one at {}", list.join(", ")));
    }
    let trust = Trust::Certificate(identity.certificate_sha256());
    match self_test(&listener, trust, clock).await {
        Ok(echo) => {
            let words = format!(
                "{} of {DATAGRAMS} datagrams came back over loopback, round trip {:.2} ms (median)",
                echo.returned,
                echo.round_trip.as_millis_f64()
            );
            let (verdict, advice) = echo_verdict(echo.returned);
            findings.tell(verdict, "udp", &words, advice);
        }
        Err(error) => findings.problem("udp", &error.to_string(), "let a firewall pass UDP on the port"),
    }
}

struct Echo {
    returned: u32,
    round_trip: Span,
}

/// Sends datagrams through a real session over loopback and has them sent back.
async fn self_test(listener: &Listener, trust: Trust, clock: Clock) -> Result<Echo, NetError> {
    let link = Link {
        secure: false,
        host: "localhost".into(),
        port: listener.port(),
        path: "/".into(),
        token: None,
        certificate: None,
    };
    let options = ConnectOptions::new(&link, trust);
    let accept = async { listener.accept().await.ok_or(NetError::ControlEnded) };
    // A client that fails, for example because nobody knows `localhost`, never gets to the server.
    let (client, server) = tokio::try_join!(connect(&options, clock), accept)?;
    let echo = tokio::spawn(async move {
        while let Ok(received) = server.recv_datagram().await {
            let _ = server.send_datagram(received.datagram);
        }
    });
    let sending = client.clone();
    let sender = tokio::spawn(async move {
        for _ in 0..DATAGRAMS {
            let mut datagram = vec![0; DATAGRAM_BYTES];
            let now = clock.now();
            datagram[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
            let _ = sending.send_datagram(Bytes::from(datagram));
            clock.sleep_until(now + Span::from_millis(1)).await;
        }
    });
    let round_trips = collect(&client, clock).await;
    sender.abort();
    echo.abort();
    client.close(0, "self-test over");
    Ok(Echo {
        returned: round_trips.len() as u32,
        round_trip: round_trips.get(round_trips.len() / 2).copied().unwrap_or_default(),
    })
}

/// Round trips of the echoes, sorted; waits at most half a second for each.
async fn collect(client: &Connection, clock: Clock) -> Vec<Span> {
    let mut round_trips = Vec::new();
    while round_trips.len() < DATAGRAMS as usize {
        let limit = clock.instant(clock.now() + Span::from_millis(500));
        let Ok(Ok(received)) = tokio::time::timeout_at(limit, client.recv_datagram()).await else { break };
        if let Some(sent_at) = received.datagram.first_chunk::<8>() {
            round_trips.push(received.at - Time::from_nanos(u64::from_be_bytes(*sent_at)));
        }
    }
    round_trips.sort_unstable();
    round_trips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_does_not_work_is_a_problem() {
        for (verdict, expected) in [
            (encoder_verdict(Span::from_millis(5)).0, Verdict::Good),
            (encoder_verdict(Span::from_millis(60)).0, Verdict::Limited),
            (echo_verdict(DATAGRAMS).0, Verdict::Good),
            (echo_verdict(DATAGRAMS / 2).0, Verdict::Limited),
            (echo_verdict(0).0, Verdict::Problem),
        ] {
            assert_eq!(verdict, expected);
        }
    }

    #[tokio::test]
    async fn the_self_test_ends_where_the_client_cannot_connect() {
        let clock = Clock::start();
        let identity = Identity::self_signed(&[]).unwrap();
        let listener = Listener::bind(&ListenOptions::default(), &identity, clock).unwrap();
        let somebody_else_s = Trust::Certificate(Identity::self_signed(&[]).unwrap().certificate_sha256());
        assert!(self_test(&listener, somebody_else_s, clock).await.is_err());
    }

    #[test]
    fn limits_are_reported_and_do_not_fail_the_command() {
        let mut findings = Findings::default();
        assert_eq!(findings.summary(), ("Everything is in order.".into(), ExitCode::SUCCESS));
        findings.tell(Verdict::Limited, "vp8", "30 ms to encode", "advice");
        assert_eq!(findings.summary(), ("Everything works. One limit to know of.".into(), ExitCode::SUCCESS));
        findings.problem("port", "8090 is in use", "advice");
        assert_eq!(findings.summary(), ("One problem to look at.".into(), ExitCode::FAILURE));
    }
}
