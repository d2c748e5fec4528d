//! Network paths in virtual time.
//!
//! A [`Path`] is a list of hops, each a state machine behind the trait [`Hop`]: packets are offered, exits are polled, times are
//! arguments. The same path runs in the simulator, in tests and, with a real clock, in the link emulator.
//!
//! ```
//! use nearlight_link::{Delay, Exit, FlowId, Hop, Packet, Path};
//! use nearlight_units::{Bytes, Span, Time};
//!
//! let mut path = Path::new([Delay::new(Span::from_millis(10)).into()]);
//! let packet = Packet::new(1, FlowId(0), Bytes::new(1_200));
//! path.offer(Time::ZERO, packet);
//! assert_eq!(path.poll_timeout(), Some(Time::from_millis(10)));
//! assert_eq!(path.poll(Time::from_millis(10)), Some(Exit::delivered(Time::from_millis(10), packet)));
//! ```

#![forbid(unsafe_code)]

mod bottleneck;
mod capacity;
mod counters;
mod delay;
mod disorder;
pub mod generate;
mod hop;
mod jitter;
mod loss;
mod outage;
mod path;
mod policer;
mod queue;
mod random;
mod scenes;
mod spec;
mod trace_file;
mod wander;

pub use bottleneck::{Bottleneck, BottleneckConfig, Service};
pub use capacity::{Capacity, FineStructure, Rates, StepsError, Trace};
pub use counters::FlowCounters;
pub use delay::Delay;
pub use disorder::{Duplicate, Reorder};
pub use hop::{Backlog, DropReason, Ecn, Exit, FlowId, Hop, Packet, PacketOutcome};
pub use jitter::{Jitter, JitterModel};
pub use loss::{GilbertElliott, Loss, LossModel};
pub use outage::{Outage, OutageKind, Window};
pub use path::{Path, Stage};
pub use policer::Policer;
pub use queue::{CoDel, Limit, Pie, Policy, QueueConfig, Ramp, Step};
pub use random::{Probability, ProbabilityError, Random};
pub use scenes::Scene;
pub use spec::{BottleneckSpec, HopSpec, LoadError, LoadedPath, LossSpec, Model, PathSpec, Source, SpecError};
pub use trace_file::{RecordedTrace, TraceError, TraceFile, parse_trace, read_trace};
