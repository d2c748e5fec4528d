//! Texts of the clipboard, which are longer than a control message: they are sent in chunks.

use crate::WireError;
use crate::control::MAX_CONTROL_BYTES;

/// Maximum bytes of UTF-8 in a clipboard's text. Guess: a long book, and seconds of a slow path.
pub const MAX_CLIPBOARD_BYTES: usize = 4 * 1_024 * 1_024;
/// Maximum bytes of UTF-8 in a chunk.
pub const MAX_CLIPBOARD_CHUNK_BYTES: usize = 32 * 1_024;
/// Bytes of a control message that are left for the JSON around a chunk's text.
const ENVELOPE_BYTES: usize = 256;

/// Splits a text into chunks, each of which fits a control message.
#[derive(Debug)]
pub struct ClipboardChunks {
    text: String,
    sent: usize,
    done: bool,
}

impl ClipboardChunks {
    /// Returns the chunks of a text; none if it is longer than [`MAX_CLIPBOARD_BYTES`].
    #[must_use]
    pub fn new(text: String) -> Option<Self> {
        (text.len() <= MAX_CLIPBOARD_BYTES).then_some(Self { text, sent: 0, done: false })
    }
}

impl Iterator for ClipboardChunks {
    /// A chunk, and whether another one follows.
    type Item = (String, bool);

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let rest = &self.text[self.sent..];
        let (mut escaped, mut end) = (ENVELOPE_BYTES, rest.len());
        for (at, character) in rest.char_indices() {
            escaped += escaped_length(character);
            if escaped > MAX_CONTROL_BYTES || at + character.len_utf8() > MAX_CLIPBOARD_CHUNK_BYTES {
                end = at;
                break;
            }
        }
        let chunk = rest[..end].to_owned();
        self.sent += end;
        self.done = self.sent == self.text.len();
        Some((chunk, !self.done))
    }
}

/// Returns the bytes that a character takes in a JSON string: `"`, `\` and control characters are escaped.
const fn escaped_length(character: char) -> usize {
    match character {
        '"' | '\\' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

/// Joins the chunks of a text.
#[derive(Debug, Default)]
pub struct ClipboardText {
    text: String,
}

impl ClipboardText {
    /// Returns whether a text has begun and not ended.
    #[must_use]
    pub const fn is_incomplete(&self) -> bool {
        !self.text.is_empty()
    }

    /// Takes the next chunk, and whether another one follows. Returns the text if it is complete. After an error, which says that the
    /// sender exceeds the limit, nothing of the text is kept.
    pub fn on_chunk(&mut self, chunk: String, more: bool) -> Result<Option<String>, WireError> {
        if chunk.len() > MAX_CLIPBOARD_CHUNK_BYTES || self.text.len() + chunk.len() > MAX_CLIPBOARD_BYTES {
            self.text = String::new();
            return Err(WireError::ClipboardTooLong);
        }
        if self.text.is_empty() {
            self.text = chunk;
        } else {
            self.text.push_str(&chunk);
        }
        Ok((!more).then(|| std::mem::take(&mut self.text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientMessage, write_control};

    fn chunks(text: &str) -> Vec<(String, bool)> {
        ClipboardChunks::new(text.to_owned()).expect("within the limit").collect()
    }

    #[test]
    fn long_texts_arrive_whole_in_chunks_that_fit_control_messages() {
        for (text, least) in [
            (String::new(), 1),
            ("short".into(), 1),
            ("a".repeat(60_000), 2),
            ("\u{1}\"\\€😀".repeat(40_000), 8),
            ("x".repeat(MAX_CLIPBOARD_BYTES), 128),
        ] {
            let chunks = chunks(&text);
            assert!(chunks.len() >= least, "{} chunks of {} bytes", chunks.len(), text.len());
            let mut joined = ClipboardText::default();
            let mut complete = None;
            for (index, (chunk, more)) in chunks.into_iter().enumerate() {
                assert_eq!(complete, None, "after the last chunk");
                assert_eq!(joined.is_incomplete(), index > 0);
                let message = write_control(&ClientMessage::Clipboard { text: chunk.clone(), more });
                assert!(message.len() <= 4 + MAX_CONTROL_BYTES, "{} bytes", message.len());
                complete = joined.on_chunk(chunk, more).expect("within the limit");
            }
            assert_eq!(complete, Some(text));
        }
    }

    #[test]
    fn texts_beyond_the_limit_are_neither_sent_nor_kept() {
        assert!(ClipboardChunks::new("x".repeat(MAX_CLIPBOARD_BYTES + 1)).is_none());
        let mut text = ClipboardText::default();
        let chunk = "x".repeat(MAX_CLIPBOARD_CHUNK_BYTES);
        for _ in 0..MAX_CLIPBOARD_BYTES / MAX_CLIPBOARD_CHUNK_BYTES {
            assert_eq!(text.on_chunk(chunk.clone(), true), Ok(None));
        }
        assert_eq!(text.on_chunk("x".into(), false), Err(WireError::ClipboardTooLong));
        assert!(!text.is_incomplete());
        assert_eq!(text.on_chunk("y".repeat(MAX_CLIPBOARD_CHUNK_BYTES + 1), false), Err(WireError::ClipboardTooLong));
        assert_eq!(text.on_chunk("z".into(), false), Ok(Some("z".into())));
    }
}
