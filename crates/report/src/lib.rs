//! Where numbers become statistics, charts and one self-contained HTML page.

#![forbid(unsafe_code)]

pub mod statistics;
