//! Periods in which no packet gets through.

use std::collections::VecDeque;

use nearlight_units::{Span, Time};

use crate::hop::{DropReason, Exit, Hop, Packet};

/// A half-open time interval: the start is included, the end is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Relative to the path's time zero.
    pub start: Span,
    pub length: Span,
    /// Time from one start to the next. None if it happens once.
    pub every: Option<Span>,
}

impl Window {
    /// The end of the occurrence that `now` falls into.
    fn end(&self, now: Time) -> Option<Time> {
        let into = now - (Time::ZERO + self.start);
        if into < Span::ZERO {
            return None;
        }
        let into = match self.every {
            Some(every) if every > Span::ZERO => Span::from_nanos(into.as_nanos() % every.as_nanos()),
            _ => into,
        };
        (into < self.length).then(|| now + (self.length - into))
    }
}

/// What happens to packets during an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageKind {
    /// Packets are lost, as with an unplugged cable.
    Drop,
    /// Packets wait and leave all at once at the end, as in a radio handover.
    Freeze,
}

/// A link that is down during given intervals.
#[derive(Clone, Debug)]
pub struct Outage {
    windows: Vec<Window>,
    kind: OutageKind,
    ready: VecDeque<Exit>,
}

impl Outage {
    #[must_use]
    pub fn new(kind: OutageKind, windows: Vec<Window>) -> Self {
        Self { windows, kind, ready: VecDeque::new() }
    }

    /// The latest end of the windows that contain `now`.
    fn down_until(&self, now: Time) -> Option<Time> {
        self.windows.iter().filter_map(|window| window.end(now)).max()
    }

    /// When a packet that is ready at `now` may leave. A window may begin where another ends, at most once per window.
    fn opens(&self, now: Time) -> Time {
        let next = |at: &Time| self.down_until(*at);
        std::iter::successors(Some(now), next).take(self.windows.len() + 1).last().unwrap_or(now)
    }
}

impl Hop for Outage {
    fn offer(&mut self, now: Time, packet: Packet) {
        let exit = match self.kind {
            OutageKind::Drop if self.down_until(now).is_some() => Exit::dropped(now, packet, DropReason::Outage),
            OutageKind::Drop => Exit::delivered(now, packet),
            OutageKind::Freeze => {
                let at = self.opens(now);
                Exit::delivered(at, Packet { queued: packet.queued + (at - now), ..packet })
            }
        };
        self.ready.push_back(exit);
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Option<Exit> {
        self.ready.pop_front_if(|exit| exit.at <= now)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        self.ready.front().map(|exit| exit.at)
    }
}
