//! How programs find the sound server: `PulseAudio`'s clients by a variable, ALSA's by a configuration whose default device is `PulseAudio`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Supervisor;
use crate::specification::SOUND_SOCKET;

/// ALSA's plug-in for `PulseAudio`, which the distribution has or has not installed.
const ALSA_PLUGIN: &str = "alsa-lib/libasound_module_pcm_pulse.so";
/// ALSA's own configuration, which ours amends.
const ALSA_SYSTEM_CONFIGURATION: &str = "/usr/share/alsa/alsa.conf";
/// The variable with the files that ALSA reads in place of its own configuration.
const ALSA_FILES_VARIABLE: &str = "ALSA_CONFIG_PATH";
/// Makes `PulseAudio` the default device, to which programs play if they name none.
const ALSA_CONFIGURATION: &str = "pcm.!default { type pulse }\nctl.!default { type pulse }\n";

impl Supervisor {
    /// Returns the sound server's socket if it exists. The server has opened it by now.
    pub(super) fn sound_socket(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(SOUND_SOCKET)).filter(|socket| socket.exists())
    }

    /// Writes the configuration for programs that use ALSA. Returns its file, or why these programs have no sound. Neither is there
    /// without a sound server.
    pub(super) fn write_alsa_configuration(&self) -> (Option<PathBuf>, Option<String>) {
        let Some(folder) = self.folder.as_ref().filter(|_| self.sound_socket().is_some()) else { return (None, None) };
        if !library_folders().iter().any(|folder| folder.join(ALSA_PLUGIN).exists()) {
            let install = "no sound for programs that use ALSA (Debian: apt install libasound2-plugins)";
            return (None, Some(install.into()));
        }
        let file = folder.join("asound.conf");
        // It is there if the program is started again.
        match if file.exists() { Ok(()) } else { self.write_file(&file, ALSA_CONFIGURATION.as_bytes()) } {
            Ok(()) => (Some(file), None),
            Err(error) => (None, Some(format!("no sound for programs that use ALSA ({}: {error})", file.display()))),
        }
    }

    /// Sets the variables by which the program finds the sound server.
    pub(super) fn set_sound_variables(&self, command: &mut Command, alsa_configuration: Option<&Path>) {
        if let Some(socket) = self.sound_socket() {
            command.env("PULSE_SERVER", format!("unix:{}", socket.display()));
        }
        if let Some(file) = alsa_configuration {
            let mut files = OsString::from(ALSA_SYSTEM_CONFIGURATION);
            files.push(":");
            files.push(file);
            command.env(ALSA_FILES_VARIABLE, files);
        }
    }
}

/// Returns the folders that may contain the libraries of this machine's packages.
fn library_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from).into();
    // Debian has a folder for each architecture.
    let entries = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    folders.extend(entries.map(|entry| entry.path()).filter(|path| path.is_dir()));
    folders
}
