//! What this process has open, by handles. A handle is a number, not an address: one that is closed or was never open is an error.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Numbers are multiples of what `malloc` aligns to, so that debuggers show them as pointers.
const STEP: usize = 16;

/// Of all handles: one of another kind is none of this kind.
static NEXT: AtomicUsize = AtomicUsize::new(STEP);

/// Open things of one kind.
pub(crate) struct Handles<T>(RwLock<BTreeMap<usize, Arc<T>>>);

impl<T> Handles<T> {
    pub(crate) const fn new() -> Self {
        Self(RwLock::new(BTreeMap::new()))
    }

    pub(crate) fn add(&self, entry: T) -> usize {
        let number = NEXT.fetch_add(STEP, Ordering::Relaxed);
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(entry));
        number
    }

    pub(crate) fn get(&self, number: usize) -> Option<Arc<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// The handle means nothing from now on; calls that are under way end as they would.
    pub(crate) fn remove(&self, number: usize) -> Option<Arc<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }
}

/// Texts that were handed out: they stay until this is dropped.
#[derive(Default)]
pub(crate) struct Texts(Mutex<Vec<CString>>);

impl Texts {
    /// A text for the program; the same one has the same address.
    pub(crate) fn keep(&self, text: &str) -> *const c_char {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        let mut texts = lock(&self.0);
        if let Some(known) = texts.iter().find(|known| **known == text) {
            return known.as_ptr();
        }
        // The bytes stay where they are when the list grows.
        let place = text.as_ptr();
        texts.push(text);
        place
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
