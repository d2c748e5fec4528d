//! Traffic studies of packet captures, after M. Casanovas et al., "Experimental Evaluation of Interactive Edge/Cloud Virtual Reality
//! Gaming over Wi-Fi using Unity Render Streaming" (2024): what streams there are, how frames are sent in batches, what a network did to
//! them.
//!
//! [`Traffic::read`] takes a capture in; [`Study::new`] looks at one conversation of it. Nothing here reads a clock or the network, and no
//! bytes make it panic or hold more than [`Limits`] allow.

#![forbid(unsafe_code)]

mod batches;
pub mod capture;
mod compare;
mod distribution;
mod frames;
mod kind;
mod packet;
mod page;
mod study;
mod traffic;
mod warnings;
mod words;

pub use batches::{BATCH_GAP, Batches, PacketGroups};
pub use compare::{Clock, ClockError, CompareError, Comparison, DirectionComparison, Disruption, Stalls};
pub use distribution::Distribution;
pub use frames::{FrameDetection, Frames};
pub use kind::Kind;
pub use page::document;
pub use study::{
    ConversationSummary, DirectionSummary, Dot, Excerpts, OtherConversation, Sequence, StreamRow, Study, StudyError,
    Video, VideoDot,
};
pub use traffic::{CaptureSummary, Limits, Traffic};
pub use words::words;
