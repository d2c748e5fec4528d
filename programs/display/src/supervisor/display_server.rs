//! Starts display servers.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::{Pid, Signal, kill_process};

use super::memory_namespace::MemoryNamespace;
use super::{POLL_INTERVAL, Supervisor, SupervisorEvent};
use crate::clock::{now, pause};
use crate::specification::Report;
use crate::supervisor::host::{authority, naming, pid, random, random_name};
use crate::supervisor::users::Identity;
use crate::sway;
use crate::x11::connection::{DisplayAddress, x_socket};

/// Candidates for display numbers, above those of desktops and other X servers, which begin at 0.
const DISPLAY_NUMBERS: Range<u32> = 64..1_024;
/// Maximum number of display numbers that are tried. A number that looks free may be taken at the same moment, or have a stale socket of
/// another user. Guess: both are rare.
const MAX_DISPLAY_ATTEMPTS: usize = 20;
/// Maximum time that a display server may take to start. Guess: enough for a cold disk.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The display server on which the program draws.
pub(super) struct DisplayServer {
    /// The server's process; `None` for an existing display.
    pub(super) process: Option<Pid>,
    /// Environment variables by which programs find it.
    pub(super) variables: Vec<(&'static str, OsString)>,
    /// Sockets and cookies to which the program needs access.
    pub(super) files: Vec<PathBuf>,
    pub(super) namespace: MemoryNamespace,
}

impl DisplayServer {
    pub(super) fn existing(display: String) -> Self {
        let cookies = std::env::var_os("XAUTHORITY");
        let number = display.strip_prefix(':').and_then(|name| name.split('.').next()?.parse().ok());
        let socket = number.map(x_socket).filter(|socket| socket.exists());
        let mut variables = vec![("DISPLAY", display.into()), ("XDG_SESSION_TYPE", "x11".into())];
        variables.extend(cookies.clone().map(|file| ("XAUTHORITY", file)));
        let files = cookies.into_iter().map(PathBuf::from).chain(socket).collect();
        Self { process: None, variables, files, namespace: MemoryNamespace::Machine }
    }
}

/// Checks that X servers can create their sockets, whose place cannot be chosen.
pub(super) fn check_socket_folder() -> Result<(), String> {
    let folder = x_socket(0).parent().map(Path::to_owned).unwrap_or_default();
    let place = if folder.is_dir() { folder.as_path() } else { folder.parent().unwrap_or(&folder) };
    let read_only = statvfs(place).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY));
    if read_only {
        return Err(format!(
            "{} is read-only, and the program's X display has its socket in {}: give the container a {0} that can be written (docker run \
             --tmpfs /tmp)",
            place.display(),
            folder.display()
        ));
    }
    Ok(())
}

impl Supervisor {
    /// Starts Xvfb. Also returns the report that its display is ready.
    pub(super) fn start_x(&mut self) -> Result<(DisplayServer, Report), String> {
        let wrong = |error: io::Error| format!("cannot prepare the display: {error}");
        let cookie = random(16).map_err(wrong)?;
        let folder = self.make_folder()?;
        let cookie_file = folder.join("Xauthority");
        self.write_file(&cookie_file, &authority(&cookie)).map_err(wrong)?;
        let (namespace, prefix) = self.new_memory_namespace();
        let mut last_error = "all numbers of displays are taken".to_owned();
        for number in
            DISPLAY_NUMBERS.filter(|number| UnixStream::connect(x_socket(*number)).is_err()).take(MAX_DISPLAY_ATTEMPTS)
        {
            match self.start_x_at(number, &prefix, &cookie, &cookie_file)? {
                Ok(process) => {
                    let cookie_word = cookie_file.clone().into_os_string();
                    let mut server = DisplayServer {
                        process,
                        variables: vec![
                            ("DISPLAY", format!(":{number}").into()),
                            ("XAUTHORITY", cookie_word),
                            ("XDG_SESSION_TYPE", "x11".into()),
                        ],
                        files: vec![x_socket(number), cookie_file],
                        namespace: namespace.with_server(process),
                    };
                    let card = self.use_card(&mut server);
                    return Ok((server, Report::Display { number, cookie, folder, card }));
                }
                Err(words) => last_error = words,
            }
        }
        Err(format!("Xvfb did not start: {last_error}"))
    }

