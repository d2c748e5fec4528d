//! An interceptor in the library's chain that inspects incoming messages; outgoing ones pass through.

use std::collections::VecDeque;
use std::time::Instant;

use rtc::interceptor::{Interceptor, StreamInfo, TaggedPacket};
use rtc::sansio::Protocol;
use rtc::shared::error::Error;

/// Handles incoming messages.
pub(crate) trait Filter: Send + Sync {
    /// Handles a message, and appends to `onward` what the next interceptor in the chain is to see.
    fn on_read(&mut self, message: TaggedPacket, onward: &mut VecDeque<TaggedPacket>) -> Result<(), Error>;

    fn on_remote_stream(&mut self, _stream: &StreamInfo) {}
}

pub(crate) struct FilterSlot<S> {
    filter: S,
    inward: VecDeque<TaggedPacket>,
    outward: VecDeque<TaggedPacket>,
}

impl<S> FilterSlot<S> {
    pub(crate) const fn new(filter: S) -> Self {
        Self { filter, inward: VecDeque::new(), outward: VecDeque::new() }
    }
}

impl<S: Filter> Protocol<TaggedPacket, TaggedPacket, ()> for FilterSlot<S> {
    type Rout = TaggedPacket;
    type Wout = TaggedPacket;
    type Eout = ();
    type Error = Error;
    type Time = Instant;

    fn handle_read(&mut self, message: TaggedPacket) -> Result<(), Error> {
        self.filter.on_read(message, &mut self.inward)
    }

    fn poll_read(&mut self) -> Option<TaggedPacket> {
        self.inward.pop_front()
    }

    fn handle_write(&mut self, message: TaggedPacket) -> Result<(), Error> {
        self.outward.push_back(message);
        Ok(())
    }

    fn poll_write(&mut self) -> Option<TaggedPacket> {
        self.outward.pop_front()
    }

    fn handle_timeout(&mut self, _now: Instant) -> Result<(), Error> {
        Ok(())
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        None
    }
}

impl<S: Filter> Interceptor for FilterSlot<S> {
    fn bind_local_stream(&mut self, _stream: &StreamInfo) {}
    fn unbind_local_stream(&mut self, _stream: &StreamInfo) {}

    fn bind_remote_stream(&mut self, stream: &StreamInfo) {
        self.filter.on_remote_stream(stream);
    }

    fn unbind_remote_stream(&mut self, _stream: &StreamInfo) {}
}
