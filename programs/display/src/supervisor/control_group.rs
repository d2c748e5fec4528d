//! Limits a program's processor time, memory and number of processes by control groups, of version 2 where the machine has its controllers
//! there, else of version 1.

use std::ffi::OsStr;
use std::fs::{OpenOptions, create_dir, read_to_string, remove_dir};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use nearlight_units::Bytes;

/// The period to which the quota of processor time refers, in microseconds: the kernel's default.
const PERIOD_MICROSECONDS: usize = 100_000;
/// A shell command that moves the shell into the groups named before `--`, and becomes the command after it.
const JOIN_SCRIPT: &str = r#"while [ "$1" != -- ]; do echo $$ > "$1" || exit 1; shift; done; shift; exec "$@""#;

/// What a control group limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// A percentage of all processors.
    Processors(u8),
    Memory(Bytes),
    /// Processes and threads together.
    Processes(u32),
}

/// A value for a file of a control group.
struct ControlValue {
    file: &'static str,
    value: String,
    /// Whether the limit does not hold without it. Kernels that do not account for swap lack the file for that.
    required: bool,
}

impl Limit {
    const fn controller(self) -> &'static str {
        match self {
            Self::Processors(_) => "cpu",
            Self::Memory(_) => "memory",
            Self::Processes(_) => "pids",
        }
    }

    fn settings(self, version: Version) -> Vec<ControlValue> {
        let required = |file, value| ControlValue { file, value, required: true };
        let optional = |file, value| ControlValue { file, value, required: false };
        match (self, version) {
            (Self::Processors(percent), version) => {
                let processors = thread::available_parallelism().map_or(1, usize::from);
                let quota = processors * PERIOD_MICROSECONDS * usize::from(percent) / 100;
                match version {
                    Version::V2 => vec![required("cpu.max", format!("{quota} {PERIOD_MICROSECONDS}"))],
                    Version::V1 => vec![
                        required("cpu.cfs_period_us", PERIOD_MICROSECONDS.to_string()),
                        required("cpu.cfs_quota_us", quota.to_string()),
                    ],
                }
            }
            // Without a limit on swap, the program would fill that too.
            (Self::Memory(bytes), Version::V2) => {
                vec![required("memory.max", bytes.get().to_string()), optional("memory.swap.max", "0".into())]
            }
            (Self::Memory(bytes), Version::V1) => {
                let bytes = bytes.get().to_string();
                vec![required("memory.limit_in_bytes", bytes.clone()), optional("memory.memsw.limit_in_bytes", bytes)]
            }
            (Self::Processes(count), _) => vec![required("pids.max", count.to_string())],
        }
    }
}

/// Control groups with limits. They are removed when this is dropped, unless a process is still in them.
#[derive(Default)]
pub(crate) struct ControlGroups {
    groups: Vec<PathBuf>,
}

impl ControlGroups {
    /// Creates groups with these limits. Also returns the limits that are not possible here, and why.
    pub(crate) fn new(limits: &[Limit]) -> (Self, Vec<(Limit, io::Error)>) {
        let (mut made, mut refused) = (Self::default(), Vec::new());
        let (groups, mounts) = match (read_to_string("/proc/self/cgroup"), read_to_string("/proc/self/mountinfo")) {
            (Ok(groups), Ok(mounts)) => (groups, mounts),
            (Err(error), _) | (_, Err(error)) => return (made, refusals(limits, &error).collect()),
        };
        let unified = Hierarchy::v2(&groups, &mounts);
        let has = |limit: &Limit| {
            let controllers = |own: &Hierarchy| own.mount.join("cgroup.controllers");
            unified.as_ref().is_some_and(|own| has_word(&controllers(own), limit.controller()))
        };
        let (together, apart): (Vec<Limit>, Vec<Limit>) = limits.iter().copied().partition(|limit| has(limit));
        if let Some(hierarchy) = unified.filter(|_| !together.is_empty()) {
            made.limit_together(&hierarchy, &together, &mut refused);
        }
        for limit in apart {
            match Hierarchy::v1(&groups, &mounts, limit.controller()) {
                Some(hierarchy) => made.add(&hierarchy, &[limit], &mut refused),
                None => refused.push((limit, io::Error::other("this machine has no control groups for it"))),
            }
        }
        (made, refused)
    }

    /// Creates one group of version 2, in which a process cannot be twice. Systems that let users create groups often keep the controller of
    /// processor time, so the other limits are tried without it as well.
    fn limit_together(&mut self, hierarchy: &Hierarchy, limits: &[Limit], refused: &mut Vec<(Limit, io::Error)>) {
        let is_time = |limit: &Limit| matches!(limit, Limit::Processors(_));
        let (time, others): (Vec<Limit>, Vec<Limit>) = limits.iter().copied().partition(|limit| is_time(limit));
        if time.is_empty() || others.is_empty() {
            return self.add(hierarchy, limits, refused);
        }
        if let Err(error) = self.try_add(hierarchy, limits) {
            refused.extend(refusals(&time, &error));
            self.add(hierarchy, &others, refused);
        }
    }

