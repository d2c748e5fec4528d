//! The real command on both ends, over loopback: counts, medians and exit codes, never wall-clock tails.

use crate::support;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearlight_net::CertificateHash;
use serde_json::Value;

use support::{TOKEN, nearlight, serve};

/// A server that is killed when the test ends, however it ends.
struct Server {
    child: Child,
    url: String,
    port: u16,
}

impl Server {
    fn start(further: &[&str]) -> Self {
        let (child, first) = serve(further);
        let url = first["url"].as_str().expect("url").to_owned();
        let port = first["port"].as_u64().expect("port") as u16;
        Self { child, url, port }
    }

    fn view(&self, seconds: &str, further: &[&str]) -> Output {
        nearlight()
            .args(["view", &self.url, "--headless", "--json", "--seconds", seconds])
            .args(further)
            .output()
            .expect("the command runs")
    }

    fn summary(&self, seconds: &str, further: &[&str]) -> Value {
        let output = self.view(seconds, further);
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words}");
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the page's port is open");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    }

    fn interrupt(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count(summary: &Value, group: &str, name: &str) -> u64 {
    summary[group][name].as_u64().unwrap_or_else(|| panic!("{group}.{name} is missing in {summary}"))
}

/// If the machine stalls for long, a receiver abandons frames; tests in virtual time assert that a clean path loses none.
fn assert_few_lost(summary: &Value) {
    assert!(count(summary, "frames", "lost") * 5 <= count(summary, "frames", "sent"), "{summary}");
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn the_world_is_seen_and_every_field_is_there() {
    let server = Server::start(&[]);
    let (events, trace, picture) = (scratch("events.jsonl"), scratch("trace.json"), scratch("picture.png"));
    let path = |path: &PathBuf| path.to_str().expect("a plain path").to_owned();
    let files = [path(&events), path(&trace), path(&picture)];
    let summary = server.summary("4", &["--events", &files[0], "--trace", &files[1], "--screenshot", &files[2]]);
    assert!(count(&summary, "frames", "displayed") >= 20, "{summary}");
    assert_few_lost(&summary);
    assert_eq!(summary["stage_sum_error_us_max"], 0, "{summary}");
    assert!(count(&summary, "motion_to_photon_ms", "n") > 20, "{summary}");
    assert_eq!(summary["transport"], "webtransport");
    assert_eq!(summary["codec"], "h264");
    for (group, fields) in [
        ("frames", &["sent", "completed", "decoded", "displayed", "late", "lost"][..]),
        ("motion_to_photon_ms", &["p50", "p95", "p99", "n"]),
        ("input_to_photon_ms", &["p50", "p95", "p99", "n"]),
        ("rate_mbps", &["target", "sent", "received"]),
        ("loss", &["packets", "retransmitted", "key_frames"]),
    ] {
        for field in fields {
            assert!(summary[group][field].is_number(), "{group}.{field} is missing in {summary}");
        }
    }
    for stage in ["input", "wait", "render", "convert", "encode", "pace", "network", "reassemble", "decode", "present"]
    {
        assert!(summary["stages_ms"][stage]["p50"].is_number(), "stage {stage} is missing in {summary}");
    }
    let trace: Value = serde_json::from_slice(&std::fs::read(trace).expect("a trace")).expect("JSON");
    assert!(trace.as_array().or(trace["traceEvents"].as_array()).expect("events").len() > 100);
    let events = std::fs::read_to_string(events).expect("events");
    assert!(events.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert!(std::fs::metadata(picture).expect("a picture").len() > 10_000);
}

#[test]
fn vp8_a_headset_and_the_other_sources_work() {
    for (serve, view) in [
        (&["--codec", "vp8"][..], &[][..]),
        (&[], &["--stereo"]),
        (&["--test-card"], &[]),
        (&["--controller", "fixed", "--rate", "3mbps", "--pacing", "interval:5ms"], &["--codec", "vp8"]),
    ] {
        let server = Server::start(serve);
        let summary = server.summary("3", view);
        assert!(count(&summary, "frames", "displayed") >= 6, "{serve:?} {view:?}: {summary}");
        assert_few_lost(&summary);
    }
}

#[test]
fn two_percent_loss_is_recovered() {
    let server = Server::start(&["--drop", "2%", "--seed", "7"]);
    let summary = server.summary("8", &[]);
    let (sent, decoded) = (count(&summary, "frames", "sent"), count(&summary, "frames", "decoded"));
    assert!(count(&summary, "loss", "packets") > 0 && count(&summary, "loss", "retransmitted") > 0, "{summary}");
    // Whether a key frame is needed depends on timing, so tests in virtual time assert that none is (session's stories).
    assert!(decoded * 10 >= sent * 8, "{summary}");
}

#[test]
fn an_outage_and_a_new_address_do_not_end_the_session() {
    let server = Server::start(&[]);
    let summary = server.summary("8", &["--outage", "2:2", "--rebind", "5"]);
    // Six of eight seconds had a path, at 20 pictures a second.
    assert!(count(&summary, "frames", "displayed") >= 30, "{summary}");
    assert!(server.get("/metrics").contains("nearlight_sessions_total 1"), "the session was opened anew");
}

#[test]
fn strangers_are_refused_plainly_and_the_place_of_a_killed_client_is_free() {
    let server = Server::start(&["--max-clients", "1"]);
    let wrong = server.url.replace(TOKEN, "not-the-right-token");
    let output = nearlight().args(["view", &wrong, "--headless", "--seconds", "2"]).output().expect("runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{words}");
    assert!(words.contains("token"), "{words}");
    let mut first = nearlight()
        .args(["view", &server.url, "--headless", "--seconds", "30"])
        .stdout(Stdio::null())
        .spawn()
        .expect("runs");
    while !server.get("/metrics").contains("nearlight_sessions_open 1") {
        assert!(first.try_wait().expect("a child").is_none(), "the first client left");
    }
    assert!(server.get("/readyz").contains("503") && server.get("/healthz").contains("200 OK"));
    let output = server.view("2", &[]);
    assert_eq!(output.status.code(), Some(4), "a second client where one is allowed");
    assert!(String::from_utf8_lossy(&output.stderr).contains("full"));
    first.kill().expect("a child");
    let _ = first.wait();
    server.summary("1", &[]);
}

#[test]
fn the_proof_shows_whose_server_it_is_and_a_hash_in_the_link_excludes_other_certificates() {
    let (server, other) = (Server::start(&[]), Server::start(&["--token", "a-token-of-another-server"]));
    let hash_of = |server: &Server| {
        let answer = server.get("/session.json");
        answer.split('"').find(|text| text.len() == 64).expect("a certificate's hash").to_owned()
    };
    let view = |url: &str| {
        let output = nearlight().args(["view", url, "--headless", "--seconds", "1"]).output().expect("runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(!server.url.contains("certificate"), "links stay short: {}", server.url);
    for (hash, expected) in [(hash_of(&server), 0), (hash_of(&other), 1)] {
        let (code, words) = view(&format!("{}&certificate={hash}", server.url));
        assert_eq!(code, Some(expected), "{words}");
        assert_eq!(words.contains("not the one that the link names"), expected == 1, "{words}");
    }
    // An impostor at the server's address with a certificate and a token of its own.
    let (port, others) = (server.port.to_string(), other.port.to_string());
    let (code, words) = view(&server.url.replace(&port, &others));
    assert_eq!(code, Some(4), "{words}");
    assert!(!other.get("/metrics").contains("nearlight_sessions_total 1"));
}

#[test]
fn a_server_that_starts_again_has_the_same_links_until_the_owner_replaces_the_token() {
    let state = scratch("state");
    let _ = std::fs::remove_dir_all(&state);
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let start = |further: &[&str]| {
        let port = port.to_string();
        let mut child = nearlight()
            .args(["serve", "--json", "--port", &port, "--size", "320x240", "--fps", "20", "--test-card", "--state"])
            .arg(&state)
            .args(further)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a first line");
        let first: Value = serde_json::from_str(&line).expect("JSON");
        let url = first["url"].as_str().expect("url").to_owned();
        let server = Server { child, url: url.clone(), port: first["port"].as_u64().expect("port") as u16 };
        let session = server.get("/session.json");
        let hash = session.split('"').find(|text| text.len() == 64).expect("a certificate's hash").to_owned();
        (server, url, hash)
    };
    let (first, link, hash) = start(&[]);
    assert!(link.len() <= 80, "{link}");
    drop(first);
    let (second, again, same) = start(&[]);
    assert_eq!((&again, &same), (&link, &hash));
    assert!(second.view("1", &[]).status.success());
    drop(second);
    let (_third, replaced, _) = start(&["--new-token"]);
    assert_ne!(replaced, link);
    let output = nearlight().args(["view", &link, "--headless", "--seconds", "1"]).output().expect("runs");
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_owner_s_certificate_is_read_again_when_it_was_renewed() {
    // The server does not stay root, and reads the files anew as another user, whom the checkout may be hidden from.
    let folder = std::env::temp_dir().join(format!("nearlight-renewed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    // As clients of ACME do it: new files, and links that change.
    let renew = |number: u32| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        for (name, text) in [("certificate", made.cert.pem()), ("key", made.signing_key.serialize_pem())] {
            let (file, link) = (format!("{name}{number}.pem"), folder.join(format!("{name}.pem")));
            std::fs::write(folder.join(&file), text).expect("a file");
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(file, link).expect("a link");
        }
        CertificateHash::of(made.cert.der())
    };
    let first = renew(1);
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.join(name).display().to_string());
    let server = Server::start(&["--cert", &certificate, "--key", &key]);
    let is_shown = |hash: &CertificateHash| {
        let link = format!("{}&certificate={hash}", server.url);
        let output = nearlight().args(["view", &link, "--headless", "--seconds", "1"]).output().expect("runs");
        output.status.success()
    };
    assert!(is_shown(&first));
    let second = renew(2);
    server.interrupt("-HUP");
    assert!((0..10).any(|_| is_shown(&second)), "the new certificate is never shown");
    assert!(!is_shown(&first));
    std::fs::remove_dir_all(folder).expect("removed");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "keeps to about a hundred guesses a second")]
fn a_flood_of_wrong_tokens_from_the_owner_s_address_does_not_lock_the_owner_out() {
    let server = Server::start(&[]);
    let (port, over) = (server.port, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let guesses = scope.spawn(|| {
            let mut guesses = 0;
            while !over.load(Ordering::Relaxed) {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the page's port is open");
                let head = "POST /whep HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n";
                write!(stream, "{head}Authorization: Bearer wrong-token-{guesses:06}\r\n\r\n").expect("sent");
                let mut answer = String::new();
                let _ = stream.read_to_string(&mut answer);
                assert!(answer.contains(" 401 ") || answer.contains(" 429 "), "{answer}");
                guesses += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            guesses
        });
        while !server.get("/metrics").contains("reason=\"TooManyAttempts\"") {}
        let entered: Vec<Output> = (0..3).map(|_| server.view("1", &[])).collect();
        over.store(true, Ordering::Relaxed);
        assert!(guesses.join().expect("no panic") > 20);
        for output in entered {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    });
}

#[test]
fn a_ladder_changes_the_picture_s_size_in_midstream_without_a_freeze() {
    // It starts low, and goes up to the highest rung once the client's buffer has filled.
    let server = Server::start(&[
        "--controller",
        "buffer-occupancy",
        "--min-rate",
        "200kbit",
        "--rate",
        "200kbit",
        "--max-rate",
        "6500kbit",
        "--test-card",
    ]);
    let picture = scratch("ladder.png");
    let summary = server.summary("6", &["--screenshot", picture.to_str().expect("a plain path")]);
    let png = std::fs::read(&picture).expect("a picture");
    let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("a header"));
    assert_eq!((side(16), side(20)), (320, 240), "from 256x144");
    // The decoder was reopened, and everything else continued.
    assert!(count(&summary, "frames", "displayed") >= 60, "{summary}");
    assert_eq!(count(&summary, "frames", "lost"), 0, "{summary}");
    // One for each new size: it may stop at a rung between.
    assert!((1..=2).contains(&count(&summary, "loss", "key_frames")), "{summary}");
    assert!(summary["pause_ms_max"].as_f64().expect("a pause") < 2_000.0, "{summary}");
    let _ = std::fs::remove_file(picture);
}

#[test]
fn nobody_there_is_a_timeout() {
    let output = nearlight()
        .args(["view", "http://127.0.0.1:9/#token=nobody-listens-here", "--headless", "--seconds", "1"])
        .output()
        .expect("runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{words}");
    assert_eq!(words.lines().count(), 1, "one clear line: {words}");
}

#[test]
fn the_page_its_headers_and_its_figures_are_served() {
    let server = Server::start(&[]);
    let page = server.get("/");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>"), "{page}");
    assert!(page.to_ascii_lowercase().contains("content-security-policy: default-src 'none'"), "{page}");
    assert!(server.get("/healthz").contains("200 OK") && server.get("/readyz").contains("200 OK"));
    assert!(server.get("/session.json").contains("certificate_sha256"));
    assert!(server.get("/../../etc/passwd").starts_with("HTTP/1.1 404"));
    assert!(!page.contains(TOKEN), "the page must not know the token");
}

#[test]
fn a_signal_ends_the_server_in_good_order() {
    for signal in ["-INT", "-TERM"] {
        let events = scratch(&format!("server{signal}.jsonl"));
        let mut server = Server::start(&["--events", events.to_str().expect("a plain path")]);
        let view = nearlight()
            .args(["view", &server.url, "--headless", "--json", "--seconds", "3"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("runs");
        while !server.get("/metrics").contains("nearlight_sessions_open 1") {}
        server.interrupt(signal);
        assert!(server.child.wait().expect("a child").success(), "{signal}");
        let output = view.wait_with_output().expect("a child");
        assert!(output.status.code().is_some(), "the client ends by itself");
        let events = std::fs::read_to_string(events).expect("events");
        assert!(events.contains("rate_decision") && events.ends_with('\n'), "{signal}");
    }
}

#[test]
fn a_port_in_use_is_named() {
    let server = Server::start(&[]);
    let output = nearlight()
        .args(["serve", "--test-card", "--ephemeral", "--port", &server.port.to_string()])
        .output()
        .expect("runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains(&server.port.to_string()), "{words}");
}

#[test]
fn the_status_of_a_refusal_means_nothing_else() {
    let cases: [&[&str]; 3] = [&["view"], &["view", "http://localhost:1/#token=x", "--seconds", "no"], &["walk"]];
    for case in cases {
        let output = nearlight().args(case).output().expect("runs");
        assert_eq!(output.status.code(), Some(2), "{case:?}");
        assert!(!output.stderr.is_empty(), "{case:?}");
    }
    let help = nearlight().args(["view", "--help"]).output().expect("runs");
    assert!(help.status.success() && !help.stdout.is_empty());
}

#[test]
fn a_server_at_one_address_names_that_address() {
    let server = Server::start(&["--address", "127.0.0.9"]);
    assert!(server.url.starts_with("https://127.0.0.9:"), "{}", server.url);
}

#[test]
fn bad_files_and_values_are_refused_with_a_reason() {
    let garbage = scratch("garbage.glb");
    std::fs::write(&garbage, b"this is not glTF").expect("written");
    for (arguments, word) in [
        (&["serve", "--scene", garbage.to_str().expect("plain"), "--port", "0"][..], "garbage.glb"),
        (&["serve", "--scene", "nowhere.glb", "--port", "0"], "nowhere.glb"),
        (&["serve", "--size", "1281x720"], "size"),
        (&["serve", "--controller", "magic", "--port", "0", "--test-card"], "gcc-libwebrtc"),
        (&["serve", "--tcp-control", "no-such", "--port", "0", "--test-card"], "reno"),
        (&["serve", "--token", "short"], "token"),
        (&["view", "ftp://somewhere"], "link"),
    ] {
        let output = nearlight().args(arguments).output().expect("runs");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && words.contains(word), "{arguments:?}: {words}");
    }
}
