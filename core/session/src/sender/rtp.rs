//! The sender as seen by a driver that writes RTP packets: it splits frames itself, and its receiver reports packets.

use crate::pace::Class;
use nearlight_units::{Bytes, PacketSeq, Time};

use super::{EncodedFrame, Framing, ReceiverFeedback, Sender};
use crate::packets::history::{Content, Segmentation, StoredFrame};
use crate::packets::release::Release;

/// The methods of a [`Sender`] for drivers of another protocol than ours. Returned by [`Sender::rtp`].
pub struct RtpSender<'a>(pub(super) &'a mut Sender);

impl<'a> RtpSender<'a> {
    /// Queues an encoded frame that was split by the protocol that carries it. Returns how many repairs follow it, which that protocol
    /// generates: the policy plans as for repairs of our own that cover this frame alone.
    pub fn on_segmented_frame(self, now: Time, frame: EncodedFrame<'_>, segmentation: Segmentation) -> u16 {
        debug_assert_eq!(self.0.config.framing, Framing::Rtp);
        let EncodedFrame { id, reference, header, bits, distortion, group_index } = frame;
        self.0.on_distortion(distortion);
        let mut stored =
            StoredFrame::with_segmentation(id, reference, bits.into_owned(), segmentation, header.deadline);
        stored.group_index = group_index;
        self.0.queue(now, stored, &header)
    }

    /// Accounts for other data, such as sound, that leaves on the same path now. Returns its number. It does not wait, and media waits for
    /// it.
    pub fn on_other_sent(self, now: Time, size: Bytes) -> PacketSeq {
        self.0.pacer.poll(now, size, Class::Urgent);
        self.0.on_sent(now, size, Content::Other)
    }

    /// Handles feedback from the receiver.
    pub fn on_feedback(self, now: Time, feedback: ReceiverFeedback<'_>) {
        self.0.on_receiver_feedback(now, feedback);
    }

    /// Disables redundancy, because the receiver accepts no repairs. No policy name is reported from now on.
    pub fn set_unprotected(self) {
        self.0.protection = None;
    }

    /// Returns the next packet to write. Call it until None.
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
