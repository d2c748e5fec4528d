//! The thread that renders sound for every listener, ten milliseconds at a time, on the server's clock.
//!
//! The studio, whose pictures take longer than that, forwards the world's sounds ([`Cues`]) after each step of the world. A strike is
//! heard from the next block on; a hum moves gradually from its previous place. The sound that a program makes itself ([`SoundFeed`]) is
//! the same for all listeners.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use nearlight_net::Clock;
use nearlight_scene::SoundFeed;
use nearlight_session::SoundPacket;
use nearlight_sound::{Cues, Ears, OpusError, Room, SoundBlock, SoundEncoder};
use nearlight_units::{BlockId, Span, Time};
use nearlight_wire::BLOCK;

use crate::session::exchange::SessionExchange;

/// Delay beyond which the thread skips blocks instead of rendering late ones. Guess: a receiver conceals five blocks anyway.
const MAX_LAG: Span = Span::from_millis(50);

/// Blocks that are rendered at a time while nothing can sound. Waking the thread costs more than a silent block.
const IDLE_BLOCKS: u32 = 5;
/// Maximum number of events that wait for the mixer: a second of the sounds of a world at 60 pictures a second, and some listeners. The mixer
/// takes events between blocks of 10 ms.
const MAX_QUEUED_EVENTS: usize = 64;

/// An event for the mixer's thread.
enum MixerEvent {
    Cues(Cues),
    Listener(Arc<SessionExchange>),
}

/// A handle of the mixer's thread, which ends when all handles are dropped.
#[derive(Clone)]
pub(crate) struct Mixer {
    events: SyncSender<MixerEvent>,
    /// Whether the newest sounds found no room.
    is_behind: Arc<AtomicBool>,
}

impl Mixer {
    /// Starts the thread, with the sound of the world, or with the sound of a program if there is a `feed`.
    pub(crate) fn start(clock: Clock, feed: Option<Box<dyn SoundFeed>>) -> std::io::Result<Self> {
        let (events, received) = sync_channel(MAX_QUEUED_EVENTS);
        let origin = feed.map_or_else(|| SoundOrigin::World(Box::default()), SoundOrigin::Program);
        let mixer = MixerThread { clock, origin, listeners: Vec::new() };
        thread::Builder::new().name("sound".into()).spawn(move || mixer.run(&received))?;
        Ok(Self { events, is_behind: Arc::default() })
    }

    /// Takes the world's sounds since the last call. They are lost while the mixer is too far behind, because the studio must not wait.
    pub(crate) fn on_cues(&self, cues: Cues) {
        // A thread that has ended has logged why.
        let full = matches!(self.events.try_send(MixerEvent::Cues(cues)), Err(TrySendError::Full(_)));
        if full && !self.is_behind.load(Ordering::Relaxed) {
            tracing::warn!("sounds of the world are lost, because this machine is too slow to mix them");
        }
        self.is_behind.store(full, Ordering::Relaxed);
    }

    /// Adds a listener. Waits for the mixer if too many events wait for it.
    pub(crate) fn add_viewer(&self, exchange: Arc<SessionExchange>) {
        let _ = self.events.send(MixerEvent::Listener(exchange));
    }
}

/// The origin of the sound.
enum SoundOrigin {
    World(Box<Room>),
    Program(Box<dyn SoundFeed>),
}

/// A block of sound for all listeners.
#[allow(
    clippy::large_enum_variant,
    reason = "one at a time, on the stack: a box would be an allocation for each block"
)]
enum MixedBlock<'a> {
    /// The world's sound, which each listener hears from its own position.
    Room(&'a Room),
    /// A block that is the same for all listeners, and how long it has waited.
    Block(SoundBlock, Span),
}

impl SoundOrigin {
    fn advance(&mut self) -> MixedBlock<'_> {
        match self {
            Self::World(room) => {
                room.advance();
                MixedBlock::Room(room)
            }
            Self::Program(feed) => {
                let (block, delay) = feed.next_block();
                MixedBlock::Block(block, delay)
            }
        }
    }

    fn on_cues(&mut self, cues: &Cues) {
        if let Self::World(room) = self {
            room.on_cues(cues);
        }
    }

    /// Drops sound that was submitted while nobody listened, because the first listener has joined.
    fn on_first_listener(&mut self) {
        if let Self::Program(feed) = self {
            feed.on_first_listener();
        }
    }

    /// Returns whether nothing can sound within the next [`IDLE_BLOCKS`].
    fn is_idle(&self) -> bool {
        matches!(self, Self::Program(feed) if feed.is_idle())
    }

    /// Returns whether blocks are taken even without listeners.
    fn plays_without_listeners(&self) -> bool {
        matches!(self, Self::Program(feed) if feed.plays_without_listeners())
    }
}

