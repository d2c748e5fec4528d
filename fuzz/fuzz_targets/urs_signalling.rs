#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use nearlight_units::Time;
use nearlight_urs::signalling::{Command, Guest, Method, Mode, Request, Signalling};

// Lines, each from one of two clients: over WebSocket and as the bodies of requests. Peers answer whatever they are asked.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let from = Guest { address: IpAddr::V4(Ipv4Addr::LOCALHOST), trusted: false };
    let mut signalling = Signalling::new(Mode::Private, 0, Box::new(|_, _, _| Ok(())));
    let socket = signalling.on_websocket(Time::ZERO, from).expect("a place");
    let request = |method, what, body| Request {
        method,
        what,
        session: Some("session"),
        from_time: 0,
        body,
        from,
        new_session: "session",
    };
    signalling.on_request(Time::ZERO, &request(Method::Put, "", ""));
    for (number, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
        let now = Time::from_millis(number as u64 * 500);
        signalling.on_text(now, socket, line);
        for (method, what) in [
            (Method::Put, "connection"),
            (Method::Post, "offer"),
            (Method::Post, "answer"),
            (Method::Post, "candidate"),
            (Method::Delete, "connection"),
            (Method::Get, ""),
        ] {
            signalling.on_request(now, &request(method, what, line));
        }
        while let Some(order) = signalling.poll_command() {
            match order {
                Command::Answer(peer, _) => signalling.on_answer(now, peer, Ok("v=0".into())),
                Command::Offer(peer) => signalling.on_offer(now, peer, Ok("v=0".into())),
                _ => {}
            }
        }
    }
});
