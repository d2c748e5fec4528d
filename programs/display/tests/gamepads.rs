//! Viewers' gamepads in a sandboxed program that uses SDL: the program distinguishes them, and each one vibrates separately.
//!
//! The binary is also the program's supervisor, and therefore has its own `main`. It accepts `--ignored` and the beginning of a test's
//! name.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "a test that waits for other processes")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nearlight_display::{GamepadBackend, ProgramOptions, ProgramSource};
use nearlight_scene::{
    Application as _, Output, PictureSink, Planes, PlanesContent, PushSource as _, SceneError, SubmittedPicture,
    Viewer, ViewerInput,
};
use nearlight_units::{Span, Time};
use nearlight_wire::{Devices, Gamepad, Haptics, HapticsTarget, InputEvent};

const SUPERVISOR: &str = "program-supervisor";
const ONE: Viewer = Viewer(1);
/// Time limit of a wait. Guess: enough for a slow emulated machine.
const PATIENCE: Duration = Duration::from_secs(100);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == SUPERVISOR) {
        return nearlight_display::supervise();
    }
    let ignored = words.iter().any(|word| word == "--ignored");
    let (name, test): (&str, fn()) = if ignored {
        // Requires root and /dev/uinput: scripts/test-gamepads.sh runs it in a virtual machine.
        ("gamepads_by_uinput_are_told_apart", gamepads_by_uinput_are_told_apart)
    } else {
        ("a_program_has_the_gamepad_that_was_used_first", a_program_has_the_gamepad_that_was_used_first)
    };
    if words.iter().any(|word| word == "--list") {
        // The protocol of test runners.
        println!("{name}: test");
        return ExitCode::SUCCESS;
    }
    if words.iter().filter(|word| !word.starts_with('-')).all(|word| name.contains(word.as_str())) {
        test();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

/// The folder of the program, which is compiled when none is given. It is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("nearlight-gamepads-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        if let Some(compiled) = std::env::var_os("NEARLIGHT_TEST_PROGRAM") {
            fs::copy(compiled, path.join("program")).expect("a program");
            return Self(path);
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cli/nearlight/tests/all/programs/program.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu99", "-Wall", "-O1"]).arg(source).arg("-o").arg(path.join("program")).arg("-ldl");
        let output = compiler.output().expect("a C compiler, which the build needs too");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A sink that ignores pictures.
struct Sink {
    start: Instant,
}

impl PictureSink for Sink {
    fn now(&self) -> Time {
        Time::ZERO + Span::from_nanos(self.start.elapsed().as_nanos() as i64)
    }

    fn submit(&self, _: &SubmittedPicture<'_>) {}

    fn lend(&self, _: (u16, u16)) -> Planes {
        Planes::default()
    }

    fn submit_planes(&self, _: Planes, _: &PlanesContent<'_>) {}
    fn put_back(&self, _: Planes) {}
    fn on_output(&self) {}
    fn on_failed(&self, _: SceneError) {}
}

/// The log, which contains the program's output. The program cannot write files in its sandbox.
static LOG: Mutex<String> = Mutex::new(String::new());

struct ToLog;

impl Write for ToLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().expect("whole").push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn logged(wanted: &str) -> bool {
    LOG.lock().expect("whole").contains(wanted)
}

/// Calls `meanwhile` until a text is logged.
fn wait_for(wanted: &str, mut meanwhile: impl FnMut()) {
    let begin = Instant::now();
    while !logged(wanted) {
        let log = LOG.lock().expect("whole").clone();
        assert!(begin.elapsed() < PATIENCE, "`{wanted}` is not logged, but: {log}");
        meanwhile();
        thread::sleep(Duration::from_millis(10));
    }
}

/// Buttons of the standard mapping.
const A: u8 = 0;
const X: u8 = 2;
const Y: u8 = 3;

/// A program with one viewer.
struct Game {
    source: ProgramSource,
    sink: Arc<Sink>,
    /// The viewer's gamepads.
    gamepads: Vec<Gamepad>,
}

impl Game {
    /// Starts a program whose viewer has gamepads with these numbers.
    fn start(folder: &Folder, means: GamepadBackend, numbers: &[u8]) -> Self {
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::INFO);
        subscriber.with_writer(|| ToLog).init();
        let command = vec![folder.0.join("program").into(), "gamepad".into()];
        let options = ProgramOptions { gamepads: means, ..ProgramOptions::new(command, (320, 240)) };
        let supervisor = std::env::current_exe().expect("this one");
        let mut source = ProgramSource::open(&options, 10, (&supervisor, &[SUPERVISOR])).expect("a display");
        let sink = Arc::new(Sink { start: Instant::now() });
        source.start(Arc::clone(&sink) as Arc<dyn PictureSink>).expect("threads");
        source.on_viewer_joined(Time::ZERO, ONE);
        source.set_watched(true);
        let gamepads = numbers.iter().map(|index| Gamepad { index: *index, ..Gamepad::default() }).collect();
        Self { source, sink, gamepads }
    }

    fn press(&mut self, number: u8, button: u8, pressed: bool) {
        let gamepad = self.gamepads.iter_mut().find(|gamepad| gamepad.index == number).expect("the viewer has it");
        gamepad.pressed = gamepad.pressed & !(1 << button) | u32::from(pressed) << button;
        let devices = Devices { gamepads: self.gamepads.clone(), ..Devices::default() };
        let events = vec![InputEvent::GamepadButton { gamepad: number, button, pressed }];
        let input = ViewerInput { devices, events, ..ViewerInput::default() };
        self.source.on_input(self.sink.now(), ONE, &input);
    }

    /// Presses a button until a text is logged, because a program that has just found a gamepad may not see an earlier press.
    fn press_until(&mut self, number: u8, button: u8, wanted: &str) {
        wait_for(wanted, || {
            for pressed in [true, false] {
                self.press(number, button, pressed);
                thread::sleep(Duration::from_millis(100));
            }
        });
    }

    /// Waits until the viewer's gamepad with this number vibrates, and then stops vibrating.
    fn until_vibrates(&mut self, number: u8) {
        let begin = Instant::now();
        let mut wanted = vec![[0.0, 0.0], [0.5, 0.25]];
        while let Some([strong, weak]) = wanted.last().copied() {
            assert!(begin.elapsed() < PATIENCE, "gamepad {number} is not told to vibrate with {strong} {weak}");
            thread::sleep(Duration::from_millis(10));
            while let Some((_, output)) = self.source.poll_output() {
                let Output::Haptics(Haptics { target, strong: found, weak: with, .. }) = output else { continue };
                // Output for another gamepad from before may arrive later.
                if target == HapticsTarget::Gamepad(number)
                    && (found - strong).abs() < 0.01
                    && (with - weak).abs() < 0.01
                {
                    wanted.pop();
                    break;
                }
            }
        }
    }
}

fn a_program_has_the_gamepad_that_was_used_first() {
    let folder = Folder::new();
    let mut game = Game::start(&folder, GamepadBackend::File, &[0, 2]);
    wait_for("one gamepad, as a file", || {});
    wait_for("0 at the start", || {});
    game.press(2, Y, true);
    wait_for("0: found", || {});
    game.press_until(2, A, "0: vibrates: 0");
    game.until_vibrates(2);
    game.press(0, X, true);
    game.press(2, Y, false);
    game.press_until(2, Y, "0: y down");
    assert!(!logged("x down"), "there is no place for the other");
    assert!(logged("among 1 devices") && !logged("1: found"));
}

fn gamepads_by_uinput_are_told_apart() {
    /// Returns the number of the machine's virtual gamepads.
    fn devices() -> usize {
        let devices = fs::read_to_string("/proc/bus/input/devices").expect("a list");
        devices.matches("Microsoft X-Box 360 pad").count()
    }
    let mounted = || fs::read_to_string("/proc/mounts").expect("a list").matches("-input tmpfs").count();
    let folder = Folder::new();
    // `Auto` selects it when it is possible.
    let mut game = Game::start(&folder, GamepadBackend::Auto, &[0, 2, 3]);
    wait_for("up to 4 gamepads (uinput)", || {});
    wait_for("0 at the start", || {});
    assert_eq!((devices(), mounted()), (0, 1), "none that is not used");
    game.press(2, Y, true);
    wait_for("0: found", || {});
    game.press_until(2, A, "0: vibrates: 0");
    game.until_vibrates(2);
    game.press(0, Y, true);
    wait_for("1: found", || {});
    game.press_until(0, A, "1: vibrates: 0");
    game.until_vibrates(0);
    // The machine has a keyboard as well, which the program does not see.
    assert!(logged("among 1 devices") && logged("among 2 devices") && !logged("among 3 devices"));
    game.press(2, X, true);
    wait_for("0: x down", || {});
    game.press(0, Y, false);
    game.press(0, Y, true);
    wait_for("1: y down", || {});
    assert!(!logged("1: x down") && !logged("2: found"), "each at its own, and no third one");
    assert_eq!(devices(), 2);
    game.source.on_viewer_left(ONE);
    wait_for("0: x up", || {});
    wait_for("1: y up", || {});
    drop(game);
    assert_eq!((devices(), mounted()), (0, 0), "they are gone with the program");
}
