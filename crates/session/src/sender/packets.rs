//! Where another protocol carries the frames: that protocol cuts them into packets and adds its headers; when which piece leaves is decided
//! here as for any other frame, by the same pacer, controller and loss policy.

use nearlight_pace::Class;
use nearlight_rate::ReceiverReport;
use nearlight_units::{Bytes, FrameId, PacketSeq, Span, Time};
use nearlight_wire::{Feedback, FrameHeader};

use super::{EncodedFrame, Sender, UNKNOWN_ROUND_TRIP};
use crate::history::KeptFrame;
use crate::protection::Planned;

/// A round trip that was measured elsewhere is believed for this long: reports come about once a second, and some get lost.
const MEASURED_MEMORY: Span = Span::from_secs(3);
/// What noise cannot push it below.
const SHORTEST_ROUND_TRIP: Span = Span::from_micros(100);

/// What is known of the round trip where feedback does not tell it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Elsewhere {
    measured: Option<Measured>,
    /// From the sender's clock to the receiver's, of the newest packet that came: it says nothing but how it changes.
    transit: Option<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    at: Time,
    round_trip: Span,
    transit: Option<Span>,
}

/// How a frame is cut. Its pieces follow one another in the frame's bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where each piece ends, in bytes, ascending; the last one is the number of all bytes. At least one.
    pub ends: Vec<u32>,
    /// What the protocol adds to each piece on the wire, in bytes.
    pub overhead: u16,
    /// And what it adds to the longest of those pieces that a repair stands in for; none where it knows no repairs.
    pub repair_overhead: Option<u16>,
}

impl Cut {
    pub(crate) fn range(&self, index: u16) -> std::ops::Range<usize> {
        let index = usize::from(index);
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[index] as usize
    }

    /// A repair on the wire at most; none where there are none.
    pub(crate) fn repair_size(&self) -> Option<Bytes> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let longest = starts.zip(&self.ends).map(|(start, end)| end - start).max()?;
        Some(Bytes::new(u64::from(longest) + u64::from(self.repair_overhead?)))
    }
}

/// What leaves now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Counts all that leaves, from 0; feedback speaks of it.
    pub seq: PacketSeq,
    /// Frame and index of the piece or symbol; none for padding and for repairs.
    pub piece: Option<(FrameId, u16)>,
    /// Frame and number of a repair that leaves behind its frame.
    pub repair: Option<(FrameId, u16)>,
    /// It has left before.
    pub retransmission: bool,
    /// A datagram as it travels; of a frame whose cut was given, the piece alone; of padding with such frames, its size in zeros;
    /// nothing of their repairs, which the protocol makes.
    pub bytes: Vec<u8>,
}

impl Sender {
    /// A frame was encoded and cut by the protocol that carries it: it is queued. All frames of a session come like this or none
    /// does. Answers how many repairs leave behind it, which the protocol makes: the policy plans as for repairs of our own that
    /// cover this frame alone.
    pub fn on_cut_frame(&mut self, now: Time, frame: EncodedFrame<'_>, cut: Cut) -> u16 {
        let EncodedFrame { id, reference, header, bits, distortion } = frame;
        self.on_distortion(distortion);
        if id == FrameId(0) {
            self.restraint.set_silent_on_display();
        }
        self.queue(now, KeptFrame::given(id, reference, bits.into_owned(), cut, header.deadline), &header)
    }

    /// What carries the frames knows no repairs: from now on nothing is added to them, and no policy has a name.
    pub fn set_unprotected(&mut self) {
        self.protection = None;
    }

    /// Whether a policy adds repairs to the frames.
    #[must_use]
    pub const fn is_protected(&self) -> bool {
        self.protection.is_some()
    }

