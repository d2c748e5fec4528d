//! PCC: sends at slightly different rates and keeps to what was worth more.
//!
//! Time is cut into monitor intervals of one rate each. What became of an interval's packets makes a utility; a [`Chooser`] says from the
//! utilities of its trials which rates to try next. Between trials, while their results are on their way, the sender keeps to the base
//! rate.
//!
//! [`Allegro`]: Dong et al., "PCC: Re-architecting Congestion Control for Consistent High Performance", NSDI 2015. [`Vivace`]: Dong et
//! al., "PCC Vivace: Online-Learning Congestion Control", NSDI 2018. Their authors' code is PCCproject/PCC-Uspace, their kernel module
//! PCCproject/PCC-Kernel.
//!
//! # Departures
//! * An interval lasts for a smoothed round trip, and for ten packets at its rate; the papers add a random part. It ends with the first
//!   packet that is sent after that.
//! * The rate in a utility is the one that the interval was given, as in PCC-Kernel; PCC-Uspace counts what was sent. Frames fall into an
//!   interval or beside it, which changes what was sent by more than trials differ.
//! * Intervals in which the sender sent less than half of their rate say nothing and are tried again: an application's pause is no
//!   property of the path.
//! * The flight is at most what two smoothed round trips send (PCC-Kernel); the papers set no window.
//! * A time-out settles all intervals, with their unsettled packets as lost. An interval whose packets are not all settled four smoothed
//!   round trips after its end is judged by those that are.

mod allegro;
mod interval;
mod vivace;

pub use allegro::Allegro;
pub use interval::Observed;
pub use vivace::Vivace;

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Bytes, Span, Time};

use self::interval::Interval;
use super::smoothed::Smoothed;
use super::{AckSample, Congestion, CongestionLaw, INITIAL_WINDOW, SentPacket};

/// The lowest rate. Guess: a few packets a second, so that what returns is seen within a second.
const LEAST_RATE: Bitrate = Bitrate::from_kbps(100);
/// The highest rate: beyond anything that is emulated.
const MOST_RATE: Bitrate = Bitrate::from_mbps(100_000);
/// Packets of an interval at the least (Allegro, section 3.1).
const LEAST_PACKETS: u64 = 10;
/// Round trips in flight at most (PCC-Kernel, `pcc_main.c`).
const WINDOW_ROUND_TRIPS: i64 = 2;
/// An interval is judged, whatever is still unsettled, so many smoothed round trips after its end.
const PATIENCE: i64 = 4;
/// Intervals in memory: at most one for each round trip of patience and a few more.
const MOST_INTERVALS: usize = 64;
/// Share of its rate below which an interval says nothing.
const USED: f64 = 0.5;
/// Before a round trip is known.
const ROUND_TRIP_GUESS: Span = Span::from_millis(100);

/// Says which rates to try.
pub trait Chooser: Send {
    /// The law's name in logs and plans.
    fn name(&self) -> &'static str;

    /// The next rate to try, and a mark that [`Chooser::on_result`] gets with its utility; None to keep to the base rate.
    fn poll_trial(&mut self) -> Option<(Bitrate, u32)>;

    /// The rate where nothing is tried.
    fn base(&self) -> Bitrate;

    /// What an interval was worth.
    fn utility(&self, observed: &Observed) -> f64;

    /// A trial's result.
    fn on_result(&mut self, mark: u32, observed: &Observed);

    /// A trial that said nothing is to be made again.
    fn on_void(&mut self, mark: u32);

    /// Nothing was acknowledged for a whole time-out.
    fn on_timeout(&mut self);
}

/// A rate-based law: monitor intervals and whoever chooses their rates.
#[derive(Debug)]
pub struct Pcc<C> {
    chooser: C,
    packet: Bytes,
    intervals: VecDeque<Interval>,
    /// The running interval's rate and end.
    rate: Bitrate,
    until: Time,
    smoothed: Smoothed,
    /// Follows from the rate and the smoothed round trip: senders ask for it several times for each packet.
    window: Bytes,
}

impl Pcc<Allegro> {
    /// The seed decides in which order rates are tried.
    #[must_use]
    pub fn allegro(packet: Bytes, seed: u64) -> Self {
        Self::new(packet, Allegro::new(first_rate(packet), seed))
    }
}

impl Pcc<Vivace> {
    /// The seed decides in which order rates are tried.
    #[must_use]
    pub fn vivace(packet: Bytes, seed: u64) -> Self {
        Self::new(packet, Vivace::new(first_rate(packet), seed))
    }
}

