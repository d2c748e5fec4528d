//! Our own datagrams, between the session's sender and receiver.

use nearlight_events::RecoveryCounts;
use nearlight_session::{DisplayedFrame, EncodedFrame, Receiver, Sender, Wake};
use nearlight_units::{FrameId, Time};
use nearlight_wire::ToClient;
use nearlight_wire::marker::Marker;

use super::{Carrier, CompleteFrame};

pub(in crate::world) struct Datagrams {
    pub(in crate::world) sender: Sender,
    pub(in crate::world) receiver: Receiver,
}

impl Carrier for Datagrams {
    fn sender(&self) -> &Sender {
        &self.sender
    }

    fn sender_mut(&mut self) -> &mut Sender {
        &mut self.sender
    }

    fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    fn receiver_mut(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    fn on_frame(&mut self, at_server: Time, frame: EncodedFrame<'_>) {
        self.sender.on_frame(at_server, frame);
    }

    fn frame_of(&self, bytes: &[u8]) -> Option<FrameId> {
        match ToClient::parse(bytes) {
            Ok(ToClient::Symbol(header, _)) if !header.flags.probe => Some(header.frame),
            _ => None,
        }
    }

    fn on_server_datagram(&mut self, at_server: Time, bytes: &[u8]) {
        self.sender.on_datagram(at_server, bytes);
    }

    fn on_server_timeout(&mut self, at_server: Time) {
        self.sender.on_timeout(at_server);
    }

    fn poll_server_transmit(&mut self, at_server: Time) -> Option<Vec<u8>> {
        self.sender.poll_transmit(at_server)
    }

    fn take_back(&mut self, datagram: Vec<u8>) {
        self.sender.take_back(datagram);
    }

    fn poll_server_timeout(&mut self) -> Option<(Time, Wake)> {
        self.sender.poll_timeout()
    }

    fn on_client_datagram(&mut self, now: Time, bytes: &[u8], marked: bool) {
        if marked {
            self.receiver.on_marked_datagram(now, bytes);
        } else {
            self.receiver.on_datagram(now, bytes);
        }
    }

    fn on_client_timeout(&mut self, now: Time) {
        self.receiver.on_timeout(now);
    }

    fn poll_client_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        self.receiver.poll_transmit(now)
    }

    fn poll_client_timeout(&mut self) -> Option<(Time, Wake)> {
        self.receiver.poll_timeout()
    }

    fn poll_frame(&mut self, now: Time) -> Option<CompleteFrame> {
        self.receiver.frames().poll(now).map(CompleteFrame::Own)
    }

    fn on_decoded(&mut self, now: Time, frame: FrameId) {
        self.receiver.frames().on_decoded(now, frame);
    }

    fn on_decode_failed(&mut self, now: Time, frame: FrameId) {
        self.receiver.frames().on_decode_failed(now, frame);
    }

    fn on_displayed(&mut self, now: Time, frame: FrameId, marker: Marker) -> Option<DisplayedFrame> {
        self.receiver.frames().on_displayed(now, frame, Some(marker))
    }

    fn recovery(&self, now: Time) -> Option<RecoveryCounts> {
        Some(self.receiver.statistics(now).recovery)
    }
}
