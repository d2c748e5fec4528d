//! The links of the file as a running server sees them, and how often each is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime};

use nearlight_net::Token;
use nearlight_rooms::Role;
use tokio::time::MissedTickBehavior;

use crate::access::link_file::{GivenLink, LinkFile, OpenCode, SavedAccess, unix_time_s};
use crate::state::ServerState;

/// Interval at which the server looks for links that were added, revoked, or have expired.
const LINK_CHECK: Duration = Duration::from_secs(1);
/// Polls after which the file is read even if it seems unchanged: its time of change has the resolution of the kernel's timer.
const MAX_SKIPPED_POLLS: u32 = 10;

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
    /// Uses that are not in the file yet, by the link's number.
    uses: Mutex<BTreeMap<u32, u64>>,
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
    pub(crate) fn find(&self, is_right: impl Fn(&Token) -> bool) -> Option<(Credential, Token)> {
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

    /// Counts a session or membership that has got its place. Returns false if its link has ended since its token was checked: then
    /// [`Self::poll`] has not seen the place.
    #[must_use]
    pub(crate) fn on_used(&self, credential: Credential) -> bool {
        let Some(number) = credential.link else { return true };
        *self.uses.lock().unwrap_or_else(PoisonError::into_inner).entry(number).or_default() += 1;
        self.name_of(number).is_some()
    }

    /// Writes new uses to the file and reads what others have changed. Returns the numbers of the links that have ended since the last call:
    /// those that were revoked, and those that have expired. It waits while another process has locked the file.
    pub(crate) fn poll(&self) -> Vec<u32> {
        let Some(file) = &self.file else { return Vec::new() };
        let uses = std::mem::take(&mut *self.uses.lock().unwrap_or_else(PoisonError::into_inner));
        if !uses.is_empty() {
            file.on_used(uses);
        }
        let changed = self.read_if_changed(file);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let before = current.numbers();
        match changed {
            Some(snapshot) => *current = snapshot,
            None => current.skipped_polls += 1,
        }
        // The file keeps expired links for those who list them. Here they have ended.
        let now_s = unix_time_s();
        current.links.retain(|(link, _)| !link.has_expired(now_s));
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

    #[test]
    fn a_running_server_learns_of_new_revoked_and_expired_links() {
        let folder = std::env::temp_dir().join(format!("nearlight-register-{}", std::process::id()));
        let register = LinkRegister::new(Some(LinkFile::open(&folder).expect("a file")));
        let elsewhere = LinkFile::open(&folder).expect("a file");
        let new =
            |name: &str, expires_s| NewLink { name: name.into(), kind: LinkKind::Link, role: Role::Guest, expires_s };
        let anna = elsewhere.add(&new("anna", None)).expect("a link");
        let past = elsewhere.add(&new("past", Some(unix_time_s()))).expect("a link");
        assert!(register.poll().is_empty());
        let find = |link: &GivenLink| {
            let token = link.token().expect("a token").to_string();
            register.find(|known| known.matches(&token)).map(|(credential, _)| credential)
        };
        let credential = find(&anna).expect("the link is known");
        assert_eq!(credential, Credential { role: Role::Guest, link: Some(anna.number) });
        assert_eq!(find(&past), None);
        assert!(register.on_used(credential) && register.on_used(credential));
        assert!(register.poll().is_empty());
        assert_eq!(elsewhere.links()[0].uses, 2);
        elsewhere.revoke("anna").expect("revoked");
        assert_eq!(register.poll(), [anna.number]);
        assert_eq!(find(&anna), None);
        assert!(!register.on_used(credential), "a client whose token was checked just before");
        assert!(register.poll().is_empty());
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_server_that_keeps_nothing_has_no_such_links() {
        let register = LinkRegister::new(None);
        assert!(register.poll().is_empty());
        assert!(register.find(|_| true).is_none() && register.code().is_none());
    }
}