/// A window in a guessed round trip.
fn first_rate(packet: Bytes) -> Bitrate {
    Bytes::new(INITIAL_WINDOW * packet.get()).over(ROUND_TRIP_GUESS)
}

/// Within what is allowed.
fn bounded(rate: Bitrate) -> Bitrate {
    rate.clamp(LEAST_RATE, MOST_RATE)
}

impl<C: Chooser> Pcc<C> {
    fn new(packet: Bytes, chooser: C) -> Self {
        let rate = chooser.base();
        let packet = packet.max(Bytes::new(1));
        let smoothed = Smoothed::default();
        let mut pcc = Self {
            chooser,
            packet,
            intervals: VecDeque::new(),
            rate,
            until: Time::ZERO,
            smoothed,
            window: Bytes::ZERO,
        };
        pcc.set_window();
        pcc
    }

    fn round_trip(&self) -> Span {
        self.smoothed.value().unwrap_or(ROUND_TRIP_GUESS)
    }

    fn set_window(&mut self) {
        let flight = self.rate.bytes_in(self.round_trip() * WINDOW_ROUND_TRIPS);
        self.window = flight.max(Bytes::new(INITIAL_WINDOW * self.packet.get()));
    }

    fn begin(&mut self, now: Time) {
        if let Some(last) = self.intervals.back_mut() {
            last.end(now);
        }
        let trial = self.chooser.poll_trial();
        let (rate, mark) = trial.map_or((self.chooser.base(), None), |(rate, mark)| (rate, Some(mark)));
        self.rate = bounded(rate);
        self.set_window();
        let packets = self.rate.time_to_send(self.packet) * LEAST_PACKETS.cast_signed();
        self.until = now + self.round_trip().max(packets);
        if self.intervals.len() >= MOST_INTERVALS
            && let Some(oldest) = self.intervals.pop_front()
        {
            self.judge(&oldest);
        }
        self.intervals.push_back(Interval::new(now, self.rate, mark));
    }

    /// Settled intervals, the oldest first.
    fn settle(&mut self, now: Time) {
        let patience = self.round_trip() * PATIENCE;
        while let Some(oldest) = self.intervals.pop_front_if(|oldest| oldest.is_settled(now, patience)) {
            self.judge(&oldest);
        }
    }

    fn judge(&mut self, interval: &Interval) {
        let Some(mark) = interval.mark() else { return };
        match interval.observed().filter(|observed| observed.sent >= interval.rate().mul_f64(USED)) {
            Some(observed) => self.chooser.on_result(mark, &observed),
            None => self.chooser.on_void(mark),
        }
    }

    fn interval_of(&mut self, sent_at: Time) -> Option<&mut Interval> {
        self.intervals.iter_mut().rev().find(|interval| interval.began() <= sent_at)
    }
}

impl<C: Chooser> CongestionLaw for Pcc<C> {
    fn name(&self) -> &'static str {
        self.chooser.name()
    }

    fn on_sent(&mut self, now: Time, size: Bytes, _in_flight: Bytes) {
        if now >= self.until {
            self.begin(now);
        }
        if let Some(running) = self.intervals.back_mut() {
            running.on_sent(size);
        }
    }

    fn on_packet_acked(&mut self, _now: Time, packet: &SentPacket, round_trip: Option<Span>) {
        if let Some(interval) = self.interval_of(packet.sent_at) {
            interval.on_acked(packet, round_trip);
        }
    }

    fn on_packet_lost(&mut self, _now: Time, packet: &SentPacket) {
        if let Some(interval) = self.interval_of(packet.sent_at) {
            interval.on_lost(packet.size);
        }
    }

    fn on_ack(&mut self, now: Time, sample: &AckSample) {
        if let Some(round_trip) = sample.round_trip {
            self.smoothed.on_sample(round_trip.max(Span::from_nanos(1)));
            self.set_window();
        }
        self.settle(now);
    }

    fn on_loss(&mut self, _now: Time, _congestion: &Congestion) {}

    fn on_recovered(&mut self, _now: Time) {}

    fn on_timeout(&mut self, now: Time, _flight: Bytes) {
        for mut interval in std::mem::take(&mut self.intervals) {
            interval.give_up(now);
            self.judge(&interval);
        }
        self.chooser.on_timeout();
        self.until = now;
    }

    fn window(&self) -> Bytes {
        self.window
    }

    fn pacing(&self) -> Option<Bitrate> {
        Some(self.rate)
    }
}

#[cfg(test)]
mod tests;
