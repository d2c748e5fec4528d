//! A program to serve: the options of `nearlight serve` that concern it, and the process that it runs under.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
#[cfg(target_os = "linux")]
use nearlight_display::{
    Compositor, CpuShare, DEFAULT_PROCESSES, GamepadBackend, MemoryLimit, ProgramOptions, ProgramSource, Restart,
    Sandbox,
};
use nearlight_server::{PictureSize, ServeOptions};

/// The subcommand, hidden from users, that the program runs under.
pub const SUPERVISOR: &str = "program-supervisor";

/// Default size and frame rate: 720p60, which two processor cores encode beside a program that draws little.
const DEFAULT_SIZE: (u16, u16) = (1_280, 720);
/// Largest size up to which the program follows a viewer's window: OpenH264 takes 9 ms for a picture of 1080p, and more would be too slow for 60
/// frames a second.
const MAX_SIZE: (u16, u16) = (1_920, 1_080);
const DEFAULT_FPS: u16 = 60;

#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
#[command(next_help_heading = "A program's window")]
pub(crate) struct ProgramArguments {
    /// Program to serve on a display of its own, with its arguments; options come before it
    #[arg(trailing_var_arg = true, value_name = "PROGRAM", conflicts_with_all = ["video", "test_card", "scene", "stereo"])]
    command: Vec<OsString>,
    /// Serve this existing X display, such as :1, with or without a program
    #[arg(long, value_name = "NAME", conflicts_with_all = ["video", "test_card", "scene", "stereo"])]
    display: Option<String>,
    /// Display server for the program: x11 (Xvfb), or sway for a program that needs Wayland (no pointer capture, no clipboard)
    #[arg(long, default_value = "x11", value_name = "x11|sway", requires = "command", conflicts_with = "display")]
    compositor: Compositor,
    /// When to restart the program after it exits: never (the server exits too), on-failure or always
    #[arg(long, default_value = "never", value_name = "WHEN", requires = "command")]
    restart: Restart,
    /// Files that the program can see: strict, home or off
    ///
    /// strict: the system's files, read-only, and an empty home that is deleted afterwards; home: its user's home instead of the empty one;
    /// off: everything that its user can read. strict and home need bubblewrap.
    #[arg(long, default_value = "strict", value_name = "MODE")]
    program_sandbox: Sandbox,
    /// Let the program use the network: on or off [default: off with --program-sandbox strict, otherwise on]
    #[arg(long, value_parser = crate::parse::switch, value_name = "on|off", action = clap::ArgAction::Set)]
    program_network: Option<bool>,
    /// File or folder that the program can read, besides the system's, its own and those named on its command line; repeatable
    #[arg(long = "program-files", value_name = "PATH")]
    program_files: Vec<PathBuf>,
    /// Variable for the program's environment, with this value or with the server's. Of the server's other variables, a program gets only
    /// those of the locale, PATH, and graphics libraries; repeatable
    #[arg(long = "program-env", value_name = "NAME[=VALUE]", value_parser = environment_variable)]
    program_environment: Vec<(OsString, OsString)>,
    /// Let a program in a sandbox create user namespaces, as Chromium and programs made with it do for sandboxes of their own: on or off
    /// [default: off with --program-sandbox strict, otherwise on]
    #[arg(long, value_parser = crate::parse::switch, value_name = "on|off", action = clap::ArgAction::Set)]
    program_namespaces: Option<bool>,
    /// User to run the program as if root starts the server [default: nobody]
    #[arg(long, value_name = "NAME")]
    program_user: Option<String>,
    /// How the program receives the gamepads of the viewer in control: uinput (up to four; needs root and /dev/uinput), file (one, through
    /// /dev/fuse), off, or auto (the first of these that works here)
    #[arg(long, default_value = "auto", value_name = "auto|uinput|file|off")]
    program_gamepads: GamepadBackend,
    /// Let the program record the microphone of the viewer in control, if that viewer's page was opened with ?microphone: on or off
    #[arg(long, default_value = "off", value_parser = crate::parse::switch, value_name = "on|off", action = clap::ArgAction::Set)]
    microphone: bool,
    /// Maximum processor time of the program as a percentage of all cores, such as 60%
    #[arg(long, value_name = "PERCENT")]
    cpu_share: Option<CpuShare>,
    /// Most memory of the program and of the folders in memory that it fills, such as 2G, 512M or 50% of the machine's. Its display gets as
    /// much again [default: 50%]
    #[arg(long, value_name = "SIZE")]
    program_memory: Option<MemoryLimit>,
    /// Most processes and threads of the program together [default: 2048]
    #[arg(long, value_name = "COUNT")]
    program_processes: Option<NonZeroU32>,
}

/// `NAME=VALUE`, or the name of a variable of this process.
#[cfg(target_os = "linux")]
fn environment_variable(text: &str) -> Result<(OsString, OsString), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(OsString::from(value))),
        None => (text, std::env::var_os(text)),
    };
    if name.is_empty() {
        return Err("write NAME=VALUE, or the name of a variable of the server's environment".into());
    }
    let value = value.ok_or_else(|| format!("the server's environment has no variable {name}: write {name}=VALUE"))?;
    Ok((name.into(), value))
}

#[cfg(target_os = "linux")]
impl ProgramArguments {
    pub(crate) fn is_given(&self) -> bool {
        !self.command.is_empty() || self.display.is_some()
    }

