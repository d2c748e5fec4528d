//! A plan over an emulated link in real time: the fields, the label, the refusals and that nothing is left behind. No timing is asserted.

use std::path::PathBuf;
use std::process::Command;

use nearlight_emulate::{Layer, Link, LinkMethod, LinkOptions, MethodChoice, OpenError};
use nearlight_link::PathSpec;
use serde_json::Value;

const PLAN: &str = r#"
question = "?"
seeds = 1
[all]
duration = "3s"
warm_up = "1s"
controllers = ["scream-v2"]
datagram = 1150
[all.source]
fps = 30
minimum = "1mbit"
start = "3mbit"
maximum = "3mbit"
[[all.path]]
name = "p"
forward = "rate=20mbit,delay=5ms"
feedback = "delay=5ms"
"#;

const TRANSFER: &str = r#"
question = "?"
seeds = 1
[all]
duration = "2s"
media = []
[[all.path]]
name = "p"
forward = "rate=10mbit,queue=50ms,delay=5ms"
feedback = "delay=5ms"
[[all.flow]]
kind = "tcp"
law = "{law}"
[[all.sweep]]
name = "law"
values = ["reno", "pcc-allegro", "copa"]
"#;

/// Whether namespaces can be created here by one of these means; prints a message if not.
fn has_namespaces(means: &[LinkMethod]) -> bool {
    let none = || PathSpec::default().load().expect("no files");
    let open = |means: &LinkMethod| {
        let wanted = MethodChoice::Only(*means);
        Link::open(&LinkOptions { up: none(), down: none(), seeds: [1, 2], layer: Layer::Ip, wanted, service: None })
    };
    let refused: Vec<OpenError> = means.iter().filter_map(|means| open(means).err()).collect();
    if refused.len() == means.len() {
        for refusal in &refused {
            eprintln!("skipped: {refusal}");
        }
    }
    refused.len() < means.len()
}

const ANY: [LinkMethod; 2] = [LinkMethod::Root, LinkMethod::User];

/// A folder of this test's own, with the plan in it.
fn scratch(name: &str, plan: &str) -> (PathBuf, PathBuf) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("small.toml");
    std::fs::write(&file, plan).expect("a plan");
    (folder, file)
}

fn lab(plan: &PathBuf, out: &PathBuf) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO_BIN_EXE_nearlight-lab").expect("cargo sets it"));
    command.args(["lab", "run", "--live", "--json"]).arg(plan).arg("--out").arg(out);
    command
}

/// Processes whose command line has this text.
fn processes_with(text: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

#[test]
fn a_plan_runs_live_and_says_so() {
    if !has_namespaces(&ANY) {
        return;
    }
    let (folder, plan) = scratch("live-run", PLAN);
    let output = lab(&plan, &folder.join("out")).output().expect("the command runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("over a link emulated with"), "which means: {words}");
    let figures: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert!(figures["live"]["means"] == "root" || figures["live"]["means"] == "user", "{figures}");
    let cell = &figures["cells"][0];
    assert_eq!(cell["labels"]["controller"], "scream-v2");
    for metric in [
        "target_mbps",
        "sent_mbps",
        "received_mbps",
        "utilisation",
        "frame_network_latency_ms",
        "frame_latency_ms",
        "one_way_delay_ms",
        "queue_delay_ms",
        "frame_drop_ratio",
        "late_frame_ratio",
    ] {
        assert!(cell["metrics"][metric]["mean"].is_number(), "{metric} is missing in {figures}");
    }
    let latency = cell["metrics"]["frame_network_latency_ms"]["p50"].as_f64().expect("a number");
    assert!(latency > 5.0, "no frame is faster than the path: {latency} ms");
    assert_eq!(processes_with(&folder.join("out").display().to_string()), 0, "a process was left behind");
}

#[test]
fn frames_over_the_kernel_s_tcp_run_live() {
    if !has_namespaces(&[LinkMethod::Root]) {
        return;
    }
    let systems = "[[all.system]]\ncontroller = \"tcp-reno\"\nkey_every = 10\n";
    let text = format!("{}{systems}", PLAN.replace("controllers = [\"scream-v2\"]\n", ""));
    let (folder, plan) = scratch("live-tcp", &text);
    let output = lab(&plan, &folder.join("out")).output().expect("the command runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let figures: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let cell = &figures["cells"][0];
    assert!(cell["labels"]["controller"] == "tcp-reno" && cell["labels"]["recovery"] == "reliable", "{figures}");
    let mean =
        |metric: &str| cell["metrics"][metric]["mean"].as_f64().unwrap_or_else(|| panic!("no {metric}: {figures}"));
    assert!(mean("frame_network_latency_ms") > 5.0 && mean("received_mbps") > 0.5, "{figures}");
    // The way there and back, and what both ends take.
    assert!(mean("motion_to_photon_ms") > 10.0, "{figures}");
    assert_eq!(processes_with(&folder.join("out").display().to_string()), 0, "a process was left behind");
}

#[test]
fn a_transfer_of_the_kernel_s_tcp_stands_beside_virtual_time_and_laws_that_no_kernel_has_are_named() {
    if !has_namespaces(&[LinkMethod::Root]) {
        return;
    }
    let (folder, plan) = scratch("live-transfer", TRANSFER);
    let output = lab(&plan, &folder.join("out")).output().expect("the command runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("no kernel implements it: copa, pcc-allegro"), "{words}");
    let figures: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let cells = figures["cells"].as_array().expect("a list");
    let times: Vec<&str> = cells.iter().filter_map(|cell| cell["labels"]["time"].as_str()).collect();
    assert_eq!(times, ["real", "virtual"], "{figures}");
    for cell in cells {
        let mean = |metric: &str| cell["metrics"][metric]["mean"].as_f64().expect("a number");
        assert!(mean("flows_mbps") > 1.0 && mean("flows_delay_ms") > 5.0, "{cell}");
    }
    assert_eq!(processes_with(&folder.join("out").display().to_string()), 0, "a process was left behind");
}

#[test]
fn interrupted_it_leaves_nothing_behind() {
    if !has_namespaces(&ANY) {
        return;
    }
    let (folder, plan) = scratch("live-interrupt", &PLAN.replace("3s", "60s"));
    let (out, name) = (folder.join("out"), folder.join("out").display().to_string());
    let mut running = lab(&plan, &out).stdout(std::process::Stdio::null()).spawn().expect("the command runs");
    while processes_with(&name) < 3 {
        assert!(running.try_wait().expect("a child").is_none(), "it ended before server and client ran");
        std::thread::yield_now();
    }
    running.kill().expect("alive");
    running.wait().expect("a child");
    while processes_with(&name) > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn what_it_cannot_do_is_refused_before_anything_starts() {
    let (folder, plan) = scratch("live-refused", &format!("{PLAN}[[all.flow]]\nkind = \"tcp\"\n"));
    let output = lab(&plan, &folder.join("out")).output().expect("the command runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("competing flows"), "{words}");
}
