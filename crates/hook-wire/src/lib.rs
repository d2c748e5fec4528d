//! How `nearlight hook` starts a program with the library in it, and what the two say to each other.
//!
//! The command listens on a Unix socket in a folder that only its user can enter, and passes the socket's path in the environment. Every
//! process of the program that loads the library connects once to say so, and once more when it shows its first picture. It is then given
//! the options of its server and answers with the links. Messages are lines of JSON. The program's processes run as the user who started
//! the command, so neither side is protected from the other; lines are bounded all the same.

#![forbid(unsafe_code)]

mod library;
mod listener;

use std::io::{self, BufRead, Read as _, Write};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use library::{LIBRARY, find_library};
pub use listener::{Listener, ListenerError};

/// Environment variable with the socket's path.
pub const SOCKET_VARIABLE: &str = "NEARLIGHT_HOOK";

/// Longest line, in bytes: options with certificates' paths and a dozen links fit many times.
const MOST_BYTES: u64 = 1 << 16;

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaker {
    pub process: u32,
    /// Name of the process, for people.
    pub name: String,
}

/// What the library says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// It was loaded. Nothing is answered.
    Loaded(Speaker),
    /// The process shows its first picture. The answer is an [`Answer`].
    Opening {
        speaker: Speaker,
        /// How it draws, for people, such as `OpenGL (GLX)`.
        interface: String,
        width: u16,
        height: u16,
    },
    /// Clients can connect: the first link is for this machine. Comes again with new links when the certificate was renewed.
    Opened { links: Vec<String> },
    /// Nothing will be streamed from this process, and why.
    Failed { reason: String },
    /// Something that the user should know.
    Note { text: String },
}

/// What the command answers to [`Message::Opening`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The server's options as TOML, as `nearlight_embed::Options` reads them; none where another process is streamed already.
    pub options: Option<String>,
    /// Input of viewers goes to the program's window.
    pub input: bool,
}

/// One connection, at either end.
#[derive(Debug)]
pub struct Conversation {
    reader: io::BufReader<UnixStream>,
}

impl Conversation {
    pub fn new(stream: UnixStream) -> Self {
        Self { reader: io::BufReader::new(stream) }
    }

    pub fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)
    }

    /// The other end's next message; none at the end of the connection.
    pub fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(MOST_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        if line.pop() != Some(b'\n') {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message without an end"));
        }
        Ok(Some(serde_json::from_slice(&line)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard_and_lines_are_bounded() {
        let (near, far) = UnixStream::pair().expect("a pair of sockets");
        let (mut near, mut far) = (Conversation::new(near), Conversation::new(far));
        let speaker = Speaker { process: 7, name: "a game".into() };
        let interface = "OpenGL (GLX)".to_owned();
        let messages = [
            Message::Loaded(speaker.clone()),
            Message::Opening { speaker, interface, width: 640, height: 480 },
            Message::Opened { links: vec!["http://localhost:8090/".into()] },
            Message::Failed { reason: "a line\nand another".into() },
            Message::Note { text: String::new() },
        ];
        for message in &messages {
            near.say(message).expect("it is sent");
            assert_eq!(far.hear::<Message>().expect("it arrives").as_ref(), Some(message));
        }
        let answer = Answer { options: Some("port = 0".into()), input: true };
        far.say(&answer).expect("it is sent");
        assert_eq!(near.hear::<Answer>().expect("it arrives"), Some(answer));
        let sending = std::thread::spawn(move || {
            let _ = near.reader.get_mut().write_all(&vec![b'x'; MOST_BYTES as usize + 1]);
        });
        assert!(far.hear::<Message>().is_err(), "a line that is too long");
        drop(far);
        sending.join().expect("no panic");
    }

    #[test]
    fn garbage_is_an_error_and_the_end_is_none() {
        for bytes in [b"{\n".as_slice(), b"\xff\n", b"\"loaded\"\n", b"{\"loaded\":"] {
            let (mut near, far) = UnixStream::pair().expect("a pair of sockets");
            near.write_all(bytes).expect("it is sent");
            drop(near);
            assert!(Conversation::new(far).hear::<Message>().is_err(), "{bytes:?}");
        }
        let (near, far) = UnixStream::pair().expect("a pair of sockets");
        drop(near);
        assert_eq!(Conversation::new(far).hear::<Message>().expect("the end"), None);
    }
}
