//! Statistics, charts and self-contained HTML reports.
//!
//! [`statistics`] turns samples into figures with their uncertainty. [`Document`] holds what a reader should learn, as
//! questions with answers, tables and charts; [`Document::to_html`] writes it as one file. [`samples`] writes tables of
//! samples for other programs.

#![forbid(unsafe_code)]

mod chart;
mod document;
mod palette;
pub mod samples;
mod scale;
pub mod statistics;
mod table;
mod text;

pub use chart::{
    Bar, Bars, Boxes, Chart, Corner, Ecdfs, Lanes, Lines, Matrix, Plot, Scatter, Series, Shape, Span, Stacks,
};
pub use document::{Block, Document, Section, Tile};
pub use scale::Axis;
pub use table::{Cell, Column, Polarity, Row, Table};
