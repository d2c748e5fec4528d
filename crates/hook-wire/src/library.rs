//! Where the library is.

use std::path::{Path, PathBuf};

/// Name of the library that is loaded into the program.
pub const LIBRARY: &str = "libnearlight_hook.so";

/// The library that belongs to the command at `command`: beside it, where it was built, or in `../lib/nearlight`, where a package puts it.
#[must_use]
pub fn find_library(command: &Path) -> Option<PathBuf> {
    let folder = command.parent()?;
    let places = [folder.join(LIBRARY), folder.join("../lib/nearlight").join(LIBRARY)];
    places.into_iter().find(|place| place.is_file())
}
