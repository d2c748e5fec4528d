//! A sound server for programs that use `PulseAudio`'s native protocol: SDL, OpenAL, `GStreamer`, VLC, mpv, ALSA's plug-in,
//! browsers, `paplay`.
//!
//! [`SoundServer`] listens at a socket. [`SoundServer::next_block`] mixes the next 10 ms of all streams and requests more data from the
//! programs; its caller provides the clock. [`client`] handles the commands and [`introspection`] describes the server; [`format`] chooses
//! the format of a stream, [`stream`] handles playback and [`recording`] recording, with [`samples`] and [`channels`] for conversion;
//! [`tags`] checks messages before they are parsed. None of these reads a clock or does IO.
//!
//! There is one sink, one source if there is a microphone, no sample cache and no modules. The streams' volumes are applied; the sink's is
//! left to the viewers.
//!
//! Clients are untrusted. The numbers of clients and streams, and the sizes of messages, buffers and unread replies are bounded. Clients
//! that exceed a bound are refused or disconnected.

mod channels;
mod client;
mod format;
mod introspection;
mod recording;
mod samples;
mod server;
mod stream;
mod tags;
#[cfg(test)]
mod testing;

pub(crate) use server::SoundServer;
