//! Handles of the objects that this process has open. A handle is a number, not an address, so that the use of one that is closed or was
//! never open is an error instead of undefined behaviour.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nearlight_units::lock;

/// Difference between two handles: the alignment of `malloc`, so that debuggers accept handles as pointers.
const HANDLE_STEP: usize = 16;

/// The next handle of any kind. All kinds share it, so that a handle of another kind is not found.
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(HANDLE_STEP);

/// The open objects of one kind, by handle.
pub(crate) struct Handles<T>(RwLock<BTreeMap<usize, Arc<T>>>);

impl<T> Handles<T> {
    pub(crate) const fn new() -> Self {
        Self(RwLock::new(BTreeMap::new()))
    }

    pub(crate) fn add(&self, entry: T) -> usize {
        let number = NEXT_HANDLE.fetch_add(HANDLE_STEP, Ordering::Relaxed);
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(entry));
        number
    }

    pub(crate) fn get(&self, number: usize) -> Option<Arc<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// Makes the handle invalid. Calls in progress finish normally.
    pub(crate) fn remove(&self, number: usize) -> Option<Arc<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }
}

/// Texts that the program has pointers to. They live as long as this list.
#[derive(Default)]
pub(crate) struct Texts(Mutex<Vec<CString>>);

impl Texts {
    /// Stores a text and returns its address. Equal texts have the same address.
    pub(crate) fn keep(&self, text: &str) -> *const c_char {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        let mut texts = lock(&self.0);
        if let Some(known) = texts.iter().find(|known| **known == text) {
            return known.as_ptr();
        }
        // The bytes stay where they are when the list grows.
        let address = text.as_ptr();
        texts.push(text);
        address
    }
}
