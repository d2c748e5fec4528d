//! Accesses the user's clipboard on its own thread, because the program that owns the text may answer slowly.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use arboard::Clipboard;
use nearlight_viewer::player::UserInput;
use nearlight_wire::MAX_CLIPBOARD_BYTES;
use tokio::sync::mpsc;

use crate::ClientError;

/// Maximum number of commands that wait for the thread. A server sends texts of up to [`MAX_CLIPBOARD_BYTES`] as often as it likes, while a program
/// of the user's may keep the thread waiting. Guess: nobody copies so often within the seconds that this lasts.
const MAX_QUEUED_COMMANDS: usize = 8;

/// A command to the clipboard thread.
enum ClipboardCommand {
    Read,
    Write(String),
}

/// A handle of the thread, which ends when the last clone is dropped.
#[derive(Clone)]
pub struct ClipboardThread(SyncSender<ClipboardCommand>);

impl ClipboardThread {
    /// Starts the thread. It sends the texts that it reads to `inputs`.
    pub fn start(inputs: mpsc::Sender<UserInput>) -> Result<Self, ClientError> {
        let (commands, command_queue) = sync_channel(MAX_QUEUED_COMMANDS);
        std::thread::Builder::new()
            .name("clipboard".into())
            .spawn(move || run(&command_queue, &inputs))
            .map_err(|source| ClientError::system("thread for the clipboard", source))?;
        Ok(Self(commands))
    }

    /// Reads the clipboard and sends its text to the player.
    pub fn read(&self) {
        self.send(ClipboardCommand::Read);
    }

    /// Puts a text of the application on the clipboard.
    pub fn write(&self, text: String) {
        self.send(ClipboardCommand::Write(text));
    }

    /// Queues a command for the thread, which has logged why if it has ended.
    fn send(&self, command: ClipboardCommand) {
        if let Err(TrySendError::Full(_)) = self.0.try_send(command) {
            tracing::warn!("the clipboard does not answer; a text is neither pasted nor copied");
        }
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
