//! Closes each frame's timeline when it is displayed, and computes motion-to-photon from the marker.

use std::collections::VecDeque;

use nearlight_events::Timeline;
use nearlight_units::{FrameId, InputSeq, RemoteTime, Span, Time};
use nearlight_wire::{FrameHeader, FrameReport, MAX_FRAME_REPORTS, marker::Marker};

use crate::receiver::assembly::Transfer;
use crate::receiver::input_sampler::InputSampler;
use crate::{ClockEstimate, Wake};

/// Maximum number of frames between the assembler and the display: a decoder holds one or two, a stalled page may accumulate a second's.
const MAX_PENDING: usize = 128;
/// The longest time that a report waits, so that several frames share a datagram. Guess: nothing reacts to them within a tenth of a second.
const REPORT_HOLD: Span = Span::from_millis(100);

/// A frame that was displayed.
#[derive(Clone, Debug, PartialEq)]
pub struct DisplayedFrame {
    pub timeline: Timeline,
    /// Time from the event of the newest input, with which the timeline starts, to the display, measured on the client's clock alone.
    pub total: Span,
    /// Each input whose first pixels these are, oldest first, with the time from its event to the display. Inputs that were superseded by a
    /// newer one waited for that one's frame.
    pub inputs: Vec<(InputSeq, Span)>,
    /// The frames that the display skipped for it, oldest first. Their last boundary is the last moment that is known of them.
    pub passed_over: Vec<Timeline>,
}

impl DisplayedFrame {
    /// Time from the newest input that the frame is the first to show, read from the marker. None if it shows no new one.
    #[must_use]
    pub fn motion_to_photon(&self) -> Option<Span> {
        self.inputs.last().map(|(_, span)| *span)
    }
}

#[derive(Debug)]
struct Pending {
    id: FrameId,
    header: FrameHeader<RemoteTime>,
    transfer: Transfer,
    damaged: bool,
    decoded_at: Option<Time>,
}

#[derive(Debug, Default)]
pub(crate) struct Presentation {
    pending: VecDeque<Pending>,
    /// Newest input seen in displayed pixels.
    shown: InputSeq,
    /// Newest input that a timeline started with.
    timed: InputSeq,
    reports: Vec<FrameReport>,
    first_report_at: Option<Time>,
    pub(crate) decoded: u64,
    pub(crate) displayed: u64,
    /// Number of displayed pictures that were predicted from a skipped frame.
    pub(crate) damaged: u64,
    pub(crate) late: u64,
    pub(crate) unreadable_markers: u64,
}

impl Presentation {
    pub(crate) fn on_ready(&mut self, id: FrameId, header: FrameHeader<RemoteTime>, transfer: Transfer, damaged: bool) {
        if self.pending.len() == MAX_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(Pending { id, header, transfer, damaged, decoded_at: None });
    }

    /// Records that a frame was decoded. Returns false for a frame that was not handed out or is decoded already.
    pub(crate) fn on_decoded(&mut self, now: Time, id: FrameId) -> bool {
        match self.pending.iter_mut().find(|pending| pending.id == id && pending.decoded_at.is_none()) {
            Some(pending) => {
                pending.decoded_at = Some(now);
                self.decoded += 1;
                true
            }
            None => false,
        }
    }

    /// The header of a frame that was handed out and not yet displayed.
    pub(crate) fn header(&self, id: FrameId) -> Option<&FrameHeader<RemoteTime>> {
        self.pending.iter().find(|pending| pending.id == id).map(|pending| &pending.header)
    }