    /// Rejects options of a program that is not there, or of its sound.
    pub(crate) fn reject_unused_options(&self, sound: bool) -> anyhow::Result<()> {
        let given = [
            (self.compositor != Compositor::X11, "--compositor"),
            (self.restart != Restart::Never, "--restart"),
            (self.program_sandbox != Sandbox::Strict, "--program-sandbox"),
            (self.program_network.is_some(), "--program-network"),
            (self.program_user.is_some(), "--program-user"),
            (self.program_gamepads != GamepadBackend::Auto, "--program-gamepads"),
            (self.cpu_share.is_some(), "--cpu-share"),
            (self.program_memory.is_some(), "--program-memory"),
            (self.program_processes.is_some(), "--program-processes"),
            (self.program_namespaces.is_some(), "--program-namespaces"),
            (!self.program_files.is_empty(), "--program-files"),
            (!self.program_environment.is_empty(), "--program-env"),
            (self.microphone, "--microphone on"),
        ];
        if self.command.is_empty()
            && let Some((_, option)) = given.into_iter().find(|(is_given, _)| *is_given)
        {
            anyhow::bail!(
                "{option} applies only to a program that the server starts: name one, as in `nearlight serve xterm`, or remove {option}"
            );
        }
        anyhow::ensure!(
            !self.microphone || (sound && self.display.is_none()),
            "--microphone on needs the program's own sound server, which does not exist with --sound off or --display: remove one of them"
        );
        self.reject_media_file()?;
        let fenced = self.program_sandbox != Sandbox::Off && self.display.is_none();
        anyhow::ensure!(
            fenced || matches!(self.program_gamepads, GamepadBackend::Auto | GamepadBackend::Off),
            "--program-gamepads needs a sandbox and a display of the program's own, and so does not work with --program-sandbox off or \
             --display: remove one of them"
        );
        Ok(())
    }

    /// Rejects a scene or a video in place of a program, and names the option that serves it.
    fn reject_media_file(&self) -> anyhow::Result<()> {
        let [file] = self.command.as_slice() else { return Ok(()) };
        let file = Path::new(file);
        let extension = file.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase();
        let option = match extension.as_str() {
            "glb" | "gltf" => "--scene",
            "avi" | "mkv" | "mov" | "mp4" | "webm" => "--video",
            _ => return Ok(()),
        };
        let name = file.display();
        anyhow::bail!("{name} is not a program; to serve this file, use `nearlight serve {option} {name}`")
    }

    /// Returns whether the program's display has a clipboard that viewers can share.
    pub(crate) fn has_clipboard(&self) -> bool {
        self.compositor == Compositor::X11
    }

    /// Starts the display. Starts no threads.
    pub(crate) fn open(&self, size: PictureSize, fps: Option<u16>, sound: bool) -> anyhow::Result<Option<Program>> {
        if !self.is_given() {
            return Ok(None);
        }
        let (size, max_size) = match size {
            PictureSize::Auto => (DEFAULT_SIZE, Some(MAX_SIZE)),
            PictureSize::Fixed { width, height } => ((width, height), None),
        };
        let options = ProgramOptions {
            command: self.command.clone(),
            display: self.display.clone(),
            compositor: self.compositor,
            size,
            max_size,
            restart: self.restart,
            sandbox: self.program_sandbox,
            network: self.program_network.unwrap_or(self.program_sandbox != Sandbox::Strict),
            user: self.program_user.clone(),
            cpu_share: self.cpu_share,
            memory: self.program_memory.unwrap_or(MemoryLimit::DEFAULT),
            processes: self.program_processes.unwrap_or(DEFAULT_PROCESSES),
            files: self.program_files.clone(),
            environment: self.program_environment.clone(),
            user_namespaces: self.program_namespaces.unwrap_or(self.program_sandbox != Sandbox::Strict),
            gamepads: self.program_gamepads,
            sound,
            microphone: self.microphone,
        };
        let own = std::env::current_exe()?;
        let fps = fps.unwrap_or(DEFAULT_FPS);
        let source = ProgramSource::open(&options, fps, (&own, &[SUPERVISOR]))?;
        Ok(Some(Program { source, fps }))
    }
}

/// Starts a display as programs get one, and says what draws their OpenGL there.
#[cfg(target_os = "linux")]
pub(crate) fn graphics_of_own_display() -> anyhow::Result<String> {
    let options = ProgramOptions::new(Vec::new(), (64, 64));
    let source = ProgramSource::open(&options, DEFAULT_FPS, (&std::env::current_exe()?, &[SUPERVISOR]))?;
    Ok(source.graphics().to_owned())
}

/// A program whose display is there.
#[cfg(target_os = "linux")]
pub(crate) struct Program {
    pub(crate) source: ProgramSource,
    fps: u16,
}

#[cfg(target_os = "linux")]
impl Program {
    /// Fills in what the owner has left open.
    pub(crate) fn complete(&self, options: ServeOptions) -> ServeOptions {
        let (width, height) = self.source.size();
        ServeOptions { size: PictureSize::Fixed { width, height }, fps: Some(self.fps), ..options }
    }
}

/// Runs the process that has the display and the program as children.
#[cfg(target_os = "linux")]
pub fn supervise() -> ExitCode {
    nearlight_display::supervise()
}
