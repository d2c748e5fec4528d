//! Authentication by the pairing token: by a proof over WebTransport, by the token itself (`Authorization: Bearer`) over HTTP.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nearlight_net::{AttemptLimiter, AttemptPolicy, CertificateHash, Token};
use nearlight_rooms::Role;
use nearlight_units::{Span, Time, lock};
use nearlight_wire::{Binding, Bytes32, Role as End, TokenProof};

use crate::access::link_register::{Credential, LinkRegister};
use crate::access::links::token_for;

/// Checks the credentials of clients and limits the rate of failures.
pub(crate) struct Pairing {
    /// The token of each role.
    tokens: [(Role, Token); 3],
    /// The links that the owner has given out besides.
    links: Arc<LinkRegister>,
    failures: Mutex<AttemptLimiter>,
    /// Hashes of the certificates that browsers pin: the newest, then the previous one, with which a session may have been opened just
    /// before a renewal. None if an authority has signed the certificate.
    pinned: Option<RwLock<Vec<CertificateHash>>>,
}

/// The result of a correct proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VerifiedProof {
    /// What the client's token entitles it to.
    pub(crate) credential: Credential,
    /// The server's own proof for the client.
    pub(crate) proof: Bytes32,
}

/// The values to which a proof over this connection may be bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProofChannel {
    /// The TLS exporter; none over a WebSocket, whose TLS connection the session does not see.
    pub(crate) exporter: Option<Binding>,
    /// The nonce of this connection's challenge.
    pub(crate) nonce: Bytes32,
}

/// Why a client's credentials are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthError {
    WrongToken,
    /// The token is wrong, after many failures: the client must wait this long.
    TooManyFailures(Span),
}

impl Pairing {
    /// `owner`: the token from which those of all roles are made. `links`: what else opens the server. `pinned`: the certificate that
    /// browsers pin.
    pub(crate) fn new(owner: &Token, links: Arc<LinkRegister>, pinned: Option<CertificateHash>) -> Self {
        let failures = Mutex::new(AttemptLimiter::new(AttemptPolicy::default()));
        let tokens = Role::ALL.map(|role| (role, token_for(owner, role)));
        Self { tokens, links, failures, pinned: pinned.map(|hash| RwLock::new(vec![hash])) }
    }

    /// Returns the links that the owner has given out.
    pub(crate) const fn links(&self) -> &Arc<LinkRegister> {
        &self.links
    }

    /// Returns the name of the client's link for the log, if it has one.
    pub(crate) fn name_of(&self, credential: Credential) -> Option<String> {
        credential.link.and_then(|link| self.links.name_of(link))
    }

    /// Replaces the certificate that browsers pin.
    pub(crate) fn set_certificate(&self, hash: CertificateHash) {
        if let Some(pinned) = &self.pinned {
            let mut pinned = pinned.write().unwrap_or_else(PoisonError::into_inner);
            pinned.insert(0, hash);
            pinned.truncate(2);
        }
    }

    /// Returns what the token `offered` entitles to.
    pub(crate) fn check_bearer(&self, now: Time, from: IpAddr, offered: &str) -> Result<Credential, AuthError> {
        let found = self.find(|token| token.matches(offered));
        self.count_failure(now, from, found.map(|(credential, _)| credential))
    }

    /// Returns the token that fulfils the condition, with what it entitles to: one of a role, or else of a link.
    fn find(&self, is_right: impl Fn(&Token) -> bool) -> Option<(Credential, Token)> {
        let of_role = self.tokens.iter().find(|(_, token)| is_right(token));
        let of_role = of_role.map(|(role, token)| (Credential::of_role(*role), token.clone()));
        of_role.or_else(|| self.links.find(is_right))
    }

    /// Checks a client's proof. Returns what its token entitles to, and the server's own proof.
    pub(crate) fn check_proof(
        &self,
        now: Time,
        from: IpAddr,
        proof: Option<&TokenProof>,
        channel: &ProofChannel,
    ) -> Result<VerifiedProof, AuthError> {
        self.count_failure(now, from, proof.and_then(|proof| self.proven(proof, channel)))
    }

