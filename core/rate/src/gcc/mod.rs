//! Google Congestion Control, and the parts that its variants share.
//!
//! Each part is a state machine of its own. Samples: [`groups`] forms them from packets. Delay: [`trendline`] or [`kalman`] estimates its
//! growth, and [`detector`] decides whether that is over-use. Arriving rate: [`acked`]. Rates: [`aimd`] or [`remote_rate`] turn both into
//! a delay-based rate, and [`loss`] or [`loss_ratio`] lower it when packets are lost. Beyond that, [`probing`] and [`probe_rate`] find
//! unused capacity, [`alr`] detects that the application sends too little to show the capacity, [`drain`] empties long queues, and
//! [`protection`] reserves the part of the rate that a call spends on redundancy.
//!
//! [`LibWebrtc`], [`Draft`] and [`AlvrFork`] join them. [`Remb`] needs only half of them, because the receiver does the rest.

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
