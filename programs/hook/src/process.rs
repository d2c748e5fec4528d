//! The process into which the library was loaded, and its connection to `nearlight hook`.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use nearlight_hook_wire::{HookedProcess, Message, MessageStream, SOCKET_VARIABLE, StreamSettings};

/// Whether this process is not streamed: it was not started by `nearlight hook`, is a forked child, or streaming has failed or ended.
static NOT_STREAMED: AtomicBool = AtomicBool::new(true);

/// Reports that the library is loaded. Runs before the program's `main`.
#[cfg(not(test))]
pub(crate) fn on_load() {
    // If this fails, the program runs as without the library, and the command reports that no process has loaded it.
    let sent = std::panic::catch_unwind(|| connect()?.send(&Message::Loaded(this_process())));
    if matches!(sent, Ok(Ok(()))) && crate::exports::register_process_callbacks() == 0 {
        NOT_STREAMED.store(false, Ordering::Relaxed);
    }
}

/// Returns whether pictures of this process are streamed.
pub(crate) fn is_streamed() -> bool {
    !NOT_STREAMED.load(Ordering::Relaxed)
}

/// Ends streaming for this process.
pub(crate) fn stop_streaming() {
    NOT_STREAMED.store(true, Ordering::Relaxed);
}

fn connect() -> io::Result<MessageStream> {
    let path = std::env::var_os(SOCKET_VARIABLE).ok_or(io::ErrorKind::NotFound)?;
    Ok(MessageStream::new(UnixStream::connect(path)?))
}

fn this_process() -> HookedProcess {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    HookedProcess { process: std::process::id(), name: name.trim().to_owned() }
}

/// Returns the name of the process.
pub(crate) fn name() -> String {
    this_process().name
}

/// Requests the settings for streaming this process.
pub(crate) fn request_settings(interface: &str, (width, height): (u16, u16)) -> io::Result<StreamSettings> {
    let mut stream = connect()?;
    stream.send(&Message::Opening { speaker: this_process(), interface: interface.to_owned(), width, height })?;
    stream.receive()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Sends a message to the command. Errors are ignored, because the command may have ended.
pub(crate) fn send(message: &Message) {
    let _ = connect().and_then(|mut stream| stream.send(message));
}

/// Blocks signals in the calling thread and those that it starts, because the program's handlers may rely on running in its own threads.
pub(crate) fn block_signals() {
    // Signals that a thread causes itself must not be blocked.
    const SYNCHRONOUS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
    // SAFETY: the set is initialised before it is used, and the numbers are valid signals.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        for signal in SYNCHRONOUS {
            libc::sigdelset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}
