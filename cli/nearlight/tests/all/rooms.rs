//! Rooms with real processes: a server, and crowds of members by WebSocket and WebTransport. No timing is asserted.

use crate::process;
use crate::support;
use std::process::Output;

use process::Process;
use serde_json::Value;
use support::{TOKEN, nearlight, serve};

/// With its link.
struct Server(Process, String);

fn server(further: &[&str]) -> Server {
    let (child, first) = serve(further);
    let link = first["url"].as_str().expect("a link").to_owned();
    Server(Process(child), link)
}

fn swarm(link: &str, further: &[&str]) -> Output {
    nearlight().args(["swarm", link, "--json"]).args(further).output().expect("the command runs")
}

fn figures(output: &Output) -> Value {
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON: {error}: {words}"))
}

#[test]
fn a_hundred_members_in_two_rooms_lose_nothing_and_agree() {
    let server = server(&[]);
    let own = server.0.0.id().to_string();
    let report = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rooms.html");
    let page = report.to_str().expect("a path");
    let further =
        ["--clients", "100", "--rooms", "2", "--seconds", "6", "--behaviour", "collaborate,walk,gather,stand"];
    let output = swarm(&server.1, &[&further[..], &["--server-pid", &own, "--report", page]].concat());
    let figures = figures(&output);
    let count = |name: &str| figures[name].as_u64().unwrap_or_else(|| panic!("{name} of {figures}"));
    assert_eq!((count("joined"), count("compared")), (100, 100), "{figures}");
    assert_eq!((count("lost_events"), count("disagreeing"), count("unanswered_actions")), (0, 0, 0), "{figures}");
    assert!(count("shared_actions") > 100, "{figures}");
    assert_eq!(figures["ended"].as_object().map(serde_json::Map::len), Some(0), "{figures}");
    assert!(
        figures["received_bytes_per_neighbour_per_second"].as_f64().is_some_and(|bytes| bytes < 2_048.0),
        "{figures}"
    );
    if cfg!(target_os = "linux") {
        assert!(figures["server_cores"].as_f64().is_some(), "{figures}");
    }
    assert!(std::fs::read_to_string(&report).expect("a page").contains("Interaction latency"));
}

#[test]
fn members_of_a_crowd_speak_and_take_the_video_stream_as_its_profile_says() {
    let server = server(&[]);
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (profile, report) = (folder.join("speaking.toml"), folder.join("speaking.html"));
    let text = "speaking_share = 0.5\npacket_hz = 50\npacket_bytes = 120\nvideo_share = 0.25\nramp_seconds = 1\n";
    std::fs::write(&profile, text).expect("a file");
    let [file, page] = [&profile, &report].map(|file| file.to_str().expect("a path"));
    let further =
        ["--clients", "8", "--seconds", "5", "--carrier", "webtransport", "--profile", file, "--report", page];
    let figures = figures(&swarm(&server.1, &further));
    let (voices, video) = (&figures["voices"], &figures["video"]);
    assert_eq!(
        (&figures["joined"], &figures["lost_events"], &figures["disagreeing"]),
        (&8.into(), &0.into(), &0.into())
    );
    // Four speak to seven others, of whom each hears all: most packets, as their members join one after the other.
    let [sent, heard] = [&voices["sent"], &voices["delay_ms"]["count"]].map(|count| count.as_u64().expect("a count"));
    assert!(sent > 200 && heard > sent * 3 && heard <= sent * 7, "{figures}");
    assert_eq!((&video["clients"], &video["watched"]), (&2.into(), &2.into()), "{figures}");
    assert_eq!(video["failed"].as_object().map(serde_json::Map::len), Some(0), "{figures}");
    assert!(video["fps"].as_f64().is_some_and(|fps| fps > 1.0), "{figures}");
    assert!(video["frame_ms"]["count"].as_u64().is_some_and(|count| count > 10), "{figures}");
    let page = std::fs::read_to_string(&report).expect("a page");
    assert!(page.contains("Capture to decoder") && page.contains("until a member is heard"), "both sections");
    let refused =
        nearlight().args(["swarm", "--in-virtual-time", "--profile", file]).output().expect("the command runs");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("video_share"), "{words}");
}

#[test]
fn a_naive_broadcast_beside_it_costs_more() {
    let server = server(&[]);
    let output = swarm(&server.1, &["--clients", "12", "--seconds", "3", "--baseline", "naive"]);
    let figures = figures(&output);
    let naive = &figures["naive"];
    assert_eq!(naive["members"], 12, "{figures}");
    assert!(naive["bytes_ratio"].as_f64().is_some_and(|ratio| ratio > 2.0), "{figures}");
    assert!(naive["interaction_ms"]["count"].as_u64().is_some_and(|count| count > 0), "{figures}");
}

#[test]
fn strangers_and_those_beyond_the_limit_are_told_why() {
    let server = server(&["--max-members", "3"]);
    let wrong = server.1.replace(TOKEN, "a-wrong-token-for-the-tests");
    for carrier in ["websocket", "webtransport"] {
        let refused = swarm(&wrong, &["--carrier", carrier, "--clients", "2", "--seconds", "1"]);
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && words.contains("token is wrong"), "{words}");
        let figures = figures(&swarm(&server.1, &["--carrier", carrier, "--clients", "5", "--seconds", "2"]));
        assert_eq!((&figures["joined"], &figures["disagreeing"]), (&3.into(), &0.into()), "{figures}");
        let ended = figures["ended"].as_object().expect("reasons");
        let (words, count) = ended.iter().next().expect("one reason");
        assert!(ended.len() == 1 && count == 2 && words.contains("--max-members"), "{figures}");
    }
}

#[test]
fn the_same_crowd_in_virtual_time_has_the_same_figures_every_time() {
    let run = || {
        let arguments = ["swarm", "--in-virtual-time", "--clients", "40", "--seconds", "10", "--json"];
        figures(&nearlight().args(arguments).output().expect("the command runs"))
    };
    let first = run();
    assert_eq!(first, run());
    assert_eq!((&first["joined"], &first["rooms"], &first["disagreeing"]), (&40.into(), &2.into(), &0.into()));
    assert_eq!(first["lost_events"], 0);
}

#[test]
fn members_over_webtransport_get_poses_in_datagrams_lose_nothing_and_agree() {
    let server = server(&[]);
    // In `main` the world moves what was let go, for some seconds.
    let room = ["--carrier", "webtransport", "--room", "lab", "--clients", "12"];
    let further = ["--seconds", "4", "--behaviour", "collaborate,walk,gather"];
    let figures = figures(&swarm(&server.1, &[&room[..], &further].concat()));
    let count = |name: &str| figures[name].as_u64().unwrap_or_else(|| panic!("{name} of {figures}"));
    assert_eq!(
        (&figures["carrier"], count("joined"), count("compared")),
        (&"webtransport".into(), 12, 12),
        "{figures}"
    );
    assert_eq!((count("lost_events"), count("disagreeing"), count("unanswered_actions")), (0, 0, 0), "{figures}");
    assert!(count("shared_actions") > 5, "{figures}");
    assert_eq!(figures["ended"].as_object().map(serde_json::Map::len), Some(0), "{figures}");
    assert!(figures["datagram_share"].as_f64().is_some_and(|share| share > 0.5), "{figures}");
}
