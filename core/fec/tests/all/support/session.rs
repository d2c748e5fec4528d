//! A sender and a receiver of frames over a channel that loses packets in bursts, with real codes and requests for more.
//!
//! Not modelled: queues, pacing and jitter (packets take half a round trip), and lost requests.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use nearlight_fec::policy::{FrameFacts, Plan, RateDistortion, RedundancyPolicy, Shortage};
use nearlight_fec::{Code, Coverage, Encoder, Kernel, LossProcess, LossSummary, Window};
use nearlight_units::{Bitrate, Bytes, FrameId, Span, Time};
use rand_pcg::Pcg32;
use rand_pcg::rand_core::{RngCore, SeedableRng};

use super::LIMIT;

const INTERVAL: Span = Span::from_micros(16_667);
/// How long the receiver waits before a request.
const DETECT: Span = Span::from_millis(5);
/// Bytes in a symbol: enough for wrong symbols to show, few enough to be fast.
const SYMBOL: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub process: LossProcess,
    pub round_trip: Span,
    pub deadline: Span,
    pub sources: u16,
    /// Key frames, five times as large, come this often; 0 for only the first.
    pub group: u32,
    pub frames: u32,
    pub freeze: f64,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Outcomes {
    /// Repairs sent, with frames and on demand, per source.
    pub overhead: f64,
    /// Frames that were not whole at their deadline.
    pub residual: f64,
    /// Frames that were not whole, or predicted from one that was neither whole nor replaced by then.
    pub bad: f64,
    /// The value of `residual` that the plans expected.
    pub expected: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Frame(u32),
    Request(u32),
    Answer(u32, u16),
}

struct Sent {
    code: Code,
    bytes: Vec<u8>,
    facts: FrameFacts,
    plan: Plan,
    repairs: u16,
    /// When repairs left that cover this frame among others.
    covered_at: Vec<Time>,
}

struct Session<'a> {
    cell: Cell,
    policy: &'a mut dyn RedundancyPolicy,
    encoder: Encoder,
    receiver: Window,
    sent: Vec<Sent>,
    whole_at: BTreeMap<u32, Time>,
    random: Pcg32,
    bad: bool,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    repairs: u32,
    sources: u32,
}

pub fn run(cell: Cell, policy: &mut dyn RedundancyPolicy) -> Outcomes {
    let mut session = Session {
        cell,
        policy,
        encoder: Encoder::default(),
        receiver: Window::new(Kernel::best(), LIMIT),
        sent: Vec::new(),
        whole_at: BTreeMap::new(),
        random: Pcg32::seed_from_u64(cell.seed),
        bad: false,
        events: BinaryHeap::new(),
        repairs: 0,
        sources: 0,
    };
    for frame in 0..cell.frames {
        session.events.push(Reverse((sent_at(frame) + cell.round_trip / 2, Event::Frame(frame))));
    }
    while let Some(Reverse((now, event))) = session.events.pop() {
        match event {
            Event::Frame(frame) => session.send(now, frame),
            Event::Request(frame) => session.request(now, frame),
            Event::Answer(frame, needed) => session.answer(now, frame, needed),
        }
    }
    session.outcomes()
}

fn sent_at(frame: u32) -> Time {
    Time::ZERO + INTERVAL * i64::from(frame)
}

