//! PCC: tries slightly different rates and adopts the one of higher utility.
//!
//! Time is divided into monitor intervals of one rate each. The fate of an interval's packets determines its utility. A [`Chooser`] decides
//! from the utilities of its trials which rates to try next. Between trials, while their results are pending, the sender uses the base
//! rate.
//!
//! [`Allegro`]: Dong et al., "PCC: Re-architecting Congestion Control for Consistent High Performance", NSDI 2015. [`Vivace`]: Dong et
//! al., "PCC Vivace: Online-Learning Congestion Control", NSDI 2018. Their authors' code is PCCproject/PCC-Uspace, their kernel module
//! PCCproject/PCC-Kernel.
//!
//! # Departures
//! * An interval lasts for a smoothed round trip, and for ten packets at its rate; the papers add a random part. It ends with the first
//!   packet that is sent after that.
//! * The rate in a utility is the one that the interval was given, as in PCC-Kernel; PCC-Uspace counts the sent bytes. Whether a frame
//!   falls into an interval changes these by more than trials differ.
//! * Intervals in which the sender sent less than half of their rate are discarded and repeated: an application's pause is no
//!   property of the path.
//! * The flight is at most what two smoothed round trips send (PCC-Kernel); the papers set no window.
//! * A time-out settles all intervals, with their unsettled packets as lost. Four smoothed round trips after its end, an interval is
//!   evaluated without the packets that are still unsettled.

mod allegro;
mod interval;
mod vivace;

pub use allegro::Allegro;
pub use interval::IntervalResult;
pub use vivace::Vivace;

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Bytes, Span, Time, smoothed};

use self::interval::Interval;
use super::{AckSample, Congestion, CongestionLaw, INITIAL_WINDOW, SentPacket};

/// The lowest rate. Guess: a few packets a second, so that an improvement of the path shows within a second.
const MIN_RATE: Bitrate = Bitrate::from_kbps(100);
/// The highest rate: above any emulated rate.
const MAX_RATE: Bitrate = Bitrate::from_mbps(100_000);
/// Minimum number of packets in an interval (Allegro, section 3.1).
const MIN_PACKETS: u64 = 10;
/// Maximum number of round trips in flight (PCC-Kernel, `pcc_main.c`).
const WINDOW_ROUND_TRIPS: i64 = 2;
/// An interval is evaluated at the latest this many smoothed round trips after its end. Guess.
const MAX_SETTLE_ROUND_TRIPS: i64 = 4;
/// Maximum number of intervals in memory: one for each round trip of patience and a few more.
const MAX_INTERVALS: usize = 64;
/// An interval in which less than this share of its rate was sent is discarded. Guess.
const MIN_SENT_SHARE: f64 = 0.5;
/// The round trip assumed before one was measured. Guess.
const INITIAL_ROUND_TRIP: Span = Span::from_millis(100);

/// Decides which rates to try.
pub trait Chooser: Send {
    /// The law's name in logs and plans.
    fn name(&self) -> &'static str;

    /// Returns the next rate to try, and a mark that [`Chooser::on_result`] gets with its result. None to keep the base rate.
    fn poll_trial(&mut self) -> Option<(Bitrate, u32)>;

    /// The rate between trials.
    fn base(&self) -> Bitrate;

    /// The utility of an interval's result.
    fn utility(&self, result: &IntervalResult) -> f64;

    /// Handles a trial's result.
    fn on_result(&mut self, mark: u32, result: &IntervalResult);

    /// Handles a trial without a result, which must be repeated.
    fn on_void(&mut self, mark: u32);

    /// Handles a time-out, after which nothing is known of the path.
    fn on_timeout(&mut self);
}

/// A rate-based law: monitor intervals and a [`Chooser`] of their rates.
#[derive(Debug)]
pub struct Pcc<C> {
    chooser: C,
    packet: Bytes,
    intervals: VecDeque<Interval>,
    /// The running interval's rate and end.
    rate: Bitrate,
    until: Time,
    smoothed: Option<Span>,
    /// The window, cached because senders ask for it several times for each packet. Follows from the rate and the smoothed round trip.
    window: Bytes,
}

impl Pcc<Allegro> {
    /// Makes Allegro. The seed decides in which order rates are tried.
    #[must_use]
    pub fn allegro(packet: Bytes, seed: u64) -> Self {
        Self::new(packet, Allegro::new(initial_rate(packet), seed))
    }
}

impl Pcc<Vivace> {
    /// Makes Vivace. The seed decides in which order rates are tried.
    #[must_use]
    pub fn vivace(packet: Bytes, seed: u64) -> Self {
        Self::new(packet, Vivace::new(initial_rate(packet), seed))
    }
}

/// The initial rate: a window in an assumed round trip.
fn initial_rate(packet: Bytes) -> Bitrate {
    Bytes::new(INITIAL_WINDOW * packet.get()).over(INITIAL_ROUND_TRIP)
}

/// Clamps a rate to the allowed range.
fn clamp_rate(rate: Bitrate) -> Bitrate {
    rate.clamp(MIN_RATE, MAX_RATE)
}

impl<C: Chooser> Pcc<C> {
    fn new(packet: Bytes, chooser: C) -> Self {
        let rate = chooser.base();
        let packet = packet.max(Bytes::new(1));
        let mut pcc = Self {
            chooser,
            packet,
            intervals: VecDeque::new(),
            rate,
            until: Time::ZERO,
            smoothed: None,
            window: Bytes::ZERO,
        };
        pcc.set_window();
        pcc
    }

    fn round_trip(&self) -> Span {
        self.smoothed.unwrap_or(INITIAL_ROUND_TRIP)
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
        self.rate = clamp_rate(rate);
        self.set_window();
        let packets = self.rate.time_to_send(self.packet) * MIN_PACKETS.cast_signed();
        self.until = now + self.round_trip().max(packets);
        if self.intervals.len() >= MAX_INTERVALS
            && let Some(oldest) = self.intervals.pop_front()
        {
            self.judge(&oldest);
        }
        self.intervals.push_back(Interval::new(now, self.rate, mark));
    }

    /// Evaluates settled intervals, the oldest first.
    fn settle(&mut self, now: Time) {
        let patience = self.round_trip() * MAX_SETTLE_ROUND_TRIPS;
        while let Some(oldest) = self.intervals.pop_front_if(|oldest| oldest.is_settled(now, patience)) {
            self.judge(&oldest);
        }
    }

    fn judge(&mut self, interval: &Interval) {
        let Some(mark) = interval.mark() else { return };
        match interval.result().filter(|result| result.sent >= interval.rate().mul_f64(MIN_SENT_SHARE)) {
            Some(result) => self.chooser.on_result(mark, &result),
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
            self.smoothed = Some(smoothed(self.smoothed, round_trip.max(Span::from_nanos(1))));
            self.set_window();
        }
        self.settle(now);
    }

    fn on_loss(&mut self, _now: Time, _congestion: &Congestion) {}

    fn on_recovered(&mut self, _now: Time) {}

    fn on_timeout(&mut self, now: Time, _flight: Bytes) {
        for mut interval in std::mem::take(&mut self.intervals) {
            interval.settle_as_lost(now);
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
