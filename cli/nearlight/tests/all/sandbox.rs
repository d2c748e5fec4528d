//! What a running server may still do.
#![cfg(target_os = "linux")]

use crate::support;
use std::fs;

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

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("CapEff:\t000001"))
}
