//! One thread that renders the world's sound for every listener: ten milliseconds at a time, on the server's clock.
//!
//! The studio, whose pictures take longer than that, passes on the world's sounds ([`Cues`]) after each step of the world. A strike is
//! heard from the next block on; a hum moves gradually from its previous place. The sound of a program that makes its own ([`SoundFeed`])
//! is the same for all listeners.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use nearlight_net::Clock;
use nearlight_scene::SoundFeed;
use nearlight_session::SoundPacket;
use nearlight_sound::{Cues, Ears, OpusError, Room, SoundBlock, SoundEncoder};
use nearlight_units::{BlockId, Span, Time};
use nearlight_wire::BLOCK;

use crate::mailbox::EncoderMailbox;

/// If delayed by more than this, the thread skips blocks rather than render old ones. Guess: a receiver conceals five anyway.
const MAX_BEHIND: Span = Span::from_millis(50);

/// Blocks that are made at a time where nothing can sound: each time the thread wakes costs more than a silent block.
const IDLE_BLOCKS: u32 = 5;

/// What the thread is notified of.
enum MixerEvent {
    Cues(Cues),
    EncoderMailbox(Arc<EncoderMailbox>),
}

/// The thread's handle; the thread ends when all handles are dropped.
#[derive(Clone)]
pub(crate) struct Mixer {
    events: Sender<MixerEvent>,
}

impl Mixer {
    /// With the sound of the world, or of a program that makes its own.
    pub(crate) fn start(clock: Clock, feed: Option<Box<dyn SoundFeed>>) -> std::io::Result<Self> {
        let (events, received) = channel();
        let origin = feed.map_or_else(|| Origin::World(Box::default()), Origin::Program);
        let stage = Stage { clock, origin, listeners: Vec::new() };
        thread::Builder::new().name("sound".into()).spawn(move || stage.run(&received))?;
        Ok(Self { events })
    }

    /// The world's sounds since the last call.
    pub(crate) fn on_cues(&self, cues: Cues) {
        // A thread that has ended has reported why.
        let _ = self.events.send(MixerEvent::Cues(cues));
    }

    /// Adds a listener.
    pub(crate) fn add_viewer(&self, mailbox: Arc<EncoderMailbox>) {
        let _ = self.events.send(MixerEvent::EncoderMailbox(mailbox));
    }
}

/// Where sound comes from.
enum Origin {
    World(Box<Room>),
    Program(Box<dyn SoundFeed>),
}

/// A block for all listeners.
#[allow(
    clippy::large_enum_variant,
    reason = "one at a time, on the stack: a box would be an allocation for each block"
)]
enum NextBlock<'a> {
    /// Each hears it from its own place.
    Room(&'a Room),
    /// The same for all, and how long it has waited.
    Block(SoundBlock, Span),
}

impl Origin {
    fn advance(&mut self) -> NextBlock<'_> {
        match self {
            Self::World(room) => {
                room.advance();
                NextBlock::Room(room)
            }
            Self::Program(feed) => {
                let (block, delay) = feed.next_block();
                NextBlock::Block(block, delay)
            }
        }
    }

    fn on_cues(&mut self, cues: &Cues) {
        if let Self::World(room) = self {
            room.on_cues(cues);
        }
    }

    /// The first listener comes, and wants nothing that was submitted for nobody.
    fn on_first_listener(&mut self) {
        if let Self::Program(feed) = self {
            feed.on_first_listener();
        }
    }

    /// Nothing can sound within the next [`IDLE_BLOCKS`].
    fn is_idle(&self) -> bool {
        matches!(self, Self::Program(feed) if feed.is_idle())
    }

    /// Whether it goes on without listeners.
    fn plays_unheard(&self) -> bool {
        matches!(self, Self::Program(feed) if feed.plays_unheard())
    }
}

struct Listener {
    mailbox: Arc<EncoderMailbox>,
    ears: Ears,
    encoder: SoundEncoder,
}

impl Listener {
    fn new(mailbox: Arc<EncoderMailbox>) -> Result<Self, OpusError> {
        let encoder = SoundEncoder::new(mailbox.target().sound)?;
        Ok(Self { mailbox, ears: Ears::default(), encoder })
    }

    /// Encodes the newest block as this listener hears it.
    fn hear(&mut self, made: &NextBlock<'_>, block: BlockId, begin: Time) -> Result<(), OpusError> {
        self.encoder.set_rate(self.mailbox.target().sound)?;
        let (heard, waited) = match made {
            NextBlock::Room(room) => (self.ears.hear(room, &self.mailbox.head()), Span::ZERO),
            NextBlock::Block(block, waited) => (*block, *waited),
        };
        if let Some(bytes) = self.encoder.encode(&heard)? {
            self.mailbox.deliver_sound(SoundPacket {
                block,
                made_at: begin - waited - self.encoder.look_ahead(),
                bytes,
            });
        }
        Ok(())
    }
}

