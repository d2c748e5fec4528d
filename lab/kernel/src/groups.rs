//! Selects a congestion control for one command's sockets, which a control group distinguishes from all others.

use std::fs;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use libbpf_rs::skel::{OpenSkel as _, SkelBuilder as _};
use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle};

use crate::load::refusal;
use crate::programs::{choose, listen};
use crate::{KernelError, support};

/// Prefix of a group's name, before the id of the process that created it.
const GROUP_PREFIX: &str = "nearlight-";

/// A control group whose TCP sockets get a congestion control when they connect, listen or are accepted. Removed when it is dropped
/// unless processes are left in it; what they connect later has the usual congestion control.
pub struct Group {
    path: PathBuf,
    /// The control group of this process.
    home: PathBuf,
    counters: MapHandle,
    _link: Link,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Group").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Group {
    /// Makes a group below this process's own, so that its limits go on to hold. The kernel must know the congestion control.
    pub fn create(congestion_control: &str) -> Result<Self, KernelError> {
        support::check()?;
        listen();
        let refused = |error: libbpf_rs::Error| refusal("a program for the command's sockets", &error);
        let home = home()?;
        remove_old(&home);
        let mut place = MaybeUninit::uninit();
        let mut open = choose::ChooseSkelBuilder::default().open(&mut place).map_err(refused)?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.wanted = [0; 16];
            let name = constants.wanted.iter_mut().take(15).zip(congestion_control.bytes());
            name.for_each(|(to, from)| *to = from as _);
        }
        let programs = open.load().map_err(refused)?;
        let counters = programs.maps.bss.info().map_err(refused)?.info.id;
        let counters = MapHandle::from_map_id(counters).map_err(refused)?;
        let path = home.join(format!("{GROUP_PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(|source| KernelError::File { path: path.clone(), source })?;
        let opened = fs::File::open(&path).map_err(|source| KernelError::File { path: path.clone(), source })?;
        let link = programs.progs.choose.attach_cgroup(opened.as_raw_fd()).map_err(|error| {
            let _ = fs::remove_dir(&path);
            refused(error)
        })?;
        Ok(Self { path, home, counters, _link: link })
    }

    /// Runs `spawn` with this process in the group, so that a child begins there.
    pub fn enter<T>(&self, spawn: impl FnOnce() -> T) -> Result<T, KernelError> {
        move_to(&self.path)?;
        let spawned = spawn();
        move_to(&self.home)?;
        Ok(spawned)
    }

    /// Returns how many sockets got the congestion control, and how many the kernel refused.
    pub fn counts(&self) -> (u64, u64) {
        let value = self.counters.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
        let number = |at: usize| {
            value.get(at..at + 8).map_or(0, |bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
        };
        (number(offset_of!(choose::types::bss, given)), number(offset_of!(choose::types::bss, refused)))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Fails while processes are left in it; the next call of `create` removes it once they have ended.
        let _ = fs::remove_dir(&self.path);
    }
}

fn move_to(group: &Path) -> Result<(), KernelError> {
    let path = group.join("cgroup.procs");
    fs::write(&path, std::process::id().to_string()).map_err(|source| KernelError::File { path, source })
}

/// This process's group in the hierarchy of version 2.
fn home() -> Result<PathBuf, KernelError> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (mounts, groups) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
    let root = hierarchy(&mounts).ok_or(KernelError::NoControlGroups)?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).ok_or(KernelError::NoControlGroups)?;
    Ok(Path::new(root).join(own))
}

/// Returns the mount point of cgroup version 2, from the fields of proc(5).
fn hierarchy(mounts: &str) -> Option<&str> {
    let of_version_2 = |line: &&str| line.split(" - ").nth(1).is_some_and(|after| after.starts_with("cgroup2 "));
    mounts.lines().find(of_version_2)?.split(' ').nth(4)
}

/// Groups that were left because processes were in them. The kernel refuses to remove those that have any.
fn remove_old(home: &Path) {
    let folders = fs::read_dir(home).into_iter().flatten().flatten();
    for folder in folders.filter(|entry| entry.file_name().to_string_lossy().starts_with(GROUP_PREFIX)) {
        let _: io::Result<()> = fs::remove_dir(folder.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_of_version_2_is_found_among_the_others() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      41 25 0:37 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(hierarchy(mounts), Some("/sys/fs/cgroup/unified"));
        assert_eq!(hierarchy("30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"), None);
    }
}
