//! A player that shares no code with the server: aiortc, as Debian and Ubuntu package it.

use std::process::Command;

use serde_json::Value;

use super::server::Server;
use crate::support::TOKEN;

/// The system's own Python: another one, such as a user's, does not see the distribution's packages.
const PYTHON: &str = "/usr/bin/python3";

/// What the player saw until it ended the session.
fn play(codec: &str) -> Value {
    // At this rate a receiver that a busy machine stalls for a second has all of it in its socket's buffer afterwards.
    let server = Server::start(&["--codec", codec, "--rate", "1mbit", "--max-rate", "1mbit"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/whep/aiortc_player.py");
    let url = format!("http://127.0.0.1:{}/whep", server.port);
    let output = Command::new(PYTHON)
        .args([script, &url, TOKEN, codec, "60", "100"])
        .output()
        .expect("Python, which the package `python3-aiortc` brings along");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the player failed (its package is `python3-aiortc`): {errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {errors}"))
}

#[test]
fn a_packaged_player_plays_both_codecs_and_sound_and_ends_its_session() {
    for codec in ["h264", "vp8"] {
        let seen = play(codec);
        assert_eq!(seen["post"], 201, "{codec}: {seen}");
        assert_eq!(seen["failure"], Value::Null, "{codec}: {seen}");
        assert_eq!(
            (&seen["pictures"], &seen["sizes"]),
            (&60.into(), &serde_json::json!({"320x240": 60})),
            "{codec}: {seen}"
        );
        assert_eq!(seen["codec"], format!("video/{}", codec.to_ascii_uppercase()), "{seen}");
        assert!(seen["contrast"].as_u64().is_some_and(|levels| levels > 100), "the world has light and dark: {seen}");
        assert!(seen["sound_packets"].as_u64().is_some_and(|packets| packets >= 100), "{codec}: {seen}");
        assert_eq!(seen["delete"], 200, "{codec}: {seen}");
        assert_eq!(seen["ended"], true, "the server closes the connection: {seen}");
        assert_eq!(seen["delete_again"], 404, "{codec}: {seen}");
    }
}
