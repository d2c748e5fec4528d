//! Keeps a program that has the network away from abstract sockets.
//!
//! An abstract socket has no file: whoever is in its network namespace can connect. On a desktop, X servers and other services have such sockets,
//! by which a program in a sandbox would see the owner's screen and type into the owner's terminals.

use std::ffi::{OsStr, OsString};

use super::launcher::can_scope_sockets;
use crate::supervisor::host::find_program;
use crate::supervisor::users::Identity;

/// What separates the program from the abstract sockets of other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NetworkFence {
    /// The program has no network, or no sandbox.
    #[default]
    Nothing,
    /// Landlock.
    Scope,
    /// A network namespace that `pasta` connects to the network.
    Pasta,
}

impl NetworkFence {
    pub(super) fn choose(network: bool) -> Result<Self, String> {
        Self::choose_from(network, can_scope_sockets(), find_program(OsStr::new("pasta")).is_some())
    }

    fn choose_from(network: bool, scopes: bool, pasta: bool) -> Result<Self, String> {
        match (scopes, network, pasta) {
            (true, ..) => Ok(Self::Scope),
            (false, false, _) => Ok(Self::Nothing),
            (false, true, true) => Ok(Self::Pasta),
            (false, true, false) => Err("a program with network would reach this machine's desktop by its abstract sockets: this kernel cannot \
                 prevent that by Landlock (Linux 6.12), and pasta is missing (Debian: apt install passt). --program-network off keeps the \
                 program away from the network, --program-sandbox off runs it without a sandbox"
                .into()),
        }
    }

    /// Returns the command that bubblewrap's is appended to.
    pub(super) fn words(self) -> Vec<OsString> {
        match self {
            Self::Nothing | Self::Scope => Vec::new(),
            Self::Pasta => ["pasta", "--quiet", "--config-net", "--"].map(OsString::from).to_vec(),
        }
    }

    /// Returns the user and group that the sandbox must show: in `pasta`'s user namespace the program's user is root.
    pub(super) fn shown_user(self, identity: Option<&Identity>) -> Option<(u32, u32)> {
        let own = || (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        (self == Self::Pasta).then(|| identity.map_or_else(own, |identity| (identity.user, identity.group)))
    }

    pub(super) const fn description(self, network: bool) -> &'static str {
        match (self, network) {
            (_, false) => "no network (--program-network on)",
            (Self::Pasta, true) => "with network (through pasta)",
            (Self::Nothing | Self::Scope, true) => "with network",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_network_is_kept_from_abstract_sockets_or_refused() {
        assert_eq!(NetworkFence::choose_from(true, true, false), Ok(NetworkFence::Scope));
        assert_eq!(NetworkFence::choose_from(true, false, true), Ok(NetworkFence::Pasta));
        let refusal = NetworkFence::choose_from(true, false, false).expect_err("nothing keeps it");
        assert!(refusal.contains("passt") && refusal.contains("--program-network off"), "{refusal}");
        assert_eq!(NetworkFence::choose_from(false, false, false), Ok(NetworkFence::Nothing));
    }
}
