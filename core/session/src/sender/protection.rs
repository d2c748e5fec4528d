//! The sender's half of redundancy: consults the policy, generates the repairs, and learns the path's losses from feedback.

use nearlight_events::{Event, ProtectionCandidate};
use nearlight_fec::policy::{FrameFacts, Plan, RateDistortion, RedundancyPolicy, Shortage};
use nearlight_fec::{Code, Encoder, LossEstimate, PacketOutcome};
use nearlight_units::{Bitrate, Bytes, FrameId, Span, Time, smoothed_deviation};
use nearlight_wire::{CoveredFrame, RepairHeader};

use crate::Distortion;
use crate::packets::history::{FrameHistory, PacketHistory, StoredFrame};

/// Maximum number of planned repairs, as a multiple of the symbols that they cover. Beyond that, sending everything again is better.
const MAX_REPAIRS_PER_SYMBOL: usize = 4;
/// Weight of the newest picture in the averages of the encoder's distortion and of how much pictures change. Guess: one second's memory at
/// 30 frames a second.
const CONTENT_SMOOTHING: f64 = 1.0 / 32.0;
/// Repairs that are sent right after their frame.
#[derive(Debug)]
pub(crate) struct PlannedRepairs {
    /// The covered frames, newest first. Empty if another protocol generates the repairs.
    covered: Vec<CoveredFrame>,
    /// The repairs, concatenated.
    symbols: Vec<u8>,
    symbol_bytes: usize,
    /// Size of a datagram.
    size: Bytes,
    count: u16,
    sent: u16,
    last_sent_at: Time,
}

impl PlannedRepairs {
    pub(crate) const fn left(&self) -> u16 {
        self.count - self.sent
    }

    /// The number of repairs, including those that have left.
    pub(crate) const fn count(&self) -> u16 {
        self.count
    }

    /// The covered frames, newest first. Empty if another protocol generates the repairs.
    pub(crate) fn covered(&self) -> &[CoveredFrame] {
        &self.covered
    }

    /// A repair's bytes. Empty if another protocol generates them.
    pub(crate) fn symbol(&self, number: u16) -> &[u8] {
        let start = usize::from(number) * self.symbol_bytes;
        &self.symbols[start..start + self.symbol_bytes]
    }

    pub(crate) fn unsent(&self) -> Bytes {
        Bytes::new(self.size.get() * u64::from(self.left()))
    }

    pub(crate) fn next_size(&self) -> Option<Bytes> {
        (self.left() > 0).then_some(self.size)
    }

    /// Its size in memory.
    pub(crate) fn held(&self) -> usize {
        self.symbols.len()
    }

    /// Returns the number of the next repair, which leaves now. None if all have left.
    pub(crate) fn take_next(&mut self, now: Time) -> Option<u16> {
        let number = (self.left() > 0).then_some(self.sent)?;
        self.sent += 1;
        self.last_sent_at = now;
        Some(number)
    }
}

/// A repair that the receiver has requested.
#[derive(Debug)]
pub(crate) struct OnDemandRepair {
    pub(crate) number: u16,
    pub(crate) covered: CoveredFrame,
    pub(crate) symbol: Vec<u8>,
}

/// The sender's knowledge of its path when a frame is planned or requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathFacts {
    pub(crate) round_trip: Span,
    pub(crate) interval: Span,
    pub(crate) rate: Bitrate,
    pub(crate) pacing: Bitrate,
    /// How long the queued data takes to leave.
    pub(crate) queue: Span,
}

/// Content statistics from the pictures and their encoder. None before the first picture.
#[derive(Clone, Copy, Debug, Default)]
struct Content {
    /// Mean squared errors of a coded picture, and of repeating the previous picture instead.
    coded: Option<f64>,
    frozen: Option<f64>,
}

fn smooth(mean: &mut Option<f64>, sample: f64) -> f64 {
    let before = mean.unwrap_or(sample);
    *mean.insert(before + (sample - before) * CONTENT_SMOOTHING)
}

/// The redundancy of one session.
pub(crate) struct Protection {
    policy: Box<dyn RedundancyPolicy>,
    encoder: Encoder,
    estimate: LossEstimate,
    distortion: RateDistortion,
    content: Content,
    group: u32,
    /// The newest frame's index in its group, and whether the policy sees a frame as the start of a group: as the encoder states, otherwise
    /// by references.
    index: u32,
    placed: bool,
    /// Mean deviation of the round trip, as in RFC 6298.
    jitter: Span,
    /// Mean time from the complete frame to its decoded picture.
    decode: Span,
}

