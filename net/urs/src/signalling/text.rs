//! The signalling's JSON: tolerant when parsing, as documented when writing.

use serde::Deserialize;
use serde_json::{Value, json};

/// Maximum length of a message or body in bytes: a longer one is rejected before it is parsed. A browser's complete offer takes 10 kB.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;
/// Maximum length of a connection's name in bytes. The web client's has 36 letters.
const MAX_NAME_BYTES: usize = 128;
/// Maximum length of one candidate's line in bytes.
const MAX_CANDIDATE_BYTES: usize = 1_024;

/// The reason for rejecting a message. Both variants are the client's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    #[error("a message of {0} bytes exceeds the limit of {MAX_TEXT_BYTES}")]
    TooLong(usize),
    #[error("this is not a message of the signalling protocol: {0}")]
    Syntax(&'static str),
}

/// An ICE candidate of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The line after `a=`. Empty text means that there are no more.
    pub candidate: String,
    /// Name of the media section that it belongs to.
    pub mid: Option<String>,
    /// Number of that section.
    pub line: Option<u16>,
}

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientMessage {
    Connect,
    Disconnect,
    Offer(String),
    Answer(String),
    Candidate(Candidate),
}

/// A number or a text, because clients differ.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Label {
    Number(i64),
    Text(String),
}

impl Label {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Body {
    connection_id: Option<Label>,
    sdp: Option<String>,
    candidate: Option<String>,
    sdp_mid: Option<Label>,
    #[serde(rename = "sdpMLineIndex")]
    sdp_m_line_index: Option<Label>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    #[serde(rename = "type")]
    kind: String,
    connection_id: Option<Label>,
    from: Option<Label>,
    data: Option<Body>,
}

/// Reads a WebSocket message: the connection that it refers to and its contents.
pub(super) fn read_message(text: &str) -> Result<(String, ClientMessage), TextError> {
    let message: Message = read(text)?;
    let body = message.data.unwrap_or_default();
    let name = message.connection_id.as_ref().or(body.connection_id.as_ref()).or(message.from.as_ref());
    let name = read_name(name)?;
    Ok((name, body.client_message(&message.kind)?))
}

/// Reads a body of the polling variant, where the path determines the kind.
pub(super) fn read_body(kind: &str, text: &str) -> Result<(String, ClientMessage), TextError> {
    let body: Body = read(text)?;
    let name = read_name(body.connection_id.as_ref())?;
    Ok((name, body.client_message(kind)?))
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, TextError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(TextError::TooLong(text.len()));
    }
    serde_json::from_str(text)
        .map_err(|_| TextError::Syntax("the JSON is not an object with the fields it should have"))
}

fn read_name(label: Option<&Label>) -> Result<String, TextError> {
    let name = label.map(Label::text).ok_or(TextError::Syntax("connectionId is missing"))?;
    let fits = !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control);
    if fits { Ok(name) } else { Err(TextError::Syntax("connectionId is empty, too long or not printable")) }
}

impl Body {
    fn client_message(self, kind: &str) -> Result<ClientMessage, TextError> {
        let sdp = |sdp: Option<String>| match sdp {
            Some(sdp) if sdp.starts_with("v=0") => Ok(sdp),
            _ => Err(TextError::Syntax("sdp is missing or no session description")),
        };
        Ok(match kind {
            "connect" => ClientMessage::Connect,
            "disconnect" => ClientMessage::Disconnect,
            "offer" => ClientMessage::Offer(sdp(self.sdp)?),
            "answer" => ClientMessage::Answer(sdp(self.sdp)?),
            "candidate" => ClientMessage::Candidate(self.candidate()?),
            _ => return Err(TextError::Syntax("its type is none of connect, disconnect, offer, answer, candidate")),
        })
    }

    fn candidate(self) -> Result<Candidate, TextError> {
        let candidate = self.candidate.ok_or(TextError::Syntax("candidate is missing"))?;
        if candidate.len() > MAX_CANDIDATE_BYTES || candidate.chars().any(char::is_control) {
            return Err(TextError::Syntax("candidate is too long or not printable"));
        }
        // Over WebSocket the web client swaps both: the number is where the name should be.
        let (mid, line) = match (self.sdp_mid, self.sdp_m_line_index) {
            (Some(Label::Number(line)), Some(Label::Text(mid))) => (Some(Label::Text(mid)), Some(Label::Number(line))),
            (mid, line) => (mid, line),
        };
        let mid = mid.map(|mid| mid.text()).filter(|mid| mid.len() <= MAX_NAME_BYTES);
        Ok(Candidate { candidate, mid, line: line.and_then(|line| line.text().parse().ok()) })
    }
}

