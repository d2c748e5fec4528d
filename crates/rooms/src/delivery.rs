//! What one member has received of its room, and what it needs next.

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Span, Time};

use crate::history::{History, distance};
use crate::interest::{Viewer, interest};
use crate::limits::Bucket;
use crate::message::{BASES, EntryHead, POSES_GAP, PosesReceived, SubjectId, age_byte, write_poses_head};
use crate::pose::{Sample, part};
use crate::state::{MemberId, Revision};

/// Pose messages that may still be acknowledged: as many as an acknowledgement covers, twice over.
const WINDOW: usize = 64;
/// What has not moved for so long is at rest, and is sent whole.
const REST: Span = Span::from_millis(300);
/// The least time after which something that was not acknowledged is sent again: a round trip, and twice the interval of acknowledgements.
const LEAST_REPEAT: Span = Span::from_millis(200);
const MOST_BACKOFF: u32 = 4;
/// A pose message with its headers stays within one datagram of this size, unless a single body is longer.
const DATAGRAM: usize = 1_200;
/// What IP, TCP or QUIC and a WebSocket add to a message: 40, 20 and more.
const OVERHEAD: usize = 60;
/// Of what the network carries, this share may be used for poses: the rest is for changes, and so that no queue builds up.
const SHARE: f64 = 0.8;
/// A round trip this far above its least shows a queue: the budget is halved until it is gone.
const QUEUE: Span = Span::from_millis(100);
/// However slow the network is, updates are no further apart.
const SLOWEST: Span = Span::from_millis(500);

/// A subject's place, a sample's number, and the parts that were sent.
type SentEntry = (u16, u16, u8);

/// A body or an object, as the room knows it.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) id: SubjectId,
    pub(crate) history: History,
    /// Of a spectator: nobody sees it. What is known of it stays valid for when it shows itself again.
    pub(crate) hidden: bool,
    /// The newest sample has been sent to somebody.
    sent: bool,
    /// Who sent it, and needs not be told.
    source: Option<MemberId>,
    /// Of an object: when its owner changed last. What an owner says without knowing of that is from before.
    pub(crate) owned_since: Revision,
    changed_at: Time,
    captured_at: Time,
}

impl Subject {
    pub(crate) fn new(id: SubjectId, now: Time) -> Self {
        Self {
            id,
            history: History::default(),
            hidden: false,
            sent: false,
            source: None,
            owned_since: Revision::default(),
            changed_at: now,
            captured_at: now,
        }
    }

    /// Whoever sent its newest sample may have moved it since, and has to be told where it is.
    pub(crate) const fn disown(&mut self) {
        self.source = None;
    }

    pub(crate) fn set(&mut self, now: Time, captured_at: Time, source: Option<MemberId>, sample: Sample) {
        match self.history.newest() {
            Some((_, newest)) if *newest == sample => {
                self.source = source;
                return;
            }
            Some(_) if !self.sent => self.history.replace(sample),
            _ => self.history.push(sample),
        }
        (self.sent, self.source, self.changed_at, self.captured_at) = (false, source, now, captured_at);
    }
}

/// How far one member is with one subject.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The newest sample that it is known to have, and which parts of it.
    acknowledged: Option<(u16, u8)>,
    sent: Option<(u16, u8)>,
    sent_at: Time,
    interval: Span,
    parts: u8,
}

impl Default for Pair {
    fn default() -> Self {
        Self { acknowledged: None, sent: None, sent_at: Time::ZERO, interval: Span::ZERO, parts: part::HEAD }
    }
}

/// A pose message that has not been acknowledged.
#[derive(Debug)]
struct SentPoses {
    number: u32,
    at: Time,
    entries: Vec<SentEntry>,
}

