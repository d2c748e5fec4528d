//! Where something in a plan's file is, and how to say what is wrong with it.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;

use super::PlanError;

/// The file, with values in the places of sweeps; no line is moved by them.
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

    /// Refuses a name that stands there twice: `what` is what has it.
    pub(super) fn no_name_twice<'s>(
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

/// The value, or the default if none is written.
pub(super) fn or<T: Copy>(written: Option<&Spanned<T>>, usual: T) -> T {
    written.map_or(usual, |written| *written.as_ref())
}

/// Where a value is written, or else where what lacks it is.
pub(super) fn place<T>(written: Option<&Spanned<T>>, otherwise: usize) -> usize {
    written.map_or(otherwise, |written| written.span().start)
}
