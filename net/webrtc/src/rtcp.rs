//! Our interceptor in the library's chain: it extracts every RTCP packet, whatever source it names.
//!
//! The library's own interface to an application drops feedback that names a retransmission's source.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use nearlight_units::lock;
use rtc::interceptor::{Packet, TaggedPacket};
use rtc::shared::error::Error;

use crate::filter::Filter;

/// Maximum number of unread compound packets. A client that sends more between two reads loses them.
const MAX_UNREAD_PACKETS: usize = 64;

type PacketQueue = VecDeque<Box<dyn rtc::rtcp::Packet>>;

/// Packets that the tap has extracted.
#[derive(Clone, Default)]
pub(crate) struct RtcpQueue(Arc<Mutex<PacketQueue>>);

impl RtcpQueue {
    pub(crate) fn poll(&self) -> Option<Box<dyn rtc::rtcp::Packet>> {
        lock(&self.0).pop_front()
    }

    fn put(&self, packets: Vec<Box<dyn rtc::rtcp::Packet>>) {
        let mut waiting = lock(&self.0);
        let room = MAX_UNREAD_PACKETS.saturating_sub(waiting.len());
        waiting.extend(packets.into_iter().take(room));
    }
}

/// Passes RTP and extracts RTCP.
pub(crate) struct RtcpTap(pub(crate) RtcpQueue);

impl Filter for RtcpTap {
    fn on_read(&mut self, message: TaggedPacket, onward: &mut VecDeque<TaggedPacket>) -> Result<(), Error> {
        match message.message.packet {
            Packet::Rtcp(packets) => self.0.put(packets),
            _ => onward.push_back(message),
        }
        Ok(())
    }
}
