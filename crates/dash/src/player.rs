//! The client: what to fetch next, in which bit rate, and when.

use nearlight_units::{Bytes, Span, Time};

use crate::bola::{Bola, Loaded};
use crate::content::{Content, Part};
use crate::screen::{Playback, Screen};
use crate::{Abandon, SwitchHistory, Throughput};

/// The first bit rate is at most this, in kb/s (`DEFAULT_VIDEO_BITRATE`).
const FIRST: f64 = 1_000.0;
/// A full buffer is looked at again after so long (`scheduling.defaultTimeout`).
const LOOK_AGAIN: Span = Span::from_millis(500);
/// Buffers to fill (`bufferTimeDefault`, `bufferTimeAtTopQuality`, `bufferTimeAtTopQualityLongForm`),
const USUAL_BUFFER: Span = Span::from_secs(18);
const TOP_BUFFER: Span = Span::from_secs(30);
const TOP_BUFFER_LONG: Span = Span::from_secs(60);
/// and from which length on content is long (`longFormContentDurationThreshold`).
const LONG: Span = Span::from_secs(600);
/// From this level on BOLA decides, and the throughput again below half of it (`hybridSwitchBufferTime`).
const HYBRID: f64 = 12.0;
/// The share of the throughput with which a segment must come before the buffer is empty (`throughputSafetyFactor`).
const INSUFFICIENT: f64 = 0.7;
/// Segments before that rule speaks (`segmentIgnoreCount`).
const IGNORED: u32 = 2;
/// No step up for so long after a download was given up (`abandonLoadTimeout`).
const ABANDONED: Span = Span::from_secs(10);

/// A file to fetch. There is at most one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Counted from 1.
    pub number: u64,
    pub part: Part,
    /// Without HTTP's headers.
    pub size: Bytes,
}

/// A download that goes on.
#[derive(Clone, Copy, Debug)]
struct Download {
    request: Request,
    requested_at: Time,
    first_byte: Option<Time>,
    loaded: Bytes,
    abandon: Abandon,
}

/// The client without a network.
///
/// Facts come with non-decreasing `now`. After each, ask [`Player::poll_abort`], then [`Player::poll_request`] until None, and
/// [`Player::poll_timeout`] for when to ask again.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are true or not, each on its own")]
pub struct Player {
    content: Content,
    screen: Screen,
    throughput: Throughput,
    bola: Option<Bola>,
    history: SwitchHistory,
    download: Option<Download>,
    /// Chosen, and not to be fetched before.
    delayed: Option<(Time, Part)>,
    requests: u64,
    has_manifest: bool,
    /// Initialisation segments that are there.
    initialised: Vec<bool>,
    current: usize,
    next: usize,
    check_quality: bool,
    look_at: Time,
    uses_bola: bool,
    was_empty: bool,
    ignored: u32,
    held_until: Time,
    aborted: bool,
}

impl Player {
    #[must_use]
    pub fn new(content: Content) -> Self {
        Self {
            screen: Screen::new(&content),
            throughput: Throughput::default(),
            bola: None,
            history: SwitchHistory::default(),
            download: None,
            delayed: None,
            requests: 0,
            has_manifest: false,
            initialised: vec![false; content.ladder().len()],
            current: content.rung_for(FIRST),
            next: 0,
            check_quality: true,
            look_at: Time::ZERO,
            uses_bola: false,
            was_empty: false,
            ignored: IGNORED,
            held_until: Time::ZERO,
            aborted: false,
            content,
        }
    }

    #[must_use]
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// How it went so far, until the last fact.
    #[must_use]
    pub fn playback(&self) -> &Playback {
        &self.screen.playback
    }

    /// What can be played without another byte.
    #[must_use]
    pub fn buffer(&self) -> Span {
        self.screen.level()
    }