    fn add(&mut self, hierarchy: &Hierarchy, limits: &[Limit], refused: &mut Vec<(Limit, io::Error)>) {
        if let Err(error) = self.try_add(hierarchy, limits) {
            refused.extend(refusals(limits, &error));
        }
    }

    fn try_add(&mut self, hierarchy: &Hierarchy, limits: &[Limit]) -> io::Result<()> {
        self.groups.extend(hierarchy.limit(limits)?.into_path());
        Ok(())
    }

    /// Returns a command that runs a program within the limits.
    pub(crate) fn join(&self, program: &OsStr) -> Command {
        if self.groups.is_empty() {
            return Command::new(program);
        }
        let mut command = Command::new("sh");
        command
            .args(["-c", JOIN_SCRIPT, "sh"])
            .args(self.groups.iter().map(|group| members(group)))
            .arg("--")
            .arg(program);
        command
    }

    /// Kills all processes in the groups, where the kernel can (Linux 5.14, version 2).
    pub(crate) fn kill(&self) {
        for group in &self.groups {
            let _ = write_existing(&group.join("cgroup.kill"), "1");
        }
    }
}

impl Drop for ControlGroups {
    fn drop(&mut self) {
        for group in &self.groups {
            let _ = remove_dir(group);
        }
    }
}

/// Returns the limits that one error has prevented, each with the error.
fn refusals(limits: &[Limit], error: &io::Error) -> impl Iterator<Item = (Limit, io::Error)> {
    limits.iter().map(|limit| (*limit, io::Error::new(error.kind(), error.to_string())))
}

fn members(group: &Path) -> PathBuf {
    group.join("cgroup.procs")
}

/// A new group. It is removed when this is dropped before its path was taken.
struct NewGroup(Option<PathBuf>);

impl NewGroup {
    fn into_path(mut self) -> Option<PathBuf> {
        self.0.take()
    }
}

impl Drop for NewGroup {
    fn drop(&mut self) {
        if let Some(group) = &self.0 {
            let _ = remove_dir(group);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// A hierarchy of control groups, and this process's group in it.
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

    fn v1(groups: &str, mounts: &str, wanted: &str) -> Option<Self> {
        let path = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|controller| controller == wanted).then_some(path)
        })?;
        let limits = |options: &str| options.split(',').any(|option| option == wanted);
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
    fn limit(&self, limits: &[Limit]) -> io::Result<NewGroup> {
        let mut outcome = Err(io::Error::other("this process is in no control group that can be seen"));
        for parent in self.own.ancestors().take_while(|parent| parent.starts_with(&self.mount)) {
            outcome = self.limit_below(parent, limits);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn limit_below(&self, parent: &Path, limits: &[Limit]) -> io::Result<NewGroup> {
        let controls = parent.join("cgroup.subtree_control");
        if self.version == Version::V2 {
            for controller in limits.iter().map(|limit| limit.controller()) {
                if !has_word(&controls, controller) {
                    write_existing(&controls, &format!("+{controller}"))?;
                }
            }
        }
        let path = parent.join(format!("nearlight-{}", std::process::id()));
        create_dir(&path)?;
        let group = NewGroup(Some(path.clone()));
        for ControlValue { file, value, required } in limits.iter().flat_map(|limit| limit.settings(self.version)) {
            let written = write_existing(&path.join(file), &value);
            if required {
                written?;
            }
        }
        // Whether the system permits moving processes into the group is known only after trying.
        let mut attempt = Command::new("sh");
        attempt.args(["-c", JOIN_SCRIPT, "sh"]).arg(members(&path)).args(["--", "true"]);
        let tried = attempt.stderr(Stdio::null()).status()?;
        if tried.success() { Ok(group) } else { Err(io::ErrorKind::PermissionDenied.into()) }
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
        let found = Hierarchy::v1(groups, MOUNTS, "cpu").expect("version 1");
        assert_eq!((found.version, found.own), (Version::V1, PathBuf::from("/groups/cpu/own")));
        assert_eq!(Hierarchy::v1("3:cpu:/elsewhere\n", MOUNTS, "cpu"), None, "a group that cannot be seen");
        assert_eq!(Hierarchy::v2("4:memory:/a\n", MOUNTS), None);
    }

    #[test]
    fn a_folder_that_is_no_group_limits_nothing_and_is_left_as_it_was() {
        let mount = std::env::temp_dir().join(format!("nearlight-groups-{}", std::process::id()));
        create_dir(&mount).expect("a folder");
        for version in [Version::V1, Version::V2] {
            let hierarchy = Hierarchy { version, mount: mount.clone(), own: mount.clone() };
            assert!(hierarchy.limit(&[Limit::Processes(7)]).is_err(), "{version:?}");
        }
        // Only an empty folder can be removed so.
        remove_dir(&mount).expect("nothing is left in it");
    }
}
