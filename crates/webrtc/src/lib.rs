//! WebRTC peers: our sender's decisions carried by another library's protocols.
//!
//! The `rtc` crate does ICE, DTLS, SRTP, SCTP and session descriptions, and decides nothing about media: its chain of
//! interceptors holds one of ours that hands RTCP over, and packets go in where the chain begins. Numbers, cutting, pacing, rate,
//! retransmissions and key frames are [`nearlight_session::Sender`]'s, the same state machine as over WebTransport. The bandwidth
//! estimator's slot stays empty because the packets' transport-wide numbers are the sender's own, so feedback needs no second history.
//!
//! Everything takes time as an argument and does no IO; the protocols below draw their own keys and identifiers at random, so a
//! session's bytes differ between runs, its decisions do not.
//!
//! What a client sends is looked at before the library reads it: STUN requests must be signed, DTLS records and the SCTP packets in them
//! must keep to their standards' bounds, and RTP has no use. Where the library panics all the same, the session ends, and nothing else.
//!
//! The order of calls: hand over facts (`on_*`), then drain [`Peer::poll_event`] and [`Peer::poll_transmit`], and sleep until
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