    /// Starts the X server with this number and waits until it accepts the cookie. The inner error is the server's last output.
    ///
    /// The option `-displayfd` is not used, because with it Xvfb takes no lock, and as root removes the socket of another server.
    fn start_x_at(
        &self,
        number: u32,
        prefix: &[OsString],
        cookie: &[u8],
        cookie_file: &Path,
    ) -> Result<Result<Option<Pid>, String>, String> {
        // Xvfb cannot exceed its initial size.
        let (width, height) = self.options.max_size.unwrap_or(self.options.size);
        let mut command = self.display_command(prefix);
        command.args(["Xvfb", &format!(":{number}"), "-screen", "0", &format!("{width}x{height}x24")]);
        command.args(["-nolisten", "tcp", "-nolisten", "local", "-noreset", "-auth"]).arg(cookie_file);
        // The viewer's system repeats held keys.
        command.arg("-r");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("Xvfb does not start: {error}"))?;
        let process = pid(child.id());
        self.read_lines(child.stderr.take());
        let address = DisplayAddress::Own { number, cookie: cookie.to_vec() };
        if self.wait_until_ready(process, || address.connect().is_ok())? {
            return Ok(Ok(process));
        }
        Ok(Err(self.kill_and_read_output(process)))
    }

    /// Starts sway. Also returns the report that its sockets are ready.
    pub(super) fn start_sway(&mut self) -> Result<(DisplayServer, Report), String> {
        let wrong = |error: io::Error| format!("cannot prepare the display: {error}");
        let folder = self.make_folder()?;
        let settings = folder.join("settings");
        self.write_file(&settings, sway::settings(self.options.size).as_bytes()).map_err(wrong)?;
        let mut command = self.display_command(&[]);
        command.arg("sway").arg("--config").arg(&settings);
        command.envs(sway::ENVIRONMENT).env("XDG_RUNTIME_DIR", &folder).env("HOME", &folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("sway does not start: {error}"))?;
        let process = pid(child.id());
        self.read_lines(child.stderr.take());
        let find = |beginning: &str| {
            let files = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|file| file.path());
            let named =
                |file: &PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning));
            files.filter(named).find(|file| UnixStream::connect(file).is_ok())
        };
        let sockets = || Some((find(sway::WAYLAND_SOCKET_PREFIX)?, find(sway::IPC_SOCKET_PREFIX)?));
        if !self.wait_until_ready(process, || sockets().is_some())? {
            return Err(format!("sway did not start: {}", self.kill_and_read_output(process)));
        }
        let (wayland, own) = sockets().ok_or("sway has ended")?;
        // Discards output so far, because sway logs errors if there is no graphics card.
        let others: Vec<SupervisorEvent> =
            self.received.try_iter().filter(|event| !matches!(event, SupervisorEvent::Line(_))).collect();
        for event in others {
            // There is room unless other threads have filled the queue again, and then the supervisor looks at rumble and closing anyway.
            let _ = self.events.try_send(event);
        }
        let server = DisplayServer {
            process,
            variables: vec![
                ("WAYLAND_DISPLAY", wayland.clone().into_os_string()),
                ("XDG_SESSION_TYPE", "wayland".into()),
            ],
            files: vec![wayland.clone()],
            namespace: MemoryNamespace::Unused,
        };
        Ok((server, Report::Compositor { wayland, own, folder }))
    }

    /// Creates a folder that only the program's user can access.
    fn make_folder(&mut self) -> Result<PathBuf, String> {
        let parent = std::env::temp_dir();
        let wrong = |error: io::Error| {
            let parent = parent.display();
            format!(
                "cannot create a folder for the display in {parent}: {error}. Set TMPDIR to a folder that can be written"
            )
        };
        let folder = parent.join(format!("nearlight-{}", random_name().map_err(wrong)?));
        std::fs::DirBuilder::new().mode(0o700).create(&folder).map_err(wrong)?;
        self.folder = Some(folder.clone());
        self.hand_over(&folder).map_err(wrong)?;
        Ok(folder)
    }

    pub(super) fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(content)?;
        self.hand_over(path)
    }

    fn hand_over(&self, path: &Path) -> io::Result<()> {
        let Some(Identity { user, group, .. }) = self.identity() else { return Ok(()) };
        chown(path, Some(*user), Some(*group)).map_err(naming(path))
    }

    /// Waits until the server answers. Returns false on timeout, or if it has ended.
    fn wait_until_ready(&self, process: Option<Pid>, answers: impl Fn() -> bool) -> Result<bool, String> {
        let begun = now();
        loop {
            let ended = self.reap(process)?.is_some();
            if !ended && answers() {
                return Ok(true);
            }
            if ended || begun.elapsed() > START_TIMEOUT {
                return Ok(false);
            }
            pause(POLL_INTERVAL / 5);
        }
    }

    /// Kills a display server that does not answer, and returns the last line of its output.
    fn kill_and_read_output(&self, process: Option<Pid>) -> String {
        if let Some(process) = process {
            let _ = kill_process(process, Signal::KILL);
        }
        // The last output may still be in the pipe.
        pause(POLL_INTERVAL);
        let lines = self
            .received
            .try_iter()
            .filter_map(|event| if let SupervisorEvent::Line(line) = event { Some(line) } else { None });
        lines.last().unwrap_or_else(|| "it printed nothing".into())
    }
}
