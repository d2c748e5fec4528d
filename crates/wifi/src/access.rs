//! One contender for the medium: an access category of the access point or of a station.
//!
//! Decides when it may send, from the time the medium became idle, its backoff and its window. It does not handle packets.

use nearlight_units::{Span, Time};

use crate::config::{AccessRule, Edca};
use crate::random::Random;

/// The state of the medium, as heard by all nodes of the cell.
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
    rule: AccessRule,
    /// Backoffs are drawn from 0 to this.
    window: u16,
    /// Slots left to count when counting last began.
    backoff: u16,
    /// The slots were drawn for the packets waiting now: zero of them means "at the next chance", not "none drawn".
    drawn: bool,
    wants: bool,
    /// Its transmission failed, as it learns by this time.
    knows_at: Time,
    /// While the medium is idle: when the backoff begins to count, an AIFS after the medium fell idle.
    counts_from: Time,
    grant_at: Time,
}

impl Contender {
    pub(crate) fn new(edca: &Edca, aifs: Span, slot: Span, rule: AccessRule) -> Self {
        Self {
            aifs,
            slot,
            window_least: edca.window_least,
            window_most: edca.window_most,
            rule,
            window: edca.window_least,
            backoff: 0,
            drawn: false,
            wants: false,
            knows_at: Time::ZERO,
            counts_from: Time::ZERO + aifs,
            grant_at: Time::FAR_FUTURE,
        }
    }

    /// A packet is waiting to be sent.
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
                self.grant_at = ready.max(match self.rule {
                    AccessRule::Komondor => now + self.aifs,
                    AccessRule::Edca => self.slot_from(now),
                });
            }
        }
    }

    /// No packet is waiting any more, or none that can be sent.
    pub(crate) fn withdraw(&mut self) {
        self.wants = false;
        self.grant_at = Time::FAR_FUTURE;
    }

    /// Another node began to send: counting stops; only complete slots count.
    #[inline]
    pub(crate) fn on_busy(&mut self, now: Time, random: &mut Random) {
        self.backoff -= self.counted(now);
        self.grant_at = Time::FAR_FUTURE;
        if self.rule == AccessRule::Komondor && self.wants && self.backoff == 0 && !self.drawn {
            self.draw(random);
            self.drawn = true;
        }
    }

    /// The medium fell idle.
    #[inline]
    pub(crate) fn on_idle(&mut self, now: Time) {
        self.counts_from = now.max(self.knows_at) + self.aifs;
        if self.wants {
            self.grant_at = self.counts_from + self.slot * i64::from(self.backoff);
        }
    }

    /// It sends.
    pub(crate) fn on_access(&mut self) {
        self.backoff = 0;
        self.grant_at = Time::FAR_FUTURE;
    }

    /// Its exchange has ended and at least one packet got through: the window is reset and a post-backoff drawn.
    pub(crate) fn on_success(&mut self, random: &mut Random) {
        self.window = self.window_least;
        self.draw(random);
        self.drawn = true;
    }

    /// No packet of its exchange got through, as it learns at `knows_at`: the window doubles.
    pub(crate) fn on_failure(&mut self, knows_at: Time, random: &mut Random) {
        self.knows_at = knows_at;
        let doubled = u32::from(self.window) * 2 + 1;
        self.window = doubled.min(u32::from(self.window_most)) as u16;
        self.grant_at = Time::FAR_FUTURE;
        self.draw(random);
        self.drawn = true;
    }

    /// The value of [`Self::wants`] from now on, where the medium is busy and the backoff is drawn.
    pub(crate) fn set_wants(&mut self, wants: bool) {
        self.wants = wants;
    }

    fn draw(&mut self, random: &mut Random) {
        self.backoff = random.up_to(self.window);
    }

    /// The first slot boundary that is not before `now`.
    fn slot_from(&self, now: Time) -> Time {
        let slots =
            now.saturating_since(self.counts_from).as_nanos().cast_unsigned().div_ceil(self.slot.as_nanos() as u64);
        self.counts_from + self.slot * slots as i64
    }

    /// Backoff slots that have elapsed when another node begins to send at `now`.
    #[inline]
    fn counted(&self, now: Time) -> u16 {
        if self.backoff == 0 || now < self.counts_from {
            return 0;
        }
        let passed = (now - self.counts_from).as_nanos() / self.slot.as_nanos();
        let slots = match self.rule {
            AccessRule::Komondor => passed,
            // The end of the AIFS is a boundary too, and so is the one at which others begin.
            AccessRule::Edca => passed + 1,
        };
        slots.min(i64::from(self.backoff)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Timing;

    const BEST_EFFORT: Edca = Edca { aifs_slots: 2, window_least: 31, window_most: 1_023, txop: None };

    /// On a medium that has been idle since `since`, with this many slots to count.
    fn contender(rule: AccessRule, since: Time, backoff: u16) -> Contender {
        let timing = Timing::STANDARD;
        let mut contender = Contender::new(&BEST_EFFORT, BEST_EFFORT.aifs(&timing), timing.slot, rule);
        contender.backoff = backoff;
        contender.on_idle(since);
        contender
    }

    fn micros(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    #[test]
    fn packets_that_find_the_medium_idle_go_at_the_next_slot_boundary() {
        let mut random = Random::new(1);
        // The AIFS ends at 134, boundaries follow every 9 us.
        for (arrival, backoff, edca, komondor) in
            [(110, 0, 134, 144), (134, 0, 134, 168), (135, 0, 143, 169), (152, 0, 152, 186), (135, 3, 161, 169)]
        {
            for (rule, expected) in [(AccessRule::Edca, edca), (AccessRule::Komondor, komondor)] {
                let mut contender = contender(rule, micros(100), backoff);
                contender.on_request(micros(arrival), Medium::Idle, &mut random);
                assert_eq!(contender.grant_at(), micros(expected), "{rule:?}, {arrival}, {backoff}");
            }
        }
    }

    /// IEEE 802.11-2020, section 10.23.2.4: the end of the AIFS is a boundary, and so is the one at which another begins.
    #[test]
    fn a_backoff_counts_the_boundary_at_which_another_begins() {
        let mut random = Random::new(1);
        for (begins, edca, komondor) in [(120, 5, 5), (134, 4, 5), (143, 3, 4), (170, 0, 1), (179, 0, 0)] {
            for (rule, left) in [(AccessRule::Edca, edca), (AccessRule::Komondor, komondor)] {
                let mut contender = contender(rule, micros(100), 5);
                contender.on_busy(micros(begins), &mut random);
                assert_eq!(contender.backoff, left, "{rule:?}, {begins}");
            }
        }
    }

    #[test]
    fn a_packet_that_arrived_in_time_keeps_its_zero_backoff_when_another_begins() {
        let mut random = Random::new(1);
        let mut contender = contender(AccessRule::Edca, micros(100), 0);
        contender.on_request(micros(110), Medium::Idle, &mut random);
        contender.on_busy(micros(130), &mut random);
        contender.on_idle(micros(500));
        assert_eq!(contender.grant_at(), micros(534));
    }

    #[test]
    fn those_that_collided_count_on_only_when_they_know_it() {
        let mut random = Random::new(1);
        let mut contender = contender(AccessRule::Edca, micros(100), 0);
        contender.on_access();
        contender.on_failure(micros(245), &mut random);
        contender.set_wants(true);
        contender.on_idle(micros(200));
        let counts_from = micros(245) + Span::from_micros(34);
        assert_eq!(contender.grant_at(), counts_from + Span::from_micros(9) * i64::from(contender.backoff));
        assert_eq!(contender.window, 63);
    }
}
