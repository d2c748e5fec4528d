//! The thread that moves packets.

use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::{io, thread};

use nearlight_link::{Hop as _, Path};
use nearlight_net::Clock;
use nearlight_units::{Span, Time};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::lane::Lane;
use crate::port::Port;
use crate::report::PumpCounters;
use crate::sys;

/// Packets read between two checks for due packets: at 2 us each, a due packet waits for 32 us at most.
const MAX_BATCH_PACKETS: usize = 16;

/// Above ordinary programs, below the system's own real-time threads. Guess.
const REAL_TIME_PRIORITY: i32 = 10;

/// The paths of both directions.
pub(crate) struct Paths {
    /// The path from the command to the host.
    pub(crate) up: Path,
    /// The path from the host to the command.
    pub(crate) down: Path,
}

/// A request to the running thread.
enum Request {
    Report(SyncSender<PumpCounters>),
    Stop(SyncSender<PumpCounters>),
}

/// The running thread.
pub(crate) struct Pump {
    requests: SyncSender<Request>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    real_time: bool,
}

impl Pump {
    pub(crate) fn start<N: Port + 'static, F: Port + 'static>(near: N, far: F, paths: Paths) -> io::Result<Self> {
        let (requests, inbox) = sync_channel(1);
        let (reported, started) = sync_channel(1);
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let woken = Arc::clone(&wake);
        let run = move || {
            let real_time = prepare_thread();
            let (up, down) = (Lane::new(paths.up), Lane::new(paths.down));
            let moving = PumpLoop { clock: Clock::start(), near, far, up, down, requests: inbox, wake: woken };
            // The receiver expects exactly this.
            let _ = reported.send(real_time);
            moving.run();
        };
        let thread = thread::Builder::new().name("link".into()).spawn(run)?;
        let real_time = started.recv().map_err(|_| io::Error::other("the link's thread ended during startup"))?;
        Ok(Self { requests, wake, thread: Some(thread), real_time })
    }

    /// Returns whether the thread has real-time priority.
    pub(crate) fn is_real_time(&self) -> bool {
        self.real_time
    }

    /// The traffic moved so far.
    pub(crate) fn moved(&self) -> PumpCounters {
        self.ask(Request::Report)
    }

    /// Ends the thread; returns the traffic moved until then.
    pub(crate) fn stop(&mut self) -> PumpCounters {
        let moved = self.ask(Request::Stop);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the link's thread does not panic");
        }
        moved
    }

    fn ask(&self, request: impl FnOnce(SyncSender<PumpCounters>) -> Request) -> PumpCounters {
        let (answer, answered) = sync_channel(1);
        self.requests.send(request(answer)).expect("the link's thread runs until it is stopped");
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).expect("the counter of requests never overflows");
        answered.recv().expect("the link's thread answers")
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
    }
}

/// Sets precise timers and, where allowed, a real-time priority; returns whether it was allowed.
fn prepare_thread() -> bool {
    // Without it the kernel may wake the thread 50 us late to save wake-ups. Never fails on kernels that have the call.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    sys::set_real_time_priority(REAL_TIME_PRIORITY).is_ok()
}

struct PumpLoop<N, F> {
    clock: Clock,
    near: N,
    far: F,
    up: Lane,
    down: Lane,
    requests: Receiver<Request>,
    wake: Arc<OwnedFd>,
}

impl<N: Port, F: Port> PumpLoop<N, F> {
    fn run(mut self) {
        loop {
            let mut more = self.up.receive(self.clock, &mut self.near, MAX_BATCH_PACKETS);
            more |= self.down.receive(self.clock, &mut self.far, MAX_BATCH_PACKETS);
            self.up.release(self.clock, &mut self.far);
            self.down.release(self.clock, &mut self.near);
            let next = [self.up.poll_timeout(), self.down.poll_timeout()].into_iter().flatten().min();
            if more || next.is_some_and(|next| next <= self.clock.now()) {
                continue;
            }
            let pauses = [&self.up, &self.down].into_iter().filter_map(|lane| lane.path.max_poll_interval());
            let pause = pauses.min().map(|pause| self.clock.now() + pause);
            if self.wait(next.into_iter().chain(pause).min()) && self.answer() {
                return;
            }
        }
    }

    /// Waits for packets, for what is due next, or for a request; whether there may be one.
    fn wait(&self, until: Option<Time>) -> bool {
        let mut descriptors = Vec::with_capacity(4);
        descriptors.push(PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN));
        self.near.wait_for(&mut descriptors);
        self.far.wait_for(&mut descriptors);
        let timeout = until.map(|until| timespec(until.saturating_since(self.clock.now())));
        match poll(&mut descriptors, timeout.as_ref()) {
            Ok(_) => !descriptors[0].revents().is_empty(),
            // A signal: no descriptor has become ready.
            Err(_) => false,
        }
    }

    /// Answers a request; returns whether it was to stop.
    fn answer(&mut self) -> bool {
        let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
        while let Ok(request) = self.requests.try_recv() {
            let (Request::Report(answer) | Request::Stop(answer)) = &request;
            // The requester may have stopped waiting.
            let _ = answer.send(self.moved());
            if matches!(request, Request::Stop(_)) {
                return true;
            }
        }
        false
    }

    fn moved(&self) -> PumpCounters {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        PumpCounters {
            seconds: self.clock.now().as_secs_f64(),
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            up: (&self.up).into(),
            down: (&self.down).into(),
        }
    }
}

fn timespec(span: Span) -> Timespec {
    let nanos = span.as_nanos();
    Timespec { tv_sec: nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 }
}
