#![no_main]

use libfuzzer_sys::arbitrary::{Arbitrary as _, Unstructured};
use nearlight_net::link_layer::fuzzing::{Operation, run};

// Both ends of the Ethernet transport and a network that loses, reorders, repeats, changes and makes up frames.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut source = Unstructured::new(bytes);
    let Ok(jumbo) = bool::arbitrary(&mut source) else { return };
    let mut operations = Vec::new();
    while operations.len() < 200
        && !source.is_empty()
        && let Ok(operation) = Operation::arbitrary(&mut source)
    {
        operations.push(operation);
    }
    run(jumbo, &operations);
});
