//! The server's end of a session, step by step: what follows from an event, and in which order.
//!
//! A server's session task and the lab call [`SessionDriver::step`] after every event. Neither decides anything itself: the task waits for
//! events, and the lab moves its clock to the next of them.

use nearlight_events::Event;
use nearlight_units::Time;
use nearlight_wire::FrameReport;

use crate::{EncodedFrame, MediaTarget, ReceivedInput, Sender, SkipReason, SoundPacket, Wake};

/// The server's end of a transport: a [`Sender`], and the code that writes its packets.
///
/// It owns the sender, because some transports split frames and number packets in their own way. No method blocks. All times are the
/// server's.
pub trait ServerEnd {
    fn sender(&self) -> &Sender;

    fn sender_mut(&mut self) -> &mut Sender;

    /// Handles an encoded frame.
    fn on_frame(&mut self, now: Time, frame: EncodedFrame<'_>) {
        self.sender_mut().on_frame(now, frame);
    }

    /// Handles an encoded packet of sound.
    fn on_sound(&mut self, now: Time, packet: SoundPacket) {
        self.sender_mut().on_sound(now, packet);
    }

    /// Handles the timer that [`ServerEnd::poll_timeout`] announced.
    fn on_timeout(&mut self, now: Time) {
        self.sender_mut().on_timeout(now);
    }

    /// Sends everything that is due.
    fn transmit(&mut self, now: Time);

    /// When to step next even if nothing happens, and for what purpose.
    fn poll_timeout(&mut self) -> Option<(Time, Wake)> {
        self.sender().poll_timeout()
    }
}

/// The source of a session's frames, and the destination of everything that is not sent to the client.
pub trait FrameProducer {
    /// Handles the user's newest input, with all events since the previous one.
    fn on_input(&mut self, input: ReceivedInput);

    /// Returns a frame that was skipped before it was encoded and that the session has not been informed of.
    fn poll_skipped(&mut self) -> Option<SkipReason>;

    /// Sets the properties of the media that come next, until the next call.
    fn set_target(&mut self, target: MediaTarget);

    /// Handles the client's report on a frame.
    fn on_outcome(&mut self, _report: &FrameReport) {}

    fn on_event(&mut self, _at: Time, _event: Event) {}
}

/// Drives the server's end of a session.
#[derive(Debug, Default)]
pub struct SessionDriver {
    due: Option<(Time, Wake)>,
}

impl SessionDriver {
    /// Handles timers that are due, informs the session of skipped frames, sends what may leave, and hands over everything else that the
    /// session has produced. Call it after every event and at the time of [`SessionDriver::due`]. Returns the timer that was due.
    ///
    /// Without a producer, as before a codec is negotiated, only timers and packets are handled.
    pub fn step(
        &mut self,
        now: Time,
        end: &mut impl ServerEnd,
        producer: Option<&mut impl FrameProducer>,
    ) -> Option<Wake> {
        let woken = self.due.take().filter(|(at, _)| *at <= now);
        if woken.is_some() {
            end.on_timeout(now);
        }
        if let Some(producer) = producer {
            while let Some(reason) = producer.poll_skipped() {
                end.sender_mut().on_skipped(now, reason);
            }
            end.transmit(now);
            Self::hand_over(now, end.sender_mut(), producer);
        } else {
            end.transmit(now);
        }
        self.due = end.poll_timeout();
        woken.map(|(_, wake)| wake)
    }

    fn hand_over(now: Time, sender: &mut Sender, producer: &mut impl FrameProducer) {
        if let Some(input) = sender.poll_input(now) {
            producer.on_input(input);
        }
        while let Some(report) = sender.poll_outcome() {
            producer.on_outcome(&report);
        }
        producer.set_target(sender.target());
        while let Some((at, event)) = sender.poll_event() {
            producer.on_event(at, event);
        }
    }

    /// When to step next even if nothing happens. Stepping early is harmless.
    #[must_use]
    pub const fn due(&self) -> Option<(Time, Wake)> {
        self.due
    }
}

#[cfg(test)]
mod tests;
