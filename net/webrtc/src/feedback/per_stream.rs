//! Congestion control feedback (RFC 8888) as records for rate controllers. It reports each stream by the stream's own numbers, so
//! the mapping to the sender's numbers is stored here.

use std::collections::{BTreeMap, VecDeque};

use nearlight_session::{MAX_PACKETS_KEPT, PACKET_RETENTION};
use nearlight_units::{PacketSeq, RemoteTime, Time};
use nearlight_wire::Feedback;
use rtc::rtcp::transport_feedbacks::cc_feedback_report::{
    CcFeedbackMetricBlock, CcFeedbackReport, CcFeedbackReportBlock,
};

use super::{ARRIVAL_ORIGIN, REPEATED_PACKETS};

/// Maximum number of streams in a report. Further ones are ignored: a client gets three.
const MAX_STREAMS: usize = 8;
/// The report's timestamp counts 2^-16 s in 32 bits.
const TIMESTAMP_WRAP: i64 = 1 << 32;
const TIMESTAMP_SECOND: i64 = 1 << 16;
/// Unit of arrivals in units of the timestamp: 2^-10 s before the timestamp.
const OFFSET_UNIT: i64 = 1 << 6;
/// Value for an arrival after the timestamp, or at an unknown time.
const NO_OFFSET: u16 = 0x1FFF;

/// The state of a packet according to the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketStatus {
    Nothing,
    /// Its stream's part of the report ends before it: missing if a later packet of any stream has arrived.
    Awaited,
    Missing,
    Arrived(RemoteTime),
}

#[derive(Clone, Copy, Debug)]
struct SentRecord {
    /// Stream and number. None for packets that never left.
    name: Option<(u32, u16)>,
    reported: PacketStatus,
    sent_at: Time,
}

/// Tracks one client's reports.
#[derive(Debug, Default)]
pub(crate) struct StreamReports {
    /// Number of the first of `sent`.
    first: u32,
    sent: VecDeque<SentRecord>,
    /// The sender's number of the newest packet under each stream and number: a stream's numbers recur after 65,536 packets.
    names: BTreeMap<(u32, u16), u32>,
    /// The newest report's time, unwrapped.
    newest: Option<i64>,
}

