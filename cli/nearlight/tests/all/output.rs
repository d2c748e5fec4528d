//! The command's output streams: links and results on standard output, diagnostics on standard error.

use crate::support;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use support::{TOKEN, nearlight};

/// Longer than a busy machine takes to start a server.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server with a small test card at a port of its own, which is killed when the test ends, however it ends.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// `command` sets where the output goes; the default log level is used.
    fn start(port: u16, further: &[&str], command: impl FnOnce(&mut Command)) -> Self {
        let mut serve = nearlight();
        serve.env_remove("NEARLIGHT_LOG").args(["serve", "--test-card", "--size", "320x240", "--fps", "20"]);
        serve.args(["--token", TOKEN, "--ephemeral", "--port", &port.to_string()]).args(further);
        command(&mut serve);
        Self { child: serve.spawn().expect("the command starts"), port }
    }

    /// Waits until it serves.
    #[expect(clippy::disallowed_methods, reason = "another process is waited for")]
    fn wait(&mut self) {
        let started = Instant::now();
        while !self.is_healthy() {
            assert!(self.child.try_wait().expect("a child").is_none(), "the server ended");
            assert!(started.elapsed() < PATIENCE, "the server does not start");
            sleep(Duration::from_millis(50));
        }
    }

    fn is_healthy(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut answer = String::new();
        let asked = write!(stream, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let heard = asked.and_then(|()| stream.read_to_string(&mut answer));
        heard.is_ok() && answer.contains("200 OK")
    }

    /// Ends it in an orderly way once it has served, and returns what it wrote to its pipes.
    fn finish(mut self) -> Output {
        self.wait();
        let sent = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill runs").success());
        let read = |pipe: Option<&mut dyn Read>| {
            let mut bytes = Vec::new();
            let _ = pipe.map(|pipe| pipe.read_to_end(&mut bytes).expect("its words"));
            bytes
        };
        let stdout = read(self.child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
        let stderr = read(self.child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
        Output { status: self.child.wait().expect("a child"), stdout, stderr }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn piped(command: &mut Command) {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
}

/// A pipe without a reader.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// A free port, and the UDP socket of the one after it, which is WebRTC's by default.
fn free_port() -> (u16, UdpSocket) {
    loop {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let Some(next) = port.checked_add(1) else { continue };
        if let (Ok(_), Ok(beside)) = (UdpSocket::bind(("0.0.0.0", port)), UdpSocket::bind(("0.0.0.0", next))) {
            return (port, beside);
        }
    }
}

fn port() -> u16 {
    free_port().0
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Each line is a link, this machine's first; no QR code.
fn assert_links(words: &str) {
    assert!(words.starts_with("http://localhost:"), "{words}");
    assert!(words.lines().all(|line| line.starts_with("http") && line.contains(TOKEN)), "{words}");
}

#[test]
fn wrong_usage_is_explained_line_by_line_with_exit_status_2() {
    for (arguments, words) in [
        (&[][..], "\nUsage: nearlight <COMMAND>\n\nCommands:\n  serve "),
        (&["nothing"], "error: unrecognized subcommand 'nothing'\n\nUsage: "),
        (&["serve", "--port", "x"], "error: invalid value 'x' for '--port <PORT>'"),
        (&["view"], "error: the following required arguments were not provided:\n  <URL>\n"),
    ] {
        let output = nearlight().args(arguments).output().expect("the command runs");
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{arguments:?} {said}");
        assert!(said.contains(words) && !said.starts_with("nearlight: "), "{arguments:?} {said}");
    }
    let help = nearlight().args(["serve", "--help"]).output().expect("the command runs");
    assert!(help.status.success() && text(&help.stdout).contains("\nNetwork:\n"), "{help:?}");
}

#[test]
fn a_file_in_place_of_a_program_is_answered_with_its_option() {
    let output = nearlight().args(["serve", "--port", "0", "plaza.glb"]).output().expect("the command runs");
    let said = text(&output.stderr);
    assert!(
        said.contains("plaza.glb is not a program") && said.contains("nearlight serve --scene plaza.glb"),
        "{said}"
    );
}

#[test]
fn a_pipe_gets_the_links_and_nothing_else() {
    let output = Server::start(port(), &[], piped).finish();
    assert_links(&text(&output.stdout));
    let words = text(&output.stderr);
    assert!(
        output.status.success() && words.contains("Source: ") && words.contains("disconnecting all clients"),
        "{words}"
    );
}

#[test]
fn a_quiet_server_writes_its_links_and_no_word_more() {
    let output = Server::start(port(), &["--quiet"], piped).finish();
    assert_links(&text(&output.stdout));
    assert_eq!((output.status.success(), text(&output.stderr).as_str()), (true, ""));
}

#[test]
fn json_is_one_object_with_all_links_and_ports() {
    let port = port();
    let output = Server::start(port, &["--json"], piped).finish();
    let words = text(&output.stdout);
    assert_eq!(words.lines().count(), 1, "{words}");
    let object: Value = serde_json::from_str(&words).expect("JSON");
    assert_eq!(object["port"], port, "{object}");
    assert!(object["rtc_port"].is_u64() && object["url"] == object["links"][0], "{object}");
    let links: Vec<&str> = object["links"].as_array().expect("links").iter().filter_map(Value::as_str).collect();
    assert_links(&links.join("\n"));
}

#[test]
fn the_link_comes_before_the_log() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("first-words.txt");
    let file = File::create(&path).expect("a file");
    // The port that WebRTC would take is in use, which is logged before there is a link.
    let (port, _taken) = free_port();
    let both = |command: &mut Command| {
        command.stdout(file.try_clone().expect("a file")).stderr(file);
    };
    Server::start(port, &[], both).finish();
    let words = std::fs::read_to_string(&path).expect("words");
    assert!(words.starts_with("http://localhost:") && words.contains("not available for WebRTC"), "{words}");
}

#[test]
fn a_log_for_programs_has_an_object_on_each_line() {
    let objects = |bytes: &[u8]| -> Vec<Value> {
        text(bytes).lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    };
    let output = Server::start(port(), &["--log-format", "json"], piped).finish();
    assert_links(&text(&output.stdout));
    let events = objects(&output.stderr);
    let says = |words: &str| events.iter().any(|event| event["fields"]["message"].as_str().unwrap().contains(words));
    assert!(output.status.success() && says("sandbox: ") && says("Source: ") && !says("Ctrl-C"), "{events:?}");
    assert!(events.iter().all(|event| event["timestamp"].is_string() && event["level"] == "INFO"), "{events:?}");
    let failing =
        ["serve", "--test-card", "--port", "0", "--cert", "nowhere", "--key", "nowhere", "--log-format", "json"];
    let output = nearlight().args(failing).output().expect("runs");
    let last = objects(&output.stderr).pop().expect("a reason");
    assert_eq!((output.status.code(), last["level"].as_str()), (Some(1), Some("ERROR")));
    assert!(last["fields"]["message"].as_str().is_some_and(|words| words.contains("nowhere")), "{last}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_journal_learns_levels_and_keeps_the_time_itself() {
    use std::os::unix::fs::MetadataExt as _;
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("journal.txt");
    let file = File::create(&path).expect("a file");
    let place = file.metadata().expect("a file");
    let journal = format!("{}:{}", place.dev(), place.ino());
    let (port, _taken) = free_port();
    let to_the_journal = |command: &mut Command| {
        command.env("JOURNAL_STREAM", &journal).stdout(Stdio::piped()).stderr(file);
    };
    Server::start(port, &[], to_the_journal).finish();
    let words = std::fs::read_to_string(&path).expect("words");
    assert!(words.contains("<6>sandbox: ") && words.contains("<4>the port after --port is not available"), "{words}");
    let elsewhere = |command: &mut Command| {
        command.env("JOURNAL_STREAM", &journal).stdout(Stdio::piped()).stderr(Stdio::piped());
    };
    let output = Server::start(self::port(), &[], elsewhere).finish();
    assert!(!text(&output.stderr).contains("<6>"), "the variable may be another file's");
}

#[test]
fn links_are_those_of_the_proxy() {
    let options = ["--json", "--public-url", "https://desk.example.net/world"];
    let output = Server::start(port(), &options, piped).finish();
    let object: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    assert_eq!(object["url"], format!("https://desk.example.net/world/#token={TOKEN}"));
    assert_eq!(object["links"], serde_json::json!([object["url"]]));
    for links in [&object["guests"], &object["spectators"]] {
        let links = links.as_array().expect("links");
        assert!(links.len() == 1 && links[0].as_str().unwrap().starts_with("https://desk.example.net/world/#token="));
    }
}

#[test]
fn a_failure_to_start_is_reported_with_what_was_logged_before() {
    let output =
        nearlight().args(["serve", "--test-card", "--port", "0", "--cert", "nowhere", "--key", "nowhere"]).output();
    let output = output.expect("runs");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(text(&output.stderr).contains("nowhere"), "{}", text(&output.stderr));
}

#[cfg(target_os = "linux")]
#[test]
fn options_of_a_program_that_is_not_there_are_refused() {
    for [option, value] in [
        ["--compositor", "sway"],
        ["--restart", "always"],
        ["--program-sandbox", "off"],
        ["--program-network", "on"],
        ["--program-user", "nobody"],
        ["--program-gamepads", "off"],
        ["--cpu-share", "50%"],
        ["--program-memory", "1G"],
        ["--program-processes", "100"],
        ["--program-namespaces", "on"],
        ["--program-files", "/etc"],
        ["--program-env", "NAME=value"],
        ["--microphone", "on"],
    ] {
        let output = nearlight().args(["serve", "--test-card", "--port", "0", option, value]).output().expect("runs");
        let words = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{option}: {words}");
        assert!(words.contains(option) && words.contains("name one, as in"), "{option}: {words}");
    }
    for others in [["--sound", "off"], ["--display", ":77"]] {
        let mut command = nearlight();
        command.args(["serve", "--port", "0", "--microphone", "on"]).args(others).args(["--", "true"]);
        let words = text(&command.output().expect("runs").stderr);
        assert!(words.contains("--microphone on needs the program's own sound server"), "{others:?}: {words}");
    }
    for others in [["--program-sandbox", "off"], ["--display", ":77"]] {
        let mut command = nearlight();
        command.args(["serve", "--port", "0", "--program-gamepads", "file"]).args(others).args(["--", "true"]);
        let words = text(&command.output().expect("runs").stderr);
        assert!(words.contains("--program-gamepads needs a sandbox"), "{others:?}: {words}");
    }
}

#[test]
fn a_list_without_plans_is_an_error_alone() {
    let output = nearlight().args(["lab", "list", "--plans", "nowhere"]).output().expect("runs");
    let words = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len(), words.lines().count()), (Some(1), 0, 1), "{words}");
    assert!(words.contains("the plans in `nowhere`") && words.contains("--plans"), "{words}");
}

#[test]
fn whoever_stops_reading_is_not_told_of_an_error() {
    let plans = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans");
    let commands: [&[&str]; 3] =
        [&["lab", "list", "--plans", plans], &["wifi", "--single-packet", "1000"], &["doctor", "--port", "0"]];
    for arguments in commands {
        let child = nearlight().args(arguments).stdout(closed_pipe()).stderr(Stdio::piped()).spawn().expect("runs");
        let output = child.wait_with_output().expect("a child");
        // What a shell reports of other programs that SIGPIPE has ended.
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(141), ""), "{arguments:?}");
    }
}

#[test]
fn a_server_goes_on_when_nobody_reads_its_links() {
    for further in [&[][..], &["--json"], &["--quiet"]] {
        let closed = |command: &mut Command| {
            command.stdout(closed_pipe()).stderr(Stdio::piped());
        };
        let output = Server::start(port(), further, closed).finish();
        let words = text(&output.stderr);
        assert!(output.status.success() && !words.contains("pipe") && !words.contains("standard output"), "{words}");
    }
}

#[test]
fn a_full_disk_is_reported_in_a_line() {
    let full = File::options().write(true).open("/dev/full").expect("a device that is full");
    let output = nearlight().args(["wifi", "--single-packet", "1000"]).stdout(full).stderr(Stdio::piped()).output();
    let output = output.expect("runs");
    let words = text(&output.stderr);
    assert!(
        output.status.code() == Some(1) && words.contains("standard output") && words.lines().count() == 1,
        "{words}"
    );
    let full = File::options().write(true).open("/dev/full").expect("a device that is full");
    let serve = ["serve", "--test-card", "--ephemeral", "--port", "0", "--json", "--log-format", "json"];
    let output = nearlight().args(serve).stdout(full).stderr(Stdio::piped()).output().expect("runs");
    let words = text(&output.stderr);
    let last: Value = serde_json::from_str(words.lines().last().expect("a line")).expect("JSON");
    assert_eq!((output.status.code(), &last["level"]), (Some(1), &Value::from("ERROR")), "{words}");
}

#[test]
fn a_native_viewer_is_told_of_the_proxy_in_its_link() {
    let link = format!("https://localhost:{}/world/#token={TOKEN}", port());
    let output = nearlight().args(["view", &link, "--headless", "--seconds", "1"]).output().expect("runs");
    let words = text(&output.stderr);
    assert_eq!((output.status.code(), words.lines().count()), (Some(3), 1), "{words}");
    assert!(words.contains("as in https://localhost:8090/#token=…") && !words.contains(TOKEN), "{words}");
}
