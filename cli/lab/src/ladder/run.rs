//! All steps in turn.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use nearlight_codec::{CodecError, Size};
use nearlight_units::Bitrate;
use nearlight_wifi::ConfigError;

use crate::ladder::device::{Device, ReceivedFrame, StepTurn};
use crate::ladder::host::{Host, SentFrame};
use crate::ladder::network::{Cable, End};
use crate::ladder::other_process::OtherProcess;
use crate::ladder::pictures::TestPictures;
use crate::ladder::published::TOTAL_MS;
use crate::ladder::report::{Figures, Ladder, PUBLISHED_SSIM, Rung, SizeReport};
use crate::ladder::step::Step;
use crate::ladder::wifi;

/// OpenUVR's rate at 1080p (section III.C); another size gets its share by the number of pixels.
const RATE_AT_1080P: Bitrate = Bitrate::from_mbps(20);
const PIXELS_AT_1080P: u64 = 1_920 * 1_080;

/// The configuration of a measurement.
#[derive(Clone, Debug)]
pub struct Options {
    pub sizes: Vec<Size>,
    pub fps: u16,
    /// Turns of each step; one more warms up and is not counted.
    pub rounds: u32,
    /// Frames of a turn.
    pub frames: u32,
    /// Set from outside, it ends the measurement after the turn that is under way: namespaces and processes are removed.
    pub stop: Arc<AtomicBool>,
}

