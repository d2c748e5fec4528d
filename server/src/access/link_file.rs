//! The file with the links that an owner has given to others: each has a token, a name and a role of its own, may expire, and can be revoked.
//! Devices that were paired by a code have such a link too. The commands `nearlight links` and `nearlight devices` change the file while
//! servers use it.

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nearlight_net::{Token, TokenError, wall_clock};
use nearlight_pairing::Code;
use nearlight_rooms::{Role, visible_name};
use serde::{Deserialize, Serialize};

use crate::access::history::{AccessEvent, AccessRecord, HistoryFile};
use crate::access::state_file::StateFile;

/// Name of the file in its folder.
const FILE_NAME: &str = "links.json";
/// Most links that the file holds. Guess: more than the devices and guests of an owner. Each proof of a token is checked against all of them.
pub const MAX_LINKS: usize = 256;
/// Most bytes of a link's name.
const MAX_NAME_BYTES: usize = 64;
/// Wrong codes after which a code is void. With a million codes, whoever guesses gets in once in 200,000 codes.
pub const MAX_CODE_FAILURES: u32 = 5;

/// The open files with the links of a user's servers, and with the history of access to them.
#[derive(Debug)]
pub struct LinkFile {
    links: StateFile<SavedAccess>,
    history: HistoryFile,
}

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedAccess {
    pub(crate) links: Vec<GivenLink>,
    pub(crate) code: Option<OpenCode>,
    /// The page's address and the link's token are printed together. The server that started last writes where its page is.
    page: Option<String>,
    /// The highest number that a link has had, so that no number is used again.
    last_number: u32,
}

/// Who gets in with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// Whoever has the link.
    Link,
    /// A device that was paired by a code. Nobody has seen its token.
    Device,
}

impl LinkKind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Device => "device",
        }
    }
}

/// A link that the owner has given to somebody. Times are in seconds since 1970.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenLink {
    /// The link's number, which is never used again.
    pub number: u32,
    pub name: String,
    pub kind: LinkKind,
    #[serde(with = "role_name")]
    pub role: Role,
    token: String,
    pub created_s: u64,
    /// When the link ends; none if it does not.
    pub expires_s: Option<u64>,
    /// How many sessions and memberships have begun with it.
    pub uses: u64,
    /// When the last of them began.
    pub used_s: Option<u64>,
}

/// The token is a secret.
impl std::fmt::Debug for GivenLink {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "link {} \"{}\" of a {}", self.number, self.name, self.role.name())
    }
}

impl GivenLink {
    /// Returns the token; none if somebody has damaged it in the file.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        self.token.parse().ok()
    }

    #[must_use]
    pub fn has_expired(&self, now_s: u64) -> bool {
        self.expires_s.is_some_and(|expires| expires <= now_s)
    }

    /// Describes the link without its token, as docs/json.md does.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let Self { number, name, kind, role, created_s, expires_s, uses, used_s, .. } = self;
        serde_json::json!({
            "number": number, "name": name, "kind": kind.name(), "role": role.name(), "created_s": created_s,
            "expires_s": expires_s, "uses": uses, "used_s": used_s,
        })
    }
}

/// A code with which one device can be paired.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct OpenCode {
    digits: String,
    #[serde(with = "role_name")]
    role: Role,
    /// The device's name; none takes the one that the device gives.
    name: Option<String>,
    device_expires_s: Option<u64>,
    /// When the code is void.
    expires_s: u64,
    failures: u32,
    /// The number of the link that was made with it.
    paired: Option<u32>,
}

impl OpenCode {
    /// Returns the code if it can still be used.
    pub(crate) fn usable(&self, now_s: u64) -> Option<Code> {
        let is_usable = self.paired.is_none() && self.failures < MAX_CODE_FAILURES && now_s < self.expires_s;
        self.digits.parse().ok().filter(|_| is_usable)
    }
}

/// What a code has come to.
#[derive(Clone, Debug)]
pub enum CodeState {
    /// It can still be used.
    Open,
    Paired(GivenLink),
    /// It expired, was withdrawn, or was replaced by another one.
    Void,
    TooManyFailures,
}

