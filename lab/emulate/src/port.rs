//! One end of a link, as the pump sees it.

use nearlight_link::{Ecn, Packet};
use nearlight_units::Bytes;
use rustix::event::PollFd;

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedPacket {
    /// The part of the buffer that it uses.
    pub(crate) length: usize,
    /// Its sender, to which the other end routes answers.
    pub(crate) peer: u32,
    /// Its length on the link.
    pub(crate) size: Bytes,
    pub(crate) ecn: Ecn,
}

/// The end took no more packets, or not this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendRefused;

pub(crate) trait Port: Send {
    /// Room for the longest packet.
    fn buffer_size(&self) -> usize;

    /// The next packet, if one has arrived.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<ReceivedPacket>;

    /// Sends a packet that has crossed the link.
    fn send(&mut self, packet: &Packet, peer: u32, contents: &mut [u8]) -> Result<(), SendRefused>;

    /// The descriptor that becomes readable when a packet arrives.
    fn wait_for<'a>(&'a self, descriptors: &mut Vec<PollFd<'a>>);
}
