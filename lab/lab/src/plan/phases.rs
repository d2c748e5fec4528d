//! The relative phases of several sessions' frames.

use nearlight_units::Span;
use serde::Deserialize;

/// When sessions capture their frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phases {
    /// Random phases.
    #[default]
    Random,
    /// All at the same time.
    Aligned,
    /// Phases spread evenly over the frame interval.
    Staggered,
}

impl Phases {
    /// Returns the time from its start until session `index` of `count` captures its first frame. `own` and `first` are shares of the interval drawn
    /// for it and for the first session.
    pub(crate) fn of_session(self, interval: Span, (index, count): (usize, usize), own: f64, first: f64) -> Span {
        let share = match self {
            Self::Random => own,
            Self::Aligned => first,
            Self::Staggered => (first + index as f64 / count.max(1) as f64).fract(),
        };
        interval.mul_f64(share)
    }
}

impl From<Phases> for nearlight_wifi::Phases {
    fn from(phases: Phases) -> Self {
        match phases {
            Phases::Random => Self::Random,
            Phases::Aligned => Self::Aligned,
            Phases::Staggered => Self::Staggered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staggered_sessions_share_the_interval_evenly() {
        let interval = Span::from_millis(16);
        let all = |phases: Phases| [0, 1, 2, 3].map(|index| phases.of_session(interval, (index, 4), 0.125, 0.5));
        assert_eq!(all(Phases::Random), [Span::from_millis(2); 4]);
        assert_eq!(all(Phases::Aligned), [Span::from_millis(8); 4]);
        assert_eq!(all(Phases::Staggered), [8, 12, 0, 4].map(Span::from_millis));
    }
}
