//! Outgoing data: the sender's releases, reports and notes, passed to the library's protocols.

use nearlight_session::Payload;
use nearlight_units::{FrameId, Time};
use nearlight_wire::FrameNote;
use rtc::peer_connection::message::{RTCMessage, TaggedRTCMessage};
use rtc::rtp::packet::Packet;
use rtc::sansio::Protocol as _;

use super::{Message, Peer};

impl Peer {
    /// Passes the sender's releases to the protocols. Returns false if nothing is due.
    pub(super) fn write_media(&mut self, now: Time) -> bool {
        if !self.has_media() {
            return false;
        }
        let Some(video) = &mut self.video else { return false };
        let Some(release) = self.sender.rtp().poll_release(now) else { return false };
        let seq = release.seq;
        self.newest_seq = Some(seq);
        let piece = match release.payload {
            Payload::Piece { frame, index, retransmission: false, .. } => Some((frame.id, index)),
            Payload::Piece { .. } | Payload::Repair { .. } | Payload::Padding { .. } => None,
        };
        let Some(packet) = video.stream.packet(&release) else { return true };
        video.stream.on_sent(now, &packet);
        if let Some(reports) = &mut self.stream_reports {
            reports.on_sent(now, seq, packet.header.ssrc, packet.header.sequence_number);
        }
        if let Some((frame, index)) = piece {
            self.announce(now, frame, index);
        }
        self.write(now, packet);
        true
    }

    /// Handles a frame's packet that leaves for the first time: notes are sent ahead of its first and its last.
    fn announce(&mut self, now: Time, frame: FrameId, index: u16) {
        let Some(video) = &mut self.video else { return };
        let last = video.stream.is_last(frame, index);
        if index == 0 {
            // Frames leave in order: notes of earlier ones are obsolete.
            while video.notes.front().is_some_and(|note| note.frame != frame) {
                video.notes.pop_front();
            }
        } else if !last {
            return;
        }
        let note = if last { video.notes.pop_front() } else { video.notes.front().cloned() };
        if let (Some(note), Some(channel)) = (note.filter(|note| note.frame == frame), self.note_channel) {
            let note = FrameNote { sent_at: now, last, ..note };
            // A full channel loses notes as a full path would.
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
        // Only a closed connection rejects it.
        let _ = self.connection.run(|connection| connection.handle_write(TaggedRTCMessage { now, message }));
    }
}
