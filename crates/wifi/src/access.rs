//! One contender for the medium: an access category of the access point or of a station.
//!
//! Decides when it may send, from when the medium fell idle, its backoff and its window. It never sees packets.

use nearlight_units::{Span, Time};

use crate::config::{Edca, IdleAccess};
use crate::random::Random;

/// The medium, as everybody in the cell hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    Idle,
    Busy,
}

#[derive(Clone, Debug)]
pub(crate) struct Contender {
    aifs: Span,
    slot: Span,
    window_least: u16,
    window_most: u16,
    /// An arrival that finds everything idle waits this long.
    arrival_wait: Span,
    /// Backoffs are drawn from 0 to this.
    window: u16,
    /// Slots left to count when counting last began.
    backoff: u16,
    /// The slots were drawn for what waits now: zero of them means "at the next chance", not "none drawn".
    drawn: bool,
    wants: bool,
    /// While the medium is idle: when the backoff begins to count, an AIFS after the medium fell idle.
    counts_from: Time,
    grant_at: Time,
}

impl Contender {
    pub(crate) fn new(edca: &Edca, aifs: Span, slot: Span, idle_access: IdleAccess) -> Self {
        let arrival_wait = match idle_access {
            IdleAccess::AfterAifs => aifs,
            IdleAccess::AtOnce => Span::ZERO,
        };
        Self {
            aifs,
            slot,
            window_least: edca.window_least,
            window_most: edca.window_most,
            arrival_wait,
            window: edca.window_least,
            backoff: 0,
            drawn: false,
            wants: false,
            counts_from: Time::ZERO + aifs,
            grant_at: Time::FAR_FUTURE,
        }
    }

    /// Something waits to be sent.
    #[inline]
    pub(crate) fn wants(&self) -> bool {
        self.wants
    }

    /// When it sends, if the medium stays idle until then.
    #[inline]
    pub(crate) fn grant_at(&self) -> Time {
        self.grant_at
    }

    /// Its queue is no longer empty.
    pub(crate) fn on_request(&mut self, now: Time, medium: Medium, random: &mut Random) {
        self.wants = true;
        match medium {
            Medium::Busy => {
                if self.backoff == 0 {
                    self.draw(random);
                }
                self.drawn = true;
            }
            Medium::Idle => {
                // Post-backoff counts on while the queue is empty.
                let counted = self.counted(now);
                self.drawn = self.backoff > counted;
                let ready = self.counts_from + self.slot * i64::from(self.backoff);
                self.grant_at = ready.max(now + self.arrival_wait);
            }
        }
    }

    /// Nothing waits any more, or what waits cannot be sent.
    pub(crate) fn withdraw(&mut self) {
        self.wants = false;
        self.grant_at = Time::FAR_FUTURE;
    }

    /// Somebody else began to send: counting stops, whole slots count.
    #[inline]
    pub(crate) fn on_busy(&mut self, now: Time, random: &mut Random) {
        self.backoff -= self.counted(now);
        self.grant_at = Time::FAR_FUTURE;
        if self.wants && self.backoff == 0 && !self.drawn {
            self.draw(random);
            self.drawn = true;
        }
    }

    /// The medium fell idle.
    #[inline]
    pub(crate) fn on_idle(&mut self, now: Time) {
        self.counts_from = now + self.aifs;
        if self.wants {
            self.grant_at = self.counts_from + self.slot * i64::from(self.backoff);
        }
    }

    /// It sends.
    pub(crate) fn on_access(&mut self) {
        self.backoff = 0;
        self.grant_at = Time::FAR_FUTURE;
    }

    /// Its exchange is over and something got through: the window is reset and a post-backoff drawn.
    pub(crate) fn on_success(&mut self, random: &mut Random) {
        self.window = self.window_least;
        self.draw(random);
        self.drawn = true;
    }

    /// Its exchange is over and nothing got through: the window doubles.
    pub(crate) fn on_failure(&mut self, random: &mut Random) {
        let doubled = u32::from(self.window) * 2 + 1;
        self.window = doubled.min(u32::from(self.window_most)) as u16;
        self.grant_at = Time::FAR_FUTURE;
        self.draw(random);
        self.drawn = true;
    }

    /// What [`Self::wants`] says from now on, where the medium is busy and the backoff is drawn.
    pub(crate) fn set_wants(&mut self, wants: bool) {
        self.wants = wants;
    }

    fn draw(&mut self, random: &mut Random) {
        self.backoff = random.up_to(self.window);
    }

    /// Slots of the backoff that have passed on the idle medium.
    #[inline]
    fn counted(&self, now: Time) -> u16 {
        if self.backoff == 0 || now <= self.counts_from {
            return 0;
        }
        let slots = (now - self.counts_from).as_nanos() / self.slot.as_nanos();
        slots.min(i64::from(self.backoff)) as u16
    }
}
