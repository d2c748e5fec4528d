//! The links of the file as a running server sees them, and how often each is used.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime};

use nearlight_net::Token;
use nearlight_rooms::Role;
use nearlight_units::lock;
use tokio::time::MissedTickBehavior;

use crate::access::admission::Applicant;
use crate::access::history::{AccessEvent, AccessRecord, PlaceKind};
use crate::access::link_file::{GivenLink, LinkFile, OpenCode, SavedAccess, unix_time_s};
use crate::state::ServerState;

/// Interval at which the server looks for links that were added, revoked, or have expired.
const LINK_CHECK: Duration = Duration::from_secs(1);
/// Polls after which the file is read even if it seems unchanged: its time of change has the resolution of the kernel's timer.
const MAX_SKIPPED_POLLS: u32 = 10;
/// Most records that wait for the disk. Guess: more clients than a server admits in a second.
const MAX_PENDING_RECORDS: usize = 1_024;
/// Interval in seconds at which wrong tokens are recorded.
const WRONG_TOKEN_INTERVAL_S: u64 = 60;
/// Most addresses that are told apart in one record of wrong tokens.
const MAX_COUNTED_ADDRESSES: usize = 64;

/// What a client's token entitles it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) role: Role,
    /// The number of the link in the file; none for the owner's token and those derived from it.
    pub(crate) link: Option<u32>,
}

impl Credential {
    /// Returns the credential of a client that needs no link of its own.
    pub(crate) const fn of_role(role: Role) -> Self {
        Self { role, link: None }
    }
}

/// The links of the file.
#[derive(Default)]
pub(crate) struct LinkRegister {
    /// None if the server keeps nothing on disk: then there are no such links.
    file: Option<Arc<LinkFile>>,
    current: RwLock<Snapshot>,
    pending: Mutex<PendingChanges>,
}

/// What is not in the files yet.
#[derive(Default)]
struct PendingChanges {
    /// Uses by the link's number.
    uses: BTreeMap<u32, u64>,
    records: Vec<AccessRecord>,
    lost_records: u64,
    wrong_tokens: Option<WrongTokens>,
}

/// Wrong tokens of about a minute. They are one record, so that whoever guesses cannot fill the history.
struct WrongTokens {
    since_s: u64,
    attempts: u64,
    first: IpAddr,
    addresses: BTreeSet<IpAddr>,
}

impl PendingChanges {
    fn record(&mut self, time_s: u64, event: AccessEvent) {
        if self.records.len() < MAX_PENDING_RECORDS {
            self.records.push(AccessRecord { time_s, event });
        } else {
            self.lost_records += 1;
        }
    }

    /// Returns what is to be written now. Wrong tokens are written after a minute, or if it `is_last`.
    fn take(&mut self, now_s: u64, is_last: bool) -> (BTreeMap<u32, u64>, Vec<AccessRecord>) {
        let is_due = |wrong: &mut WrongTokens| is_last || now_s.saturating_sub(wrong.since_s) >= WRONG_TOKEN_INTERVAL_S;
        if let Some(WrongTokens { since_s, attempts, first: address, addresses }) = self.wrong_tokens.take_if(is_due) {
            self.record(since_s, AccessEvent::WrongToken { attempts, addresses: addresses.len(), address });
        }
        let mut records = std::mem::take(&mut self.records);
        match std::mem::take(&mut self.lost_records) {
            0 => {}
            lost => records.push(AccessRecord { time_s: now_s, event: AccessEvent::Lost { records: lost } }),
        }
        (std::mem::take(&mut self.uses), records)
    }
}

#[derive(Default)]
struct Snapshot {
    version: Option<(SystemTime, u64)>,
    skipped_polls: u32,
    links: Vec<(GivenLink, Token)>,
    code: Option<OpenCode>,
}

impl Snapshot {
    fn numbers(&self) -> BTreeSet<u32> {
        self.links.iter().map(|(link, _)| link.number).collect()
    }
}

impl LinkRegister {
    pub(crate) fn new(file: Option<LinkFile>) -> Self {
        let register = Self { file: file.map(Arc::new), ..Self::default() };
        register.poll();
        register
    }

    pub(crate) fn file(&self) -> Option<&Arc<LinkFile>> {
        self.file.as_ref()
    }

