//! The one interceptor in the library's chain: it hands every RTCP packet over, whatever source it names.
//!
//! The library's own way to an application drops feedback that names a retransmission's source.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rtc::interceptor::{Interceptor, Packet, StreamInfo, TaggedPacket};
use rtc::sansio::Protocol;
use rtc::shared::error::Error;

/// Compound packets that wait to be looked at; a client that sends more between two looks loses them.
const MAX_WAITING: usize = 64;

type Waiting = VecDeque<Box<dyn rtc::rtcp::Packet>>;

/// Where the packets come out.
#[derive(Clone, Default)]
pub(crate) struct Outlet(Arc<Mutex<Waiting>>);

impl Outlet {
    pub(crate) fn poll(&self) -> Option<Box<dyn rtc::rtcp::Packet>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn put(&self, packets: Vec<Box<dyn rtc::rtcp::Packet>>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_WAITING.saturating_sub(waiting.len());
        waiting.extend(packets.into_iter().take(room));
    }
}

/// Passes RTP in both directions and our own RTCP outward.
#[derive(Default)]
pub(crate) struct Tap {
    outlet: Outlet,
    inward: VecDeque<TaggedPacket>,
    outward: VecDeque<TaggedPacket>,
}

impl Tap {
    pub(crate) fn new(outlet: Outlet) -> Self {
        Self { outlet, ..Self::default() }
    }
}

impl Protocol<TaggedPacket, TaggedPacket, ()> for Tap {
    type Rout = TaggedPacket;
    type Wout = TaggedPacket;
    type Eout = ();
    type Error = Error;
    type Time = Instant;

    fn handle_read(&mut self, message: TaggedPacket) -> Result<(), Error> {
        match message.message.packet {
            Packet::Rtcp(packets) => self.outlet.put(packets),
            _ => self.inward.push_back(message),
        }
        Ok(())
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

impl Interceptor for Tap {
    fn bind_local_stream(&mut self, _stream: &StreamInfo) {}
    fn unbind_local_stream(&mut self, _stream: &StreamInfo) {}
    fn bind_remote_stream(&mut self, _stream: &StreamInfo) {}
    fn unbind_remote_stream(&mut self, _stream: &StreamInfo) {}
}
