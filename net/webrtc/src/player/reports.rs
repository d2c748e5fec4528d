//! The library's receiver reports, ordered by stream. It stores streams in a hash map, and sends a packet for each in the map's
//! order, which differs from run to run: on a path that loses or delays packets, runs would not be reproducible.

use std::collections::VecDeque;
use std::time::Instant;

use rtc::interceptor::{Interceptor, Packet, ReceiverReportInterceptor, StreamInfo, TaggedPacket};
use rtc::rtcp::receiver_report::ReceiverReport;
use rtc::sansio::Protocol;
use rtc::shared::error::Error;

pub(super) struct OrderedReports {
    inner: ReceiverReportInterceptor,
    outward: VecDeque<TaggedPacket>,
}

impl OrderedReports {
    pub(super) const fn new(inner: ReceiverReportInterceptor) -> Self {
        Self { inner, outward: VecDeque::new() }
    }
}

/// The stream of a report. None for other packets.
fn stream(message: &TaggedPacket) -> Option<u32> {
    let Packet::Rtcp(packets) = &message.message.packet else { return None };
    let report = packets.iter().find_map(|packet| packet.as_any().downcast_ref::<ReceiverReport>())?;
    report.reports.first().map(|report| report.ssrc)
}

impl Protocol<TaggedPacket, TaggedPacket, ()> for OrderedReports {
    type Rout = TaggedPacket;
    type Wout = TaggedPacket;
    type Eout = ();
    type Error = Error;
    type Time = Instant;

    fn handle_read(&mut self, message: TaggedPacket) -> Result<(), Error> {
        self.inner.handle_read(message)
    }

    fn poll_read(&mut self) -> Option<TaggedPacket> {
        self.inner.poll_read()
    }

    fn handle_write(&mut self, message: TaggedPacket) -> Result<(), Error> {
        self.inner.handle_write(message)
    }

    fn poll_write(&mut self) -> Option<TaggedPacket> {
        self.outward.pop_front().or_else(|| self.inner.poll_write())
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), Error> {
        // Messages that pass through are no reports, and stay ahead of them.
        self.outward.extend(std::iter::from_fn(|| self.inner.poll_write()));
        self.inner.handle_timeout(now)?;
        let mut reports: Vec<TaggedPacket> = std::iter::from_fn(|| self.inner.poll_write()).collect();
        reports.sort_by_key(stream);
        self.outward.extend(reports);
        Ok(())
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.inner.poll_timeout()
    }
}

impl Interceptor for OrderedReports {
    fn bind_local_stream(&mut self, stream: &StreamInfo) {
        self.inner.bind_local_stream(stream);
    }

    fn unbind_local_stream(&mut self, stream: &StreamInfo) {
        self.inner.unbind_local_stream(stream);
    }

    fn bind_remote_stream(&mut self, stream: &StreamInfo) {
        self.inner.bind_remote_stream(stream);
    }

    fn unbind_remote_stream(&mut self, stream: &StreamInfo) {
        self.inner.unbind_remote_stream(stream);
    }
}
