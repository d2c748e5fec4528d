//! Errors as codes, and the sentence about the last one.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[cfg(feature = "host")]
use nearlight_embed::HostError;

use crate::types::nl_status;

/// Why a call was in vain.
#[derive(Debug)]
pub(crate) struct Fault {
    status: nl_status,
    words: String,
}

impl Fault {
    pub(crate) fn new(status: nl_status, words: impl Into<String>) -> Self {
        Self { status, words: words.into() }
    }

    pub(crate) fn argument(words: impl Into<String>) -> Self {
        Self::new(nl_status::Argument, words)
    }

    /// Nothing to hand out.
    pub(crate) fn nothing() -> Self {
        Self::new(nl_status::Nothing, "there is nothing to hand out")
    }
}

#[cfg(feature = "host")]
impl From<HostError> for Fault {
    fn from(error: HostError) -> Self {
        let status = match &error {
            HostError::Options(_) => nl_status::Options,
            HostError::Server(_) | HostError::Failed(_) => nl_status::Failed,
            HostError::System(_) => nl_status::System,
            HostError::Picture(_) | HostError::Views(_) => nl_status::Picture,
            HostError::NoViewer(_) => nl_status::NoViewer,
            HostError::Sound(_)
            | HostError::NoSound
            | HostError::TooLong { .. }
            | HostError::Output(_)
            | HostError::CloseFromCallback => nl_status::Argument,
            HostError::Full => nl_status::Full,
            HostError::Closed => nl_status::Closed,
        };
        Self::new(status, error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The sentence about this thread's last failure.
pub(crate) fn last_words() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

fn keep(fault: Fault) -> nl_status {
    let Fault { status, words } = fault;
    if status != nl_status::Nothing {
        let words = CString::new(words.replace('\0', " ")).unwrap_or_default();
        // A thread that ends has nobody left to ask.
        let _ = LAST.try_with(|last| last.replace(words));
    }
    status
}

/// Runs a call's work, and lets no panic out.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Fault>) -> nl_status {
    guard_or(|| work().map(|()| nl_status::Ok), |status| status)
}

/// The same for a call that answers something else.
pub(crate) fn guard_or<T>(work: impl FnOnce() -> Result<T, Fault>, failed: impl FnOnce(nl_status) -> T) -> T {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(fault)) => failed(keep(fault)),
        Err(panic) => {
            let what = panic_words(panic.as_ref());
            failed(keep(Fault::new(
                nl_status::Panic,
                format!("internal error in libnearlight: {what}; close the server or viewer and report this"),
            )))
        }
    }
}

fn panic_words(panic: &(dyn Any + Send)) -> &str {
    let words = panic.downcast_ref::<&str>().copied();
    words.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked")
}
