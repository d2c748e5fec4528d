//! Compares bulk flows of `nearlight-flows` in virtual time with the kernel's over the same path in real time: data rate and median
//! smoothed round trip. Prints a table; fails where they differ by more than the tolerance.
//!
//! `flows-against-kernel [SECONDS [CASE…]]`: each run lasts 20 seconds by default; its first quarter is not measured.
//! Cases are numbered from 0; all if none is given. Needs network namespaces, and the laws in
//! `sysctl net.ipv4.tcp_available_congestion_control`: `nearlight kernel load hera` adds Hera, with the parameters that are usual here.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nearlight_emulate::{Layer, Link, LinkOptions, MethodChoice};
use nearlight_flows::{Arrival, Bulk, BulkConfig, Direction, Traffic as _};
use nearlight_link::{Ecn, FlowId, Hop as _, Packet, Path, PathSpec};
use nearlight_net::tcp::{set_congestion_control, tcp_info};
use nearlight_units::{Bytes, Span, Time};

type Failure = Box<dyn std::error::Error>;

/// One path with one congestion control law.
struct Case {
    law: &'static str,
    up: &'static str,
    down: &'static str,
}

const CASES: [Case; 16] = [
    Case { law: "cubic", up: "rate=50mbit,queue=100ms,delay=10ms", down: "delay=10ms" },
    Case { law: "bbr", up: "rate=50mbit,queue=100ms,delay=10ms", down: "delay=10ms" },
    Case { law: "cubic", up: "rate=20mbit,queue=40ms,delay=20ms", down: "delay=20ms" },
    Case { law: "bbr", up: "rate=20mbit,queue=40ms,delay=20ms", down: "delay=20ms" },
    Case { law: "cubic", up: "rate=50mbit,queue=100ms,delay=10ms,loss=0.1%", down: "delay=10ms" },
    Case { law: "bbr", up: "rate=50mbit,queue=100ms,delay=10ms,loss=0.1%", down: "delay=10ms" },
    Case { law: "cubic", up: "rate=10mbit,queue=200ms,delay=10ms,loss=1%,25%", down: "delay=10ms" },
    Case { law: "cubic", up: "rate=50mbit,queue=100ms,delay=10ms,loss=1%,25%", down: "delay=10ms" },
    Case { law: "hera", up: "rate=50mbit,queue=100ms,delay=10ms", down: "delay=10ms" },
    Case { law: "hera", up: "rate=20mbit,queue=40ms,delay=20ms", down: "delay=20ms" },
    Case { law: "hera", up: "rate=100mbit,queue=150ms,delay=5ms", down: "delay=5ms" },
    Case { law: "bbr", up: "rate=100mbit,queue=150ms,delay=5ms", down: "delay=5ms" },
    Case { law: "cubic", up: "rate=100mbit,queue=150ms,delay=5ms", down: "delay=5ms" },
    Case { law: "hera", up: "rate=60mbit/20mbit@6s,queue=150ms,delay=15ms", down: "delay=15ms" },
    Case { law: "bbr", up: "rate=60mbit/20mbit@6s,queue=150ms,delay=15ms", down: "delay=15ms" },
    Case { law: "cubic", up: "rate=60mbit/20mbit@6s,queue=150ms,delay=15ms", down: "delay=15ms" },
];

/// Tolerance relative to the kernel's flow: rates, and round trips.
const TOLERANCE: (f64, f64) = (0.05, 0.20);
/// With random losses, a run of seconds sees only a few dozen of them; the variation of their number alone is this large.
const TOLERANCE_WITH_LOSS: (f64, f64) = (0.25, 0.30);

/// The initial share of a run that is excluded, because flows are starting up.
const START: f64 = 0.25;

/// Sampling interval of the round trip.
const LOOK: Duration = Duration::from_millis(50);

/// Runs with seeds from 1 on, whose median is compared: in virtual time, in real time, and in real time where there are losses.
const RUNS: u64 = 15;
const RUNS_IN_REAL_TIME: u64 = 3;
const RUNS_WITH_LOSS: u64 = 7;

