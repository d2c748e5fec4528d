//! Incoming data: the library's events, messages and feedback, as facts for the sender and for the driver of the peer.

use nearlight_rate::ReceiverReport::Estimate;
use nearlight_session::ReceiverFeedback;
use nearlight_units::{Bitrate, Time};
use rtc::peer_connection::RTCPeerConnection;
use rtc::peer_connection::transport::RTCDtlsTransportState;
use rtc::rtcp::payload_feedbacks::full_intra_request::FullIntraRequest;
use rtc::rtcp::payload_feedbacks::picture_loss_indication::PictureLossIndication;
use rtc::rtcp::payload_feedbacks::receiver_estimated_maximum_bitrate::ReceiverEstimatedMaximumBitrate;
use rtc::rtcp::receiver_report::ReceiverReport;
use rtc::rtcp::reception_report::ReceptionReport;
use rtc::rtcp::sender_report::SenderReport;
use rtc::rtcp::transport_feedbacks::cc_feedback_report::CcFeedbackReport;
use rtc::rtcp::transport_feedbacks::transport_layer_cc::TransportLayerCc;
use rtc::rtcp::transport_feedbacks::transport_layer_nack::TransportLayerNack;
use rtc::sansio::Protocol as _;

use super::{
    Event, MAX_CHANNELS, Message, Peer, RTCDataChannelEvent, RTCMessage, RTCPeerConnectionEvent, RTCPeerConnectionState,
};
use crate::stream;

/// Maximum number of unread events. A client that causes more between two reads is disconnected.
const MAX_EVENTS: usize = 1_024;

impl Peer {
    pub(super) fn take_in(&mut self, now: Time) {
        while let Some(event) = self.connection.run(RTCPeerConnection::poll_event).flatten() {
            self.on_event(&event);
        }
        while let Some(message) = self.connection.run(RTCPeerConnection::poll_read).flatten() {
            if let RTCMessage::DataChannelMessage(channel, message) = message.message
                && self.channels.contains_key(&channel)
            {
                self.candidate_pairs.on_heard(now);
                let message = if message.is_string {
                    Message::Text(String::from_utf8_lossy(&message.data).into_owned())
                } else {
                    Message::Binary(message.data.to_vec())
                };
                self.tell(Event::Message { channel, message });
            }
        }
        while let Some(packet) = self.rtcp_queue.poll() {
            self.candidate_pairs.on_heard(now);
            self.on_rtcp(now, packet.as_ref());
        }
        if !self.ended && self.connection.is_gone() {
            self.ended = true;
            self.events.push_back(Event::Failed);
        } else if !self.ended && self.has_closed() {
            self.end();
        }
    }

    /// Whether the client has closed the DTLS connection, for which the library emits no event.
    fn has_closed(&mut self) -> bool {
        let track = self.tracks.into_iter().flatten().next();
        let state = self.connection.run(|connection| {
            let sender = track.and_then(|id| connection.rtp_sender(id));
            let of_track = sender.and_then(|sender| sender.transport().map(|transport| transport.state()));
            of_track.or_else(|| Some(connection.sctp()?.transport().state()))
        });
        state == Some(Some(RTCDtlsTransportState::Closed))
    }

    /// Handles a client that is gone.
    pub(super) fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.tell(Event::Ended);
        }
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        } else if !self.ended {
            self.ended = true;
            self.events.push_back(Event::Ended);
        }
    }

    fn on_event(&mut self, event: &RTCPeerConnectionEvent) {
        match event {
            RTCPeerConnectionEvent::OnConnectionStateChangeEvent(state) => match state {
                RTCPeerConnectionState::Connected if !self.connected => {
                    self.connected = true;
                    self.tell(Event::Connected);
                }
                RTCPeerConnectionState::Failed | RTCPeerConnectionState::Closed => self.end(),
                _ => {}
            },
            RTCPeerConnectionEvent::OnDataChannel(RTCDataChannelEvent::OnOpen(channel)) => {
                let channel = *channel;
                let label = self
                    .connection
                    .run(|connection| connection.data_channel(channel).map(|channel| channel.label().to_owned()));
                if let Some(label) = label.flatten()
                    && self.channels.len() < MAX_CHANNELS
                {
                    self.channels.insert(channel, label.clone());
                    self.tell(Event::Opened { channel, label });
                }
            }
            RTCPeerConnectionEvent::OnDataChannel(RTCDataChannelEvent::OnClose(channel))
                if self.channels.remove(channel).is_some() =>
            {
                self.note_channel = self.note_channel.filter(|other| other != channel);
                self.tell(Event::Closed { channel: *channel });
            }
            _ => {}
        }
    }

    fn on_rtcp(&mut self, now: Time, packet: &dyn rtc::rtcp::Packet) {
        let any = packet.as_any();
        if let Some(report) = any.downcast_ref::<TransportLayerCc>() {
            self.on_transport_report(now, report);
        } else if let Some(report) = any.downcast_ref::<CcFeedbackReport>() {
            let feedback = self.stream_reports.as_mut().map(|reports| reports.on_report(report));
            for feedback in feedback.into_iter().flatten() {
                self.sender.rtp().on_feedback(now, ReceiverFeedback::Arrivals(&feedback));
            }
        } else if let Some(nack) = any.downcast_ref::<TransportLayerNack>() {
            let Some(video) = self.video.as_ref().filter(|video| video.stream.config().ssrc == nack.media_ssrc) else {
                return;
            };
            let missing = video.stream.missing(nack.nacks.iter().flat_map(|pair| pair.into_iter()));
            self.sender.rtp().on_feedback(now, ReceiverFeedback::Missing(&missing));
        } else if any.is::<PictureLossIndication>() || any.is::<FullIntraRequest>() {
            if self.video.is_some() {
                self.sender.rtp().on_feedback(now, ReceiverFeedback::PictureLost);
            }
        } else if let Some(estimate) = any.downcast_ref::<ReceiverEstimatedMaximumBitrate>() {
            let estimate = Estimate(Bitrate::from_bps(f64::from(estimate.bitrate) as u64));
            self.sender.rtp().on_feedback(now, ReceiverFeedback::Report(&estimate));
        } else if let Some(report) = any.downcast_ref::<ReceiverReport>() {
            self.on_reception(now, &report.reports);
        } else if let Some(report) = any.downcast_ref::<SenderReport>() {
            self.on_reception(now, &report.reports);
        }
    }

    fn on_transport_report(&mut self, now: Time, report: &TransportLayerCc) {
        let Some(newest) = self.newest_seq else { return };
        let Some(feedback) = self.reports.on_report(report, newest) else { return };
        self.sender.rtp().on_feedback(now, ReceiverFeedback::Arrivals(&feedback));
    }

    fn on_reception(&mut self, now: Time, reports: &[ReceptionReport]) {
        let Some(video) = &self.video else { return };
        let ours = reports.iter().find(|report| report.ssrc == video.stream.config().ssrc);
        if let Some(news) = ours.and_then(|report| self.reception.on_report(report)) {
            self.sender.rtp().on_feedback(now, ReceiverFeedback::Report(&news));
        }
        if let Some(span) = ours.and_then(|report| stream::round_trip(now, report.last_sender_report, report.delay)) {
            self.sender.rtp().on_feedback(now, ReceiverFeedback::RoundTrip(span));
        }
    }
}
