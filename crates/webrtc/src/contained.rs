//! A barrier around code that is not ours and reads what strangers send.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Something that is gone once it has panicked: nothing looks again at what a panic has left half done.
pub(crate) struct Contained<T>(Option<T>);

impl<T> Contained<T> {
    pub(crate) const fn new(inner: T) -> Self {
        Self(Some(inner))
    }

    /// None where it panics, or did before.
    pub(crate) fn run<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let inner = self.0.as_mut()?;
        let done = catch_unwind(AssertUnwindSafe(|| work(inner)));
        if done.is_err() {
            let gone = self.0.take();
            // What it holds may be in no state to be given up either.
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
        let mut contained = Contained::new(vec![1]);
        assert_eq!(contained.run(|numbers| numbers[0]), Some(1));
        assert_eq!(contained.run(|numbers| numbers[1]), None);
        assert!(contained.is_gone());
        assert_eq!(contained.run(|numbers| numbers[0]), None);
    }
}
