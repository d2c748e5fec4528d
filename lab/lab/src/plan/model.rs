//! Options of the model of frame sizes.

use nearlight_units::Span;
use serde::{Deserialize, Serialize};

/// How frame sizes vary.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelOptions {
    /// Size of a key frame relative to an ordinary one.
    pub key_ratio: f64,
    /// Standard deviation of the logarithm of frame sizes.
    pub deviation: f64,
    /// Correlation of successive frame sizes, from 0 to below 1.
    pub correlation: f64,
    /// Frames until 63 % of a change of rate has taken effect; 0 for the next frame.
    pub reaction: f64,
    /// Frames over which an excess is repaid.
    pub repay: f64,
    /// Mean time between scene changes. None without scene changes.
    pub scene_every: Option<Span>,
    /// Size of a scene's first frame relative to an ordinary one.
    pub scene_ratio: f64,
    /// Mean time between phases in which the content needs less than the rate. None without such phases.
    pub limited_every: Option<Span>,
    /// Mean length of these phases.
    pub limited_for: Span,
    /// Frame size in these phases, as a fraction of the share.
    pub limited_share: f64,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            key_ratio: 4.3,
            deviation: 0.08,
            correlation: 0.15,
            reaction: 0.0,
            repay: 2.0,
            scene_every: None,
            // Guess: without scene detection such a frame costs about as much as a key frame.
            scene_ratio: 4.0,
            limited_every: None,
            limited_for: Span::from_secs(2),
            limited_share: 0.4,
        }
    }
}

impl ModelOptions {
    /// Checks the options.
    ///
    /// # Errors
    ///
    /// A message for the plan's author.
    pub fn check(&self) -> Result<(), String> {
        let ratios = [("key_ratio", self.key_ratio), ("scene_ratio", self.scene_ratio)];
        if let Some((name, _)) = ratios.iter().find(|(_, ratio)| !(0.1..=100.0).contains(ratio)) {
            return Err(format!("`{name}` goes from 0.1 to 100"));
        }
        if !(0.0..=2.0).contains(&self.deviation) || !(0.0..1.0).contains(&self.correlation) {
            return Err("`deviation` must be from 0 to 2, `correlation` from 0 to below 1".to_owned());
        }
        if !(0.0..=1_000.0).contains(&self.reaction) || !(0.0..=1.0).contains(&self.limited_share) {
            return Err("`reaction_frames` must be from 0 to 1000, `limited_share` from 0 to 1".to_owned());
        }
        let spans = [self.scene_every, self.limited_every, Some(self.limited_for)];
        if spans.into_iter().flatten().any(|span| span < Span::from_millis(100)) {
            return Err("scenes and phases of low complexity must last at least 100ms".to_owned());
        }
        Ok(())
    }
}