    /// Answers how many repairs were planned.
    pub(super) fn queue(&mut self, now: Time, mut kept: KeptFrame, header: &FrameHeader) -> u16 {
        debug_assert_eq!(kept.id, self.next_frame, "frames come in order");
        self.decoder_load.on_frame();
        self.restraint.on_frame(now);
        let (id, reference, key) = (kept.id, kept.reference(), kept.key);
        let size = Bytes::new(kept.bytes.len() as u64);
        kept.render_started_at = header.render_started_at;
        kept.queued_at = now;
        let symbols = u32::from(kept.symbols);
        self.next_frame = id.next();
        self.statistics.frames += 1;
        self.statistics.key_frames += u64::from(key);
        if key && self.recovery.is_receiver_waiting() {
            self.abandon_unsent(now);
            self.restraint.on_answer(now, id, self.round_trip.unwrap_or(UNKNOWN_ROUND_TRIP));
        }
        self.statistics.recovery_frames += u64::from(self.recovery.on_frame(now, id, reference));
        self.redundant.on_frame(size);
        self.protect(now, &mut kept);
        let repairs = kept.planned.as_ref().map_or(0, Planned::left);
        self.pacer.on_frame(now, kept.unsent(), now + self.config.frame_interval);
        let dropped = self.frames.push(kept);
        if dropped > Bytes::ZERO {
            // A driver that does not ask `refusal` has outrun the path: the chain of references is broken here.
            self.pacer.on_dropped(now, dropped);
        }
        if dropped > Bytes::ZERO && !key {
            self.abandon_unsent(now);
            self.on_chain_broken(now, "queue overflow");
        }
        let encode = header.encoded_at.saturating_since(header.converted_at);
        self.controller.on_frame_sent(now, &nearlight_rate::SentFrame { frame: id, size, key, encode });
        self.emit(now, || nearlight_events::Event::FrameSent { frame: id, bytes: size.get(), key, reference, symbols });
        repairs
    }

    /// The next packet to send; call until none. Answers to pings come from [`Sender::poll_pong`].
    pub fn poll_departure(&mut self, now: Time) -> Option<Departure> {
        self.run_controller(now);
        self.poll_repair(now).or_else(|| self.poll_media(now)).or_else(|| self.poll_padding(now))
    }

    /// The number of what left last; none before anything has.
    #[must_use]
    pub fn newest_seq(&self) -> Option<PacketSeq> {
        self.next_seq.0.checked_sub(1).map(PacketSeq)
    }

    /// Something else leaves on the same path now, such as sound. It does not wait, and media waits for it.
    pub fn on_beside(&mut self, now: Time, size: Bytes) -> PacketSeq {
        let seq = self.next_seq;
        self.pacer.poll(now, size, Class::Repair);
        self.on_sent(now, size, None);
        seq
    }

    /// Another protocol, whose feedback does not tell it, has measured the round trip.
    pub const fn on_round_trip(&mut self, now: Time, round_trip: Span) {
        self.elsewhere.measured = Some(Measured { at: now, round_trip, transit: self.elsewhere.transit });
    }

    /// Another protocol's receiver tells of its packets as a whole, or estimates the rate itself.
    pub fn on_receiver_report(&mut self, now: Time, report: &ReceiverReport) {
        self.controller.on_receiver_report(now, report);
        self.take_decision(now);
    }

    /// Arrivals, as another protocol's feedback told them. Between two measurements the round trip changes as the way there does, of
    /// which each arrival tells; that the way back stays as it was is assumed.
    pub fn on_arrivals(&mut self, now: Time, feedback: &Feedback) {
        let measured = self.elsewhere.measured.filter(|measured| now - measured.at < MEASURED_MEMORY);
        let mut newest = None;
        self.take_feedback(now, feedback, |(sent_at, arrived_at)| {
            let transit = arrived_at - sent_at;
            newest = Some(transit);
            let Measured { round_trip, transit: then, .. } = measured?;
            Some(then.map_or(round_trip, |then| round_trip + (transit - then)).max(SHORTEST_ROUND_TRIP))
        });
        self.elsewhere.transit = newest.or(self.elsewhere.transit);
    }
}
