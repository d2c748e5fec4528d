//! Messages between servers about one room. `docs/wire.md`, section "Rooms on several servers", is the normative description.

use std::net::IpAddr;

use nearlight_rooms::{Join, JoinError, MAX_SNAPSHOT_BYTES, MAX_UPSTREAM_BYTES};
use nearlight_units::{Bitrate, Span};

use crate::entry::VERSION;

/// Longest batch in bytes. NATS accepts 1 MiB by default.
pub const MAX_BATCH_BYTES: usize = 768 << 10;
/// Bytes of the longest join, with its fields and lengths, and the address before it.
const MAX_JOIN_BYTES: usize = 16 + 128;

/// A member's connection to its server. The server numbers its connections and never reuses a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub u32);

/// A message about a member from its server to the room's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamItem {
    /// The member wants to join, or to reclaim its seat, from this address. The join has a key and is repeated until it is answered.
    Join {
        join: Join,
        address: IpAddr,
    },
    Message(Vec<u8>),
    /// The member has left.
    Left,
    /// The member's connection broke.
    Lost,
    /// The state of the member's network, for [`nearlight_rooms::Room::on_network`].
    Network {
        rate: Bitrate,
        round_trip: Span,
    },
    /// The member's connection accepts no messages at the moment.
    Blocked,
    /// The member's connection accepts messages again.
    Writable,
}

/// A message about a member from the room's owner to the member's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownstreamItem {
    /// The member has a seat.
    Joined,
    /// The member gets no seat.
    Refused(JoinError),
    Message(Vec<u8>),
    /// The membership has ended, or continues over another connection.
    Ended,
    /// The owner does not know this connection, so the member must join again.
    Unknown,
}

/// Messages about one room that are sent together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batch {
    Upstream { term: u32, items: Vec<(Connection, UpstreamItem)> },
    Downstream { term: u32, items: Vec<(Connection, DownstreamItem)> },
}

/// The error for a batch that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a batch of another server cannot be read: let all servers of a fleet be of the same release")]
pub struct BatchError;

const UP: u8 = 0;
const DOWN: u8 = 1;

fn begin(out: &mut Vec<u8>, kind: u8, term: u32) {
    out.extend_from_slice(&[VERSION, kind]);
    out.extend_from_slice(&term.to_be_bytes());
}

fn put(out: &mut Vec<u8>, tag: u8, connection: Connection, content: &[u8]) {
    out.push(tag);
    out.extend_from_slice(&connection.0.to_be_bytes());
    out.extend_from_slice(&(content.len() as u32).to_be_bytes());
    out.extend_from_slice(content);
}

impl Batch {
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Upstream { term, items } => {
                begin(&mut out, UP, *term);
                for (connection, item) in items {
                    match item {
                        UpstreamItem::Join { join, address } => {
                            let mapped = match address {
                                IpAddr::V4(address) => address.to_ipv6_mapped(),
                                IpAddr::V6(address) => *address,
                            };
                            put(&mut out, 1, *connection, &[&mapped.octets(), &join.to_bytes()[..]].concat());
                        }
                        UpstreamItem::Message(bytes) => put(&mut out, 2, *connection, bytes),
                        UpstreamItem::Left => put(&mut out, 3, *connection, &[]),
                        UpstreamItem::Lost => put(&mut out, 4, *connection, &[]),
                        UpstreamItem::Network { rate, round_trip } => {
                            let round_trip = u64::try_from(round_trip.as_nanos()).unwrap_or_default();
                            let numbers = [rate.as_bps(), round_trip].map(u64::to_be_bytes);
                            put(&mut out, 5, *connection, numbers.as_flattened());
                        }
                        UpstreamItem::Blocked => put(&mut out, 6, *connection, &[]),
                        UpstreamItem::Writable => put(&mut out, 7, *connection, &[]),
                    }
                }
            }
            Self::Downstream { term, items } => {
                begin(&mut out, DOWN, *term);
                for (connection, item) in items {
                    match item {
                        DownstreamItem::Joined => put(&mut out, 1, *connection, &[]),
                        DownstreamItem::Refused(error) => put(&mut out, 2, *connection, &refusal(*error)),
                        DownstreamItem::Message(bytes) => put(&mut out, 3, *connection, bytes),
                        DownstreamItem::Ended => put(&mut out, 4, *connection, &[]),
                        DownstreamItem::Unknown => put(&mut out, 5, *connection, &[]),
                    }
                }
            }
        }
        out
    }

    /// # Errors
    /// If the bytes are not a batch of this version.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let ([VERSION, kind, a, b, c, d], mut rest) = bytes.split_first_chunk::<6>().ok_or(BatchError)? else {
            return Err(BatchError);
        };
        let term = u32::from_be_bytes([*a, *b, *c, *d]);
        let (mut ups, mut downs) = (Vec::new(), Vec::new());
        while !rest.is_empty() {
            let (tag, connection, content);
            (tag, connection, content, rest) = item(rest)?;
            match *kind {
                UP => ups.push((connection, parse_upstream(tag, content)?)),
                DOWN => downs.push((connection, parse_downstream(tag, content)?)),
                _ => return Err(BatchError),
            }
        }
        match *kind {
            UP => Ok(Self::Upstream { term, items: ups }),
            DOWN => Ok(Self::Downstream { term, items: downs }),
            _ => Err(BatchError),
        }
    }
}

