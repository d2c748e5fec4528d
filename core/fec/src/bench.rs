//! Kernel performance on this machine: throughput, and the time to encode and decode frames of usual shapes.
//!
//! Reads no clock itself: the caller passes one.

use std::collections::BTreeMap;

use nearlight_units::{Bytes, FrameId, Span, Time};
use serde::Serialize;

use crate::code::{Code, Encoder};
use crate::decoder::Decoder;
use crate::kernel::Kernel;

/// Bytes in a symbol, as in the figures of the literature that these are compared with.
pub const SYMBOL_BYTES: usize = 1_200;

/// Numbers of sources and repairs of the measured frames: small to large ones with 10 % and 25 % repairs, rounded up.
pub const SHAPES: [(u16, u16); 11] =
    [(4, 1), (10, 1), (10, 3), (40, 4), (40, 10), (100, 10), (100, 25), (200, 20), (200, 50), (400, 40), (400, 100)];

/// The name of a shape in [`Measurement`]: sources, plus sign, repairs.
#[must_use]
pub fn shape_name((sources, repairs): (u16, u16)) -> String {
    format!("{sources}+{repairs}")
}

/// Number of repairs beyond the lost symbols: in 0.4 % of the cases the seeded repairs of a large frame need one more.
pub const SPARE_REPAIRS: u16 = 4;

/// The medians of one implementation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// The name of the kernel ([`Kernel::name`]) or of another library.
    pub kernel: &'static str,
    /// Multiply-accumulate throughput in 10^9 bytes times coefficients per second. None if a library does not expose its multiplication.
    pub mac_gbps: Option<f64>,
    /// Microseconds to make all repairs, by shape.
    pub encode_us: BTreeMap<String, f64>,
    /// Microseconds from the first repair to the complete frame, by shape, if as many sources were lost as there are repairs and all
    /// others have arrived before.
    pub decode_us: BTreeMap<String, f64>,
}

/// Measures every kernel that this processor supports, fastest first, for about `each` per value.
///
/// # Panics
/// If a decoded frame differs from the original, which would be a bug in this crate.
pub fn measure(clock: &mut dyn FnMut() -> Time, each: Span) -> Vec<Measurement> {
    measure_shapes(&SHAPES, clock, each)
}

fn measure_shapes(shapes: &[(u16, u16)], clock: &mut dyn FnMut() -> Time, each: Span) -> Vec<Measurement> {
    let mut stopwatch = Stopwatch { clock, each };
    let row = |kernel: Kernel| Measurement {
        kernel: kernel.name(),
        mac_gbps: Some(stopwatch.multiply(kernel)),
        encode_us: shapes.iter().map(|shape| (shape_name(*shape), stopwatch.encode(kernel, *shape))).collect(),
        decode_us: shapes.iter().map(|shape| (shape_name(*shape), stopwatch.decode(kernel, *shape))).collect(),
    };
    Kernel::available().map(row).collect()
}

