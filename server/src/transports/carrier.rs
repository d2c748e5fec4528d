//! The interface between a session and the transport that connects it to its client.

use nearlight_session::{ReceivedInput, ServerEnd};
use nearlight_units::Time;
use nearlight_wire::{ClientMessage, Pose, ServerMessage};

use crate::session::common::ClientPreferences;

/// An event on a carrier that the session must handle.
#[derive(Debug)]
pub(crate) enum CarrierEvent {
    /// A codec has been negotiated after the session began.
    Negotiated(ClientPreferences),
    /// Media may flow.
    Connected,
    /// A control message of Nearlight's own protocol.
    Message(ClientMessage),
    /// Input of the user, reported by a protocol other than Nearlight's.
    Input(Box<ReceivedInput>),
    /// The transport has ended, for this reason.
    Closed(String),
}

/// Moves one session's data: datagrams or RTP packets, control messages, and timers of the protocols below.
///
/// [`nearlight_session::SessionDriver`] decides what happens after each event, through the methods of [`ServerEnd`]. A carrier adds
/// waiting, control messages and closing. Every method but [`Carrier::recv`] and [`Carrier::close`] returns at once.
///
/// The order of calls: one event ([`Carrier::recv`], [`ServerEnd::on_frame`], [`ServerEnd::on_sound`], [`Carrier::send`]), then
/// [`Carrier::poll_event`] until none, then [`nearlight_session::SessionDriver::step`].
pub(crate) trait Carrier: ServerEnd + Send {
    /// Whether the carrier moves the user itself, because its clients send neither a hello nor poses.
    const MOVES_USER: bool = false;

    /// Places the user that the carrier moves.
    fn set_start(&mut self, _start: Pose) {}

    /// Waits for data from the client or from its signalling, and processes it. Returns the time at which the client was heard, or none if
    /// the data did not come from the client. The error says why the session has ended. The future is cancel-safe.
    fn recv(&mut self) -> impl Future<Output = Result<Option<Time>, String>> + Send;

    fn poll_event(&mut self, now: Time) -> Option<CarrierEvent>;

    /// Sends a control message, in order and reliably if the transport can. The message is dropped if the client accepts none. The error
    /// says why the session must end.
    fn send(&mut self, now: Time, message: ServerMessage) -> Result<(), String>;

    /// Returns whether messages that may wait, such as the chunks of a long text, can be sent now without displacing others. If not,
    /// [`Carrier::recv`] or a timer of the session is due soon.
    fn has_room(&mut self) -> bool;

    /// Tells the client that the session has ended and why, and closes the transport. Takes a second at most.
    fn close(&mut self, now: Time, ended: &str) -> impl Future<Output = ()> + Send;
}