impl StreamReports {
    /// Records a packet that leaves as the sender's `seq`, under its stream's own number. It is remembered for as long as in the sender's
    /// own history, so that everything in a report that the sender can still use reaches it.
    pub(crate) fn on_sent(&mut self, now: Time, seq: PacketSeq, ssrc: u32, number: u16) {
        let end = self.first.wrapping_add(self.sent.len() as u32);
        let skipped = seq.0.wrapping_sub(end) as usize;
        if self.sent.is_empty() || skipped >= MAX_PACKETS_KEPT {
            self.sent.clear();
            self.names.clear();
            self.first = seq.0;
        } else {
            let never_left = SentRecord { name: None, reported: PacketStatus::Nothing, sent_at: now };
            self.sent.extend(std::iter::repeat_n(never_left, skipped));
        }
        self.sent.push_back(SentRecord { name: Some((ssrc, number)), reported: PacketStatus::Nothing, sent_at: now });
        self.names.insert((ssrc, number), seq.0);
        while let Some(oldest) = self.sent.front() {
            if self.sent.len() <= MAX_PACKETS_KEPT && now - oldest.sent_at <= PACKET_RETENTION {
                break;
            }
            if let Some(name) = oldest.name.filter(|name| self.names.get(name) == Some(&self.first)) {
                self.names.remove(&name);
            }
            self.sent.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// The index of the newest packet that left under this number.
    fn place(&self, ssrc: u32, number: u16) -> Option<usize> {
        self.names.get(&(ssrc, number)).map(|seq| seq.wrapping_sub(self.first) as usize)
    }

    /// Handles a report. Returns its news, with some of what was reported before. A packet in an unknown state separates two of the
    /// returned records.
    pub(crate) fn on_report(&mut self, report: &CcFeedbackReport) -> Vec<Feedback> {
        let reported_at = self.unwrap(report.report_timestamp);
        let blocks = &report.report_blocks[..report.report_blocks.len().min(MAX_STREAMS)];
        let (mut oldest, mut newest): (Option<usize>, Option<usize>) = (None, None);
        for CcFeedbackReportBlock { media_ssrc: ssrc, begin_sequence, metric_blocks } in blocks {
            let mut end = None;
            for (index, metric) in (0_u16..).zip(metric_blocks) {
                let Some(place) = self.place(*ssrc, begin_sequence.wrapping_add(index)) else { continue };
                end = end.max(Some(place));
                let Some(sent) = self.sent.get_mut(place) else { continue };
                if metric.received {
                    newest = newest.max(Some(place));
                    let at =
                        arrival(reported_at, *metric).filter(|_| !matches!(sent.reported, PacketStatus::Arrived(_)));
                    if let Some(at) = at {
                        sent.reported = PacketStatus::Arrived(at);
                        oldest = Some(oldest.map_or(place, |oldest| oldest.min(place)));
                    }
                } else if matches!(sent.reported, PacketStatus::Nothing | PacketStatus::Awaited) {
                    sent.reported = PacketStatus::Missing;
                }
            }
            let behind = end.map_or(self.sent.len(), |end| end + 1);
            let of_stream = |sent: &&mut SentRecord| sent.name.is_some_and(|(of, _)| of == *ssrc);
            for sent in self.sent.range_mut(behind..).filter(of_stream) {
                if sent.reported == PacketStatus::Nothing {
                    sent.reported = PacketStatus::Awaited;
                }
            }
        }
        let (Some(oldest), Some(newest), Some(sent_at)) = (oldest, newest, time(reported_at)) else {
            return Vec::new();
        };
        self.runs(oldest.saturating_sub(REPEATED_PACKETS)..newest + 1, sent_at)
    }

    /// Splits packets into runs whose states are known.
    fn runs(&self, places: std::ops::Range<usize>, sent_at: RemoteTime) -> Vec<Feedback> {
        let mut runs: Vec<Feedback> = Vec::new();
        let mut goes_on = false;
        for (place, sent) in places.clone().zip(self.sent.range(places)) {
            let arrived = match sent.reported {
                PacketStatus::Nothing => {
                    goes_on = false;
                    continue;
                }
                PacketStatus::Awaited | PacketStatus::Missing => None,
                PacketStatus::Arrived(at) => Some(at),
            };
            if let Some(run) = runs.last_mut().filter(|_| goes_on) {
                run.arrivals.push(arrived);
            } else {
                let first = PacketSeq(self.first + place as u32);
                runs.push(Feedback { sent_at, first, arrivals: vec![arrived], marked: Vec::new() });
            }
            goes_on = true;
        }
        runs.retain(|run| run.arrivals.iter().any(Option::is_some));
        runs
    }

    /// Unwraps the 32 bits to the nearest value to the previous time.
    fn unwrap(&mut self, bits: u32) -> i64 {
        let bits = i64::from(bits);
        let near = self.newest.unwrap_or(bits);
        let turns = (near - bits + TIMESTAMP_WRAP / 2).div_euclid(TIMESTAMP_WRAP);
        let unwrapped = bits + turns * TIMESTAMP_WRAP;
        self.newest = Some(unwrapped.max(near));
        unwrapped
    }
}

/// Returns when a packet arrived.
fn arrival(reported_at: i64, metric: CcFeedbackMetricBlock) -> Option<RemoteTime> {
    let offset = if metric.arrival_time_offset >= NO_OFFSET { 0 } else { i64::from(metric.arrival_time_offset) };
    time(reported_at - offset * OFFSET_UNIT)
}

fn time(timestamp: i64) -> Option<RemoteTime> {
    let nanos =
        i128::from(timestamp) * 1_000_000_000 / i128::from(TIMESTAMP_SECOND) + i128::from(ARRIVAL_ORIGIN.as_nanos());
    u64::try_from(nanos).ok().map(RemoteTime::from_nanos)
}

#[cfg(test)]
mod tests;
