//! WebRTC clients: one UDP socket for all of them, WHEP beside the page, and a session for each.

mod socket;
mod visit;
pub(crate) mod whep;

pub(crate) use socket::Exchange;
