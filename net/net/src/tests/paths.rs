//! Clients that move, emulated paths and outages.

use super::*;

#[tokio::test]
async fn a_client_that_moves_keeps_its_session() {
    let server = Server::start();
    let (client, accepted) = server.pair().await;
    let (mut to_server, _from_server) = client.open_control().await.unwrap();
    to_server.send(&ClientMessage::Goodbye).await.unwrap();
    let (_to_client, mut from_client) = within(accepted.accept_control()).await.unwrap();
    within(from_client.recv()).await.unwrap();
    let mut ports = vec![accepted.peer().port()];
    for _ in 0..3 {
        let moved = client.rebind().unwrap();
        reaches(&client, &accepted).await;
        reaches(&accepted, &client).await;
        to_server.send(&ClientMessage::Goodbye).await.unwrap();
        within(from_client.recv()).await.unwrap();
        assert_eq!(accepted.peer().port(), moved.port());
        ports.push(moved.port());
    }
    ports.dedup();
    assert_eq!(ports.len(), 4, "each move took a new port");
    assert!(accepted.rebind().is_err(), "the server's socket is not one session's to move");
}

/// The first datagram of so many is lost by [`EveryFiftieth`].
const LOST: u32 = 50;

/// A path that loses one datagram in fifty and delays none.
struct EveryFiftieth;

impl EmulatedPath for EveryFiftieth {
    fn open(self: Box<Self>, _: Clock, _: Time, exit: PathExit) -> Box<dyn PathEntrance> {
        Box::new(std::sync::Mutex::new((0_u32, exit)))
    }
}

impl PathEntrance for std::sync::Mutex<(u32, PathExit)> {
    fn offer(&self, datagram: Bytes) {
        let (number, exit) = &mut *self.lock().unwrap();
        exit(Some(datagram).filter(|_| !number.is_multiple_of(LOST)));
        *number += 1;
    }
}

/// A path that delays every datagram by 30 ms.
struct Delay;

impl EmulatedPath for Delay {
    fn open(self: Box<Self>, _: Clock, _: Time, mut exit: PathExit) -> Box<dyn PathEntrance> {
        #[expect(clippy::disallowed_methods, reason = "a test is short, and so is its queue")]
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
        let task = tokio::spawn(async move {
            while let Some(datagram) = receiver.recv().await {
                tokio::time::sleep(Duration::from_millis(30)).await;
                exit(Some(datagram));
            }
        });
        Box::new(DelayEntrance { sender, task })
    }
}

struct DelayEntrance {
    sender: tokio::sync::mpsc::UnboundedSender<Bytes>,
    task: tokio::task::JoinHandle<()>,
}

impl PathEntrance for DelayEntrance {
    fn offer(&self, datagram: Bytes) {
        let _ = self.sender.send(datagram);
    }
}

