//! Creates the program's gamepads.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use nearlight_wire::MAX_GAMEPADS;

use super::{Supervisor, SupervisorEvent};
use crate::input::gamepad::Rumble;
use crate::input::gamepad_devices::GamepadDevices;
use crate::input::gamepad_file::GamepadFile;
use crate::input::gamepads::PadChange;
use crate::specification::{GamepadBackend, Report};
use crate::supervisor::host::{naming, random_name};
use crate::supervisor::sandbox::{Input, Sandbox};
use crate::supervisor::users::Identity;

/// The program's gamepads, and the folder that its sandbox shows as `/dev/input`.
pub(super) struct ProgramGamepads {
    backend: Backend,
    /// The folder. It is dropped after the file system that is mounted in it.
    _folder: InputFolder,
}

enum Backend {
    Devices(GamepadDevices),
    File(GamepadFile),
}

impl ProgramGamepads {
    /// Returns how many gamepads there can be.
    pub(super) fn count(&self) -> u8 {
        match &self.backend {
            Backend::Devices(_) => MAX_GAMEPADS as u8,
            Backend::File(_) => 1,
        }
    }

    pub(super) fn folder(&self) -> &Path {
        match &self.backend {
            Backend::Devices(devices) => devices.folder(),
            Backend::File(file) => file.folder(),
        }
    }

    pub(super) fn set(&mut self, change: PadChange) -> io::Result<()> {
        match &mut self.backend {
            Backend::Devices(devices) => devices.set(change),
            Backend::File(file) => file.set(change.state),
        }
    }

    /// Returns a gamepad and its new effect.
    pub(super) fn poll_rumble(&self) -> Option<(u8, Rumble)> {
        match &self.backend {
            Backend::Devices(devices) => devices.poll_rumble(),
            Backend::File(file) => file.poll_rumble().map(|rumble| (0, rumble)),
        }
    }

    /// Interrupts blocked reads of programs, which could not be ended otherwise.
    pub(super) fn interrupt_reads(&self) {
        if let Backend::File(file) = &self.backend {
            file.interrupt_reads();
        }
    }
}

/// A folder that belongs to this process's user, so that the program's user cannot replace it. It is removed when this is dropped.
struct InputFolder(PathBuf);

impl InputFolder {
    fn make() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("nearlight-{}-input", random_name()?));
        std::fs::DirBuilder::new().mode(0o755).create(&path).map_err(naming(&path))?;
        Ok(Self(path))
    }
}

impl Drop for InputFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn no_devices(reason: &str) -> String {
    format!(
        "--program-gamepads uinput is not possible here: {reason}. --program-gamepads file gives the program one gamepad without it"
    )
}

fn no_file(reason: &str) -> String {
    format!(
        "--program-gamepads file is not possible here: {reason}. It takes /dev/fuse, and root or fusermount3 (Debian: apt install fuse3)"
    )
}

impl Supervisor {
    /// Creates the program's gamepads. Returns a description for the log. The error says why the requested backend is not possible.
    pub(super) fn make_gamepads(&mut self) -> Result<String, String> {
        if self.options.sandbox == Sandbox::Off {
            return Ok("no gamepads (they need a sandbox)".into());
        }
        if self.options.display.is_some() {
            return Ok("no gamepads (they need a display of its own)".into());
        }
        let folder = InputFolder::make().map_err(|error| format!("no folder for the program's gamepads: {error}"))?;
        let several = || format!("up to {MAX_GAMEPADS} gamepads (uinput)");
        let (backend, words) = match self.options.gamepads {
            GamepadBackend::Off => return Ok("no gamepads (--program-gamepads off)".into()),
            GamepadBackend::Uinput => (self.make_devices(&folder).map_err(|reason| no_devices(&reason))?, several()),
            GamepadBackend::File => {
                (self.make_file(&folder).map_err(|reason| no_file(&reason))?, "one gamepad, as a file".into())
            }
            GamepadBackend::Auto => match self.make_devices(&folder) {
                Ok(devices) => (devices, several()),
                Err(reason) => match self.make_file(&folder) {
                    Ok(file) => (file, format!("one gamepad, as a file (not several by uinput: {reason})")),
                    Err(error) => return Ok(format!("no gamepads (uinput: {reason}; as a file: {error})")),
                },
            },
        };
        self.gamepads = Some(ProgramGamepads { backend, _folder: folder });
        Ok(words)
    }

    // A notification that finds no room is not needed: the supervisor looks for effects after each event.
    fn make_devices(&self, folder: &InputFolder) -> Result<Backend, String> {
        let owner = self.identity().map_or((0, 0), |Identity { user, group, .. }| (*user, *group));
        let events = self.events.clone();
        GamepadDevices::open(&folder.0, owner, move || drop(events.try_send(SupervisorEvent::Rumble)))
            .map(Backend::Devices)
    }

    fn make_file(&self, folder: &InputFolder) -> Result<Backend, String> {
        let events = self.events.clone();
        GamepadFile::mount(&folder.0, move || drop(events.try_send(SupervisorEvent::Rumble)))
            .map(Backend::File)
            .map_err(|error| format!("a file system in user space cannot be mounted: {error}"))
    }

    /// Returns the program's input devices.
    pub(super) fn input(&self) -> Input<'_> {
        match &self.gamepads {
            Some(gamepads) => Input::Folder(gamepads.folder()),
            None if self.options.display.is_some() => Input::Machine,
            None => Input::Nothing,
        }
    }

    pub(super) fn set_gamepad(&mut self, change: PadChange) {
        if let Some(Err(error)) = self.gamepads.as_mut().map(|gamepads| gamepads.set(change)) {
            let line = format!("gamepad {} cannot be set: {error}", change.number);
            super::report(&Report::Output { line });
        }
    }

    pub(super) fn report_rumble(&self) {
        while let Some((gamepad, rumble)) = self.gamepads.as_ref().and_then(ProgramGamepads::poll_rumble) {
            super::report(&Report::Rumble { gamepad, rumble });
        }
    }
}
