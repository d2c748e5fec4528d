//! Pacing: when queued packets may leave.
//!
//! A pacer holds sizes and times, never packets' contents: the sender asks [`Pacer::poll`] whether the packet at the head of its
//! queue may leave now, and [`Pacer::poll_timeout`] when it will.
//!
//! ```
//! use nearlight_session::pace::{Class, Mode, Pacer};
//! use nearlight_units::{Bitrate, Bytes, Time};
//!
//! let (start, next_frame) = (Time::ZERO, Time::from_millis(33));
//! let mut pacer = Pacer::new(Mode::Compressed);
//! pacer.set_rate(start, Bitrate::from_mbps(48));
//! pacer.on_frame(start, Bytes::new(2_400), next_frame);
//! assert!(pacer.poll(start, Bytes::new(1_200), Class::Media));
//! assert!(!pacer.poll(start, Bytes::new(1_200), Class::Media));
//! assert_eq!(pacer.poll_timeout(), Some(Time::from_micros(200)));
//! ```

mod headroom;
mod meter;
mod mode;
mod pacer;

pub use headroom::Headroom;
pub use mode::{Mode, UnknownMode};
pub use pacer::{Class, Pacer};
