//! Counters and events of a receiver.

use std::collections::VecDeque;

use nearlight_events::{Event, LossCounts, RecoveryCounts, RecoveryKind};
use nearlight_units::{Bytes, FrameId, Time};

use super::push_bounded;
use super::rtp::RtpCounts;
use crate::receiver::assembly::CompletedFrame;
use crate::recent::RecentRate;

/// Maximum number of events that wait to be fetched; older ones are dropped.
const MAX_EVENTS: usize = 256;

/// Counts of media datagrams that arrived.
#[derive(Clone, Copy)]
pub(super) struct MediaCount {
    pub(super) packets: u64,
    pub(super) bytes: Bytes,
    /// Bytes of redundant datagrams among `bytes`.
    pub(super) redundant: Bytes,
}

impl MediaCount {
    pub(super) const fn datagram(datagram: &[u8], redundant: bool) -> Self {
        let bytes = Bytes::new(datagram.len() as u64);
        Self { packets: 1, bytes, redundant: if redundant { bytes } else { Bytes::ZERO } }
    }
}

/// Counters and events that all parts of a receiver share.
#[derive(Debug, Default)]
pub(super) struct Telemetry {
    /// Whether events are created.
    has_events: bool,
    events: VecDeque<(Time, Event)>,
    /// The first frame of which a piece or a note arrived.
    first_frame: Option<FrameId>,
    /// Complete frames.
    pub(super) completed: u64,
    pub(super) recovery: RecoveryCounts,
    pub(super) recovered_by: Option<(RecoveryKind, u32)>,
    /// Pieces that arrived in a later datagram than their first.
    retransmitted: u64,
    key_frames: u64,
    pub(super) malformed: u64,
    corrupt: u64,
    pub(super) refused: u64,
    packets: u64,
    pub(super) received: Bytes,
    pub(super) recent: RecentRate,
    /// Counts of the application's own media stack.
    rtp: RtpCounts,
}

impl Telemetry {
    pub(super) fn new(has_events: bool) -> Self {
        Self { has_events, ..Self::default() }
    }

    pub(super) const fn has_events(&self) -> bool {
        self.has_events
    }

    /// Queues an event, which is created only if events are wanted.
    pub(super) fn emit(&mut self, now: Time, event: impl FnOnce() -> Event) {
        if self.has_events {
            push_bounded(&mut self.events, (now, event()), MAX_EVENTS);
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.pop_front()
    }

    /// Records that a piece of this frame or a note on it arrived.
    pub(super) fn on_frame(&mut self, frame: FrameId) {
        self.first_frame.get_or_insert(frame);
    }

    pub(super) const fn first_frame(&self) -> Option<FrameId> {
        self.first_frame
    }

    pub(super) fn on_media(&mut self, now: Time, media: MediaCount) {
        self.received += media.bytes;
        self.packets += media.packets;
        self.recent.on_bytes(now, media.bytes);
        self.recovery.media_bytes += media.bytes.get();
        self.recovery.redundant_bytes += media.redundant.get();
        if self.has_events && self.recent.is_due(now) {
            let (packets, bytes) = (self.packets, self.received);
            let (retransmissions, repairs) = (self.retransmitted + self.rtp.repeated_packets, self.recovery.repairs);
            self.emit(now, || Event::Traffic { packets, bytes, retransmissions, repairs });
        }
    }

    /// Takes the media stack's counts at `now`.
    pub(super) fn on_rtp_counts(&mut self, now: Time, counts: RtpCounts) {
        let before = std::mem::replace(&mut self.rtp, counts);
        let media = MediaCount {
            packets: counts.packets.saturating_sub(before.packets),
            bytes: counts.bytes.saturating_sub(before.bytes),
            redundant: counts.redundant_bytes.saturating_sub(before.redundant_bytes),
        };
        self.recovery.repairs = counts.repairs;
        self.on_media(now, media);
    }

    /// Counts a datagram of sound of this many bytes. It counts as received, but not as media.
    pub(super) fn on_sound(&mut self, now: Time, datagram: usize) {
        let bytes = Bytes::new(datagram as u64);
        self.received += bytes;
        self.recent.on_bytes(now, bytes);
    }

    /// Counts a frame that is now complete, when `behind` newer ones have begun to arrive.
    pub(super) fn on_completed(&mut self, now: Time, completed: &CompletedFrame, behind: u32) {
        let CompletedFrame { frame, key, retransmitted, recovered } = *completed;
        self.completed += 1;
        self.key_frames += u64::from(key);
        self.retransmitted += u64::from(retransmitted);
        if recovered > 0 {
            self.recovery.symbols += u64::from(recovered);
            let late = u64::from(behind > 0);
            self.recovery.by_late_repair += late;
            self.recovery.by_repair += 1 - late;
            let by = if late == 0 { RecoveryKind::Repair } else { RecoveryKind::LateRepair };
            self.emit(now, || Event::FrameRecovered { frame, by, symbols: recovered, behind });
        } else if retransmitted > 0 {
            self.recovery.by_retransmission += 1;
            let by = RecoveryKind::Retransmission;
            self.emit(now, || Event::FrameRecovered { frame, by, symbols: retransmitted, behind });
        }
    }

    /// Counts a frame whose symbols did not match its digest. `completed` says whether it has been counted as complete.
    pub(super) fn on_corrupt(&mut self, now: Time, frame: FrameId, completed: bool) {
        self.corrupt += 1;
        self.completed -= u64::from(completed);
        self.emit(now, || Event::FrameCorrupt { frame });
    }

    /// Counts a recovery: the decoder gets a frame that was late or restores the chain of references, when `frames` newer ones were lost or had
    /// begun to arrive.
    pub(super) fn on_picture_recovered(&mut self, now: Time, frame: FrameId, by: RecoveryKind, frames: u32) {
        match by {
            RecoveryKind::Reference => self.recovery.by_reference += 1,
            RecoveryKind::KeyFrame => self.recovery.by_key_frame += 1,
            _ => {}
        }
        self.recovery.recoveries += 1;
        self.recovery.frames_to_recover += u64::from(frames);
        self.recovery.longest_recovery = self.recovery.longest_recovery.max(frames);
        self.recovered_by = Some((by, frames));
        self.emit(now, || Event::PictureRecovered { frame, by, frames });
    }

    pub(super) const fn corrupt(&self) -> u64 {
        self.corrupt
    }

    /// Returns the session's losses, including those that the media stack counted. `missing` packets never arrived here.
    pub(super) const fn losses(&self, missing: u64) -> LossCounts {
        LossCounts {
            packets: missing + self.rtp.packets_lost,
            retransmitted: self.retransmitted + self.rtp.repeated_packets,
            key_frames: self.key_frames.saturating_sub(1) + self.rtp.key_frames.saturating_sub(1),
        }
    }
}
