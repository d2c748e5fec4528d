//! Sound that the application's own media stack received and played, as browsers do over WebRTC. Only its counters are known here, and
//! occasionally the moment of the world that was being heard.

use nearlight_events::{Samples, SoundCounts};
use nearlight_units::{RemoteTime, Span, Time};

use super::SoundStatistics;
use crate::ClockEstimate;

/// How long the media stack's values are valid: it is polled a few times a second.
const VALIDITY: Span = Span::from_secs(1);

/// The media stack's counts since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtpSound {
    pub packets: u64,
    pub lost: u64,
    /// Blocks of 10 ms that were concealed.
    pub concealed: u64,
    /// The moment in the world that was being heard, on the server's clock, if the media stack reports it.
    pub heard: Option<RemoteTime>,
}

#[derive(Debug, Default)]
pub(crate) struct PlayedSound {
    counts: SoundCounts,
    /// The delay of the sound, and when it was measured.
    delay: Option<(Time, Span)>,
    apart: Samples,
}

impl PlayedSound {
    pub(crate) fn on_counts(&mut self, now: Time, sound: &RtpSound, clock: Option<ClockEstimate>) {
        let RtpSound { packets, lost, concealed, heard } = *sound;
        self.counts = SoundCounts { packets, lost, concealed, ..SoundCounts::default() };
        if let (Some(heard), Some(clock)) = (heard, clock) {
            self.delay = Some((now, now - clock.to_client(heard)));
        }
    }

    fn current(&self, now: Time) -> Option<Span> {
        self.delay.filter(|(at, _)| now.saturating_since(*at) < VALIDITY).map(|(_, delay)| delay)
    }

    /// Records that the picture of `made_at`, on the client's clock, has been on the display since `now`.
    pub(crate) fn on_displayed(&mut self, now: Time, made_at: Time) {
        if let Some(delay) = self.current(now) {
            self.apart.push((delay - (now - made_at)).abs());
        }
    }

    pub(crate) fn statistics(&self, now: Time) -> SoundStatistics {
        SoundStatistics { counts: self.counts, delay: self.current(now), apart: self.apart.clone() }
    }
}
