#![no_main]

use nearlight_fec::fuzzing::{Operation, window};

libfuzzer_sys::fuzz_target!(|operations: Vec<Operation>| window(&operations));
