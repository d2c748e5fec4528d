//! Finds the hook library.

use std::path::{Path, PathBuf};

/// The name of the library that is loaded into the program.
pub const LIBRARY: &str = "libnearlight_hook.so";

/// Finds the library of the command at `command`: in the same folder after a build, or in `../lib/nearlight` after an installation.
#[must_use]
pub fn find_library(command: &Path) -> Option<PathBuf> {
    let folder = command.parent()?;
    let places = [folder.join(LIBRARY), folder.join("../lib/nearlight").join(LIBRARY)];
    places.into_iter().find(|place| place.is_file())
}
