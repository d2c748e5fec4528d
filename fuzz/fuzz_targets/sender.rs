#![no_main]

use nearlight_session::fuzzing::{SenderOperation, sender};

libfuzzer_sys::fuzz_target!(|input: (u8, u8, Vec<SenderOperation>)| {
    let (preset, pacing, operations) = input;
    sender(preset, pacing, &operations);
});
