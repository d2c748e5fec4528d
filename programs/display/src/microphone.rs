//! Decodes a viewer's microphone, which the page sends in unreliable application messages, for the program to record.

use std::sync::{Arc, Mutex};

use nearlight_sound::{Feed, OpusError, SoundDecoder};
use nearlight_units::lock;

/// The beginning of a microphone packet. A sequence number and 10 ms of Opus follow.
const PREFIX: &[u8] = b"mic";

pub(crate) struct Microphone {
    feed: Arc<Mutex<Feed>>,
    decoder: SoundDecoder,
    newest: Option<u32>,
}

impl Microphone {
    pub(crate) fn new() -> Result<Self, OpusError> {
        Ok(Self { feed: Arc::default(), decoder: SoundDecoder::new()?, newest: None })
    }

    /// Returns the feed of the decoded sound.
    pub(crate) fn feed(&self) -> Arc<Mutex<Feed>> {
        Arc::clone(&self.feed)
    }

    /// Starts a new stream of packets, for example of another viewer.
    pub(crate) fn restart(&mut self) {
        self.newest = None;
        lock(&self.feed).clear();
    }

    /// Handles a message of the viewer. Other messages, and packets that arrive after later ones, are ignored.
    pub(crate) fn on_message(&mut self, message: &[u8]) {
        let Some((number, packet)) = message.strip_prefix(PREFIX).and_then(|rest| rest.split_first_chunk()) else {
            return;
        };
        let number = u32::from_be_bytes(*number);
        // Sequence numbers wrap around: a number is later if it is ahead by less than half of the range.
        if self.newest.is_some_and(|newest| number.wrapping_sub(newest).wrapping_sub(1) > u32::MAX / 2) {
            return;
        }
        match self.decoder.decode(packet) {
            Ok(block) => {
                self.newest = Some(number);
                lock(&self.feed).push(&block);
            }
            Err(error) => tracing::debug!(%error, "a microphone packet cannot be decoded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_sound::{BLOCK_FRAMES, SoundEncoder};
    use nearlight_units::Bitrate;

    use super::*;

    fn loudest(feed: &Mutex<Feed>) -> f32 {
        let (block, _) = feed.lock().expect("whole").next_block();
        block.iter().copied().fold(0.0, f32::max)
    }

    #[test]
    fn packets_are_heard_in_their_order_and_nothing_else_is() {
        let mut encoder = SoundEncoder::new(Bitrate::from_kbps(64)).expect("libopus");
        let tone = std::array::from_fn(|index| (index as f32 / BLOCK_FRAMES as f32 * 30.0).sin() * 0.8);
        let mut packet = |number: u32| {
            let opus = encoder.encode(&tone).expect("a packet").expect("not silence");
            [PREFIX, &number.to_be_bytes(), &opus].concat()
        };
        let mut microphone = Microphone::new().expect("libopus");
        let feed = microphone.feed();
        for wrong in [&b""[..], b"mic", b"mic\0\0\0", b"{\"display\":{}}"] {
            microphone.on_message(wrong);
        }
        microphone.on_message(&packet(u32::MAX));
        microphone.on_message(&packet(0));
        microphone.on_message(&packet(u32::MAX - 1));
        microphone.on_message(&packet(0));
        // Two blocks, one after the other; those that were overtaken would make it four.
        let heard: Vec<bool> = (0..4).map(|_| loudest(&feed) > 0.1).collect();
        assert_eq!(heard[2..], [false; 2], "{heard:?}");
        assert!(heard[1], "{heard:?}");
        microphone.restart();
        microphone.on_message(&packet(0));
        microphone.on_message(&packet(1));
        microphone.on_message(&packet(2));
        assert!((0..3).any(|_| loudest(&feed) > 0.1), "another viewer's numbers begin anew");
    }
}
