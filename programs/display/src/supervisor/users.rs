//! Users of the machine, and whether root can become them.

use std::path::PathBuf;

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    pub user: u32,
    pub group: u32,
    pub home: PathBuf,
    /// The user's shell; `/bin/sh` for users who cannot log in, such as `nobody`.
    pub shell: String,
}

/// The user as whom the program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProgramUser {
    /// The server's user.
    Own,
    /// Root, which the server runs as, because it may not become another user here.
    OnlyRoot(&'static str),
    Other(Identity),
}

/// Returns the user as whom the program runs. It is root only on the owner's request, or where root can become nobody else.
pub(crate) fn identity(wanted: Option<&str>) -> Result<ProgramUser, String> {
    let root = rustix::process::geteuid().is_root();
    let name = match (wanted, root) {
        (Some(name), true) => name,
        (Some(name), false) => {
            return Err(format!("--program-user {name}: only root can run programs as another user"));
        }
        (None, true) => "nobody",
        (None, false) => return Ok(ProgramUser::Own),
    };
    let Some(found) = find_user(name)? else {
        let missing = wanted.is_none().then_some(ProgramUser::OnlyRoot("this machine has no user nobody"));
        return missing.ok_or_else(|| format!("this machine has no user {name}"));
    };
    match hindrance(&found) {
        None => Ok(ProgramUser::Other(found)),
        Some(_) if found.user == 0 => Ok(ProgramUser::Own),
        Some(why) if wanted.is_none() => Ok(ProgramUser::OnlyRoot(why)),
        Some(why) => Err(format!(
            "--program-user {name} is not possible: {why}. Leave out --program-user, or give the container what it lacks"
        )),
    }
}

/// Returns the user of this name, if the machine has one.
///
/// # Errors
///
/// The file with the machine's users cannot be read.
pub fn find_user(name: &str) -> Result<Option<Identity>, String> {
    let users = std::fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
    Ok(user_in(&users, name))
}

/// Returns why this process, which root has started, cannot become this user.
#[must_use]
pub fn hindrance(user: &Identity) -> Option<&'static str> {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let (users, groups) = (read("/proc/self/uid_map"), read("/proc/self/gid_map"));
    hindrance_in(user, &read("/proc/self/status"), [&users, &groups], &read("/proc/self/setgroups"))
}

/// Capabilities for becoming another user, as bits of `CapEff` in `/proc/self/status`: `CAP_CHOWN`, `CAP_SETGID` and `CAP_SETUID`.
const USER_CAPABILITIES: [(u32, &str); 3] = [
    (0, "root lacks the capability CAP_CHOWN (docker run --cap-add CHOWN)"),
    (6, "root lacks the capability CAP_SETGID (docker run --cap-add SETGID)"),
    (7, "root lacks the capability CAP_SETUID (docker run --cap-add SETUID)"),
];

/// Returns why root cannot become this user. The arguments are files of `/proc/self`.
fn hindrance_in(
    user: &Identity,
    status: &str,
    [users, groups]: [&str; 2],
    groups_settable: &str,
) -> Option<&'static str> {
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = capabilities.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    if let Some((_, why)) = USER_CAPABILITIES.iter().find(|(bit, _)| capabilities >> bit & 1 == 0) {
        return Some(why);
    }
    if !is_mapped(users, user.user) || !is_mapped(groups, user.group) {
        return Some("this container has no such user: its user namespace maps too few (/etc/subuid and /etc/subgid)");
    }
    (groups_settable.trim() == "deny").then_some("this container's user namespace does not permit setting groups")
}

/// Returns whether a map of a user namespace (`user_namespaces(7)`) has this number in it. Without a map there is no namespace.
fn is_mapped(map: &str, number: u32) -> bool {
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (first, _, length) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(first..first + length)
    });
    map.is_empty() || ranges.into_iter().any(|range| range.contains(&u64::from(number)))
}

/// Finds a user in the text of `/etc/passwd`.
fn user_in(users: &str, name: &str) -> Option<Identity> {
    users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [found, _, user, group, _, home, shell, ..] = fields[..] else { return None };
        (found == name).then_some(())?;
        let starts = !shell.is_empty() && !["nologin", "false"].iter().any(|refusal| shell.ends_with(refusal));
        Some(Identity {
            name: name.into(),
            user: user.parse().ok()?,
            group: group.parse().ok()?,
            home: home.into(),
            shell: if starts { shell } else { "/bin/sh" }.into(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_whole_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\nnobody2:x:7:7::/:\nnobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin\nbroken";
        let found = user_in(users, "nobody").expect("there");
        assert_eq!((found.user, found.group, found.home.to_str()), (65_534, 65_533, Some("/nonexistent")));
        let shell = |name| user_in(users, name).map(|identity| identity.shell);
        assert_eq!(
            ["root", "nobody", "nobody2"].map(shell),
            ["/bin/bash", "/bin/sh", "/bin/sh"].map(|name| Some(name.into()))
        );
        assert_eq!(user_in(users, "broken"), None);
    }

    #[test]
    fn root_in_a_container_may_not_become_another_user() {
        let nobody = user_in("nobody:x:65534:65534::/:\n", "nobody").expect("there");
        let all = "CapEff:\t000001ffffffffff\n";
        let everyone = "         0          0 4294967295\n";
        assert_eq!(hindrance_in(&nobody, all, [everyone; 2], "allow\n"), None);
        assert_eq!(hindrance_in(&nobody, all, [""; 2], ""), None, "a kernel without user namespaces");
        // Docker's usual set without SETUID.
        let why = hindrance_in(&nobody, "CapEff:\t00000000a804257b\n", [everyone; 2], "allow\n").expect("a reason");
        assert!(why.contains("CAP_SETUID"), "{why}");
        let why = hindrance_in(&nobody, all, ["0 1000 1\n"; 2], "deny\n").expect("a reason");
        assert!(why.contains("user namespace maps too few"), "{why}");
    }
}