/// A link to be made.
#[derive(Clone, Debug)]
pub struct NewLink {
    pub name: String,
    pub kind: LinkKind,
    pub role: Role,
    pub expires_s: Option<u64>,
}

/// Why a link cannot be made or found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkFileError {
    #[error(
        "there are {MAX_LINKS} links already, which is the limit: revoke some with `nearlight links revoke NUMBER`"
    )]
    Full,
    #[error("no link has the number or name {0}: `nearlight links` lists them")]
    Unknown(String),
    #[error("{count} links have the name {name}: give a number; `nearlight links` lists them")]
    Ambiguous { name: String, count: usize },
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl LinkFile {
    /// Opens the files in `folder`, or creates all of them. Only their owner can read them.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let links = StateFile::open(folder, FILE_NAME, "Links and devices that were added are refused")?;
        Ok(Self { links, history: HistoryFile::open(folder)? })
    }

    /// Returns the history of access, the oldest record first.
    ///
    /// # Errors
    /// If its file cannot be read.
    pub fn history(&self) -> io::Result<Vec<AccessRecord>> {
        self.history.read()
    }

    /// Appends records to the history.
    pub(crate) fn record(&self, records: &[AccessRecord]) {
        self.history.append(records);
    }

    fn record_now(&self, event: AccessEvent) {
        self.record(&[AccessRecord { time_s: unix_time_s(), event }]);
    }

    /// Returns all links, the oldest first.
    #[must_use]
    pub fn links(&self) -> Vec<GivenLink> {
        self.links.content().links
    }

    /// Returns the address of the page of the server that started last, without a token.
    #[must_use]
    pub fn page(&self) -> Option<String> {
        self.links.content().page
    }

    /// Saves the address of the server's page.
    pub fn set_page(&self, address: String) {
        self.links.change(|saved| saved.page = Some(address));
    }

    /// Makes a link with a new token. Links that have expired give way if there are too many.
    ///
    /// # Errors
    /// If there are too many links, or no random token can be made.
    pub fn add(&self, link: &NewLink) -> Result<GivenLink, LinkFileError> {
        let token = Token::generate()?.to_string();
        let added = self.links.change(|saved| saved.add(link, token, unix_time_s()))?;
        self.record_now(AccessEvent::added(&added));
        Ok(added)
    }

    /// Removes the link with this number or name. Its sessions end within a second.
    ///
    /// # Errors
    /// If no link, or more than one, fits.
    pub fn revoke(&self, number_or_name: &str) -> Result<GivenLink, LinkFileError> {
        self.revoke_found(|saved| {
            let fits: Vec<usize> = saved.fitting(number_or_name).collect();
            match fits[..] {
                [index] => Ok(index),
                [] => Err(LinkFileError::Unknown(number_or_name.into())),
                _ => Err(LinkFileError::Ambiguous { name: number_or_name.into(), count: fits.len() }),
            }
        })
    }

    /// Removes the link with this number.
    pub(crate) fn revoke_number(&self, number: u32) -> Result<GivenLink, LinkFileError> {
        self.revoke_found(|saved| {
            let index = saved.links.iter().position(|link| link.number == number);
            index.ok_or_else(|| LinkFileError::Unknown(number.to_string()))
        })
    }

    fn revoke_found(
        &self,
        find: impl FnOnce(&SavedAccess) -> Result<usize, LinkFileError>,
    ) -> Result<GivenLink, LinkFileError> {
        let revoked = self.links.change(|saved| find(saved).map(|index| saved.links.remove(index)))?;
        self.record_now(AccessEvent::revoked(&revoked));
        Ok(revoked)
    }

    /// Makes a code with which one device can be paired until `expires_s`. It replaces the one before.
    ///
    /// # Errors
    /// If no random number can be had.
    pub fn open_code(
        &self,
        role: Role,
        name: Option<String>,
        expires_s: u64,
        device_expires_s: Option<u64>,
    ) -> Result<Code, LinkFileError> {
        let random = nearlight_net::nonce()?;
        let code = Code::from_random(u64::from_be_bytes(*random.0.first_chunk().expect("32 bytes")));
        let digits = code.to_string();
        let open = OpenCode { digits, role, name, device_expires_s, expires_s, failures: 0, paired: None };
        self.links.change(|saved| saved.code = Some(open));
        Ok(code)
    }

    /// Returns what has become of a code.
    #[must_use]
    pub fn code_state(&self, code: &Code) -> CodeState {
        let saved = self.links.content();
        let Some(open) = saved.code.filter(|open| open.digits == code.to_string()) else { return CodeState::Void };
        let device = open.paired.and_then(|number| saved.links.into_iter().find(|link| link.number == number));
        match (device, open.usable(unix_time_s())) {
            (Some(device), _) => CodeState::Paired(device),
            (None, Some(_)) => CodeState::Open,
            (None, None) if open.failures >= MAX_CODE_FAILURES => CodeState::TooManyFailures,
            (None, None) => CodeState::Void,
        }
    }

    /// Withdraws a code that nobody has used.
    pub fn close_code(&self, code: &Code) {
        self.links.change(|saved| {
            saved.code.take_if(|open| open.digits == code.to_string() && open.paired.is_none());
        });
    }

    /// Counts a wrong code. Returns how many more may be tried.
    pub(crate) fn on_wrong_code(&self, code: &Code) -> u32 {
        let tries_left = self.links.change(|saved| {
            let Some(open) = saved.code.as_mut().filter(|open| open.digits == code.to_string()) else { return 0 };
            open.failures = open.failures.saturating_add(1);
            MAX_CODE_FAILURES.saturating_sub(open.failures)
        });
        self.record_now(AccessEvent::WrongCode { tries_left });
        tries_left
    }

    /// Makes the link of a device that has proved that it knows the code, which is void from then on. None if it was void already.
    pub(crate) fn pair(&self, code: &Code, token: String, device: &str) -> Option<Result<GivenLink, LinkFileError>> {
        let added = self.links.change(|saved| {
            let now_s = unix_time_s();
            let open = saved.code.as_ref().filter(|open| open.usable(now_s).as_ref() == Some(code))?.clone();
            let name = open.name.unwrap_or_else(|| device.into());
            let link = NewLink { name, kind: LinkKind::Device, role: open.role, expires_s: open.device_expires_s };
            let added = saved.add(&link, token, now_s);
            if let (Ok(added), Some(open)) = (&added, &mut saved.code) {
                open.paired = Some(added.number);
            }
            Some(added)
        });
        if let Some(Ok(added)) = &added {
            self.record_now(AccessEvent::added(added));
        }
        added
    }

    /// Counts the use of links, by their numbers.
    pub(crate) fn on_used(&self, uses: impl IntoIterator<Item = (u32, u64)>) {
        self.links.change(|saved| {
            for (number, count) in uses {
                if let Some(link) = saved.links.iter_mut().find(|link| link.number == number) {
                    link.uses += count;
                    link.used_s = Some(unix_time_s());
                }
            }
        });
    }

    /// Returns a value that is different after each change of the file.
    pub(crate) fn version(&self) -> Option<(SystemTime, u64)> {
        self.links.version()
    }

    pub(crate) fn content(&self) -> SavedAccess {
        self.links.content()
    }
}

