//! State that all parts of a receiver use.

use super::telemetry::Telemetry;
use super::uplink::Uplink;
use crate::clock::ClockSync;

/// The clock of the server, messages to it, and counters and events.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) clock: ClockSync,
    pub(super) uplink: Uplink,
    pub(super) telemetry: Telemetry,
}
