//! Signals that end a command, or have a server read its certificate again.

use std::io::IsTerminal as _;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::log;

/// Has the certificate read again at each SIGHUP, as services expect. At a terminal, the signal says that the terminal was closed, and ends the
/// server.
pub(crate) fn reload_on_hangup(certificate_check: Arc<Notify>) -> anyhow::Result<()> {
    if std::io::stdin().is_terminal() || std::io::stderr().is_terminal() {
        return Ok(());
    }
    let mut hangups = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tracing::info!("SIGHUP: the certificate is read again");
            certificate_check.notify_one();
        }
    });
    Ok(())
}

/// Completes with the first termination signal. From the call on, not only from the first poll, such a signal no longer ends the process by
/// itself.
pub(crate) fn termination() -> anyhow::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Completes with [`termination`], and says what happens then.
pub(crate) fn stop_signal(quiet: bool) -> anyhow::Result<impl Future<Output = ()>> {
    let termination = termination()?;
    Ok(async move {
        termination.await;
        if !quiet {
            log::notice("nearlight: disconnecting all clients");
        }
    })
}
