//! Two network namespaces with a cable (veth) between them, and a frame's packets by three methods.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::time::Duration;

use nearlight_net::link_layer::HardwareAddress;
use nearlight_net::packet::{Frames, PacketSocket};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::ladder::step::Method;

/// A packet's bytes, as of a session over an Ethernet of 1,500 bytes.
const PACKET_BYTES: usize = 1_400;
/// Number of the frame, of the packet and of all packets of the frame.
const HEADER_BYTES: usize = 8;
const PORTS: [u16; 2] = [7_001, 7_002];
const ADDRESSES: [&str; 2] = ["10.78.0.1", "10.78.0.2"];
const INTERFACE_NAMES: [&str; 2] = ["ladder0", "ladder1"];
const HARDWARE_ADDRESSES: [&str; 2] = ["02:00:00:00:4e:01", "02:00:00:00:4e:02"];

/// The cable. Removed at the end.
#[derive(Debug)]
pub(crate) struct Cable {
    namespaces: [String; 2],
}

fn ip(line: &str) -> io::Result<()> {
    let output = Command::new("ip").args(line.split(' ')).output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("`ip {line}` failed: {words}")))
}

impl Cable {
    /// Needs root.
    pub(crate) fn new() -> io::Result<Self> {
        let process = std::process::id();
        let cable = Self { namespaces: [0, 1].map(|end| format!("nearlight-ladder-{process}-{end}")) };
        let [near, far] = &cable.namespaces;
        for name in [near, far] {
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        let [[here, there], [mac_here, mac_there]] = [INTERFACE_NAMES, HARDWARE_ADDRESSES];
        ip(&format!(
            "-n {near} link add {here} address {mac_here} type veth peer name {there} address {mac_there} netns {far}"
        ))?;
        for (end, namespace) in cable.namespaces.iter().enumerate() {
            ip(&format!("-n {namespace} address add {}/24 dev {}", ADDRESSES[end], INTERFACE_NAMES[end]))?;
            ip(&format!("-n {namespace} link set {} up", INTERFACE_NAMES[end]))?;
        }
        Ok(cable)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            // It may not exist.
            let _ = ip(&format!("netns del {namespace}"));
        }
    }
}

/// One end's sockets.
pub(crate) struct End {
    plain: UdpSocket,
    offload: (UdpSocket, UdpSocketState),
    raw: PacketSocket,
    /// The other end.
    hardware: HardwareAddress,
    segments: Vec<u8>,
    packets: Vec<Vec<u8>>,
    buffers: Vec<Vec<u8>>,
    frames: Frames,
}

/// A number of system calls.
pub(crate) type Calls = u32;

fn socket(own: &str, other: &str, port: u16) -> io::Result<UdpSocket> {
    let address = |host: &str, port: u16| -> io::Result<SocketAddr> {
        format!("{host}:{port}").parse().map_err(|_| io::ErrorKind::InvalidInput.into())
    };
    let socket = UdpSocket::bind(address(own, port)?)?;
    socket.connect(address(other, port)?)?;
    // A key frame of 1080p must fit while the receiver decodes. Root may exceed the system's limit, and the cable needs root.
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 4 << 20)?;
    Ok(socket)
}

impl End {
    /// The host's end (0) or the device's (1).
    pub(crate) fn open(cable: &Cable, end: usize) -> io::Result<Self> {
        let namespace = cable.namespaces[end].clone();
        // A socket stays in the namespace in which it was opened, so only this thread enters it.
        let opening = std::thread::spawn(move || {
            let file = File::open(format!("/run/netns/{namespace}"))?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Self::open_here(end)
        });
        opening.join().map_err(|_| io::Error::other("a thread that opens sockets panicked"))?
    }

