//! Selects the graphics card that renders the program's OpenGL on a new X display.

use std::io::{self, Read as _, Write as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use super::display_server::DisplayServer;
use super::{POLL_INTERVAL, Supervisor};
use crate::clock::{now, pause};
use crate::specification::Task;
use crate::x11::renderer::{self, NVIDIA, VENDOR_VARIABLE};

/// Maximum time that a driver may take to render for the first time. Guess: enough for a cold disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Prints the name of the OpenGL renderer on the display in `DISPLAY`, for [`Supervisor::use_card`].
pub(super) fn name_renderer() -> ExitCode {
    let answered = serde_json::to_writer(io::stdout(), &renderer::ask());
    if answered.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Supervisor {
    /// Makes programs on this display render with the machine's graphics card if that is possible. Returns the card's name.
    pub(super) fn use_card(&mut self, server: &mut DisplayServer) -> Option<String> {
        let chosen = std::env::var_os(VENDOR_VARIABLE).is_some_and(|vendor| vendor != NVIDIA);
        if chosen || !renderer::may_draw_anywhere() {
            return None;
        }
        server.variables.push((VENDOR_VARIABLE, NVIDIA.into()));
        match ask(server) {
            Ok(card) => Some(card),
            Err(reason) => {
                server.variables.pop();
                self.notes.push(format!("NVIDIA's OpenGL does not draw on Xvfb, the processor does instead: {reason}"));
                None
            }
        }
    }
}

/// Asks a separate process that has the programs' variables for the renderer.
fn ask(server: &DisplayServer) -> Result<String, String> {
    let wrong = |error: io::Error| format!("it cannot be asked ({error})");
    let mut command = Command::new(std::env::current_exe().map_err(wrong)?);
    command.args(std::env::args_os().skip(1)).envs(server.variables.iter().map(|(name, value)| (name, value)));
    let mut asked =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(wrong)?;
    let answer = answer(&mut asked);
    // Fails if the process has ended by itself.
    let _ = asked.kill();
    let _ = asked.wait();
    answer.map_err(wrong)?
}

fn answer(asked: &mut Child) -> io::Result<Result<String, String>> {
    if let Some(mut input) = asked.stdin.take() {
        writeln!(input, "{}", serde_json::to_string(&Task::NameRenderer)?)?;
    }
    let begun = now();
    while asked.try_wait()?.is_none() {
        if begun.elapsed() > ANSWER_TIMEOUT {
            return Ok(Err(format!("no answer within {ANSWER_TIMEOUT:?}")));
        }
        pause(POLL_INTERVAL / 5);
    }
    let mut words = String::new();
    if let Some(mut output) = asked.stdout.take() {
        output.read_to_string(&mut words)?;
    }
    // There is no answer if the driver has crashed the process.
    Ok(serde_json::from_str(&words).unwrap_or_else(|_| Err("the driver ended the process".into())))
}
