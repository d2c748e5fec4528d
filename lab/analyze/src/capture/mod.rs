//! Capture files: pcap and pcapng, as a stream of records.
//!
//! After the Internet-Drafts draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. A reader never trusts a length: inconsistent lengths end the
//! reading, and [`Reader::damage`] reports where and why. Earlier records stay valid. A complete record with an impossible time or interface is
//! skipped and counted.

mod input;
mod pcap;
mod pcapng;

use std::io::Read;

use nearlight_units::Time;
use serde::Serialize;

use input::{Input, Shortage};

/// The longest packet that a record may hold, as libpcap has it (`MAXIMUM_SNAPLEN`).
const MAX_PACKET: u32 = 262_144;

/// One captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Time since 1970 on the capturing machine's clock.
    pub at: Time,
    /// Bytes that the packet had, of which `bytes` are the first.
    pub length: u32,
    pub link: LinkType,
    pub bytes: &'a [u8],
}

/// The link layer of a captured packet (`LINKTYPE_` values of tcpdump.org).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// BSD loopback: the address family in the capturing machine's byte order.
    Null,
    Ethernet,
    /// IPv4 or IPv6, as the first four bits say.
    RawIp,
    /// OpenBSD loopback: the address family in network byte order.
    Loop,
    /// Linux "cooked" captures, of the pseudo-interface `any`.
    LinuxSll,
    LinuxSll2,
    Other(u16),
}

impl LinkType {
    fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Null,
            1 => Self::Ethernet,
            12 | 14 | 101 | 228 | 229 => Self::RawIp,
            108 => Self::Loop,
            113 => Self::LinuxSll,
            276 => Self::LinuxSll2,
            other => Self::Other(other),
        }
    }
}

/// The format of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    Pcap,
    Pcapng,
}

/// The position from which on a file cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Bytes from the beginning of the file to the record that cannot be read.
    pub offset: u64,
    pub reason: String,
}

/// A file that is not a capture at all.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error("the file is empty; a capture has a header even without packets: was it still being written?")]
    Empty,
    #[error("the file ends within its header, after {0} bytes, and contains no packet: capture again")]
    NoHeader(usize),
    #[error(
        "the file begins with {0:#010x} and is neither pcap nor pcapng; if it is compressed, unpack it, otherwise save it as pcap"
    )]
    NotACapture(u32),
    /// The system's own words are its source's.
    #[error("cannot read the file; check that it is a file and that you may read it")]
    Unreadable(#[from] std::io::Error),
}

/// Records of a capture, in the order of the file.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    format: Format,
    state: State,
    damage: Option<Damage>,
    counts: Counts,
}

/// Counts of skipped records.
#[derive(Debug, Default)]
struct Counts {
    untimed: u64,
    unplaced: u64,
    dropped: u64,
}

#[derive(Debug)]
enum State {
    Pcap(pcap::Header),
    Pcapng(pcapng::Sections),
    Ended,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    pub fn new(source: R) -> Result<Self, CaptureError> {
        let mut input = Input::new(source);
        let magic = match input.peek(4) {
            Ok(bytes) => [bytes[0], bytes[1], bytes[2], bytes[3]],
            Err(Shortage::End) => return Err(CaptureError::Empty),
            Err(Shortage::Within(there)) => return Err(CaptureError::NoHeader(there)),
            Err(Shortage::Failed(error)) => return Err(error.into()),
        };
        let state = if magic == pcapng::SECTION_BLOCK.to_be_bytes() {
            State::Pcapng(pcapng::Sections::default())
        } else {
            let form = pcap::PcapFormat::of(magic).ok_or(CaptureError::NotACapture(u32::from_be_bytes(magic)))?;
            match input.take(pcap::FILE_HEADER) {
                Ok(bytes) => State::Pcap(pcap::Header::parse(form, bytes)),
                Err(Shortage::Failed(error)) => return Err(error.into()),
                Err(Shortage::Within(there)) => return Err(CaptureError::NoHeader(there)),
                Err(Shortage::End) => return Err(CaptureError::Empty),
            }
        };
        let format = if matches!(state, State::Pcapng(_)) { Format::Pcapng } else { Format::Pcap };
        Ok(Self { input, format, state, damage: None, counts: Counts::default() })
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The next packet; `None` at the end, or where the file is damaged.
    pub fn poll_record(&mut self) -> Option<Record<'_>> {
        let begun = self.input.offset();
        let found = match &mut self.state {
            State::Ended => return None,
            State::Pcap(header) => header.record(&mut self.input, &mut self.counts),
            State::Pcapng(sections) => sections.record(&mut self.input, &mut self.counts),
        };
        match found {
            Ok(PacketLocation { at, length, link, range }) => {
                Some(Record { at, length, link, bytes: self.input.held(range) })
            }
            Err(stop) => {
                self.state = State::Ended;
                self.damage = stop.damage(begun);
                None
            }
        }
    }

    /// Returns where and why reading stopped before the end.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Packets that were stored without a time (pcapng's simple packet blocks), which are skipped.
    pub fn untimed(&self) -> u64 {
        self.counts.untimed
    }

    /// Packets skipped because of an impossible time (a fraction of more than a second) or an interface that is not described.
    pub fn unplaced(&self) -> u64 {
        self.counts.unplaced
    }

    /// Packets that the capturing machine says it dropped (pcapng's interface statistics).
    pub fn dropped(&self) -> u64 {
        self.counts.dropped
    }
}

/// A packet's place in the buffer.
#[derive(Debug)]
struct PacketLocation {
    at: Time,
    length: u32,
    link: LinkType,
    range: input::BufferRange,
}

/// Why reading stopped.
#[derive(Debug)]
enum StopReason {
    End,
    Damaged { at: Option<u64>, reason: String },
}

impl StopReason {
    fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged { at: None, reason: reason.into() }
    }

    /// Damage that begins there unless it is known better.
    fn at(self, begun: u64) -> Self {
        match self {
            Self::Damaged { at: None, reason } => Self::Damaged { at: Some(begun), reason },
            stop => stop,
        }
    }

    fn damage(self, begun: u64) -> Option<Damage> {
        match self {
            Self::End => None,
            Self::Damaged { at, reason } => Some(Damage { offset: at.unwrap_or(begun), reason }),
        }
    }

    /// Reports a shortage within a record, where the end of the file is damage too.
    fn within(shortage: Shortage, what: &str) -> Self {
        match shortage {
            Shortage::End | Shortage::Within(_) => Self::damaged(format!("the file ends within {what}")),
            Shortage::Failed(error) => Self::damaged(format!("{what} cannot be read: {error}")),
        }
    }

    /// Reports a shortage at the beginning of a record, where a file may end.
    fn between(shortage: Shortage, what: &str) -> Self {
        if matches!(shortage, Shortage::End) { Self::End } else { Self::within(shortage, what) }
    }
}
