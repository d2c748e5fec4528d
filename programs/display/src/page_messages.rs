//! The messages between a viewer's page and the display (docs/programs.md).

use nearlight_scene::ApplicationMessage;
use serde::Deserialize;
use serde_json::{Value, json};

/// An application message in which a viewer's page makes a request to the display.
#[derive(Debug, Deserialize)]
pub(crate) struct PageMessage {
    pub(crate) display: PageRequest,
}

/// A request of a viewer's page.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PageRequest {
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

pub(crate) fn message(text: &str) -> ApplicationMessage {
    ApplicationMessage { data: text.as_bytes().to_vec(), reliable: true }
}

/// Returns the message with the windows from which the viewer can choose.
pub(crate) fn windows_page_message(windows: &[(u32, String, bool)]) -> String {
    let choices = windows.iter().map(|(window, title, seen)| json!({ "window": window, "title": title, "seen": seen }));
    page_message("windows", &choices.collect())
}

/// Returns a message for the page.
pub(crate) fn page_message(subject: &str, content: &Value) -> String {
    json!({ "display": { subject: content } }).to_string()
}
