//! What a running server may still do.
#![cfg(target_os = "linux")]

use crate::support;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

/// The lines of every thread's status that begin with one of these names.
fn statuses(process: u32, names: &[&str]) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    let texts = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    lines.filter(|line| names.iter().any(|name| line.starts_with(name))).collect()
}

#[test]
fn no_thread_of_a_server_keeps_capabilities_or_all_system_calls() {
    for (option, confined) in [("on", true), ("off", false)] {
        let (mut child, _) = support::serve(&["--test-card", "--sandbox", option]);
        let found = statuses(child.id(), &["CapPrm:", "CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:"]);
        child.kill().and_then(|()| child.wait()).expect("it runs");
        assert!(found.len() >= 5 * 3, "few threads: {found:?}");
        let expected = |line: &String| match line.split_once(":\t").expect("a name and a value") {
            ("NoNewPrivs", value) => value == "1",
            ("Seccomp", value) => value == "2",
            // Only root may shrink the bounding set, which grants nothing by itself.
            ("CapBnd", value) => value == "0000000000000000" || !is_root(),
            (_, value) => value == "0000000000000000",
        };
        assert_eq!(found.iter().all(expected), confined, "--sandbox {option}: {found:?}");
    }
}

/// The users of a process's children.
fn users_of_children(process: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("processes");
    let statuses = processes.filter_map(|found| fs::read_to_string(found.ok()?.path().join("status")).ok());
    let value = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().unwrap_or_default().to_owned()
    };
    let children = statuses.filter(|status| value(status, "PPid:") == process.to_string());
    children.map(|status| value(&status, "Uid:")).collect()
}

#[test]
fn a_film_is_decoded_by_the_user_that_the_server_becomes_and_never_by_root() {
    if !is_root() {
        return;
    }
    let file = std::env::temp_dir().join(format!("nearlight-sandbox-{}.mkv", std::process::id()));
    let film = ["-nostdin", "-loglevel", "error", "-y", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=20:duration=1"];
    let made = Command::new("ffmpeg").args(film).args(["-c:v", "mpeg4"]).arg(&file).status();
    assert!(made.expect("the program ffmpeg; apt install ffmpeg").success());
    let name = file.to_str().expect("text");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let (mut child, _) = support::serve(&["--video", name, "--user", "nobody"]);
    let users = users_of_children(child.id());
    let own = statuses(child.id(), &["Uid:"]);
    child.kill().and_then(|()| child.wait()).expect("it runs");
    assert!(!users.is_empty() && users.iter().all(|user| user != "0"), "{users:?}");
    assert!(own.iter().all(|line| !line.contains("\t0")), "{own:?}");
    // Otherwise it would fail when the film begins again.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let refused = support::nearlight().args(["serve", "--port", "0", "--user", "nobody", "--video", name]).output();
    let _ = fs::remove_file(&file);
    let refused = refused.expect("the command starts");
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && words.contains("films are decoded as the user nobody"), "{words}");
}

#[test]
fn the_events_of_a_server_that_becomes_another_user_are_in_roots_file() {
    let file = std::env::temp_dir().join(format!("nearlight-sandbox-{}.jsonl", std::process::id()));
    let (mut child, first) = support::serve(&["--test-card", "--events", file.to_str().expect("text")]);
    let url = first["url"].as_str().expect("a link");
    let viewed = support::nearlight().args(["view", url, "--headless", "--seconds", "1", "--json"]).output();
    assert!(viewed.expect("the command starts").status.success());
    child.kill().and_then(|()| child.wait()).expect("it runs");
    let mode = fs::metadata(&file).expect("the file").permissions().mode() & 0o777;
    let lines = fs::read_to_string(&file).expect("text").lines().count();
    let _ = fs::remove_file(&file);
    assert_eq!(mode, 0o600);
    assert!(lines > 0, "events are written");
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("CapEff:\t000001"))
}
