//! Congestion control of QUIC sessions: none for sessions with a rate controller of their own, CUBIC for the others.

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

/// The window without congestion control. Larger than `u32::MAX`, above which quinn's pacer is disabled (quinn-proto 0.11.19,
/// `Pacer::delay`), and far more than any path holds in flight.
const UNCONTROLLED_WINDOW: u64 = 1 << 40;

/// Maximum number of unacknowledged bytes of streams in a session that CUBIC controls. Guess: what 5 Mb/s carry in a round trip of 100 ms.
const CONTROLLED_SEND_WINDOW: u64 = 64 << 10;

/// Makes the controllers of new paths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Congestion;

/// A controller that sets no limit until it is enabled: most sessions' own rate controllers and pacers decide what is sent and when.
#[derive(Clone, Debug)]
struct PathCongestion {
    decides: Arc<AtomicBool>,
    /// The algorithm, which is told of everything from the time at which it is enabled.
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
        if self.decides() { self.cubic.window() } else { UNCONTROLLED_WINDOW }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        if self.decides() { self.cubic.initial_window() } else { UNCONTROLLED_WINDOW }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Connection {
    /// Enables CUBIC for this session, with little stream data queued. For sessions without a rate controller of their own. It has no
    /// effect over Ethernet, whose frames are not acknowledged.
    pub fn set_congestion_control(&self) {
        let Transport::Quic(session) = &self.inner.transport else { return };
        session.set_send_window(CONTROLLED_SEND_WINDOW);
        // quinn returns a copy that shares the switch.
        if let Ok(path) = session.congestion_state().into_any().downcast::<PathCongestion>() {
            path.decides.store(true, Ordering::Relaxed);
        }
    }

    /// The rate that QUIC's congestion control permits, its window in a round trip, and the round trip. None before
    /// [`Connection::set_congestion_control`] and over Ethernet.
    #[must_use]
    pub fn network(&self) -> Option<(Bitrate, Span)> {
        let Transport::Quic(session) = &self.inner.transport else { return None };
        let path = quinn::Connection::stats(session).path;
        let round_trip = span(path.rtt);
        (path.cwnd < UNCONTROLLED_WINDOW && round_trip > Span::ZERO)
            .then(|| (Bytes::new(path.cwnd).over(round_trip), round_trip))
    }

    /// Whether no congestion control is in force, because none was enabled, or because the peer came from another network, where quinn
    /// begins with a new controller.
    #[must_use]
    pub fn is_uncontrolled(&self) -> bool {
        let Transport::Quic(session) = &self.inner.transport else { return false };
        quinn::Connection::stats(session).path.cwnd >= UNCONTROLLED_WINDOW
    }

    /// Bytes of datagrams that wait for congestion control, or for the system.
    #[must_use]
    pub fn unsent_datagrams(&self) -> usize {
        match &self.inner.transport {
            // The session's own method does not count its header.
            Transport::Quic(session) => {
                DATAGRAM_SEND_QUEUE.saturating_sub(quinn::Connection::datagram_send_buffer_space(session))
            }
            Transport::Ethernet(_) => 0,
        }
    }
}
