//! Drivers that move datagrams and stamp times. They decide nothing about rate, loss or frames.
//!
//! One port number carries everything: QUIC (WebTransport) on UDP, the page (HTTP and HTTPS) on TCP. Browser and native
//! client speak the same WebTransport session: datagrams for media, feedback and input, one stream for control messages. The native client
//! can have the same session over Ethernet frames ([`EthernetListener`]).
//!
//! A stranger may send anything here. Handshakes and connections are bounded in number, in number per address and in time, and idle ones
//! make room for newcomers ([`Gate`]); streams, stream windows and queues of datagrams are bounded per connection; garbage is recognised by
//! its first bytes.

#![forbid(unsafe_code)]

mod address;
mod alarm;
mod attempts;
mod client;
mod clock;
mod connection;
mod control;
mod error;
mod ethernet;
mod gate;
mod http;
mod identity;
mod impairment;
mod link;
mod listener;
mod offers;
mod page_client;
mod pages;
mod shared_tcp;
mod sockets;
mod token;
mod transport;
mod trust;

pub use address::{of_station, subscriber};
pub use alarm::Alarm;
pub use attempts::{AttemptLimiter, AttemptPolicy};
pub use client::{ConnectOptions, connect};
pub use clock::Clock;
pub use connection::{CloseReason, Connection, Direction, DropReason, Received, SessionKind, Statistics};
pub use control::{ControlReceiver, ControlSender};
pub use error::NetError;
pub use ethernet::{EthernetInterface, EthernetLink, EthernetListener, connect_ethernet};
pub use gate::{Gate, Pass, Reservation};
pub use http::{SESSION_INFO_PATH, SessionInfo};
pub use identity::{Identity, machine_names};
pub use impairment::Impairment;
pub use link::Link;
pub use listener::{Limits, ListenOptions, Listener};
pub use offers::{RateLimiter, RatePolicy};
pub use page_client::{ClientStream, connect_page};
pub use pages::PageStream;
pub use shared_tcp::TcpSocket;
pub use sockets::bind_udp;
pub use token::{Token, TokenError, nonce};
pub use transport::transport_config;
pub use trust::{CertificateHash, NotAHash, Trust};

#[cfg(test)]
mod tests;
