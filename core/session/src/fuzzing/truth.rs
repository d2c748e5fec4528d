//! A sender's true frames, with forged symbols and false repairs among the genuine ones. The invariant: no frame is delivered with other
//! bytes than those of a digest that the receiver knew.

use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use nearlight_fec::{Code, Encoder, digest};
use nearlight_units::{FrameId, Time};
use nearlight_wire::{CoveredFrame, FrameHeader, MAX_COVERED_FRAMES, RepairHeader, SymbolFlags, SymbolHeader};

use super::header;
use crate::{ReadyFrame, Receiver};

/// Interval of key frames in frames, so that the picture recovers from every frame that was given up.
const GROUP: u32 = 8;

/// An operation on the true frames.
#[derive(Arbitrary, Clone, Debug)]
pub enum TrueOperation {
    /// A frame's symbols: those in the mask `lost` do not arrive, those in `forged` arrive with other bytes. Even masks count as zero.
    Symbols { ahead: u8, lost: u8, forged: u8, again: bool },
    /// Repairs by the real encoder. Half of them are false, in one of several ways.
    Repairs { ahead: u8, cover: u8, first: u8, count: u8, lie: u8 },
}

/// A frame as its sender created it.
struct Truth {
    code: Code,
    header: FrameHeader,
    bytes: Vec<u8>,
    bits_from: usize,
    reference_distance: u8,
}

impl Truth {
    fn of(frame: u32) -> Self {
        let header = header(Time::from_secs(1));
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        let bits_from = bytes.len();
        bytes.extend((0..150 + frame % 97 * 9).map(|index| index.wrapping_mul(31).wrapping_add(frame % 251 * 7) as u8));
        let code =
            Code::new(FrameId(frame), bytes.len() as u32, (frame % 5 + 1) as u16).expect("longer than it has symbols");
        Self { code, header, bytes, bits_from, reference_distance: u8::from(!frame.is_multiple_of(GROUP)) }
    }

    fn covered(&self) -> CoveredFrame {
        CoveredFrame {
            reference_distance: self.reference_distance,
            symbols: self.code.sources(),
            frame_bytes: self.bytes.len() as u32,
            digest: digest(&self.bytes),
        }
    }
}

/// Checks the frames that are delivered.
#[derive(Default)]
pub(super) struct Witness {
    /// Frames whose true digest the receiver has known.
    vouched: BTreeSet<u32>,
    /// Whether something other than forged symbols of true frames arrived, so that the receiver may have rejected a genuine repair.
    pub(super) misled: bool,
}

impl Witness {
    pub(super) fn apply(&mut self, receiver: &mut Receiver, now: Time, operation: &TrueOperation) {
        match *operation {
            TrueOperation::Symbols { ahead, lost, forged, again } => {
                let truth = Truth::of(near(receiver, ahead));
                let mask = |mask: u8, index: u16| mask % 2 == 1 && mask >> (index + 1) & 1 == 1;
                for index in (0..truth.code.sources()).filter(|index| !mask(lost, *index)) {
                    let datagram = symbol(receiver, now, &truth, index, again, mask(forged, index));
                    receiver.on_datagram(now, &datagram);
                }
            }
            TrueOperation::Repairs { ahead, cover, first, count, lie } => {
                for number in 0..u16::from(count % 4) {
                    self.repair(receiver, now, (ahead, cover), u16::from(first) + number, lie);
                }
            }
        }
        self.note(receiver);
    }

