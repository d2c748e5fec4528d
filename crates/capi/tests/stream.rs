//! A C program, built by the C compiler against the shared library, streams to two viewers in this process.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nearlight_client::headless::watch_until;
use nearlight_client::{HeadlessOptions, ViewOptions};
use nearlight_codec::CodecKind;
use nearlight_net::{Clock, ConnectOptions, Link, Trust, connect};
use nearlight_wire::{Base64, ClientMessage, DisplayKind, Hello, PROTOCOL_VERSION, Role, ServerMessage, TokenProof};
use tokio::sync::watch;

/// A folder of its own for the test's files; removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearlight-capi-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where cargo has put the shared library: beside this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    test.parent().expect("a folder").to_owned()
}

fn build(source: &Path, program: &Path) {
    let (libraries, crates) = (libraries(), Path::new(env!("CARGO_MANIFEST_DIR")));
    let output = Command::new("cc")
        .args(["-std=c99", "-D_POSIX_C_SOURCE=199309L", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1"])
        .arg("-I")
        .arg(crates.join("../../include"))
        .arg(source)
        .arg(libraries.join("libnearlight.so"))
        .args(["-lm", "-o"])
        .arg(program)
        .output()
        .expect("a C compiler, which the build needs too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Under the name that the linker has noted, as an installation has it.
    let real = libraries.join("libnearlight.so");
    let name = program.with_file_name(soname(&real));
    let _ = std::fs::remove_file(&name);
    std::os::unix::fs::symlink(&real, &name).expect("a link");
}

fn soname(library: &Path) -> String {
    let output = Command::new("readelf").arg("-d").arg(library).output().expect("readelf, of the C compiler's tools");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("SONAME")).expect("a name for the dynamic linker");
    line.split(['[', ']']).nth(1).expect("a name in brackets").to_owned()
}

/// Says hello as a program of its own would, sends messages and listens until the server says goodbye: answers what came.
async fn talk(link: &Link) -> Vec<Vec<u8>> {
    let clock = Clock::start();
    let trust = Trust::Certificate(link.certificate.expect("a self-signed certificate"));
    let connection = connect(&ConnectOptions::new(link, trust), clock).await.expect("a connection");
    let (mut sender, mut receiver) = connection.open_control().await.expect("a control stream");
    let token = link.token.as_deref().expect("a token");
    let hello = Hello {
        protocol: PROTOCOL_VERSION,
        proof: Some(TokenProof::Exporter { mac: connection.exporter().prove(token, Role::Client) }),
        client: "a test".into(),
        display: DisplayKind::Screen,
        codecs: vec![CodecKind::Vp8],
        display_hz: 0,
        sound: false,
        clipboard: false,
        marker: false,
    };
    sender.send(&ClientMessage::Hello(hello)).await.expect("a greeting");
    let mut heard = Vec::new();
    loop {
        match receiver.recv().await.expect("the control stream lives until the goodbye") {
            ServerMessage::Welcome(_) => {
                let data = Base64(b"hello \0 there".to_vec());
                sender.send(&ClientMessage::Application { data }).await.expect("a message");
            }
            ServerMessage::Application { data } => {
                if heard.is_empty() {
                    // The other viewer has watched for a while by then.
                    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
                    let data = Base64(b"last".to_vec());
                    sender.send(&ClientMessage::Application { data }).await.expect("a message");
                }
                heard.push(data.0);
            }
            ServerMessage::Goodbye { .. } => return heard,
            _ => {}
        }
    }
}

fn start(program: &Path) -> (Child, BufReader<std::process::ChildStdout>, Link) {
    let mut child = Command::new(program)
        .env("LD_LIBRARY_PATH", program.parent().expect("a folder"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut faults = String::new();
    loop {
        let mut line = String::new();
        assert!(output.read_line(&mut line).is_ok_and(|count| count > 0), "the program ended early: {faults}");
        if let Some(link) = line.strip_prefix("LINK ") {
            assert!(faults.is_empty(), "{faults}");
            return (child, output, Link::parse(link.trim()).expect("a link"));
        }
        faults.push_str(&line);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_c_program_is_seen_touched_and_heard_of() {
    let folder = Folder::new("stream");
    let program = folder.0.join("program");
    build(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program.c"), &program);
    let (mut child, mut output, link) = start(&program);

    let screenshot = folder.0.join("last.png");
    let mut view = ViewOptions { codecs: vec![CodecKind::Vp8], ..ViewOptions::new(link.clone()) };
    view.record.screenshot = Some(screenshot.clone());
    let (stop, stopped) = watch::channel(false);
    let watching = tokio::spawn(watch_until(HeadlessOptions::new(view), Clock::start(), stopped));
    let heard = tokio::time::timeout(std::time::Duration::from_secs(60), talk(&link)).await.expect("an end in time");
    // The goodbye may overtake the last frames on their way through the decoder.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    stop.send(true).expect("a viewer");
    let summary = watching.await.expect("no panic").expect("a run");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    let status = child.wait().expect("an end");

    assert!(status.success() && !rest.contains("FAULT"), "{rest}");
    assert_eq!(heard, [b"hello \0 there".to_vec(), b"farewell".to_vec()]);
    assert!(rest.contains("CODE 1"), "{rest}");
    assert!(rest.contains("SEEN joined 2 left 0 moved 1 inputs 1 messages 2 submitted 1 unwatched 1"), "{rest}");
    assert!(summary.frames.displayed >= 20, "{:?}", summary.frames);
    // What was submitted last before the end was displayed.
    let picture = image::open(&screenshot).expect("a picture").to_rgba8();
    assert_eq!(picture.dimensions(), (320, 192));
    assert!(picture.get_pixel(300, 180).0[..3].iter().all(|value| *value > 240), "{:?}", picture.get_pixel(300, 180));
}

#[test]
fn the_example_builds_without_a_warning() {
    let folder = Folder::new("example");
    build(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/five_calls.c"), &folder.0.join("five_calls"));
}

/// Nothing but the interface is visible, so that the library gets along with other versions of what it contains.
#[test]
fn only_the_interface_is_exported() {
    let library = libraries().join("libnearlight.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().expect("nm");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let foreign: Vec<&&str> = names.iter().filter(|name| !name.starts_with("nl_")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    let header = include_str!("../../../include/nearlight.h");
    for name in &names {
        assert!(
            header.contains(&format!("{}(", name.split('@').next().unwrap_or(name))),
            "{name} is not in the header"
        );
    }
    assert!(names.contains(&"nl_submit") && names.len() >= 20, "{names:?}");
}
