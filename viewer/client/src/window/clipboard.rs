//! Accesses the user's clipboard on its own thread, because the program that owns the text may answer slowly.

use std::sync::mpsc::{Receiver, Sender, channel};

use arboard::Clipboard;
use nearlight_viewer::player::UserInput;
use nearlight_wire::MAX_CLIPBOARD_BYTES;
use tokio::sync::mpsc;

use crate::ClientError;

/// A command to the clipboard thread.
enum ClipboardCommand {
    Read,
    Write(String),
}

/// A handle of the thread, which ends when the last clone is dropped.
#[derive(Clone)]
pub struct ClipboardThread(Sender<ClipboardCommand>);

impl ClipboardThread {
    /// Starts the thread. It sends the texts that it reads to `inputs`.
    pub fn start(inputs: mpsc::Sender<UserInput>) -> Result<Self, ClientError> {
        let (commands, command_queue) = channel();
        std::thread::Builder::new()
            .name("clipboard".into())
            .spawn(move || run(&command_queue, &inputs))
            .map_err(|source| ClientError::system("thread for the clipboard", source))?;
        Ok(Self(commands))
    }

    // Sending fails only if the thread has ended, and it has logged why.

    /// Reads the clipboard and sends its text to the player.
    pub fn read(&self) {
        let _ = self.0.send(ClipboardCommand::Read);
    }

    /// Puts a text of the application on the clipboard.
    pub fn write(&self, text: String) {
        let _ = self.0.send(ClipboardCommand::Write(text));
    }
}

/// Runs the thread. The clipboard stays open, because other programs request a written text from this process.
fn run(commands: &Receiver<ClipboardCommand>, inputs: &mpsc::Sender<UserInput>) {
    let mut clipboard = match Clipboard::new() {
        Ok(clipboard) => clipboard,
        Err(error) => {
            tracing::warn!(%error, "cannot access the clipboard; texts are neither pasted nor copied");
            return;
        }
    };
    while let Ok(command) = commands.recv() {
        match command {
            ClipboardCommand::Read => match clipboard.get_text() {
                Ok(text) if text.len() > MAX_CLIPBOARD_BYTES => {
                    tracing::warn!(
                        bytes = text.len(),
                        limit = MAX_CLIPBOARD_BYTES,
                        "the pasted text is too long; copy less"
                    );
                }
                Ok(text) => {
                    // A full queue means that there is no connection, so the text can be dropped.
                    let _ = inputs.try_send(UserInput::Clipboard(text));
                }
                Err(error) => tracing::debug!(%error, "there is no text to paste"),
            },
            ClipboardCommand::Write(text) => {
                if let Err(error) = clipboard.set_text(text) {
                    tracing::warn!(%error, "cannot put the application's text on the clipboard");
                }
            }
        }
    }
}
