//! The privileges that a server drops before it opens its ports: capabilities, most of the file system, and system calls that it never needs.
//!
//! A server parses untrusted bytes with large libraries (QUIC, WebRTC, codecs, graphics drivers). If one of them is compromised, the attacker should
//! find no more than the server needs. Three layers, each applied to the thread that starts all others:
//!
//! - No Linux capability is kept, except for binding a port below 1024 if one is requested.
//! - Landlock: files outside of the system's folders and those named on the command line cannot be read; only devices, temporary files, the
//!   drivers' shader caches and the named output can be written. Signals to other processes and their abstract sockets are out of reach.
//! - seccomp: system calls that change the machine or inspect other processes fail with EPERM.
//!
//! Layers that the kernel does not support are skipped and reported. A server that root has started also becomes another user, once its ports
//! and the files that it was given are open.

use std::path::PathBuf;

use anyhow::Context as _;

/// The requested operations that the sandbox must allow.
#[derive(Debug, Default)]
pub(crate) struct SandboxNeeds {
    /// Files and folders named by the user, which may lie anywhere.
    pub(crate) reads: Vec<PathBuf>,
    /// Files named by the user, which exist.
    pub(crate) writes: Vec<PathBuf>,
    /// The lowest port to bind, 0 for any.
    pub(crate) lowest_port: u16,
}

/// Returns what must be readable for the owner's certificate and key, also after another program has renewed them. Programs that do so give the new
/// files other names and change a symbolic link, so the folders of a link and of its file are included. A file without a link is readable as long
/// as it is not replaced.
pub(crate) fn certificate_paths(files: Option<&(PathBuf, PathBuf)>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for file in files.into_iter().flat_map(|(certificate, key)| [certificate, key]) {
        paths.push(file.clone());
        if file.is_symlink() {
            let target = file.canonicalize().ok();
            paths.extend(
                [Some(file), target.as_ref()].into_iter().flatten().filter_map(|file| Some(file.parent()?.to_owned())),
            );
        }
    }
    paths
}

/// A server's sandbox, and the user that it becomes once its ports are open.
#[derive(Debug)]
pub(crate) struct ServerSandbox {
    /// Unset by `--sandbox off`.
    is_on: bool,
    user: ServerUser,
}

/// The user that a server becomes.
#[derive(Debug)]
enum ServerUser {
    /// The user who started the server, because it is not root or there is no sandbox.
    Unchanged,
    #[cfg(target_os = "linux")]
    Other(nearlight_display::Identity),
    /// Root, for this reason.
    #[cfg(target_os = "linux")]
    Root(&'static str),
}

/// The users that a server becomes by default, the preferred one first. The second one owns no files.
#[cfg(target_os = "linux")]
const USUAL_USERS: [&str; 2] = ["nearlight", "nobody"];
/// Devices of graphics cards. Their groups remain the server's.
#[cfg(target_os = "linux")]
const GRAPHICS_DEVICES: &str = "/dev/dri";

impl ServerSandbox {
    /// Chooses the user: the one of this name, or the usual one.
    ///
    /// # Errors
    /// The server cannot become the user of this name.
    pub(crate) fn new(is_on: bool, user: Option<&str>) -> anyhow::Result<Self> {
        Ok(Self { is_on, user: if is_on { ServerUser::choose(user)? } else { ServerUser::Unchanged } })
    }

    /// Gives up what `needs` does not name; call it before any thread is started. Returns a description of what is in force.
    pub(crate) fn enter(&self, needs: &SandboxNeeds) -> anyhow::Result<String> {
        if self.is_on { enter(needs, self.user.is_other()) } else { Ok("off (--sandbox off)".into()) }
    }

    /// Returns the name of the user that the server becomes, if it becomes another one.
    pub(crate) fn user_name(&self) -> Option<&str> {
        match &self.user {
            ServerUser::Unchanged => None,
            #[cfg(target_os = "linux")]
            ServerUser::Other(user) => Some(&user.name),
            #[cfg(target_os = "linux")]
            ServerUser::Root(_) => None,
        }
    }

