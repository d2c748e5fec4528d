//! The program's sandbox: the arguments of bubblewrap.
//!
//! The program and its X server stay in one IPC namespace. Without `SysV` shared memory between them, each picture of a program that
//! renders in software would be sent through a socket.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How strictly the program is isolated from the machine's files and processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sandbox {
    /// There is no sandbox.
    Off,
    /// The program can read the system's folders, and read and write the user's home.
    Home,
    /// The program can read the system's folders, and has an empty home that is deleted when it ends.
    #[default]
    Strict,
}

impl FromStr for Sandbox {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            "home" => Ok(Self::Home),
            "strict" => Ok(Self::Strict),
            _ => Err("write off, home or strict"),
        }
    }
}

/// Folders of programs, libraries and their data. Those that do not exist are skipped.
const SYSTEM_FOLDERS: [&str; 13] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/sys",
    "/var/lib",
    "/var/cache/fontconfig",
];
/// The folder of input devices.
const INPUT_FOLDER: &str = "/dev/input";
/// The resolver's folder, to which `/etc/resolv.conf` links on some systems.
const RESOLVER_FOLDER: &str = "/run/systemd/resolve";
/// The program's home if it does not have the user's.
pub(crate) const EMPTY_HOME: &str = "/home/program";

/// What the sandbox must make accessible.
pub(crate) struct Requirements<'a> {
    pub(crate) sandbox: Sandbox,
    pub(crate) network: bool,
    /// The user's home.
    pub(crate) home: &'a Path,
    /// The working directory.
    pub(crate) directory: &'a Path,
    /// The program's file.
    pub(crate) program: &'a Path,
    /// Sockets and files that the program needs to connect: the display's socket and cookie, the sound server's socket.
    pub(crate) sockets: &'a [PathBuf],
    /// Device files of graphics cards.
    pub(crate) devices: &'a [PathBuf],
    pub(crate) input: Input<'a>,
}

/// The program's input devices.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a> {
    /// The viewers' gamepads, which are in this folder.
    Folder(&'a Path),
    /// The machine's devices, for a program on the display of a local user.
    Machine,
    Nothing,
}

