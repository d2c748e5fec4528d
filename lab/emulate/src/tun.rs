//! One end of a link as an interface of the kernel.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

use nearlight_link::Packet;
use nearlight_units::Bytes;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::ip;
use crate::port::{Port, ReceivedPacket, SendRefused};
use crate::sys::{self, Interface};
use crate::translate;

/// The layer of the packets that a link's interfaces carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// IPv4 packets (TUN).
    #[default]
    Ip,
    /// Ethernet frames (TAP), for what lies below IP.
    Ethernet,
}

impl Layer {
    /// Returns the offset of the IP header.
    pub(crate) fn header(self) -> usize {
        match self {
            Self::Ip => 0,
            Self::Ethernet => 14,
        }
    }
}

/// Longest IP packet (MTU) in bytes.
pub(crate) const MAX_PACKET: u16 = 1_500;

/// Packets that may wait for the link to read them. Guess: a third of a second at the highest forwarding rate observed.
const MAX_WAITING_PACKETS: u32 = 10_000;

/// Two addresses and their network: both ends only.
pub(crate) const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 252);

/// Creates an interface with an address, ready for packets, in the network namespace of the calling thread. Allocates nothing.
pub(crate) fn create(name: &str, layer: Layer, address: Ipv4Addr) -> Result<OwnedFd, Errno> {
    let device = sys::create_interface(name, layer)?;
    let interface = Interface::named(name)?;
    interface.set_longest_packet(MAX_PACKET)?;
    interface.set_queue(MAX_WAITING_PACKETS)?;
    interface.set_address(address, MASK)?;
    interface.set_up()?;
    Ok(device)
}

/// An interface that the link reads from and writes to.
pub(crate) struct Tun {
    device: OwnedFd,
    layer: Layer,
    /// The host's address, where a gateway represents it.
    gateway_for: Option<Ipv4Addr>,
}

impl Tun {
    pub(crate) fn new(device: OwnedFd, layer: Layer) -> Self {
        Self { device, layer, gateway_for: None }
    }

    /// Packets to `host` here are for the gateway.
    pub(crate) fn with_gateway_for(self, host: Ipv4Addr) -> Self {
        Self { gateway_for: Some(host), ..self }
    }
}

impl Port for Tun {
    fn buffer_size(&self) -> usize {
        usize::from(MAX_PACKET) + self.layer.header()
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<ReceivedPacket> {
        loop {
            let length = rustix::io::read(&self.device, &mut *buffer).ok().filter(|length| *length > 0)?;
            let start = self.layer.header();
            // The kernel announces itself over IPv6 on every interface, which the other side does not need.
            let wanted = self.layer == Layer::Ethernet || buffer[0] >> 4 == 4;
            if !wanted || length <= start {
                continue;
            }
            let packet = &mut buffer[start..length];
            if let Some(host) = self.gateway_for {
                translate::from_gateway(packet, host);
            }
            let (size, ecn) = (Bytes::new(packet.len() as u64), ip::ecn(packet));
            return Some(ReceivedPacket { length, peer: 0, size, ecn });
        }
    }

    fn send(&mut self, packet: &Packet, _peer: u32, contents: &mut [u8]) -> Result<(), SendRefused> {
        let inner = &mut contents[self.layer.header()..];
        // Each copy has its own marks, but they share the buffer.
        if packet.ecn != ip::ecn(inner) {
            ip::set_ecn(inner, packet.ecn);
        }
        match self.gateway_for {
            // A duplicated packet's shared buffer has already been rewritten; rewriting it again has no effect.
            Some(host) if !translate::towards_gateway(inner, host) => return Err(SendRefused),
            _ => {}
        }
        rustix::io::write(&self.device, contents).map(drop).map_err(|_| SendRefused)
    }

    fn wait_for<'a>(&'a self, descriptors: &mut Vec<PollFd<'a>>) {
        descriptors.push(PollFd::from_borrowed_fd(self.device.as_fd(), PollFlags::IN));
    }
}
