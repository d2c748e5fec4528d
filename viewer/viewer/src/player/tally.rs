//! Collects the run's summary across all of its connections.

use nearlight_events::{
    FrameCounts, LossCounts, Rates, ReportedRates, SoundSummary, Summary, SummaryBuilder, SummaryRest, SummaryStream,
};
use nearlight_session::{DisplayedFrame, ReceiverStatistics, SoundStatistics};
use nearlight_units::{Bitrate, Bytes, Span, Time};
use nearlight_wire::{RateStatus, StreamDescription};

#[derive(Debug, Default)]
pub struct Tally {
    builder: SummaryBuilder,
    stream: Option<StreamDescription>,
    rates: ReportedRates,
    first_displayed_at: Option<Time>,
    last_displayed_at: Time,
    displayed: u64,
    /// Sums of the connections that are over.
    past: ReceiverStatistics,
    clock_error: Span,
    /// Sound statistics: counts of all connections, and the other fields of the last one.
    sound: Option<SoundStatistics>,
}

impl Tally {
    pub fn on_stream(&mut self, stream: &StreamDescription) {
        self.stream = Some(stream.clone());
    }

    pub fn on_rate(&mut self, at: Time, rate: &RateStatus) {
        self.rates.on_report(at, Bitrate::from_bps(rate.target_bps), Bitrate::from_bps(rate.sent_bps));
    }

    /// Counts a displayed frame; `displayed` is the receiver's record of it.
    pub fn on_displayed(&mut self, at: Time, displayed: Option<&DisplayedFrame>) {
        self.builder.on_picture(at);
        self.first_displayed_at.get_or_insert(at);
        self.last_displayed_at = self.last_displayed_at.max(at);
        self.displayed += 1;
        let Some(DisplayedFrame { timeline, total, inputs, .. }) = displayed else { return };
        self.builder.on_displayed(timeline, *total);
        self.builder.on_inputs_displayed(inputs.iter().map(|(_, span)| *span));
    }

    /// Adds the counts of a connection that is over. `clock_error` is the bound on the error of its clock.
    pub fn on_session_over(&mut self, statistics: &ReceiverStatistics, clock_error: Option<Span>) {
        let past = &mut self.past;
        past.frames = add_frames(past.frames, statistics.frames);
        past.loss = add_loss(past.loss, statistics.loss);
        past.recovery += statistics.recovery;
        past.received += statistics.received;
        past.malformed += statistics.malformed;
        past.corrupt += statistics.corrupt;
        past.unreadable_markers += statistics.unreadable_markers;
        self.clock_error = clock_error.unwrap_or(self.clock_error);
    }

    /// Adds the sound statistics of a connection that is over.
    pub fn on_sound_over(&mut self, mut statistics: SoundStatistics) {
        if let Some(past) = &self.sound {
            statistics.counts += past.counts;
        }
        self.sound = Some(statistics);
    }

    pub const fn has_pictures(&self) -> bool {
        self.first_displayed_at.is_some()
    }

    pub const fn first_displayed_at(&self) -> Option<Time> {
        self.first_displayed_at
    }

    /// Returns the number of frames displayed so far.
    pub const fn displayed(&self) -> u64 {
        self.displayed
    }

    /// Returns the median motion-to-photon time so far; `None` until a displayed picture's marker was readable.
    pub fn motion_to_photon(&self) -> Option<Span> {
        self.builder.motion_to_photon().p50.map(|millis| Span::from_secs_f64(millis / 1e3))
    }

    /// Returns the summary of the run, which ended at `end`.
    pub fn summary(&self, end: Time, transport: &str) -> Summary {
        let watched = self.watch_time(end);
        let [target, sent] = self.rates.means();
        let received = if watched > Span::ZERO { self.past.received } else { Bytes::ZERO };
        let stream = self.stream.clone().map(|stream| SummaryStream {
            codec: stream.codec.name().to_owned(),
            encoder: stream.encoder,
            adapter: stream.adapter,
            transport: transport.to_owned(),
        });
        let rest = SummaryRest {
            rates: Rates::new(target, sent, received.over(watched)),
            loss: self.past.loss,
            recovery: self.past.recovery,
            sound: self.sound.as_ref().map(|sound| SoundSummary::new(sound.counts, sound.delay, &sound.apart)),
            stream: stream.unwrap_or_default(),
            clock_error: self.clock_error,
            unreadable_markers: self.past.unreadable_markers,
        };
        let mut builder = self.builder.clone();
        builder.on_end(end);
        builder.build(self.past.frames, watched, rest)
    }

    /// Returns the length of the run. It begins one frame interval before the first frame, so that n frames take n intervals, and includes
    /// the time after the last frame.
    fn watch_time(&self, end: Time) -> Span {
        let Some(first) = self.first_displayed_at else { return Span::ZERO };
        let intervals = i64::try_from(self.displayed.saturating_sub(1)).unwrap_or(i64::MAX);
        let interval = if intervals > 0 { (self.last_displayed_at - first) / intervals } else { Span::ZERO };
        end.max(self.last_displayed_at) - first + interval
    }
}

fn add_frames(one: FrameCounts, other: FrameCounts) -> FrameCounts {
    FrameCounts {
        sent: one.sent + other.sent,
        completed: one.completed + other.completed,
        decoded: one.decoded + other.decoded,
        displayed: one.displayed + other.displayed,
        damaged: one.damaged + other.damaged,
        late: one.late + other.late,
        lost: one.lost + other.lost,
    }
}

fn add_loss(one: LossCounts, other: LossCounts) -> LossCounts {
    LossCounts {
        packets: one.packets + other.packets,
        retransmitted: one.retransmitted + other.retransmitted,
        key_frames: one.key_frames + other.key_frames,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_has_its_own_frame_rate() {
        let mut tally = Tally::default();
        for frame in 0..300_u64 {
            tally.on_displayed(Time::from_micros(1_000_000 + frame * 33_333), None);
        }
        let statistics = ReceiverStatistics {
            frames: FrameCounts { displayed: 300, ..FrameCounts::default() },
            ..ReceiverStatistics::default()
        };
        tally.on_session_over(&statistics, None);
        let fps = |end| tally.summary(end, "webtransport").fps;
        assert!((29.8..=30.01).contains(&fps(Time::from_secs(11))), "{}", fps(Time::from_secs(11)));
        assert!(fps(Time::from_secs(21)) < 15.1, "the time without pictures counts");
    }
}
