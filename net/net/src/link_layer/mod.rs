//! Nearlight's link-layer transport: sessions over Ethernet frames, without IP and UDP.
//!
//! It decides which clients are answered, what is encrypted with which counter, which frames are replays, and when a control message is
//! retransmitted. Both ends are state machines: frames' payloads go in through `on_frame` and come out of `poll_transmit`; times and random
//! bytes are arguments. `docs/wire.md` ("Ethernet") is normative.
//!
//! Frames of strangers are dropped before anything is allocated: the first frame of a handshake carries a code that only a holder of the
//! token can make, and it is answered without storing state. After that, memory is used only for holders of the token who have proved that
//! they receive at their address, and it is bounded.

mod address;
mod channel;
mod control;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod handshake;
mod layout;
mod noise;
mod replay;
mod secrets;

pub use address::{HardwareAddress, InvalidHardwareAddress};
pub use channel::{Channel, ChannelStatistics, DATAGRAM_OVERHEAD, EndReason, QueueFull, SILENCE_LIMIT};
pub use handshake::{ClientHandshake, ConnectConfig, Responder, ResponderAction, ResponderConfig, ResponderStatistics};
pub use layout::{ETHERTYPE, MIN_MTU, session_index};

#[cfg(test)]
mod tests;
