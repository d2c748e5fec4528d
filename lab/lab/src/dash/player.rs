//! The player's decisions: what to fetch next, in which bit rate, and when.

use nearlight_units::{Bytes, Span, Time};

use crate::dash::bola::{Bola, LoadedSegment};
use crate::dash::content::{Content, Resource};
use crate::dash::playback::{Playback, PlaybackBuffer};
use crate::dash::{AbandonRule, SwitchHistory, Throughput};

/// Highest first bit rate in kb/s (`DEFAULT_VIDEO_BITRATE`).
const MAX_FIRST_RATE_KBPS: f64 = 1_000.0;
/// Time after which a full buffer is checked again (`scheduling.defaultTimeout`).
const SCHEDULE_INTERVAL: Span = Span::from_millis(500);
/// Buffer levels to fill (`bufferTimeDefault`, `bufferTimeAtTopQuality`, `bufferTimeAtTopQualityLongForm`).
const DEFAULT_BUFFER: Span = Span::from_secs(18);
const TOP_BUFFER: Span = Span::from_secs(30);
const TOP_BUFFER_LONG: Span = Span::from_secs(60);
/// Least length of long-form content (`longFormContentDurationThreshold`).
const LONG_FORM_DURATION: Span = Span::from_secs(600);
/// Buffer level from which on BOLA decides; below half of it the throughput rule decides again (`hybridSwitchBufferTime`).
const BOLA_BUFFER_SECONDS: f64 = 12.0;
/// Share of the throughput at which a segment must arrive before the buffer is empty (`throughputSafetyFactor`).
const THROUGHPUT_SAFETY_FACTOR: f64 = 0.7;
/// Segments before that rule applies (`segmentIgnoreCount`).
const IGNORED_SEGMENTS: u32 = 2;
/// No step up for this long after a download was abandoned (`abandonLoadTimeout`).
const ABANDON_TIMEOUT: Span = Span::from_secs(10);

/// A file to fetch. There is at most one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Counted from 1.
    pub number: u64,
    pub part: Resource,
    /// Without HTTP's headers.
    pub size: Bytes,
}

/// A download in progress.
#[derive(Clone, Copy, Debug)]
struct Download {
    request: Request,
    requested_at: Time,
    first_byte: Option<Time>,
    loaded: Bytes,
    abandon: AbandonRule,
}

