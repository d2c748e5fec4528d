//! The history of access to a user's servers: who connected with which link, wrong tokens and codes, and links that were made or have ended.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use nearlight_rooms::Role;
use serde::{Deserialize, Serialize};

use crate::access::link_file::{GivenLink, LinkKind, role_name};
use crate::access::state_file::PrivateFile;

/// Name of the file in its folder.
const FILE_NAME: &str = "access.jsonl";
/// Size of the file in bytes above which its older half is deleted. Guess: about 8,000 records, some months of a household.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// An event and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRecord {
    /// Seconds since 1970.
    pub time_s: u64,
    #[serde(flatten)]
    pub event: AccessEvent,
}

/// What an owner of a server wants to be able to look up later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AccessEvent {
    /// A client got a place. `link` and `name` are none if it came with the owner's token or one derived from it.
    Connected {
        place: PlaceKind,
        #[serde(with = "role_name")]
        role: Role,
        link: Option<u32>,
        name: Option<String>,
        address: IpAddr,
    },
    /// Clients gave wrong tokens, `attempts` in a minute, from so many `addresses`, of which `address` was the first.
    WrongToken {
        attempts: u64,
        addresses: usize,
        address: IpAddr,
    },
    /// A device was to be paired by a wrong code, which may be tried so many more times.
    WrongCode {
        tries_left: u32,
    },
    /// A link was made, or a device was paired.
    Added {
        kind: LinkKind,
        number: u32,
        name: String,
        #[serde(with = "role_name")]
        role: Role,
    },
    Revoked {
        kind: LinkKind,
        number: u32,
        name: String,
    },
    Expired {
        kind: LinkKind,
        number: u32,
        name: String,
    },
    /// The disk was slower than the events.
    Lost {
        records: u64,
    },
}

impl AccessEvent {
    pub(crate) fn added(link: &GivenLink) -> Self {
        Self::Added { kind: link.kind, number: link.number, name: link.name.clone(), role: link.role }
    }

    pub(crate) fn revoked(link: &GivenLink) -> Self {
        Self::Revoked { kind: link.kind, number: link.number, name: link.name.clone() }
    }

    pub(crate) fn expired(link: &GivenLink) -> Self {
        Self::Expired { kind: link.kind, number: link.number, name: link.name.clone() }
    }
}

/// Writes a sentence for people, without a full stop.
impl fmt::Display for AccessEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { place, role, link, name, address } => {
                let what = match place {
                    PlaceKind::Session => "connected",
                    PlaceKind::Member => "joined the rooms",
                };
                write!(formatter, "a {} {what} from {address}", role.name())?;
                let named = link.zip(name.as_deref());
                named.map_or(Ok(()), |(link, name)| write!(formatter, " with link {link}, {name}"))
            }
            Self::WrongToken { attempts, addresses, address } => {
                write!(
                    formatter,
                    "{attempts} wrong {} from {address}",
                    if *attempts == 1 { "token" } else { "tokens" }
                )?;
                match addresses.saturating_sub(1) {
                    0 => Ok(()),
                    1 => write!(formatter, " and another address"),
                    others => write!(formatter, " and {others} other addresses"),
                }
            }
            Self::WrongCode { tries_left } => {
                write!(formatter, "a wrong code for pairing a device; {tries_left} more may be tried")
            }
            Self::Added { kind: LinkKind::Link, number, name, role } => {
                write!(formatter, "link {number}, {name}, was made for a {}", role.name())
            }
            Self::Added { kind: LinkKind::Device, number, name, role } => {
                write!(formatter, "device {number}, {name}, was paired as a {}", role.name())
            }
            Self::Revoked { kind, number, name } => write!(formatter, "{} {number}, {name}, was revoked", kind.name()),
            Self::Expired { kind, number, name } => write!(formatter, "{} {number}, {name}, has expired", kind.name()),
            Self::Lost { records } => write!(formatter, "{records} records were lost, because the disk was too slow"),
        }
    }
}

/// What a client connected for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceKind {
    /// A stream of pictures.
    Session,
    /// A membership of the server's rooms, by a client that renders for itself.
    Member,
}

/// The file of the history, which is locked while it is used.
#[derive(Debug)]
pub(crate) struct HistoryFile(PrivateFile);

