//! Sessions over Ethernet frames between two network namespaces: displayed, refused, replayed, disturbed, interrupted.
//!
//! Counts and invariants; no timing is asserted. If namespaces cannot be created, a test says why and passes.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "a test that waits for a real network")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nearlight_net::link_layer::HardwareAddress;
use nearlight_net::packet::{Frames, PacketSocket};
use serde_json::Value;

const TOKEN: &str = "a-token-for-the-tests";
const SERVER: &str = "02:00:00:00:00:02";
const CLIENT: &str = "02:00:00:00:00:01";
/// The bridge's task, for the test program that is started again as the bridge.
const ROLE: &str = "NEARLIGHT_TEST_BRIDGE";

/// Two namespaces, `far` in the one and `near` in the other, and between them a third one with a bridge of ours, or none.
struct Network {
    /// Processes that hold the namespaces: client, server, and the bridge's.
    holders: Vec<Child>,
}

impl Network {
    /// A cable; prints the reason and returns None if the system does not allow it.
    fn new() -> Option<Self> {
        let network = Self { holders: vec![hold()?, hold()?] };
        let server = network.holders[1].id().to_string();
        let link = ["ip", "link", "add", "near", "address", CLIENT, "type", "veth"];
        let peer = ["peer", "name", "far", "address", SERVER, "netns", &server];
        let made = network.run_in(0, &[&link[..], &peer].concat());
        if !made.status.success() {
            eprintln!("skipped: {}", String::from_utf8_lossy(&made.stderr));
            return None;
        }
        network.set("near", 0, "up");
        network.set("far", 1, "up");
        Some(network)
    }

    /// A cable with a bridge in the middle that drops and repeats frames.
    fn with_bridge(role: &str) -> Option<(Self, Child)> {
        let network = Self { holders: vec![hold()?, hold()?, hold()?] };
        let middle = network.holders[2].id().to_string();
        for (place, own, theirs, address) in [(0, "near", "left", CLIENT), (1, "far", "right", SERVER)] {
            let link = [
                "ip", "link", "add", own, "address", address, "type", "veth", "peer", "name", theirs, "netns", &middle,
            ];
            let made = network.run_in(place, &link);
            if !made.status.success() {
                eprintln!("skipped: {}", String::from_utf8_lossy(&made.stderr));
                return None;
            }
            network.set(own, place, "up");
            network.set(theirs, 2, "up");
        }
        let program = std::env::current_exe().expect("this program");
        let mut bridge = network.command(2, program.to_str().expect("a plain path"));
        bridge.args(["--exact", "ethernet::bridge", "--ignored", "--nocapture"]).env(ROLE, role).stdout(Stdio::piped());
        let mut bridge = bridge.spawn().expect("the bridge starts");
        let lines = BufReader::new(bridge.stdout.take().expect("piped")).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("bridging")), "the bridge works");
        Some((network, bridge))
    }

    fn command(&self, place: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.holders[place].id().to_string();
        let user = if is_root() { &[][..] } else { &["--user", "--preserve-credentials"] };
        command.args(["--target", &holder, "--net"]).args(user).arg(program);
        command.env("NEARLIGHT_LOG", "warn").env_remove("NEARLIGHT_TOKEN");
        command
    }

    fn run_in(&self, place: usize, line: &[&str]) -> Output {
        self.command(place, line[0]).args(&line[1..]).output().expect("nsenter runs")
    }

    fn set(&self, interface: &str, place: usize, what: &str) {
        let output = self.run_in(place, &["ip", "link", "set", "dev", interface, what]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A server on `far`, and its link over Ethernet.
    fn serve(&self, further: &[&str]) -> (Child, String) {
        let line =
            ["serve", "--json", "--port", "0", "--test-card", "--size", "320x240", "--fps", "20", "--ethernet", "far"];
        let mut command = self.command(1, env!("CARGO_BIN_EXE_nearlight"));
        command.args(line).args(["--token", TOKEN]).args(further).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a first line");
        let first: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("`{line}` is not JSON: {error}"));
        let link = first["ethernet"][0].as_str().expect("a link over Ethernet").to_owned();
        assert_eq!(link, format!("ether:{SERVER}#token={TOKEN}"));
        (child, link)
    }

    fn watch(&self, link: &str, further: &[&str]) -> Command {
        let mut command = self.command(0, env!("CARGO_BIN_EXE_nearlight"));
        command.args(["view", link, "--headless", "--json"]).args(further);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        end(self.holders.drain(..));
    }
}