/// See the module.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Delivery {
    /// The log is sent up to here.
    pub(crate) sent: Revision,
    /// It has ever been sent up to here.
    furthest: Revision,
    /// The member has it up to here.
    pub(crate) acknowledged: Revision,
    /// When the first change that is not acknowledged was sent.
    sent_at: Time,
    backoff: u32,
    /// When it was heard again, after the last time that it was silent.
    outage_over_at: Time,
    /// The log began here when the member came, or its snapshot is of this revision: it cannot have applied less.
    least: Revision,
    /// It needs the whole room.
    pub(crate) needs_snapshot: bool,
    /// Since when it is behind without any progress.
    pub(crate) behind_since: Option<Time>,
    /// Its commands or its body were received, which it does not know yet.
    pub(crate) receipt_due: bool,
    pub(crate) upstream_due: bool,
    /// The latest of its messages.
    pub(crate) upstream: u32,
    /// The carrier takes nothing at the moment.
    pub(crate) blocked: bool,
    poses_number: u32,
    /// Which numbers the member knows already, its first message after the snapshot tells; there are no poses before.
    adopts_numbers: bool,
    unacknowledged: VecDeque<SentPoses>,
    spare: Vec<Vec<SentEntry>>,
    pairs: Vec<Pair>,
    budget: Bucket,
    /// The network's, if it is known.
    rate: Option<Bitrate>,
    least_round_trip: Span,
    round_trip: Span,
    congested: bool,
    tick: Span,
    /// Between two updates: a tick, or longer where the network does not carry more.
    interval: Span,
    next_update: Time,
    /// Bytes of poses in a second, if each were sent when it is due.
    demand: f64,
    pub(crate) viewer: Option<Viewer>,
    candidates: Vec<(i64, u16)>,
    /// The last message did not have all that was due: what waits for longest comes first.
    crowded: bool,
}

impl Delivery {
    pub(crate) fn new(now: Time, tick: Span, rate: Bitrate, subjects: usize, least: Revision) -> Self {
        let mut delivery = Self {
            sent: Revision::default(),
            furthest: Revision::default(),
            acknowledged: Revision::default(),
            sent_at: now,
            backoff: 0,
            least,
            outage_over_at: Time::ZERO,
            needs_snapshot: true,
            behind_since: None,
            receipt_due: false,
            upstream_due: false,
            upstream: 0,
            blocked: false,
            poses_number: 0,
            adopts_numbers: false,
            unacknowledged: VecDeque::new(),
            spare: Vec::new(),
            pairs: vec![Pair::default(); subjects],
            budget: Bucket::full(now, 0.0, 0.0),
            rate: None,
            least_round_trip: Span::MAX,
            round_trip: Span::from_millis(100),
            congested: false,
            tick,
            interval: tick,
            next_update: now,
            demand: 0.0,
            viewer: None,
            candidates: Vec::new(),
            crowded: false,
        };
        delivery.set_budget(rate);
        delivery
    }

    fn set_budget(&mut self, rate: Bitrate) {
        let share = if self.congested { SHARE / 2.0 } else { SHARE };
        let bytes = rate.as_bps() as f64 / 8.0 * share;
        // Two updates' worth, and never less than a datagram.
        self.budget.set_rate(bytes, (bytes * self.tick.as_secs_f64() * 2.0).max(DATAGRAM as f64));
        // As often as the network carries what is due, in whole ticks.
        let ratio = if bytes > 0.0 { (self.demand / bytes).ceil().clamp(1.0, 64.0) } else { 64.0 };
        self.interval = (self.tick * ratio as i64).min(SLOWEST.max(self.tick));
    }

    /// What the member's network carries.
    pub(crate) fn on_network(&mut self, rate: Bitrate, round_trip: Span) {
        self.rate = Some(rate);
        self.least_round_trip = self.least_round_trip.min(round_trip);
        self.congested = round_trip - self.least_round_trip > QUEUE;
        self.set_budget(rate);
    }

    /// Between two updates.
    pub(crate) const fn interval(&self) -> Span {
        self.interval
    }

    fn repeat_after(&self) -> Span {
        (self.round_trip * 2).max(LEAST_REPEAT)
    }

    /// There is room for a subject at `place`, of which this member knows nothing.
    pub(crate) fn forget(&mut self, place: usize) {
        if place >= self.pairs.len() {
            self.pairs.resize(place + 1, Pair::default());
        }
        self.pairs[place] = Pair::default();
        for sent in &mut self.unacknowledged {
            sent.entries.retain(|entry| usize::from(entry.0) != place);
        }
    }

    /// How far the member is with the log.
    pub(crate) fn on_revision(&mut self, now: Time, acknowledged: Revision) {
        if acknowledged <= self.acknowledged || acknowledged < self.least || acknowledged > self.furthest {
            return;
        }
        (self.acknowledged, self.sent_at, self.backoff) = (acknowledged, now, 0);
        (self.behind_since, self.needs_snapshot) = (None, false);
        self.sent = self.sent.max(acknowledged);
    }

