//! The program's sandbox: the arguments of bubblewrap.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nearlight_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::supervisor::visible_files::VisibleFiles;

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
/// Folders whose files bubblewrap makes or the kernel does: there is nothing to show in them.
const VIRTUAL_FOLDERS: [&str; 2] = ["/dev", "/proc"];
/// The sandbox's own folders in memory.
const MEMORY_FOLDERS: [&str; 4] = ["/tmp", "/run", "/var/tmp", "/dev/shm"];
/// How many folders of that size a program can fill: those above, its home and its working directory. Their sum is within its memory.
const MEMORY_FOLDER_COUNT: u64 = 6;
/// The folder of input devices.
const INPUT_FOLDER: &str = "/dev/input";
/// The resolver's folder, to which `/etc/resolv.conf` links on some systems.
const RESOLVER_FOLDER: &str = "/run/systemd/resolve";
/// The program's home if it does not have the user's.
pub(crate) const EMPTY_HOME: &str = "/home/program";

/// What the sandbox must make accessible.
pub(crate) struct Requirements<'a> {
    pub(crate) sandbox: Sandbox,
    /// Whether the program has a network: the machine's, or that of the process that starts bubblewrap.
    pub(crate) network: bool,
    /// The user's home.
    pub(crate) home: &'a Path,
    /// The working directory.
    pub(crate) directory: &'a Path,
    /// The program's file, and others that it can read.
    pub(crate) files: &'a VisibleFiles,
    /// Sockets and files that the program needs to connect: the display's socket and cookie, the sound server's socket.
    pub(crate) sockets: &'a [PathBuf],
    /// Device files of graphics cards.
    pub(crate) devices: &'a [PathBuf],
    pub(crate) input: Input<'a>,
    pub(crate) kernel: KernelFeatures,
}

/// What the sandbox needs of the kernel besides a file system of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelFeatures {
    /// Whether the program gets `SysV` shared memory of its own. Otherwise it shares that of the process that starts bubblewrap.
    pub(crate) own_shared_memory: bool,
    /// Whether the program is kept from creating user namespaces.
    pub(crate) no_user_namespaces: bool,
    /// Limits the folders in memory, where bubblewrap can, to the program's memory together.
    pub(crate) memory: Option<Bytes>,
    /// The user and group as whom the program sees itself, where bubblewrap is started as another one.
    pub(crate) shown_user: Option<(u32, u32)>,
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

/// Collects arguments.
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<Word: AsRef<OsStr>>(&mut self, words: &[Word]) {
        self.0.extend(words.iter().map(|word| word.as_ref().to_owned()));
    }

    /// Makes a file or folder accessible at a path, in the way of this option.
    fn bind(&mut self, option: &str, source: &Path, path: &Path) {
        self.add(&[OsStr::new(option), source.as_os_str(), path.as_os_str()]);
    }

    /// Makes an empty folder in memory.
    fn folder(&mut self, path: &Path, memory: Option<Bytes>) {
        if let Some(memory) = memory {
            self.add(&["--size", &(memory.get() / MEMORY_FOLDER_COUNT).max(1).to_string()]);
        }
        self.add(&[OsStr::new("--tmpfs"), path.as_os_str()]);
    }
}