    /// Gives up the user root, once the ports and the files that the server was given are open, and says which user the server is.
    pub(crate) fn change_user(&self) -> anyhow::Result<()> {
        match &self.user {
            ServerUser::Unchanged => {}
            #[cfg(target_os = "linux")]
            ServerUser::Other(user) => {
                change_process_user(user).with_context(|| format!("cannot become the user {}", user.name))?;
                tracing::info!("the server runs as the user {}", user.name);
            }
            #[cfg(target_os = "linux")]
            ServerUser::Root(why) => {
                tracing::warn!("the server remains root, and whoever takes it over can read root's files: {why}");
            }
        }
        Ok(())
    }
}

impl ServerUser {
    #[cfg(not(target_os = "linux"))]
    fn choose(_: Option<&str>) -> anyhow::Result<Self> {
        Ok(Self::Unchanged)
    }

    #[cfg(target_os = "linux")]
    fn choose(wanted: Option<&str>) -> anyhow::Result<Self> {
        // SAFETY: the call has no conditions and cannot fail.
        #[expect(unsafe_code, reason = "the C library tells the user")]
        let is_root = unsafe { libc::geteuid() } == 0;
        if !is_root {
            anyhow::ensure!(
                wanted.is_none(),
                "--user {}: only root can become another user",
                wanted.unwrap_or_default()
            );
            return Ok(Self::Unchanged);
        }
        if wanted == Some("root") {
            return Ok(Self::Root("--user root"));
        }
        let names = wanted.map_or_else(|| USUAL_USERS.to_vec(), |name| vec![name]);
        let find = |name: &&str| nearlight_display::find_user(name).map_err(anyhow::Error::msg).transpose();
        let Some(user) = names.iter().find_map(find).transpose()? else {
            anyhow::ensure!(wanted.is_none(), "--user {}: this machine has no such user", wanted.unwrap_or_default());
            return Ok(Self::Root("this machine has no user nobody"));
        };
        match (nearlight_display::hindrance(&user), wanted) {
            (None, _) => Ok(Self::Other(user)),
            (Some(why), None) => Ok(Self::Root(why)),
            (Some(why), Some(name)) => {
                anyhow::bail!(
                    "--user {name} is not possible: {why}. Leave out --user, or give the container what it lacks"
                )
            }
        }
    }

    const fn is_other(&self) -> bool {
        #[cfg(target_os = "linux")]
        return matches!(self, Self::Other(_));
        #[cfg(not(target_os = "linux"))]
        return false;
    }
}

/// Changes the user of all threads of this process, permanently. Open files, ports and devices stay open.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the C library changes the user of all threads, and nothing else does")]
fn change_process_user(identity: &nearlight_display::Identity) -> std::io::Result<()> {
    let changed = |outcome: libc::c_int| if outcome == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
    let groups = graphics_groups();
    let (user, group) = (identity.user, identity.group);
    let mut death_signal: libc::c_int = 0;
    // SAFETY: the pointers are those of a living vector, with its length, and of a living integer; the other calls take numbers only.
    unsafe {
        // Changing the user clears the signal that this process gets when its parent ends.
        let parent = libc::getppid();
        changed(libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut death_signal))?;
        changed(libc::setgroups(groups.len(), groups.as_ptr()))?;
        changed(libc::setresgid(group, group, group))?;
        changed(libc::setresuid(user, user, user))?;
        changed(libc::prctl(libc::PR_SET_PDEATHSIG, death_signal))?;
        if death_signal != 0 && libc::getppid() != parent {
            changed(libc::raise(death_signal))?;
        }
    }
    Ok(())
}

