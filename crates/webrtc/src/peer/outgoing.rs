//! What goes out: what the sender lets go, reports and notes, handed to the library's protocols.

use nearlight_session::Departure;
use nearlight_units::{FrameId, Time};
use nearlight_wire::FrameNote;
use rtc::peer_connection::message::{RTCMessage, TaggedRTCMessage};
use rtc::rtp::packet::Packet;
use rtc::sansio::Protocol as _;

use super::{MAX_NOTES, Message, Peer};
use crate::sent_packets::Content;

impl Peer {
    /// Hands what the sender lets go to the protocols; false where nothing is due.
    pub(super) fn write_media(&mut self, now: Time) -> bool {
        if !self.has_media() {
            return false;
        }
        let Some(video) = &mut self.video else { return false };
        let Some(departure) = self.sender.poll_departure(now) else { return false };
        let Departure { seq, piece, repair, retransmission: again, bytes } = departure;
        self.sent_packets.on_sent(now, seq, left(piece, repair, again));
        let packet = match (piece, repair) {
            (Some((frame, index)), _) => video.stream.packet(frame, index, seq, bytes).map(|packet| {
                if again {
                    return video.stream.again(packet);
                }
                video.stream.protect(frame, index, &packet);
                packet
            }),
            (None, Some((frame, number))) => video.stream.repair(frame, number, seq),
            (None, None) => video.stream.filling(seq),
        };
        let Some(mut packet) = packet else { return true };
        video.stream.stamp(now, &mut packet);
        video.stream.on_sent(now, &packet);
        if let Some(reports) = &mut self.stream_reports {
            reports.on_sent(seq, packet.header.ssrc, packet.header.sequence_number);
        }
        if let Some((frame, index)) = piece.filter(|_| !again) {
            self.announce(now, frame, index);
        }
        self.write(now, packet);
        true
    }

    /// A frame's packet leaves for the first time: notes go ahead of its first and its last.
    fn announce(&mut self, now: Time, frame: FrameId, index: u16) {
        let Some(video) = &mut self.video else { return };
        let last = video.stream.is_last(frame, index);
        if index == 0 {
            video.begun.push_back((frame, now));
            if video.begun.len() > MAX_NOTES {
                video.begun.pop_front();
            }
            // Frames leave in order: those before it will not.
            while video.notes.front().is_some_and(|note| note.frame != frame) {
                video.notes.pop_front();
            }
        } else if !last {
            return;
        }
        let note = if last { video.notes.pop_front() } else { video.notes.front().cloned() };
        if let (Some(note), Some(channel)) = (note.filter(|note| note.frame == frame), self.note_channel) {
            let note = FrameNote { sent_at: now, last, ..note };
            // A full channel loses notes like a full path would.
            let _ = self.send(now, channel, Message::Binary(note.to_bytes()));
        }
    }

    pub(super) fn write_report(&mut self, now: Time) -> bool {
        let streams = [self.video.as_mut().map(|video| &mut video.stream), self.sound.as_mut()];
        let Some(report) = streams.into_iter().flatten().find_map(|stream| stream.poll_report(now)) else {
            return false;
        };
        let message = RTCMessage::RtcpPacket(String::new(), vec![Box::new(report)]);
        let now = self.instant(now);
        let written = self.connection.run(|connection| connection.handle_write(TaggedRTCMessage { now, message }));
        written.is_some_and(|written| written.is_ok())
    }

    pub(super) fn write(&mut self, now: Time, packet: Packet) {
        let message = RTCMessage::RtpPacket(String::new(), packet);
        let now = self.instant(now);
        // Only a closed connection refuses.
        let _ = self.connection.run(|connection| connection.handle_write(TaggedRTCMessage { now, message }));
    }
}

fn left(piece: Option<(FrameId, u16)>, repair: Option<(FrameId, u16)>, again: bool) -> Content {
    match (piece, repair) {
        (Some(piece), _) => Content::Piece { piece, again },
        (None, Some((frame, number))) => Content::Repair(frame, number),
        (None, None) => Content::Other,
    }
}