    fn repair(&mut self, receiver: &mut Receiver, now: Time, (ahead, cover): (u8, u8), number: u16, lie: u8) {
        let newest = near(receiver, ahead);
        let first = newest.saturating_sub(u32::from(cover) % MAX_COVERED_FRAMES as u32 / 4);
        let truths: Vec<Truth> = (first..=newest).map(Truth::of).collect();
        let frames: Vec<(Code, &[u8])> = truths.iter().map(|truth| (truth.code, truth.bytes.as_slice())).collect();
        let mut payload = vec![0; frames.iter().map(|(code, _)| code.symbol_bytes()).max().unwrap_or(0)];
        let mut encoder = Encoder::default();
        let numbers = number..number + 1;
        match frames.as_slice() {
            [(code, frame)] => encoder.repairs(code, frame, numbers, &mut payload),
            frames => encoder.window_repairs(frames, numbers, &mut payload),
        }
        .expect("true frames without a gap");
        let mut covered: Vec<CoveredFrame> = truths.iter().rev().map(Truth::covered).collect();
        let liar = usize::from(lie >> 4) % covered.len();
        match lie % 10 {
            0 => covered[liar].digest ^= 1,
            1 => covered[liar].symbols = covered[liar].symbols % 5 + 1,
            2 => covered[liar].frame_bytes += 1,
            3 => covered[liar].reference_distance ^= 1,
            4 => payload[0] ^= 1,
            _ => {}
        }
        self.misled |= lie % 10 < 4;
        let header = RepairHeader {
            on_demand: lie.is_multiple_of(3),
            seq: receiver.inspect().next_seq(),
            sent_at: now.for_peer(),
            frame: FrameId(newest),
            number,
            deadline_after_send_us: 0,
            covered,
        };
        payload.resize(header.payload_bytes(), 0);
        let mut datagram = Vec::new();
        header.write(&mut datagram);
        datagram.extend_from_slice(&payload);
        receiver.on_datagram(now, &datagram);
        for truth in truths.iter().filter(|truth| !self.misled && receiver.inspect().lacks(truth.code.frame())) {
            let known = receiver.inspect().digest(truth.code.frame());
            assert_eq!(known, Some(digest(&truth.bytes)), "of frame {} an honest repair came", truth.code.frame());
        }
        self.note(receiver);
    }

    /// Records frames whose true digest is known now, before any of them is delivered.
    pub(super) fn note(&mut self, receiver: &Receiver) {
        let newest = near(receiver, 0).saturating_add(u32::from(MAX_AHEAD));
        for frame in newest.saturating_sub(2 * GROUP)..=newest {
            if receiver.inspect().digest(FrameId(frame)).is_some_and(|known| known == digest(&Truth::of(frame).bytes)) {
                self.vouched.insert(frame);
            }
        }
    }

    pub(super) fn check(&self, frame: &ReadyFrame) {
        if self.vouched.contains(&frame.id.0) {
            let truth = Truth::of(frame.id.0);
            let true_bytes =
                frame.header == truth.header.clone().for_peer() && frame.bits() == &truth.bytes[truth.bits_from..];
            assert!(true_bytes, "frame {} has not the bytes of its digest", frame.id);
        }
    }
}

const MAX_AHEAD: u8 = 7;

/// A frame around the newest one that the receiver has seen, because it expects none elsewhere.
fn near(receiver: &Receiver, ahead: u8) -> u32 {
    receiver
        .inspect()
        .newest()
        .map_or(0, |newest| newest.0.saturating_sub(4))
        .saturating_add(u32::from(ahead % (MAX_AHEAD + 1)))
}

fn symbol(receiver: &Receiver, now: Time, truth: &Truth, index: u16, again: bool, forged: bool) -> Vec<u8> {
    let header = SymbolHeader {
        flags: SymbolFlags { key: truth.reference_distance == 0, retransmission: again, probe: false },
        reference_distance: truth.reference_distance,
        seq: receiver.inspect().next_seq(),
        sent_at: now.for_peer(),
        frame: truth.code.frame(),
        index,
        symbols: truth.code.sources(),
        frame_bytes: truth.bytes.len() as u32,
        deadline_after_send_us: 0,
    };
    let mut datagram = Vec::new();
    header.write(&mut datagram);
    datagram.extend_from_slice(&truth.bytes[truth.code.range(index)]);
    if let Some(last) = datagram.last_mut().filter(|_| forged) {
        *last ^= 0x55;
    }
    datagram
}
