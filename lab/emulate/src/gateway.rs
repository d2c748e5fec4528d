//! From the far end of a link to the host's services, where the far end is not the host itself: TCP streams and UDP datagrams
//! are forwarded without additional delay or loss.
//!
//! Not supported: ECN marks of datagrams, and protocols other than TCP and UDP.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, oneshot};

use crate::translate::port_of;

/// Maximum number of concurrent streams. Guess: more than a browser opens.
const MAX_STREAMS: usize = 512;

/// Maximum number of datagram flows: senders times the ports that they send to. Guess.
const MAX_FLOWS: usize = 1_024;

/// Idle timeout of a datagram flow. RFC 4787 requires at least two minutes of a NAT.
const FLOW_IDLE_TIMEOUT: Duration = Duration::from_mins(2);

/// Size of the read buffer in bytes: the longest datagram.
const READ_BUFFER: usize = 65_535;

/// The destination of streams and datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// The host's port that is encoded in their destination address.
    Ports,
    /// One service, regardless of the address.
    Service(SocketAddr),
}

impl Target {
    fn of(self, local: IpAddr) -> Option<SocketAddr> {
        match (self, local) {
            (Self::Service(service), _) => Some(service),
            (Self::Ports, IpAddr::V4(local)) => port_of(local).map(|port| (Ipv4Addr::LOCALHOST, port).into()),
            (Self::Ports, IpAddr::V6(_)) => None,
        }
    }
}

/// The forwarding thread. It ends when this is dropped.
pub(crate) struct Gateway {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Serves listening, non-blocking sockets.
    pub(crate) fn start(
        listener: std::net::TcpListener,
        datagrams: Option<std::net::UdpSocket>,
        target: Target,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let (listener, datagrams) = {
            let _context = runtime.enter();
            (TcpListener::from_std(listener)?, datagrams.map(UdpSocket::from_std).transpose()?)
        };
        let serve = async move {
            tokio::join!(pass_streams(listener, target), pass_datagrams(datagrams, target));
        };
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new().name("gateway".into()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; the link ends either way.
            let _ = thread.join();
        }
    }
}

async fn pass_streams(listener: TcpListener, target: Target) {
    let places = Arc::new(Semaphore::new(MAX_STREAMS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files, which is temporary.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let target = stream.local_addr().ok().and_then(|local| target.of(local.ip()));
        tokio::spawn(async move {
            if let Some(target) = target {
                pass_stream(stream, target).await;
            }
            drop(place);
        });
    }
}

async fn pass_stream(mut inside: TcpStream, target: SocketAddr) {
    let Ok(mut service) = TcpStream::connect(target).await else {
        // Nobody listens there: let the client see a reset, as it would without a gateway.
        let _ = inside.set_zero_linger();
        return;
    };
    let _ = (inside.set_nodelay(true), service.set_nodelay(true));
    // Either end may disconnect, which closes the other.
    let _ = tokio::io::copy_bidirectional(&mut inside, &mut service).await;
}

/// One sender inside and the port that it sends to.
struct Flow {
    socket: Arc<UdpSocket>,
    active: Arc<AtomicBool>,
    answers: tokio::task::JoinHandle<()>,
}

/// The socket of the far end and what it can do.
struct FarSocket {
    socket: UdpSocket,
    state: UdpSocketState,
}

async fn pass_datagrams(socket: Option<UdpSocket>, target: Target) {
    let Some(socket) = socket else { return };
    let Ok(state) = UdpSocketState::new((&socket).into()) else { return };
    let inside = Arc::new(FarSocket { socket, state });
    let mut flows: BTreeMap<(SocketAddr, SocketAddr), Flow> = BTreeMap::new();
    let mut buffer = vec![0; READ_BUFFER];
    loop {
        let mut meta = [RecvMeta::default()];
        let read = || inside.state.recv((&inside.socket).into(), &mut [IoSliceMut::new(&mut buffer)], &mut meta);
        if inside.socket.async_io(Interest::READABLE, read).await.is_err() {
            continue;
        }
        let RecvMeta { addr, len, stride, dst_ip: Some(local), .. } = meta[0] else { continue };
        let Some(service) = target.of(local) else { continue };
        if flows.get(&(addr, service)).is_none_or(|flow| flow.answers.is_finished()) {
            if flows.len() >= MAX_FLOWS {
                flows.retain(|_, flow| !flow.answers.is_finished());
            }
            let opened = if flows.len() < MAX_FLOWS { open(&inside, addr, local, service).await } else { None };
            let Some(flow) = opened else { continue };
            flows.insert((addr, service), flow);
        }
        let flow = &flows[&(addr, service)];
        flow.active.store(true, Ordering::Relaxed);
        for datagram in buffer[..len].chunks(stride.max(1)) {
            // A service that is not there or does not read: its datagrams are lost, as they would be without a gateway.
            let _ = flow.socket.send(datagram).await;
        }
    }
}

/// A flow to the service, and a task that carries its answers back.
async fn open(inside: &Arc<FarSocket>, client: SocketAddr, local: IpAddr, service: SocketAddr) -> Option<Flow> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.ok()?;
    socket.connect(service).await.ok()?;
    let (socket, active) = (Arc::new(socket), Arc::new(AtomicBool::new(true)));
    let (inside, from, used) = (Arc::clone(inside), Arc::clone(&socket), Arc::clone(&active));
    let answers = tokio::spawn(async move {
        let mut buffer = vec![0; READ_BUFFER];
        loop {
            match tokio::time::timeout(FLOW_IDLE_TIMEOUT, from.recv(&mut buffer)).await {
                Err(_) if !used.swap(false, Ordering::Relaxed) => return,
                // There was traffic in the other direction, or the service was briefly unavailable.
                Err(_) | Ok(Err(_)) => {}
                Ok(Ok(length)) => {
                    let contents = &buffer[..length];
                    let answer =
                        Transmit { destination: client, ecn: None, contents, segment_size: None, src_ip: Some(local) };
                    let send = || inside.state.try_send((&inside.socket).into(), &answer);
                    let _ = inside.socket.async_io(Interest::WRITABLE, send).await;
                }
            }
        }
    });
    Some(Flow { socket, active, answers })
}
