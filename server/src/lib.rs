//! The server: one port, one page, one shared world, a session for each client.
//!
//! Thin by design: it moves datagrams between the transport and [`nearlight_session::Sender`], and pictures from the source
//! through an encoder to it. Decisions about rate, pacing, retransmission and key frames are made there.

#![forbid(unsafe_code)]

mod admission;
mod carrier;
mod encoding;
mod event_log;
mod fan_out;
mod front;
mod handshake;
mod hosts;
mod http;
mod layer;
mod links;
mod metrics;
mod options;
mod overload;
mod page;
mod pairing;
mod pictures;
mod qr;
mod rooms;
mod rtc;
mod serve;
mod session;
mod session_common;
mod session_exchange;
mod sound;
mod source;
mod state;
mod studio;
mod transports;
mod urs;
mod websocket;
mod webtransport;

pub use front::{BoundFront, FrontOptions};
pub use metrics::{Observer, SessionStatistics};
pub use nearlight_urs::signalling::Mode as UnityMode;
pub use options::{IceServer, NotAnIceServer, PictureSize, ServeOptions, UnityOptions};
pub use qr::qr_code;
pub use serve::{BoundServer, Server, ServerError};
