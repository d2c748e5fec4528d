//! Tracks what one member has received of its room, and decides what it needs next.

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Span, Time, smoothed};

use crate::history::{History, distance};
use crate::interest::{Viewer, interest};
use crate::limits::TokenBucket;
use crate::message::{
    EntryHead, HISTORY_SAMPLES, POSE_NUMBER_GAP, PosesReceived, SubjectId, age_byte, write_poses_head,
};
use crate::pose::{Sample, part};
use crate::state::{MemberId, Revision};

/// Pose messages that are remembered until they are acknowledged: twice as many as an acknowledgement covers.
const MAX_UNACKNOWLEDGED_MESSAGES: usize = 64;
/// Time without motion after which a subject is at rest and is sent in full detail.
const REST_TIME: Span = Span::from_millis(300);
/// Shortest time after which unacknowledged content is sent again: a round trip, and twice the interval of acknowledgements.
const MIN_RETRANSMISSION_TIMEOUT: Span = Span::from_millis(200);
/// Times that the retransmission timeout may double.
const MAX_BACKOFF_DOUBLINGS: u32 = 4;
/// Largest pose message with its headers in bytes, unless a single body is longer: one datagram.
const MAX_POSE_MESSAGE_BYTES: usize = 1_200;
/// Bytes that IP, TCP or QUIC, and a WebSocket add to a message: 40, 20 and more.
const MESSAGE_OVERHEAD_BYTES: usize = 60;
/// Share of the network's rate that poses may use. The rest is for changes, and keeps queues from building up.
const POSE_RATE_SHARE: f64 = 0.8;
/// Excess of the round trip over its minimum that indicates a queue. The budget is halved until the queue is gone.
const MAX_QUEUE_DELAY: Span = Span::from_millis(100);
/// Longest interval between updates, however slow the network is.
const MAX_UPDATE_INTERVAL: Span = Span::from_millis(500);

/// The index of a subject, the number of its sample, and the parts that were sent.
type SentEntry = (u16, u16, u8);

/// A body or an object as the room knows it.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) id: SubjectId,
    pub(crate) history: History,
    /// Whether nobody sees the subject, because it is a spectator's. What members know of it stays valid until it is visible again.
    pub(crate) hidden: bool,
    /// Whether the newest sample was sent to somebody.
    sent: bool,
    /// The member who sent the newest sample, and who does not need it back.
    source: Option<MemberId>,
    /// The revision in which an object's owner last changed. Poses from a member that has not seen that revision are obsolete.
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

    /// Makes the newest sample go to its sender too, which may have moved the subject in the meantime.
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

/// What one member has received of one subject.
#[derive(Clone, Copy, Debug)]
struct SubjectProgress {
    /// The newest sample that the member has acknowledged, and which parts of it.
    acknowledged: Option<(u16, u8)>,
    sent: Option<(u16, u8)>,
    sent_at: Time,
    interval: Span,
    parts: u8,
}

impl Default for SubjectProgress {
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

/// The state of delivery to one member, see the module.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Delivery {
    /// The revision up to which the log has been sent.
    pub(crate) sent: Revision,
    /// The highest revision up to which the log was ever sent.
    furthest: Revision,
    /// The revision up to which the member has acknowledged the log.
    pub(crate) acknowledged: Revision,
    /// When the first change that is not acknowledged was sent.
    sent_at: Time,
    backoff: u32,
    /// When the member's last outage ended.
    outage_over_at: Time,
    /// The revision at which the log began when the member joined, or that of its snapshot. The member cannot have applied less.
    oldest_revision: Revision,
    /// Whether the member needs a snapshot of the room.
    pub(crate) needs_snapshot: bool,
    /// Since when the member has been behind without any progress.
    pub(crate) behind_since: Option<Time>,
    /// Whether the member must be informed that its commands or its body were received.
    pub(crate) receipt_due: bool,
    pub(crate) upstream_due: bool,
    /// The number of the member's latest message.
    pub(crate) upstream: u32,
    /// Whether the carrier accepts no messages at the moment.
    pub(crate) blocked: bool,
    poses_number: u32,
    /// Whether the member's first message after the snapshot must tell which numbers of pose messages it knows. No poses are sent before.
    adopts_numbers: bool,
    unacknowledged: VecDeque<SentPoses>,
    spare: Vec<Vec<SentEntry>>,
    pairs: Vec<SubjectProgress>,
    budget: TokenBucket,
    /// The rate of the member's network, if it is known.
    rate: Option<Bitrate>,
    min_round_trip: Span,
    round_trip: Span,
    congested: bool,
    tick: Span,
    /// Interval between two updates: a tick, or longer if the network carries less.
    interval: Span,
    next_update: Time,
    /// Bytes of poses per second that would be sent if each subject were sent when it is due.
    demand: f64,
    pub(crate) viewer: Option<Viewer>,
    /// Bodies of the same page, which it does not see.
    pub(crate) twins: Vec<SubjectId>,
    candidates: Vec<(i64, u16)>,
    /// Whether the last message lacked subjects that were due. The next one then begins with those that have waited longest.
    truncated: bool,
}

