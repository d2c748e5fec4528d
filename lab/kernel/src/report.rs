//! The loaded laws and the state of their flows, as `nearlight kernel status` shows them (docs/json.md).

use std::net::SocketAddr;
use std::path::PathBuf;

use nearlight_units::Span;
use nearlight_window::{HeraOptions, Reading, Step};
use serde::Serialize;

/// A law that was loaded, registered or still used by flows.
#[derive(Clone, Debug, Serialize)]
pub struct InstanceStatus {
    pub name: String,
    /// Sockets can select it. If not, it goes when its last flow ends.
    pub registered: bool,
    /// The file that keeps it.
    pub pinned: Option<PathBuf>,
    /// Processes that keep it.
    pub held_by: Vec<u32>,
    pub parameters: Parameters,
    /// Cost of the law. None unless the kernel counts it (`sysctl kernel.bpf_stats_enabled=1`).
    pub cost: Option<Cost>,
    pub flows: Vec<FlowStatus>,
}

/// Cost of processing acknowledgements since the kernel began to count.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cost {
    pub acknowledgements: u64,
    pub nanoseconds: u64,
}

/// Hera's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parameters {
    pub reading: &'static str,
    pub step: &'static str,
    pub buckets: u32,
    pub bucket_us: u32,
    pub backlog: u32,
    pub max_delta: u32,
    /// Counts kept in the histogram. None if all are kept.
    pub limit: Option<u32>,
    pub least: u32,
    pub most: u32,
}

/// One TCP connection.
#[derive(Clone, Debug, Serialize)]
pub struct FlowStatus {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// `established`, `listen` and so on.
    pub state: &'static str,
    /// Number of the network namespace, as `lsns --type net` shows it.
    pub namespace: u32,
    /// Congestion window and packets in flight, in packets.
    pub window: u32,
    pub in_flight: u32,
    /// Bytes of data in a packet.
    pub segment: u32,
    /// Bucket of the mean of the last round trips, from 0.
    pub bucket: u32,
    pub histogram: Vec<u64>,
    pub mean_round_trip_us: u32,
    pub smoothed_round_trip_us: u32,
    /// Round trips that were measured, and times that the window was decided on.
    pub samples: u64,
    pub steps: u64,
    pub acknowledged_bytes: u64,
    pub retransmissions: u32,
}

impl From<HeraOptions> for Parameters {
    fn from(options: HeraOptions) -> Self {
        let options = options.in_order();
        Self {
            reading: match options.reading {
                Reading::Symmetric => "symmetric",
                Reading::AsPrinted => "as-printed",
            },
            step: match options.step {
                Step::RoundTrip => "round-trip",
                Step::Sample => "sample",
            },
            buckets: u32::from(options.buckets),
            bucket_us: options.bucket_size.as_micros() as u32,
            backlog: u32::from(options.backlog),
            max_delta: u32::from(options.max_delta),
            limit: options.limit,
            least: options.least,
            most: options.most,
        }
    }
}

impl Parameters {
    /// The round trip that the window is moved towards.
    #[must_use]
    pub fn target(&self) -> Span {
        Span::from_micros(i64::from(self.buckets / 2) * i64::from(self.bucket_us))
    }
}
