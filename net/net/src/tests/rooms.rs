//! Sessions of members of rooms, in which QUIC's own congestion control decides.

use super::*;

#[tokio::test]
async fn congestion_control_decides_in_the_sessions_that_want_it_and_in_no_others() {
    const COUNT: usize = 100;
    // quinn counts some bytes of its own for each datagram, and for the next one.
    const EMPTY: usize = 1_000;
    let server = Server::start();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let open = Arc::new(AtomicBool::new(true));
    let is_open = Arc::clone(&open);
    tokio::spawn(relay(socket, server.address(), move |_, _| is_open.load(Ordering::Relaxed)));
    let options = ConnectOptions { port, kind: SessionKind::Room, ..server.options(server.trust()) };
    let (client, member) = tokio::join!(within(connect(&options, server.clock)), within(server.listener.accept()));
    let (client, member) = (client.unwrap(), member.unwrap());
    let (_other, media) = server.pair().await;
    assert_eq!((member.kind(), media.kind()), (SessionKind::Room, SessionKind::Media));
    assert!(member.network().is_none() && member.is_uncontrolled());
    member.set_congestion_control();
    assert!(!member.is_uncontrolled() && media.is_uncontrolled(), "of one session alone");
    let (rate, round_trip) = member.network().unwrap();
    assert!(rate.as_bps() > 0 && round_trip > Span::ZERO, "{rate} {round_trip}");
    reaches(&member, &client).await;

    // A window's worth is in flight on a path that acknowledges nothing; the rest waits. Without a window everything leaves.
    open.store(false, Ordering::Relaxed);
    for session in [&member, &media] {
        for _ in 0..COUNT {
            session.send_datagram(Bytes::from(vec![0; 1_000])).unwrap();
        }
    }
    within(async {
        while media.unsent_datagrams() > EMPTY {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let waiting = member.unsent_datagrams();
    assert!(waiting > COUNT * 1_000 / 2, "{waiting} bytes wait");
    open.store(true, Ordering::Relaxed);
    within(async {
        while member.unsent_datagrams() > EMPTY {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn messages_of_rooms_follow_control_messages_and_the_end_is_seen() {
    let server = Server::start();
    let (client, accepted) = server.pair().await;
    let (mut to_server, _from_server) = client.open_control().await.unwrap();
    to_server.send(&ClientMessage::Goodbye).await.unwrap();
    let long = vec![7; 100_000];
    to_server.send_bytes(&long[..3]).await.unwrap();
    let (_to_client, mut from_client) = within(accepted.accept_control()).await.unwrap();
    assert_eq!(within(from_client.recv()).await.unwrap(), ClientMessage::Goodbye);
    assert_eq!(within(from_client.recv_bytes(3)).await.unwrap(), long[..3]);
    let (sent, received) =
        within(async { tokio::join!(to_server.send_bytes(&long), from_client.recv_bytes(100_000)) }).await;
    sent.unwrap();
    assert_eq!(received.unwrap(), long);
    within(async {
        tokio::join!(to_server.finish(), async {
            assert!(matches!(from_client.recv_bytes(1).await, Err(NetError::ControlEnded)));
        })
    })
    .await;
}
