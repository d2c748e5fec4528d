//! Places and facts of the system that several parts need.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::statfs;
use rustix::mount::{MountFlags, mount};

use crate::KernelError;

const PROGRAM_FILES: &str = "/sys/fs/bpf";
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
        mount("bpf", root, "bpf", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)
            .map_err(io::Error::from)
            .map_err(refused(root))?;
    }
    let folder = root.join("nearlight");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(refused(&folder))
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
