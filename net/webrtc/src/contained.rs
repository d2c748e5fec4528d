//! A barrier around third-party code that parses untrusted input.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A value that is discarded once it has panicked, so that a half-updated state is never used again.
pub(crate) struct PanicGuard<T>(Option<T>);

impl<T> PanicGuard<T> {
    pub(crate) const fn new(inner: T) -> Self {
        Self(Some(inner))
    }

    /// Runs `work`. Returns None if it panics, or has panicked before.
    pub(crate) fn run<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let inner = self.0.as_mut()?;
        let done = catch_unwind(AssertUnwindSafe(|| work(inner)));
        if done.is_err() {
            let gone = self.0.take();
            // Its state may not be fit for dropping either.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(gone)));
        }
        done.ok()
    }

    pub(crate) const fn is_gone(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_panics_is_gone_and_whoever_asked_goes_on() {
        let mut contained = PanicGuard::new(vec![1]);
        assert_eq!(contained.run(|numbers| numbers[0]), Some(1));
        assert_eq!(contained.run(|numbers| numbers[1]), None);
        assert!(contained.is_gone());
        assert_eq!(contained.run(|numbers| numbers[0]), None);
    }
}
