//! Messages between the display and viewers' pages.

use nearlight_scene::{ApplicationMessage, Output};
use nearlight_wire::MAX_CLIPBOARD_BYTES;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::x11::clipboard::CopiedText;

/// An application message in which a viewer's page makes a request to the display.
#[derive(Debug, Deserialize)]
pub(super) struct PageMessage {
    pub(super) display: PageRequest,
}

/// A request of a viewer's page.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PageRequest {
    /// Brings a window to the front.
    Activate(u32),
    /// Closes a window.
    Close(u32),
    /// Reports the size of the viewer's window, in CSS pixels.
    Window([u16; 2]),
    /// Releases the controls or withdraws a request for them. The value is `null`.
    Release(()),
    /// Requests the controls. The value is `null`.
    Take(()),
}

pub(super) fn message(text: &str) -> ApplicationMessage {
    ApplicationMessage { data: text.as_bytes().to_vec(), reliable: true }
}

/// Returns the output for the viewer in whose session a program has copied a text.
pub(super) fn clipboard_output(text: CopiedText) -> Output {
    match text {
        CopiedText::Complete(text) => Output::Clipboard(text),
        CopiedText::TooLong(bytes) => {
            let (length, limit) = (megabytes(bytes), megabytes(MAX_CLIPBOARD_BYTES));
            tracing::warn!(bytes, limit = MAX_CLIPBOARD_BYTES, "a program has copied more text than viewers can get");
            let words = format!(
                "The program has copied {length} of text, and at most {limit} can be passed on: your clipboard is unchanged. Copy less at once."
            );
            Output::Message(message(&page_message("notice", &words.into())))
        }
    }
}

fn megabytes(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Returns the message with the windows from which the viewer can choose.
pub(super) fn windows_page_message(windows: &[(u32, String, bool)]) -> String {
    let choices = windows.iter().map(|(window, title, seen)| json!({ "window": window, "title": title, "seen": seen }));
    page_message("windows", &choices.collect())
}

/// Returns a message for the page.
pub(super) fn page_message(subject: &str, content: &Value) -> String {
    json!({ "display": { subject: content } }).to_string()
}
