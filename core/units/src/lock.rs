//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a value that is valid between any two changes of it, so a thread that panicked while it held the lock has broken nothing.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
