//! Messages between servers about one room. `docs/wire.md`, section "Rooms on several servers", is the normative description.

use nearlight_rooms::{Join, MAX_SNAPSHOT_BYTES, MAX_UPSTREAM_BYTES};
use nearlight_units::{Bitrate, Span};

use crate::entry::VERSION;

/// Longest batch in bytes. NATS accepts 1 MiB by default.
pub const MAX_BATCH_BYTES: usize = 768 << 10;
/// Bytes of the longest join, with its fields and lengths.
const MAX_JOIN_BYTES: usize = 128;

/// A member's connection to its server. The server numbers its connections and never reuses a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub u32);

/// A message about a member from its server to the room's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamItem {
    /// The member wants to join, or to reclaim its seat. The join has a key and is repeated until it is answered.
    Join(Join),
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
    /// The member gets no seat: its name is invalid if `name`, and otherwise the room is full.
    Refused {
        name: bool,
    },
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
                        UpstreamItem::Join(join) => put(&mut out, 1, *connection, &join.to_bytes()),
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
                        DownstreamItem::Refused { name } => put(&mut out, 2, *connection, &[u8::from(*name)]),
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
        (1, join) if join.len() <= MAX_JOIN_BYTES => {
            let join = Join::parse(join).map_err(|_| BatchError)?;
            if join.key.is_none() {
                return Err(BatchError);
            }
            UpstreamItem::Join(join)
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
        (2, [name @ (0 | 1)]) => DownstreamItem::Refused { name: *name == 1 },
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
