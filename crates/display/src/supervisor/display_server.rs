//! Display servers: what they are started with, and how programs find them.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{LOOK, News, Supervisor, now, pause};
use crate::connection::{Place, x_socket};
use crate::host::{Identity, authority, pid, random, random_name};
use crate::specification::Report;
use crate::sway;

/// Numbers of displays, above those of desktops and of X servers that look for a free one, which begin at 0.
const DISPLAYS: Range<u32> = 64..1_024;
/// Displays that are tried: of those that look free, some may be taken at the same moment, or have sockets left by other users.
const MOST_DISPLAYS: usize = 20;
/// How long a display server may take to start. A cold disk included.
const START_LIMIT: Duration = Duration::from_secs(10);

/// What the program draws on.
pub(super) struct DisplayServer {
    /// None where it was there already.
    pub(super) process: Option<Pid>,
    /// By which programs find it.
    pub(super) variables: Vec<(&'static str, OsString)>,
    /// Sockets and cookies, which the program must reach.
    pub(super) files: Vec<PathBuf>,
}

impl DisplayServer {
    pub(super) fn existing(display: String) -> Self {
        let cookies = std::env::var_os("XAUTHORITY");
        let mut variables = vec![("DISPLAY", display.into()), ("XDG_SESSION_TYPE", "x11".into())];
        variables.extend(cookies.clone().map(|file| ("XAUTHORITY", file)));
        Self { process: None, variables, files: cookies.into_iter().map(PathBuf::from).collect() }
    }
}

impl Supervisor {
    /// Xvfb, and the report that its display is there.
    pub(super) fn start_x(&mut self) -> Result<(DisplayServer, Report), String> {
        let wrong = |error: io::Error| format!("cannot prepare the display: {error}");
        let cookie = random(16).map_err(wrong)?;
        let folder = self.make_folder().map_err(wrong)?;
        let cookie_file = folder.join("Xauthority");
        self.write_file(&cookie_file, &authority(&cookie)).map_err(wrong)?;
        let mut said = "all numbers of displays are taken".to_owned();
        for number in DISPLAYS.filter(|number| UnixStream::connect(x_socket(*number)).is_err()).take(MOST_DISPLAYS) {
            match self.start_x_at(number, &cookie, &cookie_file)? {
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
                    };
                    let card = self.use_card(&mut server);
                    return Ok((server, Report::Display { number, cookie, folder, card }));
                }
                Err(words) => said = words,
            }
        }
        Err(format!("Xvfb did not start: {said}"))
    }

    /// Starts the X server for this display and waits until it answers to the cookie; or what it said when it ended.
    ///
    /// The number is chosen here: with `-displayfd`, Xvfb takes no lock, and as root removes the socket of whoever has the first one.
    fn start_x_at(
        &self,
        number: u32,
        cookie: &[u8],
        cookie_file: &Path,
    ) -> Result<Result<Option<Pid>, String>, String> {
        // Xvfb takes no size above that which it was started with.
        let (width, height) = self.options.largest.unwrap_or(self.options.size);
        let mut command = self.as_user(0, None);
        command.args(["Xvfb", &format!(":{number}"), "-screen", "0", &format!("{width}x{height}x24")]);
        command.args(["-nolisten", "tcp", "-nolisten", "local", "-noreset", "-auth"]).arg(cookie_file);
        // Repetition of held keys as on a desktop.
        command.args(["-ardelay", "500", "-arinterval", "33"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("Xvfb does not start: {error}"))?;
        let process = pid(child.id());
        self.read_lines(child.stderr.take());
        let place = Place::Own { number, cookie: cookie.to_vec() };
        if self.wait_until_it_answers(process, || place.connect().is_ok())? {
            return Ok(Ok(process));
        }
        Ok(Err(self.give_up(process)))
    }

    /// sway, and the report that its sockets are there.
    pub(super) fn start_sway(&mut self) -> Result<(DisplayServer, Report), String> {
        let wrong = |error: io::Error| format!("cannot prepare the display: {error}");
        let folder = self.make_folder().map_err(wrong)?;
        let settings = folder.join("settings");
        self.write_file(&settings, sway::settings(self.options.size).as_bytes()).map_err(wrong)?;
        let mut command = self.as_user(0, None);
        command.arg("sway").arg("--config").arg(&settings);
        for name in super::WITHHELD {
            command.env_remove(name);
        }
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
        let sockets = || Some((find(sway::WAYLAND_SOCKET)?, find(sway::OWN_SOCKET)?));
        if !self.wait_until_it_answers(process, || sockets().is_some())? {
            return Err(format!("sway did not start: {}", self.give_up(process)));
        }
        let (wayland, own) = sockets().ok_or("sway has ended")?;
        // That there is no graphics card is no error here.
        let others: Vec<News> = self.heard.try_iter().filter(|news| !matches!(news, News::Line(_))).collect();
        for news in others {
            let _ = self.news.send(news);
        }
        let server = DisplayServer {
            process,
            variables: vec![
                ("WAYLAND_DISPLAY", wayland.clone().into_os_string()),
                ("XDG_SESSION_TYPE", "wayland".into()),
            ],
            files: vec![wayland.clone()],
        };
        Ok((server, Report::Compositor { wayland, own, folder }))
    }

    /// A folder that only the program's user can look into.
    fn make_folder(&mut self) -> io::Result<PathBuf> {
        let folder = std::env::temp_dir().join(format!("nearlight-{}", random_name()?));
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        self.folder = Some(folder.clone());
        self.hand_over(&folder)?;
        Ok(folder)
    }

    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(content)?;
        self.hand_over(path)
    }

    fn hand_over(&self, path: &Path) -> io::Result<()> {
        let Some(Identity { user, group, .. }) = self.identity else { return Ok(()) };
        chown(path, Some(user), Some(group))
    }

    /// False if it does not in time, or has ended.
    fn wait_until_it_answers(&self, process: Option<Pid>, answers: impl Fn() -> bool) -> Result<bool, String> {
        let begun = now();
        loop {
            let ended = self.reap(process)?.is_some();
            if !ended && answers() {
                return Ok(true);
            }
            if ended || begun.elapsed() > START_LIMIT {
                return Ok(false);
            }
            pause(LOOK / 5);
        }
    }

    /// Ends a display server that does not answer, and returns what it said.
    fn give_up(&self, process: Option<Pid>) -> String {
        if let Some(process) = process {
            let _ = kill_process(process, Signal::KILL);
        }
        // Its last words may still be on their way.
        pause(LOOK);
        let lines =
            self.heard.try_iter().filter_map(|news| if let News::Line(line) = news { Some(line) } else { None });
        lines.last().unwrap_or_else(|| "it printed nothing".into())
    }
}