    fn proven(&self, proof: &TokenProof, channel: &ProofChannel) -> Option<VerifiedProof> {
        let server_nonce = channel.nonce;
        let (bindings, mac) = match *proof {
            TokenProof::Exporter { mac } => (channel.exporter.into_iter().collect(), mac),
            TokenProof::Certificate { nonce: client_nonce, mac } => {
                let bound = |hash: CertificateHash| {
                    let certificate = hash.bytes();
                    Binding::Certificate { server_nonce, client_nonce, certificate }
                };
                let pinned = self.pinned.as_ref()?.read().unwrap_or_else(PoisonError::into_inner);
                (pinned.iter().copied().map(bound).collect(), mac)
            }
            // A browser that should have pinned the certificate and did not may be talking to anyone.
            TokenProof::Nonces { .. } if self.pinned.is_some() => return None,
            TokenProof::Nonces { nonce: client_nonce, mac } => {
                (vec![Binding::Nonces { server_nonce, client_nonce }], mac)
            }
        };
        let mut found = bindings.iter().filter_map(|binding| {
            let (credential, token) = self.find(|token| token.verify(binding, End::Client, &mac))?;
            Some(VerifiedProof { credential, proof: token.prove(binding, End::Server) })
        });
        found.next()
    }

    /// Accepts correct credentials, and counts wrong ones against the rate limit of their address.
    ///
    /// Correct credentials are accepted whatever came from the same address before: neighbours behind it, or a malicious page in the
    /// owner's own browser, must not lock the owner out. So guesses are checked as fast as they arrive. A token's security is its length
    /// alone: a billion guesses a second for a billion years are 2^85 of 2^128.
    fn count_failure<T>(&self, now: Time, from: IpAddr, right: Option<T>) -> Result<T, AuthError> {
        right.ok_or_else(|| {
            self.links.on_wrong_token(from);
            let mut failures = lock(&self.failures);
            failures.on_failure(now, from).map_or(AuthError::WrongToken, AuthError::TooManyFailures)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const TOKEN: &str = "a-token-of-the-owner-s";

    fn pairing(pinned: Option<CertificateHash>) -> Pairing {
        Pairing::new(&TOKEN.parse().unwrap(), Arc::default(), pinned)
    }

    fn exporter(byte: u8) -> Binding {
        Binding::Exporter(Bytes32([byte; 32]))
    }

    fn channel(byte: u8) -> ProofChannel {
        ProofChannel { exporter: Some(exporter(byte)), nonce: Bytes32([byte; 32]) }
    }

    /// A browser's hello over this channel, for the certificate that it pins.
    fn browser(channel: &ProofChannel, pinned: Option<CertificateHash>) -> (TokenProof, Binding) {
        let (server_nonce, nonce) = (channel.nonce, Bytes32([9; 32]));
        let binding = match pinned {
            Some(hash) => {
                let certificate = hash.bytes();
                Binding::Certificate { server_nonce, client_nonce: nonce, certificate }
            }
            None => Binding::Nonces { server_nonce, client_nonce: nonce },
        };
        let mac = binding.prove(TOKEN, End::Client);
        let proof = match pinned {
            Some(_) => TokenProof::Certificate { nonce, mac },
            None => TokenProof::Nonces { nonce, mac },
        };
        (proof, binding)
    }

    #[test]
    fn a_hundred_wrong_tokens_a_second_never_lock_the_owner_out() {
        let pairing = pairing(None);
        let own = channel(1);
        let mac = exporter(1).prove(TOKEN, End::Client);
        let (right, wrong) = (TokenProof::Exporter { mac }, TokenProof::Exporter { mac: Bytes32([0; 32]) });
        let mut turned_away = 0;
        for n in 0..1_000 {
            let now = Time::from_millis(10 * n);
            let refused = pairing.check_bearer(now, OWNER, "not-the-right-token").unwrap_err();
            turned_away += u32::from(refused != AuthError::WrongToken);
            assert!(pairing.check_proof(now, OWNER, Some(&wrong), &own).is_err());
            assert!(pairing.check_proof(now, OWNER, None, &own).is_err());
            let host = Ok(Credential::of_role(Role::Host));
            assert_eq!(pairing.check_bearer(now, OWNER, TOKEN), host, "after {n} guesses");
            let welcome = pairing.check_proof(now, OWNER, Some(&right), &own).expect("the owner's own proof");
            assert!(exporter(1).verify(TOKEN, End::Server, &welcome.proof));
        }
        assert!(turned_away > 980, "{turned_away} of 1,000 guesses were told to wait");
    }

    #[test]
    fn a_token_stands_for_its_own_role_alone() {
        let pairing = pairing(None);
        let owner: Token = TOKEN.parse().expect("a token");
        let here = channel(1);
        for role in Role::ALL {
            let token = token_for(&owner, role).to_string();
            let credential = Credential::of_role(role);
            assert_eq!(pairing.check_bearer(Time::ZERO, OWNER, &token), Ok(credential));
            let proof = TokenProof::Exporter { mac: exporter(1).prove(&token, End::Client) };
            let proven = pairing.check_proof(Time::ZERO, OWNER, Some(&proof), &here).expect("its proof");
            assert_eq!(proven.credential, credential);
            // The client knows its own token, and so believes a proof made with it alone.
            assert!(exporter(1).verify(&token, End::Server, &proven.proof));
        }
        let of_another_owner = token_for(&Token::generate().expect("random bytes"), Role::Guest).to_string();
        assert!(pairing.check_bearer(Time::ZERO, OWNER, &of_another_owner).is_err());
    }

    #[test]
    fn what_was_proven_on_one_connection_opens_no_other() {
        let hash = CertificateHash::of(b"the server's");
        let pairing = pairing(Some(hash));
        let (here, elsewhere) = (channel(1), channel(2));
        let check =
            |proof: &TokenProof, channel: &ProofChannel| pairing.check_proof(Time::ZERO, OWNER, Some(proof), channel);
        let native = TokenProof::Exporter { mac: exporter(1).prove(TOKEN, End::Client) };
        let (page, binding) = browser(&here, Some(hash));
        assert!(check(&native, &here).is_ok() && check(&page, &here).is_ok());
        assert!(binding.verify(TOKEN, End::Server, &check(&page, &here).unwrap().proof));
        assert!(check(&native, &elsewhere).is_err() && check(&page, &elsewhere).is_err());
        // The server's own proof, sent back to it.
        let reflected = TokenProof::Exporter { mac: exporter(1).prove(TOKEN, End::Server) };
        assert!(check(&reflected, &here).is_err());
    }

    #[test]
    fn a_browser_s_proof_names_the_certificate_that_the_server_shows() {
        let (hash, stranger) = (CertificateHash::of(b"the server's"), CertificateHash::of(b"of who stands between"));
        let here = channel(1);
        let check = |pairing: &Pairing, pinned| {
            pairing.check_proof(Time::ZERO, OWNER, Some(&browser(&here, pinned).0), &here).is_ok()
        };
        let own = pairing(Some(hash));
        assert!(check(&own, Some(hash)));
        assert!(!check(&own, Some(stranger)), "a browser that accepted another certificate speaks through somebody");
        assert!(!check(&own, None), "a browser that pinned nothing may do so too");
        let vouched = pairing(None);
        assert!(check(&vouched, None));
        assert!(!check(&vouched, Some(stranger)));

        let (renewed, again) = (CertificateHash::of(b"renewed"), CertificateHash::of(b"and again"));
        own.set_certificate(renewed);
        assert!(check(&own, Some(renewed)) && check(&own, Some(hash)), "sessions that open meanwhile");
        own.set_certificate(again);
        assert!(check(&own, Some(again)) && !check(&own, Some(hash)));
    }
}
