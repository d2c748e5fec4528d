//! The server: one port, one page, one shared world, a session for each client.
//!
//! Thin by design: it moves datagrams between the transport and [`nearlight_session::Sender`], and pictures from the source
//! through an encoder to it. Decisions about rate, pacing, repair and key frames are made there.

#![forbid(unsafe_code)]

mod bad_paths;
mod encoding;
mod hosts;
mod house;
mod http;
mod journal;
mod metrics;
mod options;
mod page;
mod pairing;
mod places;
mod rtc;
mod seat;
mod serve;
mod sound;
mod stay;
mod strain;
mod studio;
mod urs;
mod visit;

pub use nearlight_urs::signalling::Mode as UnityMode;
pub use options::{IceServer, Impairment, NotAnIceServer, PictureSize, ServeOptions, UnityOptions};
pub use serve::{Door, Server, ServerError};
