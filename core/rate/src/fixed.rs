//! A constant rate: the baseline without any reaction.

use nearlight_units::Time;

use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, RateController, SentPacket};

/// Ratio of the pacing rate to the target, as in [`crate::gcc`], so that a comparison differs in the control law only.
const PACING_FACTOR: f64 = 2.5;

/// Always sends at the start rate.
#[derive(Debug)]
pub struct Fixed {
    bounds: Bounds,
}

impl Fixed {
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds: bounds.in_order() }
    }
}

impl RateController for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn on_packet_sent(&mut self, _packet: &SentPacket) {}

    fn on_feedback(&mut self, _now: Time, _feedback: &Feedback<'_>) {}

    fn on_timeout(&mut self, _now: Time) {}

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        None
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.bounds = bounds.in_order();
    }

    fn decision(&self) -> Decision {
        let decision = Decision::of(&self.bounds, &[(Limit::Fixed, self.bounds.start)], PACING_FACTOR);
        Decision { binding: Limit::Fixed, ..decision }
    }

    fn held(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{Bitrate, Span};

    use super::*;

    #[test]
    fn nothing_but_the_bounds_moves_it() {
        let mbps = Bitrate::from_mbps;
        let mut fixed = Fixed::new(Bounds { minimum: mbps(1), start: mbps(30), maximum: mbps(20) });
        assert_eq!(fixed.decision().target, mbps(20), "the start is kept within the bounds");
        fixed.on_feedback(Time::ZERO, &Feedback { packets: &[], round_trip: Some(Span::from_secs(3)) });
        assert_eq!((fixed.decision().target, fixed.decision().pacing), (mbps(20), mbps(50)));
        fixed.set_bounds(Time::ZERO, Bounds { minimum: mbps(1), start: mbps(5), maximum: mbps(20) });
        assert_eq!((fixed.decision().target, fixed.decision().binding), (mbps(5), Limit::Fixed));
    }
}
