//! Datagrams through TCP connections that clients open where their network lets no UDP through (RFC 6544): each behind its length in
//! two bytes (RFC 4571).

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use nearlight_net::PageStream;
use nearlight_webrtc::Remote;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::socket::Exchange;

/// Datagrams that wait for one connection; more are lost as in a full queue of the network's. A sixth of a second at 20 Mb/s.
const WAITING: usize = 384;
/// Longer ones are none of WebRTC's.
const LONGEST: usize = 2_048;
const LENGTH: usize = 2;
/// A client checks every few seconds that the way is still there (RFC 7675); a silent one has gone.
const SILENCE: Duration = Duration::from_secs(30);
/// A client that takes nothing for so long has gone.
const STUCK: Duration = Duration::from_secs(5);

type Queue = mpsc::Sender<Vec<u8>>;

/// Open connections by their clients' addresses.
#[derive(Default)]
pub(super) struct Streams(Mutex<BTreeMap<SocketAddr, Queue>>);

impl Streams {
    fn all(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn send(&self, to: SocketAddr, datagram: &[u8]) {
        let Ok(length) = u16::try_from(datagram.len()) else { return };
        if let Some(queue) = self.all().get(&to) {
            let _ = queue.try_send([&length.to_be_bytes()[..], datagram].concat());
        }
    }
}

/// Takes a connection's address out of the list when its task ends, however it ends.
struct Entry<'a>(&'a Streams, SocketAddr);

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.all().remove(&self.1);
    }
}

/// Serves one connection until its client closes it, falls silent or sends what is for nobody.
pub(crate) async fn serve(stream: PageStream, exchange: Arc<Exchange>) {
    let from = Remote::tcp(stream.peer());
    let (queue, waiting) = mpsc::channel(WAITING);
    exchange.streams.all().insert(from.address, queue);
    let _entry = Entry(&exchange.streams, from.address);
    if let Err(error) = carry(stream, &exchange, from, waiting).await {
        tracing::debug!(client = %from.address, %error, "a WebRTC client's TCP connection ended");
    }
}

async fn carry(
    mut stream: PageStream,
    exchange: &Exchange,
    from: Remote,
    mut waiting: mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    let mut read = BytesMut::with_capacity(2 * LONGEST);
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            count = tokio::time::timeout(SILENCE, stream.read_buf(&mut read)) => {
                if count?? == 0 {
                    return Ok(());
                }
                while let Some(datagram) = next_datagram(&mut read)? {
                    if !exchange.take_in(from, &datagram) {
                        return Err(io::Error::other("it sent what is for nobody"));
                    }
                }
            }
            Some(datagram) = waiting.recv() => {
                batch.clear();
                batch.extend_from_slice(&datagram);
                while let Ok(datagram) = waiting.try_recv() {
                    batch.extend_from_slice(&datagram);
                }
                tokio::time::timeout(STUCK, stream.write_all(&batch)).await??;
            }
        }
    }
}

/// The next whole datagram of a stream.
fn next_datagram(read: &mut BytesMut) -> io::Result<Option<BytesMut>> {
    let Some(length) = read.first_chunk::<LENGTH>().map(|length| usize::from(u16::from_be_bytes(*length))) else {
        return Ok(None);
    };
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its datagrams are longer than WebRTC's"));
    }
    if read.len() < LENGTH + length {
        return Ok(None);
    }
    read.advance(LENGTH);
    Ok(Some(read.split_to(length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_come_out_of_a_stream_that_is_cut_anywhere() {
        let stream = [&[0, 3, 1, 2, 3][..], &[0, 0], &[1, 0], &[7; 256]].concat();
        for piece in [1, 2, 3, 5, 1_000] {
            let (mut read, mut datagrams) = (BytesMut::new(), Vec::new());
            for bytes in stream.chunks(piece) {
                read.extend_from_slice(bytes);
                while let Some(datagram) = next_datagram(&mut read).expect("short datagrams") {
                    datagrams.push(datagram.to_vec());
                }
            }
            assert_eq!(datagrams, [vec![1, 2, 3], vec![], vec![7; 256]]);
        }
        assert!(next_datagram(&mut BytesMut::from(&[0xff, 0xff][..])).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_end_as_datagrams_a_rest_or_a_refusal(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..3_000)) {
            let (mut read, mut taken) = (BytesMut::from(&bytes[..]), 0);
            let refused = loop {
                match next_datagram(&mut read) {
                    Ok(Some(datagram)) => taken += LENGTH + datagram.len(),
                    Ok(None) => break false,
                    Err(_) => break true,
                }
            };
            proptest::prop_assert_eq!(&read[..], &bytes[taken..], "nothing is left out");
            proptest::prop_assert!(refused || read.len() < LENGTH + LONGEST, "what waits for its end is bounded");
        }
    }
}