fn end(children: impl IntoIterator<Item = Child>) {
    for mut child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A process in a network namespace of its own.
fn hold() -> Option<Child> {
    let user = if is_root() { &[][..] } else { &["--user", "--map-root-user"] };
    let mut command = Command::new("unshare");
    command.args(user).args(["--net", "sh", "-c", "echo ready; exec sleep 1000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    let mut line = String::new();
    let _ = BufReader::new(child.stdout.take()?).read_line(&mut line);
    if line.trim() != "ready" {
        let output = child.wait_with_output().ok()?;
        eprintln!("skipped: no network namespace: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(child)
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Uid:\t0\t0"))
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Pictures were displayed; how many.
fn displayed(output: &Output) -> u64 {
    assert!(output.status.success(), "{}", words(output));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    summary["frames"]["displayed"].as_u64().unwrap_or_else(|| panic!("{summary}"))
}

#[test]
fn pictures_cross_a_cable_without_ip() {
    let Some(network) = Network::new() else { return };
    let (server, link) = network.serve(&["--ethernet-allow", CLIENT]);
    let watched = network.watch(&link, &["--seconds", "2"]).output().expect("it runs");
    assert!(displayed(&watched) > 10, "{}", String::from_utf8_lossy(&watched.stdout));
    // With the interface named, as on a machine with several.
    let named = link.replace("ether:", "ether:near/");
    assert!(displayed(&network.watch(&named, &["--seconds", "1"]).output().expect("it runs")) > 5);
    // Deliberate losses, as over any other transport.
    assert!(displayed(&network.watch(&link, &["--seconds", "2", "--drop", "5%"]).output().expect("it runs")) > 10);
    end([server]);
}

#[test]
fn strangers_get_no_answer_and_are_told_what_to_check() {
    let Some(network) = Network::new() else { return };
    let (server, link) = network.serve(&[]);
    let wrong = link.replace(TOKEN, "another-token-of-16-letters");
    let refused = network.watch(&wrong, &["--seconds", "1"]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(3), "{}", words(&refused));
    assert!(
        words(&refused).contains("the token that it printed") && words(&refused).contains(CLIENT),
        "{}",
        words(&refused)
    );
    end([server]);

    let (server, link) = network.serve(&["--ethernet-allow", "02:00:00:00:00:77,02:00:00:00:00:78"]);
    let refused = network.watch(&link, &["--seconds", "1"]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(3), "{}", words(&refused));
    assert!(words(&refused).contains("--ethernet-allow"), "{}", words(&refused));
    end([server]);

    let missing = network.watch("ether:nosuch0/02:00:00:00:00:02#token=x", &[]).output().expect("it runs");
    assert_eq!(missing.status.code(), Some(1));
    assert!(words(&missing).contains("no network interface nosuch0"), "{}", words(&missing));
    network.set("near", 0, "down");
    let down = network.watch("ether:near/02:00:00:00:00:02#token=x", &[]).output().expect("it runs");
    assert!(words(&down).contains("ip link set dev near up"), "{}", words(&down));
}

#[test]
fn lost_and_repeated_frames_cost_no_session() {
    for role in ["lose", "repeat"] {
        let Some((network, bridge)) = Network::with_bridge(role) else { return };
        let (server, link) = network.serve(&[]);
        let watched = network.watch(&link, &["--seconds", "3"]).env("NEARLIGHT_LOG", "nearlight_net=info").output();
        let watched = watched.expect("it runs");
        assert!(displayed(&watched) > 15, "{role}: {}", String::from_utf8_lossy(&watched.stdout));
        // Every frame arrived twice, and again later: each copy was counted and dropped.
        let counted =
            words(&watched).split_once("replayed=").map(|(_, rest)| rest.split(' ').next().map(str::parse::<u64>));
        let replayed = counted.flatten().expect("the session is told of").expect("a number");
        assert!(if role == "repeat" { replayed > 100 } else { replayed == 0 }, "{role}: {}", words(&watched));
        end([server, bridge]);
    }
}

#[test]
fn garbage_and_a_flood_of_handshakes_keep_nobody_out() {
    // The bridge injects them, like a stranger on the cable.
    let Some((network, bridge)) = Network::with_bridge("flood") else { return };
    let (server, link) = network.serve(&[]);
    let watched = network.watch(&link, &["--seconds", "3"]).output().expect("it runs");
    assert!(displayed(&watched) > 15, "{}", String::from_utf8_lossy(&watched.stdout));
    end([server, bridge]);
}

#[test]
fn an_interface_that_was_down_for_a_while_costs_no_session() {
    let Some(network) = Network::new() else { return };
    let (server, link) = network.serve(&[]);
    let mut command = network.watch(&link, &["--seconds", "6"]);
    let watching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    thread::sleep(Duration::from_secs(2));
    network.set("far", 1, "down");
    thread::sleep(Duration::from_secs(1));
    network.set("far", 1, "up");
    let watched = watching.wait_with_output().expect("it ends");
    assert!(displayed(&watched) > 30, "{}", String::from_utf8_lossy(&watched.stdout));
    assert!(!words(&watched).contains("the connection was lost"), "{}", words(&watched));
    end([server]);
}

#[test]
fn a_server_over_ethernet_keeps_no_capability() {
    let Some(network) = Network::new() else { return };
    let (server, _) = network.serve(&[]);
    // nsenter becomes the server without a process of its own.
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("a process");
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).expect("the kernel tells");
    assert_eq!(capabilities, "0000000000000000");
    end([server]);
}

/// Not a test: this program as the bridge in the middle, started by [`Network::with_bridge`].
#[test]
#[ignore = "a role of the other tests"]
fn bridge() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (left, right) = (PacketSocket::open("left").expect("a socket"), PacketSocket::open("right").expect("a socket"));
    println!("bridging");
    let mut frames = Frames::new(2_000);
    let (mut count, mut past) = (0_u32, Vec::new());
    loop {
        for (from, to) in [(&left, &right), (&right, &left)] {
            if from.recv(&mut frames).is_err() {
                continue;
            }
            for (destination, source, payload) in frames.iter() {
                count += 1;
                // One of twenty, handshakes and control messages included.
                if role == "lose" && count % 20 == 7 {
                    continue;
                }
                send(to, source, destination, payload);
                if role == "repeat" {
                    send(to, source, destination, payload);
                    past.push((source, destination, payload.to_vec()));
                    if past.len() > 500 {
                        let (source, destination, old) = past.remove(0);
                        send(to, source, destination, &old);
                        send(from, source, destination, &old);
                    }
                }
            }
        }
        if role == "flood" {
            flood(&right, &mut count);
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Ten frames for the server, from the client's address and from others: no kind of ours, all kinds with made-up contents.
fn flood(to: &PacketSocket, count: &mut u32) {
    for _ in 0..10 {
        *count = count.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [a, b, c, d] = count.to_be_bytes();
        let payload: Vec<u8> =
            std::iter::once(a % 8).chain([1]).chain([b, c, d].into_iter().cycle().take(100)).collect();
        let source = if b % 2 == 0 { CLIENT.parse().expect("an address") } else { HardwareAddress([2, 0, 0, 0, c, d]) };
        send(to, source, SERVER.parse().expect("an address"), &payload);
    }
}

fn send(to: &PacketSocket, source: HardwareAddress, destination: HardwareAddress, payload: &[u8]) {
    // Frames that do not fit the socket are lost, as on any bridge.
    let _ = to.send_from(source, destination, &[payload.to_vec()]);
}