/// Returns the content of a refusal: its kind, and the time to wait in seconds.
fn refusal(error: JoinError) -> [u8; 5] {
    let (kind, wait) = match error {
        JoinError::Full => (0, Span::ZERO),
        JoinError::Name => (1, Span::ZERO),
        JoinError::Removed => (2, Span::ZERO),
        JoinError::AddressHold(wait) => (3, wait),
    };
    let [a, b, c, d] = (wait.as_secs_f64().ceil() as u32).to_be_bytes();
    [kind, a, b, c, d]
}

/// Tag, connection and content of an item, and the bytes after it.
type Item<'a> = (u8, Connection, &'a [u8], &'a [u8]);

fn item(bytes: &[u8]) -> Result<Item<'_>, BatchError> {
    let (tag, rest) = bytes.split_first().ok_or(BatchError)?;
    let (connection, rest) = rest.split_first_chunk().ok_or(BatchError)?;
    let (length, rest) = rest.split_first_chunk().ok_or(BatchError)?;
    let (content, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or(BatchError)?;
    Ok((*tag, Connection(u32::from_be_bytes(*connection)), content, rest))
}

fn parse_upstream(tag: u8, content: &[u8]) -> Result<UpstreamItem, BatchError> {
    Ok(match (tag, content) {
        (1, content) if content.len() <= MAX_JOIN_BYTES => {
            let (address, join) = content.split_first_chunk::<16>().ok_or(BatchError)?;
            let join = Join::parse(join).map_err(|_| BatchError)?;
            if join.key.is_none() {
                return Err(BatchError);
            }
            UpstreamItem::Join { join, address: IpAddr::from(*address).to_canonical() }
        }
        (2, message) if message.len() <= MAX_UPSTREAM_BYTES => UpstreamItem::Message(message.to_vec()),
        (3, []) => UpstreamItem::Left,
        (4, []) => UpstreamItem::Lost,
        (5, numbers) if numbers.len() == 16 => {
            let number = |half: &[u8]| half.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
            let round_trip = i64::try_from(number(&numbers[8..])).map_err(|_| BatchError)?;
            UpstreamItem::Network {
                rate: Bitrate::from_bps(number(&numbers[..8])),
                round_trip: Span::from_nanos(round_trip),
            }
        }
        (6, []) => UpstreamItem::Blocked,
        (7, []) => UpstreamItem::Writable,
        _ => return Err(BatchError),
    })
}

fn parse_downstream(tag: u8, content: &[u8]) -> Result<DownstreamItem, BatchError> {
    Ok(match (tag, content) {
        (1, []) => DownstreamItem::Joined,
        (2, [kind, a, b, c, d]) => {
            let seconds = u32::from_be_bytes([*a, *b, *c, *d]);
            DownstreamItem::Refused(match (*kind, seconds) {
                (0, 0) => JoinError::Full,
                (1, 0) => JoinError::Name,
                (2, 0) => JoinError::Removed,
                (3, _) => JoinError::AddressHold(Span::from_secs(i64::from(seconds))),
                _ => return Err(BatchError),
            })
        }
        (3, message) if message.len() <= MAX_SNAPSHOT_BYTES => DownstreamItem::Message(message.to_vec()),
        (4, []) => DownstreamItem::Ended,
        (5, []) => DownstreamItem::Unknown,
        _ => return Err(BatchError),
    })
}

/// Splits items into batches of at most [`MAX_BATCH_BYTES`].
pub(crate) fn split<T>(items: Vec<(Connection, T)>, length: impl Fn(&T) -> usize) -> Vec<Vec<(Connection, T)>> {
    let (mut batches, mut bytes): (Vec<Vec<_>>, _) = (Vec::new(), 0);
    for item in items {
        let own = length(&item.1) + 16;
        if batches.is_empty() || bytes + own > MAX_BATCH_BYTES {
            batches.push(Vec::new());
            bytes = 0;
        }
        bytes += own;
        if let Some(batch) = batches.last_mut() {
            batch.push(item);
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use nearlight_rooms::{Role, SeatKey};

    use super::*;

    #[test]
    fn joins_and_refusals_are_read_back() {
        let key = Some(SeatKey([7; 16]));
        let join = Join { room: "main".into(), role: Role::Guest, name: "Ada".into(), colour: [1, 2, 3], key };
        for address in ["192.0.2.1", "2001:db8::"].map(|address| address.parse().expect("an address")) {
            let items = vec![(Connection(3), UpstreamItem::Join { join: join.clone(), address })];
            let batch = Batch::Upstream { term: 2, items };
            assert_eq!(Batch::parse(&batch.to_bytes()), Ok(batch));
        }
        let held = JoinError::AddressHold(Span::from_secs(61));
        for error in [JoinError::Full, JoinError::Name, JoinError::Removed, held] {
            let batch = Batch::Downstream { term: 2, items: vec![(Connection(3), DownstreamItem::Refused(error))] };
            assert_eq!(Batch::parse(&batch.to_bytes()), Ok(batch));
        }
        assert_eq!(refusal(JoinError::AddressHold(Span::from_millis(200))), [3, 0, 0, 0, 1], "a wait is rounded up");
    }
}
