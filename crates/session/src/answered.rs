//! Which of the session's targets an encoder has already met: the encoder runs ahead of the session, which repeats its request until it
//! sees the frame.

use nearlight_units::FrameId;

use crate::EncoderTarget;

/// The frames that answered the latest requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnsweredTargets {
    key: Option<FrameId>,
    recovery: Option<FrameId>,
}

impl AnsweredTargets {
    /// The part of `target` that has not been met yet.
    #[must_use]
    pub fn open(&self, target: EncoderTarget) -> EncoderTarget {
        let is_open = |answer: Option<FrameId>| answer.is_none_or(|frame| frame < target.next);
        EncoderTarget {
            key: target.key && is_open(self.key),
            recover: target.recover && is_open(self.recovery),
            ..target
        }
    }

    /// A frame was coded: a key frame, one that is predicted from an acknowledged one, or neither.
    pub fn on_coded(&mut self, frame: FrameId, key: bool, recovers: bool) {
        if key {
            self.key = Some(frame);
        }
        if key || recovers {
            self.recovery = Some(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::Bitrate;

    use super::*;

    #[test]
    fn a_request_is_answered_once_and_a_new_one_again() {
        let mut answered = AnsweredTargets::default();
        let cases = [
            (0, (true, false, 0), (true, false)),
            (1, (true, false, 0), (false, false)),
            (2, (false, true, 1), (false, true)),
            (3, (false, true, 2), (false, false)),
            (4, (true, true, 2), (true, false)),
            (5, (false, true, 4), (false, false)),
            (6, (false, true, 5), (false, true)),
            (7, (true, false, 6), (true, false)),
        ];
        for (frame, (key, recover, next), wanted) in cases {
            let target =
                EncoderTarget { rate: Bitrate::from_mbps(1), key, recover, acknowledged: None, next: FrameId(next) };
            let open = answered.open(target);
            assert_eq!((open.key, open.recover), wanted, "frame {frame}");
            answered.on_coded(FrameId(frame), open.key, open.recover);
        }
    }
}
