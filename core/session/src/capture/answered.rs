//! Tracks which of the session's targets an encoder has already met. The encoder runs ahead of the session, which repeats its request
//! until it sees the frame.

use nearlight_units::{Bitrate, FrameId};
use nearlight_wire::Reference;

use crate::EncoderTarget;

/// A request to the encoder for its next picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeRequest {
    pub rate: Bitrate,
    pub reference: Reference,
    /// Newest frame that the receiver is known to have decoded.
    pub acknowledged: Option<FrameId>,
}

/// The frames that answered the latest requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnsweredTargets {
    key: Option<FrameId>,
    recovery: Option<FrameId>,
}

impl AnsweredTargets {
    /// Returns the part of `target` that has not been met yet.
    #[must_use]
    pub fn request(&self, target: EncoderTarget) -> EncodeRequest {
        let EncoderTarget { rate, key, recover, acknowledged, next } = target;
        let is_open = |answer: Option<FrameId>| answer.is_none_or(|frame| frame < next);
        let reference = if key && is_open(self.key) {
            Reference::Nothing
        } else if recover && is_open(self.recovery) {
            Reference::Acknowledged
        } else {
            Reference::Newest
        };
        EncodeRequest { rate, reference, acknowledged }
    }

    /// Records a frame that was coded as requested, or as a key frame.
    pub fn on_coded(&mut self, frame: FrameId, key: bool, requested: Reference) {
        if key {
            self.key = Some(frame);
        }
        if key || requested == Reference::Acknowledged {
            self.recovery = Some(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reference::{Acknowledged, Newest, Nothing};
    use super::*;

    #[test]
    fn a_request_is_answered_once_and_a_new_one_again() {
        let mut answered = AnsweredTargets::default();
        let cases = [
            (0, (true, false, 0), Nothing),
            (1, (true, false, 0), Newest),
            (2, (false, true, 1), Acknowledged),
            (3, (false, true, 2), Newest),
            (4, (true, true, 2), Nothing),
            (5, (false, true, 4), Newest),
            (6, (false, true, 5), Acknowledged),
            (7, (true, false, 6), Nothing),
        ];
        for (frame, (key, recover, next), wanted) in cases {
            let rate = Bitrate::from_mbps(1);
            let target = EncoderTarget { rate, key, recover, acknowledged: Some(FrameId(0)), next: FrameId(next) };
            let request = answered.request(target);
            assert_eq!(
                request,
                EncodeRequest { rate, reference: wanted, acknowledged: Some(FrameId(0)) },
                "frame {frame}"
            );
            answered.on_coded(FrameId(frame), wanted == Nothing, wanted);
        }
    }
}