struct Stage {
    clock: Clock,
    origin: Origin,
    listeners: Vec<Listener>,
}

impl Stage {
    fn run(mut self, received: &Receiver<MixerEvent>) {
        let mut next = BlockId(0);
        loop {
            if self.listeners.is_empty() && !self.origin.plays_unheard() {
                // Without listeners the thread sleeps.
                let Ok(event) = received.recv() else { return };
                self.on_event(event);
                next = newest_block(self.clock.now()).next();
                continue;
            }
            let last = if self.is_idle() { BlockId(next.0.saturating_add(IDLE_BLOCKS - 1)) } else { next };
            let wait = begin_of(last).saturating_since(self.clock.now());
            match received.recv_timeout(Duration::from_nanos(wait.as_nanos().unsigned_abs())) {
                Ok(event) => self.on_event(event),
                Err(RecvTimeoutError::Timeout) => {
                    next = self.make_until(next, last);
                    let now = self.clock.now();
                    if now - begin_of(next) > MAX_BEHIND {
                        next = newest_block(now).next();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Makes the blocks from `next` to `last`, and returns the one after them.
    fn make_until(&mut self, mut next: BlockId, last: BlockId) -> BlockId {
        if !self.is_idle() {
            // A program may have come meanwhile: what it plays is not taken faster than it is heard.
            next = last;
        }
        while next <= last {
            self.make(next, begin_of(next));
            next = next.next();
        }
        next
    }

    /// Silence that all listeners know of, and that nothing can end.
    fn is_idle(&self) -> bool {
        self.origin.is_idle() && self.listeners.iter().all(|listener| listener.encoder.is_paused())
    }

    fn on_event(&mut self, event: MixerEvent) {
        match event {
            // Strikes that occurred without listeners are not heard later.
            MixerEvent::Cues(_) if self.listeners.is_empty() => {}
            MixerEvent::Cues(cues) => self.origin.on_cues(&cues),
            MixerEvent::EncoderMailbox(mailbox) => match Listener::new(mailbox) {
                Ok(listener) => {
                    if self.listeners.is_empty() {
                        self.origin.on_first_listener();
                    }
                    self.listeners.push(listener);
                }
                Err(error) => tracing::error!(%error, "a client gets no sound"),
            },
        }
    }

    fn make(&mut self, block: BlockId, begin: Time) {
        let made = self.origin.advance();
        self.listeners.retain_mut(|listener| {
            if listener.mailbox.has_left() {
                return false;
            }
            let heard = listener.hear(&made, block, begin);
            if let Err(error) = &heard {
                tracing::error!(viewer = listener.mailbox.viewer.0, %error, "the sound encoder of a client failed");
            }
            heard.is_ok()
        });
    }
}

fn begin_of(block: BlockId) -> Time {
    Time::ZERO + BLOCK * i64::from(block.0)
}

/// The block that began last.
fn newest_block(now: Time) -> BlockId {
    BlockId((now.as_nanos() / BLOCK.as_nanos().unsigned_abs()) as u32)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use nearlight_sound::BLOCK_FRAMES;

    use super::*;

    #[test]
    fn blocks_lie_on_the_clocks_grid() {
        for (millis, block) in [(0, 0), (9, 0), (10, 1), (12_345, 1_234)] {
            assert_eq!(newest_block(Time::from_millis(millis)), BlockId(block), "{millis}");
        }
        assert_eq!(begin_of(BlockId(1_234)), Time::from_millis(12_340));
    }

    /// Counts the blocks that are taken from it.
    struct Counted {
        taken: Arc<AtomicU32>,
        idle: bool,
    }

    impl SoundFeed for Counted {
        fn next_block(&mut self) -> (SoundBlock, Span) {
            self.taken.fetch_add(1, Ordering::Relaxed);
            ([0.0; 2 * BLOCK_FRAMES], Span::ZERO)
        }

        fn is_idle(&self) -> bool {
            self.idle
        }
    }

    #[test]
    fn blocks_are_taken_together_only_while_nothing_can_sound() {
        for (idle, expected) in [(true, 5), (false, 1)] {
            let taken = Arc::new(AtomicU32::new(0));
            let feed = Box::new(Counted { taken: Arc::clone(&taken), idle });
            let mut stage = Stage { clock: Clock::start(), origin: Origin::Program(feed), listeners: Vec::new() };
            assert_eq!(stage.make_until(BlockId(7), BlockId(11)), BlockId(12));
            assert_eq!(taken.load(Ordering::Relaxed), expected, "idle: {idle}");
        }
    }
}
