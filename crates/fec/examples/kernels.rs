//! Prints what [`nearlight_fec::bench::measure`] finds, one JSON object a kernel: `cargo run --release --example kernels`. Also runs in
//! WebAssembly with WASI, as `scripts/bench.sh` does.

use nearlight_fec::bench::measure;
use nearlight_units::{Span, Time};

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn main() {
    let start = std::time::Instant::now();
    let mut clock = || Time::from_nanos(start.elapsed().as_nanos() as u64);
    // WebAssembly's engines optimise what runs for a while: the first round is for them.
    measure(&mut clock, Span::from_millis(20));
    for row in measure(&mut clock, Span::from_millis(20)) {
        println!("{}", serde_json::to_string(&row).expect("numbers and names"));
    }
}
