//! What a session needs of the transport that connects it to its client.

use nearlight_session::{EncodedFrame, ReceivedInput, Sender, SoundPacket, Wake};
use nearlight_units::Time;
use nearlight_wire::{ClientMessage, ServerMessage};

use crate::session_common::ClientPreferences;

/// What happened on a carrier, as the session must know it.
#[derive(Debug)]
pub(crate) enum CarrierEvent {
    /// A codec has been negotiated after the session began.
    Negotiated(ClientPreferences),
    /// Media may flow.
    Connected,
    /// A control message of Nearlight's own protocol.
    Message(ClientMessage),
    /// The user moved, told by another protocol than Nearlight's.
    Input(Box<ReceivedInput>),
    /// The transport has ended, and why.
    Closed(String),
}

/// Moves one session's data: datagrams or RTP packets, control messages, and timers of the protocols below.
///
/// It owns the session's [`Sender`], because some transports cut frames and number packets in their own way; all decisions about media
/// are the sender's. Every method but [`Carrier::recv`] and [`Carrier::close`] returns at once.
///
/// The order of calls: one fact ([`Carrier::recv`], [`Carrier::on_frame`], [`Carrier::on_sound`], [`Carrier::send`],
/// [`Carrier::on_timeout`]), then [`Carrier::poll_event`] until none, then [`Carrier::transmit`].
pub(crate) trait Carrier: Send {
    fn sender(&self) -> &Sender;

    fn sender_mut(&mut self) -> &mut Sender;

    /// Waits for what comes from the client, or from its signalling, and takes it in. Answers when the client was heard; none where it was not
    /// the client. The error says why the session has ended. Dropping the future loses nothing.
    fn recv(&mut self) -> impl Future<Output = Result<Option<Time>, String>> + Send;

    fn poll_event(&mut self, now: Time) -> Option<CarrierEvent>;

    /// A frame was encoded.
    fn on_frame(&mut self, now: Time, frame: EncodedFrame<'static>);

    /// A packet of sound was coded.
    fn on_sound(&mut self, now: Time, packet: SoundPacket);

    /// Sends a control message, in order and reliably where the transport can; dropped where the client takes none. The error says
    /// why the session must end.
    fn send(&mut self, now: Time, message: ServerMessage) -> Result<(), String>;

    /// Sends everything that is due.
    fn transmit(&mut self, now: Time);

    /// When to call [`Carrier::on_timeout`] and [`Carrier::transmit`] next even if nothing happens, and what for.
    fn poll_timeout(&mut self) -> Option<(Time, Wake)>;

    fn on_timeout(&mut self, now: Time);

    /// Tells the client that the session has ended and why, and closes the transport. Takes a second at most.
    fn close(&mut self, now: Time, ended: &str) -> impl Future<Output = ()> + Send;
}
