//! Options of a program, and the messages between server and supervisor.

use std::ffi::OsString;
use std::num::{NonZeroU8, NonZeroU32};
use std::path::PathBuf;
use std::str::FromStr;

use nearlight_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::Sandbox;
use crate::input::gamepad::Rumble;
use crate::input::gamepads::PadChange;

/// Options of a program to serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct ProgramOptions {
    /// The program and its arguments; empty if an existing display is shown as it is.
    pub command: Vec<OsString>,
    /// An existing X display such as `:1`. `None` starts a new display.
    pub display: Option<String>,
    /// The kind of display that is started.
    pub compositor: Compositor,
    /// Size of the display in pixels; both even.
    pub size: (u16, u16),
    /// Largest size of a display that follows the window of the viewer who has the controls; `None` if the size is fixed. The size of an
    /// existing display is always fixed.
    #[serde(rename = "largest")]
    pub max_size: Option<(u16, u16)>,
    pub restart: Restart,
    pub sandbox: Sandbox,
    /// Whether the program may use the network.
    pub network: bool,
    /// The user as whom the program runs. `None` selects `nobody` if the server was started by root, and otherwise the server's user.
    pub user: Option<String>,
    pub cpu_share: Option<CpuShare>,
    pub memory: MemoryLimit,
    /// Maximum number of the program's processes and threads together.
    pub processes: NonZeroU32,
    /// Further files and folders that the program can read in a sandbox.
    pub files: Vec<PathBuf>,
    /// Variables for the program's environment, which otherwise has few of the server's.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether a program in a sandbox may create user namespaces, as browsers do for sandboxes of their own.
    pub user_namespaces: bool,
    /// How the program gets the driver's gamepads.
    pub gamepads: GamepadBackend,
    /// Whether viewers hear the program's sound. Has no effect on an existing display.
    pub sound: bool,
    /// Whether the program may record the driver's microphone, if that viewer's page offers it. Requires `sound`.
    pub microphone: bool,
}

impl ProgramOptions {
    /// Returns options for a program on an Xvfb of this fixed size, which runs once, in a strict sandbox, without network, gamepads and
    /// sound.
    #[must_use]
    pub const fn new(command: Vec<OsString>, size: (u16, u16)) -> Self {
        Self {
            command,
            display: None,
            compositor: Compositor::X11,
            size,
            max_size: None,
            restart: Restart::Never,
            sandbox: Sandbox::Strict,
            network: false,
            user: None,
            cpu_share: None,
            memory: MemoryLimit::DEFAULT,
            processes: DEFAULT_PROCESSES,
            files: Vec::new(),
            environment: Vec::new(),
            user_namespaces: false,
            gamepads: GamepadBackend::Off,
            sound: false,
            microphone: false,
        }
    }
}

/// The kind of display on which a program draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compositor {
    /// The X server Xvfb.
    #[default]
    X11,
    /// The compositor sway, for programs that need Wayland.
    Sway,
}

impl FromStr for Compositor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "x11" => Ok(Self::X11),
            "sway" => Ok(Self::Sway),
            _ => Err("write x11 or sway"),
        }
    }
}

/// How a program gets the driver's gamepads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GamepadBackend {
    /// As devices if that is possible, otherwise as a file, otherwise not at all.
    #[default]
    Auto,
    /// As kernel input devices, as many as a viewer can have.
    Uinput,
    /// As one file that behaves like a device.
    File,
    /// The program gets no gamepads.
    Off,
}

impl FromStr for GamepadBackend {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "uinput" => Ok(Self::Uinput),
            "file" => Ok(Self::File),
            "off" => Ok(Self::Off),
            _ => Err("write auto, uinput, file or off"),
        }
    }
}

/// When to restart a program that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restart {
    /// The server ends too.
    #[default]
    Never,
    /// If it was ended by a signal or with an exit status other than 0.
    OnFailure,
    Always,
}

impl Restart {
    /// Returns whether to restart a program that has ended in this way.
    #[must_use]
    pub const fn applies(self, ending: ProgramExit) -> bool {
        match self {
            Self::Never => false,
            Self::OnFailure => !matches!(ending, ProgramExit::Status(0)),
            Self::Always => true,
        }
    }
}

impl FromStr for Restart {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "never" => Ok(Self::Never),
            "on-failure" => Ok(Self::OnFailure),
            "always" => Ok(Self::Always),
            _ => Err("write never, on-failure or always"),
        }
    }
}

/// The program's largest share of the processors: a percentage of all cores, 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuShare(pub NonZeroU8);

impl FromStr for CpuShare {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let percent =
            text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|percent: &NonZeroU8| percent.get() <= 100);
        percent.map(Self).ok_or("write a percentage of all cores, such as 60%")
    }
}

/// Default of the maximum number of processes and threads. Guess: several times what browsers and Blender have on many cores.
pub const DEFAULT_PROCESSES: NonZeroU32 = NonZeroU32::new(2_048).expect("not zero");

/// The most memory of a program and the folders in memory that it fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryLimit {
    /// A percentage of the machine's memory, 1 to 100.
    Share(NonZeroU8),
    Absolute(Bytes),
}

impl MemoryLimit {
    /// Half of the memory remains for the machine, the display and the encoders.
    pub const DEFAULT: Self = Self::Share(NonZeroU8::new(50).expect("not zero"));

    /// Returns the limit on a machine with this memory.
    #[must_use]
    pub const fn of(self, machine: Bytes) -> Bytes {
        match self {
            Self::Share(percent) => Bytes::new(machine.get() / 100 * percent.get() as u64),
            Self::Absolute(bytes) => bytes,
        }
    }
}

