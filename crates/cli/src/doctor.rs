//! `nearlight doctor`: what this machine can do, what is wrong, and what to do about it.

use std::process::ExitCode;

use bytes::Bytes;
use clap::Args;
use nearlight_codec::{CodecKind, EncoderConfig, Size, measure};
use nearlight_net::{
    Clock, ConnectOptions, Connection, Identity, Link, ListenOptions, Listener, NetError, Trust, connect,
};
use nearlight_units::{Bitrate, Span, Time};

/// What the codecs are measured at: the picture that the project's figures are stated for.
const SIZE: Size = Size { width: 1_280, height: 720 };
const RATE: Bitrate = Bitrate::from_mbps(10);
/// Datagrams of the self-test, one a millisecond: as many as a second of 10 Mb/s.
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

/// Counts what is wrong while it is printed.
#[derive(Default)]
struct Findings {
    problems: u32,
}

impl Findings {
    #[expect(clippy::unused_self, reason = "both kinds of findings are told the same way")]
    fn good(&self, subject: &str, words: &str) {
        println!("  ok       {subject:<10} {words}");
    }

    fn problem(&mut self, subject: &str, words: &str, advice: &str) {
        self.problems += 1;
        println!("  PROBLEM  {subject:<10} {words}");
        println!("           {:<10} -> {advice}", "");
    }
}

pub(crate) fn run(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let clock = Clock::start();
    let mut findings = Findings::default();
    println!("nearlight {}", env!("CARGO_PKG_VERSION"));
    adapters(&mut findings);
    codecs(&mut findings, clock);
    ffmpeg(&mut findings);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build()?;
    runtime.block_on(network(&mut findings, clock, arguments.port));
    if findings.problems == 0 {
        println!("Everything is in order.");
        Ok(ExitCode::SUCCESS)
    } else {
        println!(
            "{} to look at.",
            if findings.problems == 1 { "One problem".into() } else { format!("{} problems", findings.problems) }
        );
        Ok(ExitCode::FAILURE)
    }
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
        let config = EncoderConfig { size: SIZE, fps: 30, rate: RATE, threads: EncoderConfig::usual_threads() };
        match measure(kind, config, &|| clock.now()) {
            Ok(measured) => {
                let words = format!(
                    "{}: {:.1} ms to encode, {:.1} ms to decode 1280x720 at 10 Mb/s",
                    measured.name,
                    measured.encode_median.as_millis_f64(),
                    measured.decode_median.as_millis_f64()
                );
                if measured.encode_median > SLOW_ENCODER {
                    findings.problem(
                        kind.name(),
                        &words,
                        "use a smaller --size or a lower --fps, or stop what else runs",
                    );
                } else {
                    findings.good(kind.name(), &words);
                }
            }
            Err(error) => findings.problem(kind.name(), &error.to_string(), "use the other codec"),
        }
    }
}

/// Only `--video` needs it, so its absence is no problem.
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
        findings.good("network", &format!("others reach this machine at {}", list.join(", ")));
    }
    let trust = Trust::Certificate(identity.certificate_sha256());
    match self_test(&listener, trust, clock).await {
        Ok(echo) => {
            let words = format!(
                "{} of {DATAGRAMS} datagrams came back over loopback, round trip {:.2} ms (median)",
                echo.returned,
                echo.round_trip.as_millis_f64()
            );
            if echo.returned < DATAGRAMS * 99 / 100 {
                findings.problem("udp", &words, "the machine is overloaded, or a firewall limits UDP");
            } else {
                findings.good("udp", &words);
            }
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
    let link = Link { secure: false, host: "localhost".into(), port: listener.port(), token: None, certificate: None };
    let options = ConnectOptions::new(&link, trust);
    let (client, server) = tokio::join!(connect(&options, clock), listener.accept());
    let (client, Some(server)) = (client?, server) else { return Err(NetError::ControlEnded) };
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
