//! A C program that is linked with the shared library streams to two viewers in this process.

use crate::common;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Folder, Running, build, libraries, start};

use nearlight_client::headless::watch_until;
use nearlight_client::{HeadlessOptions, ViewOptions};
use nearlight_codec::CodecKind;
use nearlight_net::{Clock, ConnectOptions, Link, Trust, connect};
use nearlight_wire::{Base64, ClientMessage, Hello, Role, ServerMessage, TokenProof};
use tokio::sync::watch;

/// Connects as a client without media, sends messages and listens until the server says goodbye. Returns the received messages.
async fn talk(link: &Link) -> Vec<Vec<u8>> {
    let clock = Clock::start();
    let connection = connect(&ConnectOptions::new(link, Trust::Any), clock).await.expect("a connection");
    let (mut sender, mut receiver) = connection.open_control().await.expect("a control stream");
    let token = link.token.as_deref().expect("a token");
    let mac = connection.exporter().prove(token, Role::Client);
    let hello = Hello {
        codecs: vec![CodecKind::Vp8],
        ..Hello::without_media("a test".into(), Some(TokenProof::Exporter { mac }))
    };
    sender.send(&ClientMessage::Hello(hello)).await.expect("a hello");
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
                    tokio::time::sleep(Duration::from_secs(3)).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_c_program_is_seen_touched_and_heard_of() {
    let folder = Folder::new("stream");
    let program = folder.0.join("program");
    build(&common::root().join("library/capi/tests/program.c"), &program);
    let (mut running, mut output, link) = start(&program, &[]);

    let screenshot = folder.0.join("last.png");
    let mut view = ViewOptions { codecs: vec![CodecKind::Vp8], ..ViewOptions::new(link.clone()) };
    view.record.screenshot = Some(screenshot.clone());
    let (stop, stopped) = watch::channel(false);
    let watching = tokio::spawn(watch_until(HeadlessOptions::new(view), Clock::start(), stopped));
    let heard = tokio::time::timeout(Duration::from_mins(1), talk(&link)).await.expect("an end in time");
    // The goodbye may overtake the last frames, which are still in the decoder.
    tokio::time::sleep(Duration::from_millis(200)).await;
    stop.send(true).expect("a viewer");
    let summary = watching.await.expect("no panic").expect("a run");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    let status = running.0.wait().expect("an end");

    assert!(status.success() && !rest.contains("FAULT"), "{rest}");
    assert_eq!(heard, [b"hello \0 there".to_vec(), b"farewell".to_vec()]);
    assert!(rest.contains("CODE 1"), "{rest}");
    assert!(rest.contains("SEEN joined 2 left 0 moved 1 inputs 1 messages 2 submitted 1 unwatched 1"), "{rest}");
    assert!(summary.frames.displayed >= 20, "{:?}", summary.frames);
    // The last picture before the end was displayed.
    let picture = image::open(&screenshot).expect("a picture").to_rgba8();
    assert_eq!(picture.dimensions(), (320, 192));
    assert!(picture.get_pixel(300, 180).0[..3].iter().all(|value| *value > 240), "{:?}", picture.get_pixel(300, 180));
}

/// The C compiler's address and undefined behaviour sanitizers check both, and find leaks when they end.
#[test]
fn the_examples_stream_to_each_other_and_leave_no_memory_behind() {
    let folder = Folder::new("example");
    let [server, viewer] = ["five_calls", "viewer"].map(|name| folder.0.join(name));
    for program in [&server, &viewer] {
        let name = program.file_name().expect("a name").to_string_lossy();
        build(&common::root().join(format!("library/examples/{name}.c")), program);
    }
    let mut command = Command::new(server);
    command.env("LD_LIBRARY_PATH", &folder.0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut serving = Running(command.spawn().expect("the program starts"));
    let mut link = String::new();
    // The pipe stays open until the end, because the program may print more.
    let mut printed = BufReader::new(serving.0.stdout.take().expect("piped"));
    printed.read_line(&mut link).expect("text");
    let picture = folder.0.join("last.ppm");
    let mut command = Command::new(viewer);
    command.args([link.trim(), "3"]).arg(&picture).env("LD_LIBRARY_PATH", &folder.0);
    let seen = command.output().expect("the program starts");
    assert!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
    assert!(std::fs::read(&picture).is_ok_and(|bytes| bytes.len() > 1_000));
    assert!(Command::new("kill").arg(serving.0.id().to_string()).status().expect("kill").success());
    let status = serving.0.wait().expect("an end");
    let mut complaint = String::new();
    serving.0.stderr.take().expect("piped").read_to_string(&mut complaint).expect("text");
    assert!(status.success(), "{complaint}");
}

/// Only the interface is exported, so that the library coexists with other versions of its dependencies.
#[test]
fn only_the_interface_is_exported() {
    let library = libraries().join("libnearlight.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().expect("nm");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let foreign: Vec<&&str> =
        names.iter().filter(|name| !name.starts_with("nl_") && !name.starts_with("openuvr_")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    let header = concat!(include_str!("../../../include/nearlight.h"), include_str!("../../../include/openuvr.h"));
    for name in &names {
        assert!(
            header.contains(&format!("{}(", name.split('@').next().unwrap_or(name))),
            "{name} is not in the header"
        );
    }
    assert!(names.contains(&"nl_submit") && names.len() >= 20, "{names:?}");
}