    fn current(&self) -> RwLockReadGuard<'_, Snapshot> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first link whose token fulfils the condition, among those that have not expired.
    /// A link that was added a moment ago is found too.
    pub(crate) fn find(&self, is_right: impl Fn(&Token) -> bool) -> Option<(Credential, Token)> {
        self.find_known(&is_right).or_else(|| self.add_new_links().then(|| self.find_known(&is_right)).flatten())
    }

    /// Reads links that [`Self::poll`] has not seen yet. Returns whether there may be some. Links that have ended are left to `poll`, which
    /// reports them. The file is read only if it has changed since the last poll, so clients with wrong tokens cannot cause work.
    fn add_new_links(&self) -> bool {
        let Some(file) = &self.file else { return false };
        if file.version() == self.current().version {
            return false;
        }
        let links = file.content().links;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let known = current.numbers();
        let now_s = unix_time_s();
        let new = links.into_iter().filter(|link| !known.contains(&link.number) && !link.has_expired(now_s));
        current.links.extend(new.filter_map(|link| link.token().map(|token| (link, token))));
        true
    }

    fn find_known(&self, is_right: &impl Fn(&Token) -> bool) -> Option<(Credential, Token)> {
        let current = self.current();
        let now_s = unix_time_s();
        let mut valid = current.links.iter().filter(|(link, _)| !link.has_expired(now_s));
        let (link, token) = valid.find(|(_, token)| is_right(token))?;
        Some((Credential { role: link.role, link: Some(link.number) }, token.clone()))
    }

    /// Returns the code with which a device can be paired now.
    pub(crate) fn code(&self) -> Option<nearlight_pairing::Code> {
        self.current().code.as_ref()?.usable(unix_time_s())
    }

    /// Returns the link's name for the log.
    pub(crate) fn name_of(&self, number: u32) -> Option<String> {
        self.current().links.iter().find(|(link, _)| link.number == number).map(|(link, _)| link.name.clone())
    }

    fn pending(&self) -> MutexGuard<'_, PendingChanges> {
        lock(&self.pending)
    }

    /// Counts a client that has got its place. Returns false if its link has ended since its token was checked: then [`Self::poll`] has not
    /// seen the place.
    #[must_use]
    pub(crate) fn on_place(&self, place: PlaceKind, applicant: Applicant) -> bool {
        let Applicant { address, credential: Credential { role, link }, .. } = applicant;
        let name = link.map(|link| self.name_of(link));
        let is_valid = name != Some(None);
        if self.file.is_some() && is_valid {
            let mut pending = self.pending();
            if let Some(link) = link {
                *pending.uses.entry(link).or_default() += 1;
            }
            let connected = AccessEvent::Connected { place, role, link, name: name.flatten(), address };
            pending.record(unix_time_s(), connected);
        }
        is_valid
    }

    /// Counts a wrong token.
    pub(crate) fn on_wrong_token(&self, address: IpAddr) {
        if self.file.is_none() {
            return;
        }
        let mut pending = self.pending();
        let wrong = pending.wrong_tokens.get_or_insert_with(|| WrongTokens {
            since_s: unix_time_s(),
            attempts: 0,
            first: address,
            addresses: BTreeSet::new(),
        });
        wrong.attempts += 1;
        if wrong.addresses.len() < MAX_COUNTED_ADDRESSES {
            wrong.addresses.insert(address);
        }
    }

    /// Writes to the files what has happened, before the server ends.
    pub(crate) fn close(&self) {
        self.write(true);
    }

    fn write(&self, is_last: bool) {
        let Some(file) = &self.file else { return };
        let (uses, records) = self.pending().take(unix_time_s(), is_last);
        if !uses.is_empty() {
            file.on_used(uses);
        }
        file.record(&records);
    }

    /// Writes to the files what has happened, and reads what others have changed. Returns the numbers of the links that have ended since the
    /// last call: those that were revoked, and those that have expired. It waits while another process has locked a file.
    pub(crate) fn poll(&self) -> Vec<u32> {
        let Some(file) = &self.file else { return Vec::new() };
        self.write(false);
        let changed = self.read_if_changed(file);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let before = current.numbers();
        match changed {
            Some(snapshot) => *current = snapshot,
            None => current.skipped_polls += 1,
        }
        // The file keeps expired links for those who list them. Here they have ended.
        let now_s = unix_time_s();
        for (link, _) in current.links.extract_if(.., |(link, _)| link.has_expired(now_s)) {
            // One that had expired before this server read the file is no news.
            if before.contains(&link.number) {
                self.pending().record(now_s, AccessEvent::expired(&link));
            }
        }
        before.difference(&current.numbers()).copied().collect()
    }

    /// Reads the file without holding the lock on the links, because sessions that begin need them.
    fn read_if_changed(&self, file: &LinkFile) -> Option<Snapshot> {
        let version = file.version();
        let is_unchanged = {
            let current = self.current();
            version.is_some() && version == current.version && current.skipped_polls + 1 < MAX_SKIPPED_POLLS
        };
        if is_unchanged {
            return None;
        }
        let SavedAccess { links, code, .. } = file.content();
        let links = links.into_iter().filter_map(|link| link.token().map(|token| (link, token))).collect();
        Some(Snapshot { version, skipped_polls: 0, links, code })
    }
}

