//! Pictures that the application's own media stack received, recovered and decoded, as browsers do over WebRTC: the server's notes on their
//! frames are joined with them by RTP timestamp.

use std::collections::VecDeque;

use nearlight_events::Event;
use nearlight_units::{Bytes, FrameId, RemoteTime, Time};
use nearlight_wire::{FrameNote, marker::Marker};

use super::display::Display;
use crate::receiver::assembly::Transfer;
use crate::receiver::presentation::DisplayedFrame;
use crate::sound::RtpSound;

/// Maximum number of notes that wait for their pictures: half a second at 120 frames a second.
const MAX_NOTES: usize = 64;
/// Maximum number of pictures that wait for their notes. Guess: notes are not that much later.
const MAX_UNNOTED: usize = 16;
/// Maximum number of pictures between their notes and the display: as many as have an open timeline.
const MAX_JOINED: usize = 128;
/// Maximum number of frames of one gap that are reported as lost by id. After an outage the older ones are only counted.
const MAX_NAMED: u32 = 64;

/// A decoded picture, as the media stack hands it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureFacts {
    pub rtp_timestamp: u32,
    /// When the frame's last packet arrived, where the media stack reports it.
    pub received_at: Option<Time>,
}

/// Counts of the media stack since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtpCounts {
    /// Packets that never arrived.
    pub packets_lost: u64,
    /// Media packets that arrived, including repetitions, and their bytes with RTP headers.
    pub packets: u64,
    pub bytes: Bytes,
    /// Packets that arrived because they had been requested, and their bytes with those of other redundancy.
    pub repeated_packets: u64,
    pub redundant_bytes: Bytes,
    /// Packets that replace lost ones.
    pub repairs: u64,
    /// Decoded key frames, including the first one.
    pub key_frames: u64,
}

/// A note whose picture has not been decoded yet.
#[derive(Clone, Debug)]
struct ReceivedNote {
    note: FrameNote<RemoteTime>,
    arrived_at: Time,
}

/// A decoded picture whose note has not arrived yet.
#[derive(Clone, Copy, Debug)]
struct UnmatchedPicture {
    facts: PictureFacts,
    decoded_at: Time,
}

/// A picture and the note on its frame.
struct MatchedPicture {
    note: FrameNote<RemoteTime>,
    transfer: Transfer,
    decoded_at: Time,
    /// Number of frames just before it of which no picture arrived.
    missing: u32,
}

/// Joins pictures with the notes on their frames.
#[derive(Debug, Default)]
pub(super) struct RtpPictures {
    notes: VecDeque<ReceivedNote>,
    unnoted: VecDeque<UnmatchedPicture>,
    joined: VecDeque<(u32, FrameId)>,
    newest: Option<FrameId>,
    newest_joined: Option<FrameId>,
    /// Number of pictures without a note since the newest that has one. They account for frames that are not missing.
    unnoted_since: u32,
    lost: u64,
}

impl RtpPictures {
    /// Returns the newest frame that a note named.
    pub(super) const fn newest(&self) -> Option<FrameId> {
        self.newest
    }