struct Listener {
    exchange: Arc<SessionExchange>,
    ears: Ears,
    encoder: SoundEncoder,
}

impl Listener {
    fn new(exchange: Arc<SessionExchange>) -> Result<Self, OpusError> {
        let encoder = SoundEncoder::new(exchange.stream.target().sound)?;
        Ok(Self { exchange, ears: Ears::default(), encoder })
    }

    /// Encodes the newest block as this listener hears it.
    fn encode_block(&mut self, made: &MixedBlock<'_>, block: BlockId, begin: Time) -> Result<(), OpusError> {
        self.encoder.set_rate(self.exchange.stream.target().sound)?;
        let (heard, waited) = match made {
            MixedBlock::Room(room) => (self.ears.hear(room, &self.exchange.input.head()), Span::ZERO),
            MixedBlock::Block(block, waited) => (*block, *waited),
        };
        if let Some(bytes) = self.encoder.encode(&heard)? {
            self.exchange.sound.deliver(SoundPacket {
                block,
                made_at: begin - waited - self.encoder.look_ahead(),
                bytes,
            });
        }
        Ok(())
    }
}

struct MixerThread {
    clock: Clock,
    origin: SoundOrigin,
    listeners: Vec<Listener>,
}

impl MixerThread {
    fn run(mut self, received: &Receiver<MixerEvent>) {
        let mut next = BlockId(0);
        loop {
            if self.listeners.is_empty() && !self.origin.plays_without_listeners() {
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
                    next = self.render_until(next, last);
                    let now = self.clock.now();
                    if now - begin_of(next) > MAX_LAG {
                        next = newest_block(now).next();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Renders the blocks from `next` to `last`, and returns the block after them.
    fn render_until(&mut self, mut next: BlockId, last: BlockId) -> BlockId {
        if !self.is_idle() {
            // A program may have begun to play meanwhile. Its sound must not be taken faster than it is heard.
            next = last;
        }
        while next <= last {
            self.render_block(next, begin_of(next));
            next = next.next();
        }
        next
    }

    /// Returns whether there is silence that all listeners know of and that nothing can end.
    fn is_idle(&self) -> bool {
        self.origin.is_idle() && self.listeners.iter().all(|listener| listener.encoder.is_paused())
    }

    fn on_event(&mut self, event: MixerEvent) {
        match event {
            // Strikes that occurred without listeners are not heard later.
            MixerEvent::Cues(_) if self.listeners.is_empty() => {}
            MixerEvent::Cues(cues) => self.origin.on_cues(&cues),
            MixerEvent::Listener(exchange) => match Listener::new(exchange) {
                Ok(listener) => {
                    if self.listeners.is_empty() {
                        self.origin.on_first_listener();
                    }
                    self.listeners.push(listener);
                }
                Err(error) => tracing::error!(%error, "the sound encoder of a client cannot be opened"),
            },
        }
    }

    fn render_block(&mut self, block: BlockId, begin: Time) {
        let made = self.origin.advance();
        self.listeners.retain_mut(|listener| {
            if listener.exchange.has_left() {
                return false;
            }
            let heard = listener.encode_block(&made, block, begin);
            if let Err(error) = &heard {
                tracing::error!(viewer = listener.exchange.viewer.0, %error, "the sound encoder of a client failed");
            }
            heard.is_ok()
        });
    }
}

fn begin_of(block: BlockId) -> Time {
    Time::ZERO + BLOCK * i64::from(block.0)
}

/// Returns the block that began last.
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
    struct CountingFeed {
        taken: Arc<AtomicU32>,
        idle: bool,
    }

    impl SoundFeed for CountingFeed {
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
            let feed = Box::new(CountingFeed { taken: Arc::clone(&taken), idle });
            let mut mixer =
                MixerThread { clock: Clock::start(), origin: SoundOrigin::Program(feed), listeners: Vec::new() };
            assert_eq!(mixer.render_until(BlockId(7), BlockId(11)), BlockId(12));
            assert_eq!(taken.load(Ordering::Relaxed), expected, "idle: {idle}");
        }
    }
}
