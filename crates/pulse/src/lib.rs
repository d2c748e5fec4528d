//! A sound server for programs that play over `PulseAudio`'s native protocol: SDL, OpenAL, `GStreamer`, ALSA's plug-in, browsers, `paplay`.
//!
//! [`SoundServer`] listens at a socket; [`SoundServer::next_block`] mixes the next ten milliseconds of everything that plays, and asks
//! programs for more: whoever calls it is the clock. What a client says is handled in [`client`], what it plays in [`stream`], what it records
//! in [`recording`], and whether a message can be parsed at all is checked in [`tags`]; none of them reads a clock or does IO.
//!
//! One sink, and one source where there is a microphone; no sample cache, no modules. Volumes of streams count; those of the sink are the
//! viewers' own.
//!
//! Clients are programs that are not trusted. The numbers of clients and of streams, the bytes of a message, of a buffer and of replies
//! that a client does not read are bounded; whoever exceeds them is refused or disconnected.

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod client;
mod recording;
mod server;
mod stream;
mod tags;
#[cfg(test)]
mod testing;

pub use server::SoundServer;
