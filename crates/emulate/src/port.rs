//! One end of a link, as the pump sees it.

use nearlight_link::{Ecn, Packet};
use nearlight_units::Bytes;
use rustix::event::PollFd;

/// A packet came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// What it takes of the buffer.
    pub(crate) length: usize,
    /// Who sent it: the other end finds the answer's way by it.
    pub(crate) peer: u32,
    /// Its length on the link.
    pub(crate) size: Bytes,
    pub(crate) ecn: Ecn,
}

/// The end took no more packets, or not this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused;

pub(crate) trait Port: Send {
    /// Room for the longest packet.
    fn buffer_size(&self) -> usize;

    /// The next packet, if one has come.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<Arrived>;

    /// A packet has crossed the link.
    fn send(&mut self, packet: &Packet, peer: u32, contents: &mut [u8]) -> Result<(), Refused>;

    /// What becomes readable when a packet comes.
    fn wait_for<'a>(&'a self, descriptors: &mut Vec<PollFd<'a>>);
}
