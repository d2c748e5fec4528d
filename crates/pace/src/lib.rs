//! When queued packets may leave.
//!
//! A pacer holds sizes and times, never packets' contents: the sender asks [`Pacer::poll`] whether the packet at the head of its
//! queue may leave now, and [`Pacer::poll_timeout`] when it will.

#![forbid(unsafe_code)]

use nearlight_units::{Bitrate, Bytes, Span, Time};

/// How a frame's packets are laid out in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All at once, as soon as the frame is there.
    Burst,
    /// Groups of packets, one group an interval, each as large as the pacing rate allows (WebRTC's habit with 5 ms).
    Interval(Span),
    /// Evenly over the time to the next frame.
    Spread,
    /// Evenly at the pacing rate, a multiple of the target: done well before the next frame.
    Compressed,
}
