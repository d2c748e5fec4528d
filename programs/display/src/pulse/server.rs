//! The server's socket, a thread for each client, and the mixer.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use nearlight_sound::{BLOCK_FRAMES, Feed, SoundBlock};
use nearlight_units::{Span, lock};
use rustix::net::{SendFlags, send};

use crate::pulse::client::Client;

/// Maximum number of simultaneous clients. Guess: a program has one for each of its players.
const MAX_CLIENTS: usize = 16;
/// Maximum number of bytes of unread replies. Guess: a client with more has stopped reading.
const MAX_UNREAD_BYTES: usize = 256 * 1_024;
const READ_BUFFER_BYTES: usize = 64 * 1_024;

/// A sound server with its own socket.
pub struct SoundServer {
    listener: Option<UnixListener>,
    clients: Arc<Mutex<Clients>>,
    microphone: Option<Arc<Mutex<Feed>>>,
}

#[derive(Default)]
struct Clients {
    next: u32,
    connected: BTreeMap<u32, ConnectedClient>,
}

struct ConnectedClient {
    client: Client,
    stream: UnixStream,
}

impl ConnectedClient {
    /// Sends as many replies as the socket accepts, without blocking. Returns false if the client must be disconnected.
    fn send_replies(&mut self) -> bool {
        let replies = self.client.replies();
        while !replies.is_empty() {
            match send(&self.stream, replies, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(replies.drain(..sent)),
                Err(rustix::io::Errno::AGAIN) => return replies.len() <= MAX_UNREAD_BYTES,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Shuts down the socket, which ends the client's thread.
    fn disconnect(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl SoundServer {
    /// Opens the socket for every user who has access to its folder. Clients record `microphone`, or nothing if there is none. Starts no
    /// thread.
    pub fn bind(socket: &Path, microphone: Option<Arc<Mutex<Feed>>>) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666))?;
        Ok(Self { listener: Some(listener), clients: Arc::default(), microphone })
    }

    /// Starts the thread that accepts clients.
    pub fn start(&mut self) -> io::Result<()> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let (clients, records) = (Arc::clone(&self.clients), self.microphone.is_some());
        thread::Builder::new().name("sound-server".into()).spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if let Err(error) = serve(&clients, stream, records) {
                    tracing::warn!(%error, "a client of the sound server was refused");
                }
            }
        })?;
        Ok(())
    }

    /// Returns whether a program is connected. Sound begins several round trips after a program has connected.
    #[must_use]
    pub fn has_clients(&self) -> bool {
        !lock(&self.clients).connected.is_empty()
    }

    /// Mixes the next 10 ms of all streams. Returns samples from -1 to 1, and the longest time that a stream's sound was buffered. To be
    /// called every 10 ms.
    pub fn next_block(&mut self) -> (SoundBlock, Span) {
        let (mut block, mut waited) = ([0.0; BLOCK_FRAMES * 2], Span::ZERO);
        let microphone = self.microphone.as_ref();
        let recorded = microphone.map(|feed| lock(feed).next_block().0);
        let mut clients = lock(&self.clients);
        clients.connected.retain(|_, connected| {
            if let Some(block) = &recorded {
                connected.client.record(block);
            }
            waited = waited.max(connected.client.mix(&mut block));
            let stays = connected.send_replies();
            if !stays {
                connected.disconnect();
            }
            stays
        });
        drop(clients);
        for sample in &mut block {
            *sample = sample.clamp(-1.0, 1.0);
        }
        (block, waited)
    }
}

/// Starts the thread that reads from a client.
fn serve(clients: &Arc<Mutex<Clients>>, mut stream: UnixStream, records: bool) -> io::Result<()> {
    let replies_to = stream.try_clone()?;
    let number = {
        let mut clients = lock(clients);
        if clients.connected.len() >= MAX_CLIENTS {
            return Err(io::Error::other("it has the maximum number of clients"));
        }
        clients.next = clients.next.wrapping_add(1);
        let number = clients.next;
        clients.connected.insert(number, ConnectedClient { client: Client::new(number, records), stream: replies_to });
        number
    };
    let clients = Arc::clone(clients);
    thread::Builder::new().name("sound-client".into()).spawn(move || {
        let mut bytes = vec![0; READ_BUFFER_BYTES];
        while let Ok(count) = stream.read(&mut bytes) {
            let mut clients = lock(&clients);
            let Some(connected) = clients.connected.get_mut(&number).filter(|_| count > 0) else { break };
            let outcome = connected.client.on_bytes(&bytes[..count]);
            if let Err(error) = &outcome {
                tracing::debug!(%error, "a client of the sound server violated the protocol");
            }
            if !connected.send_replies() || outcome.is_err() {
                break;
            }
        }
        lock(&clients).connected.remove(&number);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    })?;
    Ok(())
}