/// The least memory that a limit may leave a program. Guess: the smallest programs with a window need a few megabytes.
const MIN_MEMORY: u64 = 16 << 20;

impl FromStr for MemoryLimit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const HOW: &str =
            "write a size such as 2G or 512M, at least 16M, or a percentage of the machine's memory such as 50%";
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.parse().ok().filter(|percent: &NonZeroU8| percent.get() <= 100);
            return percent.map(Self::Share).ok_or(HOW);
        }
        let (number, shift) = match text.as_bytes().last() {
            Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
            Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
            _ => return Err(HOW),
        };
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        bytes
            .filter(|bytes| (MIN_MEMORY..1 << 50).contains(bytes))
            .map(|bytes| Self::Absolute(Bytes::new(bytes)))
            .ok_or(HOW)
    }
}

/// How a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramExit {
    Status(u8),
    Signal(u8),
}

impl ProgramExit {
    /// Returns the exit status that a shell would report: for a signal, 128 plus its number.
    #[must_use]
    pub const fn status(self) -> u8 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128 + signal,
        }
    }

    /// Converts the exit status of the shell in the sandbox, which reports a signal as an exit status.
    pub(crate) const fn from_status(status: u8) -> Self {
        // Linux has 64 signals.
        if status > 128 && status <= 128 + 64 { Self::Signal(status - 128) } else { Self::Status(status) }
    }
}

impl std::fmt::Display for ProgramExit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(formatter, "exit status {status}"),
            Self::Signal(signal) => write!(formatter, "signal {signal}{}", signal_name(*signal)),
        }
    }
}

fn signal_name(signal: u8) -> &'static str {
    match signal {
        4 => " (illegal instruction)",
        6 => " (aborted)",
        8 => " (arithmetic error)",
        9 => " (killed)",
        11 => " (segmentation fault)",
        15 => " (terminated)",
        _ => "",
    }
}

/// The task of a process that runs [`crate::supervise`], which is the first line of its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    Supervise(ProgramOptions),
    /// Print the name of the OpenGL renderer on the display in `DISPLAY`, or an error: a `Result` of strings as JSON.
    NameRenderer,
}

/// A report of the supervisor: one JSON object per line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Report {
    /// The X server is ready at this display, with this cookie. The program has access to the sockets in the folder. `card` is the graphics
    /// card that renders its OpenGL, if there is one.
    Display { number: u32, cookie: Vec<u8>, folder: PathBuf, card: Option<String> },
    /// The compositor is ready at its Wayland socket and its IPC socket. The program has access to the sockets in the folder.
    Compositor { wayland: PathBuf, own: PathBuf, folder: PathBuf },
    /// The program runs. `how` describes its sandbox, and `gamepads` is the number of gamepads that it can have.
    Started { how: String, gamepads: u8 },
    /// A line of the program's standard output or error.
    Output { line: String },
    /// The program plays an effect on one of its gamepads.
    Rumble { gamepad: u8, rumble: Rumble },
    /// The program has ended, and is restarted if `again` is set.
    Ended { ending: ProgramExit, again: bool },
    /// The program cannot be run.
    Failed { reason: String },
}

/// The name of the sound server's socket, in the folder to which the program has access.
pub(crate) const SOUND_SOCKET: &str = "pulse";

/// A command to the supervisor: one JSON value per line, after the task. The supervisor ends when its standard input closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SupervisorCommand {
    /// Start the program, because its windows are managed now.
    Start,
    /// Set the state of one of the program's gamepads.
    Gamepad(PadChange),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_started_again_as_the_owner_wants() {
        let endings = [ProgramExit::Status(0), ProgramExit::Status(3), ProgramExit::Signal(11)];
        for (name, applies) in [("never", [false; 3]), ("on-failure", [false, true, true]), ("always", [true; 3])] {
            let restart: Restart = name.parse().expect(name);
            assert_eq!(endings.map(|ending| restart.applies(ending)), applies, "{name}");
        }
        assert!("sometimes".parse::<Restart>().is_err());
    }

    #[test]
    fn shares_are_percentages() {
        for (text, share) in [("60%", Some(60)), ("100", Some(100)), ("0%", None), ("101%", None), ("half", None)] {
            assert_eq!(text.parse::<CpuShare>().ok().map(|share| share.0.get()), share, "{text}");
        }
    }

    #[test]
    fn memory_is_a_size_or_a_share_of_the_machines() {
        for (text, megabytes) in [
            ("2G", Some(2_048)),
            ("512m", Some(512)),
            ("50%", Some(500)),
            ("1M", None),
            ("0%", None),
            ("101%", None),
            ("2", None),
            ("", None),
            ("99999999999G", None),
            ("-1G", None),
        ] {
            let limit = text.parse::<MemoryLimit>().ok().map(|limit| limit.of(Bytes::new(1_000 << 20)));
            assert_eq!(limit.map(|bytes| bytes.get() >> 20), megabytes, "{text}");
        }
    }

    #[test]
    fn endings_read_as_a_shell_reports_them() {
        for (status, words) in [
            (0, "exit status 0"),
            (3, "exit status 3"),
            (139, "signal 11 (segmentation fault)"),
            (255, "exit status 255"),
        ] {
            let ending = ProgramExit::from_status(status);
            assert_eq!((ending.to_string().as_str(), ending.status()), (words, status));
        }
    }
}