/// Ends the clients of links that are revoked or expire, as long as the server runs.
pub(crate) async fn watch(state: Arc<ServerState>) {
    let mut check = tokio::time::interval(LINK_CHECK);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        check.tick().await;
        let links = Arc::clone(state.pairing.links());
        // It waits for other processes that use the file.
        let Ok(ended) = tokio::task::spawn_blocking(move || links.poll()).await else { return };
        if !ended.is_empty() {
            tracing::info!(?ended, "links have ended");
            state.admission.end_links(&ended);
            state.rooms.end_links(&ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::link_file::{LinkKind, NewLink};

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn a_running_server_learns_of_new_revoked_and_expired_links() {
        let folder = std::env::temp_dir().join(format!("nearlight-register-{}", std::process::id()));
        let register = LinkRegister::new(Some(LinkFile::open(&folder).expect("a file")));
        let elsewhere = LinkFile::open(&folder).expect("a file");
        let new =
            |name: &str, expires_s| NewLink { name: name.into(), kind: LinkKind::Link, role: Role::Guest, expires_s };
        let anna = elsewhere.add(&new("anna", None)).expect("a link");
        let past = elsewhere.add(&new("past", Some(unix_time_s()))).expect("a link");
        let find = |link: &GivenLink| {
            let token = link.token().expect("a token").to_string();
            register.find(|known| known.matches(&token)).map(|(credential, _)| credential)
        };
        let credential = find(&anna).expect("the link is known");
        assert_eq!(credential, Credential { role: Role::Guest, link: Some(anna.number) });
        assert_eq!(find(&past), None);
        assert!(register.poll().is_empty());
        assert_eq!(find(&anna), Some(credential));
        let applicant = Applicant::new(HERE, credential);
        assert!(register.on_place(PlaceKind::Session, applicant) && register.on_place(PlaceKind::Member, applicant));
        assert!(register.poll().is_empty());
        assert_eq!(elsewhere.links()[0].uses, 2);
        elsewhere.revoke("anna").expect("revoked");
        assert_eq!(register.poll(), [anna.number]);
        assert_eq!(find(&anna), None);
        assert!(!register.on_place(PlaceKind::Session, applicant), "a client whose token was checked just before");
        assert!(register.poll().is_empty());
        for last in 1..=3 {
            register.on_wrong_token([192, 0, 2, last].into());
            register.on_wrong_token(HERE);
        }
        assert!(register.poll().is_empty());
        register.close();
        let history = elsewhere.history().expect("a history");
        let sentences: Vec<String> = history.iter().map(|record| record.event.to_string()).collect();
        assert_eq!(
            sentences,
            [
                "link 1, anna, was made for a guest",
                "link 2, past, was made for a guest",
                "a guest connected from 192.0.2.1 with link 1, anna",
                "a guest joined the rooms from 192.0.2.1 with link 1, anna",
                "link 1, anna, was revoked",
                "6 wrong tokens from 192.0.2.1 and 2 other addresses",
            ]
        );
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_server_that_keeps_nothing_has_no_such_links() {
        let register = LinkRegister::new(None);
        assert!(register.poll().is_empty());
        assert!(register.find(|_| true).is_none() && register.code().is_none());
    }
}
