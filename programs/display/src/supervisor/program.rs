//! Starts the program: its sandbox, its user and its environment.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use rustix::process::Pid;

use super::display_server::DisplayServer;
use super::fence::NetworkFence;
use super::limits::data_limit;
use super::locale::set_locale;
use super::{Supervisor, report};
use crate::specification::{ProgramExit, Report};
use crate::supervisor::environment::reaches_program;
use crate::supervisor::host::{find_program, pid};
use crate::supervisor::sandbox::{
    self, EMPTY_HOME, KernelFeatures, RUNTIME_FOLDER, Requirements, Sandbox, is_graphics_device,
};
use crate::supervisor::users::{Identity, ProgramUser};
use crate::supervisor::visible_files::VisibleFiles;

/// The shell command that is the first process of the program's PID namespace. It waits until all processes in it have ended, because a
/// launcher that ends at once must not take its program with it.
const INIT_SCRIPT: &str = r#""$@"; status=$?; while kill -0 -1 2>/dev/null; do sleep 0.2; done; exit $status"#;
/// A shell command that prints which of its arguments its user cannot read.
const UNREADABLE_SCRIPT: &str = r#"for file; do test -r "$file" || printf '%s\n' "$file"; done"#;

/// A program that has been started.
pub(super) struct RunningProgram {
    pub(super) process: Option<Pid>,
    /// How it runs, for the log.
    pub(super) description: String,
    /// The threads that read its output.
    outputs: Vec<JoinHandle<()>>,
}

impl RunningProgram {
    /// Returns whether all that the program has printed waits in the supervisor's queue.
    pub(super) fn is_output_read(&self) -> bool {
        self.outputs.iter().all(JoinHandle::is_finished)
    }
}

impl Supervisor {
    /// Returns the program's user, if it is not the server's.
    pub(super) const fn identity(&self) -> Option<&Identity> {
        match &self.user {
            ProgramUser::Other(identity) => Some(identity),
            ProgramUser::Own | ProgramUser::OnlyRoot(_) => None,
        }
    }

    pub(super) fn home(&self) -> PathBuf {
        let own = || std::env::home_dir().unwrap_or_else(|| PathBuf::from("/"));
        self.identity().map_or_else(own, |identity| identity.home.clone())
    }

    /// Completes a command so that it runs as the program's user, and is killed if this process is.
    pub(super) fn become_user(&self, mut command: Command) -> Command {
        command.args(["setpriv", "--pdeathsig", "KILL"]);
        if let Some(Identity { user, group, .. }) = self.identity() {
            command.args(["--reuid", &user.to_string(), "--regid", &group.to_string()]);
            command.args(["--init-groups", "--inh-caps=-all"]);
        }
        command
    }

    pub(super) fn as_user(&self) -> Command {
        self.as_user_after(&[])
    }

    /// A command that runs these words first.
    pub(super) fn as_user_after(&self, prefix: &[OsString]) -> Command {
        let mut words = prefix.iter().cloned().chain(["nice", "-n", "0"].map(OsString::from));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        self.become_user(command)
    }

    /// A command for the display server, which gets as much memory as the program: a program can make it store pictures without end.
    pub(super) fn display_command(&self, prefix: &[OsString]) -> Command {
        let limit = [OsString::from("prlimit"), data_limit(self.limits.memory)];
        self.as_user_after(&[prefix, &limit].concat())
    }

