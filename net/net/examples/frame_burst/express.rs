//! Frames through `AF_XDP`: rings and buffers that this process shares with the kernel. Only measured here; the crate's documentation says
//! why.

use std::ffi::CString;
use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nearlight_net::link_layer::ETHERTYPE;
use nearlight_net::packet::HEADER_BYTES;
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};
use xdp::socket::{PollTimeout, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{RingConfigBuilder, Umem, WakableRings};

use crate::linux::Outcome;

/// Entries of each ring: a power of two above a frame's packets.
const RING_ENTRIES: u32 = 64;
/// Number of packets that the kernel sends in one call (`TX_BATCH_SIZE` in Linux's `net/xdp/xsk.c`).
const SEND_BATCH: usize = 32;

/// Where the kernel runs the program that passes frames to the socket.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// In the driver, before the kernel makes a packet buffer of its own.
    Driver,
    /// After the kernel has made a packet buffer. Every driver supports it.
    Generic,
}

/// A socket of one interface, bound to its only queue. Its packets are copied between driver and rings, because a veth supports nothing
/// else.
pub struct Socket {
    // In the order in which they are dropped: the program needs the socket, the socket the memory.
    _program: Option<Program>,
    rings: WakableRings,
    endpoint: XdpSocket,
    memory: Umem,
}

impl Socket {
    pub fn open(interface: &str, receives: Option<Mode>) -> Outcome<Self> {
        let name = CString::new(interface)?;
        let interface = NicIndex::lookup_by_name(&name)?.ok_or("no such interface")?;
        let buffers =
            UmemCfgBuilder { frame_size: FrameSize::TwoK, frame_count: 2 * RING_ENTRIES, ..UmemCfgBuilder::default() };
        let mut memory = Umem::map(buffers.build()?)?;
        let [rx_count, tx_count, fill_count, completion_count] = [RING_ENTRIES; 4];
        let config = RingConfigBuilder { rx_count, tx_count, fill_count, completion_count };
        let mut builder = XdpSocketBuilder::new()?;
        let (mut rings, mut flags) = builder.build_wakable_rings(&memory, config.build()?)?;
        flags.force_copy();
        let socket = builder.bind(interface, 0, flags)?;
        let program = match receives {
            Some(mode) => {
                // SAFETY: the memory is dropped after the socket.
                #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
                unsafe {
                    rings.fill_ring.enqueue(&mut memory, RING_ENTRIES as usize, false)?;
                }
                Some(Program::attach(&socket, interface.0, mode)?)
            }
            None => None,
        };
        Ok(Self { _program: program, rings, endpoint: socket, memory })
    }

    /// Copies the payloads into the shared memory and sends them.
    pub fn send(&mut self, header: &[u8; HEADER_BYTES], payloads: &[Vec<u8>]) -> Outcome<()> {
        let Self { rings, memory, .. } = self;
        // The buffers of sent packets are free again.
        rings.completion_ring.dequeue(memory, RING_ENTRIES as usize);
        let ring = rings.tx_ring.as_mut().ok_or("no ring for sending")?;
        for payloads in payloads.chunks(SEND_BATCH) {
            let mut packets = HeapSlab::with_capacity(SEND_BATCH);
            for payload in payloads {
                // SAFETY: the packet goes to the ring below, and the memory is dropped after the socket.
                #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
                let mut packet = unsafe { memory.alloc() }.ok_or("the shared memory is full")?;
                packet.append(header)?;
                packet.append(payload)?;
                packets.push_front(packet);
            }
            // SAFETY: the memory is dropped after the socket.
            #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
            let sent = unsafe { ring.send(&mut packets, true) }?;
            if sent < payloads.len() {
                return Err("the ring for sending is full".into());
            }
        }
        Ok(())
    }

    /// Waits until frames arrive, or the limit is reached. Returns whether any have arrived.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        self.endpoint.poll_read(PollTimeout::new(Some(limit)))
    }

    /// Returns the bytes of the payloads that have arrived.
    pub fn receive(&mut self) -> Outcome<usize> {
        let Self { rings, memory, .. } = self;
        let ring = rings.rx_ring.as_mut().ok_or("no ring for receiving")?;
        let mut packets = HeapSlab::with_capacity(RING_ENTRIES as usize);
        // SAFETY: the packets are given back below, before the memory is dropped.
        #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
        let count = unsafe { ring.recv(memory, &mut packets) };
        let mut bytes = 0;
        while let Some(packet) = packets.pop_back() {
            // The kernel's own frames arrive as well: it looks for neighbours.
            if packet.get(12..HEADER_BYTES) == Some(&ETHERTYPE.to_be_bytes()) {
                bytes += packet.len() - HEADER_BYTES;
            }
            memory.free_packet(packet);
        }
        // SAFETY: the memory is dropped after the socket.
        #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
        unsafe {
            rings.fill_ring.enqueue(memory, count, false)?;
        }
        Ok(bytes)
    }
}