impl Delivery {
    pub(crate) fn new(now: Time, tick: Span, rate: Bitrate, subjects: usize, oldest_revision: Revision) -> Self {
        let mut delivery = Self {
            sent: Revision::default(),
            furthest: Revision::default(),
            acknowledged: Revision::default(),
            sent_at: now,
            backoff: 0,
            oldest_revision,
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
            pairs: vec![SubjectProgress::default(); subjects],
            budget: TokenBucket::full(now, 0.0, 0.0),
            rate: None,
            min_round_trip: Span::MAX,
            round_trip: Span::from_millis(100),
            congested: false,
            tick,
            interval: tick,
            next_update: now,
            demand: 0.0,
            viewer: None,
            twins: Vec::new(),
            candidates: Vec::new(),
            truncated: false,
        };
        delivery.set_budget(rate);
        delivery
    }

    fn set_budget(&mut self, rate: Bitrate) {
        let share = if self.congested { POSE_RATE_SHARE / 2.0 } else { POSE_RATE_SHARE };
        let bytes = rate.as_bps() as f64 / 8.0 * share;
        // The budget holds two updates, and never less than a datagram.
        self.budget.set_rate(bytes, (bytes * self.tick.as_secs_f64() * 2.0).max(MAX_POSE_MESSAGE_BYTES as f64));
        // Updates are as frequent as the network permits, in whole ticks.
        let ratio = if bytes > 0.0 { (self.demand / bytes).ceil().clamp(1.0, 64.0) } else { 64.0 };
        self.interval = (self.tick * ratio as i64).min(MAX_UPDATE_INTERVAL.max(self.tick));
    }

    /// Takes the rate that the member's network carries, and its round trip.
    pub(crate) fn on_network(&mut self, rate: Bitrate, round_trip: Span) {
        self.rate = Some(rate);
        self.min_round_trip = self.min_round_trip.min(round_trip);
        self.congested = round_trip - self.min_round_trip > MAX_QUEUE_DELAY;
        self.set_budget(rate);
    }

    /// Returns the interval between two updates.
    pub(crate) const fn interval(&self) -> Span {
        self.interval
    }

    fn repeat_after(&self) -> Span {
        (self.round_trip * 2).max(MIN_RETRANSMISSION_TIMEOUT)
    }

    /// Makes space for a subject at `place`, about which this member knows nothing.
    pub(crate) fn forget(&mut self, place: usize) {
        if place >= self.pairs.len() {
            self.pairs.resize(place + 1, SubjectProgress::default());
        }
        self.pairs[place] = SubjectProgress::default();
        for sent in &mut self.unacknowledged {
            sent.entries.retain(|entry| usize::from(entry.0) != place);
        }
    }

    /// Takes the revision up to which the member has applied the log.
    pub(crate) fn on_revision(&mut self, now: Time, acknowledged: Revision) {
        if acknowledged <= self.acknowledged || acknowledged < self.oldest_revision || acknowledged > self.furthest {
            return;
        }
        (self.acknowledged, self.sent_at, self.backoff) = (acknowledged, now, 0);
        (self.behind_since, self.needs_snapshot) = (None, false);
        self.sent = self.sent.max(acknowledged);
    }

