//! Encodes and decodes the frames of `nearlight_fec::bench` with this crate and with other libraries, in one run; prints a JSON
//! object for each, in the layout of `nearlight lab fec-bench --json`.
//!
//! All are measured alike: to encode is from the frame to its repairs, set-up for a new shape included where a library needs one;
//! to decode is from the first repair to the whole frame, all sources that were not lost being there already. `raptorq` has its
//! plan made before, which it needs once for a shape.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nearlight_fec::bench::{SHAPES, SYMBOL_BYTES, measure, shape_name};
use nearlight_units::{Span, Time};
use raptorq::{ObjectTransmissionInformation, SourceBlockDecoder, SourceBlockEncoder, SourceBlockEncodingPlan};
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};
use serde_json::json;

/// How long each figure is measured.
const EACH: Duration = Duration::from_millis(20);

fn main() {
    let start = Instant::now();
    let mut clock = || Time::from_nanos(start.elapsed().as_nanos() as u64);
    for row in measure(&mut clock, Span::from_nanos(EACH.as_nanos() as i64)) {
        println!("{}", serde_json::to_string(&row).expect("numbers and names"));
    }
    let peers: [(&str, fn(&Frame) -> Option<[f64; 2]>); 3] =
        [("reed-solomon-simd", reed_solomon), ("raptorq", raptor), ("rlnc-simdx", network_code)];
    for (name, peer) in peers {
        let mut figures = [BTreeMap::new(), BTreeMap::new()];
        for shape in SHAPES {
            if let Some(measured) = peer(&Frame::new(shape)) {
                for (figures, micros) in figures.iter_mut().zip(measured) {
                    figures.insert(shape_name(shape), micros);
                }
            }
        }
        let [encode, decode] = figures;
        println!("{}", json!({ "kernel": name, "mac_gbps": null, "encode_us": encode, "decode_us": decode }));
    }
}

struct Frame {
    sources: usize,
    repairs: usize,
    symbols: Vec<Vec<u8>>,
}

impl Frame {
    fn new((sources, repairs): (u16, u16)) -> Self {
        let symbol = |number: u16| (0..SYMBOL_BYTES).map(|at| (at * 7 + usize::from(number) * 31) as u8).collect();
        Self { sources: sources.into(), repairs: repairs.into(), symbols: (0..sources).map(symbol).collect() }
    }

    /// As many sources as there are repairs.
    fn is_lost(&self, index: usize) -> bool {
        let step = self.sources / self.repairs;
        index % step == 0 && index / step < self.repairs
    }

    fn arrived(&self) -> impl Iterator<Item = (usize, &Vec<u8>)> {
        self.symbols.iter().enumerate().filter(|(index, _)| !self.is_lost(*index))
    }
}

/// Median in microseconds of what `run` says it took.
fn median(mut run: impl FnMut() -> Duration) -> f64 {
    let began = Instant::now();
    let mut spans = Vec::new();
    while spans.len() < 5 || (began.elapsed() < EACH && spans.len() < 20_000) {
        spans.push(run());
    }
    spans.sort_unstable();
    spans[spans.len() / 2].as_nanos() as f64 / 1e3
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let done = work();
    (done, began.elapsed())
}

fn reed_solomon(frame: &Frame) -> Option<[f64; 2]> {
    let Frame { sources, repairs, .. } = *frame;
    let mut encoder = ReedSolomonEncoder::new(sources, repairs, SYMBOL_BYTES).ok()?;
    let mut coded: Vec<Vec<u8>> = Vec::new();
    let encode = median(|| {
        encoder.reset(sources, repairs, SYMBOL_BYTES).expect("a shape");
        let (output, span) = timed(|| {
            for symbol in &frame.symbols {
                encoder.add_original_shard(symbol).expect("a source");
            }
            encoder.encode().expect("all sources").recovery_iter().map(<[u8]>::to_vec).collect()
        });
        coded = output;
        span
    });
    let mut decoder = ReedSolomonDecoder::new(sources, repairs, SYMBOL_BYTES).ok()?;
    let decode = median(|| {
        decoder.reset(sources, repairs, SYMBOL_BYTES).expect("a shape");
        for (index, symbol) in frame.arrived() {
            decoder.add_original_shard(index, symbol).expect("a source");
        }
        let (found, span) = timed(|| {
            for (number, symbol) in coded.iter().enumerate() {
                decoder.add_recovery_shard(number, symbol).expect("a repair");
            }
            let result = decoder.decode().expect("enough symbols");
            result.restored_original_iter().map(|(index, symbol)| (index, symbol.to_vec())).collect::<Vec<_>>()
        });
        assert!(found.iter().all(|(index, symbol)| *symbol == frame.symbols[*index]));
        span
    });
    Some([encode, decode])
}

fn raptor(frame: &Frame) -> Option<[f64; 2]> {
    let bytes = frame.symbols.concat();
    let config = ObjectTransmissionInformation::new(bytes.len() as u64, SYMBOL_BYTES as u16, 1, 1, 8);
    let plan = SourceBlockEncodingPlan::generate(frame.sources as u16);
    let mut packets = Vec::new();
    let encode = median(|| {
        let (encoder, span) = timed(|| {
            let encoder = SourceBlockEncoder::with_encoding_plan(0, &config, &bytes, &plan);
            // One more than are lost: at exactly as many it may fail.
            packets = encoder.repair_packets(0, frame.repairs as u32 + 1);
            encoder
        });
        drop(encoder);
        span
    });
    let sources = SourceBlockEncoder::with_encoding_plan(0, &config, &bytes, &plan).source_packets();
    let decode = median(|| {
        let mut decoder = SourceBlockDecoder::new(0, &config, bytes.len() as u64);
        let arrived = (0..).zip(&sources).filter(|(index, _)| !frame.is_lost(*index)).map(|(_, packet)| packet.clone());
        assert!(decoder.decode(arrived).is_none());
        let (found, span) = timed(|| packets.iter().find_map(|packet| decoder.decode([packet.clone()])));
        assert!(found.is_none_or(|found| found == bytes));
        span
    });
    Some([encode, decode])
}

fn network_code(frame: &Frame) -> Option<[f64; 2]> {
    // Its generator of coefficients is linear: above a rank of 64 repairs are worthless.
    if frame.repairs > 60 {
        return None;
    }
    let encoder = rlnc_simdx::Encoder::new(frame.sources, SYMBOL_BYTES).ok()?;
    let sources: Vec<&[u8]> = frame.symbols.iter().map(Vec::as_slice).collect();
    let mut random = rlnc_simdx::SimpleRng::new(5);
    let mut packets = Vec::new();
    let encode = median(|| {
        let (coded, span) = timed(|| {
            let repair = |_| encoder.encode_random(&sources, &mut random).expect("a generation");
            (0..frame.repairs).map(repair).collect()
        });
        packets = coded;
        span
    });
    let decode = median(|| {
        let mut decoder = rlnc_simdx::Decoder::new(frame.sources, SYMBOL_BYTES).expect("a shape");
        for (index, _) in frame.arrived() {
            decoder.receive(encoder.encode_systematic(&sources, index).expect("a source")).expect("a packet");
        }
        let arriving = packets.clone();
        let (found, span) = timed(|| {
            for packet in arriving {
                decoder.receive(packet).expect("a packet");
            }
            decoder.decode().expect("a decoder's state")
        });
        assert!(found.is_none_or(|found| found == frame.symbols));
        span
    });
    Some([encode, decode])
}
