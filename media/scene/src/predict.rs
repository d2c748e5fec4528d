//! Predicts the pose of the eyes when a frame reaches the display, from the newest input samples.
//!
//! Positions continue at their last velocity, orientations at their last angular velocity. Nothing is predicted across a jump or a pause,
//! or farther ahead than [`MAX_AHEAD`].

use glam::{Quat, Vec3};
use nearlight_units::{Span, Time};
use nearlight_wire::{DisplayKind, Pose, View};

/// Longest prediction. Half a head turn takes about this long; beyond it the last pose is the better guess.
pub const MAX_AHEAD: Span = Span::from_millis(100);
/// Largest speed of a head in metres per second. Guess: anything faster is a jump.
const MAX_SPEED: f32 = 6.0;
/// Largest angular velocity of a head in radians per second. Fast head turns reach about 10.
const MAX_TURN: f32 = 14.0;
/// Longest time between two samples that still measures the current velocity.
const MAX_PAUSE: Span = Span::from_millis(150);
/// Shortest time over which velocity is measured, if samples permit. Two samples a millisecond apart show only noise.
const MIN_SPAN: Span = Span::from_millis(8);
/// Samples that are kept.
const MAX_SAMPLES: usize = 3;

#[derive(Clone, Debug)]
struct Sample {
    at: Time,
    views: Vec<View>,
}

/// Predicts one viewer's views.
#[derive(Clone, Debug, Default)]
pub struct Predictor {
    samples: Vec<Sample>,
}

impl Predictor {
    /// Takes the views of an input sample. All times must be from one clock. A sample that is older than the newest is ignored.
    pub fn on_sample(&mut self, sampled_at: Time, views: &[View]) {
        if let Some(newest) = self.samples.last() {
            if sampled_at < newest.at {
                return;
            }
            if sampled_at == newest.at {
                self.samples.pop();
            } else if newest.views.len() != views.len() || sampled_at - newest.at > MAX_PAUSE {
                self.samples.clear();
            }
        }
        if self.samples.len() == MAX_SAMPLES {
            self.samples.remove(0);
        }
        self.samples.push(Sample { at: sampled_at, views: views.to_vec() });
    }

    /// Returns the views to draw for a display: a headset's views as predicted for `at`, a screen's as they were sampled.
    ///
    /// A head cannot stop at once, so extrapolating it halves the error that late reprojection has to hide. A mouse can stop at once, and a
    /// screen has no reprojection: a view that overshoots and swings back looks worse than one that is 40 ms old.
    pub fn views_for(&self, display: DisplayKind, at: Time) -> Vec<View> {
        match display {
            DisplayKind::Headset => self.predict(at),
            DisplayKind::Screen => self.samples.last().map_or_else(Vec::new, |newest| newest.views.clone()),
        }
    }

    /// Returns the views predicted for `at`, on the samples' clock. Empty before the first sample.
    pub fn predict(&self, at: Time) -> Vec<View> {
        let Some(newest) = self.samples.last() else { return Vec::new() };
        let ahead = at.saturating_since(newest.at).min(MAX_AHEAD).as_secs_f64() as f32;
        let Some(base) = self.base(newest.at) else { return newest.views.clone() };
        let span = (newest.at - base.at).as_secs_f64() as f32;
        let pairs = base.views.iter().zip(&newest.views);
        pairs.map(|(from, to)| View { pose: extrapolate(&from.pose, &to.pose, span, ahead), fov: to.fov }).collect()
    }

    /// Returns the newest sample that is old enough to measure a velocity against, and otherwise the oldest one.
    fn base(&self, newest: Time) -> Option<&Sample> {
        let earlier = &self.samples[..self.samples.len() - 1];
        earlier.iter().rev().find(|sample| newest - sample.at >= MIN_SPAN).or(earlier.first())
    }
}

/// Returns the pose `ahead` seconds after `to`, which was sampled `span` seconds after `from`.
fn extrapolate(from: &Pose, to: &Pose, span: f32, ahead: f32) -> Pose {
    if span <= 0.0 {
        return *to;
    }
    let position = Vec3::from(to.position);
    let velocity = (position - Vec3::from(from.position)) / span;
    let (first, last) = (Quat::from_array(from.orientation).normalize(), Quat::from_array(to.orientation).normalize());
    let turned = last * first.inverse();
    // Of the two quaternions of a rotation, this takes the one with the smaller angle.
    let turned = if turned.w < 0.0 { -turned } else { turned };
    let spin = turned.to_scaled_axis() / span;
    // Motion that is faster than people move is a jump, which is not extrapolated.
    let position = if velocity.length() > MAX_SPEED { position } else { position + velocity * ahead };
    let orientation = if spin.length() > MAX_TURN { last } else { Quat::from_scaled_axis(spin * ahead) * last };
    Pose { position: position.to_array(), orientation: orientation.normalize().to_array() }
}

