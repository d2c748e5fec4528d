//! The pacer: one meter for media, one for a running probe.

use nearlight_units::{Bitrate, Bytes, Span, Time};

use crate::pace::meter::Meter;
use crate::pace::mode::Mode;

/// Credit that a late wake-up may use, and debt that repairs and probes may leave behind. Guess: one of WebRTC's pacing
/// intervals. A driver that wakes up later than that loses pacing precision, but memory stays bounded.
const CATCH_UP_CREDIT: Span = Mode::DEFAULT_INTERVAL;

/// How the pacer treats a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Part of a frame announced by [`Pacer::on_frame`]: waits its turn.
    Media,
    /// Sound: never waits, but media waits for it, at most 5 ms.
    Urgent,
    /// Treated as [`Class::Urgent`], but waits under a ceiling.
    Retransmission,
    /// Padding of a probe: leaves only while a probe runs, at the probe's rate.
    Padding,
}

/// Decides when packets may leave.
///
/// Facts come with non-decreasing `now`; an earlier one counts as the latest so far. Polling early is harmless. After a late poll,
/// at most one interval's worth of extra packets leaves. An empty queue earns no credit.
#[derive(Clone, Debug)]
pub struct Pacer {
    mode: Mode,
    /// The sender's pacing rate.
    rate: Bitrate,
    /// The rate that `Spread` needs to finish before the next frame.
    needed: Bitrate,
    /// In `Interval` mode its clock is the last interval's start, and each interval's credit is granted in advance.
    meter: Meter,
    /// `Interval` only: whether the next packet's departure begins an interval, because splitting and encoding take a while after queueing.
    starts_interval: bool,
    /// `Interval` only: whether a first interval has begun.
    begun: bool,
    queued: Bytes,
    probe: Option<ProbeRun>,
    ceiling: Option<Meter>,
}

#[derive(Clone, Copy, Debug)]
struct ProbeRun {
    meter: Meter,
    left: Bytes,
}