/// The player without a network.
///
/// Facts come with non-decreasing `now`. After each, call [`Player::poll_abort`], then [`Player::poll_request`] until None; [`Player::poll_timeout`]
/// tells when to call them again.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are true or not, each on its own")]
pub struct Player {
    content: Content,
    playback_buffer: PlaybackBuffer,
    throughput: Throughput,
    bola: Option<Bola>,
    history: SwitchHistory,
    download: Option<Download>,
    /// A chosen resource, and the earliest time to fetch it.
    delayed: Option<(Time, Resource)>,
    requests: u64,
    has_manifest: bool,
    /// Whether the initialisation segment of each bit rate is loaded.
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
            playback_buffer: PlaybackBuffer::new(&content),
            throughput: Throughput::default(),
            bola: None,
            history: SwitchHistory::default(),
            download: None,
            delayed: None,
            requests: 0,
            has_manifest: false,
            initialised: vec![false; content.ladder().len()],
            current: content.rung_for(MAX_FIRST_RATE_KBPS),
            next: 0,
            check_quality: true,
            look_at: Time::ZERO,
            uses_bola: false,
            was_empty: false,
            ignored: IGNORED_SEGMENTS,
            held_until: Time::ZERO,
            aborted: false,
            content,
        }
    }

    #[must_use]
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Returns the statistics up to the last fact.
    #[must_use]
    pub fn playback(&self) -> &Playback {
        &self.playback_buffer.playback
    }

    /// Returns the playing time in the buffer.
    #[must_use]
    pub fn buffer(&self) -> Span {
        self.playback_buffer.level()
    }

    /// Returns whether the last segment was played to its end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.playback_buffer.has_ended()
    }

    /// Returns when to poll for the next request. None while a download is in progress or nothing is left to fetch.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.download.is_some() {
            return None;
        }
        let delayed = self.delayed.map(|(at, _)| at);
        delayed.or_else(|| (self.next < self.content.segments()).then_some(self.look_at))
    }

    /// Returns whether to abort the current download; another request follows.
    pub fn poll_abort(&mut self) -> bool {
        std::mem::take(&mut self.aborted)
    }

    /// Returns the next resource to fetch.
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
            self.playback_buffer.begin(now);
        }
        self.requests += 1;
        let request = Request { number: self.requests, part, size: self.content.size(part) };
        let abandon = AbandonRule::new();
        self.download = Some(Download { request, requested_at: now, first_byte: None, loaded: Bytes::ZERO, abandon });
        Some(request)
    }

    /// More of the response arrived.
    pub fn on_progress(&mut self, now: Time, bytes: Bytes) {
        self.advance(now);
        let Some(download) = &mut self.download else { return };
        download.first_byte.get_or_insert(now);
        download.loaded += bytes;
        let Resource::Media { rung, segment } = download.request.part else { return };
        let size = download.request.size;
        let other = download.abandon.on_bytes(now, bytes, (size, rung), &self.content, self.playback_buffer.level());
        let Some(other) = other.filter(|other| *other < rung) else { return };
        self.download = None;
        self.aborted = true;
        self.playback_buffer.playback.abandoned += 1;
        self.history.clear();
        self.held_until = now + ABANDON_TIMEOUT;
        self.set_quality(other);
        let buffer = self.playback_buffer.level().as_secs_f64();
        if let Some(bola) = &mut self.bola {
            bola.on_abandoned(buffer);
        }
        self.next = segment;
        self.look_at = now;
    }

    /// The response is complete.
    pub fn on_response(&mut self, now: Time) {
        self.advance(now);
        let Some(download) = self.download.take() else { return };
        self.look_at = now;
        match download.request.part {
            Resource::Manifest => self.has_manifest = true,
            Resource::Init { rung } => self.initialised[rung] = true,
            Resource::Media { rung, segment } => {
                let took = now.saturating_since(download.first_byte.unwrap_or(download.requested_at));
                self.throughput.on_download(download.loaded.max(download.request.size), took);
                let buffer = self.playback_buffer.level().as_secs_f64();
                let loaded =
                    LoadedSegment { segment, rung, requested_at: download.requested_at, finished_at: now, buffer };
                if let Some(bola) = &mut self.bola {
                    bola.on_segment(&loaded);
                }
                self.playback_buffer.append(now, segment, rung);
                self.ignored = self.ignored.saturating_sub(1);
                self.next = segment + 1;
                self.update_strategy();
            }
        }
    }

    /// Time passed without data.
    pub fn on_time(&mut self, now: Time) {
        self.advance(now);
    }

    fn advance(&mut self, now: Time) {
        self.playback_buffer.advance(now);
        let is_empty = self.playback_buffer.is_empty();
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
        let threshold = if self.uses_bola { BOLA_BUFFER_SECONDS / 2.0 } else { BOLA_BUFFER_SECONDS };
        self.uses_bola = self.playback_buffer.level().as_secs_f64() >= threshold;
    }

    /// Returns the next resource, if it is due.
    fn schedule(&mut self, now: Time) -> Option<Resource> {
        if !self.has_manifest {
            return Some(Resource::Manifest);
        }
        if self.next >= self.content.segments() || now < self.look_at {
            return None;
        }
        if self.initialised.contains(&true) && !self.has_room() {
            self.look_at = now + SCHEDULE_INTERVAL;
            return None;
        }
        let delay = if self.check_quality { self.check(now) } else { Span::ZERO };
        let (rung, segment) = (self.current, self.next);
        if !self.initialised[rung] {
            self.check_quality = false;
            return Some(Resource::Init { rung });
        }
        self.check_quality = true;
        let part = Resource::Media { rung, segment };
        if delay > Span::ZERO {
            self.delayed = Some((now + delay, part));
            return None;
        }
        Some(part)
    }

    /// Returns whether the buffer has room for a segment (`_shouldBuffer`).
    fn has_room(&self) -> bool {
        let target = match (self.current == self.content.top(), self.content.length() >= LONG_FORM_DURATION) {
            (false, _) => DEFAULT_BUFFER,
            (true, false) => TOP_BUFFER,
            (true, true) => TOP_BUFFER_LONG,
        };
        let segment = self.content.segment();
        let more = if target <= segment { Span::ZERO } else { segment };
        self.playback_buffer.level() + more < target
    }

    /// Applies the rules and takes the lowest of their bit rates. Returns the time to wait before the next segment.
    fn check(&mut self, now: Time) -> Span {
        let buffer = self.playback_buffer.level().as_secs_f64();
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
            safe.filter(|_| !is_held && !self.playback_buffer.is_empty()).map(|safe| self.content.rung_for(safe))
        };
        let insufficient = if self.ignored > 0 {
            None
        } else if self.playback_buffer.is_empty() {
            Some(0)
        } else {
            let kbps =
                average.map(|kbps| kbps * THROUGHPUT_SAFETY_FACTOR * buffer / self.content.segment().as_secs_f64());
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

    /// Fetches buffered segments of a lower bit rate again, from the segment in play (`_prepareForFastQualitySwitch`).
    ///
    /// dash.js intends to keep 1.5 segments ahead of playback. But the representation passed to this method has no segment duration
    /// (`fragmentDuration` is null, which `isNaN` takes for a number), so dash.js 5.2.1 keeps none.
    fn replace_from(&mut self, rung: usize) {
        let position = self.playback_buffer.position();
        if self.playback_buffer.rung_at(position).is_some_and(|there| there < rung) {
            self.next = self.playback_buffer.segment_at(position);
        }
    }
}

#[cfg(test)]
#[path = "player_tests.rs"]
mod tests;
