//! The device: assembles and decodes frames.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearlight_codec::{CodecKind, Decoder, Picture, new_decoder, quality};

use crate::ladder::clock;
use crate::ladder::network::{Calls, End};
use crate::ladder::pictures::TestPictures;
use crate::ladder::step::Step;

/// Silence after which a turn ends.
const MAX_SILENCE: Duration = Duration::from_millis(700);
/// Interval in frames at which a decoded picture is compared with the original, which takes as long as decoding.
const COMPARISON_INTERVAL: u32 = 10;
/// A report of the least size of the protocol's reports.
const REPORT_BYTES: [u8; 24] = [0; 24];

/// One turn of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTurn {
    pub(crate) step: Step,
    /// Number of its first frame.
    pub(crate) first: u32,
    pub(crate) frames: u32,
}

/// A frame as the device has seen it; times are nanoseconds of [`clock::now`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedFrame {
    pub(crate) number: u32,
    pub(crate) arrived_at: u64,
    pub(crate) decoded_at: u64,
    pub(crate) calls: Calls,
    pub(crate) cpu: u64,
    pub(crate) similarity: Option<f64>,
}

pub(crate) struct Device {
    end: End,
    pictures: Arc<TestPictures>,
    decoders: BTreeMap<Step, Box<dyn Decoder>>,
    /// A frame was lost: the host is to make a key frame.
    key_wanted: Arc<AtomicBool>,
}

/// A frame of which some packets have arrived.
#[derive(Default)]
struct PartialFrame {
    number: u32,
    packets: u16,
    missing: Option<u16>,
    bytes: usize,
    bits: Vec<u8>,
}

impl PartialFrame {
    fn on_packet(&mut self, packet: crate::ladder::network::Packet<'_>) {
        if packet.frame != self.number || self.missing.is_none() {
            (self.number, self.packets, self.bytes) = (packet.frame, 0, 0);
            self.missing = Some(packet.count);
        }
        let (from, to) = (packet.offset(), packet.offset() + packet.bits.len());
        if self.bits.len() < to {
            self.bits.resize(to, 0);
        }
        self.bits[from..to].copy_from_slice(packet.bits);
        self.packets += 1;
        self.bytes = self.bytes.max(to);
    }

    fn take(&mut self) -> Option<(u32, &[u8])> {
        (self.missing == Some(self.packets)).then(|| {
            self.missing = None;
            (self.number, &self.bits[..self.bytes])
        })
    }
}

impl Device {
    pub(crate) fn new(end: End, pictures: Arc<TestPictures>, key_wanted: Arc<AtomicBool>) -> Self {
        Self { end, pictures, decoders: BTreeMap::new(), key_wanted }
    }

    /// Receives what a step sends, until its last frame has come or nothing comes any more.
    pub(crate) fn receive(&mut self, turn: StepTurn) -> io::Result<Vec<ReceivedFrame>> {
        let StepTurn { step, first, frames } = turn;
        let method = step.method();
        let mut arriving = PartialFrame::default();
        let mut received = Vec::with_capacity(frames as usize);
        let mut pictures: Vec<(usize, Picture)> = Vec::new();
        let (mut calls, mut began) = (0, clock::thread_time());
        while received.last().is_none_or(|last: &ReceivedFrame| last.number + 1 < first + frames) {
            calls += 1;
            if !self.end.wait(method, MAX_SILENCE)? {
                break;
            }
            match self.end.receive(method, |packet| arriving.on_packet(packet)) {
                Ok(more) => calls += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            let Some((number, bits)) = arriving.take() else { continue };
            let arrived_at = clock::now();
            let decoder = match self.decoders.entry(step) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(new_decoder(CodecKind::H264).map_err(io::Error::other)?)
                }
            };
            let Ok(decoded) = decoder.decode(bits) else {
                self.key_wanted.store(true, Ordering::Relaxed);
                continue;
            };
            let decoded_at = clock::now();
            let Some(view) = decoded else { continue };
            if number % COMPARISON_INTERVAL == 0 {
                let mut picture = Picture::new(view.size);
                view.copy_to(&mut picture);
                pictures.push((received.len(), picture));
            }
            if step.reports() {
                calls += self.end.send(method, number, &REPORT_BYTES)?;
            }
            let ended = clock::thread_time();
            let cpu = ended - std::mem::replace(&mut began, ended);
            received.push(ReceivedFrame { number, arrived_at, decoded_at, calls, cpu, similarity: None });
            calls = 0;
        }
        // Not while frames arrive.
        for (place, picture) in pictures {
            let original = self.pictures.view(received[place].number);
            received[place].similarity = quality::ssim(original, picture.view()).ok();
        }
        Ok(received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::network::Packet;

    #[test]
    fn frames_are_put_together_in_any_order_and_lost_ones_left_behind() {
        let mut arriving = PartialFrame::default();
        let packet = |frame, index, bits| Packet { frame, index, count: 2, bits };
        let whole: Vec<u8> = (0..1_392).map(|byte| byte as u8).collect();
        arriving.on_packet(packet(0, 1, &[7, 8]));
        assert!(arriving.take().is_none());
        arriving.on_packet(packet(0, 0, &whole));
        let (number, bits) = arriving.take().expect("both have come");
        assert_eq!((number, bits.len(), &bits[1_390..]), (0, 1_394, &[110, 111, 7, 8][..]));
        arriving.on_packet(packet(1, 0, &whole));
        arriving.on_packet(packet(2, 1, &[9]));
        assert!(arriving.take().is_none(), "half of a frame and half of another");
        arriving.on_packet(packet(2, 0, &whole));
        assert_eq!(arriving.take().map(|(number, bits)| (number, bits.len())), Some((2, 1_393)));
    }
}
