//! What one member may send.

use nearlight_units::{Span, Time};

/// Tokens that come back with time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    tokens: f64,
    most: f64,
    per_second: f64,
    at: Time,
}

impl Bucket {
    pub(crate) const fn full(now: Time, per_second: f64, most: f64) -> Self {
        Self { tokens: most, most, per_second, at: now }
    }

    pub(crate) fn refill(&mut self, now: Time) {
        let passed = now.saturating_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + passed * self.per_second).min(self.most);
    }

    /// Takes this many, if they are there.
    pub(crate) fn take(&mut self, now: Time, count: f64) -> bool {
        self.refill(now);
        let there = self.tokens >= count;
        if there {
            self.tokens -= count;
        }
        there
    }

    /// Takes what has been used already: what is missing is missing later.
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

/// Messages a second: poses at 90 Hz, commands and acknowledgements between them, twice over.
const MESSAGES: f64 = 250.0;
/// Bytes a second: bodies with both hands' joints (450 bytes) at 90 Hz and 60 objects, with room for commands.
const BYTES: f64 = 256.0 * 1_024.0;
/// Commands a second, and at once. Guess: what nobody does by hand.
const COMMANDS: f64 = 60.0;
const COMMANDS_AT_ONCE: f64 = 120.0;
/// Packets of a voice a second, and at once: a packet lasts 10 ms, and a connection that stood still brings those of two seconds together.
const VOICE_PACKETS: f64 = 110.0;
const VOICE_PACKETS_AT_ONCE: f64 = 200.0;
/// Who says more than that is not heard for so long.
const VOICE_CUT: Span = Span::from_secs(5);
/// So many refused messages within [`WINDOW`] end a membership: ten times what a member may send.
const STRIKES: u32 = 25_000;
/// So many unreadable messages within [`WINDOW`] end it.
const MALFORMED: u32 = 16;
const WINDOW: Span = Span::from_secs(10);

/// Why a member has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    Flood,
    Malformed,
}

#[derive(Clone, Debug)]
pub(crate) struct Limits {
    messages: Bucket,
    bytes: Bucket,
    commands: Bucket,
    voice: Bucket,
    voice_cut_until: Time,
    window: Time,
    refused: u32,
    malformed: u32,
}

impl Limits {
    pub(crate) const fn new(now: Time) -> Self {
        Self {
            messages: Bucket::full(now, MESSAGES, MESSAGES),
            bytes: Bucket::full(now, BYTES, BYTES),
            commands: Bucket::full(now, COMMANDS, COMMANDS_AT_ONCE),
            voice: Bucket::full(now, VOICE_PACKETS, VOICE_PACKETS_AT_ONCE),
            voice_cut_until: now,
            window: now,
            refused: 0,
            malformed: 0,
        }
    }

    fn open_window(&mut self, now: Time) {
        if now.saturating_since(self.window) >= WINDOW {
            (self.window, self.refused, self.malformed) = (now, 0, 0);
        }
    }

    /// Whether a message of this size may be read; the error: its sender has to go.
    pub(crate) fn take_message(&mut self, now: Time, bytes: usize) -> Result<bool, Excess> {
        self.open_window(now);
        if self.messages.take(now, 1.0) && self.bytes.take(now, bytes as f64) {
            return Ok(true);
        }
        self.refused += 1;
        if self.refused >= STRIKES { Err(Excess::Flood) } else { Ok(false) }
    }

    /// Whether a command may be carried out now; its sender repeats it otherwise.
    pub(crate) fn take_command(&mut self, now: Time) -> bool {
        self.commands.take(now, 1.0)
    }

    /// Whether a packet of the member's voice may be heard.
    pub(crate) fn take_voice(&mut self, now: Time) -> bool {
        if !self.voice.take(now, 1.0) {
            self.voice_cut_until = now + VOICE_CUT;
        }
        now >= self.voice_cut_until
    }

    pub(crate) fn on_malformed(&mut self, now: Time) -> Result<(), Excess> {
        self.open_window(now);
        self.malformed += 1;
        if self.malformed >= MALFORMED { Err(Excess::Malformed) } else { Ok(()) }
    }
}
