//! Published figures, to show beside ours.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Published figures of some cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    pub source: String,
    /// Labels of the cells that the figures belong to.
    pub labels: BTreeMap<String, String>,
    pub metrics: BTreeMap<String, PublishedFigure>,
}

impl Published {
    #[must_use]
    pub fn belongs_to(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
    }
}

/// Returns the published figure of a metric in a cell with these labels.
#[must_use]
pub fn published_figure(all: &[Published], labels: &BTreeMap<String, String>, metric: &str) -> Option<PublishedFigure> {
    let mut of_cell = all.iter().filter(|published| published.belongs_to(labels));
    of_cell.find_map(|published| published.metrics.get(metric).copied())
}

/// A published figure with its stated precision: in a plan a number, or words such as "below 130".
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawFigure", into = "RawFigure")]
pub enum PublishedFigure {
    Exactly(f64),
    Below(f64),
    Above(f64),
    Between(f64, f64),
}

impl PublishedFigure {
    /// Returns the figure if it is a single number.
    #[must_use]
    pub const fn exactly(self) -> Option<f64> {
        match self {
            Self::Exactly(value) => Some(value),
            Self::Below(_) | Self::Above(_) | Self::Between(..) => None,
        }
    }
}

impl fmt::Display for PublishedFigure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(value) => write!(formatter, "{value}"),
            Self::Below(value) => write!(formatter, "below {value}"),
            Self::Above(value) => write!(formatter, "above {value}"),
            Self::Between(low, high) => write!(formatter, "{low} to {high}"),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RawFigure {
    Number(f64),
    Words(String),
}

impl TryFrom<RawFigure> for PublishedFigure {
    type Error = String;

    fn try_from(written: RawFigure) -> Result<Self, Self::Error> {
        let words = match written {
            RawFigure::Number(value) => return Ok(Self::Exactly(value)),
            RawFigure::Words(words) => words,
        };
        let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
        let figure = match words.split(' ').collect::<Vec<_>>()[..] {
            ["below", value] => number(value).map(Self::Below),
            ["above", value] => number(value).map(Self::Above),
            [low, "to", high] => number(low).zip(number(high)).map(|(low, high)| Self::Between(low, high)),
            _ => None,
        };
        figure.ok_or_else(|| {
            format!(
                "`{words}` is not a published figure: write a number, \"below 130\", \"above 31\" or \"0.2 to 0.5\""
            )
        })
    }
}

impl From<PublishedFigure> for RawFigure {
    fn from(figure: PublishedFigure) -> Self {
        figure.exactly().map_or_else(|| Self::Words(figure.to_string()), Self::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_as_they_are_written() {
        for (text, figure) in [
            ("138.6", PublishedFigure::Exactly(138.6)),
            ("\"below 130\"", PublishedFigure::Below(130.0)),
            ("\"above 31\"", PublishedFigure::Above(31.0)),
            ("\"0.191 to 0.542\"", PublishedFigure::Between(0.191, 0.542)),
        ] {
            assert_eq!(serde_json::from_str::<PublishedFigure>(text).ok(), Some(figure), "{text}");
            assert_eq!(serde_json::to_string(&figure).ok().as_deref(), Some(text));
        }
        for wrong in ["\"about 3\"", "\"below\"", "\"below inf\"", "\"1 to\"", "\"\"", "true"] {
            assert!(serde_json::from_str::<PublishedFigure>(wrong).is_err(), "{wrong}");
        }
    }
}
