use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use nearlight_units::{Bytes, Span};
use nearlight_wire::TcpRecovery;

use super::*;

fn connection(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("a listener");
    (one, listener.accept().expect("a connection").0)
}

#[test]
fn a_connection_tells_what_it_sent() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let (mut one, mut other) = connection(&listener);
    one.write_all(&[7; 10_000]).expect("room");
    other.read_exact(&mut [0; 10_000]).expect("data");
    let info = tcp_info(&one).expect("a TCP socket");
    assert!(info.bytes_sent >= Bytes::new(10_000) && info.segments_sent >= 1, "{info:?}");
    assert!(info.round_trip > Span::ZERO && info.congestion_window >= Bytes::new(10_000), "{info:?}");
    // The handshake counts as a byte.
    assert!(info.acknowledged.get().abs_diff(10_000) <= 1 && info.written == Bytes::new(10_000), "{info:?}");
    assert_eq!((info.recovery, info.unsent), (TcpRecovery::Open, Bytes::ZERO));
}

#[test]
fn one_socket_has_the_congestion_control_that_was_asked_for_and_another_keeps_its_own() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let (chosen, other) = (connection(&listener), connection(&listener));
    let usual = congestion_control(&other.1).expect("a TCP socket");
    set_congestion_control(&chosen.1, "reno").expect("every kernel has it, for everybody");
    assert_eq!(congestion_control(&chosen.1).expect("a TCP socket"), "reno");
    assert_eq!(congestion_control(&other.1).expect("a TCP socket"), usual);
    assert_eq!(congestion_control(&connection(&listener).1).expect("a TCP socket"), usual);
}

#[test]
fn a_name_that_does_not_exist_is_refused_with_those_that_do() {
    check_congestion_control("reno").expect("every kernel has it, for everybody");
    let refusal = check_congestion_control("no-such").expect_err("no kernel has it").to_string();
    assert!(refusal.contains("`no-such`") && refusal.contains("reno") && refusal.contains("modprobe"), "{refusal}");
}
