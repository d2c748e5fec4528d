//! Checks whether this kernel accepts our programs from this process.

use std::fs;
use std::path::Path;

use crate::KernelError;

/// linux/capability.h
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
/// Oldest usable kernel release: `cong_control` takes four arguments since then.
const MIN_RELEASE: (u32, u32) = (6, 10);
/// All users of the machine, as `/proc/self/uid_map` shows it outside user namespaces.
const ALL_USERS: u64 = 0xffff_ffff;

/// Fails with what is missing.
pub(crate) fn check() -> Result<(), KernelError> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    check_rights(&status, &users)?;
    let release = release();
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(KernelError::NoTypes { release });
    }
    if version(&release).is_some_and(|version| version < MIN_RELEASE) {
        return Err(KernelError::TooOld { release });
    }
    Ok(())
}

pub(crate) fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn check_rights(status: &str, users: &str) -> Result<(), KernelError> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let effective = field("CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    let has = |capability: u32| effective >> capability & 1 == 1;
    let enough = has(CAP_SYS_ADMIN) || has(CAP_BPF) && has(CAP_PERFMON);
    let is_root = field("Uid:").and_then(|ids| ids.split_whitespace().nth(1)) == Some("0");
    let everybody = users.split_whitespace().nth(2).and_then(|count| count.parse().ok()) == Some(ALL_USERS);
    if enough && has(CAP_NET_ADMIN) && everybody {
        Ok(())
    } else if is_root || !everybody {
        Err(KernelError::Contained)
    } else {
        Err(KernelError::NotRoot)
    }
}

/// The first two numbers of a release such as `6.12.9-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYBODY: &str = "         0          0 4294967295\n";
    const ONE: &str = "         0       1000          1\n";

    fn status(uid: u32, capabilities: u64) -> String {
        format!("Name:\tnearlight\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{capabilities:016x}\n")
    }

    #[test]
    fn who_may_not_load_is_told_why() {
        let all = u64::MAX >> 23;
        let some = 1 << CAP_BPF | 1 << CAP_PERFMON | 1 << CAP_NET_ADMIN;
        check_rights(&status(0, all), EVERYBODY).expect("root");
        check_rights(&status(1_000, some), EVERYBODY).expect("a user with the capabilities");
        let refused = |uid, capabilities, users| check_rights(&status(uid, capabilities), users).expect_err("refused");
        assert!(matches!(refused(1_000, 0, EVERYBODY), KernelError::NotRoot));
        // The usual capabilities of a container's root.
        assert!(matches!(refused(0, 0x0000_0000_a804_25fb, EVERYBODY), KernelError::Contained));
        assert!(matches!(refused(0, all, ONE), KernelError::Contained));
        assert!(matches!(refused(1_000, 0, ONE), KernelError::Contained));
    }

    #[test]
    fn releases_are_compared_by_number() {
        for (release, expected) in [
            ("6.18.44-fc-v657", Some((6, 18))),
            ("6.9.0", Some((6, 9))),
            ("5.15.0-91-generic", Some((5, 15))),
            ("7.0-rc1", Some((7, 0))),
            ("what", None),
        ] {
            assert_eq!(version(release), expected, "{release}");
        }
        assert!(version("6.9.12") < Some(MIN_RELEASE) && version("6.10.0") >= Some(MIN_RELEASE));
    }
}
