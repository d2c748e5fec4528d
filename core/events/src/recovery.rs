//! How frames with losses were completed, and at what cost.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::FrameCounts;

/// What completed a frame after a loss, or let decoding resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum RecoveryKind {
    /// Repairs, before any symbol of a newer frame had arrived.
    Repair,
    /// Repairs that arrived later, for the sake of the frames that predict from it.
    LateRepair,
    /// Retransmitted symbols.
    Retransmission,
    /// A frame that predicts from one that the receiver had acknowledged, skipping those that were lost.
    Reference,
    /// A frame that decodes without others.
    KeyFrame,
}

impl RecoveryKind {
    /// The name in JSON and on the page.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Repair => "repair",
            Self::LateRepair => "late_repair",
            Self::Retransmission => "retransmission",
            Self::Reference => "reference",
            Self::KeyFrame => "key_frame",
        }
    }
}

/// Recovery counts of one receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryCounts {
    /// Repairs that arrived.
    pub repairs: u64,
    /// Bytes of repairs and of retransmitted symbols.
    pub redundant_bytes: u64,
    /// Bytes of all media datagrams.
    pub media_bytes: u64,
    /// Symbols that were recovered from repairs.
    pub symbols: u64,
    /// Frames completed by repairs, in time and later.
    pub by_repair: u64,
    pub by_late_repair: u64,
    /// Frames completed by retransmitted symbols, without any repair.
    pub by_retransmission: u64,
    /// Times that the decoder had to wait and continued with a frame predicted from an acknowledged one, or with a key frame.
    pub by_reference: u64,
    pub by_key_frame: u64,
    /// Newer frames that had begun to arrive each time that the decoder continued after a loss: sum, number of times and largest. Recorded
    /// runs of earlier versions have other names for them.
    #[serde(alias = "frames_to_heal")]
    pub frames_to_recover: u64,
    #[serde(alias = "healings")]
    pub recoveries: u64,
    #[serde(alias = "longest_healing")]
    pub longest_recovery: u32,
}

impl RecoveryCounts {
    /// The increase since `before`. The longest recovery is that of the whole time.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            repairs: self.repairs - before.repairs,
            redundant_bytes: self.redundant_bytes - before.redundant_bytes,
            media_bytes: self.media_bytes - before.media_bytes,
            symbols: self.symbols - before.symbols,
            by_repair: self.by_repair - before.by_repair,
            by_late_repair: self.by_late_repair - before.by_late_repair,
            by_retransmission: self.by_retransmission - before.by_retransmission,
            by_reference: self.by_reference - before.by_reference,
            by_key_frame: self.by_key_frame - before.by_key_frame,
            frames_to_recover: self.frames_to_recover - before.frames_to_recover,
            recoveries: self.recoveries - before.recoveries,
            longest_recovery: self.longest_recovery,
        }
    }
}

impl AddAssign for RecoveryCounts {
    fn add_assign(&mut self, other: Self) {
        self.repairs += other.repairs;
        self.redundant_bytes += other.redundant_bytes;
        self.media_bytes += other.media_bytes;
        self.symbols += other.symbols;
        self.by_repair += other.by_repair;
        self.by_late_repair += other.by_late_repair;
        self.by_retransmission += other.by_retransmission;
        self.by_reference += other.by_reference;
        self.by_key_frame += other.by_key_frame;
        self.frames_to_recover += other.frames_to_recover;
        self.recoveries += other.recoveries;
        self.longest_recovery = self.longest_recovery.max(other.longest_recovery);
    }
}

/// The summary's recovery counts, with derived ratios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Recovery {
    /// Share of repairs and retransmitted symbols in the bytes that arrived.
    pub redundancy_ratio: f64,
    pub repairs: u64,
    pub recovered_symbols: u64,
    pub frames_by_repair: u64,
    pub frames_by_late_repair: u64,
    pub frames_by_retransmission: u64,
    pub recovered_by_reference: u64,
    pub recovered_by_key_frame: u64,
    /// Newer frames that had begun to arrive when the decoder continued after a loss.
    pub frames_to_recover_mean: f64,
    pub frames_to_recover_max: u32,
    /// Frames that were never recovered.
    pub residual_frame_loss: f64,
}

impl Recovery {
    #[must_use]
    pub fn new(counts: RecoveryCounts, frames: FrameCounts) -> Self {
        let share = |part: u64, whole: u64| (part as f64 / whole.max(1) as f64 * 1e5).round() / 1e5;
        Self {
            redundancy_ratio: share(counts.redundant_bytes, counts.media_bytes),
            repairs: counts.repairs,
            recovered_symbols: counts.symbols,
            frames_by_repair: counts.by_repair,
            frames_by_late_repair: counts.by_late_repair,
            frames_by_retransmission: counts.by_retransmission,
            recovered_by_reference: counts.by_reference,
            recovered_by_key_frame: counts.by_key_frame,
            frames_to_recover_mean: share(counts.frames_to_recover, counts.recoveries),
            frames_to_recover_max: counts.longest_recovery,
            residual_frame_loss: share(frames.lost, frames.sent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_that_came() {
        let mut counts = RecoveryCounts { redundant_bytes: 30, media_bytes: 1_000, ..RecoveryCounts::default() };
        counts += RecoveryCounts { redundant_bytes: 30, media_bytes: 1_000, by_repair: 2, ..RecoveryCounts::default() };
        let frames = FrameCounts { sent: 500, lost: 1, ..FrameCounts::default() };
        let recovery = Recovery::new(counts, frames);
        assert!((recovery.redundancy_ratio - 0.03).abs() < 1e-9 && (recovery.residual_frame_loss - 0.002).abs() < 1e-9);
        assert_eq!(recovery.frames_by_repair, 2);
        assert_eq!(Recovery::new(RecoveryCounts::default(), FrameCounts::default()), Recovery::default());
    }
}
