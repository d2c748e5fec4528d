//! Packets of sound on their way from their encoder to the session.

use nearlight_session::SoundPacket;
use tokio::sync::mpsc;

/// The client's packets of sound.
#[derive(Debug, Default)]
pub(crate) struct SoundQueue {
    /// Bounded by the session. None: the client receives no sound.
    packets: Option<mpsc::Sender<SoundPacket>>,
}

impl SoundQueue {
    pub(super) const fn new(packets: mpsc::Sender<SoundPacket>) -> Self {
        Self { packets: Some(packets) }
    }

    /// Passes a packet to the session. A packet for which there is no room is dropped, because it would be late.
    pub(crate) fn deliver(&self, packet: SoundPacket) {
        if let Some(packets) = &self.packets {
            let _ = packets.try_send(packet);
        }
    }
}
