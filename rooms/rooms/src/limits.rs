//! Limits of what one member may send.

use nearlight_units::{Span, Time};

/// A token bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    tokens: f64,
    most: f64,
    per_second: f64,
    at: Time,
}

impl TokenBucket {
    pub(crate) const fn full(now: Time, per_second: f64, most: f64) -> Self {
        Self { tokens: most, most, per_second, at: now }
    }

    pub(crate) fn refill(&mut self, now: Time) {
        let passed = now.saturating_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + passed * self.per_second).min(self.most);
    }

    /// Takes `count` tokens. Returns false, and takes none, if there are fewer.
    pub(crate) fn take(&mut self, now: Time, count: f64) -> bool {
        self.refill(now);
        let there = self.tokens >= count;
        if there {
            self.tokens -= count;
        }
        there
    }

    /// Takes `count` tokens that were used already. The balance may become negative.
    pub(crate) const fn charge(&mut self, count: f64) {
        self.tokens -= count;
    }

    pub(crate) const fn has_some(&self) -> bool {
        self.tokens > 0.0
    }

    pub(crate) const fn set_rate(&mut self, per_second: f64, most: f64) {
        (self.per_second, self.most) = (per_second, most);
        self.tokens = self.tokens.min(most);
    }
}

/// Messages per second: twice the poses at 90 Hz with commands and acknowledgements between them.
const MAX_MESSAGES_PER_SECOND: f64 = 250.0;
/// Bytes per second: bodies with both hands' joints (450 bytes) at 90 Hz and 60 objects, with a margin for commands.
const MAX_BYTES_PER_SECOND: f64 = 256.0 * 1_024.0;
/// Commands per second, and in a burst. Guess: more than anybody does by hand.
const MAX_COMMANDS_PER_SECOND: f64 = 60.0;
const MAX_COMMAND_BURST: f64 = 120.0;
/// Voice packets per second, and in a burst: a packet lasts 10 ms, and after an interruption a connection delivers those of two seconds
/// together.
const MAX_VOICE_PACKETS_PER_SECOND: f64 = 110.0;
const MAX_VOICE_PACKET_BURST: f64 = 200.0;
/// Time for which a member that exceeds these limits is muted.
const VOICE_MUTE_TIME: Span = Span::from_secs(5);
/// Refused messages within [`VIOLATION_WINDOW`] that end a membership: ten times what a member may send.
const MAX_REFUSED_MESSAGES: u32 = 25_000;
/// Malformed messages within [`VIOLATION_WINDOW`] that end a membership. Guess: a correct client sends none.
const MAX_MALFORMED_MESSAGES: u32 = 16;
const VIOLATION_WINDOW: Span = Span::from_secs(10);

/// A violation that ends a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitViolation {
    Flood,
    Malformed,
}

#[derive(Clone, Debug)]
pub(crate) struct Limits {
    messages: TokenBucket,
    bytes: TokenBucket,
    commands: TokenBucket,
    voice: TokenBucket,
    voice_muted_until: Time,
    window: Time,
    refused: u32,
    malformed: u32,
}

impl Limits {
    pub(crate) const fn new(now: Time) -> Self {
        Self {
            messages: TokenBucket::full(now, MAX_MESSAGES_PER_SECOND, MAX_MESSAGES_PER_SECOND),
            bytes: TokenBucket::full(now, MAX_BYTES_PER_SECOND, MAX_BYTES_PER_SECOND),
            commands: TokenBucket::full(now, MAX_COMMANDS_PER_SECOND, MAX_COMMAND_BURST),
            voice: TokenBucket::full(now, MAX_VOICE_PACKETS_PER_SECOND, MAX_VOICE_PACKET_BURST),
            voice_muted_until: now,
            window: now,
            refused: 0,
            malformed: 0,
        }
    }

    fn open_window(&mut self, now: Time) {
        if now.saturating_since(self.window) >= VIOLATION_WINDOW {
            (self.window, self.refused, self.malformed) = (now, 0, 0);
        }
    }

    /// Returns whether a message of this size may be processed. The error ends the sender's membership.
    pub(crate) fn take_message(&mut self, now: Time, bytes: usize) -> Result<bool, LimitViolation> {
        self.open_window(now);
        if self.messages.take(now, 1.0) && self.bytes.take(now, bytes as f64) {
            return Ok(true);
        }
        self.refused += 1;
        if self.refused >= MAX_REFUSED_MESSAGES { Err(LimitViolation::Flood) } else { Ok(false) }
    }

    /// Returns whether a command may be executed now. Otherwise its sender repeats it.
    pub(crate) fn take_command(&mut self, now: Time) -> bool {
        self.commands.take(now, 1.0)
    }

    /// Returns whether a packet of the member's voice may be forwarded.
    pub(crate) fn take_voice(&mut self, now: Time) -> bool {
        if !self.voice.take(now, 1.0) {
            self.voice_muted_until = now + VOICE_MUTE_TIME;
        }
        now >= self.voice_muted_until
    }

    pub(crate) fn on_malformed(&mut self, now: Time) -> Result<(), LimitViolation> {
        self.open_window(now);
        self.malformed += 1;
        if self.malformed >= MAX_MALFORMED_MESSAGES { Err(LimitViolation::Malformed) } else { Ok(()) }
    }
}
