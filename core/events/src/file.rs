//! Files of events.

use std::fs::{File, OpenOptions};
use std::path::Path;

/// Creates or truncates a file. A new one is readable by its owner only: events reveal who connected from where, and what they did.
pub fn create_private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_the_owner_reads_a_new_file_of_events() {
        let path = std::env::temp_dir().join(format!("nearlight-events-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        create_private_file(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(mode & 0o777, 0o600);
    }
}
