//! Paths against closed forms, published rules, and what holds for every path.

mod aqm;
mod bottlenecks;
mod drive;
mod hops;
mod properties;
mod spec;
