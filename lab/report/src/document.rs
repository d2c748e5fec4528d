//! A report as a reader meets it: questions with answers in words, and the figures that back them.

mod page;

use crate::chart::Chart;
use crate::palette::Palette;
use crate::table::Table;

/// One page.
#[derive(Clone, Debug, Default)]
pub struct Document {
    pub title: String,
    /// What was asked and found, in a paragraph.
    pub lead: String,
    /// Where the figures come from: plan, commit, seeds, machine.
    pub facts: Vec<(String, String)>,
    /// Names that take the first colours, in this order: the same in every report that lists the same names. Names of
    /// other quantities (stages, target and received) need not be listed: they take colours of their own accord.
    pub colours: Vec<String>,
    pub sections: Vec<Section>,
}

impl Document {
    pub fn new(title: impl Into<String>, lead: impl Into<String>) -> Self {
        Self { title: title.into(), lead: lead.into(), ..Self::default() }
    }

    #[must_use]
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts.push((name.into(), value.into()));
        self
    }

    /// See [`Document::colours`].
    #[must_use]
    pub fn colours<Name: Into<String>>(mut self, names: impl IntoIterator<Item = Name>) -> Self {
        self.colours.extend(names.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// The page: one file that needs no other and no network. The same document gives the same bytes.
    pub fn to_html(&self) -> String {
        page::write(self)
    }

    fn palette(&self) -> Palette {
        let mut palette = Palette::default();
        palette.add(self.colours.iter().map(String::as_str));
        let charts = self.sections.iter().flat_map(|section| &section.blocks).flat_map(Block::charts);
        for chart in charts {
            palette.add(chart.coloured().into_iter());
        }
        palette
    }
}

/// A question, its answer, and the evidence.
#[derive(Clone, Debug, Default)]
pub struct Section {
    pub title: String,
    /// In the reader's words; may be empty.
    pub question: String,
    /// In a sentence or two, with the figures that matter; may be empty.
    pub answer: String,
    pub blocks: Vec<Block>,
}

impl Section {
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    #[must_use]
    pub fn question(mut self, question: impl Into<String>) -> Self {
        self.question = question.into();
        self
    }

    #[must_use]
    pub fn answer(mut self, answer: impl Into<String>) -> Self {
        self.answer = answer.into();
        self
    }

    #[must_use]
    pub fn block(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }

    #[must_use]
    pub fn paragraph(self, text: impl Into<String>) -> Self {
        self.block(Block::Paragraph(text.into()))
    }

    #[must_use]
    pub fn note(self, text: impl Into<String>) -> Self {
        self.block(Block::Note(text.into()))
    }

    #[must_use]
    pub fn tiles(self, tiles: Vec<Tile>) -> Self {
        self.block(Block::Tiles(tiles))
    }

    #[must_use]
    pub fn table(self, table: Table) -> Self {
        self.block(Block::Table(table))
    }

    #[must_use]
    pub fn chart(self, chart: Chart) -> Self {
        self.block(Block::Chart(Box::new(chart)))
    }

    /// Side by side where there is room.
    #[must_use]
    pub fn charts(self, charts: Vec<Chart>) -> Self {
        self.block(Block::Charts(charts))
    }
}

/// A part of a [`Section`].
#[derive(Clone, Debug)]
pub enum Block {
    Paragraph(String),
    /// Limitations of the figures, set apart.
    Note(String),
    Tiles(Vec<Tile>),
    Table(Table),
    Chart(Box<Chart>),
    Charts(Vec<Chart>),
}

impl Block {
    fn charts(&self) -> &[Chart] {
        match self {
            Self::Chart(chart) => std::slice::from_ref(chart),
            Self::Charts(charts) => charts,
            _ => &[],
        }
    }
}

/// A key figure.
#[derive(Clone, Debug, Default)]
pub struct Tile {
    /// What it is.
    pub name: String,
    /// The figure as text, rounded as the reader needs it.
    pub value: String,
    pub unit: String,
    /// What to make of it: "published: 23.3", "± 0.4 over 20 runs".
    pub note: String,
}

impl Tile {
    pub fn new(name: impl Into<String>, value: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), unit: unit.into(), note: String::new() }
    }

    /// See [`Tile::note`].
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}