    /// Returns the number of frames of which no picture arrived.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn held(&self) -> usize {
        self.notes.len() + self.unnoted.len() + self.joined.len()
    }

    fn on_note(&mut self, now: Time, note: FrameNote<RemoteTime>) -> Option<MatchedPicture> {
        self.newest = self.newest.max(Some(note.frame));
        if self.joined.iter().any(|(rtp_timestamp, _)| *rtp_timestamp == note.rtp_timestamp) {
            return None;
        }
        let waiting = self.unnoted.iter().position(|picture| picture.facts.rtp_timestamp == note.rtp_timestamp);
        if let Some(picture) = waiting.and_then(|index| self.unnoted.remove(index)) {
            self.unnoted_since = self.unnoted_since.saturating_sub(1);
            return Some(self.join(ReceivedNote { note, arrived_at: now }, picture));
        }
        let noted = ReceivedNote { note, arrived_at: now };
        match self.notes.iter_mut().find(|other| other.note.rtp_timestamp == noted.note.rtp_timestamp) {
            // The network may have reordered the two notes of a frame.
            Some(other) if other.note.last && !noted.note.last => {}
            Some(other) => *other = noted,
            None => {
                if self.notes.len() == MAX_NOTES {
                    self.notes.pop_front();
                }
                self.notes.push_back(noted);
            }
        }
        None
    }

    fn on_picture(&mut self, now: Time, facts: PictureFacts) -> Option<MatchedPicture> {
        let known = self.unnoted.iter().any(|picture| picture.facts.rtp_timestamp == facts.rtp_timestamp);
        if known || self.frame(facts.rtp_timestamp).is_some() {
            return None;
        }
        let picture = UnmatchedPicture { facts, decoded_at: now };
        let noted = self.notes.iter().position(|noted| noted.note.rtp_timestamp == facts.rtp_timestamp);
        if let Some(noted) = noted.and_then(|index| self.notes.remove(index)) {
            return Some(self.join(noted, picture));
        }
        if self.unnoted.len() == MAX_UNNOTED {
            self.unnoted.pop_front();
        }
        self.unnoted.push_back(picture);
        self.unnoted_since = self.unnoted_since.saturating_add(1);
        None
    }

    fn join(&mut self, noted: ReceivedNote, picture: UnmatchedPicture) -> MatchedPicture {
        let ReceivedNote { note, arrived_at } = noted;
        let before = self.newest_joined;
        let missing = match before {
            Some(before) if note.frame > before => {
                (note.frame.0 - before.0 - 1).saturating_sub(std::mem::take(&mut self.unnoted_since))
            }
            Some(_) => 0,
            None => {
                self.unnoted_since = 0;
                0
            }
        };
        self.newest_joined = before.max(Some(note.frame));
        self.lost += u64::from(missing);
        if self.joined.len() == MAX_JOINED {
            self.joined.pop_front();
        }
        self.joined.push_back((note.rtp_timestamp, note.frame));
        let decoded_at = picture.decoded_at;
        let last_arrived_at = arrived_at.min(decoded_at).min(picture.facts.received_at.unwrap_or(arrived_at));
        let completed_at = picture.facts.received_at.map_or(last_arrived_at, |at| at.min(decoded_at));
        let transfer = Transfer { last_sent_at: note.sent_at, last_arrived_at, completed_at };
        MatchedPicture { note, transfer, decoded_at, missing }
    }

    /// Returns the frame of a picture, or none while no note on it has arrived.
    pub(super) fn frame(&self, rtp_timestamp: u32) -> Option<FrameId> {
        self.joined.iter().rev().find(|(other, _)| *other == rtp_timestamp).map(|(_, frame)| *frame)
    }

    /// Forgets a picture that is displayed without a note; a note that arrives later is of no use. Returns whether the picture was known.
    fn forget(&mut self, rtp_timestamp: u32) -> bool {
        let index = self.unnoted.iter().position(|picture| picture.facts.rtp_timestamp == rtp_timestamp);
        index.and_then(|index| self.unnoted.remove(index)).is_some()
    }
}

/// Pictures and sound that the application's own media stack received; see [`Receiver::rtp`](super::Receiver::rtp). Pictures arrive decoded.
/// They are identified by their RTP timestamps, because the numbers of their frames may not be known when they are drawn.
#[derive(Debug)]
pub struct ReceivedRtp<'a> {
    pub(super) pictures: &'a mut RtpPictures,
    pub(super) display: Display<'a>,
}

impl ReceivedRtp<'_> {
    pub(super) fn on_note(mut self, now: Time, note: FrameNote<RemoteTime>) {
        self.display.context.telemetry.on_frame(note.frame);
        let joined = self.pictures.on_note(now, note);
        self.on_joined(now, joined);
    }

    /// Records that the media stack handed out a picture at `now`.
    pub fn on_picture(mut self, now: Time, facts: PictureFacts) {
        let joined = self.pictures.on_picture(now, facts);
        self.on_joined(now, joined);
    }

    fn on_joined(&mut self, now: Time, joined: Option<MatchedPicture>) {
        let Some(MatchedPicture { note, transfer, decoded_at, missing }) = joined else { return };
        let frame = note.frame;
        let telemetry = &mut self.display.context.telemetry;
        for back in (1..=missing.min(MAX_NAMED)).rev() {
            let frame = FrameId(frame.0 - back);
            telemetry.emit(now, || Event::FrameLost { frame, reason: "no picture of it came".into() });
        }
        telemetry.completed += 1;
        self.display.context.uplink.on_acknowledged(note.header.input);
        // The browser does not report what it conceals.
        self.display.on_ready(now, frame, note.header, transfer, false);
        self.display.presentation.on_decoded(decoded_at, frame);
    }

    /// Records that a picture has been on the display since `now`, with the marker read from the displayed pixels.
    ///
    /// Returns none for a picture without a note and before the first clock exchange.
    pub fn on_displayed(mut self, now: Time, rtp_timestamp: u32, marker: Option<Marker>) -> Option<DisplayedFrame> {
        if let Some(frame) = self.pictures.frame(rtp_timestamp) {
            return self.display.on_displayed(now, frame, marker);
        }
        let Display { presentation, context, .. } = self.display;
        // Before the first note nothing is counted: which frames were sent is not known yet.
        if self.pictures.forget(rtp_timestamp) && context.telemetry.first_frame().is_some() {
            context.telemetry.completed += 1;
            presentation.decoded += 1;
            presentation.displayed += 1;
        }
        None
    }

    /// Takes the media stack's counts at `now`.
    pub fn on_counts(self, now: Time, counts: RtpCounts) {
        self.display.context.telemetry.on_rtp_counts(now, counts);
    }

    /// Takes the media stack's counts of sound that it has received and played by `now`.
    pub fn on_sound(self, now: Time, sound: &RtpSound) {
        self.display.sound.on_rtp_counts(now, sound, self.display.context.clock.estimate(now));
    }
}