    /// Finds the files that the program is shown, and says which are not.
    pub(super) fn find_files(&self) -> Result<VisibleFiles, String> {
        let Some((program, arguments)) = self.options.command.split_first() else { return Ok(VisibleFiles::default()) };
        let file = find_program(program)
            .ok_or_else(|| format!("there is no program {}: check its name, or give its path", program.display()))?;
        let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let added = &self.options.files;
        if let Some(missing) = added.iter().find(|path| !directory.join(path).exists()) {
            return Err(format!("--program-files: there is no {}", missing.display()));
        }
        let mut files = VisibleFiles::of_command(&file, arguments, added, &directory, &self.home());
        if self.options.sandbox == Sandbox::Off {
            files.files.retain(|visible| visible.paths.contains(&file));
        }
        let unreadable = self.unreadable(&files)?;
        let user = self.identity().map_or("this user", |identity| identity.name.as_str());
        for path in unreadable {
            if file.canonicalize().is_ok_and(|file| file == path) {
                return Err(format!(
                    "the program runs as {user}, who cannot read {}: move it to where everyone can read it, or name another user with \
                     --program-user",
                    path.display()
                ));
            }
            files.files.retain(|visible| visible.source != path);
            report_line(format!(
                "the program does not see {}, which {user} cannot read: move it to where everyone can read it, or name another user with \
                 --program-user",
                path.display()
            ));
        }
        for folder in &files.refused {
            report_line(format!("the program does not see {}, which holds folders of the sandbox", folder.display()));
        }
        Ok(files)
    }

