//! Positions in a plan's file, and errors that name them.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;

use super::PlanError;

/// The text of a plan file, with the values of sweeps filled in. Line numbers are those of the file.
pub(super) struct Text<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
}

impl Text<'_> {
    fn line(&self, at: usize) -> usize {
        self.text[..at.min(self.text.len())].matches('\n').count() + 1
    }

    pub(super) fn error(&self, at: usize, what: impl Into<String>) -> PlanError {
        PlanError::Value { file: self.file.to_owned(), line: self.line(at), what: what.into() }
    }

    /// Rejects duplicate names; `what` is what they name.
    pub(super) fn reject_duplicates<'s>(
        &self,
        what: &str,
        names: impl IntoIterator<Item = &'s Spanned<String>>,
    ) -> Result<(), PlanError> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for name in names {
            if let Some(before) = seen.insert(name.as_ref(), name.span().start) {
                let (name, at, before) = (name.as_ref(), name.span().start, self.line(before));
                let what = format!(
                    "{what} `{name}` is there already, in line {before}; leave one out, or give it another name"
                );
                return Err(self.error(at, what));
            }
        }
        Ok(())
    }
}

/// Returns the value, or the default if it is missing.
pub(super) fn or<T: Copy>(written: Option<&Spanned<T>>, usual: T) -> T {
    written.map_or(usual, |written| *written.as_ref())
}

/// Returns the position of a value, or `otherwise` if it is missing.
pub(super) fn place<T>(written: Option<&Spanned<T>>, otherwise: usize) -> usize {
    written.map_or(otherwise, |written| written.span().start)
}
