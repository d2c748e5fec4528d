//! Google Congestion Control, and the parts that its variants share.
//!
//! Each part is a state machine of its own: [`groups`] form samples out of packets, [`trendline`] tells whether the queue grows,
//! [`acked`] what arrives, [`aimd`] turns both into a delay-based rate, [`loss`] lowers it where loss says so, [`probing`] and
//! [`probe_rate`] find capacity that nobody uses yet, and [`alr`] knows when the application sends too little to tell,
//! [`drain`] empties long queues.
//! [`LibWebrtc`] joins them.

pub mod acked;
pub mod aimd;
pub mod alr;
pub mod detector;
pub mod drain;
pub mod groups;
mod libwebrtc;
pub mod loss;
pub mod probe_rate;
pub mod probing;
pub mod trendline;

pub use libwebrtc::{LibWebrtc, Options};