    /// Ends an outage of the member: what was sent meanwhile may be lost, and the time until it is acknowledged does not measure the round
    /// trip.
    pub(crate) fn on_outage_over(&mut self, now: Time) {
        (self.sent, self.backoff, self.outage_over_at) = (self.acknowledged, 0, now);
        self.needs_snapshot |= self.acknowledged == Revision::default();
    }

    /// Continues the member's numbers, because it may have been here before, or in the room that this one continues.
    pub(crate) const fn adopt_numbers(&mut self) {
        self.adopts_numbers = true;
    }

    pub(crate) fn on_received(&mut self, now: Time, received: PosesReceived) {
        if self.adopts_numbers {
            // Until the member has the snapshot, it does not know where the poses of this term begin.
            if self.acknowledged != Revision::default() {
                (self.adopts_numbers, self.poses_number) =
                    (false, received.highest.min(u32::MAX / 2) + POSE_NUMBER_GAP);
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
                self.round_trip = smoothed(self.round_trip, now.saturating_since(sent.at));
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

    /// Schedules content that was not acknowledged in time. Returns whether there is something to send.
    pub(crate) fn check_repeat(&mut self, now: Time, newest: Revision) -> bool {
        if self.acknowledged < newest && self.behind_since.is_none() {
            self.behind_since = Some(now);
        }
        if self.acknowledged >= self.sent {
            return self.sent < newest;
        }
        let timeout = self.repeat_after() * (1 << self.backoff.min(MAX_BACKOFF_DOUBLINGS));
        if now.saturating_since(self.sent_at) < timeout {
            return self.sent < newest;
        }
        self.backoff += 1;
        self.sent = self.acknowledged;
        self.needs_snapshot |= self.acknowledged == Revision::default();
        true
    }

    /// Records that a snapshot of this revision was sent. Until the member has applied it, its acknowledgements of earlier revisions do not
    /// count, because they may refer to another member or another term.
    pub(crate) fn on_snapshot_sent(&mut self, now: Time, revision: Revision) {
        if self.adopts_numbers && self.furthest == Revision::default() {
            self.oldest_revision = revision;
        }
        self.needs_snapshot = false;
        self.on_sent(now, revision);
    }

    /// Records that the log was sent up to this revision.
    pub(crate) fn on_sent(&mut self, now: Time, revision: Revision) {
        if self.acknowledged >= self.sent {
            self.sent_at = now;
        }
        self.sent = revision;
        self.furthest = self.furthest.max(revision);
        self.receipt_due = false;
    }

    /// Returns whether an update is due. Called every tick.
    pub(crate) fn is_update_due(&mut self, now: Time) -> bool {
        if now < self.next_update {
            return false;
        }
        self.next_update = (self.next_update + self.interval).max(now + self.interval - self.tick);
        true
    }

    /// Updates how often and in which detail each subject is needed.
    pub(crate) fn refresh_interest(&mut self, default_rate: Bitrate, subjects: &[Option<Subject>]) {
        for (pair, subject) in self.pairs.iter_mut().zip(subjects) {
            let Some((_, sample)) = subject.as_ref().and_then(|subject| subject.history.newest()) else { continue };
            let needed = interest(self.viewer.as_ref(), sample.head().position, self.tick);
            (pair.interval, pair.parts) = (needed.interval, needed.parts);
        }
        self.set_budget(self.rate.unwrap_or(default_rate));
    }

    /// Writes the next pose message, with the subjects that `recipient` needs most. Returns false if there is nothing to send.
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
        self.choose_candidates(now, recipient, subjects);
        self.demand *= 0.9;
        if self.candidates.is_empty() && !self.upstream_due {
            return false;
        }
        if self.truncated {
            self.candidates.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.0));
        }
        self.poses_number += 1;
        let (start, number) = (out.len(), self.poses_number);
        write_poses_head(number, self.upstream, out);
        let head = out.len();
        let (entries, left_out) = self.write_candidates(now, subjects, start, out);
        self.truncated = left_out > 0;
        let bytes = (out.len() - start + MESSAGE_OVERHEAD_BYTES) as f64;
        self.budget.charge((head - start + MESSAGE_OVERHEAD_BYTES) as f64);
        // Estimates that the subjects that were left out are as long as those that were sent.
        let wanted = bytes * (1.0 + f64::from(left_out) / entries.len().max(1) as f64);
        self.demand += 0.1 * wanted / self.tick.as_secs_f64();
        self.upstream_due = false;
        if self.unacknowledged.len() == MAX_UNACKNOWLEDGED_MESSAGES
            && let Some(mut oldest) = self.unacknowledged.pop_front()
        {
            oldest.entries.clear();
            self.spare.push(oldest.entries);
        }
        self.unacknowledged.push_back(SentPoses { number, at: now, entries });
        true
    }

