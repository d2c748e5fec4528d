//! Encodes and decodes the frames of `nearlight_fec::bench` with other libraries, as rows of the same table.
//!
//! All libraries are measured in the same way. Encoding lasts from the frame to its repairs, including the set-up for a new shape if a
//! library needs one. Decoding lasts from the first repair to the whole frame; all sources that were not lost have arrived before. The plan
//! that `raptorq` needs once for each shape is made in advance. The module reads no clock itself: the caller passes one.

use std::collections::BTreeMap;

use nearlight_fec::bench::{Measurement, SHAPES, SYMBOL_BYTES, shape_name};
use nearlight_units::{Span, Time};
use raptorq::{ObjectTransmissionInformation, SourceBlockDecoder, SourceBlockEncoder, SourceBlockEncodingPlan};
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

/// Measures every library for about `each` a figure.
///
/// # Panics
/// If a frame comes back as something else, which would be a fault of that library.
pub(crate) fn measure(clock: &mut dyn FnMut() -> Time, each: Span) -> Vec<Measurement> {
    measure_shapes(&SHAPES, clock, each)
}

/// Medians of encoding and decoding in microseconds; none where the library cannot do the shape.
type Library = fn(&mut Stopwatch<'_>, &Frame) -> Option<[f64; 2]>;

fn measure_shapes(shapes: &[(u16, u16)], clock: &mut dyn FnMut() -> Time, each: Span) -> Vec<Measurement> {
    let mut stopwatch = Stopwatch { clock, each };
    let libraries: [(&str, Library); 3] = [
        ("reed-solomon-simd", reed_solomon),
        ("raptorq", |stopwatch, frame| Some(raptor(stopwatch, frame))),
        ("rlnc-simdx", network_code),
    ];
    let row = |(kernel, library): (&'static str, Library)| {
        let mut row = Measurement { kernel, mac_gbps: None, encode_us: BTreeMap::new(), decode_us: BTreeMap::new() };
        for shape in shapes {
            if let Some([encode, decode]) = library(&mut stopwatch, &Frame::new(*shape)) {
                row.encode_us.insert(shape_name(*shape), encode);
                row.decode_us.insert(shape_name(*shape), decode);
            }
        }
        row
    };
    libraries.map(row).to_vec()
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

    /// Returns whether a source is lost: as many as there are repairs.
    fn is_lost(&self, index: usize) -> bool {
        let step = self.sources / self.repairs;
        index.is_multiple_of(step) && index / step < self.repairs
    }

    fn arrived(&self) -> impl Iterator<Item = (usize, &Vec<u8>)> {
        self.symbols.iter().enumerate().filter(|(index, _)| !self.is_lost(*index))
    }
}

struct Stopwatch<'a> {
    clock: &'a mut dyn FnMut() -> Time,
    each: Span,
}

impl Stopwatch<'_> {
    /// Median in microseconds of what `run` says it took.
    fn median(&mut self, mut run: impl FnMut(&mut Self) -> Span) -> f64 {
        let began = (self.clock)();
        let mut spans = Vec::new();
        while spans.len() < 5 || ((self.clock)() - began < self.each && spans.len() < 20_000) {
            spans.push(run(self));
        }
        spans.sort_unstable();
        spans[spans.len() / 2].as_nanos() as f64 / 1e3
    }

    fn timed<T>(&mut self, work: impl FnOnce() -> T) -> (T, Span) {
        let began = (self.clock)();
        let done = work();
        (done, (self.clock)() - began)
    }
}