/// A program in the kernel that passes an interface's frames to a socket, as long as this lives.
struct Program {
    _attached: OwnedFd,
    _code: OwnedFd,
    _map: OwnedFd,
}

/// Numbers of `linux/bpf.h` and `linux/if_link.h`.
mod number {
    pub const MAP_CREATE: i64 = 0;
    pub const MAP_UPDATE_ELEM: i64 = 2;
    pub const PROG_LOAD: i64 = 5;
    pub const LINK_CREATE: i64 = 28;
    pub const MAP_TYPE_XSKMAP: u32 = 17;
    pub const PROG_TYPE_XDP: u32 = 6;
    pub const ATTACH_TYPE_XDP: u32 = 37;
    pub const FLAGS_SKB_MODE: u32 = 2;
    pub const FLAGS_DRV_MODE: u32 = 4;
    pub const XDP_PASS: i32 = 2;
    pub const FUNC_REDIRECT_MAP: i32 = 51;
    /// Offset of `rx_queue_index` in `struct xdp_md`.
    pub const QUEUE_AT: u16 = 16;
}

impl Program {
    fn attach(socket: &XdpSocket, interface: u32, mode: Mode) -> io::Result<Self> {
        let map = created(number::MAP_CREATE, &[pair(number::MAP_TYPE_XSKMAP, 4), pair(4, 1)])?;
        let (queue, entry) = (0_u32, socket.as_raw_fd());
        let (key, value) = (&raw const queue, &raw const entry);
        call(number::MAP_UPDATE_ELEM, &[pair(of(&map), 0), key as u64, value as u64, 0])?;
        // bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS)
        let instructions = [
            instruction(0x61, 0x12, number::QUEUE_AT, 0),
            instruction(0x18, 0x11, 0, map.as_raw_fd()),
            instruction(0, 0, 0, 0),
            instruction(0xb7, 0x03, 0, number::XDP_PASS),
            instruction(0x85, 0, 0, number::FUNC_REDIRECT_MAP),
            instruction(0x95, 0, 0, 0),
        ];
        let kind = pair(number::PROG_TYPE_XDP, instructions.len() as u32);
        let (code, licence) = (instructions.as_ptr() as u64, c"MIT".as_ptr() as u64);
        let attached = pair(0, number::ATTACH_TYPE_XDP);
        let program = created(number::PROG_LOAD, &[kind, code, licence, 0, 0, 0, 0, 0, attached])?;
        let flags = match mode {
            Mode::Driver => number::FLAGS_DRV_MODE,
            Mode::Generic => number::FLAGS_SKB_MODE,
        };
        let link = [pair(of(&program), interface), pair(number::ATTACH_TYPE_XDP, flags)];
        Ok(Self { _attached: created(number::LINK_CREATE, &link)?, _code: program, _map: map })
    }
}

fn of(descriptor: &OwnedFd) -> u32 {
    descriptor.as_raw_fd() as u32
}

/// Two fields of `union bpf_attr` as they lie in the memory of a little-endian machine.
fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

/// Encodes an instruction of the kernel's virtual machine. `registers` has the destination in its lower four bits and the source above.
fn instruction(code: u8, registers: u8, offset: u16, immediate: i32) -> u64 {
    u64::from(code) | u64::from(registers) << 8 | u64::from(offset) << 16 | u64::from(immediate as u32) << 32
}

fn created(command: i64, attributes: &[u64]) -> io::Result<OwnedFd> {
    let descriptor = call(command, attributes)?;
    // SAFETY: the descriptor is new and has no other owner.
    #[expect(unsafe_code, reason = "takes over a descriptor")]
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// bpf(2). Addresses among the attributes are those of the caller's variables.
fn call(command: i64, attributes: &[u64]) -> io::Result<RawFd> {
    // SAFETY: the kernel reads the attributes, of which the length is given, and what they point to: variables of `Program::attach` that
    // live through the call. These commands write to neither.
    #[expect(unsafe_code, reason = "a system call")]
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes)) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as RawFd) }
}
