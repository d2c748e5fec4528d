#![no_main]

use nearlight_session::fuzzing::{TrueOperation, forgeries};

libfuzzer_sys::fuzz_target!(|input: (u8, Vec<(TrueOperation, u8)>)| forgeries(input.0, &input.1));
