//! Adaptive streaming over HTTP: a player that chooses each segment's bit rate as dash.js does, and its connection to the server.
//!
//! [`Player`] is the client without a network: it returns requests, receives what arrived, and plays. [`Client`] puts it on one TCP
//! connection over a shared bottleneck. Time is an argument; there is no randomness.
//!
//! Source: dash.js 5.2.1 with its default settings (`ThroughputRule`, `BolaRule`, `InsufficientBufferRule`, `SwitchHistoryRule`,
//! `AbandonRequestsRule`, `ThroughputController`, `ScheduleController`). BOLA: Spiteri, Urgaonkar, Sitaraman, "BOLA: Near-Optimal
//! Bitrate Adaptation for Online Videos", INFOCOM 2016.
//!
//! # Departures
//! * There is only video, on demand, in one period. Seeking and the rule on dropped frames (off by default) are left out.
//! * All segments of a bit rate are equally large, and a manifest and an initialisation segment have fixed sizes.
//! * The browser plays as soon as a segment is complete, and stops where the buffer ends. Decoding and appending take no time.
//! * A progress event follows the previous one after 50 ms, if anything has arrived (the interval of `XMLHttpRequest`).
//! * HTTP/1.1 runs on one persistent connection. Aborting a request closes it, and a handshake of one round trip opens the next. TLS and the
//!   server's time are left out. A request is one packet; it is sent again after a second of silence, then after two, and so on.

mod abandon;
mod bola;
mod client;
mod content;
mod history;
mod playback;
mod player;
mod throughput;

pub use abandon::AbandonRule;
pub use bola::Bola;
pub use client::{Client, ClientConfig};
pub use content::{Content, ContentError, Resource};
pub use history::SwitchHistory;
pub use playback::Playback;
pub use player::{Player, Request};
pub use throughput::Throughput;