/// A flow's result after its start-up: data rate in Mb/s, median smoothed round trip in milliseconds.
#[derive(Clone, Copy)]
struct Figures {
    rate: f64,
    round_trip: f64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [word, rest @ ..] if word == "send" => send(rest).map(|()| true),
        rest => compare(rest),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("flows-against-kernel: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &[String]) -> Result<bool, Failure> {
    let numbers = arguments.iter().map(|text| text.parse::<usize>()).collect::<Result<Vec<_>, _>>()?;
    let seconds = numbers.first().copied().unwrap_or(20);
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    println!("| path up | law | Mb/s: kernel | ours | round trip, median ms: kernel | ours | within |");
    println!("|---|---|---|---|---|---|---|");
    let mut good = true;
    for (index, case) in CASES.iter().enumerate() {
        if numbers.len() > 1 && !numbers[1..].contains(&index) {
            continue;
        }
        if !available.split_whitespace().any(|law| law == case.law) {
            println!("| `{}` | {} | this kernel has only {} | | | | |", case.up, case.law, available.trim());
            continue;
        }
        let in_real_time = if case.up.contains("loss") { RUNS_WITH_LOSS } else { RUNS_IN_REAL_TIME };
        let kernel = medians((1..=in_real_time).map(|seed| measure(case, seconds, seed)))?;
        let ours = medians((1..=RUNS).map(|seed| simulate(case, seconds, seed)))?;
        let (rate, round_trip) = if case.up.contains("loss") { TOLERANCE_WITH_LOSS } else { TOLERANCE };
        let near = |ours: f64, kernel: f64, tolerance: f64| (ours / kernel - 1.0).abs() <= tolerance;
        let within = near(ours.rate, kernel.rate, rate) && near(ours.round_trip, kernel.round_trip, round_trip);
        good &= within;
        println!(
            "| `{}` | {} | {:.2} | {:.2} | {:.1} | {:.1} | {:.0} %, {:.0} %: {} |",
            case.up,
            case.law,
            kernel.rate,
            ours.rate,
            kernel.round_trip,
            ours.round_trip,
            rate * 100.0,
            round_trip * 100.0,
            if within { "yes" } else { "no" }
        );
    }
    Ok(good)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn medians(runs: impl Iterator<Item = Result<Figures, Failure>>) -> Result<Figures, Failure> {
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    Ok(Figures {
        rate: median(runs.iter().map(|run| run.rate).collect()),
        round_trip: median(runs.iter().map(|run| run.round_trip).collect()),
    })
}

// The kernel's flow, in real time.

fn measure(case: &Case, seconds: usize, seed: u64) -> Result<Figures, Failure> {
    let load = |spec: &str| -> Result<_, Failure> { Ok(spec.parse::<PathSpec>()?.load()?) };
    let link = Link::open(&LinkOptions {
        up: load(case.up)?,
        down: load(case.down)?,
        seeds: [seed, seed + 1],
        layer: Layer::Ip,
        wanted: MethodChoice::Any,
        service: None,
    })?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let to = format!("{}:{}", link.host(), listener.local_addr()?.port());
    let receiving = thread::spawn(move || receive(&listener, seconds as f64));
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["send", &to, case.law, &seconds.to_string()]).stdout(Stdio::piped());
    link.enter(&mut command);
    let output = command.spawn()?.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("the sender with {} failed", case.law).into());
    }
    let looks = String::from_utf8(output.stdout)?;
    let looks =
        looks.lines().map(|line| line.parse::<f64>().map(|micros| micros / 1e3)).collect::<Result<Vec<_>, _>>()?;
    let skipped = (looks.len() as f64 * START) as usize;
    let rate = receiving.join().expect("the receiver does not panic")?;
    Ok(Figures { rate, round_trip: median(looks[skipped..].to_vec()) })
}