impl Protection {
    /// Makes the redundancy of a session. `group` is the number of frames from one key frame to the next, 0 if none is scheduled.
    pub(crate) fn new(policy: Box<dyn RedundancyPolicy>, group: u32) -> Self {
        Self {
            policy,
            encoder: Encoder::default(),
            estimate: LossEstimate::default(),
            distortion: RateDistortion::TYPICAL,
            content: Content::default(),
            group,
            index: 0,
            placed: false,
            jitter: Span::ZERO,
            decode: Span::ZERO,
        }
    }

    pub(crate) fn name(&self) -> String {
        self.policy.name()
    }

    /// Reports the distortion of frames that the encoder was asked to code at `rate`.
    pub(crate) fn on_distortion(&mut self, rate: Bitrate, distortion: Distortion) {
        let (Some(coded), Some(frozen)) = (distortion.coded, distortion.frozen) else { return };
        let coded = smooth(&mut self.content.coded, coded);
        // When motion starts, repairs become worth their cost at once.
        let frozen = smooth(&mut self.content.frozen, frozen).max(frozen);
        self.distortion = RateDistortion::measured(rate, coded, frozen);
    }

    /// Header bytes of a datagram with the largest repair.
    pub(crate) fn header_bytes(&self) -> usize {
        RepairHeader::bytes(usize::from(self.policy.reach()))
    }

    #[cfg(test)]
    pub(crate) fn losses(&self) -> nearlight_fec::LossSummary {
        self.estimate.summary()
    }

    pub(crate) fn on_round_trip(&mut self, sample: Span, smoothed: Span) {
        self.jitter = smoothed_deviation(self.jitter, smoothed, sample);
    }

    pub(crate) fn on_decode(&mut self, span: Span) {
        self.decode += (span - self.decode) / 16;
    }

    /// Processes the settled states of packets.
    pub(crate) fn on_feedback(&mut self, packets: &mut PacketHistory) {
        while let Some((packet, arrived_at)) = packets.poll_settled() {
            if let Some(frame) = packet.frame {
                self.estimate.on_outcome(&PacketOutcome { frame, sent_at: packet.sent_at, arrived_at });
            }
        }
    }

    /// Plans and generates the redundancy of the next frame. `older` are the frames before it.
    pub(crate) fn protect(
        &mut self,
        now: Time,
        frame: &mut StoredFrame,
        older: &mut FrameHistory,
        path: PathFacts,
    ) -> Plan {
        self.placed = frame.group_index.is_some();
        let next = if frame.key { 0 } else { self.index.saturating_add(1) };
        self.index = frame.group_index.unwrap_or(next);
        let reach = if frame.segmentation().is_some() { 1 } else { self.policy.reach() };
        let window = reach.min(1 + older.before(frame.id).min(usize::from(u8::MAX - 1)) as u8);
        let facts = FrameFacts { window, ..self.facts(now, frame, path) };
        let plan = self.policy.plan(&facts);
        let cover = usize::from(plan.cover.clamp(1, window));
        if plan.repairs > 0 {
            match frame.segmentation() {
                Some(segmentation) => {
                    frame.planned = external_repairs(segmentation.repair_size(), plan.repairs.min(frame.symbols));
                }
                None => self.generate(frame, older, cover, plan.repairs).unwrap_or_default(),
            }
        }
        plan
    }

    /// Returns how many symbols to send for `needed` that the receiver lacks. None to send the symbols themselves.
    pub(crate) fn answer(
        &mut self,
        now: Time,
        frame: &StoredFrame,
        needed: u16,
        underway: u16,
        path: PathFacts,
    ) -> Option<u16> {
        let facts = self.facts(now, frame, path);
        self.policy.answer(&Shortage { needed, underway, facts })
    }

    /// Generates one more repair of a frame. None if all numbers are used up.
    pub(crate) fn repair(&mut self, frame: &mut StoredFrame) -> Option<OnDemandRepair> {
        let (code, covered) = frame.code()?;
        let number = frame.next_repair;
        frame.next_repair = number.checked_add(1)?;
        let mut symbol = vec![0; code.symbol_bytes()];
        self.encoder.repairs(&code, &frame.bytes, number..number + 1, &mut symbol).ok()?;
        Some(OnDemandRepair { number, covered, symbol })
    }