    fn open_here(end: usize) -> io::Result<Self> {
        let (own, other) = (ADDRESSES[end], ADDRESSES[1 - end]);
        let plain = socket(own, other, PORTS[0])?;
        plain.set_nonblocking(true)?;
        let offload = socket(own, other, PORTS[1])?;
        let state = UdpSocketState::new(UdpSockRef::from(&offload))?;
        let raw = PacketSocket::open(INTERFACE_NAMES[end]).map_err(io::Error::other)?;
        let hardware = HARDWARE_ADDRESSES[1 - end].parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self {
            plain,
            offload: (offload, state),
            raw,
            hardware,
            segments: Vec::new(),
            packets: Vec::new(),
            buffers: vec![vec![0; 1 << 16]; BATCH_SIZE],
            frames: Frames::new(1_500),
        })
    }

    /// Sends a frame's bits in packets.
    pub(crate) fn send(&mut self, method: Method, frame: u32, bits: &[u8]) -> io::Result<Calls> {
        let chunks = bits.chunks(PACKET_BYTES - HEADER_BYTES);
        let count = chunks.len() as u16;
        let headers = (0..count).map(|index| {
            let mut header = [0; HEADER_BYTES];
            header[..4].copy_from_slice(&frame.to_be_bytes());
            header[4..6].copy_from_slice(&index.to_be_bytes());
            header[6..].copy_from_slice(&count.to_be_bytes());
            header
        });
        match method {
            Method::Udp | Method::Raw => {
                self.packets.resize_with(count.into(), Vec::new);
                for ((packet, header), chunk) in self.packets.iter_mut().zip(headers).zip(chunks) {
                    packet.clear();
                    packet.extend_from_slice(&header);
                    packet.extend_from_slice(chunk);
                }
            }
            Method::Offload => {
                self.segments.clear();
                for (header, chunk) in headers.zip(chunks) {
                    self.segments.extend_from_slice(&header);
                    self.segments.extend_from_slice(chunk);
                }
            }
        }
        let mut calls = 0;
        match method {
            Method::Udp => {
                for packet in &self.packets {
                    self.plain.send(packet)?;
                    calls += 1;
                }
            }
            Method::Offload => {
                let (socket, state) = &self.offload;
                let most = state.max_gso_segments().clamp(1, 45);
                for contents in self.segments.chunks(PACKET_BYTES * most) {
                    let destination = socket.peer_addr()?;
                    let segment_size = (contents.len() > PACKET_BYTES).then_some(PACKET_BYTES);
                    let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
                    state.send(UdpSockRef::from(socket), &transmit)?;
                    calls += 1;
                }
            }
            Method::Raw => {
                let mut sent = 0;
                while sent < self.packets.len() {
                    let rest = self.packets.len() - sent;
                    sent += self.raw.send(self.hardware, &self.packets[sent..])?;
                    calls += rest.div_ceil(nearlight_net::packet::BATCH) as u32;
                }
            }
        }
        Ok(calls)
    }

    /// Waits for packets; false when none came within the limit.
    pub(crate) fn wait(&self, method: Method, limit: Duration) -> io::Result<bool> {
        let socket: BorrowedFd<'_> = match method {
            Method::Udp => self.plain.as_fd(),
            Method::Offload => self.offload.0.as_fd(),
            Method::Raw => self.raw.as_fd(),
        };
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        Ok(poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)], Some(&limit))? > 0)
    }

    /// Takes what one system call answers. `WouldBlock` where there is nothing.
    pub(crate) fn receive(&mut self, method: Method, mut on_packet: impl FnMut(Packet<'_>)) -> io::Result<Calls> {
        match method {
            Method::Udp => {
                let length = self.plain.recv(&mut self.buffers[0])?;
                Packet::read(&self.buffers[0][..length]).map(&mut on_packet);
            }
            Method::Offload => {
                let (socket, state) = &self.offload;
                let mut slices: Vec<_> = self.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
                let mut metas = [RecvMeta::default(); BATCH_SIZE];
                let count = state.recv(UdpSockRef::from(socket), &mut slices, &mut metas)?;
                for (buffer, meta) in self.buffers.iter().zip(&metas[..count]) {
                    for segment in buffer[..meta.len].chunks(meta.stride.max(1)) {
                        Packet::read(segment).map(&mut on_packet);
                    }
                }
            }
            Method::Raw => {
                self.raw.recv(&mut self.frames)?;
                for (_, _, payload) in self.frames.iter() {
                    Packet::read(payload).map(&mut on_packet);
                }
            }
        }
        Ok(1)
    }
}

/// A received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    pub(crate) frame: u32,
    pub(crate) index: u16,
    pub(crate) count: u16,
    pub(crate) bits: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a packet. None for foreign packets; short Ethernet frames are padded.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (header, bits) = bytes.split_at_checked(HEADER_BYTES)?;
        let number = |range: std::ops::Range<usize>| u16::from_be_bytes([header[range.start], header[range.start + 1]]);
        let frame = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        let (index, count) = (number(4..6), number(6..8));
        (index < count).then_some(Self { frame, index, count, bits })
    }

    /// Returns the offset of its bits in the frame.
    pub(crate) fn offset(&self) -> usize {
        usize::from(self.index) * (PACKET_BYTES - HEADER_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_they_are_written() {
        let bytes = [0, 0, 1, 2, 0, 3, 0, 9, 42, 43];
        let packet = Packet::read(&bytes).expect("a packet");
        assert_eq!(packet, Packet { frame: 258, index: 3, count: 9, bits: &[42, 43] });
        assert_eq!(packet.offset(), 3 * 1_392);
        assert!([&bytes[..7], &[0, 0, 0, 0, 0, 3, 0, 3]].iter().all(|bytes| Packet::read(bytes).is_none()));
    }
}
