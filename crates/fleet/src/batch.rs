//! What servers say to each other of one room. `docs/wire.md`, section "Rooms on several servers", is the normative description.

use nearlight_rooms::{Join, MAX_SNAPSHOT_BYTES, MAX_UPSTREAM_BYTES};
use nearlight_units::{Bitrate, Span};

use crate::entry::VERSION;

/// A batch is sent before it would be longer; NATS takes 1 MiB by default.
pub const MAX_BATCH_BYTES: usize = 768 << 10;
/// The longest join: its fields and lengths.
const MAX_JOIN_BYTES: usize = 128;

/// A member's connection to its server, numbered by that server and never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub u32);

/// From a member's server to the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Up {
    /// The member wants to join, or its seat again; repeated until it is answered. It has a key.
    Join(Join),
    Message(Vec<u8>),
    /// It has left.
    Left,
    /// Its connection broke.
    Lost,
    /// What its network carries, see [`nearlight_rooms::Room::on_network`].
    Network {
        rate: Bitrate,
        round_trip: Span,
    },
    /// Its connection takes nothing at the moment.
    Blocked,
    /// Its connection takes messages again.
    Writable,
}

/// From the owner to a member's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Down {
    /// The member has a seat.
    Joined,
    /// It gets none: the room is full, or (true) its name is at fault.
    Refused {
        name: bool,
    },
    Message(Vec<u8>),
    /// The membership has ended, or goes on over another connection.
    Ended,
    /// The owner knows nothing of this connection: join again.
    Unknown,
}

/// Messages of one moment, about one room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batch {
    Up { term: u32, items: Vec<(Connection, Up)> },
    Down { term: u32, items: Vec<(Connection, Down)> },
}

/// Why a batch was refused.
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
            Self::Up { term, items } => {
                begin(&mut out, UP, *term);
                for (connection, item) in items {
                    match item {
                        Up::Join(join) => put(&mut out, 1, *connection, &join.to_bytes()),
                        Up::Message(bytes) => put(&mut out, 2, *connection, bytes),
                        Up::Left => put(&mut out, 3, *connection, &[]),
                        Up::Lost => put(&mut out, 4, *connection, &[]),
                        Up::Network { rate, round_trip } => {
                            let round_trip = u64::try_from(round_trip.as_nanos()).unwrap_or_default();
                            let numbers = [rate.as_bps(), round_trip].map(u64::to_be_bytes);
                            put(&mut out, 5, *connection, numbers.as_flattened());
                        }
                        Up::Blocked => put(&mut out, 6, *connection, &[]),
                        Up::Writable => put(&mut out, 7, *connection, &[]),
                    }
                }
            }
            Self::Down { term, items } => {
                begin(&mut out, DOWN, *term);
                for (connection, item) in items {
                    match item {
                        Down::Joined => put(&mut out, 1, *connection, &[]),
                        Down::Refused { name } => put(&mut out, 2, *connection, &[u8::from(*name)]),
                        Down::Message(bytes) => put(&mut out, 3, *connection, bytes),
                        Down::Ended => put(&mut out, 4, *connection, &[]),
                        Down::Unknown => put(&mut out, 5, *connection, &[]),
                    }
                }
            }
        }
        out
    }

    /// # Errors
    /// If it is no batch.
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
                UP => ups.push((connection, up(tag, content)?)),
                DOWN => downs.push((connection, down(tag, content)?)),
                _ => return Err(BatchError),
            }
        }
        match *kind {
            UP => Ok(Self::Up { term, items: ups }),
            DOWN => Ok(Self::Down { term, items: downs }),
            _ => Err(BatchError),
        }
    }
}

/// Tag, connection and content of an item, and what follows it.
type Item<'a> = (u8, Connection, &'a [u8], &'a [u8]);

fn item(bytes: &[u8]) -> Result<Item<'_>, BatchError> {
    let (tag, rest) = bytes.split_first().ok_or(BatchError)?;
    let (connection, rest) = rest.split_first_chunk().ok_or(BatchError)?;
    let (length, rest) = rest.split_first_chunk().ok_or(BatchError)?;
    let (content, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or(BatchError)?;
    Ok((*tag, Connection(u32::from_be_bytes(*connection)), content, rest))
}

fn up(tag: u8, content: &[u8]) -> Result<Up, BatchError> {
    Ok(match (tag, content) {
        (1, join) if join.len() <= MAX_JOIN_BYTES => {
            let join = Join::parse(join).map_err(|_| BatchError)?;
            if join.key.is_none() {
                return Err(BatchError);
            }
            Up::Join(join)
        }
        (2, message) if message.len() <= MAX_UPSTREAM_BYTES => Up::Message(message.to_vec()),
        (3, []) => Up::Left,
        (4, []) => Up::Lost,
        (5, numbers) if numbers.len() == 16 => {
            let number = |half: &[u8]| half.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
            let round_trip = i64::try_from(number(&numbers[8..])).map_err(|_| BatchError)?;
            Up::Network { rate: Bitrate::from_bps(number(&numbers[..8])), round_trip: Span::from_nanos(round_trip) }
        }
        (6, []) => Up::Blocked,
        (7, []) => Up::Writable,
        _ => return Err(BatchError),
    })
}

fn down(tag: u8, content: &[u8]) -> Result<Down, BatchError> {
    Ok(match (tag, content) {
        (1, []) => Down::Joined,
        (2, [name @ (0 | 1)]) => Down::Refused { name: *name == 1 },
        (3, message) if message.len() <= MAX_SNAPSHOT_BYTES => Down::Message(message.to_vec()),
        (4, []) => Down::Ended,
        (5, []) => Down::Unknown,
        _ => return Err(BatchError),
    })
}

/// In batches that are not too long.
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