/// Returns the groups that may use graphics cards.
#[cfg(target_os = "linux")]
fn graphics_groups() -> Vec<libc::gid_t> {
    use std::os::unix::fs::MetadataExt as _;

    let devices = std::fs::read_dir(GRAPHICS_DEVICES).into_iter().flatten().flatten();
    let groups = devices.filter_map(|device| Some(device.metadata().ok()?.gid())).filter(|group| *group != 0);
    groups.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

/// Folders of programs, libraries, drivers and their settings, without homes.
#[cfg(target_os = "linux")]
const SYSTEM_FOLDERS: [&str; 14] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/proc", "/sys", "/run", "/var/lib", "/nix",
    "/snap",
];
/// Devices (graphics cards), temporary files, and the sockets of a desktop.
#[cfg(target_os = "linux")]
const WRITABLE_FOLDERS: [&str; 3] = ["/dev", "/tmp", "/var/tmp"];
/// Below the home folder: what graphics drivers keep there.
#[cfg(target_os = "linux")]
const DRIVER_CACHES: [&str; 4] = [".cache/mesa_shader_cache", ".cache/mesa_shader_cache_db", ".cache/nvidia", ".nv"];
/// Below the home folder: graphics drivers and layers that the user installed.
#[cfg(target_os = "linux")]
const DRIVER_SETTINGS: [&str; 3] = [".local/share/vulkan", ".config/vulkan", ".drirc"];
/// The first port that needs no capability, unless the system is set up otherwise.
#[cfg(target_os = "linux")]
const FIRST_FREE_PORT: u16 = 1024;

#[cfg(target_os = "linux")]
fn enter(needs: &SandboxNeeds, changes_user: bool) -> anyhow::Result<String> {
    let capabilities = drop_capabilities(needs.lowest_port, changes_user).context("cannot drop capabilities")?;
    let files = restrict_files(needs).context("cannot restrict file access (Landlock)")?;
    let calls = refuse_system_calls().context("cannot restrict system calls (seccomp)")?;
    Ok(format!("{capabilities}; {files}; {calls}"))
}

#[cfg(not(target_os = "linux"))]
fn enter(_: &SandboxNeeds, _: bool) -> anyhow::Result<String> {
    Ok("this system has no sandbox that the server supports".into())
}

#[cfg(target_os = "linux")]
#[expect(clippy::iter_over_hash_type, reason = "capabilities are dropped in any order")]
fn drop_capabilities(lowest_port: u16, changes_user: bool) -> anyhow::Result<&'static str> {
    use caps::{CapSet, Capability, CapsHashSet};

    let keeps_ports = (1..FIRST_FREE_PORT).contains(&lowest_port)
        && caps::has_cap(None, CapSet::Permitted, Capability::CAP_NET_BIND_SERVICE)?;
    let ports: CapsHashSet = keeps_ports.then_some(Capability::CAP_NET_BIND_SERVICE).into_iter().collect();
    // The change of the user takes away all that are left.
    let user = [Capability::CAP_SETUID, Capability::CAP_SETGID];
    let kept: CapsHashSet = ports.iter().copied().chain(user.into_iter().filter(|_| changes_user)).collect();
    caps::clear(None, CapSet::Ambient)?;
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
        for capability in caps::read(None, CapSet::Bounding)? {
            if !ports.contains(&capability) {
                caps::drop(None, CapSet::Bounding, capability)?;
            }
        }
    }
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    caps::clear(None, CapSet::Inheritable)?;
    Ok(match (keeps_ports, changes_user) {
        (_, true) => "no capabilities once it has started",
        (true, false) => "no capabilities but for low ports",
        (false, false) => "no capabilities",
    })
}

