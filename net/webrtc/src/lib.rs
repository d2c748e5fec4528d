//! WebRTC peers: our sender's decisions carried by a third-party library's protocols.
//!
//! The `rtc` crate implements ICE, DTLS, SRTP, SCTP and session descriptions, and decides nothing about media: its chain of interceptors
//! contains one of ours that extracts RTCP, and packets are injected where the chain begins. [`nearlight_session::Sender`] decides numbers,
//! packetization, pacing, rate, retransmissions and key frames, the same state machine as over WebTransport. The bandwidth estimator's slot
//! stays empty because the packets' transport-wide numbers are the sender's own, so feedback needs no second history.
//!
//! Everything takes time as an argument and does no IO. The protocols below draw their own keys and identifiers at random, so a session's
//! bytes differ between runs, but its decisions do not.
//!
//! A client's input is checked before the library reads it: STUN requests must be signed, DTLS records and the SCTP packets in them must
//! stay within their standards' limits, and RTP is dropped as useless. If the library panics nevertheless, only that session ends.
//!
//! The order of calls: pass facts (`on_*`), then drain [`Peer::poll_event`] and [`Peer::poll_transmit`], and sleep until
//! [`Peer::poll_timeout`].

#![forbid(unsafe_code)]

mod candidate_pairs;
mod codec;
mod contained;
mod crypto;
mod dtls;
mod feedback;
mod filter;
mod flexfec;
mod negotiate;
mod offer;
mod payload;
mod peer;
#[cfg(any(test, feature = "player"))]
pub mod player;
mod reception;
mod routes;
mod rtcp;
pub mod sctp;
mod stream;
mod stun;

pub use nearlight_wire::CodecKind;
pub use offer::{Fragment, MAX_SDP_BYTES, Offer, OfferError, OfferedCodec, is_candidate};
pub use peer::{Certificate, ChannelId, Event, MAX_MESSAGE, Message, Peer, PeerConfig, PeerError, Transmit};
pub use routes::{Carriage, PeerId, Remote, Routes};
pub use stun::IceCredentials;
#[cfg(any(test, feature = "player"))]
pub use stun::signed_request;
