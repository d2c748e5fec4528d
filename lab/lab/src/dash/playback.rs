//! Playback as the user sees it: buffered segments, position, and stalls.

use nearlight_units::{Span, Time};

use crate::dash::Content;

/// Level at which the buffer counts as empty (`stallThreshold`).
const STALL_THRESHOLD: Span = Span::from_millis(300);

/// Statistics of playback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Playback {
    /// Time from the manifest's request to the first picture. None before it.
    pub startup: Option<Span>,
    /// Time played of each bit rate, the lowest first.
    pub played: Vec<Span>,
    /// Changes of the displayed bit rate.
    pub switches: u64,
    /// Times that it stood after it had begun, and for how long, one that goes on included.
    pub stalls: u64,
    pub stalled: Span,
    /// Since the manifest's request, until the end was reached.
    pub watched: Span,
    /// Downloads that were given up, and segments that were fetched again in a higher bit rate.
    pub abandoned: u64,
    pub replaced: u64,
}

/// Segments and the place of playback among them.
#[derive(Clone, Debug)]
pub(crate) struct PlaybackBuffer {
    segment: Span,
    /// The bit rate of each segment that is there.
    buffered: Vec<Option<usize>>,
    /// Where playback is, and when it was there.
    position: Span,
    at: Time,
    began: Option<Time>,
    playing: bool,
    ended: bool,
    shown: Option<usize>,
    pub(crate) playback: Playback,
}

impl PlaybackBuffer {
    pub(crate) fn new(content: &Content) -> Self {
        Self {
            segment: content.segment(),
            buffered: vec![None; content.segments()],
            position: Span::ZERO,
            at: Time::ZERO,
            began: None,
            playing: false,
            ended: false,
            shown: None,
            playback: Playback { played: vec![Span::ZERO; content.ladder().len()], ..Playback::default() },
        }
    }

    /// The user pressed play.
    pub(crate) fn begin(&mut self, now: Time) {
        self.began = Some(now);
        self.at = now;
    }

    fn index(&self, position: Span) -> usize {
        (position.as_nanos() / self.segment.as_nanos()) as usize
    }

    fn rung_of(&self, segment: usize) -> Option<usize> {
        self.buffered.get(segment).copied().flatten()
    }

    /// Where what can be played from here ends.
    fn end(&self) -> Span {
        let first = self.index(self.position);
        let whole = self.buffered.iter().skip(first).take_while(|rung| rung.is_some()).count();
        if whole == 0 { self.position } else { self.segment * (first + whole) as i64 }
    }

    /// What can be played from here.
    pub(crate) fn level(&self) -> Span {
        self.end() - self.position
    }

    pub(crate) fn position(&self) -> Span {
        self.position
    }

    /// Everything is there that there is.
    pub(crate) fn is_complete(&self) -> bool {
        self.end() >= self.segment * self.buffered.len() as i64
    }

    /// It has begun and can hardly go on.
    pub(crate) fn is_empty(&self) -> bool {
        self.position > Span::ZERO && self.level() <= STALL_THRESHOLD && !self.is_complete()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Which bit rate is there at this place.
    pub(crate) fn rung_at(&self, position: Span) -> Option<usize> {
        self.rung_of(self.index(position))
    }

    pub(crate) fn segment_at(&self, position: Span) -> usize {
        self.index(position)
    }

    /// Time goes by.
    pub(crate) fn advance(&mut self, now: Time) {
        let passed = now.saturating_since(self.at);
        self.at = self.at.max(now);
        if self.began.is_none() || self.ended || passed <= Span::ZERO {
            return;
        }
        self.playback.watched += passed;
        let mut left = if self.playing { passed.min(self.level()) } else { Span::ZERO };
        let stood = passed - left;
        while left > Span::ZERO {
            let segment = self.index(self.position);
            let Some(rung) = self.rung_of(segment) else { break };
            let step = left.min(self.segment * (segment + 1) as i64 - self.position);
            self.see(rung);
            self.playback.played[rung] += step;
            self.position += step;
            left -= step;
        }
        if self.position >= self.segment * self.buffered.len() as i64 {
            self.ended = true;
            self.playback.watched -= stood;
        } else if self.playback.startup.is_some() && stood > Span::ZERO {
            self.playback.stalls += u64::from(self.playing);
            self.playback.stalled += stood;
            self.playing = false;
        }
    }

    fn see(&mut self, rung: usize) {
        self.playback.switches += u64::from(self.shown.is_some_and(|shown| shown != rung));
        self.shown = Some(rung);
    }

    /// A segment is there; [`PlaybackBuffer::advance`] has been called for this moment.
    pub(crate) fn append(&mut self, now: Time, segment: usize, rung: usize) {
        let Some(place) = self.buffered.get_mut(segment) else { return };
        self.playback.replaced += u64::from(place.is_some());
        *place = Some(rung);
        if self.level() > Span::ZERO && !self.ended {
            self.playing = true;
            if let Some(began) = self.began {
                self.playback.startup.get_or_insert(now - began);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::Bitrate;

    use super::*;

    fn playback_buffer() -> PlaybackBuffer {
        let ladder = [500, 1_000].map(Bitrate::from_kbps).to_vec();
        let mut playback_buffer =
            PlaybackBuffer::new(&Content::new(ladder, Span::from_secs(4), Span::from_secs(12)).expect("three"));
        playback_buffer.begin(Time::from_secs(10));
        playback_buffer
    }

    fn at(millis: u64) -> Time {
        Time::from_millis(10_000 + millis)
    }

    #[test]
    fn it_starts_with_the_first_segment_stands_where_the_buffer_ends_and_ends_once() {
        let mut playback_buffer = playback_buffer();
        let mut append = |millis, segment, rung| {
            playback_buffer.advance(at(millis));
            playback_buffer.append(at(millis), segment, rung);
        };
        append(700, 0, 0);
        // The buffer ends at 4.7 s; the next one comes 800 ms later, the third in time.
        append(5_500, 1, 1);
        append(6_000, 2, 1);
        playback_buffer.advance(at(60_000));
        let playback = &playback_buffer.playback;
        assert_eq!(playback.startup, Some(Span::from_millis(700)));
        assert_eq!((playback.stalls, playback.stalled), (1, Span::from_millis(800)));
        assert_eq!(playback.played, [Span::from_secs(4), Span::from_secs(8)]);
        assert_eq!((playback.switches, playback.watched), (1, Span::from_millis(13_500)));
        assert!(playback_buffer.has_ended() && playback_buffer.is_complete() && !playback_buffer.is_empty());
    }

    #[test]
    fn levels_count_what_lies_ahead_without_a_gap() {
        let mut playback_buffer = playback_buffer();
        playback_buffer.append(at(0), 0, 0);
        playback_buffer.append(at(0), 2, 0);
        assert_eq!(playback_buffer.level(), Span::from_secs(4));
        playback_buffer.advance(at(3_800));
        assert_eq!((playback_buffer.level(), playback_buffer.is_empty()), (Span::from_millis(200), true));
        playback_buffer.append(at(3_800), 1, 0);
        assert_eq!((playback_buffer.level(), playback_buffer.is_empty()), (Span::from_millis(8_200), false));
        playback_buffer.append(at(3_800), 1, 1);
        assert_eq!((playback_buffer.playback.replaced, playback_buffer.rung_at(Span::from_secs(5))), (1, Some(1)));
    }
}
