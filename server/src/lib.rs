//! The server: one port, one page, one shared world, a session for each client.
//!
//! Thin by design: it moves datagrams between the transport and [`nearlight_session::Sender`], and pictures from the source
//! through an encoder to it. Decisions about rate, pacing, retransmission and key frames are made there.

#![forbid(unsafe_code)]

mod access;
mod event_log;
mod front;
mod http;
mod media;
mod metrics;
mod options;
mod rooms;
mod serve;
mod session;
mod state;
mod transports;

pub use access::history::{AccessEvent, AccessRecord, PlaceKind};
pub use access::identity_file::IdentityFile;
pub use access::link_file::{
    CodeState, GivenLink, LinkFile, LinkFileError, LinkKind, MAX_CODE_FAILURES, NewLink, unix_time_s,
};
pub use access::qr::qr_code;
pub use front::{BoundFront, FrontOptions};
pub use http::forwarding::{AddressPrefix, NotAnAddressPrefix};
pub use metrics::{Observer, SessionStatistics};
pub use nearlight_urs::signalling::Mode as UnityMode;
pub use options::{IceServer, NotAnIceServer, PictureSize, ServeOptions, UnityOptions};
pub use serve::{BoundServer, Server, ServerError};
