//! Starts a program with the hook library in it, and defines the messages between the library and `nearlight hook`.
//!
//! The command listens on a Unix socket in a folder that only its user can access, and passes the socket's path in the environment. Each
//! process of the program connects once when it loads the library, and again when it shows its first picture. It then gets the options of
//! its server and replies with the links. Messages are lines of JSON. The program runs as the user who started the command, so neither side
//! has to be protected from the other, but the length of lines is bounded.

#![forbid(unsafe_code)]

mod library;
mod listener;

use std::io::{self, BufRead, Read as _, Write};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use library::{LIBRARY, find_library};
pub use listener::{Listener, ListenerError};

/// The environment variable with the socket's path.
pub const SOCKET_VARIABLE: &str = "NEARLIGHT_HOOK";

/// Maximum number of bytes of a line. Guess: many times the size of options with certificate paths and a dozen links.
const MAX_LINE_BYTES: u64 = 1 << 16;

/// A process that has loaded the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookedProcess {
    /// The process id.
    pub process: u32,
    /// The process's name.
    pub name: String,
}

/// A message of the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// The library was loaded. There is no reply.
    Loaded(HookedProcess),
    /// The process shows its first picture. The command replies with [`StreamSettings`].
    Opening {
        speaker: HookedProcess,
        /// The graphics interface that it uses, such as `OpenGL (GLX)`.
        interface: String,
        width: u16,
        height: u16,
    },
    /// Clients can connect. The first link is for this machine.
    Opened { links: Vec<String> },
    /// Nothing will be streamed from this process, for this reason.
    Failed { reason: String },
    /// A note for the user.
    Note { text: String },
}

/// The command's reply to [`Message::Opening`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSettings {
    /// The server's options as TOML, as `nearlight_embed::Options` parses them; `None` if another process is being streamed.
    pub options: Option<String>,
    /// Whether the viewers' input is passed to the program's window.
    pub input: bool,
}

/// A connection between the library and the command.
#[derive(Debug)]
pub struct MessageStream {
    reader: io::BufReader<UnixStream>,
}

impl MessageStream {
    pub fn new(stream: UnixStream) -> Self {
        Self { reader: io::BufReader::new(stream) }
    }

    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)
    }

    /// Waits for the other end's next message. Returns `None` at the end of the connection.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        if line.pop() != Some(b'\n') {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long or incomplete"));
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
        let (mut near, mut far) = (MessageStream::new(near), MessageStream::new(far));
        let speaker = HookedProcess { process: 7, name: "a game".into() };
        let interface = "OpenGL (GLX)".to_owned();
        let messages = [
            Message::Loaded(speaker.clone()),
            Message::Opening { speaker, interface, width: 640, height: 480 },
            Message::Opened { links: vec!["http://localhost:8090/".into()] },
            Message::Failed { reason: "a line\nand another".into() },
            Message::Note { text: String::new() },
        ];
        for message in &messages {
            near.send(message).expect("it is sent");
            assert_eq!(far.receive::<Message>().expect("it arrives").as_ref(), Some(message));
        }
        let answer = StreamSettings { options: Some("port = 0".into()), input: true };
        far.send(&answer).expect("it is sent");
        assert_eq!(near.receive::<StreamSettings>().expect("it arrives"), Some(answer));
        let sending = std::thread::spawn(move || {
            let _ = near.reader.get_mut().write_all(&vec![b'x'; MAX_LINE_BYTES as usize + 1]);
        });
        assert!(far.receive::<Message>().is_err(), "a line that is too long");
        drop(far);
        sending.join().expect("no panic");
    }

    #[test]
    fn garbage_is_an_error_and_the_end_is_none() {
        for bytes in [b"{\n".as_slice(), b"\xff\n", b"\"loaded\"\n", b"{\"loaded\":"] {
            let (mut near, far) = UnixStream::pair().expect("a pair of sockets");
            near.write_all(bytes).expect("it is sent");
            drop(near);
            assert!(MessageStream::new(far).receive::<Message>().is_err(), "{bytes:?}");
        }
        let (near, far) = UnixStream::pair().expect("a pair of sockets");
        drop(near);
        assert_eq!(MessageStream::new(far).receive::<Message>().expect("the end"), None);
    }
}