/// Returns bubblewrap's arguments up to and including `--`.
pub(crate) fn arguments(requirements: &Requirements<'_>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |parts: &[&Path]| words.extend(parts.iter().map(|part| part.as_os_str().to_owned()));
    let word = Path::new;
    for flag in
        ["--die-with-parent", "--new-session", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--as-pid-1"]
    {
        add(&[word(flag)]);
    }
    if !requirements.network {
        add(&[word("--unshare-net")]);
    }
    for folder in SYSTEM_FOLDERS {
        add(&[word("--ro-bind-try"), word(folder), word(folder)]);
    }
    add(&[
        word("--dev"),
        word("/dev"),
        word("--proc"),
        word("/proc"),
        word("--tmpfs"),
        word("/tmp"),
        word("--tmpfs"),
        word("/run"),
    ]);
    add(&[word("--tmpfs"), word("/var/tmp"), word("--perms"), word("0700"), word("--dir"), word(RUNTIME_FOLDER)]);
    for device in requirements.devices {
        add(&[word("--dev-bind-try"), device, device]);
    }
    match requirements.input {
        // Programs also open gamepads for writing.
        Input::Folder(folder) => add(&[word("--dev-bind"), folder, word(INPUT_FOLDER)]),
        Input::Machine => add(&[word("--dev-bind-try"), word(INPUT_FOLDER), word(INPUT_FOLDER)]),
        Input::Nothing => {}
    }
    if requirements.network {
        add(&[word("--ro-bind-try"), word(RESOLVER_FOLDER), word(RESOLVER_FOLDER)]);
    }
    // A program outside the system's folders usually has its data next to it.
    if let Some(folder) = requirements.program.parent().filter(|_| !is_system(requirements.program)) {
        add(&[word("--ro-bind"), folder, folder]);
    }
    let mut directory = word(EMPTY_HOME);
    if requirements.sandbox == Sandbox::Home {
        add(&[word("--bind"), requirements.home, requirements.home]);
        directory = if requirements.directory.starts_with(requirements.home) {
            requirements.directory
        } else {
            requirements.home
        };
    } else {
        add(&[word("--tmpfs"), word(EMPTY_HOME)]);
    }
    for socket in requirements.sockets {
        add(&[word("--ro-bind"), socket, socket]);
    }
    add(&[word("--chdir"), directory, word("--")]);
    words
}

/// The folder for the session's sockets and locks (`XDG_RUNTIME_DIR`).
pub(crate) const RUNTIME_FOLDER: &str = "/tmp/runtime";

/// Returns whether the file of this name in `/dev` gives access to a graphics card: `dri` for Mesa's drivers, `nvidia0`, `nvidiactl` and
/// others for NVIDIA's. `nvidia-caps` is excluded, because it is for administrators who partition cards.
pub(crate) fn is_graphics_device(name: &OsStr) -> bool {
    name == "dri" || (name.as_bytes().starts_with(b"nvidia") && name != "nvidia-caps")
}

fn is_system(file: &Path) -> bool {
    SYSTEM_FOLDERS.iter().any(|folder| file.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(sandbox: Sandbox, network: bool, program: &str) -> String {
        line_with(sandbox, network, program, Input::Nothing)
    }

    fn line_with(sandbox: Sandbox, network: bool, program: &str, input: Input<'_>) -> String {
        let sockets = [PathBuf::from("/tmp/.X11-unix/X7")];
        let devices = ["/dev/dri", "/dev/nvidia0"].map(PathBuf::from);
        let requirements = Requirements {
            sandbox,
            network,
            home: Path::new("/home/me"),
            directory: Path::new("/home/me/work"),
            program: Path::new(program),
            sockets: &sockets,
            devices: &devices,
            input,
        };
        arguments(&requirements).join(" ".as_ref()).into_string().expect("plain words")
    }

    #[test]
    fn a_strict_sandbox_shows_neither_home_nor_network() {
        let words = line(Sandbox::Strict, false, "/usr/bin/xterm");
        assert!(
            !words.contains("/home/me") && words.contains("--unshare-net") && words.contains("--tmpfs /home/program")
        );
        assert!(words.contains("--ro-bind /tmp/.X11-unix/X7 /tmp/.X11-unix/X7"), "{words}");
        assert_eq!(words.matches(" --bind ").count(), 0, "nothing outside can be written: {words}");
        assert!(words.ends_with("--chdir /home/program --"));
    }

    #[test]
    fn graphics_cards_are_within_reach() {
        let words = line(Sandbox::Strict, false, "/usr/bin/xterm");
        for device in ["/dev/dri", "/dev/nvidia0"] {
            assert!(words.contains(&format!("--dev-bind-try {device} {device}")), "{words}");
        }
        let reached = ["dri", "nvidia0", "nvidiactl", "nvidia-modeset", "nvidia-caps", "sda", "input", "uinput"];
        let reached: Vec<_> = reached.into_iter().filter(|name| is_graphics_device(OsStr::new(name))).collect();
        assert_eq!(reached, ["dri", "nvidia0", "nvidiactl", "nvidia-modeset"]);
    }

    #[test]
    fn a_program_finds_the_viewers_gamepads_and_no_other_input_devices() {
        let ours = Input::Folder(Path::new("/tmp/nearlight-7-input"));
        for (input, bound) in [
            (ours, Some("--dev-bind /tmp/nearlight-7-input /dev/input")),
            (Input::Machine, Some("--dev-bind-try /dev/input /dev/input")),
            (Input::Nothing, None),
        ] {
            let words = line_with(Sandbox::Strict, false, "/usr/bin/xterm", input);
            assert_eq!(
                words.matches("/dev/input").count(),
                bound.map_or(0, |bound| bound.matches("/dev/input").count())
            );
            assert!(words.contains(bound.unwrap_or_default()), "{words}");
        }
    }

    #[test]
    fn a_home_sandbox_begins_where_the_user_is() {
        let words = line(Sandbox::Home, true, "/usr/bin/xterm");
        assert!(words.contains("--bind /home/me /home/me") && words.ends_with("--chdir /home/me/work --"), "{words}");
        assert!(!words.contains("--unshare-net") && words.contains(RESOLVER_FOLDER));
    }

    #[test]
    fn a_program_elsewhere_is_visible_with_its_folder() {
        assert!(line(Sandbox::Strict, false, "/srv/games/tux/tux").contains("--ro-bind /srv/games/tux /srv/games/tux"));
        assert!(!line(Sandbox::Strict, false, "/usr/games/tux").contains("--ro-bind /usr/games /usr/games"));
    }
}
