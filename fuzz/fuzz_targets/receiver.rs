#![no_main]

use nearlight_session::fuzzing::{ReceiverOperation, receiver};

libfuzzer_sys::fuzz_target!(|operations: Vec<ReceiverOperation>| receiver(&operations));
