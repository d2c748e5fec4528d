//! Stretches of time in which nothing gets through.

use std::collections::VecDeque;

use nearlight_units::{Span, Time};

use crate::hop::{DropReason, Exit, Hop, Packet};

/// A stretch of time, from its start up to but not including its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From the path's time zero.
    pub start: Span,
    pub length: Span,
    /// From one start to the next; None if it happens once.
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

/// What happens to packets meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageKind {
    /// They are lost: a cable that was pulled.
    Drop,
    /// They wait and leave at the end, all at once: a radio that hands over.
    Freeze,
}

/// A link that is down now and then.
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

    /// The end of the latest window around `now`.
    fn down_until(&self, now: Time) -> Option<Time> {
        self.windows.iter().filter_map(|window| window.end(now)).max()
    }

    /// When a packet gets out that wants to at `now`. A window may begin where another ends, once for each window.
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
