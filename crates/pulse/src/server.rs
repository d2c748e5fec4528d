//! The socket and its clients: one thread each, and the mix.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nearlight_sound::{BLOCK_FRAMES, Feed, SoundBlock};
use nearlight_units::Span;
use rustix::net::{SendFlags, send};

use crate::client::Client;

/// Clients at a time: a program has one for each of its players.
const MOST_CLIENTS: usize = 16;
/// Bytes of replies that wait until a client reads them. Guess: a client that has not read so much has stopped reading.
const MOST_UNREAD: usize = 256 * 1_024;
const READ: usize = 64 * 1_024;

/// A sound server at a socket of its own. Clients are heard as long as it is there.
pub struct SoundServer {
    listener: Option<UnixListener>,
    clients: Arc<Mutex<Clients>>,
    microphone: Option<Arc<Mutex<Feed>>>,
}

#[derive(Default)]
struct Clients {
    next: u32,
    connected: BTreeMap<u32, Connected>,
}

struct Connected {
    client: Client,
    stream: UnixStream,
}

impl Connected {
    /// Sends what the socket takes, without waiting for the client. False for one that has to go.
    fn send_replies(&mut self) -> bool {
        let replies = self.client.replies();
        while !replies.is_empty() {
            match send(&self.stream, replies, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(replies.drain(..sent)),
                Err(rustix::io::Errno::AGAIN) => return replies.len() <= MOST_UNREAD,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Its thread's read returns, and the thread ends.
    fn disconnect(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl SoundServer {
    /// Opens the socket, for every user who reaches its folder. Clients record the microphone, or nothing where there is none. Starts no
    /// thread.
    pub fn bind(socket: &Path, microphone: Option<Arc<Mutex<Feed>>>) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666))?;
        Ok(Self { listener: Some(listener), clients: Arc::default(), microphone })
    }

    /// Accepts clients from here on.
    pub fn start(&mut self) -> io::Result<()> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let (clients, records) = (Arc::clone(&self.clients), self.microphone.is_some());
        thread::Builder::new().name("sound-server".into()).spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if let Err(error) = serve(&clients, stream, records) {
                    tracing::warn!(%error, "a client of the sound server is turned away");
                }
            }
        })?;
        Ok(())
    }

    /// Whether a program is connected. Nothing plays without one, and who connects needs several round trips before anything does.
    #[must_use]
    pub fn has_clients(&self) -> bool {
        !lock(&self.clients).connected.is_empty()
    }

    /// The next ten milliseconds of everything that plays, within -1 and 1, and how long the sound that waited longest has waited here.
    /// Call it every ten milliseconds.
    pub fn next_block(&mut self) -> (SoundBlock, Span) {
        let (mut block, mut waited) = ([0.0; BLOCK_FRAMES * 2], Span::ZERO);
        let microphone = self.microphone.as_ref();
        let recorded = microphone.map(|feed| feed.lock().unwrap_or_else(PoisonError::into_inner).next_block().0);
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

/// Starts the thread that hears one client.
fn serve(clients: &Arc<Mutex<Clients>>, mut stream: UnixStream, records: bool) -> io::Result<()> {
    let replies_to = stream.try_clone()?;
    let number = {
        let mut clients = lock(clients);
        if clients.connected.len() >= MOST_CLIENTS {
            return Err(io::Error::other("it has as many clients as it may"));
        }
        clients.next = clients.next.wrapping_add(1);
        let number = clients.next;
        clients.connected.insert(number, Connected { client: Client::new(number, records), stream: replies_to });
        number
    };
    let clients = Arc::clone(clients);
    thread::Builder::new().name("sound-client".into()).spawn(move || {
        let mut bytes = vec![0; READ];
        while let Ok(count) = stream.read(&mut bytes) {
            let mut clients = lock(&clients);
            let Some(connected) = clients.connected.get_mut(&number).filter(|_| count > 0) else { break };
            let heard = connected.client.on_bytes(&bytes[..count]);
            if let Err(error) = &heard {
                tracing::debug!(%error, "a client of the sound server says what is not understood");
            }
            if !connected.send_replies() || heard.is_err() {
                break;
            }
        }
        lock(&clients).connected.remove(&number);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    })?;
    Ok(())
}

fn lock(clients: &Mutex<Clients>) -> MutexGuard<'_, Clients> {
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}
