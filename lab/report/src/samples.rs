//! Tables of samples for other programs: CSV and Parquet.

mod columnar;

use std::io::{self, Write};

pub use columnar::write_parquet;

/// Columns of equal length: one row per frame, packet or run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    columns: Vec<(String, Values)>,
    rows: usize,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Numbers(Vec<f64>),
    Integers(Vec<i64>),
    Words(Vec<String>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Integers(values) => values.len(),
            Self::Words(values) => values.len(),
        }
    }
}

/// Why a column was refused: its maker is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    #[error(
        "column {name} has {found} values where the table has {expected} rows; give every column one value per row"
    )]
    Length { name: String, found: usize, expected: usize },
    #[error("there are two columns {name}; readers tell columns apart by their names, so give each its own")]
    Twice { name: String },
}

impl Samples {
    /// Adds a column at the right. The first one decides the number of rows.
    pub fn column(&mut self, name: impl Into<String>, values: Values) -> Result<(), ColumnError> {
        let name = name.into();
        if self.columns.iter().any(|column| column.0 == name) {
            return Err(ColumnError::Twice { name });
        }
        if !self.columns.is_empty() && values.len() != self.rows {
            return Err(ColumnError::Length { name, found: values.len(), expected: self.rows });
        }
        self.rows = values.len();
        self.columns.push((name, values));
        Ok(())
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// CSV after RFC 4180 with a header line, `\n` at line ends, and numbers in the shortest form that reads back as the
    /// same number. A number that is not finite is an empty field.
    pub fn write_csv(&self, mut out: impl Write) -> io::Result<()> {
        let mut line = String::new();
        for (index, (name, _)) in self.columns.iter().enumerate() {
            if index > 0 {
                line.push(',');
            }
            push_field(&mut line, name);
        }
        line.push('\n');
        out.write_all(line.as_bytes())?;
        for row in 0..self.rows {
            line.clear();
            for (index, (_, values)) in self.columns.iter().enumerate() {
                if index > 0 {
                    line.push(',');
                }
                match values {
                    Values::Numbers(values) if values[row].is_finite() => line.push_str(&values[row].to_string()),
                    Values::Numbers(_) => {}
                    Values::Integers(values) => line.push_str(&values[row].to_string()),
                    Values::Words(values) => push_field(&mut line, &values[row]),
                }
            }
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

fn push_field(line: &mut String, text: &str) {
    if !text.contains([',', '"', '\n', '\r']) {
        return line.push_str(text);
    }
    line.push('"');
    for character in text.chars() {
        if character == '"' {
            line.push('"');
        }
        line.push(character);
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let mut samples = Samples::default();
        samples.column("name", Values::Words(vec!["a,b".into(), "say \"hi\"".into()])).unwrap();
        samples.column("latency_ms", Values::Numbers(vec![0.1 + 0.2, f64::NAN])).unwrap();
        samples.column("frame", Values::Integers(vec![-1, i64::MAX])).unwrap();
        let mut out = Vec::new();
        samples.write_csv(&mut out).unwrap();
        let expected =
            "name,latency_ms,frame\n\"a,b\",0.30000000000000004,-1\n\"say \"\"hi\"\"\",,9223372036854775807\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn columns_that_do_not_fit_are_refused() {
        let mut samples = Samples::default();
        samples.column("a", Values::Integers(vec![1, 2])).unwrap();
        let short = samples.column("b", Values::Integers(vec![1]));
        assert_eq!(short, Err(ColumnError::Length { name: "b".into(), found: 1, expected: 2 }));
        assert_eq!(samples.column("a", Values::Integers(vec![])), Err(ColumnError::Twice { name: "a".into() }));
        assert_eq!(samples.rows(), 2);
    }
}
