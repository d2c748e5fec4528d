//! The voice of a synthetic member: packets with the time at which they were sent in place of sound.

use nearlight_rooms::{HeardVoice, write_voice};
use nearlight_units::{Span, Time};

/// First bytes of a synthetic voice packet.
const VOICE_MARK: [u8; 8] = *b"nl swarm";
/// Shortest voice packet: the mark and a time.
pub(crate) const MIN_VOICE_PACKET: usize = VOICE_MARK.len() + size_of::<u64>();
/// Interval at which a listener repeats its subscription: a server that takes over the room has to know it as well.
const SUBSCRIPTION_INTERVAL: Span = Span::from_secs(3);

/// Says when to send a packet, and reads those of others. All members share one clock.
#[derive(Clone, Debug)]
pub(crate) struct Voice {
    speaks: bool,
    interval: Span,
    bytes: usize,
    number: u32,
    next: Time,
}

impl Voice {
    /// A member that hears others from now on, and speaks or not.
    pub(crate) const fn new(now: Time, speaks: bool, interval: Span, bytes: usize) -> Self {
        let interval = if speaks { interval } else { SUBSCRIPTION_INTERVAL };
        Self { speaks, interval, bytes, number: 0, next: now }
    }

    pub(crate) const fn poll_timeout(&self) -> Time {
        self.next
    }

    /// The next message, if one is due, and whether others hear it.
    pub(crate) fn poll_transmit(&mut self, now: Time) -> Option<(Vec<u8>, bool)> {
        if now < self.next {
            return None;
        }
        // Missed packets are not sent later.
        self.next = (self.next + self.interval).max(now);
        let mut packet = Vec::new();
        if self.speaks {
            packet.extend_from_slice(&VOICE_MARK);
            packet.extend_from_slice(&now.as_micros().to_be_bytes());
            packet.resize(self.bytes, 0);
        }
        self.number = self.number.wrapping_add(1);
        Some((write_voice(self.number, &packet), self.speaks))
    }
}

/// When a packet that was heard was sent; none if it is not a synthetic member's.
pub(crate) fn sent_at(message: &[u8]) -> Option<Time> {
    let HeardVoice { packet, .. } = HeardVoice::parse(message).ok()?;
    let (time, _) = packet.strip_prefix(&VOICE_MARK)?.split_first_chunk()?;
    Some(Time::from_micros(u64::from_be_bytes(*time)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_sends_packets_in_which_others_find_their_time() {
        let mut voice = Voice::new(Time::from_micros(7), true, Span::from_millis(10), 80);
        assert_eq!(voice.poll_transmit(Time::from_micros(6)), None);
        let (said, speaks) = voice.poll_transmit(Time::from_micros(7)).expect("the first one");
        assert!(speaks && voice.poll_transmit(Time::from_micros(8)).is_none());
        assert_eq!(voice.poll_timeout(), Time::from_micros(10_007));
        // The room prepends the speaker and its position.
        let heard = [&said[..1], &[0, 0, 0, 5], &said[1..5], &[0; 12], &said[5..]].concat();
        assert_eq!((said.len(), sent_at(&heard)), (85, Some(Time::from_micros(7))));
        assert_eq!(sent_at(&heard[..30]), None, "somebody else's");
    }

    #[test]
    fn who_does_not_speak_says_that_it_hears() {
        let mut voice = Voice::new(Time::ZERO, false, Span::from_millis(10), 80);
        let (said, speaks) = voice.poll_transmit(Time::ZERO).expect("at once");
        assert_eq!((said.len(), speaks, voice.poll_timeout()), (5, false, Time::ZERO + SUBSCRIPTION_INTERVAL));
    }
}