impl Drop for DelayEntrance {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn an_emulated_path_loses_the_same_datagrams_in_both_directions() {
    let server = Server::start();
    let survives = |number: &u32| !number.is_multiple_of(LOST);
    let survivors: Vec<u32> = (0..2_000).filter(survives).collect();
    for direction in [Direction::Send, Direction::Receive] {
        let (client, accepted) = server.pair().await;
        match direction {
            Direction::Send => client.set_impairment(direction, Some(Box::new(EveryFiftieth))),
            Direction::Receive => accepted.set_impairment(direction, Some(Box::new(EveryFiftieth))),
        }
        let sending = async {
            for number in 0..2_000_u32 {
                client.send_datagram(Bytes::copy_from_slice(&number.to_be_bytes())).unwrap();
                // Lets the receiver read, so that its queue never overflows.
                tokio::task::yield_now().await;
            }
        };
        let receiving = async {
            let mut numbers = Vec::new();
            while numbers.len() < survivors.len() {
                let received = accepted.recv_datagram().await.unwrap();
                numbers.push(u32::from_be_bytes(received.datagram[..].try_into().unwrap()));
            }
            numbers
        };
        let (received, ()) = within(async { tokio::join!(receiving, sending) }).await;
        assert_eq!(received, survivors, "{direction:?}");
    }
}

#[tokio::test]
async fn a_bad_path_delays_both_directions_and_can_be_made_clean_again() {
    let server = Server::start();
    let (client, accepted) = server.pair().await;
    client.set_impairment(Direction::Send, Some(Box::new(Delay)));
    client.set_impairment(Direction::Receive, Some(Box::new(Delay)));
    let clock = Clock::start();
    client.send_datagram(Bytes::from_static(b"there")).unwrap();
    assert_eq!(within(accepted.recv_datagram()).await.unwrap().datagram, Bytes::from_static(b"there"));
    accepted.send_datagram(Bytes::from_static(b"and back")).unwrap();
    assert_eq!(within(client.recv_datagram()).await.unwrap().datagram, Bytes::from_static(b"and back"));
    assert!(clock.now() >= Time::from_millis(60), "after {:?}", clock.now());

    client.send_datagram(Bytes::from_static(b"never there")).unwrap();
    client.set_impairment(Direction::Send, None);
    client.set_impairment(Direction::Receive, None);
    assert_ne!(reaches(&client, &accepted).await.datagram, Bytes::from_static(b"never there"));
    reaches(&accepted, &client).await;
}

#[tokio::test]
async fn an_outage_loses_datagrams_and_ends() {
    let server = Server::start();
    let (client, accepted) = server.pair().await;
    reaches(&client, &accepted).await;
    client.set_outage(true);
    let before = accepted.statistics().datagrams_received;
    for _ in 0..100 {
        client.send_datagram(Bytes::from_static(b"lost")).unwrap();
    }
    assert_eq!(client.statistics().dropped_by_impairment, 100);
    client.set_outage(false);
    let received = reaches(&client, &accepted).await;
    assert_ne!(received.datagram, Bytes::from_static(b"lost"));
    assert!(accepted.statistics().datagrams_received > before);
}

/// A client whose packets come from another address once it moves. Whatever is sent there is counted, and reaches the client only if the
/// address is really its own.
#[cfg(target_os = "linux")]
struct MovingClient {
    client: Connection,
    accepted: Connection,
    moved: Arc<AtomicBool>,
    /// Bytes from the new address, and to it.
    traffic: Arc<[AtomicUsize; 2]>,
}

#[cfg(target_os = "linux")]
impl MovingClient {
    async fn start(server: &Server, is_its_own: bool) -> Self {
        let (moved, traffic) = (Arc::new(AtomicBool::new(false)), Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]));
        let (is_moved, counts, to) = (Arc::clone(&moved), Arc::clone(&traffic), server.address());
        let [near, far] = ["127.0.0.1:0", "127.0.0.3:0"].map(UdpSocket::bind);
        let (near, far) = (near.await.unwrap(), far.await.unwrap());
        let port = near.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut client, mut here, mut there) = (None, [0; 2_048], [0; 2_048]);
            loop {
                tokio::select! {
                    Ok((length, from)) = near.recv_from(&mut here) => {
                        let datagram = &here[..length];
                        if from == to {
                            near.send_to(datagram, client.unwrap()).await.unwrap();
                        } else if is_moved.load(Ordering::Relaxed) {
                            counts[0].fetch_add(length, Ordering::Relaxed);
                            far.send_to(datagram, to).await.unwrap();
                        } else {
                            client = Some(from);
                            near.send_to(datagram, to).await.unwrap();
                        }
                    }
                    Ok((length, _)) = far.recv_from(&mut there) => {
                        counts[1].fetch_add(length, Ordering::Relaxed);
                        if is_its_own {
                            near.send_to(&there[..length], client.unwrap()).await.unwrap();
                        }
                    }
                }
            }
        });
        let options = ConnectOptions { port, ..server.options(server.trust()) };
        let (client, accepted) =
            tokio::join!(within(connect(&options, server.clock)), within(server.listener.accept()));
        let (client, accepted) = (client.unwrap(), accepted.unwrap());
        reaches(&client, &accepted).await;
        reaches(&accepted, &client).await;
        Self { client, accepted, moved, traffic }
    }

    /// Sends pictures for two seconds, while the client sends a short datagram now and then.
    async fn watch(&self) {
        for number in 0..100 {
            if number % 10 == 0 {
                let _ = self.client.send_datagram(Bytes::from_static(b"here"));
            }
            for _ in 0..10 {
                let _ = self.accepted.send_datagram(Bytes::from(vec![0; 1_000]));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn traffic(&self) -> (usize, usize) {
        let [sent, drawn] = &*self.traffic;
        (sent.load(Ordering::Relaxed), drawn.load(Ordering::Relaxed))
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_forged_address_draws_no_more_than_three_times_what_is_sent_from_it() {
    let server = Server::start();
    let client = MovingClient::start(&server, false).await;
    client.moved.store(true, Ordering::Relaxed);
    client.client.send_datagram(Bytes::from_static(b"one packet")).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (sent, drawn) = client.traffic();
    assert!(sent > 0 && drawn <= 3 * sent, "{drawn} bytes for {sent}");
    client.watch().await;
    let (sent, drawn) = client.traffic();
    assert!(drawn <= 3 * sent, "{drawn} bytes for {sent}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_that_moves_to_another_address_gets_everything_there() {
    let server = Server::start();
    let client = MovingClient::start(&server, true).await;
    client.moved.store(true, Ordering::Relaxed);
    client.watch().await;
    reaches(&client.client, &client.accepted).await;
    reaches(&client.accepted, &client.client).await;
    let (sent, drawn) = client.traffic();
    assert!(drawn > 10 * sent && drawn > 500_000, "{drawn} bytes for {sent}");
}

#[tokio::test]
async fn two_seconds_without_a_path_do_not_end_a_session() {
    let server = Server::start();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let open = Arc::new(AtomicBool::new(true));
    let is_open = Arc::clone(&open);
    tokio::spawn(relay(socket, server.address(), move |_, _| is_open.load(Ordering::Relaxed)));
    let options = ConnectOptions { port, ..server.options(server.trust()) };
    let (client, accepted) = tokio::join!(within(connect(&options, server.clock)), within(server.listener.accept()));
    let (client, accepted) = (client.unwrap(), accepted.unwrap());
    let (mut to_server, _from_server) = client.open_control().await.unwrap();
    to_server.send(&ClientMessage::Goodbye).await.unwrap();
    let (_to_client, mut from_client) = within(accepted.accept_control()).await.unwrap();
    within(from_client.recv()).await.unwrap();

    open.store(false, Ordering::Relaxed);
    to_server.send(&ClientMessage::Goodbye).await.unwrap();
    for _ in 0..100 {
        // Sends at full rate during the outage: datagrams in flight must not delay later ones.
        for _ in 0..10 {
            accepted.send_datagram(Bytes::from(vec![0; 1_000])).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    open.store(true, Ordering::Relaxed);
    reaches(&accepted, &client).await;
    reaches(&client, &accepted).await;
    within(from_client.recv()).await.unwrap();
}
