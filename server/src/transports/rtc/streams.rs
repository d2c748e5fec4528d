//! Datagrams over TCP connections, which clients open if their network blocks UDP (RFC 6544). Each datagram is preceded by its length in
//! two bytes (RFC 4571).

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use nearlight_net::PageStream;
use nearlight_units::{Span, lock};
use nearlight_webrtc::Remote;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::socket::RtcEndpoint;

/// Datagrams that may wait for one connection: a sixth of a second at 20 Mb/s. Further ones are dropped, as in a full network queue.
const MAX_QUEUED_DATAGRAMS: usize = 384;
/// Largest datagram of WebRTC.
const MAX_DATAGRAM_BYTES: usize = 2_048;
const LENGTH_BYTES: usize = 2;
/// Longest time from accepting a connection to the end of its first datagram. Guess: two retransmissions of TCP's first packet fit.
const FIRST_DATAGRAM_LIMIT: Span = Span::from_secs(5);
/// Time without a complete datagram after which a client is gone. A client checks every few seconds that the path works (RFC 7675).
const SILENCE_LIMIT: Span = Span::from_secs(30);
/// Longest time that a write may take; a client that accepts no data for longer is gone.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

type Queue = mpsc::Sender<Vec<u8>>;

/// The queues of open connections, by the clients' addresses.
#[derive(Default)]
pub(super) struct Streams(Mutex<BTreeMap<SocketAddr, Queue>>);

impl Streams {
    fn all(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Queue>> {
        lock(&self.0)
    }

    pub(super) fn send(&self, to: SocketAddr, datagram: &[u8]) {
        let Ok(length) = u16::try_from(datagram.len()) else { return };
        if let Some(queue) = self.all().get(&to) {
            let _ = queue.try_send([&length.to_be_bytes()[..], datagram].concat());
        }
    }
}

/// Removes a connection from the list when its task ends, however it ends.
struct Entry<'a>(&'a Streams, SocketAddr);

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.all().remove(&self.1);
    }
}

/// Serves one connection until its client closes it, falls silent or sends a datagram that is for no peer.
pub(crate) async fn serve(stream: PageStream, endpoint: Arc<RtcEndpoint>) {
    let from = Remote::tcp(stream.peer());
    let (queue, waiting) = mpsc::channel(MAX_QUEUED_DATAGRAMS);
    endpoint.streams.all().insert(from.address, queue);
    let _entry = Entry(&endpoint.streams, from.address);
    if let Err(error) = carry(stream, &endpoint, from, waiting).await {
        tracing::debug!(client = %from.address, %error, "a WebRTC client's TCP connection ended");
    }
}

async fn carry(
    mut stream: PageStream,
    endpoint: &RtcEndpoint,
    from: Remote,
    mut waiting: mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    let clock = stream.clock();
    let mut reservation = Some(stream.reservation());
    let mut read = BytesMut::with_capacity(2 * MAX_DATAGRAM_BYTES);
    let mut batch = Vec::new();
    // Only complete datagrams extend the deadline. Otherwise a client that sends single bytes would stay for ever.
    let mut deadline = stream.accepted_at() + FIRST_DATAGRAM_LIMIT;
    loop {
        tokio::select! {
            count = stream.read_buf(&mut read) => {
                if count? == 0 {
                    return Ok(());
                }
                while let Some(datagram) = next_datagram(&mut read)? {
                    if !endpoint.dispatch(from, &datagram) {
                        return Err(io::Error::other("it sent a datagram that belongs to no session"));
                    }
                    if let Some(reservation) = reservation.take() {
                        reservation.claim();
                    }
                    deadline = clock.now() + SILENCE_LIMIT;
                }
            }
            () = clock.sleep_until(deadline) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it has sent no complete datagram for too long"));
            }
            Some(datagram) = waiting.recv() => {
                batch.clear();
                batch.extend_from_slice(&datagram);
                while let Ok(datagram) = waiting.try_recv() {
                    batch.extend_from_slice(&datagram);
                }
                tokio::time::timeout(WRITE_LIMIT, stream.write_all(&batch)).await??;
            }
        }
    }
}

/// Removes and returns the next complete datagram of a stream, or none if it is incomplete.
fn next_datagram(read: &mut BytesMut) -> io::Result<Option<BytesMut>> {
    let Some(length) = read.first_chunk::<LENGTH_BYTES>().map(|length| usize::from(u16::from_be_bytes(*length))) else {
        return Ok(None);
    };
    if length > MAX_DATAGRAM_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its datagrams are longer than WebRTC's"));
    }
    if read.len() < LENGTH_BYTES + length {
        return Ok(None);
    }
    read.advance(LENGTH_BYTES);
    Ok(Some(read.split_to(length)))
}

#[cfg(test)]
mod tests {
    use nearlight_net::{Clock, Identity, ListenOptions, Listener, bind_udp};
    use nearlight_webrtc::Certificate;

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

    #[tokio::test]
    async fn bytes_that_never_become_a_datagram_are_not_waited_for() {
        let clock = Clock::start();
        let identity = Identity::self_signed(&[]).expect("a certificate");
        let listener = Listener::bind(&ListenOptions::default(), &identity, clock).expect("a free port");
        let server = SocketAddr::from(([127, 0, 0, 1], listener.port()));
        let socket = bind_udp(None, 0).expect("a free port");
        let certificate = Certificate::generate().expect("a certificate");
        let endpoint = RtcEndpoint::new(socket, &[], &[], listener.port(), certificate, clock).expect("a socket");
        let endpoint = Arc::new(endpoint);
        let mut client = tokio::net::TcpStream::connect(server).await.expect("the port is open");
        client.write_all(&[1, 0]).await.expect("sent");
        let stream = listener.accept_page().await.expect("a connection");
        assert!(stream.framed());
        let served = tokio::spawn(serve(stream, Arc::clone(&endpoint)));
        let trickle = async {
            while client.write_all(&[0]).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            served = tokio::time::timeout(Duration::from_secs(20), served) => served.expect("ended").expect("a task"),
            never = trickle => never,
        }
        assert!(endpoint.streams.all().is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_end_as_datagrams_a_rest_or_a_refusal(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..3_000)) {
            let (mut read, mut taken) = (BytesMut::from(&bytes[..]), 0);
            let refused = loop {
                match next_datagram(&mut read) {
                    Ok(Some(datagram)) => taken += LENGTH_BYTES + datagram.len(),
                    Ok(None) => break false,
                    Err(_) => break true,
                }
            };
            proptest::prop_assert_eq!(&read[..], &bytes[taken..], "nothing is left out");
            proptest::prop_assert!(refused || read.len() < LENGTH_BYTES + MAX_DATAGRAM_BYTES, "what waits for its end is bounded");
        }
    }
}
