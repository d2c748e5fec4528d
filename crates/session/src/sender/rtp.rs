//! The sender as seen by a driver that writes RTP packets: it splits frames itself, and its receiver reports packets.

use nearlight_pace::Class;
use nearlight_units::{Bytes, PacketSeq, Time};

use super::{EncodedFrame, Framing, ReceiverFeedback, Sender};
use crate::history::{Content, Cut, KeptFrame};
use crate::release::Release;

/// What a driver of another protocol than ours needs of a [`Sender`] besides its own methods; from [`Sender::rtp`].
pub struct RtpSender<'a>(pub(super) &'a mut Sender);

impl<'a> RtpSender<'a> {
    /// A frame was encoded and split by the protocol that carries it: it is queued. Returns how many repairs follow it, which that protocol
    /// generates: the policy plans as for repairs of our own that cover this frame alone.
    pub fn on_cut_frame(self, now: Time, frame: EncodedFrame<'_>, cut: Cut) -> u16 {
        debug_assert_eq!(self.0.config.framing, Framing::Rtp);
        let EncodedFrame { id, reference, header, bits, distortion, group_index } = frame;
        self.0.on_distortion(distortion);
        let mut kept = KeptFrame::given(id, reference, bits.into_owned(), cut, header.deadline);
        kept.group_index = group_index;
        self.0.queue(now, kept, &header)
    }

    /// Something else, such as sound, leaves on the same path now, under the returned number. It does not wait, and media waits for it.
    pub fn on_sent_beside(self, now: Time, size: Bytes) -> PacketSeq {
        self.0.pacer.poll(now, size, Class::Urgent);
        self.0.on_sent(now, size, Content::Other)
    }

    /// Feedback arrived from the receiver.
    pub fn on_feedback(self, now: Time, feedback: ReceiverFeedback<'_>) {
        self.0.on_receiver_feedback(now, feedback);
    }

    /// The receiver accepts no repairs: from now on no redundancy is added, and no policy name is reported.
    pub fn set_unprotected(self) {
        self.0.protection = None;
    }

    /// The next packet to write; call until none.
    pub fn poll_release(self, now: Time) -> Option<Release<'a>> {
        self.0.poll_release(now)
    }
}

impl Sender {
    /// For a driver that writes the packets of another protocol ([`Framing::Rtp`]).
    pub const fn rtp(&mut self) -> RtpSender<'_> {
        RtpSender(self)
    }
}