    fn facts(&self, now: Time, frame: &StoredFrame, path: PathFacts) -> FrameFacts {
        // A frame that is complete only when the next one is as well is not shown, however late its deadline.
        let own_way = path.pacing.time_to_send(frame.unsent());
        let next_is_whole = path.round_trip / 2 + path.interval - now.saturating_since(frame.queued_at);
        FrameFacts {
            sources: frame.symbols,
            packet: frame.symbol_size(0),
            key: if self.placed { self.index == 0 } else { frame.key },
            index: self.index,
            group: self.group,
            interval: path.interval,
            deadline: (frame.deadline - now - path.queue - own_way - self.decode).min(next_is_whole),
            round_trip: path.round_trip,
            jitter: self.jitter,
            losses: self.estimate.summary(),
            rate: path.rate,
            distortion: self.distortion,
            interleaved: frame.segmentation().is_some(),
            window: 1,
        }
    }

    fn generate(
        &mut self,
        frame: &mut StoredFrame,
        older: &mut FrameHistory,
        cover: usize,
        repairs: u16,
    ) -> Option<()> {
        let (code, own) = frame.code()?;
        let mut covered = vec![own];
        let mut codes = vec![code];
        for other in older.newest(cover - 1) {
            let (code, its) = other.code()?;
            covered.push(its);
            codes.push(code);
        }
        let sources: usize = covered.iter().map(|frame| usize::from(frame.symbols)).sum();
        let count = usize::from(repairs).min(MAX_REPAIRS_PER_SYMBOL * sources);
        let symbol_bytes = codes.iter().map(Code::symbol_bytes).max()?;
        let mut symbols = vec![0; count * symbol_bytes];
        let numbers = 0..count as u16;
        if cover == 1 {
            frame.next_repair = numbers.end;
            self.encoder.repairs(&code, &frame.bytes, numbers, &mut symbols).ok()?;
        } else {
            let mut frames = vec![(code, frame.bytes.as_slice())];
            frames.extend(codes[1..].iter().copied().zip(older.newest(cover - 1).map(|other| other.bytes.as_slice())));
            frames.reverse();
            self.encoder.window_repairs(&frames, numbers, &mut symbols).ok()?;
        }
        let size = Bytes::new((RepairHeader::bytes(covered.len()) + symbol_bytes) as u64);
        let count = count as u16;
        frame.planned =
            Some(PlannedRepairs { covered, symbols, symbol_bytes, size, count, sent: 0, last_sent_at: Time::ZERO });
        Some(())
    }
}

/// Repairs generated by another protocol, at most one per piece, because a second one of the same piece adds no information.
fn external_repairs(size: Option<Bytes>, count: u16) -> Option<PlannedRepairs> {
    let (covered, symbols) = (Vec::new(), Vec::new());
    Some(PlannedRepairs { covered, symbols, symbol_bytes: 0, size: size?, count, sent: 0, last_sent_at: Time::ZERO })
}

/// Number of repairs that cover the frame and that the receiver did not know of when it asked, a round trip ago.
pub(crate) fn repairs_in_flight(now: Time, round_trip: Span, frames: &FrameHistory, frame: FrameId) -> u16 {
    let serves = |age: usize, kept: &StoredFrame| {
        let planned = kept.planned.as_ref()?;
        let unknown = planned.left() > 0 || now.saturating_since(planned.last_sent_at) < round_trip;
        (age < planned.covered.len() && unknown).then_some(planned.count)
    };
    frames.from(frame).enumerate().filter_map(|(age, kept)| serves(age, kept)).sum()
}

/// The plan for the log.
pub(crate) fn protection_event(frame: FrameId, plan: &Plan) -> Event {
    let candidate = |weighed: &nearlight_fec::policy::Candidate| ProtectionCandidate {
        basis: weighed.basis.name().into(),
        repairs: weighed.repairs,
        cost: weighed.cost,
    };
    Event::FrameProtected {
        frame,
        basis: plan.basis.name().into(),
        repairs: plan.repairs,
        covers: plan.cover,
        expected_loss: plan.expected_loss,
        candidates: plan.candidates.iter().flatten().map(candidate).collect(),
    }
}
