//! Errors of loading and managing the kernel programs.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Each says what is missing, and what to do about it.
#[derive(Debug, Error)]
pub enum KernelError {
    #[error("only root may load programs into the kernel and read what they know: try `sudo`")]
    NotRoot,
    #[error(
        "this is root in a container or a user namespace, without the rights to load programs into the machine's kernel (CAP_BPF, \
         CAP_NET_ADMIN, CAP_PERFMON): run it on the machine itself, or start the container with --privileged"
    )]
    Contained,
    #[error(
        "this kernel ({release}) does not describe its types (/sys/kernel/btf/vmlinux is missing), so programs cannot be fitted to it: use one \
         that was built with CONFIG_DEBUG_INFO_BTF, as those of Debian and Ubuntu are"
    )]
    NoTypes { release: String },
    #[error("this kernel ({release}) is too old for congestion control in BPF: Linux 6.10 or later is needed")]
    TooOld { release: String },
    #[error(
        "this kernel ({release}) does not support congestion control in BPF: use one that was built with CONFIG_BPF_SYSCALL, CONFIG_BPF_JIT \
         and CONFIG_DEBUG_INFO_BTF"
    )]
    NoStructOps { release: String },
    #[error("`{0}` cannot be the name of a congestion control: write 1 to 15 of a-z, 0-9, _ and .")]
    Name(String),
    #[error(
        "the kernel has a congestion control named `{0}` already: `nearlight kernel unload {0}` removes ours, --name gives this one another name"
    )]
    AlreadyLoaded(String),
    #[error("no congestion control named `{name}` was loaded by nearlight; the kernel has {}", available.join(", "))]
    NotLoaded { name: String, available: Vec<String> },
    #[error("at most {most} measurements can be kept for each flow: write a --limit from 1 to {most}, or `none`")]
    Limit { most: u32 },
    #[error(
        "this kernel ({release}) removes a congestion control only when its holder ends: end process {}",
        holders.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    )]
    Held { release: String, holders: Vec<u32> },
    #[error(
        "there is no cgroup version 2 hierarchy, which identifies the command's sockets: mount one, `mount -t cgroup2 none \
         /sys/fs/cgroup`"
    )]
    NoControlGroups,
    #[error("cannot use {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the kernel refused {what}: {reason}")]
    Refused { what: &'static str, reason: String },
}