impl HistoryFile {
    /// Opens the file in `folder`, or creates both. Only their owner can read them.
    ///
    /// # Errors
    /// If the system refuses it.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        PrivateFile::open(folder, FILE_NAME).map(Self)
    }

    /// Appends records. If that fails, the log says so, and the server goes on.
    pub(crate) fn append(&self, records: &[AccessRecord]) {
        if records.is_empty() {
            return;
        }
        let mut lines = Vec::new();
        for record in records {
            serde_json::to_writer(&mut lines, record).expect("numbers and texts");
            lines.push(b'\n');
        }
        let written =
            self.locked(|| if self.0.append(&lines)? > MAX_FILE_BYTES { self.delete_older_half() } else { Ok(()) });
        if let Err(error) = written {
            tracing::warn!("cannot write {}: {error}. The history of access has a gap", self.0.path().display());
        }
    }

    /// Returns all records, the oldest first. Lines that are damaged are left out, with a warning in the log.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn read(&self) -> io::Result<Vec<AccessRecord>> {
        let text = self.locked(|| self.content())?;
        let parsed = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(serde_json::from_slice);
        let (records, damaged): (Vec<_>, Vec<_>) = parsed.partition(Result::is_ok);
        if !damaged.is_empty() {
            tracing::warn!("{} lines of {} are damaged and left out", damaged.len(), self.0.path().display());
        }
        let mut records: Vec<AccessRecord> = records.into_iter().flatten().collect();
        // Servers write up to a minute later than commands do.
        records.sort_by_key(|record| record.time_s);
        Ok(records)
    }

    fn locked<R>(&self, work: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.0.lock()?;
        let result = work();
        self.0.unlock();
        result
    }

    fn content(&self) -> io::Result<Vec<u8>> {
        // Each process may add some lines before it finds the file too long.
        self.0.read(2 * MAX_FILE_BYTES)
    }

    fn delete_older_half(&self) -> io::Result<()> {
        let text = self.content()?;
        let middle = text.len() / 2;
        let start = text[middle..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |line| middle + line + 1);
        self.0.replace(&text[start..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn folder(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("nearlight-history-{name}-{}", std::process::id()))
    }

    fn wrong_tokens(time_s: u64) -> AccessRecord {
        AccessRecord { time_s, event: AccessEvent::WrongToken { attempts: time_s, addresses: 1, address: HERE } }
    }

    #[test]
    fn records_are_read_back_and_damaged_lines_left_out() {
        let folder = folder("read");
        let (file, other) = (HistoryFile::open(&folder).expect("a file"), HistoryFile::open(&folder).expect("a file"));
        let name = Some("Anna".to_owned());
        let connected =
            AccessEvent::Connected { place: PlaceKind::Session, role: Role::Guest, link: Some(3), name, address: HERE };
        let records = [AccessRecord { time_s: 5, event: connected }, wrong_tokens(6)];
        file.append(&records[..1]);
        other.0.append(b"{\"time_s\":1}\n\xff\n").expect("written");
        other.append(&records[1..]);
        assert_eq!(file.read().expect("read"), records);
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn the_file_is_bounded_and_keeps_what_is_newest() {
        let folder = folder("bounds");
        let file = HistoryFile::open(&folder).expect("a file");
        for block in 0..40_u64 {
            let records: Vec<_> = (0..1_000).map(|index| wrong_tokens(block * 1_000 + index)).collect();
            file.append(&records);
            assert!(file.0.metadata().expect("a length").len() <= MAX_FILE_BYTES);
        }
        let records = file.read().expect("read");
        assert_eq!(records.last(), Some(&wrong_tokens(39_999)));
        assert!(records.len() > 3_000 && records.windows(2).all(|pair| pair[1].time_s == pair[0].time_s + 1));
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn events_are_sentences() {
        let connected = |link: Option<u32>, name: Option<&str>| AccessEvent::Connected {
            place: PlaceKind::Member,
            role: Role::Spectator,
            link,
            name: name.map(Into::into),
            address: HERE,
        };
        for (event, expected) in [
            (connected(None, None), "a spectator joined the rooms from 192.0.2.1"),
            (connected(Some(3), Some("Anna")), "a spectator joined the rooms from 192.0.2.1 with link 3, Anna"),
            (wrong_tokens(1).event, "1 wrong token from 192.0.2.1"),
            (
                AccessEvent::WrongToken { attempts: 9, addresses: 3, address: HERE },
                "9 wrong tokens from 192.0.2.1 and 2 other addresses",
            ),
            (
                AccessEvent::Added { kind: LinkKind::Device, number: 4, name: "Quest".into(), role: Role::Guest },
                "device 4, Quest, was paired as a guest",
            ),
            (
                AccessEvent::Revoked { kind: LinkKind::Link, number: 4, name: "Anna".into() },
                "link 4, Anna, was revoked",
            ),
        ] {
            assert_eq!(event.to_string(), expected);
        }
    }
}
