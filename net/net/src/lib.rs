//! Drivers that move datagrams and read the time of their arrival. They make no decision about rate, loss or frames.
//!
//! One port number carries everything: QUIC (WebTransport) on UDP, the page (HTTP and HTTPS) on TCP. Browser and native
//! client use the same WebTransport session: datagrams for media, feedback and input, one stream for control messages. The native client
//! can have the same session over Ethernet frames ([`EthernetListener`]).
//!
//! A stranger may send anything here. Handshakes and connections are limited in number, in number per address and in time, and idle ones
//! are evicted for newcomers ([`Gate`]). Streams, stream windows and queues of datagrams are bounded per connection. Invalid data is
//! recognised by its first bytes.

#![deny(unsafe_code)]

mod address;
mod address_proof;
mod alarm;
mod attempts;
mod client;
mod clock;
mod connection;
mod control;
mod emulation;
mod error;
mod ethernet;
mod gate;
mod http;
mod identity;
mod link;
pub mod link_layer;
mod listener;
mod offers;
pub mod packet;
mod page_client;
mod pages;
mod shared_tcp;
mod sockets;
pub mod tcp;
mod token;
mod transport;
mod trust;

pub use address::{station_address, subscriber};
pub use alarm::Alarm;
pub use attempts::{AttemptLimiter, AttemptPolicy};
pub use client::{ConnectOptions, connect};
pub use clock::Clock;
pub use connection::{CloseReason, Connection, Direction, DropReason, ReceivedDatagram, SessionKind, Statistics};
pub use control::{ControlReceiver, ControlSender};
pub use emulation::{EmulatedPath, EmulatedPaths, PathEntrance, PathExit};
pub use error::NetError;
pub use ethernet::{EthernetInterface, EthernetLink, EthernetListener, connect_ethernet};
pub use gate::{Gate, Pass, Reservation};
pub use http::{SESSION_INFO_PATH, SessionInfo};
pub use identity::{Identity, SavedCertificate, machine_names, wall_clock};
pub use link::Link;
pub use listener::{Limits, ListenOptions, Listener};
pub use offers::{RateLimiter, RatePolicy};
pub use page_client::{ClientStream, connect_page};
pub use pages::PageStream;
pub use shared_tcp::TcpSocket;
pub use sockets::bind_udp;
pub use token::{Token, TokenError, nonce};
pub use transport::transport_config;
pub use trust::{CertificateHash, InvalidHash, Trust};

#[cfg(test)]
mod tests;
