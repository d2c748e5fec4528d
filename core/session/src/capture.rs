//! When the server captures a picture, and what it asks of the encoder.

pub(crate) mod answered;
pub(crate) mod schedule;
pub(crate) mod timing;
