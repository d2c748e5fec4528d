//! The hops of [`nearlight_link`] in real time: a command runs behind an emulated link and reaches this machine through it.
//!
//! One thread moves packets between two ends, each direction through a [`Path`](nearlight_link::Path) of its own; the path decides what
//! happens to a packet and when, as in the simulator. [`LinkMethod`] determines how the ends are created: a pair
//! of interfaces, one of them in a network namespace, as root or in a user namespace; where neither is allowed, a relay for UDP.
//!
//! [`SessionPaths`] puts paths into the process of a server or a viewer instead, where only the datagrams of its sessions cross them.

#![deny(unsafe_code)]

mod clock;
mod gateway;
mod held;
mod impairment;
mod ip;
mod lane;
mod lateness;
mod link;
mod namespaces;
mod port;
mod pump;
mod relay;
mod report;
mod session_paths;
mod sys;
mod translate;
mod tun;

pub use clock::machine_time;
pub use lateness::Lateness;
pub use link::{Link, LinkMethod, LinkOptions, MethodChoice, MethodError, OpenError};
pub use report::{Amount, DirectionReport, Report};
pub use session_paths::{PathEnd, SessionPaths};
pub use tun::Layer;
