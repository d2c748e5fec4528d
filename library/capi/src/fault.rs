//! Errors as status codes, and the message of each thread's last one.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[cfg(feature = "host")]
use nearlight_embed::HostError;

use crate::types::nl_status;

/// The error of a call: its status code and its message.
#[derive(Debug)]
pub(crate) struct Fault {
    status: nl_status,
    message: String,
}

impl Fault {
    /// Creates an error.
    pub(crate) fn new(status: nl_status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// Creates an error of an invalid argument.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(nl_status::Argument, message)
    }

    /// Creates the status of a call that has nothing to return. It leaves the last error's message unchanged.
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
    static LAST_MESSAGE: RefCell<CString> = RefCell::default();
}

/// Returns the message of this thread's last error, which ends with a zero byte.
pub(crate) fn last_message() -> *const c_char {
    LAST_MESSAGE.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Stores the error's message for this thread. Returns its status code.
fn store(fault: Fault) -> nl_status {
    let Fault { status, message } = fault;
    if status != nl_status::Nothing {
        let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
        // This fails only while the thread ends, when nothing can ask for the message any more.
        let _ = LAST_MESSAGE.try_with(|last| last.replace(message));
    }
    status
}

/// Runs the body of a call and converts errors and panics into a status code.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Fault>) -> nl_status {
    guard_or(|| work().map(|()| nl_status::Ok), |status| status)
}

/// Runs the body of a call that returns a value, and converts errors and panics into a value by `failed`.
pub(crate) fn guard_or<T>(work: impl FnOnce() -> Result<T, Fault>, failed: impl FnOnce(nl_status) -> T) -> T {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(fault)) => failed(store(fault)),
        Err(panic) => {
            let what = panic_message(panic.as_ref());
            failed(store(Fault::new(
                nl_status::Panic,
                format!("internal error in libnearlight: {what}; close the server or viewer and report this"),
            )))
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let message = panic.downcast_ref::<&str>().copied();
    message.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked")
}
