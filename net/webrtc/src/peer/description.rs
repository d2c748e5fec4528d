//! Offers and answers: the agreement of the two descriptions becomes tracks, streams and credentials.

use std::collections::VecDeque;

use nearlight_units::Time;
use rtc::peer_connection::RTCPeerConnection;
use rtc::peer_connection::sdp::RTCSessionDescription;
use rtc::rtp_transceiver::rtp_sender::RtpCodecKind;
use rtc::shared::error::Error;

use super::{Peer, PeerError, Video};
use crate::feedback::StreamReports;
use crate::negotiate;
use crate::stream::Stream;
use crate::stun::Verifier;
use crate::{IceCredentials, Offer};

impl Peer {
    /// Answers an offer with the codecs for which the peer was created.
    pub fn on_offer(&mut self, now: Time, offer: &Offer) -> Result<String, PeerError> {
        let at = self.instant(now);
        let wanted = [(RtpCodecKind::Video, !offer.video().is_empty()), (RtpCodecKind::Audio, offer.wants_sound())];
        let sdp = self.negotiate(
            wanted,
            |connection| connection.set_remote_description(at, RTCSessionDescription::offer(offer.sdp().to_owned())?),
            |connection| {
                let answer = connection.create_answer(None)?;
                let sdp = answer.sdp.clone();
                connection.set_local_description(at, answer)?;
                Ok(sdp)
            },
        )?;
        self.settle()?;
        if Offer::name_in(&sdp).is_none() {
            return Err(PeerError::NothingAccepted);
        }
        if offer.reports_per_stream() {
            self.stream_reports = Some(StreamReports::default());
            return Ok(offer.with_consent(&sdp));
        }
        Ok(sdp)
    }

    /// Makes an offer of pictures, and of sound if `sound`, on an existing connection or one about to exist.
    pub fn offer(&mut self, now: Time, sound: bool) -> Result<String, PeerError> {
        let at = self.instant(now);
        let wanted = [(RtpCodecKind::Video, true), (RtpCodecKind::Audio, sound)];
        self.negotiate(
            wanted,
            |_| Ok(()),
            |connection| {
                let offer = connection.create_offer(None)?;
                let sdp = offer.sdp.clone();
                connection.set_local_description(at, offer)?;
                Ok(sdp)
            },
        )
    }

    /// Handles the client's answer to [`Peer::offer`]. It is parsed like an offer: the same rules apply.
    pub fn on_answer(&mut self, now: Time, answer: &Offer) -> Result<(), PeerError> {
        let at = self.instant(now);
        let taken = self.connection.run(|connection| {
            connection.set_remote_description(at, RTCSessionDescription::answer(answer.sdp().to_owned())?)
        });
        taken.ok_or(PeerError::Failed)??;
        self.settle()
    }

    /// Reads the client's description, adds the requested tracks and writes the peer's own.
    fn negotiate(
        &mut self,
        wanted: [(RtpCodecKind, bool); 2],
        read: impl FnOnce(&mut RTCPeerConnection) -> Result<(), Error>,
        write: impl FnOnce(&mut RTCPeerConnection) -> Result<String, Error>,
    ) -> Result<String, PeerError> {
        let (tracks, sources) = (&mut self.tracks, &self.sources);
        let written = self.connection.run(|connection| {
            read(connection)?;
            for (track, (kind, wanted)) in tracks.iter_mut().zip(wanted) {
                if wanted && track.is_none() {
                    *track = Some(negotiate::add_track(connection, kind, sources)?);
                }
            }
            write(connection)
        });
        let sdp = written.ok_or(PeerError::Failed)??;
        self.credentials = IceCredentials::in_description(&sdp);
        self.verifier = self.credentials.as_ref().and_then(Verifier::new);
        Ok(sdp)
    }

    fn settle(&mut self) -> Result<(), PeerError> {
        let (tracks, sources) = (self.tracks, &self.sources);
        let negotiated = self
            .connection
            .run(|connection| tracks.map(|track| track.and_then(|id| negotiate::negotiated(connection, id, sources))));
        let [video, sound] = negotiated.ok_or(PeerError::Failed)?;
        if let Some((Some(codec), config)) = video
            && self.video.as_ref().is_none_or(|video| *video.stream.config() != config)
        {
            if config.repair.is_none() {
                self.sender.rtp().set_unprotected();
            }
            let stream = Stream::new(config, self.beginnings[0]);
            self.video = Some(Video { stream, codec, picture: 0, notes: VecDeque::new() });
        }
        if let Some((None, config)) = sound
            && self.sound.as_ref().is_none_or(|sound| *sound.config() != config)
        {
            self.sound = Some(Stream::new(config, self.beginnings[1]));
        }
        Ok(())
    }
}
