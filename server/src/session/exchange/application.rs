//! Data of the client for the application besides input, and the application's outputs besides pictures and sound.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use nearlight_rooms::SeatKey;
use nearlight_scene::{ApplicationMessage, DevicesDescription, Output};
use nearlight_units::lock;
use nearlight_wire::MAX_RELIABLE_MESSAGE_BYTES;
use tokio::sync::mpsc;

use super::notifier::StudioNotifier;

/// Maximum number of bytes of client data that wait for the next frame.
const MAX_TO_APPLICATION_BYTES: usize = 16 * MAX_RELIABLE_MESSAGE_BYTES;
/// Bytes charged for each entry in addition to its length.
const TO_APPLICATION_OVERHEAD: usize = 256;

/// Data that the client sends to the application besides input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToApplication {
    /// The name under which others see the user.
    Name(String),
    /// The key of the page's seat in rooms.
    SeatKey(SeatKey),
    Message(ApplicationMessage),
    /// A long text of the user's clipboard has begun to arrive.
    ClipboardAnnounced,
    Clipboard(String),
    Devices(DevicesDescription),
}

impl ToApplication {
    const fn bytes(&self) -> usize {
        TO_APPLICATION_OVERHEAD
            + match self {
                Self::Message(message) => message.data.len(),
                Self::Name(text) => text.len(),
                // At most one text waits, which its own limit bounds.
                Self::Clipboard(_) | Self::ClipboardAnnounced | Self::Devices(_) | Self::SeatKey(_) => 0,
            }
    }
}

/// Data of the client for the application, and its outputs for the client.
#[derive(Debug)]
pub(crate) struct ApplicationExchange {
    /// Client data of at most [`MAX_TO_APPLICATION_BYTES`], and a text of the clipboard.
    waiting: Mutex<Vec<ToApplication>>,
    /// Bounded by the session.
    outputs: mpsc::Sender<Output>,
    /// Whether there was no room for an output that must not be lost.
    overrun: AtomicBool,
    notifier: Arc<StudioNotifier>,
}

impl ApplicationExchange {
    pub(super) const fn new(notifier: Arc<StudioNotifier>, outputs: mpsc::Sender<Output>) -> Self {
        Self { waiting: Mutex::new(Vec::new()), outputs, overrun: AtomicBool::new(false), notifier }
    }

    /// Queues data of the client. Returns false if too much is already queued for the application.
    pub(crate) fn on_client_data(&self, data: ToApplication) -> bool {
        let mut waiting = lock(&self.waiting);
        let queued: usize = waiting.iter().map(ToApplication::bytes).sum();
        let fits = queued + data.bytes() <= MAX_TO_APPLICATION_BYTES;
        let is_first = waiting.is_empty();
        if fits && matches!(data, ToApplication::Clipboard(_)) {
            // Only the newest text is of use.
            waiting.retain(|earlier| !matches!(earlier, ToApplication::Clipboard(_)));
        }
        if fits {
            waiting.push(data);
        }
        drop(waiting);
        if fits && is_first {
            self.notifier.notify();
        }
        fits
    }

    /// Returns the client's data since the last call.
    pub(crate) fn take_client_data(&self) -> Vec<ToApplication> {
        std::mem::take(&mut *lock(&self.waiting))
    }

    /// Passes an output of the application to the session. If the session is too slow, output that newer output replaces is dropped, and
    /// output that must not be lost ends the session.
    pub(crate) fn on_output(&self, output: Output) {
        let reliable = matches!(&output, Output::Message(message) if message.reliable);
        if self.outputs.try_send(output).is_err() {
            self.overrun.fetch_or(reliable, Ordering::Relaxed);
        }
    }

    /// Returns whether the session had no room for a message that must not be lost.
    pub(crate) fn is_overrun(&self) -> bool {
        self.overrun.load(Ordering::Relaxed)
    }
}
