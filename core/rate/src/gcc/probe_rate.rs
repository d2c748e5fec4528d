//! Estimates the path's capacity from a probe's arrivals.

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Bytes, RemoteTime, Span, Time};

use crate::{PacketReport, Probe, ProbeId};

/// Share of a probe's packets and bytes that must have arrived (libwebrtc `kMinReceivedProbesRatio`).
const MIN_ARRIVED_SHARE: f64 = 0.8;
/// The minimum number of packets in a probe; the share above applies to it too.
const MIN_PACKETS: u32 = 4;
/// The longest probe that is evaluated, as sent and as arrived (`kMaxProbeInterval`).
const MAX_PROBE_TIME: Span = Span::from_secs(1);
/// A higher ratio of arriving to sending rate is a measurement error (`kMaxValidRatio`).
const MAX_VALID_RATIO: f64 = 2.0;
/// A lower ratio of arriving to sending rate means that the path was saturated (`kMinRatioForUnsaturatedLink`).
const MIN_UNSATURATED_RATIO: f64 = 0.9;
/// The share of the arriving rate that is the result on a saturated path (`kTargetUtilizationFraction`).
const TARGET_UTILIZATION: f64 = 0.95;
/// Probes evaluated at once. Guess: two are begun together, and stragglers matter for a second.
const MAX_CLUSTERS: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Cluster {
    id: ProbeId,
    needed: Bytes,
    packets: u32,
    size: Bytes,
    first_sent: Time,
    last_sent: (Time, Bytes),
    first_arrived: (RemoteTime, Bytes),
    last_arrived: RemoteTime,
}

/// Measures probes: libwebrtc `ProbeBitrateEstimator`.
#[derive(Clone, Debug, Default)]
pub struct ProbeRate {
    /// Probes handed out of which nothing has arrived yet.
    announced: VecDeque<(ProbeId, Bytes)>,
    clusters: VecDeque<Cluster>,
}

impl ProbeRate {
    /// Registers a probe that was handed out.
    pub fn on_probe(&mut self, probe: &Probe) {
        let needed = Bytes::new((probe.size.get() as f64 * MIN_ARRIVED_SHARE) as u64);
        self.announced.push_back((probe.id, needed));
        if self.announced.len() > MAX_CLUSTERS {
            self.announced.pop_front();
        }
    }

    /// Handles a packet's report. Returns a rate whenever the packet's probe yields one.
    pub fn on_packet(&mut self, report: &PacketReport) -> Option<Bitrate> {
        let (id, arrived_at) = (report.packet.probe?, report.arrived_at?);
        let (sent_at, size) = (report.packet.sent_at, report.packet.size);
        if let Some(cluster) = self.clusters.iter_mut().find(|cluster| cluster.id == id) {
            cluster.add(sent_at, arrived_at, size);
            return cluster.rate();
        }
        let place = self.announced.iter().position(|(announced, _)| *announced == id)?;
        let (_, needed) = self.announced.remove(place)?;
        self.clusters.push_back(Cluster {
            id,
            needed,
            packets: 1,
            size,
            first_sent: sent_at,
            last_sent: (sent_at, size),
            first_arrived: (arrived_at, size),
            last_arrived: arrived_at,
        });
        if self.clusters.len() > MAX_CLUSTERS {
            self.clusters.pop_front();
        }
        None
    }

    /// Number of records in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.announced.len() + self.clusters.len()
    }
}

impl Cluster {
    fn add(&mut self, sent_at: Time, arrived_at: RemoteTime, size: Bytes) {
        self.packets = self.packets.saturating_add(1);
        self.size += size;
        self.first_sent = self.first_sent.min(sent_at);
        if sent_at >= self.last_sent.0 {
            self.last_sent = (sent_at, size);
        }
        if arrived_at < self.first_arrived.0 {
            self.first_arrived = (arrived_at, size);
        }
        self.last_arrived = self.last_arrived.max(arrived_at);
    }

    fn rate(&self) -> Option<Bitrate> {
        if self.packets < MIN_PACKETS || self.size < self.needed {
            return None;
        }
        let sending = self.last_sent.0 - self.first_sent;
        let arriving = self.last_arrived - self.first_arrived.0;
        let measurable = Span::from_nanos(1)..=MAX_PROBE_TIME;
        if !measurable.contains(&sending) || !measurable.contains(&arriving) {
            return None;
        }
        // The last packet's bytes left after the span that was measured, and the first one's arrived before it.
        let sent = self.size.saturating_sub(self.last_sent.1).over(sending);
        let arrived = self.size.saturating_sub(self.first_arrived.1).over(arriving);
        if arrived > sent.mul_f64(MAX_VALID_RATIO) {
            return None;
        }
        if arrived < sent.mul_f64(MIN_UNSATURATED_RATIO) {
            return Some(arrived.mul_f64(TARGET_UTILIZATION));
        }
        Some(arrived.min(sent))
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::PacketSeq;

    use super::*;
    use crate::SentPacket;

    /// Ten packets of 1,250 bytes sent at 100 Mb/s, of which some arrive, each `gap` microseconds after its predecessor.
    fn measure(gap: u64, arrived: &[u64]) -> Option<Bitrate> {
        let mut rate = ProbeRate::default();
        rate.on_probe(&Probe { id: ProbeId(3), rate: Bitrate::from_mbps(100), size: Bytes::new(12_500) });
        let reports = arrived.iter().map(|&number| PacketReport {
            packet: SentPacket {
                seq: PacketSeq(number as u32),
                sent_at: Time::from_micros(100 * number),
                size: Bytes::new(1_250),
                frame: None,
                probe: Some(ProbeId(3)),
                app_limited: false,
            },
            arrived_at: Some(RemoteTime::from_micros(900_000 + gap * number)),
            ce: false,
        });
        reports.fold(None, |last, report| rate.on_packet(&report).or(last))
    }

    #[test]
    fn the_slower_of_sending_and_arriving_counts_and_a_full_path_a_little_less() {
        let all: Vec<u64> = (0..10).collect();
        let cases = [
            ("as sent", 100, all.clone(), Some(100_000_000)),
            ("a little faster", 80, all.clone(), Some(100_000_000)),
            ("a little slower", 105, all.clone(), Some(95_238_095)),
            ("full at 20 Mb/s", 500, all.clone(), Some(19_000_000)),
            ("far too fast", 40, all.clone(), None),
            ("too slow to be one probe", 200_000, all.clone(), None),
            ("all at once", 0, all, None),
            ("seven of ten", 100, (0..7).collect(), None),
            ("eight of ten", 100, (0..8).collect(), Some(100_000_000)),
            ("reordered", 100, vec![4, 1, 0, 2, 3, 9, 8, 5, 6, 7], Some(100_000_000)),
        ];
        for (what, gap, arrived, expected) in cases {
            assert_eq!(measure(gap, &arrived).map(Bitrate::as_bps), expected, "{what}");
        }
    }

    #[test]
    fn foreign_probes_are_ignored_and_memory_is_bounded() {
        let mut rate = ProbeRate::default();
        for id in 0..1_000 {
            rate.on_probe(&Probe { id: ProbeId(id), rate: Bitrate::from_mbps(1), size: Bytes::new(1) });
        }
        assert!(rate.held() <= 2 * MAX_CLUSTERS);
    }
}