    /// Returns the files that the program's user cannot read.
    fn unreadable(&self, files: &VisibleFiles) -> Result<Vec<PathBuf>, String> {
        if files.files.is_empty() {
            return Ok(Vec::new());
        }
        let mut test = self.as_user();
        test.args(["sh", "-c", UNREADABLE_SCRIPT, "sh"]).args(files.files.iter().map(|file| &file.source));
        let output = test.stdin(Stdio::null()).output().map_err(|error| format!("cannot start setpriv: {error}"))?;
        if !output.status.success() {
            return Err(format!(
                "cannot become the program's user: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect())
    }

    pub(super) fn start_program(&self, files: &VisibleFiles) -> Result<RunningProgram, String> {
        let program = self.options.command.first().ok_or("no program")?;
        let file = find_program(program).ok_or_else(|| format!("there is no program {}", program.display()))?;
        let server = self.server.as_ref().ok_or("no display")?;
        let (entering, _namespaces) =
            server.namespace.enter().map_err(|error| format!("cannot enter the display's IPC namespace: {error}"))?;
        let mut command = self.become_user(self.limits.begin(&entering));
        self.set_environment(&mut command, server);
        let (alsa_configuration, without_alsa) = self.write_alsa_configuration();
        self.set_sound_variables(&mut command, alsa_configuration.as_deref());
        let how = match self.options.sandbox {
            Sandbox::Off => {
                command.arg(&file).args(&self.options.command[1..]);
                "no sandbox (--program-sandbox off)".to_owned()
            }
            sandbox => {
                let (words, how) = self.sandbox_words(sandbox, server, files, alsa_configuration);
                command.args(words);
                command.args(["/bin/sh", "-c", INIT_SCRIPT, "sh"]).arg(&file).args(&self.options.command[1..]);
                how
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let launcher = self.launcher.as_ref().ok_or("nothing starts programs")?;
        let mut child =
            launcher.spawn(command).map_err(|error| format!("{} does not start: {error}", file.display()))?;
        let outputs = [self.read_lines(child.stdout.take()), self.read_lines(child.stderr.take())];
        let user = match &self.user {
            ProgramUser::Other(identity) => format!("as {}, ", identity.name),
            ProgramUser::Own => String::new(),
            ProgramUser::OnlyRoot(why) => format!("as root ({why}), "),
        };
        let without_alsa = without_alsa.map_or_else(String::new, |reason| format!(", {reason}"));
        let description = format!("{user}{how}{without_alsa}");
        Ok(RunningProgram { process: pid(child.id()), description, outputs: outputs.into_iter().flatten().collect() })
    }

    /// Returns the command that makes the sandbox, and its description.
    fn sandbox_words(
        &self,
        sandbox: Sandbox,
        server: &DisplayServer,
        files: &VisibleFiles,
        alsa_configuration: Option<PathBuf>,
    ) -> (Vec<OsString>, String) {
        let sockets: Vec<PathBuf> =
            server.files.iter().cloned().chain(self.sound_socket()).chain(alsa_configuration).collect();
        let devices = graphics_devices();
        let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let home = self.home();
        let requirements = Requirements {
            sandbox,
            network: self.options.network,
            home: &home,
            directory: &directory,
            files,
            sockets: &sockets,
            devices: &devices,
            input: self.input(),
            kernel: KernelFeatures {
                own_shared_memory: server.namespace.is_empty_for_programs(),
                no_user_namespaces: !self.options.user_namespaces && self.bubblewrap.disables_user_namespaces,
                memory: self.bubblewrap.limits_folders.then_some(self.limits.memory),
                shown_user: self.fence.shown_user(self.identity()),
            },
        };
        let mut words = self.fence.words();
        words.push("bwrap".into());
        words.extend(sandbox::arguments(&requirements));
        let seen = match sandbox {
            Sandbox::Home => "system folders read-only, its user's home",
            Sandbox::Strict | Sandbox::Off => "system folders read-only, an empty home",
        };
        let named = match files.files.len() {
            0 => String::new(),
            count => format!(", {count} files and folders of the command line read-only"),
        };
        let namespaces = match (self.options.user_namespaces, self.bubblewrap.disables_user_namespaces) {
            (true, _) => ", user namespaces (--program-namespaces on)",
            (false, true) => "",
            (false, false) => ", user namespaces (bubblewrap cannot disable them here)",
        };
        let memory = server.namespace.description();
        (words, format!("{seen}{named}, {}{namespaces}{memory}", self.fence.description(self.options.network)))
    }

    fn set_environment(&self, command: &mut Command, server: &DisplayServer) {
        command.env_clear();
        let sandbox = self.options.sandbox;
        command.envs(std::env::vars_os().filter(|(name, _)| reaches_program(name, sandbox)));
        command.envs(server.variables.iter().map(|(name, value)| (name, value)));
        set_locale(command);
        // Assistive technology and portals need D-Bus, which the program does not have.
        command.env("NO_AT_BRIDGE", "1").env("GTK_USE_PORTAL", "0");
        if self.gamepads.is_some() {
            // The sandbox has no udev service, so SDL must scan the devices itself.
            command.env("SDL_JOYSTICK_DISABLE_UDEV", "1");
        }
        let home = if sandbox == Sandbox::Strict { PathBuf::from(EMPTY_HOME) } else { self.home() };
        command.env("HOME", home);
        if let Some(identity) = self.identity() {
            command.env("USER", &identity.name).env("LOGNAME", &identity.name).env("SHELL", &identity.shell);
        }
        if sandbox != Sandbox::Off {
            // The folder for temporary files outside is not in the sandbox. The default backend of settings is a service that the program
            // does not have.
            command.env_remove("TMPDIR").env("XDG_RUNTIME_DIR", RUNTIME_FOLDER).env("GSETTINGS_BACKEND", "memory");
        }
        command.envs(self.options.environment.iter().map(|(name, value)| (name, value)));
    }

    /// Says what a program may have lacked that has failed. `is_early` says whether it ended soon after its start.
    pub(super) fn hint_after(&self, ending: ProgramExit, is_early: bool) {
        match ending {
            ProgramExit::Signal(KILLED) => report_line(format!(
                "if it needs more memory: it may use {} MB. --program-memory SIZE allows more",
                self.limits.memory.get() >> 20
            )),
            ProgramExit::Status(1..) if is_early && self.options.sandbox == Sandbox::Strict => report_line(
                "if it lacks files: it sees the system's, its own and those named on its command line. --program-files PATH shows it more, \
                 --program-sandbox home its user's home"
                    .into(),
            ),
            ProgramExit::Status(_) | ProgramExit::Signal(_) => {}
        }
    }
}

/// The signal by which the kernel ends a program that has used up its memory: SIGKILL.
const KILLED: u8 = 9;

/// What this machine's bubblewrap can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bubblewrap {
    /// Whether it can keep programs from creating user namespaces (version 0.8, and `/proc/sys` that can be written).
    pub(super) disables_user_namespaces: bool,
    /// Whether it can limit the size of folders in memory (version 0.7).
    pub(super) limits_folders: bool,
}

impl Supervisor {
    /// Checks that the display server and the program are there, and that a sandbox can be made.
    pub(super) fn check_tools(&mut self) -> Result<(), String> {
        let find = |name: &str| find_program(OsStr::new(name));
        if self.options.display.is_none() {
            self.check_display_server()?;
        }
        let Some(program) = self.options.command.first() else { return Ok(()) };
        if find_program(program).is_none() {
            let name = program.display();
            return Err(format!("there is no program {name}: check its name, or give its path"));
        }
        if self.options.sandbox == Sandbox::Off {
            return self.start_launcher();
        }
        if find("bwrap").is_none() {
            return Err("bubblewrap, which isolates the program from this machine's files, is missing (Debian: apt install bubblewrap); \
                        --program-sandbox off runs the program without it"
                .into());
        }
        if self.options.sandbox == Sandbox::Home && !self.home().is_dir() {
            let name = self.identity().map_or_else(String::new, |identity| format!(" {}", identity.name));
            return Err(format!(
                "the home of the user{name}, {}, is no folder, and --program-sandbox home needs one: name a user that has one with \
                 --program-user (only root can), or leave out --program-sandbox",
                self.home().display()
            ));
        }
        self.fence = NetworkFence::choose(self.options.network)?;
        self.start_launcher()?;
        self.check_bubblewrap()
    }

    fn start_launcher(&mut self) -> Result<(), String> {
        let launcher = super::launcher::Launcher::start(self.fence == NetworkFence::Scope);
        self.launcher = Some(launcher.map_err(|error| format!("cannot prepare the program's start: {error}"))?);
        Ok(())
    }

    /// Tries bubblewrap as the program will have it.
    fn check_bubblewrap(&mut self) -> Result<(), String> {
        let help =
            Command::new("bwrap").arg("--help").output().map_err(|error| format!("cannot start bwrap: {error}"))?;
        let help = [help.stdout, help.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        self.bubblewrap.limits_folders = help.contains("--size");
        let disables = !self.options.user_namespaces && help.contains("--disable-userns");
        if disables && self.try_bubblewrap(&["--disable-userns"])?.is_ok() {
            self.bubblewrap.disables_user_namespaces = true;
            return Ok(());
        }
        self.try_bubblewrap(&[])?.map_err(|words| {
            format!("bubblewrap cannot make a sandbox on this machine ({words}); --program-sandbox off runs the program without one")
        })
    }

    /// The inner error is what bubblewrap says.
    fn try_bubblewrap(&self, flags: &[&str]) -> Result<Result<(), String>, String> {
        let failed = |error: std::io::Error| format!("cannot start setpriv: {error}");
        let mut test = self.as_user();
        test.args(self.fence.words()).args(["bwrap", "--unshare-user"]).args(flags);
        test.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--", "/bin/true"]);
        test.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let launcher = self.launcher.as_ref().ok_or("nothing starts programs")?;
        let output = launcher.spawn(test).and_then(std::process::Child::wait_with_output).map_err(failed)?;
        Ok(if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        })
    }
}

fn report_line(line: String) {
    report(&Report::Output { line });
}

/// Returns the device files of this machine's graphics cards.
fn graphics_devices() -> Vec<PathBuf> {
    let files = std::fs::read_dir(Path::new("/dev")).into_iter().flatten().flatten();
    files.filter(|file| is_graphics_device(&file.file_name())).map(|file| file.path()).collect()
}
