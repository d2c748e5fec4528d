//! Endless offers, with a token and without.

use std::net::SocketAddr;
use std::time::Duration;

use nearlight_units::Time;
use nearlight_webrtc::player::Player;
use serde_json::Value;

use super::server::Server;
use super::{Client, clock};
use crate::support::TOKEN;

#[expect(clippy::disallowed_methods, reason = "a driver: nothing else says when a wait of the server's is over")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Status and wait of the responses to this many offers.
fn flood(server: &Server, offer: &str, count: usize) -> Vec<(u16, Option<u32>)> {
    let answers = (0..count).map(|_| server.offer(TOKEN, offer));
    answers.map(|answer| (answer.status, answer.header("retry-after").and_then(|wait| wait.parse().ok()))).collect()
}

#[test]
fn floods_of_offers_are_told_to_wait() {
    let local: SocketAddr = "127.0.0.1:9".parse().expect("an address");
    let offer = Player::new(Time::ZERO, clock(), local, false).expect("an offer").1;
    // A client that knows the token may take all places, and not one more; only this address is to blame that they do not connect.
    let server = Server::start(&["--max-clients", "2"]);
    let answers = flood(&server, &offer, 8);
    assert_eq!(answers.iter().filter(|(status, _)| *status == 201).count(), 2, "{answers:?}");
    assert!(
        answers[2..].iter().all(|(status, wait)| *status == 429 && wait.is_some_and(|wait| wait <= 5)),
        "{answers:?}"
    );
    // A place without a connection is given to another client after five seconds.
    pause(Duration::from_millis(5_200));
    let (mut client, _) = Client::connect(&server);
    client.run(|client| client.frames.len() >= 3);
    drop(server);
    // Ending each session at once does not help.
    let server = Server::start(&[]);
    let authorization = format!("Bearer {TOKEN}");
    let statuses: Vec<u16> = (0..40)
        .map(|_| {
            let answer = server.offer(TOKEN, &offer);
            if let Some(location) = answer.header("location") {
                assert_eq!(server.ask("DELETE", location, &[("Authorization", &authorization)], "").status, 200);
            }
            answer.status
        })
        .collect();
    let made = statuses.iter().filter(|status| **status == 201).count();
    assert!((16..=20).contains(&made) && statuses.iter().all(|status| matches!(status, 201 | 429)), "{statuses:?}");
}

#[test]
fn strangers_keep_nobody_with_the_token_out() {
    let local: SocketAddr = "127.0.0.1:9".parse().expect("an address");
    let offer = Player::new(Time::ZERO, clock(), local, false).expect("an offer").1;
    let server = Server::start(&["--max-clients", "2", "--unity-render-streaming"]);
    let json = ("Content-Type", "application/json");
    let mut sessions = Vec::new();
    // Until all sessions of this address are taken.
    while let Ok(session) = serde_json::from_str::<Value>(&server.ask("PUT", "/signaling", &[], "").body)
        && let Some(name) = session["sessionId"].as_str()
    {
        sessions.push(name.to_owned());
    }
    assert!((8..=64).contains(&sessions.len()), "{} sessions", sessions.len());
    let say = |session: &str, sdp: &str| {
        let body = serde_json::json!({ "connectionId": "a", "sdp": sdp }).to_string();
        server.ask("POST", "/signaling/offer", &[json, ("Session-Id", session)], &body)
    };
    assert_eq!(say(&sessions[0], "v=0\r\ngarbage").status, 400);
    let statuses: Vec<u16> = sessions.iter().chain(&sessions).map(|session| say(session, &offer).status).collect();
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
    let reported = |session: &String| server.ask("GET", "/signaling", &[("Session-Id", session)], "").body;
    let mut waits = 0;
    while !sessions.iter().map(reported).any(|body| body.contains("have not connected")) {
        assert!(waits < 50, "a client hears why it has no place");
        waits += 1;
        pause(Duration::from_millis(20));
    }
    // The owner comes from the same address, on which strangers hold all the places they may.
    let (mut client, _) = Client::connect(&server);
    client.run(|client| client.frames.len() >= 3);
    let (mut second, _) = Client::connect(&server);
    second.run(|client| client.frames.len() >= 3);
    assert_eq!(server.offer(TOKEN, &offer).status, 503, "two real sessions are as many as there may be");
}

/// A client that leaves, or whose session the server has ended meanwhile, has done nothing wrong.
#[test]
fn sessions_that_are_left_twice_are_no_warning_in_the_log() {
    let local: SocketAddr = "127.0.0.1:9".parse().expect("an address");
    let offer = Player::new(Time::ZERO, clock(), local, false).expect("an offer").1;
    let path = std::env::temp_dir().join(format!("nearlight-whep-{}.log", std::process::id()));
    let log = std::fs::File::create(&path).expect("a file for the log");
    let server = Server::start_with_log(log.into(), &[]);
    let authorization = format!("Bearer {TOKEN}");
    let answer = server.offer(TOKEN, &offer);
    let location = answer.header("location").expect("a session");
    let leave = || server.ask("DELETE", location, &[("Authorization", &authorization)], "").status;
    assert_eq!([leave(), leave()], [200, 404]);
    // A session that nobody connects to ends after five seconds, and then the client leaves.
    let answer = server.offer(TOKEN, &offer);
    let location = answer.header("location").expect("a session");
    pause(Duration::from_millis(5_500));
    assert_eq!(server.ask("DELETE", location, &[("Authorization", &authorization)], "").status, 200);
    // What is refused for a reason is logged.
    assert_eq!(server.offer("wrong", &offer).status, 401);
    drop(server);
    let log = std::fs::read_to_string(&path).expect("the log");
    let refusals: Vec<&str> = log.lines().filter(|line| line.contains("a request was refused")).collect();
    assert!(matches!(refusals[..], [line] if line.contains("401")), "{log}");
    let _ = std::fs::remove_file(path);
}
