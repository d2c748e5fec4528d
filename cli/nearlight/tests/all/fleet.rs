//! Rooms that two servers share through a NATS server, as processes. No timing is asserted but that of seconds.
#![cfg(feature = "fleet")]
#![expect(clippy::disallowed_methods, reason = "a test that waits for other processes")]

mod doors;

use crate::nats;
use crate::support;
use std::process::Stdio;
use std::time::Duration;

use nats::{Nats, terminate};
use serde_json::Value;
use support::nearlight;

/// A crowd on all of these servers, while `meanwhile` happens.
fn crowd(links: &[&str], seconds: &str, meanwhile: impl FnOnce()) -> Value {
    let child = nearlight()
        .arg("swarm")
        .args(links)
        .args(["--json", "--clients", "8", "--behaviour", "collaborate,walk", "--seconds", seconds])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    meanwhile();
    let output = child.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON: {error}: {words}"))
}

fn count(figures: &Value, name: &str) -> u64 {
    figures[name].as_u64().unwrap_or_else(|| panic!("{name} of {figures}"))
}

#[test]
fn members_of_two_servers_see_the_same_room() {
    let nats = Nats::start("nats-shared");
    let (first, second) = (nats.server(), nats.server());
    let figures = crowd(&[&first.1, &second.1], "5", || {});
    assert_eq!((count(&figures, "joined"), count(&figures, "compared")), (8, 8), "{figures}");
    assert_eq!(count(&figures, "disagreeing"), 0, "{figures}");
    // An action counts as shared by all when every member has seen it, on whichever server.
    assert_eq!(count(&figures, "lost_events"), 0, "{figures}");
    assert!(count(&figures, "shared_actions") > 8, "{figures}");
    assert_eq!(figures["moved_ms"], Value::Null, "{figures}");
}

#[test]
fn members_survive_the_death_of_the_owner_and_a_restart_of_nats() {
    let mut nats = Nats::start("nats-failing");
    let (mut first, second) = (nats.server(), nats.server());
    let figures = crowd(&[&first.1, &second.1], "14", || {
        std::thread::sleep(Duration::from_secs(6));
        nats.restart();
        std::thread::sleep(Duration::from_secs(4));
        // Its members came first, so it owns the room.
        first.0.kill();
    });
    assert_eq!((count(&figures, "joined"), count(&figures, "compared")), (8, 8), "{figures}");
    assert_eq!(count(&figures, "disagreeing"), 0, "{figures}");
    assert_eq!(figures["ended"].as_object().map(serde_json::Map::len), Some(0), "{figures}");
    assert_eq!(figures["moved_ms"]["count"], 4, "those of the server that was killed: {figures}");
    assert!(figures["moved_ms"]["max"].as_f64().is_some_and(|longest| longest < 10_000.0), "{figures}");
}

#[test]
fn a_server_that_closes_hands_its_members_over() {
    let nats = Nats::start("nats-draining");
    let (mut first, second) = (nats.server(), nats.server());
    let figures = crowd(&[&first.1, &second.1], "8", || {
        std::thread::sleep(Duration::from_secs(6));
        terminate(&mut first.0);
    });
    assert_eq!((count(&figures, "joined"), count(&figures, "compared")), (8, 8), "{figures}");
    assert_eq!(count(&figures, "disagreeing"), 0, "{figures}");
    assert_eq!(figures["moved_ms"]["count"], 4, "{figures}");
}