impl Pacer {
    /// Makes a pacer with an empty queue and a rate of zero. Set a rate before the first frame.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        let mode = match mode {
            Mode::Interval(interval) => Mode::Interval(interval.max(Span::from_micros(1))),
            other => other,
        };
        let meter = Meter::new(Time::ZERO, Bitrate::ZERO);
        let (rate, needed, queued) = (Bitrate::ZERO, Bitrate::MAX, Bytes::ZERO);
        Self { mode, rate, needed, meter, starts_interval: false, begun: false, queued, probe: None, ceiling: None }
    }

    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Bytes of media that were announced and have neither left nor been dropped.
    #[must_use]
    pub fn queued(&self) -> Bytes {
        self.queued
    }

    /// Whether a probe runs. Packets that leave now belong to it.
    #[must_use]
    pub fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Sets the pacing rate from now on, also for the debt of packets that have left.
    pub fn set_rate(&mut self, now: Time, rate: Bitrate) {
        self.advance(now);
        self.rate = rate;
        self.apply_rate();
    }

    /// Announces a frame's packets, `size` in all. The frame after it is expected at `next_frame_at`.
    pub fn on_frame(&mut self, now: Time, size: Bytes, next_frame_at: Time) {
        self.advance(now);
        if self.queued == Bytes::ZERO {
            self.starts_interval = self.begins_anew(now);
        }
        self.queued += size;
        let left = next_frame_at.saturating_since(now);
        // If the next frame is already due, no time is left to spread over: the pacing rate decides.
        self.needed = if left == Span::ZERO { Bitrate::MAX } else { self.queued.over(left) + Bitrate::from_bps(1) };
        self.apply_rate();
    }

    /// Removes dropped media of `size` from the queue: it will not be polled for.
    pub fn on_dropped(&mut self, now: Time, size: Bytes) {
        self.advance(now);
        self.queued = self.queued.saturating_sub(size);
    }

    /// Starts a probe: until `size` has left, packets leave at `rate`, whatever the mode. A running probe is replaced.
    pub fn on_probe(&mut self, now: Time, rate: Bitrate, size: Bytes) {
        self.advance(now);
        let wanted = rate > Bitrate::ZERO && size > Bytes::ZERO;
        self.probe = wanted.then(|| ProbeRun { meter: Meter::new(now, rate), left: size });
    }

    /// Sets a ceiling: packets leave evenly and no faster than this, whatever the mode, including retransmissions and probes, because the
    /// path is known to lose bursts.
    pub fn set_ceiling(&mut self, now: Time, rate: Option<Bitrate>) {
        self.advance(now);
        self.ceiling = rate.map(|rate| {
            let mut meter = self.ceiling.unwrap_or(Meter::new(now, rate));
            meter.set_rate(rate);
            meter
        });
    }

    /// When the ceiling lets the next packet leave. None without a ceiling.
    #[must_use]
    pub fn ceiling_opens_at(&self) -> Option<Time> {
        self.ceiling.map(|ceiling| ceiling.opens_at())
    }

    /// Ends a running probe early, for example because nothing is connected any more.
    pub fn cancel_probe(&mut self) {
        self.probe = None;
    }

    /// Whether a packet may leave now. If so, it is accounted for as sent.
    pub fn poll(&mut self, now: Time, size: Bytes, class: Class) -> bool {
        self.advance(now);
        if self.starts_interval && class == Class::Media {
            self.begin(now);
        }
        let is_ahead = matches!(class, Class::Urgent | Class::Retransmission);
        let bypass = is_ahead || self.probe.is_some();
        let below_ceiling = class == Class::Urgent || self.ceiling.is_none_or(|ceiling| ceiling.is_open());
        let open = below_ceiling
            && match (&self.probe, class) {
                (_, Class::Urgent | Class::Retransmission) => true,
                (Some(probe), _) => probe.meter.is_open(),
                (None, Class::Padding) => false,
                (None, Class::Media) => self.is_open(),
            };
        if open {
            self.account(size, class, bypass);
        }
        open
    }

    /// When a packet may leave next: media, or any packet while a probe runs. None if nothing waits.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let at = match (&self.probe, self.mode) {
            (Some(probe), _) => probe.meter.opens_at(),
            (None, _) if self.queued == Bytes::ZERO => return None,
            (None, Mode::Burst) => self.meter.at(),
            (None, Mode::Interval(_)) if self.starts_interval => self.meter.at(),
            (None, Mode::Interval(interval)) => self.meter.earns_credit_at(interval),
            (None, Mode::Spread | Mode::Compressed) => self.meter.opens_at(),
        };
        Some(self.ceiling_opens_at().map_or(at, |open| at.max(open)))
    }

    fn is_open(&self) -> bool {
        match self.mode {
            Mode::Burst => true,
            Mode::Interval(_) => self.meter.has_credit(),
            Mode::Spread | Mode::Compressed => self.meter.is_open(),
        }
    }

    fn account(&mut self, size: Bytes, class: Class, bypass: bool) {
        if class == Class::Media {
            self.queued = self.queued.saturating_sub(size);
        }
        if bypass {
            self.meter.on_sent_ahead(size, CATCH_UP_CREDIT);
        } else {
            self.meter.on_sent(size);
        }
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.on_sent(size);
        }
        if let Some(probe) = &mut self.probe {
            probe.meter.on_sent(size);
            probe.left = probe.left.saturating_sub(size);
            if probe.left == Bytes::ZERO {
                self.probe = None;
            }
        }
    }

    fn advance(&mut self, now: Time) {
        if let Some(probe) = &mut self.probe {
            probe.meter.on_time(now, CATCH_UP_CREDIT);
        }
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.on_time(now, Span::ZERO);
        }
        match self.mode {
            Mode::Interval(_) if self.queued == Bytes::ZERO || self.starts_interval => {}
            Mode::Interval(interval) => {
                let intervals = now.saturating_since(self.meter.at()).as_nanos() / interval.as_nanos();
                // The interval that begins now and the previous one, which a late wake-up missed.
                self.meter.on_time(self.meter.at() + interval * intervals, interval * 2);
            }
            _ if self.queued == Bytes::ZERO => self.meter.on_time(now, Span::ZERO),
            _ => self.meter.on_time(now, CATCH_UP_CREDIT),
        }
    }

    /// Whether a frame meets an empty queue and gets an interval of its own, unless the last one is still running.
    fn begins_anew(&self, now: Time) -> bool {
        let Mode::Interval(interval) = self.mode else { return false };
        !self.begun || now.saturating_since(self.meter.at()) >= interval
    }

    fn begin(&mut self, now: Time) {
        let Mode::Interval(interval) = self.mode else { return };
        (self.begun, self.starts_interval) = (true, false);
        self.meter.begin_interval(now, interval);
    }

    fn apply_rate(&mut self) {
        self.meter.set_rate(match self.mode {
            Mode::Spread => self.rate.min(self.needed),
            _ => self.rate,
        });
    }
}