    /// Collects the subjects of which `recipient` is due a newer sample.
    fn choose_candidates(&mut self, now: Time, recipient: MemberId, subjects: &[Option<Subject>]) {
        let own = SubjectId::Member(recipient);
        let (repeat_after, half) = (self.repeat_after(), self.tick / 2);
        self.candidates.clear();
        for (place, (pair, subject)) in self.pairs.iter().zip(subjects).enumerate() {
            let Some(subject) = subject else { continue };
            if subject.hidden
                || subject.id == own
                || subject.source == Some(recipient)
                || self.twins.contains(&subject.id)
            {
                continue;
            }
            let Some((number, sample)) = subject.history.newest() else { continue };
            let needed = needed_parts(now, pair, subject, sample);
            let has = |known: Option<(u16, u8)>| {
                known.is_some_and(|(known, parts)| known == number && parts & needed == needed)
            };
            if has(pair.acknowledged) {
                continue;
            }
            let waited = now.saturating_since(pair.sent_at);
            let interval = if has(pair.sent) { repeat_after } else { pair.interval };
            if pair.sent.is_none() || waited + half >= interval {
                // The ratio of waiting time to interval in 1024ths. Subjects that were never sent come first.
                let overdue = waited.as_nanos() * 1_024 / interval.as_nanos().max(1);
                self.candidates.push((if pair.sent.is_none() { i64::MAX } else { overdue }, place as u16));
            }
        }
    }

    /// Writes as many candidates as the budget and the message that begins at `start` permit. Returns them, and the number of the others.
    fn write_candidates(
        &mut self,
        now: Time,
        subjects: &mut [Option<Subject>],
        start: usize,
        out: &mut Vec<u8>,
    ) -> (Vec<SentEntry>, u32) {
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
            if !entries.is_empty() && out.len() - start + MESSAGE_OVERHEAD_BYTES > MAX_POSE_MESSAGE_BYTES {
                out.truncate(before);
                (full, left_out) = (true, left_out + 1);
                continue;
            }
            (pair.sent, pair.sent_at, subject.sent) = (Some(written), now, true);
            entries.push((*place, written.0, written.1));
            self.budget.charge((out.len() - before) as f64);
        }
        (entries, left_out)
    }
}

/// Returns the parts that the member needs of a subject's newest sample. Of a subject that rests it needs all.
fn needed_parts(now: Time, pair: &SubjectProgress, subject: &Subject, newest: &Sample) -> u8 {
    let resting = now.saturating_since(subject.changed_at) >= REST_TIME;
    if resting { newest.parts } else { (pair.parts & newest.parts) | part::HEAD }
}

/// Writes the parts of a subject's newest sample that the member needs. Returns the sample's number and the parts.
fn write_entry(now: Time, pair: &SubjectProgress, subject: &Subject, out: &mut Vec<u8>) -> Option<(u16, u8)> {
    let (number, sample) = subject.history.newest()?;
    let parts = needed_parts(now, pair, subject, sample);
    let base = pair.acknowledged.and_then(|(known, known_parts)| {
        let back = distance(number, known).filter(|back| (1..HISTORY_SAMPLES).contains(back))?;
        subject.history.get(known).map(|sample| (back, sample, known_parts))
    });
    let age = age_byte(now.saturating_since(subject.captured_at));
    let head = EntryHead { subject: subject.id, number, base: base.map_or(0, |(back, _, _)| back), age };
    head.write(out);
    sample.write(parts, base.map(|(_, sample, parts)| (sample, parts)), out);
    Some((number, parts))
}
