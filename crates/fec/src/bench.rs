//! Kernel performance on this machine: throughput, and the time to encode and decode frames of the usual shapes.
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

/// Sources and repairs of the frames that are measured: 10 % and 25 %, rounded up, of small to large ones.
pub const SHAPES: [(u16, u16); 11] =
    [(4, 1), (10, 1), (10, 3), (40, 4), (40, 10), (100, 10), (100, 25), (200, 20), (200, 50), (400, 40), (400, 100)];

/// The name of a shape in [`Row`]: sources, plus sign, repairs.
#[must_use]
pub fn shape_name((sources, repairs): (u16, u16)) -> String {
    format!("{sources}+{repairs}")
}

/// Repairs beyond as many as are lost: in 0.4 % of the cases the seeded ones of a large frame need one more.
pub const SPARE_REPAIRS: u16 = 4;

/// The figures of one kernel, medians.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// As [`Kernel::name`].
    pub kernel: &'static str,
    /// Multiply-accumulate: 10^9 bytes times coefficients a second.
    pub mac_gbps: f64,
    /// Microseconds to make all repairs, by shape.
    pub encode_us: BTreeMap<String, f64>,
    /// Microseconds from the first repair to the whole frame, where as many sources were lost as there are repairs and all others
    /// have come before.
    pub decode_us: BTreeMap<String, f64>,
}

/// Measures every kernel that this processor has, fastest first, for about `each` a figure.
///
/// # Panics
/// If a decoded frame differs from the original, which would be a bug in this crate.
pub fn measure(clock: &mut dyn FnMut() -> Time, each: Span) -> Vec<Row> {
    measure_shapes(&SHAPES, clock, each)
}

fn measure_shapes(shapes: &[(u16, u16)], clock: &mut dyn FnMut() -> Time, each: Span) -> Vec<Row> {
    let mut stopwatch = Stopwatch { clock, each };
    let row = |kernel: Kernel| Row {
        kernel: kernel.name(),
        mac_gbps: stopwatch.multiply(kernel),
        encode_us: shapes.iter().map(|shape| (shape_name(*shape), stopwatch.encode(kernel, *shape))).collect(),
        decode_us: shapes.iter().map(|shape| (shape_name(*shape), stopwatch.decode(kernel, *shape))).collect(),
    };
    Kernel::available().map(row).collect()
}

/// A frame's content: any bytes do, for no kernel's time depends on them.
fn content(length: usize) -> Vec<u8> {
    (0..length as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

struct Stopwatch<'a> {
    clock: &'a mut dyn FnMut() -> Time,
    each: Span,
}

impl Stopwatch<'_> {
    /// Median time of `work`, in microseconds, each time after `prepare`.
    fn median<State>(
        &mut self,
        state: &mut State,
        mut prepare: impl FnMut(&mut State),
        mut work: impl FnMut(&mut State),
    ) -> f64 {
        /// Fewer are not representative, more waste memory.
        const RUNS: std::ops::Range<usize> = 5..20_000;
        let mut spans = Vec::new();
        let began = (self.clock)();
        loop {
            prepare(state);
            let from = (self.clock)();
            work(state);
            let to = (self.clock)();
            spans.push(to - from);
            if spans.len() >= RUNS.end || (spans.len() >= RUNS.start && to - began >= self.each) {
                break;
            }
        }
        spans.sort_unstable();
        spans[spans.len() / 2].as_nanos() as f64 / 1e3
    }

    fn multiply(&mut self, kernel: Kernel) -> f64 {
        /// Several products a run, so that reading the clock does not count.
        const TIMES: usize = 16;
        let (rows, sources) = (6, 100);
        let input = content(sources * SYMBOL_BYTES);
        let coefficients: Vec<u8> = (0..rows * sources).map(|index| index as u8 | 1).collect();
        let symbols: Vec<&[u8]> = input.chunks(SYMBOL_BYTES).collect();
        let multiply = |output: &mut Vec<u8>| {
            for _ in 0..TIMES {
                let mut outputs: Vec<&mut [u8]> = output.chunks_mut(SYMBOL_BYTES).collect();
                kernel.multiply(&coefficients, &symbols, &mut outputs);
            }
        };
        let micros = self.median(&mut vec![0; rows * SYMBOL_BYTES], |_| {}, multiply);
        (TIMES * rows * sources * SYMBOL_BYTES) as f64 / micros / 1e3
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
        /// More than any of the shapes takes.
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
            // Each run loses others.
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
            assert!((row.mac_gbps - 240.0).abs() < 1e-9, "{row:?}");
            assert_eq!((row.encode_us.len(), row.decode_us.len()), (shapes.len(), shapes.len()));
            for shape in shapes.iter().map(|shape| shape_name(*shape)) {
                assert!((row.encode_us[&shape] - 48.0).abs() + (row.decode_us[&shape] - 48.0).abs() < 1e-9);
            }
        }
    }
}
