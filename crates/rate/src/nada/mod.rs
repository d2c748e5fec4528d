//! NADA, Network-Assisted Dynamic Adaptation: one signal out of delay, loss and marks, and a rate that settles where the signal is
//! what the rate is worth.
//!
//! [`signal`] observes the path and forms the signal, [`loss_interval`] knows how rare losses are, [`reference`] holds the sender's
//! two laws of the reference rate. [`Rfc8698`] joins them; [`AlvrFork`] is what MM '25 ran, which looks at whole frames.

mod alvr_fork;
pub mod loss_interval;
pub mod reference;
mod rfc8698;
pub mod signal;

pub use alvr_fork::AlvrFork;
pub use rfc8698::Rfc8698;
