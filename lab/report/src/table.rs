//! Tables of figures with their uncertainty.

/// Rows of figures under named columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What the rows are, and what to look at.
    pub caption: String,
    /// Over the row names: "Controller".
    pub corner: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

/// A column of a [`Table`].
#[derive(Clone, Debug, Default)]
pub struct Column {
    pub name: String,
    pub unit: String,
    pub polarity: Polarity,
    /// Even its best value is not marked: what is better in it may be worse on the whole.
    pub unmarked: bool,
    /// Figures from a publication, to compare ours with: set apart, never marked as best.
    pub published: bool,
    /// Places after the point; otherwise as the largest value asks for.
    pub decimals: Option<usize>,
}

impl Column {
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { name: name.into(), unit: unit.into(), ..Self::default() }
    }

    #[must_use]
    pub fn polarity(mut self, polarity: Polarity) -> Self {
        self.polarity = polarity;
        self
    }

    /// See [`Column::unmarked`].
    #[must_use]
    pub fn unmarked(mut self) -> Self {
        self.unmarked = true;
        self
    }

    #[must_use]
    pub fn published(mut self) -> Self {
        self.published = true;
        self
    }

    #[must_use]
    pub fn decimals(mut self, places: usize) -> Self {
        self.decimals = Some(places);
        self
    }
}

/// Which values of a column are better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polarity {
    Higher,
    Lower,
    /// No value is marked.
    #[default]
    Neither,
}

/// A row of a [`Table`].
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub name: String,
    /// One per column; missing ones stay empty.
    pub cells: Vec<Cell>,
}

impl Row {
    pub fn new(name: impl Into<String>, cells: Vec<Cell>) -> Self {
        Self { name: name.into(), cells }
    }
}

/// A cell of a [`Table`].
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    #[default]
    Empty,
    Text(String),
    Figure {
        value: f64,
        /// Half the width of the interval.
        ci95: Option<f64>,
        /// Letters of Tukey's test; empty without a test.
        letters: String,
    },
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub fn figure(value: f64) -> Self {
        Self::Figure { value, ci95: None, letters: String::new() }
    }

    /// Nothing where there is no figure.
    pub fn figure_if(value: Option<f64>) -> Self {
        value.map_or(Self::Empty, Self::figure)
    }

    pub fn with_interval(value: f64, ci95: Option<f64>) -> Self {
        Self::Figure { value, ci95, letters: String::new() }
    }

    pub fn with_letters(value: f64, ci95: Option<f64>, letters: impl Into<String>) -> Self {
        Self::Figure { value, ci95, letters: letters.into() }
    }
}

impl From<&crate::statistics::Summary> for Cell {
    fn from(summary: &crate::statistics::Summary) -> Self {
        Self::with_interval(summary.mean, summary.ci95)
    }
}

impl Table {
    pub(crate) fn values(&self, column: usize) -> impl Iterator<Item = f64> + '_ {
        self.rows.iter().filter_map(move |row| match row.cells.get(column) {
            Some(Cell::Figure { value, .. }) if value.is_finite() => Some(*value),
            _ => None,
        })
    }

    /// The value that is marked, where a column has a better end and more than one value.
    pub(crate) fn best(&self, column: usize) -> Option<f64> {
        let of = self.columns.get(column).filter(|of| !of.published && !of.unmarked)?;
        let (low, high) = self
            .values(column)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        match of.polarity {
            Polarity::Higher if low < high => Some(high),
            Polarity::Lower if low < high => Some(low),
            _ => None,
        }
    }

    pub(crate) fn has_letters(&self) -> bool {
        let lettered = |cell: &Cell| matches!(cell, Cell::Figure { letters, .. } if !letters.is_empty());
        self.rows.iter().any(|row| row.cells.iter().any(lettered))
    }
}
