#![no_main]

use libfuzzer_sys::arbitrary::{Arbitrary as _, Unstructured};
use nearlight_rooms::fuzzing::{Operation, run};

// A room, its members and a network that loses, delays and repeats, with members that send garbage; in the end all agree.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut source = Unstructured::new(bytes);
    let mut operations = Vec::new();
    while operations.len() < 100
        && !source.is_empty()
        && let Ok(operation) = Operation::arbitrary(&mut source)
    {
        operations.push(operation);
    }
    run(&operations);
});