#[derive(Debug, thiserror::Error)]
pub enum LadderError {
    #[error("{0}. Two network namespaces with a cable between them are needed, which takes root and iproute2")]
    Cable(io::Error),
    #[error("{step:?} failed: {source}")]
    Step { step: Step, source: io::Error },
    #[error("the pictures: {0}")]
    Pictures(#[from] CodecError),
    #[error("the Wi-Fi cell: {0}")]
    Wifi(#[from] ConfigError),
    #[error("interrupted: nothing was printed; its namespaces, X server and drawing process are removed")]
    Interrupted,
    #[error("the system gives no sockets or threads: {0}")]
    System(io::Error),
}

#[derive(Default)]
struct Samples {
    sent: BTreeMap<u32, SentFrame>,
    received: Vec<ReceivedFrame>,
    server_time: u64,
    shown: u64,
}

impl Samples {
    fn append(&mut self, mut turn: Self) {
        self.sent.append(&mut turn.sent);
        self.received.append(&mut turn.received);
        self.server_time += turn.server_time;
        self.shown += turn.shown;
    }
}

/// Measures everything. `other` starts this command as the process that [`crate::ladder::draw`]s pictures of a size at a rate; `progress` is told
/// what is done next.
pub fn run(
    options: &Options,
    other: &dyn Fn(Size, u16) -> Command,
    progress: &mut dyn FnMut(&str),
) -> Result<Ladder, LadderError> {
    let cable = Cable::new().map_err(LadderError::Cable)?;
    let mut sizes = Vec::new();
    for size in &options.sizes {
        size.check()?;
        sizes.push(run_size(options, *size, &cable, other, progress)?);
    }
    let Options { rounds, frames, .. } = *options;
    Ok(Ladder { published_total_ms: TOTAL_MS, published_ssim_mean: PUBLISHED_SSIM, rounds, frames_each: frames, sizes })
}

fn run_size(
    options: &Options,
    size: Size,
    cable: &Cable,
    other: &dyn Fn(Size, u16) -> Command,
    progress: &mut dyn FnMut(&str),
) -> Result<SizeReport, LadderError> {
    let Options { fps, rounds, frames, .. } = *options;
    progress(&format!("{size}: making pictures"));
    let rate = Bitrate::from_bps(RATE_AT_1080P.as_bps() * size.pixels() as u64 / PIXELS_AT_1080P);
    let mut bench = Bench::open((size, fps), rate, cable, &mut other(size, fps)).map_err(LadderError::System)?;
    let mut samples: BTreeMap<Step, Samples> = BTreeMap::new();
    for round in 0..=rounds {
        progress(&match round {
            0 => format!("{size}: warming up"),
            _ => format!("{size}: round {round} of {rounds}"),
        });
        for step in Step::ALL.into_iter().filter(|step| step.is_live()) {
            if options.stop.load(Ordering::Relaxed) {
                return Err(LadderError::Interrupted);
            }
            if step == Step::OtherProcess && bench.process.is_err() {
                continue;
            }
            let turn = StepTurn { step, first: round * frames, frames };
            let taken = bench.run(turn).map_err(|source| LadderError::Step { step, source })?;
            if round > 0 {
                samples.entry(step).or_default().append(taken);
            }
        }
    }
    progress(&format!("{size}: the Wi-Fi cell"));
    Ok(report((size, fps), rate, samples, bench.process.as_ref().err())?)
}

/// Both ends of the cable for pictures of one size, and the process that draws in the first step.
struct Bench {
    host: Host,
    turns: SyncSender<StepTurn>,
    /// What the device has received in each turn.
    answers: Receiver<io::Result<Vec<ReceivedFrame>>>,
    /// An error says why it cannot draw.
    process: Result<OtherProcess, String>,
    /// Nanoseconds from a picture to the next.
    interval: u64,
}

impl Bench {
    /// Opens it. The device receives in a thread of its own. `program` is the process that draws.
    fn open((size, fps): (Size, u16), rate: Bitrate, cable: &Cable, program: &mut Command) -> io::Result<Self> {
        let pictures = Arc::new(TestPictures::new(size, true));
        let [near, far] = [0, 1].map(|end| End::open(cable, end));
        let (near, far) = (near?, far?);
        let key_wanted = Arc::new(AtomicBool::new(false));
        let host = Host::new(Arc::clone(&pictures), near, rate, fps, Arc::clone(&key_wanted))?;
        let mut device = Device::new(far, pictures, key_wanted);
        let ((turns, orders), (results, answers)) = (sync_channel::<StepTurn>(1), sync_channel(1));
        thread::Builder::new().name("device".into()).spawn(move || {
            while let Ok(turn) = orders.recv() {
                if results.send(device.receive(turn)).is_err() {
                    return;
                }
            }
        })?;
        let process = OtherProcess::start(size, program).map_err(|error| error.to_string());
        Ok(Self { host, turns, answers, process, interval: 1_000_000_000 / u64::from(fps) })
    }

    fn run(&mut self, turn: StepTurn) -> io::Result<Samples> {
        let process = self.process.as_mut().ok().filter(|_| turn.step == Step::OtherProcess);
        let began = process.as_deref().map_or(0, OtherProcess::server_time);
        self.turns.send(turn).map_err(|_| io::ErrorKind::BrokenPipe)?;
        let (sent, ended) = if let Some(process) = process {
            process.run(turn, &mut self.host)?;
            (self.host.take_sent()?, process.server_time())
        } else {
            self.host.run(turn, self.interval)?;
            (self.host.take_sent()?, 0)
        };
        Ok(Samples {
            sent: sent.into_iter().map(|sent| (sent.number, sent)).collect(),
            received: self.answers.recv().map_err(|_| io::ErrorKind::BrokenPipe)??,
            server_time: ended - began,
            shown: u64::from(turn.frames),
        })
    }
}

/// Returns what was measured at one size, and what is simulated. `obstacle` says why there was no other process.
fn report(
    (size, fps): (Size, u16),
    rate: Bitrate,
    mut samples: BTreeMap<Step, Samples>,
    obstacle: Option<&String>,
) -> Result<SizeReport, ConfigError> {
    let bytes: Vec<f64> =
        samples.values().flat_map(|samples| samples.sent.values().map(|sent| sent.bytes as f64)).collect();
    let frame_bytes = Figures::of(bytes);
    let packets = frame_bytes.as_ref().map_or(1, |bytes| (bytes.median / 1_392.0).ceil() as u64);
    let similarities: Vec<f64> = samples
        .values()
        .flat_map(|samples| samples.received.iter().filter_map(|received| received.similarity))
        .collect();
    let rungs = Step::ALL.map(|step| match (samples.remove(&step), obstacle) {
        (Some(samples), _) => Ok(rung(step, &samples)),
        (None, Some(reason)) if step == Step::OtherProcess => Ok(Rung::empty(step, Some(reason.clone()))),
        (None, _) => simulate_wifi(step, packets, fps),
    });
    let rungs = rungs.into_iter().collect::<Result<_, ConfigError>>()?;
    let mut report = SizeReport {
        width: size.width,
        height: size.height,
        fps,
        rate_mbps: rate.as_bps() as f64 / 1e6,
        frame_bytes,
        packets,
        ssim_mean: (!similarities.is_empty()).then(|| similarities.iter().sum::<f64>() / similarities.len() as f64),
        ssim_worst: similarities.iter().copied().reduce(f64::min),
        rungs,
    };
    report.compare();
    Ok(report)
}

/// Simulates the one step in virtual time. Its difference is that of the network alone.
fn simulate_wifi(step: Step, packets: u64, fps: u16) -> Result<Rung, ConfigError> {
    let wifi::Network { through_access_point, direct } = wifi::simulate(packets, fps)?;
    let [relayed, direct] = [through_access_point, direct].map(Figures::of);
    let network_difference_us = direct.as_ref().zip(relayed).map(|(direct, relayed)| direct.median - relayed.median);
    Ok(Rung { network_us: direct, network_difference_us, ..Rung::empty(step, None) })
}

fn rung(step: Step, samples: &Samples) -> Rung {
    let frames: Vec<(&SentFrame, &ReceivedFrame)> =
        samples.received.iter().filter_map(|received| Some((samples.sent.get(&received.number)?, received))).collect();
    let us = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e3;
    let figures = |of: &dyn Fn(&SentFrame, &ReceivedFrame) -> f64| {
        Figures::of(frames.iter().map(|(sent, received)| of(sent, received)).collect())
    };
    let mean_us = |total: u64, count: usize| (count > 0).then(|| total as f64 / 1e3 / count as f64);
    let host_cpu = samples.sent.values().map(|sent| sent.cpu).sum::<u64>() + samples.server_time;
    let device_cpu = samples.received.iter().map(|received| received.cpu).sum();
    Rung {
        host_us: figures(&|sent, _| us(sent.finished_at, sent.encode_began_at) + us(sent.encoded_at, sent.handed_at)),
        encode_us: figures(&|sent, _| us(sent.encode_began_at, sent.encoded_at)),
        network_us: figures(&|sent, received| us(sent.encoded_at, received.arrived_at)),
        device_us: figures(&|_, received| us(received.arrived_at, received.decoded_at)),
        total_us: figures(&|sent, received| us(sent.finished_at, received.decoded_at)),
        host_calls: figures(&|sent, _| f64::from(sent.calls)),
        device_calls: figures(&|_, received| f64::from(received.calls)),
        host_cpu_us: mean_us(host_cpu, samples.sent.len()),
        device_cpu_us: mean_us(device_cpu, samples.received.len()),
        missing: samples.shown - frames.len() as u64,
        ..Rung::empty(step, None)
    }
}
