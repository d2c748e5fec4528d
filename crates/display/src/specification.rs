//! What to run and how, and what the supervisor reports of it.

use std::ffi::OsString;
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Sandbox;
use crate::gamepad::Rumble;
use crate::gamepads::PadChange;

/// A program to serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramOptions {
    /// The program and its arguments; none where an existing display is shown as it is.
    pub command: Vec<OsString>,
    /// An existing X display such as `:1`; none starts Xvfb.
    pub display: Option<String>,
    /// What the program draws on, where no display is there already.
    pub compositor: Compositor,
    /// Of the display, in pixels; both even.
    pub size: (u16, u16),
    /// The display's size follows that of the window of the viewer who has the controls, up to this; none: it stays as it is. An existing
    /// display always does.
    pub largest: Option<(u16, u16)>,
    pub restart: Restart,
    pub sandbox: Sandbox,
    /// The program may use the network.
    pub network: bool,
    /// The user that the program runs as; none: `nobody` where the server was started by root, else the server's own.
    pub user: Option<String>,
    pub cpu_share: Option<CpuShare>,
    /// How it gets the gamepads of whoever has the controls.
    pub gamepads: GamepadMeans,
    /// Viewers hear what it plays. On an existing display, programs play where they always do.
    pub sound: bool,
    /// The program may record the microphone of whoever has the controls, if that viewer's page offers it. Needs `sound`.
    pub microphone: bool,
}

impl ProgramOptions {
    /// A program on an Xvfb of this size that stays as it is: once, in a strict sandbox, without network, gamepads and sound.
    #[must_use]
    pub const fn new(command: Vec<OsString>, size: (u16, u16)) -> Self {
        Self {
            command,
            display: None,
            compositor: Compositor::X11,
            size,
            largest: None,
            restart: Restart::Never,
            sandbox: Sandbox::Strict,
            network: false,
            user: None,
            cpu_share: None,
            gamepads: GamepadMeans::Off,
            sound: false,
            microphone: false,
        }
    }
}

/// What a program draws on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compositor {
    /// An X server, Xvfb.
    #[default]
    X11,
    /// sway, for programs that need Wayland.
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

/// How a program gets the gamepads of whoever has the controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GamepadMeans {
    /// As devices where that is possible, else as a file, else not at all.
    #[default]
    Auto,
    /// As the kernel's input devices: as many as a viewer can have.
    Uinput,
    /// As a file that answers as a device does: one.
    File,
    /// Not at all.
    Off,
}

impl FromStr for GamepadMeans {
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

/// When to start a program again that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restart {
    /// The server ends as well.
    #[default]
    Never,
    /// If it failed: a signal, or another exit status than 0.
    OnFailure,
    Always,
}

impl Restart {
    /// Whether to start it again after it ended in this way.
    #[must_use]
    pub const fn applies(self, ending: Ending) -> bool {
        match self {
            Self::Never => false,
            Self::OnFailure => !matches!(ending, Ending::Status(0)),
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

/// The most processor time that the program gets: a percentage of all cores.
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

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    Status(u8),
    Signal(u8),
}

impl Ending {
    /// A shell's exit status: 128 and the number for a signal.
    #[must_use]
    pub const fn status(self) -> u8 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128 + signal,
        }
    }

    /// A shell within the sandbox reports a signal as an exit status.
    pub(crate) const fn from_status(status: u8) -> Self {
        // 64 signals at most.
        if status > 128 && status <= 128 + 64 { Self::Signal(status - 128) } else { Self::Status(status) }
    }
}

impl std::fmt::Display for Ending {
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

/// What a process that runs [`crate::supervise`] is to do: the first line of its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    Supervise(ProgramOptions),
    /// Print what draws the OpenGL of the display in `DISPLAY`, or why nothing does: a JSON string, as `Result`.
    NameRenderer,
}

/// What the supervisor reports, one JSON object in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Report {
    /// The X server answers at this display for this cookie. The program reaches the sockets in the folder. Its OpenGL is drawn by the
    /// graphics card of this name, if one draws there.
    Display { number: u32, cookie: Vec<u8>, folder: PathBuf, card: Option<String> },
    /// The compositor answers at its Wayland socket and at its own. The program reaches the sockets in the folder.
    Compositor { wayland: PathBuf, own: PathBuf, folder: PathBuf },
    /// The program runs and can have so many gamepads; `how` describes its sandbox, for people.
    Started { how: String, gamepads: u8 },
    /// A line of the program's standard output or error.
    Output { line: String },
    /// One of the gamepads is to vibrate.
    Rumble { gamepad: u8, rumble: Rumble },
    /// It is started again if `again`.
    Ended { ending: Ending, again: bool },
    /// It cannot be run.
    Failed { reason: String },
}

/// The sound server's socket, in the folder that the program reaches.
pub(crate) const SOUND_SOCKET: &str = "pulse";

/// What the supervisor is told after the options, one JSON value in a line. The end of its standard input ends everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Demand {
    /// The windows are managed: the program may start.
    Start,
    /// One of the program's gamepads is as it is now.
    Gamepad(PadChange),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_started_again_as_the_owner_wants() {
        let endings = [Ending::Status(0), Ending::Status(3), Ending::Signal(11)];
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
    fn endings_read_as_a_shell_reports_them() {
        for (status, words) in [
            (0, "exit status 0"),
            (3, "exit status 3"),
            (139, "signal 11 (segmentation fault)"),
            (255, "exit status 255"),
        ] {
            let ending = Ending::from_status(status);
            assert_eq!((ending.to_string().as_str(), ending.status()), (words, status));
        }
    }
}