    pub(crate) fn on_displayed(
        &mut self,
        now: Time,
        id: FrameId,
        marker: Option<Marker>,
        clock: Option<ClockEstimate>,
        sampler: &InputSampler,
    ) -> Option<DisplayedFrame> {
        let index = self.pending.iter().position(|pending| pending.id == id)?;
        let passed_over: Vec<Pending> = self.pending.drain(..index).collect();
        // A frame that was decoded but skipped is late: a newer frame is on the display.
        self.late += passed_over.iter().filter(|pending| pending.decoded_at.is_some()).count() as u64;
        let pending = self.pending.pop_front()?;
        self.displayed += 1;
        self.damaged += u64::from(pending.damaged);
        let marker = marker.filter(|marker| marker.frame == id);
        self.unreadable_markers += u64::from(marker.is_none());
        // Without a single clock exchange the server's times cannot be converted.
        let clock = clock?;
        let late = now > clock.to_client(pending.header.deadline);
        self.late += u64::from(late);
        let passed_over = passed_over.iter().map(|pending| passed_over_timeline(pending, &clock)).collect();
        let input_at = sampler.sampled_at(pending.header.input).filter(|_| pending.header.input > self.timed);
        self.timed = self.timed.max(pending.header.input);
        let timeline = Timeline {
            frame: id,
            input: pending.header.input,
            boundaries: boundaries(&pending, now, &clock, input_at),
            clock_error: clock.error,
            late,
        };
        let total = input_at.map_or_else(|| timeline.total(), |input_at| now - input_at);
        let shown = marker.map_or(self.shown, |marker| marker.input.max(self.shown));
        let inputs = sampler.between(self.shown, shown).map(|(input, at)| (input, now - at)).collect::<Vec<_>>();
        self.shown = shown;
        let displayed = DisplayedFrame { timeline, total, inputs, passed_over };
        self.report(now, &displayed.timeline, displayed.motion_to_photon());
        Some(displayed)
    }

    fn report(&mut self, now: Time, timeline: &Timeline, motion_to_photon: Option<Span>) {
        use nearlight_events::Stage;
        if self.reports.len() == MAX_FRAME_REPORTS {
            self.reports.remove(0);
        }
        self.reports.push(FrameReport {
            frame: timeline.frame,
            network: timeline.stage(Stage::Network),
            reassemble: timeline.stage(Stage::Reassemble),
            decode: timeline.stage(Stage::Decode),
            present: timeline.stage(Stage::Present),
            motion_to_photon,
            late: timeline.late,
        });
        self.first_report_at.get_or_insert(now);
    }

    pub(crate) fn is_report_due(&self, now: Time) -> bool {
        self.first_report_at.is_some_and(|at| at + REPORT_HOLD <= now) || self.reports.len() == MAX_FRAME_REPORTS
    }

    /// Returns all pending frame reports, due or not.
    pub(crate) fn take_reports(&mut self) -> Vec<FrameReport> {
        self.first_report_at = None;
        std::mem::take(&mut self.reports)
    }

    pub(crate) fn poll_timeout(&self) -> Option<(Time, Wake)> {
        self.first_report_at.map(|at| (at + REPORT_HOLD, Wake::Report))
    }
}

/// The timeline of a frame that was never displayed. Its input reaches the display with a later frame, so it starts with its rendering.
fn passed_over_timeline(pending: &Pending, clock: &ClockEstimate) -> Timeline {
    let last = pending.decoded_at.unwrap_or(pending.transfer.completed_at);
    let boundaries = boundaries(pending, last, clock, None);
    Timeline { frame: pending.id, input: pending.header.input, boundaries, clock_error: clock.error, late: true }
}

/// Where each stage begins, on the client's clock. A frame without new input starts with its rendering.
fn boundaries(pending: &Pending, now: Time, clock: &ClockEstimate, input_at: Option<Time>) -> [Time; 11] {
    let header = &pending.header;
    let render_started_at = clock.to_client(header.render_started_at);
    let (input_at, received_at) = match input_at {
        Some(at) => (at, clock.to_client(header.input_received_at)),
        None => (render_started_at, render_started_at),
    };
    [
        input_at,
        received_at,
        render_started_at,
        clock.to_client(header.rendered_at),
        clock.to_client(header.converted_at),
        clock.to_client(header.encoded_at),
        clock.to_client(pending.transfer.last_sent_at),
        pending.transfer.last_arrived_at,
        pending.transfer.completed_at,
        pending.decoded_at.unwrap_or(now),
        now,
    ]
}