    /// The last segment was played to its end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.screen.has_ended()
    }

    /// When to ask for the next request; None while one is under way or nothing is left to fetch.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.download.is_some() {
            return None;
        }
        let delayed = self.delayed.map(|(at, _)| at);
        delayed.or_else(|| (self.next < self.content.segments()).then_some(self.look_at))
    }

    /// The download that goes on is to be aborted; another request follows.
    pub fn poll_abort(&mut self) -> bool {
        std::mem::take(&mut self.aborted)
    }

    /// What to fetch now.
    pub fn poll_request(&mut self, now: Time) -> Option<Request> {
        self.advance(now);
        if self.download.is_some() {
            return None;
        }
        let part = match self.delayed {
            Some((at, _)) if now < at => return None,
            Some((_, part)) => part,
            None => self.schedule(now)?,
        };
        self.delayed = None;
        if self.requests == 0 {
            self.screen.begin(now);
        }
        self.requests += 1;
        let request = Request { number: self.requests, part, size: self.content.size(part) };
        let abandon = Abandon::new();
        self.download = Some(Download { request, requested_at: now, first_byte: None, loaded: Bytes::ZERO, abandon });
        Some(request)
    }

    /// More of the answer came.
    pub fn on_progress(&mut self, now: Time, bytes: Bytes) {
        self.advance(now);
        let Some(download) = &mut self.download else { return };
        download.first_byte.get_or_insert(now);
        download.loaded += bytes;
        let Part::Media { rung, segment } = download.request.part else { return };
        let size = download.request.size;
        let other = download.abandon.on_bytes(now, bytes, (size, rung), &self.content, self.screen.level());
        let Some(other) = other.filter(|other| *other < rung) else { return };
        self.download = None;
        self.aborted = true;
        self.screen.playback.abandoned += 1;
        self.history.clear();
        self.held_until = now + ABANDONED;
        self.set_quality(other);
        let buffer = self.screen.level().as_secs_f64();
        if let Some(bola) = &mut self.bola {
            bola.on_abandoned(buffer);
        }
        self.next = segment;
        self.look_at = now;
    }

    /// The answer is whole.
    pub fn on_response(&mut self, now: Time) {
        self.advance(now);
        let Some(download) = self.download.take() else { return };
        self.look_at = now;
        match download.request.part {
            Part::Manifest => self.has_manifest = true,
            Part::Init { rung } => self.initialised[rung] = true,
            Part::Media { rung, segment } => {
                let took = now.saturating_since(download.first_byte.unwrap_or(download.requested_at));
                self.throughput.on_download(download.loaded.max(download.request.size), took);
                let buffer = self.screen.level().as_secs_f64();
                let loaded = Loaded { segment, rung, requested_at: download.requested_at, finished_at: now, buffer };
                if let Some(bola) = &mut self.bola {
                    bola.on_segment(&loaded);
                }
                self.screen.append(now, segment, rung);
                self.ignored = self.ignored.saturating_sub(1);
                self.next = segment + 1;
                self.update_strategy();
            }
        }
    }

    /// Time went by, and nothing came.
    pub fn on_time(&mut self, now: Time) {
        self.advance(now);
    }

    fn advance(&mut self, now: Time) {
        self.screen.advance(now);
        let is_empty = self.screen.is_empty();
        if is_empty
            && !self.was_empty
            && let Some(bola) = &mut self.bola
        {
            bola.on_buffer_empty();
        }
        self.was_empty = is_empty;
        self.update_strategy();
    }

    fn update_strategy(&mut self) {
        let threshold = if self.uses_bola { HYBRID / 2.0 } else { HYBRID };
        self.uses_bola = self.screen.level().as_secs_f64() >= threshold;
    }

    /// What comes next, if it is time.
    fn schedule(&mut self, now: Time) -> Option<Part> {
        if !self.has_manifest {
            return Some(Part::Manifest);
        }
        if self.next >= self.content.segments() || now < self.look_at {
            return None;
        }
        if self.initialised.contains(&true) && !self.is_wanting() {
            self.look_at = now + LOOK_AGAIN;
            return None;
        }
        let delay = if self.check_quality { self.check(now) } else { Span::ZERO };
        let (rung, segment) = (self.current, self.next);
        if !self.initialised[rung] {
            self.check_quality = false;
            return Some(Part::Init { rung });
        }
        self.check_quality = true;
        let part = Part::Media { rung, segment };
        if delay > Span::ZERO {
            self.delayed = Some((now + delay, part));
            return None;
        }
        Some(part)
    }

    /// The buffer has room for a segment (`_shouldBuffer`).
    fn is_wanting(&self) -> bool {
        let target = match (self.current == self.content.top(), self.content.length() >= LONG) {
            (false, _) => USUAL_BUFFER,
            (true, false) => TOP_BUFFER,
            (true, true) => TOP_BUFFER_LONG,
        };
        let segment = self.content.segment();
        let more = if target <= segment { Span::ZERO } else { segment };
        self.screen.level() + more < target
    }

    /// Asks the rules: the lowest of what they say is taken. Answers for how long the next segment is to wait.
    fn check(&mut self, now: Time) -> Span {
        let buffer = self.screen.level().as_secs_f64();
        let (average, safe) = (self.throughput.average(), self.throughput.safe());
        let mut delay = Span::ZERO;
        let is_held = now < self.held_until;
        let first = if self.uses_bola {
            let bola = self.bola.take().or_else(|| Bola::new(&self.content));
            let advice = bola.and_then(|mut bola| {
                let advice = bola.advise(now, buffer, safe, &self.content);
                self.bola = Some(bola);
                advice
            });
            delay = advice.map_or(Span::ZERO, |advice| advice.delay);
            advice.map(|advice| advice.rung)
        } else {
            safe.filter(|_| !is_held && !self.screen.is_empty()).map(|safe| self.content.rung_for(safe))
        };
        let insufficient = if self.ignored > 0 {
            None
        } else if self.screen.is_empty() {
            Some(0)
        } else {
            let kbps = average.map(|kbps| kbps * INSUFFICIENT * buffer / self.content.segment().as_secs_f64());
            kbps.filter(|kbps| *kbps > 0.0).map(|kbps| self.content.rung_for(kbps))
        };
        let limit = self.history.limit(self.content.ladder().len());
        let Some(chosen) = [first, insufficient, limit].into_iter().flatten().min() else { return delay };
        self.history.on_decision(self.current, chosen);
        if chosen == self.current || (is_held && chosen > self.current) {
            return delay;
        }
        let rises = chosen > self.current;
        self.set_quality(chosen);
        if rises && !is_held {
            self.replace_from(chosen);
        }
        delay
    }

    fn set_quality(&mut self, rung: usize) {
        self.current = rung;
        if let Some(bola) = &mut self.bola {
            bola.on_quality_change(rung);
        }
    }

    /// What lies ahead and is worse is fetched again, from the segment that is being played on (`_prepareForFastQualitySwitch`).
    ///
    /// 1.5 segments ahead of playback are meant to be kept. But the representation that this method is given has no segment duration
    /// (`fragmentDuration` is null there, which `isNaN` takes for a number), so that dash.js 5.2.1 keeps none.
    fn replace_from(&mut self, rung: usize) {
        let position = self.screen.position();
        if self.screen.rung_at(position).is_some_and(|there| there < rung) {
            self.next = self.screen.segment_at(position);
        }
    }
}

#[cfg(test)]
#[path = "player_tests.rs"]
mod tests;
