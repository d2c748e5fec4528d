//! `nearlight link` as people and scripts call it: exit codes, signals, JSON and errors.
//!
//! If neither root nor user namespaces are available, a test says why and passes.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn link(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO_BIN_EXE_nearlight-lab").expect("cargo sets it"));
    command.arg("link").args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    link(arguments).output().expect("the command runs")
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether links can be created here at all; prints why not.
fn available() -> bool {
    let output = run(&["--", "true"]);
    let made = output.status.success();
    if !made {
        // `nearlight_emulate`'s tests cover what the system allows; any other failure is a real one.
        assert!(words(&output).contains("no link could be set up"), "{}", words(&output));
        eprintln!("skipped: {}", words(&output));
    }
    made
}

#[test]
fn the_commands_exit_status_is_ours() {
    if !available() {
        return;
    }
    for (line, code) in [("true", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        let output = run(&["--rtt", "10ms", "--", "bash", "-c", line]);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", words(&output));
    }
    let output = run(&["--", "no-such-command"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(words(&output).contains("no-such-command"), "{}", words(&output));
}

#[test]
fn it_says_what_was_made_and_reports_as_json() {
    if !available() {
        return;
    }
    let script = "test -n \"$NEARLIGHT_LINK_HOST\" && for i in 1 2 3 4; do echo x > /dev/udp/$NEARLIGHT_LINK_HOST/9; done; sleep 0.2; exit 3";
    let arguments = ["--rate", "10mbit", "--rtt", "20ms", "--loss", "1%,25%", "--json", "--", "bash", "-c", script];
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(3));
    assert!(words(&output).contains("link emulated with interfaces"), "{}", words(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["exit_status"], 3);
    assert_eq!(report["up"]["path"], "rate=10mbit,delay=10ms,loss=1%/25%");
    assert_eq!(report["down"]["path"], report["up"]["path"]);
    let up = &report["up"];
    let count = |value: &Value| value.as_u64().expect("a number");
    let dropped: u64 = up["dropped"].as_object().expect("by reason").values().map(count).sum();
    let ended = count(&up["delivered"]["packets"]) + dropped + count(&up["on_the_way"]);
    assert_eq!(count(&up["offered"]["packets"]), ended, "{up}");
    assert!(ended >= 4, "{up}");
}

#[test]
fn asked_to_terminate_it_ends_the_command_and_leaves_nothing() {
    if !available() {
        return;
    }
    let trapped = "trap 'exit 5' INT; echo ready; sleep 100 & wait";
    for (signal, line, code) in [("-TERM", "echo ready; exec sleep 100", 143), ("-INT", trapped, 5)] {
        // Tests that run in the background ignore the signal, and a shell that ignored one from its start cannot trap it.
        let mut running = link(&["--", "env", "--default-signal=INT", "bash", "-c", line]);
        let mut child = running.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command runs");
        let mut ready = String::new();
        let out = child.stdout.as_mut().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut ready).expect("a line");
        assert_eq!(ready, "ready\n");
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        assert_eq!(child.wait().expect("a child").code(), Some(code), "{signal}");
    }
}

/// Whether the process runs; a zombie does not count.
fn runs(process: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "looks again and again until the kernel has done its part")]
fn killed_it_takes_the_command_along() {
    for means in ["root", "user"] {
        let mut running = link(&["--means", means, "--", "bash", "-c", "echo $$; exec sleep 1000"]);
        let mut child = running.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command runs");
        let mut process = String::new();
        let out = child.stdout.as_mut().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut process).expect("a line");
        if process.is_empty() {
            eprintln!("skipped: no link by means {means} here");
            child.wait().expect("a child");
            continue;
        }
        child.kill().expect("killed");
        child.wait().expect("a child");
        let looks = (0..1_000).take_while(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            runs(process.trim())
        });
        assert!(looks.count() < 1_000, "{process} still runs, by {means}");
    }
}

#[test]
fn what_cannot_be_understood_is_explained() {
    let cases: [(&[&str], &[&str]); 6] = [
        (&["--rate", "10", "--", "true"], &["rate=10", "10mbit"]),
        (&["--path", "speed=1", "--", "true"], &["speed", "allowed are"]),
        (&["--path", "delay=1ms", "--rate", "1mbit", "--", "true"], &["--path", "--rate"]),
        (&["--trace", "no/such.mahi", "--", "true"], &["no/such.mahi", "existing file"]),
        (&["--queue", "5ms", "--", "true"], &["queue", "rate="]),
        (&["--means", "relay", "--", "true"], &["--service"]),
    ];
    for (arguments, expected) in cases {
        let output = run(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let words = words(&output);
        assert!(expected.iter().all(|word| words.contains(word)), "{arguments:?}: {words}");
    }
}