impl SavedAccess {
    fn add(&mut self, link: &NewLink, token: String, now_s: u64) -> Result<GivenLink, LinkFileError> {
        if self.links.len() >= MAX_LINKS {
            self.links.retain(|link| !link.has_expired(now_s));
        }
        if self.links.len() >= MAX_LINKS {
            return Err(LinkFileError::Full);
        }
        self.last_number = self.last_number.saturating_add(1);
        let number = self.last_number;
        let mut name = visible_name(&link.name);
        name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
        if name.is_empty() {
            name = format!("{} {number}", link.kind.name());
        }
        let NewLink { kind, role, expires_s, .. } = *link;
        let added = GivenLink { number, name, kind, role, token, created_s: now_s, expires_s, uses: 0, used_s: None };
        self.links.push(added.clone());
        Ok(added)
    }

    /// Returns the positions of the links with this number, or else with this name.
    fn fitting(&self, number_or_name: &str) -> impl Iterator<Item = usize> {
        let number: Option<u32> = number_or_name.parse().ok();
        let has_number = self.links.iter().any(|link| Some(link.number) == number);
        let fits = move |link: &GivenLink| {
            if has_number { Some(link.number) == number } else { link.name == number_or_name }
        };
        self.links.iter().enumerate().filter(move |(_, link)| fits(link)).map(|(index, _)| index)
    }
}

