//! Feedback from receivers of another protocol, such as a browser's over RTCP. It refers to packets while our own refers to pieces and
//! frames, and does not include the round trip.

use nearlight_rate::ReceiverReport;
use nearlight_units::{Span, Time};
use nearlight_wire::{Feedback, KeyFrameRequest, Nack};

use super::{INITIAL_ROUND_TRIP, Sender};

/// A round trip measured by the other protocol is valid for this long: reports come about once a second, and some are lost.
const MEASUREMENT_VALIDITY: Span = Span::from_secs(3);
/// A lower bound of the round trip, against noise.
const MIN_ROUND_TRIP: Span = Span::from_micros(100);
/// A key frame that began to leave less than this ago may still be on its way to the decoder, because it has several times as many packets
/// as others. Guess. A browser repeats an unanswered request.
const KEY_FRAME_TIME: Span = Span::from_millis(100);

/// A receiver's feedback in another protocol than ours.
#[derive(Clone, Copy, Debug)]
pub enum ReceiverFeedback<'a> {
    /// Which packets have arrived and when, on the receiver's clock. Between two measured round trips the estimate changes with the forward
    /// transit time, which each arrival reveals; the return path is assumed constant.
    Arrivals(&'a Feedback),
    /// The round trip, as that protocol measures it.
    RoundTrip(Span),
    /// A report on its packets as a whole, or the rate that it estimates itself.
    Report(&'a ReceiverReport),
    /// A request for pieces.
    Missing(&'a Nack),
    /// It cannot decode what had left a round trip ago, and names no frame. A key frame sent since then answers it.
    PictureLost,
}

/// Estimates the round trip when feedback does not include it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTripEstimate {
    measured: Option<Measurement>,
    /// From the sender's clock to the receiver's, for the newest packet that arrived: only its changes are meaningful.
    transit: Option<Span>,
}

impl RoundTripEstimate {
    /// The round trip that was measured last.
    pub(super) fn last(&self) -> Option<Span> {
        self.measured.map(|measured| measured.round_trip)
    }
}

#[derive(Clone, Copy, Debug)]
struct Measurement {
    at: Time,
    round_trip: Span,
    transit: Option<Span>,
}

impl Sender {
    pub(super) fn on_receiver_feedback(&mut self, now: Time, feedback: ReceiverFeedback<'_>) {
        match feedback {
            ReceiverFeedback::Arrivals(arrivals) => self.on_arrivals(now, arrivals),
            ReceiverFeedback::RoundTrip(round_trip) => {
                self.round_trip_estimate.measured =
                    Some(Measurement { at: now, round_trip, transit: self.round_trip_estimate.transit });
            }
            ReceiverFeedback::Report(report) => {
                self.controller.on_receiver_report(now, report);
                self.take_decision(now);
            }
            ReceiverFeedback::Missing(nack) => self.on_nack(now, nack),
            ReceiverFeedback::PictureLost => {
                let round_trip = self.round_trip_estimate.last().unwrap_or(INITIAL_ROUND_TRIP);
                let newest = self.frames.newest_begun(now - round_trip.max(KEY_FRAME_TIME)).unwrap_or_default();
                self.on_key_frame_request(now, KeyFrameRequest { newest });
            }
        }
        self.settle(now);
    }

    fn on_arrivals(&mut self, now: Time, feedback: &Feedback) {
        let measured = self.round_trip_estimate.measured.filter(|measured| now - measured.at < MEASUREMENT_VALIDITY);
        let mut newest = None;
        self.take_feedback(now, feedback, |(sent_at, arrived_at)| {
            let transit = arrived_at.ahead_of(sent_at);
            newest = Some(transit);
            let Measurement { round_trip, transit: then, .. } = measured?;
            Some(then.map_or(round_trip, |then| round_trip + (transit - then)).max(MIN_ROUND_TRIP))
        });
        self.round_trip_estimate.transit = newest.or(self.round_trip_estimate.transit);
        let lost = self.packets.poll_lost(feedback, |frame| self.frames.get(frame)?.parity_groups());
        self.retransmit(now, &lost);
    }
}