impl Session<'_> {
    fn facts(&self, frame: u32) -> FrameFacts {
        let Cell { process, round_trip, deadline, sources, group, freeze, .. } = self.cell;
        let index = if group > 0 { frame % group } else { frame };
        FrameFacts {
            sources: if index == 0 { 5 * sources } else { sources },
            packet: Bytes::new(1_200),
            key: index == 0,
            index,
            group,
            interval: INTERVAL,
            deadline,
            round_trip,
            jitter: Span::ZERO,
            losses: LossSummary::random(process),
            rate: Bitrate::from_mbps(20),
            distortion: RateDistortion { freeze, ..RateDistortion::TYPICAL },
            interleaved: false,
            window: 16,
        }
    }

    /// Whether the channel loses the next packet.
    fn loses(&mut self) -> bool {
        let LossProcess { loss, burst } = self.cell.process;
        let ends = 1.0 / burst;
        let change = if self.bad { ends } else { loss * ends / (1.0 - loss) };
        if f64::from(self.random.next_u32()) < change * 4_294_967_296.0 {
            self.bad = !self.bad;
        }
        self.bad
    }

    fn send(&mut self, now: Time, frame: u32) {
        let facts = self.facts(frame);
        let plan = self.policy.plan(&facts);
        let code = Code::new(FrameId(frame), u32::from(facts.sources) * SYMBOL, facts.sources).expect("a shape");
        let mut bytes = vec![0; code.bytes()];
        self.random.fill_bytes(&mut bytes);
        self.sent.push(Sent { code, bytes, facts, plan, repairs: 0, covered_at: Vec::new() });
        self.sources += u32::from(facts.sources);
        for index in 0..facts.sources {
            if !self.loses() {
                let symbol = &self.sent[frame as usize].bytes[code.range(index)];
                self.receiver.on_source(&code, index, symbol).expect("a source");
            }
        }
        let reach = usize::from(plan.cover).min(self.sent.len());
        if reach <= 1 {
            self.send_repairs(frame, plan.repairs);
        } else {
            let at = now - self.cell.round_trip / 2;
            let first = self.sent.len() - reach;
            for sent in &mut self.sent[first..] {
                sent.covered_at.extend((0..plan.repairs).map(|_| at));
            }
            self.send_window(reach, plan.repairs);
        }
        self.note_whole(now);
        self.events.push(Reverse((now + DETECT, Event::Request(frame))));
    }

    fn send_repairs(&mut self, frame: u32, count: u16) {
        let sent = &mut self.sent[frame as usize];
        let first = sent.repairs;
        sent.repairs += count;
        let code = sent.code;
        let mut repairs = vec![0; usize::from(count) * code.symbol_bytes()];
        self.encoder.repairs(&code, &sent.bytes, first..first + count, &mut repairs).expect("encodes");
        for (number, repair) in (first..).zip(repairs.chunks(code.symbol_bytes())) {
            self.repairs += 1;
            if !self.loses() {
                // A frame that the receiver has given up has no use for it.
                let _ = self.receiver.on_repair(&code, number, repair);
            }
        }
    }

    fn send_window(&mut self, reach: usize, count: u16) {
        let covered = &self.sent[self.sent.len() - reach..];
        let codes: Vec<Code> = covered.iter().map(|sent| sent.code).collect();
        let frames: Vec<(Code, &[u8])> = covered.iter().map(|sent| (sent.code, sent.bytes.as_slice())).collect();
        let mut repairs = vec![0; usize::from(count) * SYMBOL as usize];
        self.encoder.window_repairs(&frames, 0..count, &mut repairs).expect("encodes");
        for (number, repair) in (0..).zip(repairs.chunks(SYMBOL as usize)) {
            self.repairs += 1;
            if !self.loses() {
                self.receiver.on_window_repair(&Coverage { codes: &codes, number }, repair).expect("a repair");
            }
        }
    }

    fn request(&mut self, now: Time, frame: u32) {
        let sent = &self.sent[frame as usize];
        let age = now.saturating_since(sent_at(frame));
        // Later frames no longer predict from one that is as old as that.
        if !sent.plan.on_demand || self.whole_at.contains_key(&frame) || age > Span::from_millis(400) {
            return;
        }
        let needed = self.receiver.decoder(FrameId(frame)).map_or(sent.facts.sources, nearlight_fec::Decoder::needed);
        self.events.push(Reverse((now + self.cell.round_trip, Event::Answer(frame, needed))));
    }

    fn answer(&mut self, now: Time, frame: u32, needed: u16) {
        let asked_at = now - self.cell.round_trip / 2;
        let mut facts = self.sent[frame as usize].facts;
        facts.deadline = sent_at(frame) + facts.deadline - asked_at;
        // What left within a round trip before was not there when the receiver asked.
        let known_to = asked_at - self.cell.round_trip;
        let covered_at = &self.sent[frame as usize].covered_at;
        let underway = covered_at.iter().filter(|at| **at > known_to).count() as u16;
        let count = self.policy.answer(&Shortage { needed, underway, facts }).expect("it has sent answers");
        assert!(count + underway >= needed);
        self.send_repairs(frame, count);
        self.note_whole(now);
        self.events.push(Reverse((now + DETECT, Event::Request(frame))));
    }

    fn note_whole(&mut self, now: Time) {
        while let Some(frame) = self.receiver.poll_completed() {
            let found = self.receiver.decoder(frame).and_then(|decoder| decoder.frame());
            assert_eq!(found, Some(self.sent[frame.0 as usize].bytes.as_slice()));
            self.whole_at.entry(frame.0).or_insert(now);
        }
    }

    fn outcomes(&self) -> Outcomes {
        let Cell { deadline, round_trip, frames, group, .. } = self.cell;
        // Without an answer, the encoder learns of the loss and predicts from an older frame.
        let recovery = ((round_trip + DETECT).as_nanos() / INTERVAL.as_nanos() + 2) as u32;
        let in_time = |frame: u32, by: u32| self.whole_at.get(&frame).is_some_and(|at| *at <= sent_at(by) + deadline);
        let is_bad = |frame: &u32| {
            let oldest = frame.saturating_sub(recovery - 1).max(if group > 0 { frame - frame % group } else { 0 });
            (oldest..=*frame).any(|other| !in_time(other, *frame))
        };
        let share = |count: usize| count as f64 / f64::from(frames);
        Outcomes {
            overhead: f64::from(self.repairs) / f64::from(self.sources),
            residual: share((0..frames).filter(|frame| !in_time(*frame, *frame)).count()),
            bad: share((0..frames).filter(is_bad).count()),
            expected: self.sent.iter().map(|sent| sent.plan.expected_loss.unwrap_or(0.0)).sum::<f64>()
                / f64::from(frames),
        }
    }
}
