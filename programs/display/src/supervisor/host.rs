//! Processes, programs, memory and random numbers of the machine.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nearlight_units::Bytes;
use rustix::process::Pid;

/// Returns all descendants of this process, parents first, and whether each is a zombie.
pub(crate) fn descendants() -> Vec<(Pid, bool)> {
    let own = std::process::id();
    let processes: Vec<(u32, u32, bool)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| parent_of(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .collect();
    let mut family = vec![(own, false)];
    let mut next = 0;
    while let Some((parent, _)) = family.get(next).copied() {
        family.extend(processes.iter().filter(|(_, of, _)| *of == parent).map(|(child, _, zombie)| (*child, *zombie)));
        next += 1;
    }
    family.into_iter().skip(1).filter_map(|(child, zombie)| Some((pid(child)?, zombie))).collect()
}

pub(crate) fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(number as i32)
}

/// Returns a process id, its parent's, and whether the process is a zombie.
fn parent_of(process: u32) -> Option<(u32, u32, bool)> {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may contain any character.
    let mut fields = status.rsplit_once(')')?.1.split_whitespace();
    let zombie = fields.next()? == "Z";
    Some((process, fields.next()?.parse().ok()?, zombie))
}

/// Finds the file of a program in `PATH`, as a shell does.
pub(crate) fn find_program(name: &OsStr) -> Option<PathBuf> {
    let runs = |file: &Path| file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    if name.as_bytes().contains(&b'/') {
        return std::path::absolute(name).ok().filter(|file| runs(file));
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    // On Debian, the folders with games are not in root's path.
    let games = [PathBuf::from("/usr/games"), PathBuf::from("/usr/local/games")];
    std::env::split_paths(&folders).chain(games).map(|folder| folder.join(name)).find(|file| runs(file))
}

/// Returns how much memory the machine has.
pub(crate) fn machine_memory() -> Option<Bytes> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(Bytes::new(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10))
}

/// Returns how many threads a user's processes have.
pub(crate) fn threads_of(user: u32) -> u64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let count = |entry: std::fs::DirEntry| {
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next();
        let own = field("Uid:")?.parse() == Ok(user);
        own.then(|| field("Threads:")?.parse::<u64>().ok()).flatten()
    };
    entries.filter_map(count).sum()
}

/// Returns the content of an authority file as `xauth` writes it, with one cookie for all displays (`FamilyWild`).
pub(crate) fn authority(cookie: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xff];
    for field in [&b""[..], b"", b"MIT-MAGIC-COOKIE-1", cookie] {
        bytes.extend_from_slice(&(field.len() as u16).to_be_bytes());
        bytes.extend_from_slice(field);
    }
    bytes
}

pub(crate) fn random(count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Returns a function that adds a path to an error.
pub(crate) fn naming(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Returns a random name for a file or folder.
pub(crate) fn random_name() -> io::Result<String> {
    let number = random(8)?.into_iter().fold(0_u64, |number, byte| number << 8 | u64::from(byte));
    Ok(format!("{number:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_valid_for_every_display() {
        let bytes = authority(&[7; 16]);
        assert_eq!(&bytes[..8], &[0xff, 0xff, 0, 0, 0, 0, 0, 18]);
        assert_eq!(bytes.len(), 2 + 2 + 2 + 2 + 18 + 2 + 16);
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert_eq!(
            find_program("sh".as_ref()).and_then(|file| file.file_name().map(ToOwned::to_owned)),
            Some("sh".into())
        );
        assert_eq!(find_program("/etc/passwd".as_ref()), None, "not executable");
        assert_eq!(find_program("no-such-program-here".as_ref()), None);
    }
}