/// Returns the seconds since 1970 by the system's clock.
#[must_use]
pub fn unix_time_s() -> u64 {
    wall_clock().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Writes roles by their names.
pub(crate) mod role_name {
    use nearlight_rooms::Role;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    pub(crate) fn serialize<S: Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(role.name())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Role, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> (LinkFile, std::path::PathBuf) {
        let folder = std::env::temp_dir().join(format!("nearlight-links-{name}-{}", std::process::id()));
        (LinkFile::open(&folder).expect("a file"), folder)
    }

    fn link(name: &str) -> NewLink {
        NewLink { name: name.into(), kind: LinkKind::Link, role: Role::Guest, expires_s: None }
    }

    #[test]
    fn a_link_is_found_by_its_number_or_its_name_and_a_number_is_never_used_again() {
        let (file, folder) = file("numbers");
        for name in ["anna", "ben", "ben", "2"] {
            file.add(&link(name)).expect("a link");
        }
        assert_eq!(file.revoke("2").expect("the number").name, "ben");
        assert_eq!(file.revoke("2").expect("the name").number, 4);
        assert_eq!(file.revoke("2"), Err(LinkFileError::Unknown("2".into())));
        file.add(&link("ben")).expect("a link");
        assert_eq!(file.revoke("ben"), Err(LinkFileError::Ambiguous { name: "ben".into(), count: 2 }));
        let again = LinkFile::open(&folder).expect("a file");
        assert_eq!(again.links().iter().map(|link| link.number).collect::<Vec<_>>(), [1, 3, 5]);
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn names_are_visible_and_short_and_links_are_bounded() {
        let (file, folder) = file("bounds");
        assert_eq!(file.add(&link("  a\u{202e}b  c ")).expect("a link").name, "ab c");
        assert_eq!(file.add(&link("\u{200b}")).expect("a link").name, "link 2");
        assert_eq!(file.add(&link(&"é".repeat(40))).expect("a link").name.len(), MAX_NAME_BYTES);
        let past = NewLink { expires_s: Some(1), ..link("past") };
        file.add(&past).expect("a link");
        for _ in 4..MAX_LINKS {
            file.add(&link("more")).expect("a link");
        }
        file.add(&link("takes the place of an expired one")).expect("a link");
        assert_eq!(file.add(&link("one too many")).err(), Some(LinkFileError::Full));
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_code_pairs_one_device_and_is_void_after_five_wrong_tries() {
        let (file, folder) = file("codes");
        let token = || Token::generate().expect("a token").to_string();
        let later = unix_time_s() + 1_000;
        let code = file.open_code(Role::Spectator, None, later, None).expect("a code");
        for left in (0..MAX_CODE_FAILURES).rev() {
            assert!(matches!(file.code_state(&code), CodeState::Open));
            assert_eq!(file.on_wrong_code(&code), left);
        }
        assert!(matches!(file.code_state(&code), CodeState::TooManyFailures));
        assert!(file.pair(&code, token(), "headset").is_none());

        let code = file.open_code(Role::Spectator, None, later, Some(7)).expect("a code");
        let device = file.pair(&code, token(), "headset").expect("usable").expect("a link");
        assert_eq!((device.kind, device.role, device.expires_s), (LinkKind::Device, Role::Spectator, Some(7)));
        assert!(file.pair(&code, token(), "another").is_none(), "a code is for one device");
        assert!(matches!(file.code_state(&code), CodeState::Paired(paired) if paired.number == device.number));

        let late = file.open_code(Role::Guest, None, unix_time_s(), None).expect("a code");
        assert!(file.pair(&late, token(), "late").is_none());
        let code = file.open_code(Role::Guest, Some("mine".into()), later, None).expect("a code");
        file.close_code(&code);
        assert!(matches!(file.code_state(&code), CodeState::Void));
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
