//! The process that the library was loaded into, and its line to `nearlight hook`.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use nearlight_hook_wire::{Answer, Conversation, Message, SOCKET_VARIABLE, Speaker};

/// This process's pictures are nobody's: it was not started by `nearlight hook`, or it is a child that has not executed another program.
static UNHEARD: AtomicBool = AtomicBool::new(true);

/// Says that the library is there. Runs before the program does.
#[cfg(not(test))]
pub(crate) fn on_load() {
    // A failure leaves the program as it would be without the library; the command then says that it heard nothing.
    let said = std::panic::catch_unwind(|| connect()?.say(&Message::Loaded(speaker())));
    if matches!(said, Ok(Ok(()))) && crate::exports::watch_process() == 0 {
        UNHEARD.store(false, Ordering::Relaxed);
    }
}

/// Whether pictures of this process are to be streamed at all.
pub(crate) fn is_heard() -> bool {
    !UNHEARD.load(Ordering::Relaxed)
}

/// Nothing of this process is streamed any more.
pub(crate) fn mute() {
    UNHEARD.store(true, Ordering::Relaxed);
}

fn connect() -> io::Result<Conversation> {
    let path = std::env::var_os(SOCKET_VARIABLE).ok_or(io::ErrorKind::NotFound)?;
    Ok(Conversation::new(UnixStream::connect(path)?))
}

fn speaker() -> Speaker {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    Speaker { process: std::process::id(), name: name.trim().to_owned() }
}

/// Name of the process, for viewers.
pub(crate) fn name() -> String {
    speaker().name
}

/// Asks how this process's pictures are to be streamed.
pub(crate) fn ask(interface: &str, (width, height): (u16, u16)) -> io::Result<Answer> {
    let mut line = connect()?;
    line.say(&Message::Opening { speaker: speaker(), interface: interface.to_owned(), width, height })?;
    line.hear()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Tells the command, which may be gone.
pub(crate) fn tell(message: &Message) {
    let _ = connect().and_then(|mut line| line.say(message));
}

/// The calling thread, and those that it starts, take no signals: they are the program's, whose handlers may rely on its own threads.
pub(crate) fn leave_signals_to_the_program() {
    // Those that a thread causes itself end the process all the same.
    const OWN: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
    // SAFETY: the set is initialised before it is used, and the numbers are those of signals.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        for signal in OWN {
            libc::sigdelset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}
