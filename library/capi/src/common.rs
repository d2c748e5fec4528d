//! Functions for both the sending and the receiving end.

use std::ffi::c_char;

use crate::fault::last_message;

/// The library's version, such as "0.1.0". While the first number is 0, another second number means another interface; after that
/// another first one does.
#[unsafe(no_mangle)]
pub extern "C" fn nl_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// A sentence about this thread's last call that failed: what happened, what it means and what to do. Empty before the first. Valid
/// until this thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn nl_error_message() -> *const c_char {
    last_message()
}
