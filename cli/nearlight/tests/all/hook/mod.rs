//! `nearlight hook`: programs that know nothing of streaming, on a virtual screen, watched and steered by a viewer.
//!
//! Colours, sizes, inputs and exit codes; nothing here looks at how long anything took.

use crate::support;
use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use nearlight_viewer::{DeviceInput, EventKind, Input, Options, Pointer, ReceivedPicture, ScreenPoint, Span, Viewer};
use support::{TOKEN, nearlight};

const PRIMARY: u8 = 1;

/// Ended and removed at the end.
struct Xvfb {
    server: Child,
    display: String,
}

impl Xvfb {
    fn start() -> Self {
        let mut server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp", "-noreset"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb, which `make test` installs");
        let mut number = String::new();
        BufReader::new(server.stdout.as_mut().expect("piped")).read_line(&mut number).expect("a display's number");
        Self { server, display: format!(":{}", number.trim()) }
    }
}

impl Drop for Xvfb {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("nearlight-hook-test-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }

    /// Builds the program, which needs no headers beyond C's.
    fn build(&self, name: &str, flags: &[&str]) -> PathBuf {
        let program = self.0.join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/hook/program.c");
        let output = Command::new("cc")
            .args(["-std=gnu99", "-Wall", "-Wno-pedantic", "-O1"])
            .arg(source)
            .arg("-o")
            .arg(&program)
            .args(flags)
            .output()
            .expect("a C compiler, which the build needs too");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where cargo has put it: beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    test.with_file_name("libnearlight_hook.so")
}

fn hook(display: &str, program: &[&str]) -> Command {
    let mut command = nearlight();
    command
        .args(["hook", "--port", "0", "--token", TOKEN, "--quiet", "--library"])
        .arg(library())
        .arg("--")
        .args(program)
        .env("DISPLAY", display)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A program that is running; ended at the latest when this is dropped.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    errors: Option<JoinHandle<String>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn new(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the command starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut stderr = child.stderr.take().expect("piped");
        let errors = Some(std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        }));
        Self { child, lines, errors }
    }

    /// The next line that begins so: what the program prints, or a link.
    fn line(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("text");
            assert!(read > 0, "it ended without a line `{start}`: {}", self.end().1);
            if line.starts_with(start) {
                return line.trim().to_owned();
            }
        }
    }

    /// Its exit code, and what was said on standard error.
    fn end(&mut self) -> (Option<i32>, String) {
        let code = self.child.wait().expect("it ends").code();
        (code, self.errors.take().map(|errors| errors.join().expect("no panic")).unwrap_or_default())
    }
}

/// Waits for a picture with four quarters in these colours, from the upper left in reading order.
fn wait_for_quarters(viewer: &Viewer, (width, height): (u16, u16)) {
    const COLOURS: [[u8; 3]; 4] = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]];
    let mut rgba = Vec::new();
    let mut seen = Vec::new();
    let mut fits = |picture: &ReceivedPicture| {
        let size = picture.size();
        picture.to_rgba(&mut rgba).expect("pixels");
        let at = |x: usize, y: usize| -> [u8; 3] {
            let first = (y * usize::from(size.width) + x) * 4;
            rgba[first..first + 3].try_into().expect("three")
        };
        let (across, down) = (usize::from(size.width) / 4, usize::from(size.height) / 4);
        let found = [(1, 1), (3, 1), (1, 3), (3, 3)].map(|(x, y)| at(x * across, y * down));
        seen.push((size, found));
        let near = |found: [u8; 3], expected: [u8; 3]| {
            found.iter().zip(expected).all(|(found, expected)| found.abs_diff(expected) < 12)
        };
        (size.width, size.height) == (width, height)
            && found.iter().zip(COLOURS).all(|(found, expected)| near(*found, expected))
    };
    for _ in 0..300 {
        if viewer.wait_picture(Duration::from_millis(100)).is_some_and(|picture| fits(&picture)) {
            return;
        }
    }
    panic!("no {width}x{height} picture came: {:?}", seen.last());
}

fn send(viewer: &Viewer, input: impl Into<Input>) {
    viewer.send(input.into()).expect("sent");
}

fn key(viewer: &Viewer, code: &str) {
    for pressed in [true, false] {
        send(viewer, Input::key(code, pressed).expect("a key"));
    }
}

/// Watches a program, acts on it and ends it from afar.
fn play(display: &str, program: &[&str]) {
    let mut running = Running::new(hook(display, program));
    let link = running.line("http");
    let options = Options { connect_limit: Span::from_secs(30), ..Options::default() };
    let viewer = Viewer::connect(&link, &options).expect("a session");
    wait_for_quarters(&viewer, (320, 240));

    let at = ScreenPoint::new(0.25, 0.5);
    for buttons in [0, PRIMARY, 0] {
        let pointer = Pointer { at, buttons, ..Pointer::default() };
        send(&viewer, DeviceInput::Pointer(Some(pointer)));
    }
    assert_eq!(running.line("button"), "button 1 at 80 120", "{program:?}");
    // A notch of the wheel, down.
    let scrolled = Pointer { at, scrolled: [0, 100 * 16], ..Pointer::default() };
    send(&viewer, DeviceInput::Pointer(Some(scrolled)));
    assert_eq!(running.line("button"), "button 5 at 80 120");

    key(&viewer, "Space");
    assert_eq!(running.line("key"), "key 65");
    wait_for_quarters(&viewer, (480, 200));
    key(&viewer, "Escape");
    let (code, said) = running.end();
    assert_eq!(code, Some(7), "{program:?}: {said}");
    assert!(said.contains("480x200") || said.contains("320x240"), "{said}");
    while let Some(event) = viewer.wait_event(Duration::from_secs(30)) {
        if let EventKind::ConnectionLost(reason) = event.kind {
            assert_eq!(reason, "the server is shutting down", "it says goodbye");
            return;
        }
    }
    panic!("{program:?} ended without a goodbye");
}

#[test]
fn programs_that_know_nothing_of_it_are_watched_and_steered() {
    let (screen, folder) = (Xvfb::start(), Folder::new());
    let private = folder.build("private", &["-ldl"]);
    let private = private.to_str().expect("a path");
    let linked = folder.build("linked", &["-DLINKED", "-l:libGL.so.1", "-l:libX11.so.6", "-ldl"]);
    // Linked with OpenGL; opening the libraries itself; over EGL, and behind a script, as games are started.
    play(&screen.display, &[linked.to_str().expect("a path")]);
    play(&screen.display, &[private]);
    play(&screen.display, &["sh", "-c", &format!("'{private}' egl; exit $?")]);

    let mut command = Running::new(hook(&screen.display, &["true"]));
    let (code, said) = command.end();
    assert_eq!(code, Some(0));
    assert!(said.contains("presented no picture"), "{said}");
    let (code, said) = Running::new(hook(&screen.display, &["sh", "-c", "kill -9 $$"])).end();
    assert_eq!((code, said.contains("nothing was streamed")), (Some(128 + 9), true), "{said}");
    let (code, said) = Running::new(hook(&screen.display, &["/nonexistent/program"])).end();
    assert_eq!((code, said.contains("cannot run")), (Some(127), true), "{said}");
}

#[test]
fn what_cannot_be_loaded_is_said_first() {
    let mut command = nearlight();
    command.args(["hook", "--library", "/nonexistent.so", "--", "true"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (code, said) = Running::new(command).end();
    assert_eq!((code, said.contains("/nonexistent.so does not exist")), (Some(1), true), "{said}");
}
