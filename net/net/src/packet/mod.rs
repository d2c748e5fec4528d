//! Ethernet frames of Nearlight's EtherType on one interface, in batches per system call (`AF_PACKET`, Linux).
//!
//! It makes no decisions: frames are sent as given and received as they arrive. Calls never block.
//!
//! `sendmmsg` and `recvmmsg` move up to [`BATCH`] frames at a time. Rings shared with the kernel are deliberately not used: `TPACKET_V3`
//! hands frames over a block at a time, which costs up to a block's timeout, and the older ones gain nothing here. `AF_XDP` is not used
//! either: it needs a program in the kernel and takes all frames of a card's queue. The example `frame_burst` compares it with the others.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

use crate::link_layer::HardwareAddress;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{PacketSocket, interfaces};
#[cfg(target_os = "linux")]
pub use linux::{PacketSocket, interfaces};

/// Maximum number of frames per system call.
pub const BATCH: usize = 64;
/// Bytes of destination, source and EtherType before the payload (IEEE 802.3).
pub const HEADER_BYTES: usize = 14;

/// Why frames cannot be sent and received on an interface.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    #[error("this machine has no network interface {0}: `ip link` lists those that it has")]
    NoInterface(String),
    #[error("the interface {0} is down: bring it up by `ip link set dev {0} up`")]
    Down(String),
    #[error("the interface {0} carries no Ethernet frames: choose an Ethernet or Wi-Fi interface from `ip link`")]
    NotEthernet(String),
    #[error(
        "the interface {interface} carries only {mtu} bytes a frame, and at least {least} are needed: raise its MTU by `ip link set`"
    )]
    SmallMtu { interface: String, mtu: usize, least: usize },
    #[error(
        "sending and receiving Ethernet frames needs the capability CAP_NET_RAW, which this user lacks: run as root, or give it to the \
         program once by `sudo setcap cap_net_raw+ep \"$(command -v nearlight)\"`"
    )]
    NoRight,
    #[error("Ethernet frames are sent and received on Linux only: use the server's other link on this system")]
    NotLinux,
    #[error("{what} failed on the interface {interface}: {source}")]
    System { what: &'static str, interface: String, source: std::io::Error },
}

/// Buffers for the frames that one system call receives.
pub struct Frames {
    bytes: Vec<u8>,
    /// Length of a buffer: header and payload.
    stride: usize,
    lengths: Vec<usize>,
}

impl Frames {
    /// Makes buffers for payloads of up to `mtu` bytes. Longer ones are dropped.
    #[must_use]
    pub fn new(mtu: usize) -> Self {
        let stride = HEADER_BYTES + mtu;
        Self { bytes: vec![0; stride * BATCH], stride, lengths: Vec::with_capacity(BATCH) }
    }

    /// The received frames: destination, source, payload. Ethernet pads short payloads with zeros.
    pub fn iter(&self) -> impl Iterator<Item = (HardwareAddress, HardwareAddress, &[u8])> {
        let whole = self.lengths.iter().zip(self.bytes.chunks(self.stride)).map(|(length, bytes)| &bytes[..*length]);
        whole.filter_map(|frame| {
            let (header, payload) = frame.split_first_chunk::<HEADER_BYTES>()?;
            let (destination, rest) = header.split_first_chunk()?;
            Some((HardwareAddress(*destination), HardwareAddress(*rest.first_chunk()?), payload))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_shorter_than_a_header_are_passed_over() {
        let mut frames = Frames::new(100);
        frames.bytes[..6].copy_from_slice(&[1; 6]);
        frames.bytes[6..12].copy_from_slice(&[2; 6]);
        frames.bytes[14..17].copy_from_slice(b"abc");
        frames.lengths = vec![17, 13, 0];
        let seen: Vec<_> = frames.iter().collect();
        assert_eq!(seen, [(HardwareAddress([1; 6]), HardwareAddress([2; 6]), &b"abc"[..])]);
    }

    #[test]
    fn what_is_no_interface_for_frames_is_refused_in_words() {
        for (name, words) in [("no-such-one-here-and-too-long", "ip link"), ("nosuch0", "ip link")] {
            let error = PacketSocket::open(name).map(drop).expect_err(name).to_string();
            assert!(error.contains(words) || !cfg!(target_os = "linux"), "{error}");
        }
    }
}