    /// Nothing had come from the member for a while: what was sent meanwhile may be lost, and the time until it was confirmed says nothing
    /// of the round trip.
    pub(crate) fn on_outage_over(&mut self, now: Time) {
        (self.sent, self.backoff, self.outage_over_at) = (self.acknowledged, 0, now);
        self.needs_snapshot |= self.acknowledged == Revision::default();
    }

    /// The member may have been here before, or in the room that this one continues: its numbers go on.
    pub(crate) const fn adopt_numbers(&mut self) {
        self.adopts_numbers = true;
    }

    pub(crate) fn on_received(&mut self, now: Time, received: PosesReceived) {
        if self.adopts_numbers {
            // Before it has the snapshot, it does not know from where on poses are of this term.
            if self.acknowledged != Revision::default() {
                (self.adopts_numbers, self.poses_number) = (false, received.highest.min(u32::MAX / 2) + POSES_GAP);
            }
            return;
        }
        let mut place = 0;
        while let Some(sent) = self.unacknowledged.get(place) {
            if sent.number > received.highest {
                break;
            }
            if !received.contains(sent.number) {
                place += 1;
                continue;
            }
            let Some(mut sent) = self.unacknowledged.remove(place) else { break };
            if sent.number == received.highest && sent.at >= self.outage_over_at {
                let sample = now.saturating_since(sent.at);
                // RFC 6298 section 2: an eighth of the new one.
                self.round_trip = self.round_trip + (sample - self.round_trip) / 8;
            }
            for (subject, number, parts) in sent.entries.drain(..) {
                let pair = &mut self.pairs[usize::from(subject)];
                pair.acknowledged = match pair.acknowledged {
                    Some((known, known_parts)) if known == number => Some((number, known_parts | parts)),
                    Some((known, _)) if distance(number, known).is_none() => pair.acknowledged,
                    _ => Some((number, parts)),
                };
            }
            self.spare.push(sent.entries);
        }
    }

    /// Sends again what was not acknowledged in time. True if there is something to send.
    pub(crate) fn check_repeat(&mut self, now: Time, newest: Revision) -> bool {
        if self.acknowledged < newest && self.behind_since.is_none() {
            self.behind_since = Some(now);
        }
        if self.acknowledged >= self.sent {
            return self.sent < newest;
        }
        let patience = self.repeat_after() * (1 << self.backoff.min(MOST_BACKOFF));
        if now.saturating_since(self.sent_at) < patience {
            return self.sent < newest;
        }
        self.backoff += 1;
        self.sent = self.acknowledged;
        self.needs_snapshot |= self.acknowledged == Revision::default();
        true
    }

    /// The whole room has been sent in this revision. Who may have been here before is somebody else now, or in another term, until it has
    /// applied that: what it applied before proves nothing.
    pub(crate) fn on_snapshot_sent(&mut self, now: Time, revision: Revision) {
        if self.adopts_numbers && self.furthest == Revision::default() {
            self.least = revision;
        }
        self.needs_snapshot = false;
        self.on_sent(now, revision);
    }

    /// The log has been sent up to here.
    pub(crate) fn on_sent(&mut self, now: Time, revision: Revision) {
        if self.acknowledged >= self.sent {
            self.sent_at = now;
        }
        self.sent = revision;
        self.furthest = self.furthest.max(revision);
        self.receipt_due = false;
    }

    /// Whether an update is due; called every tick.
    pub(crate) fn is_update_due(&mut self, now: Time) -> bool {
        if now < self.next_update {
            return false;
        }
        self.next_update = (self.next_update + self.interval).max(now + self.interval - self.tick);
        true
    }

    /// Decides anew how often and in which detail each subject is needed.
    pub(crate) fn refresh_interest(&mut self, default_rate: Bitrate, subjects: &[Option<Subject>]) {
        for (pair, subject) in self.pairs.iter_mut().zip(subjects) {
            let Some((_, sample)) = subject.as_ref().and_then(|subject| subject.history.newest()) else { continue };
            let needed = interest(self.viewer.as_ref(), sample.head().position, self.tick);
            (pair.interval, pair.parts) = (needed.interval, needed.parts);
        }
        self.set_budget(self.rate.unwrap_or(default_rate));
    }