/// Returns bubblewrap's arguments up to and including `--`.
pub(crate) fn arguments(requirements: &Requirements<'_>) -> Vec<OsString> {
    let mut words = Arguments(Vec::new());
    words.add(&["--die-with-parent", "--new-session", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]);
    words.add(&["--as-pid-1"]);
    add_namespaces(&mut words, requirements);
    for folder in SYSTEM_FOLDERS.map(Path::new) {
        words.bind("--ro-bind-try", folder, folder);
    }
    words.add(&["--dev", "/dev", "--proc", "/proc"]);
    let memory = requirements.kernel.memory;
    for folder in MEMORY_FOLDERS {
        words.folder(Path::new(folder), memory);
    }
    words.add(&["--perms", "0700", "--dir", RUNTIME_FOLDER]);
    for device in requirements.devices {
        words.bind("--dev-bind-try", device, device);
    }
    let input_folder = Path::new(INPUT_FOLDER);
    match requirements.input {
        // Programs also open gamepads for writing.
        Input::Folder(folder) => words.bind("--dev-bind", folder, input_folder),
        Input::Machine => words.bind("--dev-bind-try", input_folder, input_folder),
        Input::Nothing => {}
    }
    if requirements.network {
        words.bind("--ro-bind-try", Path::new(RESOLVER_FOLDER), Path::new(RESOLVER_FOLDER));
    }
    let directory = add_home(&mut words, requirements);
    for file in &requirements.files.files {
        for path in file.paths.iter().filter(|path| !is_in_home(path, requirements)) {
            words.bind("--ro-bind", &file.source, path);
        }
    }
    for socket in requirements.sockets {
        words.bind("--ro-bind", socket, socket);
    }
    // They are file systems in memory as well, which have no limit.
    words.add(&["--remount-ro", "/dev", "--remount-ro", "/"]);
    words.add(&[OsStr::new("--chdir"), directory.as_os_str(), OsStr::new("--")]);
    words.0
}

fn add_namespaces(words: &mut Arguments, requirements: &Requirements<'_>) {
    let KernelFeatures { own_shared_memory, no_user_namespaces, shown_user, .. } = requirements.kernel;
    words.add(&["--unshare-user"]);
    if no_user_namespaces {
        words.add(&["--disable-userns"]);
    }
    if own_shared_memory {
        words.add(&["--unshare-ipc"]);
    }
    if let Some((user, group)) = shown_user {
        words.add(&["--uid", &user.to_string(), "--gid", &group.to_string()]);
    }
    if !requirements.network {
        words.add(&["--unshare-net"]);
    }
}

fn is_in_home(path: &Path, requirements: &Requirements<'_>) -> bool {
    requirements.sandbox == Sandbox::Home && path.starts_with(requirements.home)
}

/// Makes the program's home and working directory. Returns where the program begins.
fn add_home<'a>(words: &mut Arguments, requirements: &Requirements<'a>) -> &'a Path {
    let Requirements { home, directory, files, kernel, .. } = *requirements;
    let usual = if requirements.sandbox == Sandbox::Home {
        words.bind("--bind", home, home);
        home
    } else {
        words.folder(Path::new(EMPTY_HOME), kernel.memory);
        Path::new(EMPTY_HOME)
    };
    if is_in_home(directory, requirements) {
        return directory;
    }
    if !files.relative {
        return usual;
    }
    // Paths on the command line are relative to it. It is empty but for those files.
    let shown = || files.files.iter().flat_map(|file| &file.paths).any(|path| directory.starts_with(path));
    if !is_system(directory) && !is_the_sandboxes_own(directory) && !shown() {
        words.folder(directory, kernel.memory);
    }
    directory
}

/// The folder for the session's sockets and locks (`XDG_RUNTIME_DIR`).
pub(crate) const RUNTIME_FOLDER: &str = "/tmp/runtime";

/// Returns whether the file of this name in `/dev` gives access to a graphics card: `dri` for Mesa's drivers, `nvidia0`, `nvidiactl` and
/// others for NVIDIA's. `nvidia-caps` is excluded, because it is for administrators who partition cards.
pub(crate) fn is_graphics_device(name: &OsStr) -> bool {
    name == "dri" || (name.as_bytes().starts_with(b"nvidia") && name != "nvidia-caps")
}

/// Returns whether each sandbox has this file anyway, or its own in its place.
pub(crate) fn is_system(file: &Path) -> bool {
    SYSTEM_FOLDERS.iter().chain(&VIRTUAL_FOLDERS).any(|folder| file.starts_with(folder))
}

