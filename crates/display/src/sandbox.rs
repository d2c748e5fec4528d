//! The program's sandbox: what bubblewrap is told.
//!
//! The program and its X server stay in one IPC namespace: without `SysV` shared memory between them, each picture of a program that draws
//! with the processor would be sent through a socket.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How far the program is kept from the machine's files and processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sandbox {
    /// Not at all.
    Off,
    /// It sees the system's folders, read-only, and the user's home, which it may change.
    Home,
    /// It sees the system's folders, read-only, and an empty home that disappears with it.
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

/// Where programs, libraries and their data are. Those that do not exist are left out.
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
/// Gamepads among others.
const INPUT: &str = "/dev/input";
/// The names of the network's hosts, on systems where `/etc/resolv.conf` leads there.
const RESOLVER: &str = "/run/systemd/resolve";
/// The program's home where it does not get the user's.
pub(crate) const EMPTY_HOME: &str = "/home/program";

/// What the sandbox must let through.
pub(crate) struct Needs<'a> {
    pub(crate) sandbox: Sandbox,
    pub(crate) network: bool,
    /// The user's home.
    pub(crate) home: &'a Path,
    /// The working directory.
    pub(crate) directory: &'a Path,
    /// The program's file.
    pub(crate) program: &'a Path,
    /// Sockets and files that it connects with: the display's, the cookie, the sound server's.
    pub(crate) sockets: &'a [PathBuf],
    /// Of graphics cards.
    pub(crate) devices: &'a [PathBuf],
    pub(crate) input: Input<'a>,
}

/// What the program finds as its input devices.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a> {
    /// What is in this folder: the viewers' gamepads.
    Folder(&'a Path),
    /// The machine's, where its user may read them: programs on the display of somebody who sits there.
    Machine,
    Nothing,
}

/// bubblewrap's arguments up to and including `--`.
pub(crate) fn arguments(needs: &Needs<'_>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |parts: &[&Path]| words.extend(parts.iter().map(|part| part.as_os_str().to_owned()));
    let word = Path::new;
    for flag in
        ["--die-with-parent", "--new-session", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--as-pid-1"]
    {
        add(&[word(flag)]);
    }
    if !needs.network {
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
    for device in needs.devices {
        add(&[word("--dev-bind-try"), device, device]);
    }
    match needs.input {
        // Programs open gamepads for writing, too.
        Input::Folder(folder) => add(&[word("--dev-bind"), folder, word(INPUT)]),
        Input::Machine => add(&[word("--dev-bind-try"), word(INPUT), word(INPUT)]),
        Input::Nothing => {}
    }
    if needs.network {
        add(&[word("--ro-bind-try"), word(RESOLVER), word(RESOLVER)]);
    }
    // A program that lies elsewhere is usually beside its data.
    if let Some(folder) = needs.program.parent().filter(|_| !is_system(needs.program)) {
        add(&[word("--ro-bind"), folder, folder]);
    }
    let mut directory = word(EMPTY_HOME);
    if needs.sandbox == Sandbox::Home {
        add(&[word("--bind"), needs.home, needs.home]);
        directory = if needs.directory.starts_with(needs.home) { needs.directory } else { needs.home };
    } else {
        add(&[word("--tmpfs"), word(EMPTY_HOME)]);
    }
    for socket in needs.sockets {
        add(&[word("--ro-bind"), socket, socket]);
    }
    add(&[word("--chdir"), directory, word("--")]);
    words
}

/// For sockets and locks of the session (`XDG_RUNTIME_DIR`).
pub(crate) const RUNTIME_FOLDER: &str = "/tmp/runtime";

/// Whether a graphics card is reached by the file of this name in `/dev`: `dri` by Mesa's drivers, `nvidia0`, `nvidiactl` and others by
/// NVIDIA's. `nvidia-caps` is for those who divide cards.
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
        let needs = Needs {
            sandbox,
            network,
            home: Path::new("/home/me"),
            directory: Path::new("/home/me/work"),
            program: Path::new(program),
            sockets: &sockets,
            devices: &devices,
            input,
        };
        arguments(&needs).join(" ".as_ref()).into_string().expect("plain words")
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
        assert!(!words.contains("--unshare-net") && words.contains(RESOLVER));
    }

    #[test]
    fn a_program_elsewhere_is_visible_with_its_folder() {
        assert!(line(Sandbox::Strict, false, "/srv/games/tux/tux").contains("--ro-bind /srv/games/tux /srv/games/tux"));
        assert!(!line(Sandbox::Strict, false, "/usr/games/tux").contains("--ro-bind /usr/games /usr/games"));
    }
}
