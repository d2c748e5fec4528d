#![no_main]

use nearlight_units::Time;
use nearlight_urs::User;
use nearlight_wire::{Pose, ToServer};

// Messages of the data channel "input", each behind its length as one byte times four; what comes of them must be fit for the world.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut user = User::new(Time::ZERO, Pose::default(), (1_280, 720));
    let mut rest = bytes;
    let mut now = Time::ZERO;
    while let Some((length, after)) = rest.split_first() {
        let (message, after) = after.split_at(after.len().min(usize::from(*length) * 4));
        rest = after;
        let _ = user.on_message(now, message);
        if let Some(sample) = user.poll_sample(now) {
            assert!(ToServer::parse(&ToServer::Input(sample).to_bytes()).is_ok());
        }
        now = Time::from_micros(now.as_micros() + 4_000 * u64::from(*length));
    }
});