fn reed_solomon(stopwatch: &mut Stopwatch<'_>, frame: &Frame) -> Option<[f64; 2]> {
    let Frame { sources, repairs, .. } = *frame;
    let mut encoder = ReedSolomonEncoder::new(sources, repairs, SYMBOL_BYTES).ok()?;
    let mut coded: Vec<Vec<u8>> = Vec::new();
    let encode = stopwatch.median(|stopwatch| {
        encoder.reset(sources, repairs, SYMBOL_BYTES).expect("a shape");
        let (output, span) = stopwatch.timed(|| {
            for symbol in &frame.symbols {
                encoder.add_original_shard(symbol).expect("a source");
            }
            encoder.encode().expect("all sources").recovery_iter().map(<[u8]>::to_vec).collect()
        });
        coded = output;
        span
    });
    let mut decoder = ReedSolomonDecoder::new(sources, repairs, SYMBOL_BYTES).ok()?;
    let decode = stopwatch.median(|stopwatch| {
        decoder.reset(sources, repairs, SYMBOL_BYTES).expect("a shape");
        for (index, symbol) in frame.arrived() {
            decoder.add_original_shard(index, symbol).expect("a source");
        }
        let (found, span) = stopwatch.timed(|| {
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

fn raptor(stopwatch: &mut Stopwatch<'_>, frame: &Frame) -> [f64; 2] {
    let bytes = frame.symbols.concat();
    let config = ObjectTransmissionInformation::new(bytes.len() as u64, SYMBOL_BYTES as u16, 1, 1, 8);
    let plan = SourceBlockEncodingPlan::generate(frame.sources as u16);
    let mut packets = Vec::new();
    let encode = stopwatch.median(|stopwatch| {
        let (encoder, span) = stopwatch.timed(|| {
            let encoder = SourceBlockEncoder::with_encoding_plan(0, &config, &bytes, &plan);
            // One more than are lost: at exactly as many it may fail.
            packets = encoder.repair_packets(0, frame.repairs as u32 + 1);
            encoder
        });
        drop(encoder);
        span
    });
    let sources = SourceBlockEncoder::with_encoding_plan(0, &config, &bytes, &plan).source_packets();
    let decode = stopwatch.median(|stopwatch| {
        let mut decoder = SourceBlockDecoder::new(0, &config, bytes.len() as u64);
        let arrived = (0..).zip(&sources).filter(|(index, _)| !frame.is_lost(*index)).map(|(_, packet)| packet.clone());
        assert!(decoder.decode(arrived).is_none());
        let (found, span) = stopwatch.timed(|| packets.iter().find_map(|packet| decoder.decode([packet.clone()])));
        assert!(found.is_none_or(|found| found == bytes));
        span
    });
    [encode, decode]
}

fn network_code(stopwatch: &mut Stopwatch<'_>, frame: &Frame) -> Option<[f64; 2]> {
    // Its generator of coefficients is linear: above a rank of 64 repairs are worthless.
    if frame.repairs > 60 {
        return None;
    }
    let encoder = rlnc_simdx::Encoder::new(frame.sources, SYMBOL_BYTES).ok()?;
    let sources: Vec<&[u8]> = frame.symbols.iter().map(Vec::as_slice).collect();
    let mut random = rlnc_simdx::SimpleRng::new(5);
    let mut packets = Vec::new();
    let encode = stopwatch.median(|stopwatch| {
        let (coded, span) = stopwatch.timed(|| {
            let repair = |_| encoder.encode_random(&sources, &mut random).expect("a generation");
            (0..frame.repairs).map(repair).collect()
        });
        packets = coded;
        span
    });
    let decode = stopwatch.median(|stopwatch| {
        let mut decoder = rlnc_simdx::Decoder::new(frame.sources, SYMBOL_BYTES).expect("a shape");
        for (index, _) in frame.arrived() {
            decoder.receive(encoder.encode_systematic(&sources, index).expect("a source")).expect("a packet");
        }
        let arriving = packets.clone();
        let (found, span) = stopwatch.timed(|| {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every library gives small frames back; the functions above assert it.
    #[test]
    fn every_library_has_a_row_with_the_shapes_it_can_do() {
        let mut time = Time::ZERO;
        let mut clock = || {
            time += Span::from_micros(1);
            time
        };
        let rows = measure_shapes(&[(10, 3), (400, 100)], &mut clock, Span::from_micros(20));
        let shapes: Vec<_> = rows.iter().map(|row| (row.kernel, row.encode_us.len(), row.decode_us.len())).collect();
        assert_eq!(shapes, [("reed-solomon-simd", 2, 2), ("raptorq", 2, 2), ("rlnc-simdx", 1, 1)]);
        assert!(rows.iter().flat_map(|row| row.encode_us.values()).all(|micros| *micros > 0.0));
    }
}