    /// Writes the next pose message, with what `recipient` needs most. False if there is nothing to say.
    pub(crate) fn write_poses(
        &mut self,
        now: Time,
        recipient: MemberId,
        subjects: &mut [Option<Subject>],
        out: &mut Vec<u8>,
    ) -> bool {
        if self.adopts_numbers {
            return false;
        }
        self.budget.refill(now);
        let own = SubjectId::Member(recipient);
        let (repeat_after, half) = (self.repeat_after(), self.tick / 2);
        self.candidates.clear();
        for (place, (pair, subject)) in self.pairs.iter().zip(subjects.iter()).enumerate() {
            let Some(subject) = subject else { continue };
            if subject.hidden || subject.id == own || subject.source == Some(recipient) {
                continue;
            }
            let Some((number, sample)) = subject.history.newest() else { continue };
            let resting = now.saturating_since(subject.changed_at) >= REST;
            let needed = if resting { sample.parts } else { (pair.parts & sample.parts) | part::HEAD };
            let has = |known: Option<(u16, u8)>| {
                known.is_some_and(|(known, parts)| known == number && parts & needed == needed)
            };
            if has(pair.acknowledged) {
                continue;
            }
            let waited = now.saturating_since(pair.sent_at);
            let interval = if has(pair.sent) { repeat_after } else { pair.interval };
            if pair.sent.is_none() || waited + half >= interval {
                // How much longer it has waited than it should, in 1024ths; what was never sent comes first.
                let overdue = waited.as_nanos() * 1_024 / interval.as_nanos().max(1);
                self.candidates.push((if pair.sent.is_none() { i64::MAX } else { overdue }, place as u16));
            }
        }
        self.demand *= 0.9;
        if self.candidates.is_empty() && !self.upstream_due {
            return false;
        }
        if self.crowded {
            self.candidates.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.0));
        }
        self.poses_number += 1;
        let (start, number) = (out.len(), self.poses_number);
        write_poses_head(number, self.upstream, out);
        let head = out.len();
        let mut entries = self.spare.pop().unwrap_or_default();
        let (mut left_out, mut full) = (0, false);
        for (_, place) in &self.candidates {
            let Some(subject) = subjects[usize::from(*place)].as_mut() else { continue };
            let pair = &mut self.pairs[usize::from(*place)];
            if full || !entries.is_empty() && !self.budget.has_some() {
                left_out += 1;
                continue;
            }
            let before = out.len();
            let Some(written) = write_entry(now, pair, subject, out) else { continue };
            if !entries.is_empty() && out.len() - start + OVERHEAD > DATAGRAM {
                out.truncate(before);
                (full, left_out) = (true, left_out + 1);
                continue;
            }
            (pair.sent, pair.sent_at, subject.sent) = (Some(written), now, true);
            entries.push((*place, written.0, written.1));
            self.budget.charge((out.len() - before) as f64);
        }
        self.crowded = left_out > 0;
        let bytes = (out.len() - start + OVERHEAD) as f64;
        self.budget.charge((head - start + OVERHEAD) as f64);
        // What was left out would have been as long as what was sent.
        let wanted = bytes * (1.0 + f64::from(left_out) / entries.len().max(1) as f64);
        self.demand += 0.1 * wanted / self.tick.as_secs_f64();
        self.upstream_due = false;
        if self.unacknowledged.len() == WINDOW
            && let Some(mut oldest) = self.unacknowledged.pop_front()
        {
            oldest.entries.clear();
            self.spare.push(oldest.entries);
        }
        self.unacknowledged.push_back(SentPoses { number, at: now, entries });
        true
    }
}

/// Writes the subject's newest sample as far as the member needs it. Returns its number and the parts.
fn write_entry(now: Time, pair: &Pair, subject: &Subject, out: &mut Vec<u8>) -> Option<(u16, u8)> {
    let (number, sample) = subject.history.newest()?;
    let resting = now.saturating_since(subject.changed_at) >= REST;
    let parts = if resting { sample.parts } else { (pair.parts & sample.parts) | part::HEAD };
    let base = pair.acknowledged.and_then(|(known, known_parts)| {
        let back = distance(number, known).filter(|back| (1..BASES).contains(back))?;
        subject.history.get(known).map(|sample| (back, sample, known_parts))
    });
    let age = age_byte(now.saturating_since(subject.captured_at));
    let head = EntryHead { subject: subject.id, number, base: base.map_or(0, |(back, _, _)| back), age };
    head.write(out);
    sample.write(parts, base.map(|(_, sample, parts)| (sample, parts)), out);
    Some((number, parts))
}
