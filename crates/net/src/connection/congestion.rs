//! Who decides how much of a QUIC session is in flight: the session's own rate controller, or CUBIC for sessions that have none.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use nearlight_units::{Bitrate, Bytes, Span};
use quinn::congestion::{Controller, ControllerFactory, Cubic, CubicConfig};
use quinn_proto::RttEstimator;

use super::{Connection, Transport};
use crate::clock::span;
use crate::transport::DATAGRAM_SEND_QUEUE;

/// Larger than `u32::MAX`, above which quinn's pacer is disabled (quinn-proto 0.11.19, `Pacer::delay`), and far more than any path holds in
/// flight.
const WINDOW: u64 = 1 << 40;

/// Unacknowledged bytes of streams that may wait in a session that CUBIC controls. Guess: what 5 Mb/s carry in a round trip of 100 ms.
const CONTROLLED_SEND_WINDOW: u64 = 64 << 10;

/// Makes the controllers of new paths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Congestion;

/// Has no opinion until it is told to have one: most sessions' own rate controllers and pacers decide what is sent and when.
#[derive(Clone, Debug)]
struct PathCongestion {
    decides: Arc<AtomicBool>,
    /// Told of everything from when it decides.
    cubic: Cubic,
}

impl ControllerFactory for Congestion {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let cubic = Cubic::new(Arc::new(CubicConfig::default()), now, mtu);
        Box::new(PathCongestion { decides: Arc::default(), cubic })
    }
}

impl PathCongestion {
    fn decides(&self) -> bool {
        self.decides.load(Ordering::Relaxed)
    }
}

impl Controller for PathCongestion {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        if self.decides() {
            self.cubic.on_ack(now, sent, bytes, app_limited, rtt);
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        if self.decides() {
            self.cubic.on_congestion_event(now, sent, is_persistent, lost_bytes);
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.cubic.on_mtu_update(mtu);
    }

    fn window(&self) -> u64 {
        if self.decides() { self.cubic.window() } else { WINDOW }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        if self.decides() { self.cubic.initial_window() } else { WINDOW }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Connection {
    /// From now on CUBIC decides how much of this session is in flight, and little of a stream waits for it. For sessions without a rate
    /// controller of their own. Over Ethernet, whose frames nothing acknowledges, it has no effect.
    pub fn set_congestion_control(&self) {
        let Transport::Quic(session) = &self.inner.transport else { return };
        session.set_send_window(CONTROLLED_SEND_WINDOW);
        // What quinn hands out is a copy that shares the switch.
        if let Ok(path) = session.congestion_state().into_any().downcast::<PathCongestion>() {
            path.decides.store(true, Ordering::Relaxed);
        }
    }

    /// What QUIC's congestion control lets through, its window in a round trip, and the round trip. None before
    /// [`Connection::set_congestion_control`] and over Ethernet.
    #[must_use]
    pub fn network(&self) -> Option<(Bitrate, Span)> {
        let Transport::Quic(session) = &self.inner.transport else { return None };
        let path = quinn::Connection::stats(session).path;
        let round_trip = span(path.rtt);
        (path.cwnd < WINDOW && round_trip > Span::ZERO).then(|| (Bytes::new(path.cwnd).over(round_trip), round_trip))
    }

    /// Whether nobody decides how much is in flight, because nobody was told to, or because the peer came from another network, where quinn
    /// begins with a new controller.
    #[must_use]
    pub fn is_uncontrolled(&self) -> bool {
        let Transport::Quic(session) = &self.inner.transport else { return false };
        quinn::Connection::stats(session).path.cwnd >= WINDOW
    }

    /// Bytes of datagrams that wait for congestion control, or for the system.
    #[must_use]
    pub fn unsent_datagrams(&self) -> usize {
        match &self.inner.transport {
            // The session's own method leaves out what its header would take.
            Transport::Quic(session) => {
                DATAGRAM_SEND_QUEUE.saturating_sub(quinn::Connection::datagram_send_buffer_space(session))
            }
            Transport::Ethernet(_) => 0,
        }
    }
}
