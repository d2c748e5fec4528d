//! Measures how late packets leave a link, its throughput and its CPU cost; one JSON object per line.
//!
//! `emulate-bench [SECONDS]` measures each case for this long (default: five). Sender and receiver run beside the link on the same
//! machine, so the added delay includes theirs: it is measured from before the sender's call until after the receiver's.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use nearlight_emulate::{Lateness, Layer, Link, LinkOptions, MethodChoice, Report};
use nearlight_link::PathSpec;
use nearlight_units::Span;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// The traffic, and the path that it takes.
struct Case {
    name: &'static str,
    path: &'static str,
    /// The path's delay, where it is the same for every packet.
    nominal: Option<Span>,
    size: usize,
    per_second: u32,
    /// Packets sent back to back.
    burst: u32,
}

const CASES: [Case; 5] = [
    Case {
        name: "1,000 packets a second",
        path: "delay=10ms",
        nominal: MS_10,
        size: 1_172,
        per_second: 1_000,
        burst: 1,
    },
    Case { name: "50 Mb/s", path: "delay=10ms", nominal: MS_10, size: 1_172, per_second: 5_208, burst: 1 },
    Case { name: "300 Mb/s", path: "delay=10ms", nominal: MS_10, size: 1_172, per_second: 31_250, burst: 1 },
    Case {
        name: "300 Mb/s, rate and queue",
        path: "rate=320mbit,queue=50ms,delay=10ms",
        nominal: None,
        size: 1_172,
        per_second: 31_250,
        burst: 1,
    },
    Case {
        name: "frames of 43 packets at 50 Mb/s",
        path: "rate=50mbit,queue=100ms,delay=10ms",
        nominal: None,
        size: 1_372,
        per_second: 43 * 60,
        burst: 43,
    },
];

const MS_10: Option<Span> = Some(Span::from_millis(10));

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, rest @ ..] = &arguments[..]
        && word == "send"
    {
        send(rest);
        return ExitCode::SUCCESS;
    }
    let seconds = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(5);
    for case in &CASES {
        match measure(case, seconds) {
            Ok(line) => println!("{line}"),
            Err(error) => {
                eprintln!("emulate-bench: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn measure(case: &Case, seconds: u32) -> Result<Value, Box<dyn std::error::Error>> {
    let link = Link::open(&LinkOptions {
        up: case.path.parse::<PathSpec>()?.load()?,
        down: PathSpec::default().load()?,
        seeds: [1, 2],
        layer: Layer::Ip,
        wanted: MethodChoice::Any,
        service: None,
    })?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // The system reduces what it does not grant.
    let _ = set_socket_recv_buffer_size(&socket, 4 << 20);
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let to = format!("{}:{}", link.host(), socket.local_addr()?.port());
    let nominal = case.nominal;
    let receiving = thread::spawn(move || receive(&socket, nominal));
    let count = case.per_second * seconds;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("send").arg(to).args([case.size as u32, case.per_second, case.burst, count].map(|n| n.to_string()));
    link.enter(&mut command);
    if !command.status()?.success() {
        return Err("the sender failed".into());
    }
    let (received, added) = receiving.join().expect("the receiver does not panic");
    Ok(line(case, &link.report(), received, &added, f64::from(seconds)))
}

fn line(case: &Case, report: &Report, received: u64, added: &Lateness, seconds: f64) -> Value {
    let micros = |share| added.quantile(share).as_nanos() as f64 / 1e3;
    let added = case.nominal.map(|_| json!({ "p50": micros(0.5), "p99": micros(0.99) }));
    json!({
        "case": case.name,
        "means": report.means,
        "real_time": report.real_time,
        "path": case.path,
        "offered": report.up.offered.packets,
        "delivered": report.up.delivered.packets,
        "lost": report.up.lost(),
        "missed": report.up.missed,
        "received": received,
        "offered_mbps": (report.up.offered.bytes as f64 * 8.0 / seconds / 1e4).round() / 100.0,
        "lateness_us": report.up.lateness_us,
        "end_to_end_added_us": added,
        "cpu_percent": (report.cpu_seconds / seconds * 1e4).round() / 100.0,
    })
}

fn nanos() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Receives until two seconds pass without a packet; returns the number of packets and each one's delay beyond the nominal one.
fn receive(socket: &UdpSocket, nominal: Option<Span>) -> (u64, Lateness) {
    let (mut received, mut added) = (0, Lateness::default());
    let mut buffer = [0; 2_048];
    while let Ok(length) = socket.recv(&mut buffer) {
        if let Some(sent) = buffer[..length].first_chunk() {
            received += 1;
            let delay = Span::from_nanos(nanos() - i64::from_ne_bytes(*sent));
            added.record(delay - nominal.unwrap_or(Span::ZERO));
        }
    }
    (received, added)
}

/// `HOST:PORT SIZE PER_SECOND BURST COUNT`: sends timestamped datagrams in evenly spaced bursts.
fn send(arguments: &[String]) {
    let [to, numbers @ ..] = arguments else { panic!("where to?") };
    let numbers: Vec<u64> = numbers.iter().map(|text| text.parse().expect("a number")).collect();
    let [size, per_second, burst, count] = numbers[..] else { panic!("four numbers") };
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
    socket.connect(to).expect("an address");
    let mut datagram = vec![0; size as usize];
    let start = nanos();
    for number in 0..count {
        if number.is_multiple_of(burst) {
            wait_until(start + (number * 1_000_000_000 / per_second) as i64);
        }
        datagram[..8].copy_from_slice(&nanos().to_ne_bytes());
        socket.send(&datagram).expect("sent");
    }
}

#[expect(clippy::disallowed_methods, reason = "a traffic generator")]
fn wait_until(at: i64) {
    // Sleeping takes 60 us longer than requested; above ten packets per millisecond the sender catches up in small bursts.
    if let Ok(left @ 100_000..) = u64::try_from(at - nanos()) {
        thread::sleep(Duration::from_nanos(left));
    }
}
