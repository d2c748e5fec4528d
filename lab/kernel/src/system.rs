//! Places and facts of the system that several parts need.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::statfs;
use rustix::mount::{MountFlags, mount};

use crate::KernelError;

const PROGRAM_FILES: &str = "/sys/fs/bpf";
/// The option of the file system that keeps everyone but root out: without it, it is open to all, and every user could pin programs in it.
const ROOT_ONLY: &CStr = c"mode=0700";
/// linux/magic.h
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// Returns the path of a pinned law's link.
pub(crate) fn pin_path(name: &str) -> PathBuf {
    Path::new(PROGRAM_FILES).join("nearlight").join(name)
}

/// Makes the folder for pinned links, and mounts the file system that it must be in.
pub(crate) fn make_pin_folder() -> Result<(), KernelError> {
    let refused = |path: &Path| {
        let path = path.to_owned();
        move |source| KernelError::File { path, source }
    };
    let root = Path::new(PROGRAM_FILES);
    let mounted = statfs(root).map_err(io::Error::from).map_err(refused(root))?;
    if u64::try_from(mounted.f_type).ok() != Some(BPF_FS_MAGIC) {
        mount_program_files(root).map_err(refused(root))?;
    }
    let folder = root.join("nearlight");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(refused(&folder))
}

fn mount_program_files(root: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("bpf", root, "bpf", flags, Some(ROOT_ONLY))?)
}

/// Processes that hold a link open.
pub(crate) fn holders(link: u32) -> Vec<u32> {
    let line = format!("link_id:\t{link}");
    let numbered = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(numbered);
    let holds = |process: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{process}/fdinfo")).into_iter().flatten().flatten();
        descriptors
            .filter_map(|entry| fs::read_to_string(entry.path()).ok())
            .any(|words| words.lines().any(|held| held == line))
    };
    processes.filter(holds).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::mount::{UnmountFlags, unmount};

    use super::*;

    /// Needs root, and a kernel that has the file system.
    #[test]
    fn the_file_system_for_pinned_programs_is_open_to_root_only() {
        let folder = std::env::temp_dir().join(format!("nearlight-program-files-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let mounted = mount_program_files(&folder);
        let mode = fs::metadata(&folder).expect("it is there").permissions().mode() & 0o777;
        if mounted.is_ok() {
            unmount(&folder, UnmountFlags::empty()).expect("it was mounted");
        }
        fs::remove_dir(&folder).expect("it is empty");
        match mounted {
            Ok(()) => assert_eq!(mode, 0o700),
            Err(error) => eprintln!("skipped: no bpf file system can be mounted here: {error}"),
        }
    }
}
