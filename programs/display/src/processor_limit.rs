//! Limits the program's processor time by a control group.

use std::fs::{OpenOptions, create_dir, read_to_string, remove_dir};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// The period to which the quota refers, in microseconds: the kernel's default.
const PERIOD_MICROSECONDS: usize = 100_000;
/// A shell command that moves the shell into a group.
const JOIN_SCRIPT: &str = r#"echo $$ > "$0""#;

/// A control group with a limit. It is removed when this is dropped, unless a process is still in it.
pub(crate) struct ProcessorLimit {
    group: PathBuf,
}

impl ProcessorLimit {
    /// Creates a group that is limited to this percentage of all processors.
    pub(crate) fn new(percent: u8) -> io::Result<Self> {
        let (groups, mounts) = (read_to_string("/proc/self/cgroup")?, read_to_string("/proc/self/mountinfo")?);
        let quota =
            thread::available_parallelism().map_or(1, usize::from) * PERIOD_MICROSECONDS * usize::from(percent) / 100;
        let hierarchy = Hierarchy::v2(&groups, &mounts)
            .filter(|hierarchy| has_word(&hierarchy.mount.join("cgroup.controllers"), "cpu"))
            .or_else(|| Hierarchy::v1(&groups, &mounts));
        let hierarchy =
            hierarchy.ok_or_else(|| io::Error::other("this machine has no control groups for processors"))?;
        hierarchy.limit(quota)
    }

    /// Returns a command that runs a program within the limit.
    pub(crate) fn join(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!(r#"{JOIN_SCRIPT} && exec "$@""#)]).arg(self.members()).arg(program);
        command
    }

    fn members(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }
}

impl Drop for ProcessorLimit {
    fn drop(&mut self) {
        let _ = remove_dir(&self.group);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// The hierarchy of control groups for processors, and this process's group in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    mount: PathBuf,
    own: PathBuf,
}

impl Hierarchy {
    fn v2(groups: &str, mounts: &str) -> Option<Self> {
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        Self::at(Version::V2, path, mounts, |kind, _| kind == "cgroup2")
    }

    fn v1(groups: &str, mounts: &str) -> Option<Self> {
        let path = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|controller| controller == "cpu").then_some(path)
        })?;
        let limits = |options: &str| options.split(',').any(|option| option == "cpu");
        Self::at(Version::V1, path, mounts, |kind, options| kind == "cgroup" && limits(options))
    }

    /// Finds the mount of this kind in the text of `/proc/self/mountinfo` (proc(5)).
    fn at(version: Version, path: &str, mounts: &str, matches: impl Fn(&str, &str) -> bool) -> Option<Self> {
        mounts.lines().find_map(|line| {
            let (place, system) = line.split_once(" - ")?;
            let mut system = system.split(' ');
            let (kind, options) = (system.next()?, system.nth(1)?);
            matches(kind, options).then_some(())?;
            let mut place = place.split(' ').skip(3);
            let (root, mount) = (place.next()?, PathBuf::from(place.next()?));
            let own = mount.join(Path::new(path).strip_prefix(root).ok()?);
            Some(Self { version, mount, own })
        })
    }

    /// Creates a group as close to this process's own one as the system permits.
    fn limit(&self, quota: usize) -> io::Result<ProcessorLimit> {
        let mut outcome = Err(io::Error::other("this process is in no control group that can be seen"));
        for parent in self.own.ancestors().take_while(|parent| parent.starts_with(&self.mount)) {
            outcome = self.limit_below(parent, quota);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn limit_below(&self, parent: &Path, quota: usize) -> io::Result<ProcessorLimit> {
        let controls = parent.join("cgroup.subtree_control");
        if self.version == Version::V2 && !has_word(&controls, "cpu") {
            write_existing(&controls, "+cpu")?;
        }
        let group = parent.join(format!("nearlight-{}", std::process::id()));
        create_dir(&group)?;
        let limit = ProcessorLimit { group: group.clone() };
        match self.version {
            Version::V2 => write_existing(&group.join("cpu.max"), &format!("{quota} {PERIOD_MICROSECONDS}"))?,
            Version::V1 => {
                write_existing(&group.join("cpu.cfs_period_us"), &PERIOD_MICROSECONDS.to_string())?;
                write_existing(&group.join("cpu.cfs_quota_us"), &quota.to_string())?;
            }
        }
        // Whether the system permits moving processes into the group is known only after trying.
        let tried = Command::new("sh").args(["-c", JOIN_SCRIPT]).arg(limit.members()).stderr(Stdio::null()).status()?;
        if tried.success() { Ok(limit) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

/// Writes into an existing file. A file that the kernel has not created would have no effect.
fn write_existing(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

fn has_word(file: &Path, word: &str) -> bool {
    read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|found| found == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n\
        31 22 0:27 /docker/7 /groups/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn groups_are_found_below_their_mount() {
        let found = Hierarchy::v2("0::/user.slice/one.scope\n", MOUNTS).expect("version 2");
        assert_eq!(found.own, Path::new("/sys/fs/cgroup/user.slice/one.scope"));
        let found = Hierarchy::v2("0::/\n", MOUNTS).expect("the root");
        assert_eq!(found.own, Path::new("/sys/fs/cgroup"));
        let groups = "4:memory:/a\n3:cpuacct,cpu:/docker/7/own\n0::/\n";
        let found = Hierarchy::v1(groups, MOUNTS).expect("version 1");
        assert_eq!((found.version, found.own), (Version::V1, PathBuf::from("/groups/cpu/own")));
        assert_eq!(Hierarchy::v1("3:cpu:/elsewhere\n", MOUNTS), None, "a group that cannot be seen");
        assert_eq!(Hierarchy::v2("4:memory:/a\n", MOUNTS), None);
    }

    #[test]
    fn a_folder_that_is_no_group_limits_nothing_and_is_left_as_it_was() {
        let mount = std::env::temp_dir().join(format!("nearlight-groups-{}", std::process::id()));
        create_dir(&mount).expect("a folder");
        for version in [Version::V1, Version::V2] {
            let hierarchy = Hierarchy { version, mount: mount.clone(), own: mount.clone() };
            assert!(hierarchy.limit(50_000).is_err(), "{version:?}");
        }
        // Only an empty folder can be removed so.
        remove_dir(&mount).expect("nothing is left in it");
    }
}
