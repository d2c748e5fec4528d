//! A playback buffer: frames are displayed later than they arrive, by a fixed delay, so that a temporary slowdown of the path goes
//! unnoticed.
//!
//! Each frame is played a fixed time after its rendering began. The first frame waits for as many frame intervals as the buffer is to hold
//! frames. A frame that arrives after its play time is played at once, and all later ones are delayed by as much: the picture was frozen
//! meanwhile. Frames beyond the buffer's target size are played early, so that no such delay outlasts its cause.

use std::collections::VecDeque;

use nearlight_units::{RemoteTime, Span, Time};

use crate::ReadyFrame;
use crate::receiver::assembly::Transfer;

/// Maximum bytes of all frames together, as for incomplete frames.
const MAX_BYTES: usize = 16 << 20;

#[derive(Debug)]
struct BufferedFrame {
    frame: ReadyFrame,
    transfer: Transfer,
}

impl BufferedFrame {
    /// Returns when rendering the frame began, on the server's clock.
    const fn render_start(&self) -> RemoteTime {
        self.frame.header.render_started_at
    }
}

#[derive(Debug)]
pub(crate) struct PlaybackBuffer {
    /// Number of frames that the buffer is to hold.
    frames: u8,
    interval: Span,
    held: VecDeque<BufferedFrame>,
    bytes: usize,
    /// From a frame's rendering, on the server's clock, to its play time on the client's. None before the first frame.
    delay: Option<Span>,
    /// The number of frames last reported to the server, and when.
    reported: Option<(u8, Time)>,
}

impl PlaybackBuffer {
    pub(crate) const fn new(frames: u8, interval: Span) -> Self {
        Self { frames, interval, held: VecDeque::new(), bytes: 0, delay: None, reported: None }
    }

    /// Adds a complete frame.
    pub(crate) fn on_frame(&mut self, now: Time, frame: ReadyFrame, transfer: Transfer) {
        let age = now.ahead_of(frame.header.render_started_at);
        let usual = age + self.interval * i64::from(self.frames);
        let mut delay = match self.delay {
            // The margin is one interval: one frame more may be about to be played.
            Some(delay) if delay <= usual + self.interval => delay.max(age),
            _ => usual,
        };
        self.bytes += frame.bits().len();
        self.held.push_back(BufferedFrame { frame, transfer });
        let (mut early, mut played) = (0, 0);
        // Frames beyond the memory bound are played at once.
        while self.bytes - played > MAX_BYTES || self.held.len() - early > usize::from(u8::MAX) {
            played += self.held[early].frame.bits().len();
            early += 1;
            delay = delay.min(now.ahead_of(self.held[early - 1].render_start()));
        }
        self.delay = Some(delay);
    }

    /// Returns the next frame whose play time has come.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(ReadyFrame, Transfer)> {
        self.due().filter(|due| *due <= now)?;
        let BufferedFrame { mut frame, transfer } = self.held.pop_front()?;
        self.bytes -= frame.bits().len();
        frame.show = self.due().is_none_or(|due| due > now);
        // The wait in this buffer does not count as decoding time.
        Some((frame, Transfer { completed_at: now, ..transfer }))
    }

    /// Drops frames up to the next key frame, because the decoder cannot continue. Returns false if no key frame is buffered.
    pub(crate) fn skip_to_key_frame(&mut self) -> bool {
        let useless = self.held.iter().take_while(|held| !held.frame.key).count();
        self.bytes -= self.held.drain(..useless).map(|held| held.frame.bits().len()).sum::<usize>();
        !self.held.is_empty()
    }

    fn due(&self) -> Option<Time> {
        Some(self.held.front()?.render_start().passed_by(self.delay?))
    }

    /// When [`PlaybackBuffer::poll`] has a frame, or the fill level is to be reported to the server.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.due().into_iter().chain(self.report_due()).min()
    }

    /// When a changed fill level is to be reported to the server: at most once per frame.
    fn report_due(&self) -> Option<Time> {
        match self.reported {
            Some((reported, _)) if reported == self.count() => None,
            Some((_, at)) => Some(at + self.interval),
            None => (!self.held.is_empty()).then_some(Time::ZERO),
        }
    }

    pub(crate) fn is_report_due(&self, now: Time) -> bool {
        self.report_due().is_some_and(|due| due <= now)
    }

    /// Returns the number of buffered frames, which is being reported to the server now.
    pub(crate) fn report(&mut self, now: Time) -> u8 {
        let count = self.count();
        self.reported = Some((count, now));
        count
    }

    fn count(&self) -> u8 {
        u8::try_from(self.held.len()).unwrap_or(u8::MAX)
    }

    /// Number of buffered frames, and bytes of their coded pictures.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.held.len(), self.bytes)
    }
}
