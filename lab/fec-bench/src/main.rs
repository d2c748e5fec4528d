//! Compares every kernel that this processor has with the plain one, then measures the kernels and, natively, other libraries. It prints one
//! JSON object for each, whose fields are those of [`nearlight_fec::bench::Measurement`]: `cargo run --release -p nearlight-fec-bench`.
//!
//! With the argument `check` it only compares; a name after it is that of a kernel that must be present. A difference ends the program with
//! exit code 1. `scripts/test.sh` and `scripts/bench.sh` also run it in WebAssembly, which is why it is a crate of its own.

#[cfg(not(target_family = "wasm"))]
mod peers;

use std::process::ExitCode;

use nearlight_fec::bench::{SHAPES, SPARE_REPAIRS, measure, shape_name};
use nearlight_fec::{Code, Decoder, Encoder, Kernel};
use nearlight_units::{Bytes, FrameId, Span, Time};
use rand_pcg::Pcg32;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// Lengths beyond the small ones: around the tiles of the widest vectors, a datagram's, and much longer ones.
const LONG_LENGTHS: [usize; 9] = [511, 512, 513, 1_199, 1_200, 1_343, 1_345, 4_097, 20_011];
/// Largest distance in bytes of a slice from an aligned address.
const MAX_OFFSET: usize = 32;
const BENCHMARK_MEMORY: Bytes = Bytes::new(64 << 20);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => check("plain").map_or_else(fail, |_| print_figures()),
        ["check"] => check("plain").map_or_else(fail, report),
        ["check", needed] => check(needed).map_or_else(fail, report),
        _ => fail("nearlight-fec-bench [check [KERNEL]]"),
    }
}

fn fail(reason: impl std::fmt::Display) -> ExitCode {
    eprintln!("{reason}");
    ExitCode::FAILURE
}

fn report(products: u32) -> ExitCode {
    let names: Vec<&str> = Kernel::available().map(Kernel::name).collect();
    println!("{}: {products} products and {} frames each, all alike", names.join(", "), SHAPES.len());
    ExitCode::SUCCESS
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn print_figures() -> ExitCode {
    let start = std::time::Instant::now();
    let mut clock = || Time::from_nanos(start.elapsed().as_nanos() as u64);
    // WebAssembly engines optimise code that has run for a while: the first round is a warm-up.
    measure(&mut clock, Span::from_millis(20));
    let rows = measure(&mut clock, Span::from_millis(20));
    #[cfg(not(target_family = "wasm"))]
    let rows = rows.into_iter().chain(peers::measure(&mut clock, Span::from_millis(20)));
    for row in rows {
        println!("{}", serde_json::to_string(&row).expect("numbers and names"));
    }
    ExitCode::SUCCESS
}

/// Compares all kernels, `needed` among them; returns the number of products, or what differs.
fn check(needed: &str) -> Result<u32, String> {
    Kernel::named(needed).ok_or_else(|| format!("{needed} is not among the kernels that this processor has"))?;
    let mut random = Pcg32::seed_from_u64(1);
    let mut products = 0;
    for coefficient in 0..=255 {
        products += compare(&mut random, (1, 1, 300), Some(coefficient))?;
    }
    for length in (0..=300).chain(LONG_LENGTHS) {
        let (sources, rows) = (random.next_u32() as usize % 9, 1 + random.next_u32() as usize % 13);
        products += compare(&mut random, (sources, rows, length), None)?;
    }
    for shape in SHAPES {
        decode(&mut random, shape)?;
    }
    Ok(products)
}

fn bytes(random: &mut Pcg32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill_bytes(&mut bytes);
    bytes
}

/// All kernels' products of random slices, whatever their alignment; returns how many.
fn compare(
    random: &mut Pcg32,
    (sources, rows, length): (usize, usize, usize),
    coefficient: Option<u8>,
) -> Result<u32, String> {
    let coefficients = coefficient.map_or_else(|| bytes(random, sources * rows), |one| vec![one; sources * rows]);
    let offsets: Vec<usize> = (0..sources.max(rows)).map(|_| random.next_u32() as usize % MAX_OFFSET).collect();
    let sources: Vec<Vec<u8>> = (0..sources).map(|_| bytes(random, MAX_OFFSET + length)).collect();
    let sources: Vec<&[u8]> = sources.iter().zip(&offsets).map(|(source, offset)| &source[*offset..]).collect();
    let before: Vec<Vec<u8>> = (0..rows).map(|_| bytes(random, MAX_OFFSET + length)).collect();
    let product = |kernel: Kernel, add: bool| {
        // The bytes around the slices are compared as well: nothing may be written there.
        let mut outputs = before.clone();
        let mut slices: Vec<&mut [u8]> =
            outputs.iter_mut().zip(&offsets).map(|(output, offset)| &mut output[*offset..][..length]).collect();
        if add {
            kernel.multiply_add(&coefficients, &sources, &mut slices);
        } else {
            kernel.multiply(&coefficients, &sources, &mut slices);
        }
        outputs
    };
    let plain = Kernel::named("plain").ok_or("no plain kernel")?;
    for add in [false, true] {
        let expected = product(plain, add);
        if let Some(kernel) = Kernel::available().find(|kernel| product(*kernel, add) != expected) {
            let (name, count) = (kernel.name(), sources.len());
            return Err(format!(
                "{name} is not plain: {rows} x {count} of {length} bytes, add {add}, {coefficients:?}"
            ));
        }
    }
    Ok(2)
}

/// Every kernel makes the plain one's repairs of a random frame, and the frame again from what is left of it and these.
fn decode(random: &mut Pcg32, (sources, repairs): (u16, u16)) -> Result<(), String> {
    let shape = shape_name((sources, repairs));
    let reported = |reason: &dyn std::fmt::Display| format!("{shape}: {reason}");
    // The last symbol is shorter than the others.
    let frame = bytes(random, usize::from(sources) * 301 - 7);
    let code = Code::new(FrameId(random.next_u32()), frame.len() as u32, sources).map_err(|error| reported(&error))?;
    let numbers = 0..repairs + SPARE_REPAIRS;
    let encode = |kernel: Kernel| {
        let mut symbols = vec![0; numbers.len() * code.symbol_bytes()];
        Encoder::new(kernel).repairs(&code, &frame, numbers.clone(), &mut symbols).map_err(|error| reported(&error))?;
        Ok::<_, String>(symbols)
    };
    let expected = encode(Kernel::named("plain").ok_or("no plain kernel")?)?;
    let first_lost = random.next_u32() as u16 % (sources - repairs + 1);
    for kernel in Kernel::available() {
        if encode(kernel)? != expected {
            return Err(reported(&format_args!("{} makes other repairs", kernel.name())));
        }
        let mut decoder = Decoder::new(kernel, code, BENCHMARK_MEMORY).map_err(|error| reported(&error))?;
        for index in (0..sources).filter(|index| !(first_lost..first_lost + repairs).contains(index)) {
            decoder.on_source(index, &frame[code.range(index)]).map_err(|error| reported(&error))?;
        }
        for (number, symbol) in numbers.clone().zip(expected.chunks(code.symbol_bytes())) {
            decoder.on_repair(number, symbol).map_err(|error| reported(&error))?;
        }
        if decoder.frame() != Some(frame.as_slice()) {
            return Err(reported(&format_args!("{} does not give the frame back", kernel.name())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_kernel_of_this_processor_equals_the_plain_one() {
        assert!(super::check("plain").is_ok_and(|products| products > 1_000));
        assert!(super::check("abacus").is_err());
    }
}