/// Gives up the right to open sockets for raw frames, once the one that is needed is open. Call it before any thread is started.
#[cfg(target_os = "linux")]
pub(crate) fn give_up_raw_frames() -> anyhow::Result<()> {
    for set in [caps::CapSet::Effective, caps::CapSet::Permitted] {
        caps::drop(None, set, caps::Capability::CAP_NET_RAW).context("cannot drop CAP_NET_RAW")?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn give_up_raw_frames() -> anyhow::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn restrict_files(needs: &SandboxNeeds) -> anyhow::Result<&'static str> {
    use landlock::{
        ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
        RulesetStatus, Scope, path_beneath_rules,
    };

    let abi = ABI::V5;
    let home = std::env::home_dir().unwrap_or_default();
    let below_home = |names: &[&str]| names.iter().map(|name| home.join(name)).collect::<Vec<_>>();
    let temporary = std::env::var_os("TMPDIR").map(PathBuf::from);
    let desktop = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // The library skips paths that do not exist.
    let readable =
        SYSTEM_FOLDERS.iter().map(PathBuf::from).chain(below_home(&DRIVER_SETTINGS)).chain(needs.reads.clone());
    let writable = WRITABLE_FOLDERS.iter().map(PathBuf::from).chain(below_home(&DRIVER_CACHES));
    let writable = writable.chain(temporary).chain(desktop).chain(needs.writes.clone());
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules(writable, AccessFs::from_all(abi)))?
        .restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => "files, signals and abstract sockets by Landlock",
        RulesetStatus::PartiallyEnforced => "files by an older Landlock",
        RulesetStatus::NotEnforced => "all files, since this kernel has no Landlock",
    })
}

/// System calls that a server never makes and an intruder might.
#[cfg(target_os = "linux")]
const REFUSED_CALLS: [libc::c_long; 40] = [
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    // The kernel.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_syslog,
    // Keys.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_acct,
    libc::SYS_quotactl,
];

#[cfg(target_os = "linux")]
fn refuse_system_calls() -> anyhow::Result<String> {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

    let rules = REFUSED_CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, std::env::consts::ARCH.try_into()?)?;
    let program: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program)?;
    Ok(format!("{} system calls refused", REFUSED_CALLS.len()))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    /// A thread confines only itself, so the other tests are not affected.
    #[test]
    fn who_is_confined_reads_what_was_named_and_no_more() {
        std::fs::read_dir("/").expect("everybody may list the root");
        let folder = std::env::temp_dir();
        let confined = std::thread::spawn(move || {
            let needs = SandboxNeeds { reads: vec![folder.clone()], ..SandboxNeeds::default() };
            let in_force = enter(&needs, false).expect("a sandbox");
            let mode = seccomp_mode();
            (
                in_force,
                std::fs::read_dir("/").map(drop),
                std::fs::read_dir("/usr").map(drop),
                std::fs::read_dir(folder).map(drop),
                mode,
            )
        });
        let (in_force, root, system, named, mode) = confined.join().expect("no panic");
        assert!(in_force.starts_with("no capabilities; "), "{in_force}");
        if !in_force.contains("no Landlock") {
            assert_eq!(root.map_err(|error| error.kind()), Err(ErrorKind::PermissionDenied));
        }
        assert!(system.is_ok() && named.is_ok(), "{system:?} {named:?}");
        assert_eq!(mode, "2", "system calls are filtered");
        std::fs::read_dir("/").expect("the thread confined itself alone");
    }

    /// The calling thread's mode of seccomp.
    fn seccomp_mode() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("this thread");
        let line = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        line.expect("the kernel tells").trim().to_owned()
    }

    #[test]
    fn folders_are_readable_for_certificates_behind_links_alone() {
        let folder = std::env::temp_dir().join(format!("nearlight-certificate-paths-{}", std::process::id()));
        let (live, archive) = (folder.join("live"), folder.join("archive"));
        std::fs::create_dir_all(&live).expect("a folder");
        std::fs::create_dir_all(&archive).expect("a folder");
        std::fs::write(archive.join("key1.pem"), "").expect("a file");
        std::fs::write(live.join("certificate.pem"), "").expect("a file");
        std::os::unix::fs::symlink("../archive/key1.pem", live.join("key.pem")).expect("a link");
        let files = (live.join("certificate.pem"), live.join("key.pem"));
        let archive = archive.canonicalize().expect("it exists");
        assert_eq!(certificate_paths(Some(&files)), [files.0.clone(), files.1.clone(), live, archive]);
        assert_eq!(certificate_paths(None), Vec::<PathBuf>::new());
        std::fs::remove_dir_all(&folder).expect("a folder");
    }
}
