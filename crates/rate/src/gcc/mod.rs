//! Google Congestion Control, and the parts that its variants share.
//!
//! Each part is a state machine of its own. Samples: [`groups`] form them out of packets. Delay: [`trendline`] or [`kalman`] tell
//! how it grows, [`detector`] whether that is over-use. What arrives: [`acked`]. Rates: [`aimd`] or [`remote_rate`] turn both into a
//! delay-based rate, [`loss`] or [`loss_ratio`] lower it where loss says so. Beyond that, [`probing`] and [`probe_rate`] find
//! capacity that nobody uses yet, [`alr`] knows when the application sends too little to tell, [`drain`] empties long
//! queues, and [`protection`] sets aside what a call adds against losses.
//!
//! [`LibWebrtc`], [`Draft`] and [`AlvrFork`] join them; [`Remb`] does with half of them, where the receiver does the rest.

pub mod acked;
pub mod aimd;
pub mod alr;
mod alvr_fork;
pub mod detector;
mod draft;
pub mod drain;
pub mod groups;
pub mod kalman;
mod libwebrtc;
pub mod loss;
pub mod loss_ratio;
pub mod probe_rate;
pub mod probing;
pub mod protection;
mod remb;
pub mod remote_rate;
pub mod trendline;

pub use alvr_fork::AlvrFork;
pub use draft::{Draft, DraftOptions};
pub use libwebrtc::{LibWebrtc, Options};
pub use remb::Remb;