/// A frame's content. Any bytes do, because no kernel's time depends on them.
fn content(length: usize) -> Vec<u8> {
    (0..length as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

struct Stopwatch<'a> {
    clock: &'a mut dyn FnMut() -> Time,
    each: Span,
}

impl Stopwatch<'_> {
    /// Returns the median time of `work`, in microseconds, each time after `prepare`.
    fn median<State>(
        &mut self,
        state: &mut State,
        mut prepare: impl FnMut(&mut State),
        mut work: impl FnMut(&mut State),
    ) -> f64 {
        /// Bounds of the number of runs: fewer are not representative, more waste memory.
        const RUN_BOUNDS: std::ops::Range<usize> = 5..20_000;
        let mut spans = Vec::new();
        let began = (self.clock)();
        loop {
            prepare(state);
            let from = (self.clock)();
            work(state);
            let to = (self.clock)();
            spans.push(to - from);
            if spans.len() >= RUN_BOUNDS.end || (spans.len() >= RUN_BOUNDS.start && to - began >= self.each) {
                break;
            }
        }
        spans.sort_unstable();
        spans[spans.len() / 2].as_nanos() as f64 / 1e3
    }

    fn multiply(&mut self, kernel: Kernel) -> f64 {
        /// Number of products in a run, so that reading the clock does not count.
        const PRODUCTS_PER_RUN: usize = 16;
        let (rows, sources) = (6, 100);
        let input = content(sources * SYMBOL_BYTES);
        let coefficients: Vec<u8> = (0..rows * sources).map(|index| index as u8 | 1).collect();
        let symbols: Vec<&[u8]> = input.chunks(SYMBOL_BYTES).collect();
        let multiply = |output: &mut Vec<u8>| {
            for _ in 0..PRODUCTS_PER_RUN {
                let mut outputs: Vec<&mut [u8]> = output.chunks_mut(SYMBOL_BYTES).collect();
                kernel.multiply(&coefficients, &symbols, &mut outputs);
            }
        };
        let micros = self.median(&mut vec![0; rows * SYMBOL_BYTES], |_| {}, multiply);
        (PRODUCTS_PER_RUN * rows * sources * SYMBOL_BYTES) as f64 / micros / 1e3
    }

    fn encode(&mut self, kernel: Kernel, (sources, repairs): (u16, u16)) -> f64 {
        let (code, frame) = frame(sources);
        let mut encoder = Encoder::new(kernel);
        let mut output = vec![0; usize::from(repairs) * SYMBOL_BYTES];
        self.median(
            &mut output,
            |_| {},
            |output| encoder.repairs(&code, &frame, 0..repairs, output).expect("the frame of this code"),
        )
    }

    fn decode(&mut self, kernel: Kernel, (sources, repairs): (u16, u16)) -> f64 {
        /// Memory limit of the decoder: more than any of the shapes takes.
        const LIMIT: Bytes = Bytes::new(64 << 20);
        let (code, frame) = frame(sources);
        let mut coded = vec![0; usize::from(repairs + SPARE_REPAIRS) * SYMBOL_BYTES];
        let numbers = 0..repairs + SPARE_REPAIRS;
        Encoder::new(kernel).repairs(&code, &frame, numbers, &mut coded).expect("the frame of this code");
        let mut coded = (0..).zip(coded.chunks(SYMBOL_BYTES));
        let measured: Vec<(u16, &[u8])> = coded.by_ref().take(repairs.into()).collect();
        let mut decoder = Decoder::new(kernel, code, LIMIT).expect("within the limit");
        let step = sources / repairs;
        let mut run = 0;
        let lose_and_feed = |decoder: &mut Decoder| {
            decoder.reset(code, LIMIT).expect("within the limit");
            run += 1;
            // Each run loses other symbols.
            let lost = |index: u16| index % step == run % step && index / step < repairs;
            for index in (0..sources).filter(|index| !lost(*index)) {
                decoder.on_source(index, &frame[code.range(index)]).expect("a source");
            }
        };
        let micros = self.median(&mut decoder, lose_and_feed, |decoder| {
            for (number, symbol) in &measured {
                decoder.on_repair(*number, symbol).expect("a repair");
            }
        });
        for (number, symbol) in coded {
            decoder.on_repair(number, symbol).expect("a repair");
        }
        assert!(decoder.frame() == Some(&frame), "the frame that was sent");
        micros
    }
}

fn frame(sources: u16) -> (Code, Vec<u8>) {
    let frame = content(usize::from(sources) * SYMBOL_BYTES);
    (Code::new(FrameId(0), frame.len() as u32, sources).expect("whole symbols"), frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_a_figure_for_every_shape() {
        let mut now = Time::ZERO;
        let mut clock = || {
            now += Span::from_micros(48);
            now
        };
        let shapes = &SHAPES[..6];
        let rows = measure_shapes(shapes, &mut clock, Span::ZERO);
        assert_eq!(rows.len(), Kernel::available().count());
        for row in rows {
            // 16 products of 6 times 100 symbols within a tick of the clock: 11.52 MB in 48 microseconds.
            assert!(row.mac_gbps.is_some_and(|speed| (speed - 240.0).abs() < 1e-9), "{row:?}");
            assert_eq!((row.encode_us.len(), row.decode_us.len()), (shapes.len(), shapes.len()));
            for shape in shapes.iter().map(|shape| shape_name(*shape)) {
                assert!((row.encode_us[&shape] - 48.0).abs() + (row.decode_us[&shape] - 48.0).abs() < 1e-9);
            }
        }
    }
}