/// Returns whether the folder is one of the sandbox's own, or holds one.
pub(crate) fn is_the_sandboxes_own(folder: &Path) -> bool {
    let own = VIRTUAL_FOLDERS.iter().chain(&MEMORY_FOLDERS).chain([&EMPTY_HOME, &RUNTIME_FOLDER]);
    own.into_iter().any(|own| Path::new(own).starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::visible_files::VisibleFile;

    fn line(sandbox: Sandbox, network: bool) -> String {
        line_with(sandbox, network, Input::Nothing, &VisibleFiles::default())
    }

    fn line_with(sandbox: Sandbox, network: bool, input: Input<'_>, files: &VisibleFiles) -> String {
        let sockets = [PathBuf::from("/tmp/.X11-unix/X7")];
        let devices = ["/dev/dri", "/dev/nvidia0"].map(PathBuf::from);
        let requirements = Requirements {
            sandbox,
            network,
            home: Path::new("/home/me"),
            directory: Path::new("/home/me/work"),
            files,
            sockets: &sockets,
            devices: &devices,
            input,
            kernel: KernelFeatures { memory: Some(Bytes::new(6_000)), ..KernelFeatures::default() },
        };
        arguments(&requirements).join(" ".as_ref()).into_string().expect("plain words")
    }

    fn file(path: &str, relative: bool) -> VisibleFiles {
        let file = VisibleFile { source: path.into(), paths: vec![path.into()] };
        VisibleFiles { files: vec![file], refused: Vec::new(), relative }
    }

    #[test]
    fn a_strict_sandbox_shows_neither_home_nor_network() {
        let words = line(Sandbox::Strict, false);
        assert!(
            !words.contains("/home/me") && words.contains("--unshare-net") && words.contains("--tmpfs /home/program")
        );
        assert!(words.contains("--ro-bind /tmp/.X11-unix/X7 /tmp/.X11-unix/X7"), "{words}");
        assert_eq!(words.matches(" --bind ").count(), 0, "nothing outside can be written: {words}");
        assert!(words.ends_with("--chdir /home/program --"));
    }

    #[test]
    fn graphics_cards_are_within_reach() {
        let words = line(Sandbox::Strict, false);
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
            let words = line_with(Sandbox::Strict, false, input, &VisibleFiles::default());
            assert_eq!(
                words.matches("/dev/input").count(),
                bound.map_or(0, |bound| bound.matches("/dev/input").count())
            );
            assert!(words.contains(bound.unwrap_or_default()), "{words}");
        }
    }

    #[test]
    fn a_home_sandbox_begins_where_the_user_is() {
        let words = line(Sandbox::Home, true);
        assert!(words.contains("--bind /home/me /home/me") && words.ends_with("--chdir /home/me/work --"), "{words}");
        assert!(!words.contains("--unshare-net") && words.contains(RESOLVER_FOLDER));
    }

    #[test]
    fn files_of_the_command_line_are_read_only_and_relative_ones_are_found() {
        let words = line_with(Sandbox::Strict, false, Input::Nothing, &file("/home/me/work/game.py", true));
        let folder = words.find("--tmpfs /home/me/work ").expect("an empty working directory");
        let bound = words.find("--ro-bind /home/me/work/game.py /home/me/work/game.py").expect("the file");
        assert!(folder < bound && words.ends_with("--chdir /home/me/work --"), "{words}");
        let words = line_with(Sandbox::Strict, false, Input::Nothing, &file("/home/me/app", false));
        assert!(words.contains("--ro-bind /home/me/app /home/me/app") && words.ends_with("--chdir /home/program --"));
        let words = line_with(Sandbox::Home, false, Input::Nothing, &file("/home/me/work/game.py", true));
        assert!(!words.contains("game.py"), "the home is writable as a whole: {words}");
    }

    #[test]
    fn no_folder_in_memory_is_without_a_limit() {
        let words = line_with(Sandbox::Strict, false, Input::Nothing, &file("/home/me/work/game.py", true));
        assert_eq!(words.matches("--tmpfs").count(), words.matches("--size 1000 --tmpfs").count(), "{words}");
        assert_eq!(words.matches("--tmpfs").count() as u64, MEMORY_FOLDER_COUNT);
        assert!(words.contains("--remount-ro /dev --remount-ro / "), "{words}");
    }
}
