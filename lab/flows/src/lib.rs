//! Competing traffic: what shares a bottleneck with a media session.
//!
//! Every flow is a state machine with both its ends, behind the trait [`Traffic`]: the driver moves packets, time is an argument.
//! [`law`] says how much may be in flight, [`bulk`] is TCP as far as a bottleneck can tell, [`Bulk`], [`Short`], [`Stream`] and
//! [`Cbr`] are flows made of them.
//!
//! ```
//! use nearlight_flows::{Arrival, Bulk, BulkConfig, Direction, Traffic};
//! use nearlight_units::{Span, Time};
//!
//! let mut flow = Bulk::new(BulkConfig::default());
//! let packet = flow.poll_transmit(Time::ZERO).expect("a fresh window");
//! assert_eq!(packet.direction, Direction::Forward);
//! let second = flow.poll_transmit(Time::ZERO).expect("ten packets of it");
//! let (now, marked) = (Time::ZERO + Span::from_millis(10), false);
//! for packet in [packet, second] {
//!     flow.on_delivered(now, Arrival { id: packet.id, direction: packet.direction, size: packet.size, marked });
//! }
//! assert_eq!(flow.poll_transmit(now).map(|packet| packet.direction), Some(Direction::Back));
//! ```

#![forbid(unsafe_code)]

pub mod bulk;
mod cbr;
mod endless;
mod short;
mod stream;
mod traffic;

pub use nearlight_window as law;

pub use cbr::{Cbr, CbrConfig};
pub use endless::{Bulk, BulkConfig};
pub use short::{Completion, Short, ShortConfig};
pub use stream::{Message, Stream, StreamConfig, law_of};
pub use traffic::{Arrival, Direction, FlowWake, Schedule, Statistics, Traffic, Transmit};
