//! `nearlight kernel` as its user runs it. What needs root and a kernel that takes Hera is skipped with the reason elsewhere.

#![cfg(all(target_os = "linux", feature = "bpf"))]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Read when the test runs: the shell of scripts/rustc.sh does not pass variables with such names on to the compiler.
fn program() -> String {
    std::env::var("CARGO_BIN_EXE_nearlight-kernel").expect("cargo sets it")
}

fn nearlight(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments);
    command
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A loader that has said that its law is loaded, and what it said; none with the reason printed where it cannot be.
fn loader(name: &str) -> Option<(Child, Value)> {
    let mut command = nearlight(&["load", "hera", "--buckets", "8", "--name", name, "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("text");
    if line.is_empty() {
        let output = child.wait_with_output().expect("it ends");
        assert!(!output.status.success());
        eprintln!("skipped: {}", words(&output).trim());
        return None;
    }
    Some((child, serde_json::from_str(&line).expect("one JSON object")))
}

fn is_available(name: &str) -> bool {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("Linux");
    known.split_whitespace().any(|known| known == name)
}

/// Waits for what the kernel does a little later.
#[expect(clippy::disallowed_methods, reason = "a test of real processes")]
fn comes_true(condition: impl Fn() -> bool) -> bool {
    for _ in 0..100 {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

#[test]
fn a_killed_loader_leaves_nothing() {
    let name = format!("killed_{}", std::process::id());
    let Some((mut child, said)) = loader(&name) else { return };
    assert_eq!((&said["name"], &said["parameters"]["buckets"]), (&Value::from(name.as_str()), &Value::from(8)));
    assert!(said["load_ms"].as_f64().is_some_and(|took| took > 0.0));
    let status = nearlight(&["status", "--json"]).output().expect("the command runs");
    let status: Value = serde_json::from_slice(&status.stdout).expect("one JSON object");
    let laws = status["laws"].as_array().expect("a list");
    let law = laws.iter().find(|law| law["name"] == name.as_str()).expect("it is loaded");
    assert_eq!((&law["registered"], &law["flows"]), (&Value::from(true), &Value::Array(Vec::new())), "{law}");
    child.kill().expect("it runs");
    child.wait().expect("a child");
    assert!(comes_true(|| !is_available(&name)), "unregistered with its process");
}

#[test]
fn unloading_ends_the_loader() {
    let name = format!("ended_{}", std::process::id());
    let Some((child, _)) = loader(&name) else { return };
    let unloaded = nearlight(&["unload", &name]).output().expect("the command runs");
    assert!(unloaded.status.success(), "{}", words(&unloaded));
    assert!(!is_available(&name));
    let loader = child.wait_with_output().expect("a child");
    assert!(loader.status.success() && words(&loader).contains("unloaded by another command"), "{}", words(&loader));
    let again = nearlight(&["unload", &name]).output().expect("the command runs");
    assert!(!again.status.success() && words(&again).contains("was loaded by nearlight"), "{}", words(&again));
}

#[test]
fn a_command_runs_with_a_law_of_the_kernel_and_its_status_is_passed_on() {
    let output = nearlight(&["run", "reno", "--", "sh", "-c", "exit 7"]).output().expect("the command runs");
    let said = words(&output);
    if output.status.code() == Some(7) {
        assert!(said.contains("0 sockets used reno"), "{said}");
    } else {
        assert!(!output.status.success() && said.starts_with("nearlight: ") && said.lines().count() == 1, "{said}");
        eprintln!("skipped: {}", said.trim());
    }
}

/// Selects a congestion control for a socket, and prints what the socket has then. Perl, as every Debian has one that all users may run.
const SELECTS: &str = "use Socket; socket(my $socket, PF_INET, SOCK_STREAM, 0) or die $!;
setsockopt($socket, 6, 13, $ARGV[0]) or die $!;
print unpack('Z*', getsockopt($socket, 6, 13));";

#[test]
fn an_ordinary_user_s_socket_may_select_it() {
    let name = format!("anyone_{}", std::process::id() % 100_000);
    let Some((mut child, _)) = loader(&name) else { return };
    let dropped = ["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"];
    let output = Command::new("setpriv").args(dropped).args(["perl", "-e", SELECTS, &name]).output();
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let Ok(output) = output else {
        eprintln!("skipped: there is no setpriv");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), name, "{}", words(&output));
}

#[test]
fn who_cannot_load_is_told_what_to_do() {
    // `setpriv` drops root; without it, or without root, the command itself is unprivileged enough.
    let dropped = ["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"];
    let output =
        Command::new("setpriv").args(dropped).args([&program(), "load", "hera", "--name", "nobody_s"]).output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no setpriv");
        return;
    };
    let said = words(&output);
    if said.contains("setpriv") || said.contains("ermission denied") {
        eprintln!("skipped: {}", said.trim());
        return;
    }
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("sudo"), "{said}");
    for wrong in [["--buckets", "7"], ["--limit", "9000"], ["--name", "much_too_long_a_name"]] {
        let output = nearlight(&["load", "hera"]).args(wrong).output().expect("the command runs");
        assert!(!output.status.success() && words(&output).lines().count() == 1, "{wrong:?}: {}", words(&output));
    }
}
