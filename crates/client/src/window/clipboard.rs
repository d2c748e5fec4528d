//! The user's clipboard, on a thread of its own: another program that owns the text may take its time to hand it over.

use std::sync::mpsc::{Receiver, Sender, channel};

use arboard::Clipboard;
use nearlight_viewer::player::UserInput;
use nearlight_wire::MAX_CLIPBOARD_BYTES;
use tokio::sync::mpsc;

use crate::ClientError;

enum Order {
    Read,
    Write(String),
}

/// Reads and writes the clipboard until the last clone is dropped.
#[derive(Clone)]
pub struct ClipboardThread(Sender<Order>);

impl ClipboardThread {
    /// The text read is sent to `inputs`.
    pub fn start(inputs: mpsc::Sender<UserInput>) -> Result<Self, ClientError> {
        let (orders, received) = channel();
        std::thread::Builder::new()
            .name("clipboard".into())
            .spawn(move || carry_out(&received, &inputs))
            .map_err(|source| ClientError::system("thread for the clipboard", source))?;
        Ok(Self(orders))
    }

    // A thread that has ended has reported why.

    /// The user pastes.
    pub fn read(&self) {
        let _ = self.0.send(Order::Read);
    }

    /// The application has a text for the user.
    pub fn write(&self, text: String) {
        let _ = self.0.send(Order::Write(text));
    }
}

/// The system requests a written text as long as the clipboard is open.
fn carry_out(orders: &Receiver<Order>, inputs: &mpsc::Sender<UserInput>) {
    let mut clipboard = match Clipboard::new() {
        Ok(clipboard) => clipboard,
        Err(error) => {
            tracing::warn!(%error, "cannot access the clipboard; texts are neither pasted nor copied");
            return;
        }
    };
    while let Ok(order) = orders.recv() {
        match order {
            Order::Read => match clipboard.get_text() {
                Ok(text) if text.len() > MAX_CLIPBOARD_BYTES => {
                    tracing::warn!(
                        bytes = text.len(),
                        limit = MAX_CLIPBOARD_BYTES,
                        "the pasted text is too long; copy less"
                    );
                }
                Ok(text) => {
                    // A full queue means that there is no connection; then the text may be dropped.
                    let _ = inputs.try_send(UserInput::Clipboard(text));
                }
                Err(error) => tracing::debug!(%error, "there is no text to paste"),
            },
            Order::Write(text) => {
                if let Err(error) = clipboard.set_text(text) {
                    tracing::warn!(%error, "cannot put the application's text on the clipboard");
                }
            }
        }
    }
}
