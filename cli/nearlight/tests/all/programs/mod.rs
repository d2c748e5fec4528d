//! Programs on a display of their own, through the source that the server captures: movement, whole pictures, dialogs, sound.
//!
//! Pixels, sums and counts; nothing here looks at how long anything took. Typing, the sandbox and restarts are tested through the page
//! (`web/tests/program.test.mjs`).
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "a test that waits for other processes")]

mod attacks;
mod confinement;
mod selections;

use crate::process;
use crate::support;
use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use nearlight_display::{ProgramOptions, ProgramSource, Sandbox};
use nearlight_scene::{
    Application as _, Output, PictureSink, Planes, PlanesContent, PushSource as _, SceneError, SubmittedPicture,
    Viewer, ViewerInput,
};
use nearlight_units::{Span, Time, lock};
use nearlight_wire::{Devices, InputEvent, Key, Pointer};
use process::Process;
use support::nearlight;

const SIZE: (u16, u16) = (320, 240);
const ONE: Viewer = Viewer(1);
/// Failing takes so long; passing takes what it takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// The tests of this file judge time: one runs at a time, from its folder on.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The folder of one test. Removed at the end.
struct Folder(PathBuf, #[expect(dead_code, reason = "held until the test ends")] MutexGuard<'static, ()>);

impl Folder {
    /// With the program in it.
    fn new(name: &str) -> Self {
        let alone = lock(&ONE_AT_A_TIME);
        let path = std::env::temp_dir().join(format!("nearlight-programs-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/programs/program.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu99", "-Wall", "-O1"]).arg(source).arg("-o").arg(path.join("program")).arg("-ldl");
        let output = compiler.output().expect("a C compiler, which the build needs too");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(path, alone)
    }

    fn program(&self) -> PathBuf {
        self.0.join("program")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A picture's greys at the upper and at the lower edge and in the middle.
type Greys = [u8; 3];

/// Passes on what is captured.
struct Sink {
    start: Instant,
    greys: Mutex<Sender<Greys>>,
    failures: Mutex<Vec<String>>,
}

impl PictureSink for Sink {
    fn now(&self) -> Time {
        Time::ZERO + Span::from_nanos(self.start.elapsed().as_nanos() as i64)
    }

    fn submit(&self, picture: &SubmittedPicture<'_>) {
        let pixels = &picture.pixels;
        let grey = |row: usize| pixels.bytes[row * pixels.stride + pixels.stride / 2];
        let last = usize::from(pixels.height) - 1;
        let _ = self.greys.lock().expect("whole").send([grey(0), grey(last / 2), grey(last)]);
    }

    fn lend(&self, _: (u16, u16)) -> Planes {
        Planes::default()
    }

    fn submit_planes(&self, _: Planes, _: &PlanesContent<'_>) {}
    fn put_back(&self, _: Planes) {}
    fn on_output(&self) {}

    fn on_failed(&self, reason: SceneError) {
        self.failures.lock().expect("whole").push(reason.to_string());
    }
}

/// A program that is served to one viewer. What it prints is read through a file, as its sandbox is off.
struct Served {
    source: ProgramSource,
    sink: Arc<Sink>,
    greys: Receiver<Greys>,
    printed: PathBuf,
    pointer: Pointer,
}

impl Served {
    fn start(folder: &Folder, what: &str, fps: u16) -> Self {
        Self::start_shell(folder, &format!("exec {} {what}", folder.program().display()), fps)
    }

    /// Serves what a shell runs in the test's folder.
    fn start_shell(folder: &Folder, script: &str, fps: u16) -> Self {
        let printed = folder.0.join("printed");
        let words = format!("cd {} && exec > {} && {script}", folder.0.display(), printed.display());
        let options = ProgramOptions {
            sandbox: Sandbox::Off,
            // Root's programs may write into the folder.
            user: is_root().then(|| "root".into()),
            ..ProgramOptions::new(["sh", "-c", &words].map(Into::into).to_vec(), SIZE)
        };
        let supervisor = Path::new(env!("CARGO_BIN_EXE_nearlight"));
        let mut source = ProgramSource::open(&options, fps, (supervisor, &["program-supervisor"])).expect("a display");
        let (to, greys) = channel();
        let sink = Arc::new(Sink { start: Instant::now(), greys: Mutex::new(to), failures: Mutex::default() });
        source.start(Arc::clone(&sink) as Arc<dyn PictureSink>).expect("threads");
        source.on_viewer_joined(Time::ZERO, ONE);
        source.set_watched(true);
        Self { source, sink, greys, printed, pointer: Pointer::default() }
    }

    /// Returns why the source has ended, if it has.
    fn failures(&self) -> Vec<String> {
        self.sink.failures.lock().expect("whole").clone()
    }

    /// Waits until it has printed a line that begins so, and returns that line.
    fn until_prints(&self, wanted: &str) -> String {
        let begin = Instant::now();
        loop {
            let printed = fs::read_to_string(&self.printed).unwrap_or_default();
            if let Some(line) = printed.lines().rfind(|line| line.starts_with(wanted)) {
                return line.to_owned();
            }
            assert!(begin.elapsed() < PATIENCE, "`{wanted}` was not printed, but: {printed}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn input(&mut self, keys: &[Key], events: &[InputEvent]) {
        let devices = Devices { pointer: Some(self.pointer), keys: keys.to_vec(), ..Devices::default() };
        let input = ViewerInput { devices, events: events.to_vec(), ..ViewerInput::default() };
        self.source.on_input(self.sink.now(), ONE, &input);
    }

    fn press(&mut self, name: &str) {
        let key = Key::from_code(name).expect(name);
        self.input(&[key], &[InputEvent::Key { key, pressed: true }]);
        self.input(&[], &[InputEvent::Key { key, pressed: false }]);
    }

    /// Waits for an output to the viewer that is wanted.
    fn until_told(&mut self, wanted: impl Fn(&Output) -> bool) {
        let begin = Instant::now();
        loop {
            while let Some((_, output)) = self.source.poll_output() {
                if wanted(&output) {
                    return;
                }
            }
            assert!(begin.elapsed() < PATIENCE, "the viewer is not told");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[test]
fn movement_arrives_whole_in_a_program_that_captures_the_pointer() {
    let folder = Folder::new("relative");
    let mut served = Served::start(&folder, "relative", 30);
    served.until_prints("captured");
    served.press("KeyA");
    served.until_told(|output| matches!(output, Output::Pointer { captured: true, .. }));
    served.until_prints("moved");
    let before = sums(&served.until_prints("moved"));
    // As a mouse at 1,000 Hz reports it, faster than it may be injected, back and forth and with repetitions.
    served.pointer.captured = true;
    served.input(&[], &[]);
    for step in 0..400_i32 {
        served.pointer.moved[0] += 3;
        served.pointer.moved[1] -= if step % 2 == 0 { 5 } else { -4 };
        served.input(&[], &[]);
    }
    // The key is pressed where the movement has led.
    served.press("KeyB");
    let begin = Instant::now();
    let [right, down, moves] = loop {
        let after = sums(&served.until_prints("moved"));
        let arrived = [0, 1, 2].map(|index| after[index] - before[index]);
        if arrived[..2] == [1_200, -200] || begin.elapsed() > PATIENCE {
            break arrived;
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!([right, down], [1_200, -200], "in {moves} moves");
}

fn sums(line: &str) -> [i64; 3] {
    let numbers: Vec<i64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().expect("three numbers")
}

#[test]
fn programs_that_start_together_have_displays_of_their_own() {
    let folder = Folder::new("together");
    let all: Vec<Served> = thread::scope(|scope| {
        let starting: Vec<_> = (0..3).map(|_| scope.spawn(|| Served::start(&folder, "dialog", 10))).collect();
        starting.into_iter().map(|thread| thread.join().expect("each has a display")).collect()
    });
    let names: Vec<String> = all.iter().map(|served| served.source.describe()).collect();
    assert!(names[0] != names[1] && names[1] != names[2] && names[2] != names[0], "{names:?}");
}

#[test]
fn no_picture_of_2000_is_torn() {
    let folder = Folder::new("stripes");
    let served = Served::start(&folder, "stripes", 500);
    let (mut seen, mut changes, mut before) = (0, 0, None);
    while seen < 2_000 {
        let greys = served.greys.recv_timeout(PATIENCE).expect("a picture");
        // Before its window fills the display.
        if changes < 5 && greys.iter().any(|grey| *grey != greys[0]) {
            continue;
        }
        assert!(greys.iter().all(|grey| *grey == greys[0]), "picture {seen} is torn: {greys:?}");
        changes += u32::from(before.is_some_and(|before| before != greys));
        before = Some(greys);
        seen += 1;
    }
    assert!(changes > 200, "only {changes} different pictures");
}

#[test]
fn a_window_at_rest_is_captured_no_more() {
    let folder = Folder::new("rest");
    let served = Served::start(&folder, "relative", 60);
    served.until_prints("captured");
    // The last pictures of a window that was just drawn come within 230 ms.
    let begin = Instant::now();
    while served.greys.recv_timeout(Duration::from_secs(1)).is_ok() {
        assert!(begin.elapsed() < PATIENCE, "the program does not rest");
    }
    assert_eq!(served.greys.recv_timeout(Duration::from_secs(2)), Err(RecvTimeoutError::Timeout));
}

#[test]
fn a_dialog_gets_the_keyboard_and_gives_it_back() {
    let folder = Folder::new("dialog");
    let mut served = Served::start(&folder, "dialog", 30);
    // The box is light in a dark window, in the middle.
    let begin = Instant::now();
    loop {
        let [above, middle, below] = served.greys.recv_timeout(PATIENCE).expect("a picture");
        if middle != above && middle != below {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "no dialog is seen");
    }
    // Its button is pressed by the keyboard, which it must have for that.
    let begin = Instant::now();
    while !fs::read_to_string(&served.printed).unwrap_or_default().contains("closed") {
        served.press("Enter");
        assert!(begin.elapsed() < PATIENCE, "the dialog does not close");
        thread::sleep(Duration::from_millis(200));
    }
    served.until_prints("closed");
    let begin = Instant::now();
    // SDL's number of the key.
    while !fs::read_to_string(&served.printed).unwrap_or_default().contains("key 14") {
        served.press("KeyK");
        assert!(begin.elapsed() < PATIENCE, "the window does not get the keyboard back");
        thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn what_a_program_plays_is_heard_at_its_pitch() {
    let folder = Folder::new("sound");
    let tone: Vec<u8> = (0..44_100_u32 * 20)
        .map(|frame| (128.0 + 100.0 * (frame as f32 * 440.0 * std::f32::consts::TAU / 44_100.0).sin()) as u8)
        .collect();
    let file = folder.0.join("tone");
    fs::write(&file, tone).expect("a tone");
    let file = file.display();
    for words in [
        format!("paplay --raw --format=u8 --rate=44100 --channels=1 {file}"),
        // GStreamer offers its formats as a list, and nothing else.
        "gst-launch-1.0 -q audiotestsrc freq=440 num-buffers=900 ! audioconvert ! pulsesink".into(),
        // ALSA's default device is the sound server.
        format!("aplay -q -t raw -f U8 -r 44100 -c 1 {file}"),
    ] {
        let pitches = pitches_heard(&folder, &words);
        let right = pitches.iter().filter(|pitch| (**pitch - 440.0).abs() <= 10.0).count();
        // A portion with a gap, of which a busy machine makes some, seems to have another pitch. A wrong format or rate changes all of them.
        assert!(right >= 10 && right * 2 > pitches.len(), "{words}: {pitches:?}");
    }
}

/// Returns the pitches of portions of 100 ms in which a viewer hears the program, in hertz.
fn pitches_heard(folder: &Folder, words: &str) -> Vec<f64> {
    let (server, first) = serve(&["--size", "320x240", "--fps", "10"], &["sh", "-c", &format!("exec {words}")]);
    let heard = folder.0.join("heard.wav");
    let mut viewer = nearlight();
    viewer.args(["view", first["url"].as_str().expect("a link"), "--headless", "--seconds", "4", "--json"]);
    let output = viewer.arg("--record-sound").arg(&heard).output().expect("the command starts");
    drop(server);
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(summary["sound"]["delay_ms"].is_number(), "{words}: {}", summary["sound"]);
    let wav = fs::read(&heard).expect("a recording");
    let samples: Vec<i16> = wav[44..].chunks_exact(4).map(|frame| i16::from_le_bytes([frame[0], frame[1]])).collect();
    // A client on a busy machine conceals some blocks.
    samples.chunks_exact(4_800).filter(|part| loudest(part) > 8_000).map(pitch).collect()
}

#[test]
fn the_window_managers_name_is_one_with_which_java_does_not_wait_for_frames() {
    let folder = Folder::new("name");
    let script = r#"window=$(xprop -root -notype _NET_SUPPORTING_WM_CHECK) && xprop -id "${window##* }" -notype _NET_WM_NAME && exec sleep 60"#;
    let served = Served::start_shell(&folder, script, 10);
    let line = served.until_prints("_NET_WM_NAME");
    // The names of managers without frames that AWT knows (OpenJDK's XWM.java).
    assert!(["compiz", "LG3D", "CWM"].iter().any(|name| line.contains(name)), "{line}");
}

#[test]
fn a_program_has_a_locale_of_utf_8_where_the_machine_has_none() {
    let folder = Folder::new("locale");
    let served = Served::start_shell(&folder, "echo charmap $(locale charmap) && exec sleep 60", 10);
    assert_eq!(served.until_prints("charmap"), "charmap UTF-8");
}

/// Ten processes watch, of which each says what rate suits it.
#[test]
fn ten_viewers_of_a_program_cost_at_most_three_encodes_of_a_picture() {
    let folder = Folder::new("ten");
    let program = folder.program();
    let (server, first) = serve(
        &["--size", "320x240", "--fps", "10", "--sound", "off", "--max-clients", "10"],
        &[program.to_str().expect("text"), "blink"],
    );
    let viewers: Vec<_> = (0..10)
        .map(|_| {
            let mut viewer = nearlight();
            viewer.args(["view", first["url"].as_str().expect("a link"), "--headless", "--seconds", "5", "--json"]);
            viewer.stdout(Stdio::piped()).spawn().expect("the command starts")
        })
        .collect();
    for viewer in viewers {
        let output = viewer.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(summary["frames"]["displayed"].as_u64().expect("a count") > 0, "{}", summary["frames"]);
    }
    let figures = metrics(first["port"].as_u64().expect("a port") as u16);
    drop(server);
    let figure = |name: &str| {
        let line = figures.lines().find_map(|line| line.strip_prefix(&format!("nearlight_{name} ")));
        line.and_then(|number| number.parse::<u64>().ok()).unwrap_or_else(|| panic!("no {name}: {figures}"))
    };
    let (pictures, encodes) = (figure("shared_pictures_total"), figure("shared_encodes_total"));
    // As few as that on the busiest machine.
    assert!(pictures >= 5 && encodes <= 3 * pictures, "{encodes} encodes of {pictures} pictures");
}

fn metrics(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the page's port is open");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// A server of a program without a sandbox, in which its folder would not be, and its first output.
fn serve(options: &[&str], program: &[&str]) -> (Process, serde_json::Value) {
    let mut command = nearlight();
    command.args(["serve", "--json", "--port", "0", "--program-sandbox", "off"]).args(options);
    if is_root() {
        command.args(["--program-user", "root"]);
    }
    let mut child = command.arg("--").args(program).stdout(Stdio::piped()).spawn().expect("the command starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a first line");
    (Process(child), serde_json::from_str(&line).expect("JSON"))
}

fn loudest(samples: &[i16]) -> u16 {
    samples.iter().map(|sample| sample.unsigned_abs()).max().unwrap_or(0)
}

/// In hertz, by the upward crossings of zero at 48 kHz.
fn pitch(samples: &[i16]) -> f64 {
    let ups: Vec<usize> =
        samples.windows(2).enumerate().filter(|(_, pair)| pair[0] < 0 && pair[1] >= 0).map(|(at, _)| at).collect();
    match ups[..] {
        [first, .., last] => (ups.len() - 1) as f64 * 48_000.0 / (last - first) as f64,
        _ => 0.0,
    }
}
