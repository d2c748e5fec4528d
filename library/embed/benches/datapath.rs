//! Measures the time between a finished picture and the network without the encoder, and compares the threaded with the synchronous mode.
//! Runs are interleaved, because the machine may have other work. Prints tables.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Path, noted, quantiles};
use nearlight_codec::sample;
use nearlight_embed::{Content, Host, Image, Layout, Options, Picture, PixelOrder, Plane, Rows, Size, Span, Time};
use nearlight_viewer::{Options as ViewerOptions, Viewer};

/// Number of pictures of each run of the first table.
const PICTURES: usize = 300;
const INTERVAL: Duration = Duration::from_micros(16_667);
/// Number of rounds of the second table.
const ROUNDS: usize = 3;
/// Duration of a run of the second table, in seconds.
const SECONDS: u64 = 5;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("finished picture -> first packet sent, encoder excluded, 60 a second, microseconds (median, 95 %)");
    for size in [Size { width: 1_280, height: 720 }, Size { width: 1_920, height: 1_080 }] {
        for lent in [false, true] {
            for synchronous in [false, true] {
                let spans = first_packets(size, lent, synchronous);
                let name = if lent { "lent planes" } else { "RGBA" };
                println!(
                    "{size} {name:12} {:12} {} of {PICTURES}: {}",
                    mode(synchronous),
                    spans.len(),
                    quantiles(&spans)
                );
            }
        }
    }
    println!("\nmode at 1280x720, 60 a second, RGBA, H.264: microseconds (median, 95 %)");
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for synchronous in [false, true] {
            runs[usize::from(synchronous)].push(run(synchronous));
        }
    }
    for synchronous in [false, true] {
        let runs = &runs[usize::from(synchronous)];
        let all =
            |spans: fn(&Run) -> &[Span]| runs.iter().flat_map(|run| spans(run).iter().copied()).collect::<Vec<_>>();
        let shown: usize = runs.iter().map(|run| run.to_decoded.len()).sum();
        let submitted: usize = runs.iter().map(|run| run.submit.len()).sum();
        let cpu: f64 = runs.iter().map(|run| run.cpu.as_secs_f64()).sum();
        println!(
            "{:12} submit {}   submit to encoded {}   to decoded {}   {:.1} a second shown of {:.1}   {:.2} ms CPU a picture, both ends",
            mode(synchronous),
            quantiles(&all(|run| &run.submit)),
            quantiles(&all(|run| &run.to_encoded)),
            quantiles(&all(|run| &run.to_decoded)),
            shown as f64 / (ROUNDS as f64 * SECONDS as f64),
            submitted as f64 / (ROUNDS as f64 * SECONDS as f64),
            cpu * 1_000.0 / submitted as f64,
        );
    }
}

const fn mode(synchronous: bool) -> &'static str {
    if synchronous { "synchronous" } else { "threaded" }
}

fn options(size: Size, synchronous: bool) -> Options {
    let address = Some([127, 0, 0, 1].into());
    let (width, height) = (size.width, size.height);
    // A high rate, so that it does not determine when the first packet leaves.
    Options { address, width, height, synchronous, rate_mbps: Some(30.0), ..Options::default() }
}

fn submit(host: &Host, size: Size, pixels: &[u8], lent: bool) {
    if lent {
        let planes = host.lend(size).expect("planes");
        host.submit_planes(planes, &Content::default()).expect("a picture");
        return;
    }
    let plane = Plane { bytes: pixels, stride: usize::from(size.width) * 4 };
    let layout = Layout::Packed(PixelOrder::Rgba, plane);
    host.submit(&Picture::new(Image { size, layout, rows: Rows::TopDown })).expect("a picture");
}

/// Returns the times from just before a picture is submitted until the kernel has its first packet.
fn first_packets(size: Size, lent: bool, synchronous: bool) -> Vec<Span> {
    let path = Path::open(Options { synchronous, ..Options::default() }, size);
    let mut pixels = vec![0; size.pixels() * 4];
    let mut began = Vec::new();
    for number in 0..PICTURES {
        // As after a renderer, the picture's bytes were just written.
        pixels.fill(number as u8);
        began.push(path.clock.now());
        submit(&path.host, size, &pixels, lent);
        std::thread::park_timeout(INTERVAL);
    }
    let sent = noted(&path.sent);
    path.close();
    let first = |at: &Time| sent.iter().find(|sent| *sent > at).map(|sent| *sent - *at);
    // When a picture was skipped, the next packet belongs to the next picture.
    began.iter().filter_map(first).filter(|span| *span < Span::from_millis(10)).collect()
}

/// The times that a run measured.
#[derive(Default)]
struct Run {
    submit: Vec<Span>,
    to_encoded: Vec<Span>,
    to_decoded: Vec<Span>,
    cpu: Duration,
}

fn run(synchronous: bool) -> Run {
    let size = Size { width: 1_280, height: 720 };
    let host = Host::open(&options(size, synchronous)).expect("a server");
    let viewer = Viewer::connect(&host.links()[0].to_string(), &ViewerOptions::default()).expect("a viewer");
    let pixels: Vec<Vec<u8>> = (0..8).map(|number| packed(size, number)).collect();
    let mut run = Run::default();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut spans = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                let Some(picture) = viewer.wait_picture(Duration::from_millis(50)) else { continue };
                let info = &picture.info;
                if let (Some(captured), Some(encoded)) = (info.captured_at, info.encoded_at) {
                    spans.push((encoded - captured, info.decoded_at - captured));
                }
            }
            spans
        });
        let (cpu, began) = (cpu_time(), host.now());
        let interval = Span::from_secs(1) / 60;
        for number in 0_i64.. {
            let at = host.now();
            if at - began > Span::from_secs(SECONDS as i64) {
                break;
            }
            submit(&host, size, &pixels[number as usize % pixels.len()], false);
            run.submit.push(host.now() - at);
            let rest = (at + interval).saturating_since(host.now());
            std::thread::park_timeout(Duration::from_nanos(rest.as_nanos().unsigned_abs()));
        }
        run.cpu = cpu_time().saturating_sub(cpu);
        ended.store(true, Ordering::Relaxed);
        (run.to_encoded, run.to_decoded) = receiving.join().expect("no panic").into_iter().unzip();
    });
    host.close().expect("an end");
    run
}

/// Returns a picture of the moving sample as RGBA pixels.
fn packed(size: Size, number: u32) -> Vec<u8> {
    let picture = sample::moving_picture(size, number);
    let mut rgba = Vec::new();
    nearlight_codec::convert::to_rgba(picture.view(), &mut rgba).expect("pixels");
    rgba
}

/// Returns the processor time of the whole process: host, encoder and viewer. Its unit is a hundredth of a second (`proc_pid_stat(5)`,
/// `USER_HZ`).
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|text| text.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}
