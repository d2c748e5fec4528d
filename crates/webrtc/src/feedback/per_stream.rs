//! Congestion control feedback (RFC 8888) as the records that rate controllers take. It reports each stream by the stream's own numbers, so
//! the mapping to the sender's numbers is kept here.

use std::collections::{BTreeMap, VecDeque};

use nearlight_session::{MOST_PACKETS_KEPT, PACKETS_KEPT_FOR};
use nearlight_units::{PacketSeq, RemoteTime, Time};
use nearlight_wire::Feedback;
use rtc::rtcp::transport_feedbacks::cc_feedback_report::{
    CcFeedbackMetricBlock, CcFeedbackReport, CcFeedbackReportBlock,
};

use super::{ORIGIN, REPEATED};

/// Streams of a report beyond these are ignored: a client gets three.
const MAX_STREAMS: usize = 8;
/// The report's timestamp counts 2^-16 s in 32 bits.
const TIMESTAMP_WRAP: i64 = 1 << 32;
const TIMESTAMP_SECOND: i64 = 1 << 16;
/// Arrivals are reported as a number of 2^-10 s before the timestamp.
const OFFSET: i64 = 1 << 6;
/// An arrival after the timestamp, or at an unknown time.
const NO_OFFSET: u16 = 0x1FFF;

/// What reports have shown of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reported {
    Nothing,
    /// Its stream's part of the report ends before it: missing where a later packet of any stream has arrived.
    Awaited,
    Missing,
    Arrived(RemoteTime),
}

#[expect(clippy::struct_field_names, reason = "when it was sent is called so everywhere")]
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Stream and number; none for packets that never left.
    name: Option<(u32, u16)>,
    reported: Reported,
    sent_at: Time,
}

/// Tracks one client's reports.
#[derive(Debug, Default)]
pub(crate) struct StreamReports {
    /// Number of the first of `sent`.
    first: u32,
    sent: VecDeque<Sent>,
    /// The sender's number of the newest packet that left under each name: a stream's numbers recur after 65,536 packets.
    names: BTreeMap<(u32, u16), u32>,
    /// The newest report's time, unwrapped.
    newest: Option<i64>,
}

impl StreamReports {
    /// A packet leaves as the sender's `seq`, under its stream's own number. It is remembered for as long as in the sender's own history,
    /// so that everything in a report that the sender can still use reaches it.
    pub(crate) fn on_sent(&mut self, now: Time, seq: PacketSeq, ssrc: u32, number: u16) {
        let end = self.first.wrapping_add(self.sent.len() as u32);
        let skipped = seq.0.wrapping_sub(end) as usize;
        if self.sent.is_empty() || skipped >= MOST_PACKETS_KEPT {
            self.sent.clear();
            self.names.clear();
            self.first = seq.0;
        } else {
            let never_left = Sent { name: None, reported: Reported::Nothing, sent_at: now };
            self.sent.extend(std::iter::repeat_n(never_left, skipped));
        }
        self.sent.push_back(Sent { name: Some((ssrc, number)), reported: Reported::Nothing, sent_at: now });
        self.names.insert((ssrc, number), seq.0);
        while let Some(oldest) = self.sent.front() {
            if self.sent.len() <= MOST_PACKETS_KEPT && now - oldest.sent_at <= PACKETS_KEPT_FOR {
                break;
            }
            if let Some(name) = oldest.name.filter(|name| self.names.get(name) == Some(&self.first)) {
                self.names.remove(&name);
            }
            self.sent.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// The index of the newest packet that left under this name.
    fn place(&self, ssrc: u32, number: u16) -> Option<usize> {
        self.names.get(&(ssrc, number)).map(|seq| seq.wrapping_sub(self.first) as usize)
    }

    /// A report arrived: returns its news, with some of what was reported before. A packet of which nothing is known separates two of the
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
                    let at = arrival(reported_at, *metric).filter(|_| !matches!(sent.reported, Reported::Arrived(_)));
                    if let Some(at) = at {
                        sent.reported = Reported::Arrived(at);
                        oldest = Some(oldest.map_or(place, |oldest| oldest.min(place)));
                    }
                } else if matches!(sent.reported, Reported::Nothing | Reported::Awaited) {
                    sent.reported = Reported::Missing;
                }
            }
            let behind = end.map_or(self.sent.len(), |end| end + 1);
            let of_stream = |sent: &&mut Sent| sent.name.is_some_and(|(of, _)| of == *ssrc);
            for sent in self.sent.range_mut(behind..).filter(of_stream) {
                if sent.reported == Reported::Nothing {
                    sent.reported = Reported::Awaited;
                }
            }
        }
        let (Some(oldest), Some(newest), Some(sent_at)) = (oldest, newest, time(reported_at)) else {
            return Vec::new();
        };
        self.runs(oldest.saturating_sub(REPEATED)..newest + 1, sent_at)
    }

    /// Runs of packets of which something is known.
    fn runs(&self, places: std::ops::Range<usize>, sent_at: RemoteTime) -> Vec<Feedback> {
        let mut runs: Vec<Feedback> = Vec::new();
        let mut goes_on = false;
        for (place, sent) in places.clone().zip(self.sent.range(places)) {
            let arrived = match sent.reported {
                Reported::Nothing => {
                    goes_on = false;
                    continue;
                }
                Reported::Awaited | Reported::Missing => None,
                Reported::Arrived(at) => Some(at),
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

    /// Of the values that the 32 bits may mean, the nearest to the previous time.
    fn unwrap(&mut self, bits: u32) -> i64 {
        let bits = i64::from(bits);
        let near = self.newest.unwrap_or(bits);
        let turns = (near - bits + TIMESTAMP_WRAP / 2).div_euclid(TIMESTAMP_WRAP);
        let unwrapped = bits + turns * TIMESTAMP_WRAP;
        self.newest = Some(unwrapped.max(near));
        unwrapped
    }
}

/// When a packet arrived.
fn arrival(reported_at: i64, metric: CcFeedbackMetricBlock) -> Option<RemoteTime> {
    let offset = if metric.arrival_time_offset >= NO_OFFSET { 0 } else { i64::from(metric.arrival_time_offset) };
    time(reported_at - offset * OFFSET)
}

fn time(timestamp: i64) -> Option<RemoteTime> {
    let nanos = i128::from(timestamp) * 1_000_000_000 / i128::from(TIMESTAMP_SECOND) + i128::from(ORIGIN.as_nanos());
    u64::try_from(nanos).ok().map(RemoteTime::from_nanos)
}

#[cfg(test)]
mod tests;
