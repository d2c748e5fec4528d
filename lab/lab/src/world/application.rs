//! The server's end of a session in virtual time, for [`SessionDriver`](nearlight_session::SessionDriver): its packets go to the network,
//! everything else to an application that shares a thread with it.

use std::collections::VecDeque;

use nearlight_link::Ecn;
use nearlight_session::{EncodedFrame, FrameProducer, MediaTarget, ReceivedInput, Sender, ServerEnd, SkipReason, Wake};
use nearlight_units::{Bytes, InputSeq, Time};

use super::carrier::{Carrier, world_clock};
use super::media::parcel;
use super::network::{Network, OutgoingPacket};
use super::tally::Tally;

/// The application's view of its session, in place of the server's `SessionExchange`.
pub(super) struct Application {
    /// The newest input, and when it arrived.
    pub(super) newest_input: (InputSeq, Time),
    pub(super) target: MediaTarget,
    skipped: VecDeque<SkipReason>,
}

impl Application {
    pub(super) fn new(target: MediaTarget) -> Self {
        Self { newest_input: (InputSeq(0), Time::ZERO), target, skipped: VecDeque::new() }
    }

    /// A frame was skipped; the session is informed.
    pub(super) fn on_skipped(&mut self, reason: SkipReason) {
        self.skipped.push_back(reason);
    }
}

impl FrameProducer for Application {
    fn on_input(&mut self, input: ReceivedInput) {
        self.newest_input = (input.sample.seq, input.received_at);
    }

    fn poll_skipped(&mut self) -> Option<SkipReason> {
        self.skipped.pop_front()
    }

    fn set_target(&mut self, target: MediaTarget) {
        self.target = target;
    }
}

/// The server end of a carrier, connected to the simulated network.
pub(super) struct NetworkedServer<'a> {
    pub(super) carrier: &'a mut dyn Carrier,
    pub(super) network: &'a mut Network,
    pub(super) tally: &'a mut Tally,
    pub(super) flow: u16,
    pub(super) headers: Bytes,
    pub(super) ecn: Ecn,
}

impl ServerEnd for NetworkedServer<'_> {
    fn sender(&self) -> &Sender {
        self.carrier.sender()
    }

    fn sender_mut(&mut self) -> &mut Sender {
        self.carrier.sender_mut()
    }

    fn on_frame(&mut self, now: Time, frame: EncodedFrame<'_>) {
        self.carrier.on_frame(now, frame);
    }

    fn on_timeout(&mut self, now: Time) {
        self.carrier.on_server_timeout(now);
    }

    fn transmit(&mut self, now: Time) {
        let world = world_clock(now);
        while let Some(bytes) = self.carrier.poll_server_transmit(now) {
            self.tally.on_packet_sent(world, bytes.len());
            let parcel = parcel(self.flow, true, self.headers, bytes);
            self.carrier.take_back(self.network.send(world, OutgoingPacket { ecn: self.ecn, ..parcel }));
        }
    }

    fn poll_timeout(&mut self) -> Option<(Time, Wake)> {
        self.carrier.poll_server_timeout()
    }
}