/// A message of the server to a client about one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerMessage<'a> {
    Connect,
    Disconnect,
    Offer(&'a str),
    Answer(&'a str),
    /// The reason for its end, before it ends.
    Error(&'a str),
}

/// Whether a client is the polite peer when both offer at once: always, because the world is not.
const POLITE: bool = true;

impl ServerMessage<'_> {
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Disconnect => "disconnect",
            Self::Offer(_) => "offer",
            Self::Answer(_) => "answer",
            Self::Error(_) => "error",
        }
    }

    /// The message in the form of WebSocket. `datetime` is in milliseconds since 1970.
    pub(super) fn to_json(self, name: &str, datetime: u64) -> String {
        let kind = self.kind();
        let value = match self {
            Self::Connect => json!({ "type": kind, "connectionId": name, "polite": POLITE }),
            Self::Disconnect => json!({ "type": kind, "connectionId": name }),
            Self::Offer(sdp) => json!({
                "from": name, "to": "", "type": kind, "data": { "sdp": sdp, "datetime": datetime, "polite": POLITE }
            }),
            Self::Answer(sdp) => json!({
                "from": name, "to": "", "type": kind, "data": { "sdp": sdp, "datetime": datetime }
            }),
            Self::Error(text) => return error_message(text),
        };
        value.to_string()
    }

    /// The message as an entry of the polling variant's list.
    pub(super) fn entry(self, name: &str, datetime: u64) -> Value {
        let kind = self.kind();
        match self {
            Self::Connect => json!({ "connectionId": name, "polite": POLITE, "type": kind, "datetime": datetime }),
            Self::Disconnect => json!({ "connectionId": name, "type": kind, "datetime": datetime }),
            Self::Offer(sdp) => {
                json!({ "connectionId": name, "sdp": sdp, "polite": POLITE, "type": kind, "datetime": datetime })
            }
            Self::Answer(sdp) => json!({ "connectionId": name, "sdp": sdp, "type": kind, "datetime": datetime }),
            Self::Error(text) => {
                json!({ "connectionId": name, "message": text, "type": kind, "datetime": datetime })
            }
        }
    }
}

/// An error reported over WebSocket.
pub(super) fn error_message(text: &str) -> String {
    json!({ "type": "error", "message": text }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(mid: Option<&str>, line: Option<u16>) -> ClientMessage {
        ClientMessage::Candidate(Candidate { candidate: "candidate:1".into(), mid: mid.map(Into::into), line })
    }

    #[test]
    fn messages_are_read_in_every_form_that_clients_give_them() {
        for (text, name, said) in [
            (r#"{"type":"connect","connectionId":"a"}"#, "a", ClientMessage::Connect),
            (r#"{"type":"connect","connectionId":7}"#, "7", ClientMessage::Connect),
            (r#"{"type":"disconnect","connectionId":"a","more":[1]}"#, "a", ClientMessage::Disconnect),
            (
                r#"{"type":"offer","from":"b","data":{"sdp":"v=0","connectionId":"a"}}"#,
                "a",
                ClientMessage::Offer("v=0".into()),
            ),
            (r#"{"type":"answer","from":"b","data":{"sdp":"v=0"}}"#, "b", ClientMessage::Answer("v=0".into())),
            (
                r#"{"type":"candidate","from":"a","data":{"candidate":"candidate:1","sdpMLineIndex":0,"sdpMid":"0"}}"#,
                "a",
                candidate(Some("0"), Some(0)),
            ),
            // Swapped, and other mixtures of numbers and texts.
            (
                r#"{"type":"candidate","from":"a","data":{"candidate":"candidate:1","sdpMLineIndex":"video","sdpMid":1}}"#,
                "a",
                candidate(Some("video"), Some(1)),
            ),
            (
                r#"{"type":"candidate","from":"a","data":{"candidate":"candidate:1","sdpMLineIndex":"2","sdpMid":"x"}}"#,
                "a",
                candidate(Some("x"), Some(2)),
            ),
            (
                r#"{"type":"candidate","from":"a","data":{"candidate":"candidate:1","sdpMLineIndex":null,"sdpMid":null}}"#,
                "a",
                candidate(None, None),
            ),
            (r#"{"type":"candidate","from":"a","data":{"candidate":"candidate:1"}}"#, "a", candidate(None, None)),
        ] {
            assert_eq!(read_message(text), Ok((name.into(), said)), "{text}");
        }
        assert_eq!(
            read_body("offer", r#"{"connectionId":"a","sdp":"v=0\r\n"}"#),
            Ok(("a".into(), ClientMessage::Offer("v=0\r\n".into())))
        );
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let long = format!(r#"{{"type":"connect","connectionId":"{}"}}"#, "a".repeat(129));
        let candidate = format!(r#"{{"type":"candidate","from":"a","data":{{"candidate":"{}"}}}}"#, "a".repeat(1_025));
        for text in [
            "",
            "7",
            "[]",
            "{}",
            "null",
            "{",
            r#"{"type":"connect"}"#,
            r#"{"type":"connect","connectionId":""}"#,
            r#"{"type":"connect","connectionId":{}}"#,
            r#"{"type":"connect","connectionId":"a\nb"}"#,
            r#"{"type":"hello","connectionId":"a"}"#,
            r#"{"type":"offer","from":"a"}"#,
            r#"{"type":"offer","from":"a","data":{"sdp":7}}"#,
            r#"{"type":"offer","from":"a","data":{"sdp":"x"}}"#,
            r#"{"type":"candidate","from":"a","data":{"candidate":null}}"#,
            &long,
            &candidate,
        ] {
            assert!(matches!(read_message(text), Err(TextError::Syntax(_))), "{text}");
        }
        let huge = " ".repeat(MAX_TEXT_BYTES + 1);
        assert_eq!(read_message(&huge), Err(TextError::TooLong(MAX_TEXT_BYTES + 1)));
    }
}