#[expect(clippy::disallowed_methods, reason = "a measurement in real time")]
fn receive(listener: &TcpListener, seconds: f64) -> Result<f64, std::io::Error> {
    let (mut stream, _) = listener.accept()?;
    let begun = Instant::now();
    let mut buffer = vec![0; 1 << 16];
    let (mut counted, mut counting) = (0, None);
    loop {
        let length = stream.read(&mut buffer)?;
        let now = begun.elapsed().as_secs_f64();
        // Packets still in flight when the sender stops arrive after the run.
        if length == 0 || now > seconds {
            return Ok(counted as f64 * 8.0 / 1e6 / (now - counting.unwrap_or(now)));
        }
        match counting {
            Some(_) => counted += length,
            None if now >= seconds * START => counting = Some(now),
            None => {}
        }
    }
}

/// `HOST:PORT LAW SECONDS`: sends what the kernel accepts, and repeatedly prints its smoothed round trip in microseconds.
#[expect(clippy::disallowed_methods, reason = "a traffic generator")]
fn send(arguments: &[String]) -> Result<(), Failure> {
    let [to, law, seconds] = arguments else { return Err("HOST:PORT LAW SECONDS".into()) };
    let end = Duration::from_secs(seconds.parse()?);
    let mut stream = TcpStream::connect(to)?;
    set_congestion_control(&stream, law)?;
    stream.set_write_timeout(Some(Duration::from_millis(200)))?;
    let begun = Instant::now();
    let looking = stream.try_clone()?;
    let looks = thread::spawn(move || {
        while begun.elapsed() < end {
            thread::sleep(LOOK);
            let counts = tcp_info(&looking).expect("a TCP socket has TCP_INFO");
            println!("{}", counts.round_trip.as_micros());
        }
    });
    let data = vec![0; 1 << 16];
    while begun.elapsed() < end {
        // A full window is not an error.
        let _ = stream.write(&data);
    }
    looks.join().expect("it does not panic");
    Ok(())
}

// Our flow, in virtual time.

fn simulate(case: &Case, seconds: usize, seed: u64) -> Result<Figures, Failure> {
    let mut flow = Bulk::new(BulkConfig { law: case.law.parse()?, seed, ..BulkConfig::default() });
    let [up, down] = [(case.up, seed), (case.down, seed + 1)];
    let mut paths: [Path; 2] = [up.0.parse::<PathSpec>()?.build(up.1)?, down.0.parse::<PathSpec>()?.build(down.1)?];
    let end = Time::from_secs(seconds as u64);
    let begin = Time::ZERO + Span::from_secs_f64(seconds as f64 * START);
    let look = Span::from_nanos(LOOK.as_nanos() as i64);
    let (mut now, mut next_look, mut looks, mut at_begin) = (Time::ZERO, begin, Vec::new(), None);
    while now < end {
        advance(&mut flow, &mut paths, now);
        if now >= next_look {
            let statistics = flow.statistics();
            at_begin.get_or_insert((now, statistics));
            looks.extend(statistics.smoothed_round_trip.map(Span::as_millis_f64));
            next_look += look;
        }
        let path = paths.iter().filter_map(Path::poll_timeout).min();
        let timer = flow.poll_timeout().map(|(at, _)| at);
        now = [path, timer, Some(next_look)].into_iter().flatten().min().unwrap_or(end).max(now);
    }
    let (since, earlier) = at_begin.ok_or("too short a run")?;
    let rate = flow.statistics().goodput_since(&earlier, now - since);
    Ok(Figures { rate: rate.as_mbps_f64(), round_trip: median(looks) })
}

/// Processes everything due at `now`.
fn advance(flow: &mut Bulk, paths: &mut [Path; 2], now: Time) {
    for (path, direction) in paths.iter_mut().zip([Direction::Forward, Direction::Back]) {
        while let Some(exit) = path.poll(now) {
            if exit.is_delivered() {
                let Packet { id, size, ecn, .. } = exit.packet;
                flow.on_delivered(now, Arrival { id, direction, size, marked: ecn == Ecn::Ce });
            }
        }
    }
    if flow.poll_timeout().is_some_and(|(at, _)| at <= now) {
        flow.on_timeout(now);
    }
    while let Some(packet) = flow.poll_transmit(now) {
        let path = &mut paths[usize::from(packet.direction == Direction::Back)];
        path.offer(now, Packet::new(packet.id, FlowId(0), Bytes::new(packet.size.get())));
    }
}
