//! Transport-wide feedback (draft-holmer-rmcat-transport-wide-cc-extensions-01) as records for rate controllers. Feedback by each
//! stream's own numbers is parsed in [`per_stream`].

use std::collections::VecDeque;

use nearlight_units::{PacketSeq, RemoteTime, Span};
use nearlight_wire::Feedback;
use rtc::rtcp::transport_feedbacks::transport_layer_cc::{PacketStatusChunk, SymbolTypeTcc, TransportLayerCc};

mod per_stream;

pub(crate) use per_stream::StreamReports;

/// Unit of the reference time in microseconds, and the number of its values: it has 24 bits.
const REFERENCE_UNIT: i64 = 64_000;
const REFERENCE_WRAP: i64 = 1 << 24;
/// Number of packets that a report repeats from earlier ones: a packet missing at the end of one report is known to be lost only when a
/// later one has arrived, which the next report shows.
const REPEATED_PACKETS: usize = 64;
/// Maximum number of packets in one report, more than a second at 100 Mb/s. The excess is ignored.
const MAX_PACKETS: usize = 8_192;
/// Origin of arrival times, so that none before the first reference is negative.
const ARRIVAL_ORIGIN: Span = Span::from_secs(3_600);

/// Tracks one client's reports.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// Number of the first of `known`.
    first: u32,
    known: VecDeque<Option<RemoteTime>>,
    /// The newest reference time, unwrapped.
    reference: Option<i64>,
}

impl Reports {
    /// Handles a report. `newest` is the newest number that was sent. Returns None if it covers nothing that was sent.
    pub(crate) fn on_report(&mut self, report: &TransportLayerCc, newest: PacketSeq) -> Option<Feedback> {
        let base = unwrap(report.base_sequence_number, newest.0)?;
        let count = usize::from(report.packet_status_count).min(MAX_PACKETS).min((newest.0 - base) as usize + 1);
        let mut at = self.reference_time(report.reference_time);
        let mut deltas = report.recv_deltas.iter();
        let mut newest_arrival = None;
        for (number, status) in (base..).zip(statuses(report)).take(count) {
            let arrived = match status {
                SymbolTypeTcc::PacketReceivedSmallDelta | SymbolTypeTcc::PacketReceivedLargeDelta => {
                    at += deltas.next()?.delta;
                    u64::try_from(ARRIVAL_ORIGIN.as_micros() + at).ok().map(RemoteTime::from_micros)
                }
                SymbolTypeTcc::PacketNotReceived | SymbolTypeTcc::PacketReceivedWithoutDelta => None,
            };
            newest_arrival = newest_arrival.max(arrived);
            self.note(number, arrived);
        }
        let feedback = Feedback {
            // The report does not contain when it left. Any wait in between counts as part of the path in this feedback.
            sent_at: newest_arrival?,
            first: PacketSeq(self.first),
            arrivals: self.known.iter().copied().collect(),
            marked: Vec::new(),
        };
        let done = self.known.len().saturating_sub(REPEATED_PACKETS);
        self.known.drain(..done);
        self.first += done as u32;
        Some(feedback)
    }

    /// Unwraps the 24 bits to the nearest value to the previous time.
    fn reference_time(&mut self, bits: u32) -> i64 {
        let bits = i64::from(bits & 0x00FF_FFFF);
        let near = self.reference.unwrap_or(bits);
        let turns = (near - bits + REFERENCE_WRAP / 2).div_euclid(REFERENCE_WRAP);
        let reference = bits + turns * REFERENCE_WRAP;
        self.reference = Some(reference.max(near));
        reference * REFERENCE_UNIT
    }

    fn note(&mut self, number: u32, arrived: Option<RemoteTime>) {
        let Some(place) = number.checked_sub(self.first) else { return };
        let place = place as usize;
        if self.known.is_empty() || place > self.known.len() {
            // The first report, or a report was lost: nothing in between is known to be lost.
            self.known.clear();
            self.first = number;
            self.known.push_back(arrived);
            return;
        }
        match self.known.get_mut(place) {
            Some(known) => *known = known.or(arrived),
            None => self.known.push_back(arrived),
        }
    }
}

/// Returns the largest number up to `newest` that ends in `bits`.
fn unwrap(bits: u16, newest: u32) -> Option<u32> {
    let behind = (newest as u16).wrapping_sub(bits);
    newest.checked_sub(u32::from(behind))
}

fn statuses(report: &TransportLayerCc) -> impl Iterator<Item = SymbolTypeTcc> {
    report.packet_chunks.iter().flat_map(|chunk| {
        let (list, run) = match chunk {
            PacketStatusChunk::RunLengthChunk(run) => (&[][..], Some((run.packet_status_symbol, run.run_length))),
            PacketStatusChunk::StatusVectorChunk(vector) => (&vector.symbol_list[..], None),
        };
        let run = run.into_iter().flat_map(|(status, length)| std::iter::repeat_n(status, usize::from(length)));
        list.iter().copied().chain(run)
    })
}

#[cfg(test)]
mod tests;