#[cfg(test)]
mod tests {
    use nearlight_wire::Fov;

    use super::*;

    fn view(x: f32, yaw: f32) -> View {
        let orientation = Quat::from_rotation_y(yaw).to_array();
        View { pose: Pose { position: [x, 1.6, 0.0], orientation }, fov: Fov::symmetric(1.0, 1.5) }
    }

    fn fed(samples: &[(u64, f32, f32)]) -> Predictor {
        let mut predictor = Predictor::default();
        for (millis, x, yaw) in samples {
            predictor.on_sample(Time::from_millis(*millis), &[view(*x, *yaw)]);
        }
        predictor
    }

    #[test]
    fn motion_goes_on_as_it_was() {
        // Samples (milliseconds, metres, radians), the requested moment, and the pose then.
        type Case<'a> = (&'a [(u64, f32, f32)], u64, (f32, f32));
        let cases: [Case<'_>; 8] = [
            (&[(0, 0.0, 0.0)], 50, (0.0, 0.0)),
            (&[(0, 0.0, 0.0), (10, 0.01, 0.02)], 40, (0.04, 0.08)),
            (&[(0, 0.0, 0.0), (10, 0.01, -0.02)], 10, (0.01, -0.02)),
            // Never farther than a tenth of a second.
            (&[(0, 0.0, 0.0), (10, 0.01, 0.02)], 900, (0.11, 0.22)),
            // A time in the past: the newest sample.
            (&[(0, 0.0, 0.0), (10, 0.01, 0.02)], 5, (0.01, 0.02)),
            // A jump and a snap turn are not a velocity.
            (&[(0, 0.0, 0.0), (10, 3.0, 1.5)], 40, (3.0, 1.5)),
            // Nor is what lies before a pause.
            (&[(0, 0.0, 0.0), (10, 0.01, 0.02), (600, 0.5, 0.4)], 640, (0.5, 0.4)),
            // For samples close together, the one before is used.
            (&[(0, 0.0, 0.0), (10, 0.01, 0.02), (11, 0.011, 0.022)], 20, (0.02, 0.04)),
        ];
        for (samples, at, (x, yaw)) in cases {
            let predicted = fed(samples).predict(Time::from_millis(at));
            let pose = predicted[0].pose;
            let angle = Quat::from_array(pose.orientation).angle_between(Quat::from_rotation_y(yaw));
            assert!((pose.position[0] - x).abs() < 1e-4 && angle < 1e-3, "{samples:?} at {at}: {pose:?}");
        }
        assert!(Predictor::default().predict(Time::ZERO).is_empty());
    }

    #[test]
    fn a_screen_s_view_is_not_extrapolated() {
        let predictor = fed(&[(0, 0.0, 0.0), (10, 0.01, 0.02)]);
        assert_eq!(predictor.views_for(DisplayKind::Screen, Time::from_millis(40)), [view(0.01, 0.02)]);
        let ahead = predictor.views_for(DisplayKind::Headset, Time::from_millis(40));
        assert!((ahead[0].pose.position[0] - 0.04).abs() < 1e-4, "{ahead:?}");
    }

    #[test]
    fn entering_a_headset_starts_afresh() {
        let mut predictor = fed(&[(0, 0.0, 0.0), (10, 0.01, 0.0)]);
        predictor.on_sample(Time::from_millis(20), &[view(-0.03, 0.0), view(0.03, 0.0)]);
        let predicted = predictor.predict(Time::from_millis(40));
        assert_eq!(predicted, [view(-0.03, 0.0), view(0.03, 0.0)]);
    }

    #[test]
    fn old_samples_change_nothing() {
        let mut predictor = fed(&[(0, 0.0, 0.0), (10, 0.01, 0.02)]);
        let before = predictor.predict(Time::from_millis(30));
        predictor.on_sample(Time::from_millis(5), &[view(9.0, 2.0)]);
        assert_eq!(predictor.predict(Time::from_millis(30)), before);
    }
}
