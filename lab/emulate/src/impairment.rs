//! One direction of a path inside a process: the hops of [`nearlight_link`] in real time, for datagrams of a connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use nearlight_link::{Exit, FlowId, Hop as _, Packet, Path};
use nearlight_net::{Clock, EmulatedPath, PathEntrance, PathExit};
use nearlight_units::{Bytes as Size, Span, Time, lock};

/// Per-datagram overhead on the network: IP, UDP, QUIC's short header and tag. Guess: connection ids of 8 bytes.
const HEADERS: u64 = 28 + 32;

/// Datagrams on the path at the same time; further ones are lost. A second of 600 Mb/s.
const MAX_HELD_DATAGRAMS: usize = 1 << 16;

/// The thread wakes up this often if nothing is due.
const MAX_WAIT: Span = Span::from_secs(60);

/// One direction of a path, for [`EmulatedPath::open`].
pub(crate) struct PathInProcess(pub(crate) Path);

impl EmulatedPath for PathInProcess {
    fn open(self: Box<Self>, clock: Clock, origin: Time, exit: PathExit) -> Box<dyn PathEntrance> {
        Box::new(Impairment::start(self.0, clock, origin, exit))
    }
}

/// One direction of an impaired path, with a thread that wakes up when something is due.
struct Impairment {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    clock: Clock,
    /// The path's time zero.
    origin: Time,
    path: Path,
    held: BTreeMap<u64, HeldDatagram>,
    next: u64,
    release: PathExit,
    ended: bool,
}

struct HeldDatagram {
    datagram: Bytes,
    /// Portions in flight, of [`Packet::PORTIONS`].
    left: u64,
}

impl Impairment {
    fn start(path: Path, clock: Clock, origin: Time, release: PathExit) -> Self {
        let state = State { clock, origin, path, held: BTreeMap::new(), next: 0, release, ended: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let running = Arc::clone(&shared);
        thread::spawn(move || running.run());
        Self { shared }
    }
}

impl PathEntrance for Impairment {
    fn offer(&self, datagram: Bytes) {
        let mut state = self.shared.state();
        let before = state.path.poll_timeout();
        state.offer(datagram);
        state.run();
        let next = state.path.poll_timeout();
        if next.is_some() && (before.is_none() || next < before) {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Impairment {
    /// Drops what is still on the path.
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn run(&self) {
        let mut state = self.state();
        while !state.ended {
            state.run();
            let wait = state.path.poll_timeout().map(|at| at.saturating_since(state.now()));
            let longest = state.path.max_poll_interval().unwrap_or(MAX_WAIT);
            let wait = Duration::from_nanos(wait.unwrap_or(longest).min(longest).as_nanos().unsigned_abs());
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    fn now(&self) -> Time {
        Time::ZERO + (self.clock.now() - self.origin)
    }

    fn offer(&mut self, datagram: Bytes) {
        if self.held.len() == MAX_HELD_DATAGRAMS {
            (self.release)(None);
            return;
        }
        let size = Size::new(datagram.len() as u64 + HEADERS);
        let (now, id) = (self.now(), self.next);
        self.next += 1;
        self.held.insert(id, HeldDatagram { datagram, left: Packet::PORTIONS });
        self.path.offer(now, Packet::new(id, FlowId(0), size));
    }

    /// Releases what is due.
    fn run(&mut self) {
        let now = self.now();
        while let Some(exit) = self.path.poll(now) {
            let datagram = self.take(&exit);
            (self.release)(datagram.filter(|_| exit.is_delivered()));
        }
    }

    fn take(&mut self, exit: &Exit) -> Option<Bytes> {
        let held = self.held.get_mut(&exit.packet.id)?;
        held.left -= exit.packet.portion();
        if held.left > 0 {
            return Some(held.datagram.clone());
        }
        self.held.remove(&exit.packet.id).map(|held| held.datagram)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use nearlight_link::PathSpec;

    use super::*;

    fn start(spec: &str) -> (Impairment, Receiver<(Time, Option<Bytes>)>, Clock) {
        #[expect(clippy::disallowed_methods, reason = "a test is short, and so is its queue")]
        let (sender, receiver) = channel();
        let clock = Clock::start();
        let path = spec.parse::<PathSpec>().expect("a path").build(7).expect("no files");
        let release = move |datagram| drop(sender.send((clock.now(), datagram)));
        (Impairment::start(path, clock, clock.now(), Box::new(release)), receiver, clock)
    }

    fn number(number: u32) -> Bytes {
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    #[test]
    fn what_needs_no_time_comes_out_at_once() {
        let (path, out, _) = start("loss=10%,duplicate=10%");
        for count in 0..1_000 {
            path.offer(number(count));
            let first = out.try_recv().expect("lost or there").1;
            assert!(first.is_none_or(|datagram| datagram == number(count)));
            assert!(out.try_iter().all(|(_, copy)| copy == Some(number(count))), "copies follow");
        }
        assert!(path.shared.state().held.is_empty());
    }

    #[test]
    fn delayed_datagrams_come_in_order_and_never_early() {
        let (path, out, clock) = start("delay=20ms,rate=8mbit");
        let offered = clock.now();
        (0..20).for_each(|count| path.offer(number(count)));
        for count in 0..20 {
            let (at, datagram) = out.recv_timeout(Duration::from_secs(10)).expect("it arrives");
            assert_eq!(datagram, Some(number(count)));
            // 64 bytes take 64 us each.
            let least = Span::from_millis(20) + Span::from_micros(64) * i64::from(count + 1);
            assert!(at - offered >= least, "{count} after {}", at - offered);
        }
    }

    #[test]
    fn a_path_that_is_taken_away_keeps_what_it_holds() {
        let (path, out, _) = start("delay=1min");
        path.offer(number(1));
        drop(path);
        assert!(out.recv_timeout(Duration::from_secs(10)).is_err(), "the thread ends and drops its sender");
    }
}
