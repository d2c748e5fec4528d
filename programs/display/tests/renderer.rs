//! A process that [`nearlight_display::supervise`] runs asks OpenGL for the renderer of a display. Needs Xvfb and a driver, which
//! `scripts/setup.sh` installs.

#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, ExitCode, Stdio};

/// The argument with which this program acts as the supervisor.
const SUPERVISOR: &str = "supervisor";

/// An X server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == SUPERVISOR) {
        return nearlight_display::supervise();
    }
    let name = "opengl_tells_who_draws_and_why_nobody_does";
    let ignored = words.iter().any(|word| word == "--ignored");
    if words.iter().any(|word| word == "--list") {
        // The protocol of test runners.
        if !ignored {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    if words.iter().filter(|word| !word.starts_with('-')).all(|word| name.contains(word.as_str())) {
        opengl_tells_who_draws_and_why_nobody_does();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

fn opengl_tells_who_draws_and_why_nobody_does() {
    let mut xvfb = Command::new("Xvfb");
    xvfb.args(["-displayfd", "1", "-screen", "0", "64x64x24", "-nolisten", "tcp"]);
    let mut server = Server(xvfb.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("Xvfb starts"));
    let mut number = String::new();
    let output = server.0.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut number).expect("a number");
    let display = format!(":{}", number.trim());

    // The test selects Mesa, because it cannot know the names of other drivers.
    let renderer = ask(&display).expect("a renderer");
    assert!(["llvmpipe", "softpipe", "SWR"].iter().any(|name| renderer.contains(name)), "{renderer}");
    drop(server);
    let reason = ask(&display).expect_err("no display");
    assert!(reason.contains("does not answer"), "{reason}");
}

fn ask(display: &str) -> Result<String, String> {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(SUPERVISOR).env("DISPLAY", display).env("__GLX_VENDOR_LIBRARY_NAME", "mesa");
    let mut asked = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    writeln!(asked.stdin.take().expect("its input"), "\"NameRenderer\"").expect("a question");
    let output = asked.wait_with_output().expect("an end");
    serde_json::from_slice(&output.stdout).expect("an answer")
}
