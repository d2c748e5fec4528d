//! Synthetic crowds: members of rooms that move, meet and act together, and measure what they notice.
//!
//! A [`SyntheticMember`] is a state machine without IO around [`nearlight_rooms::Replica`]: it decides where its body is and what it does
//! next, from a [`Profile`] and a seed. [`live`] drives many of them by WebSocket or WebTransport to a server, [`virtual_time`] over the links of
//! `nearlight_link`. Both report by the same [`Summary`]; `docs/rooms.md` defines its figures.

#![forbid(unsafe_code)]

mod backoff;
mod behaviour;
pub mod live;
pub mod page;
mod profile;
mod summary;
mod synthetic;
mod tally;
pub mod virtual_time;
mod voice;

pub use behaviour::Behaviour;
pub use profile::{Profile, ProfileError};
pub use summary::{Carrier, NaiveBroadcast, Quantiles, Summary, Video, Voices};
pub use synthetic::{MemberEvent, MemberSetup, SyntheticMember};
pub(crate) use tally::{RoomTally, Tally, Traffic};
