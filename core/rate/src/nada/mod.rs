//! NADA, Network-Assisted Dynamic Adaptation: delay, loss and marks form one congestion signal, and the rate settles at an equilibrium
//! with that signal.
//!
//! [`signal`] observes the path and forms the signal, [`loss_interval`] measures the distance between losses, [`reference`] holds the
//! sender's two laws of the reference rate. [`Rfc8698`] joins them. [`AlvrFork`] is the controller of MM '25, which works on whole frames.

mod alvr_fork;
pub mod loss_interval;
pub mod reference;
mod rfc8698;
pub mod signal;

pub use alvr_fork::AlvrFork;
pub use rfc8698::Rfc8698;
