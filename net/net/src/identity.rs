//! The server's identity: its certificate and key.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};

use crate::NetError;
use crate::sockets::local_for;
use crate::trust::{CertificateHash, provider};

/// Validity of self-signed certificates before and after now. Certificates that browsers accept by hash live at most 14 days (W3C
/// WebTransport, `serverCertificateHashes`). 13 days allow for clock differences; the first of them lies in the past for the same reason.
const VALID_BEFORE: Duration = Duration::from_hours(24);
const VALID_AFTER: Duration = Duration::from_hours(12 * 24);
/// Age at which a self-signed certificate is renewed: two days remain for clients with links that name it.
const RENEWAL_AGE: Duration = Duration::from_hours(10 * 24);
/// Validity of the page's self-signed certificates. With the time before now it is at most 398 days, the limit of Apple's browsers
/// (support.apple.com/102028). Sessions have a certificate of their own, so that people who have accepted the page's certificate in a
/// browser's warning do not have to do so again every ten days.
const PAGE_VALID_AFTER: Duration = Duration::from_hours(396 * 24);
/// Age at which the page's certificate is renewed: a month remains for machines that are seldom switched on.
const PAGE_RENEWAL_AGE: Duration = Duration::from_hours(365 * 24);
/// How far the calendar may go back before a certificate is renewed. Half of what lies before now is left to clients whose clocks are late.
const MAX_SET_BACK: Duration = Duration::from_hours(12);

/// Global addresses reserved for documentation (RFC 5737, RFC 3849), used to query the route to the Internet.
const DOCUMENTATION_ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// The certificates of a server, with their private keys.
pub struct Identity {
    /// The certificate of sessions over QUIC. An owner's certificate is that of the page too.
    session: KeyedCertificate,
    /// The page's own certificate; `None` if it is that of sessions.
    page: Option<KeyedCertificate>,
}

/// A certificate chain with its private key.
struct KeyedCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// When it was made; `None` for a certificate from files.
    made_at: Option<SystemTime>,
}

/// The self-signed certificates with their keys, in the form in which a server keeps them between runs. They are secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedCertificate {
    /// The names and addresses that they have besides the machine's own.
    hosts: Vec<String>,
    #[serde(flatten)]
    session: SavedKey,
    page: Option<SavedKey>,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedKey {
    /// When it was made, in seconds since 1970.
    made_at_s: u64,
    /// The certificate (X.509, DER) in Base64.
    certificate: String,
    /// The key (PKCS #8, DER) in Base64.
    key: String,
}

impl SavedCertificate {
    /// Returns the names and addresses that the certificates have besides the machine's own.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns whether one of the certificates is too old, or its dates are those of a clock that was wrong when it was made. The calendar decides:
    /// it goes on while the machine sleeps, and it may be set.
    #[must_use]
    pub fn is_renewal_due(&self) -> bool {
        self.is_due_at(wall_clock())
    }

    fn is_due_at(&self, now: SystemTime) -> bool {
        self.session.is_due_at(now, RENEWAL_AGE)
            || self.page.as_ref().is_none_or(|page| page.is_due_at(now, PAGE_RENEWAL_AGE))
    }
}

impl SavedKey {
    /// Returns when it was made; `None` if that is no time.
    fn made_at(&self) -> Option<SystemTime> {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.made_at_s))
    }

    fn is_due_at(&self, now: SystemTime, renewal_age: Duration) -> bool {
        self.made_at().is_none_or(|made_at| match now.duration_since(made_at) {
            Ok(age) => age >= renewal_age,
            Err(set_back) => set_back.duration() >= MAX_SET_BACK,
        })
    }
}

impl KeyedCertificate {
    /// Makes a self-signed certificate (ECDSA P-256) for these names and addresses, valid for `valid_after` from now.
    fn self_signed(names: &BTreeSet<String>, valid_after: Duration) -> Result<Self, NetError> {
        let failed = |error: rcgen::Error| NetError::CertificateNotMade(error.to_string());
        let mut params = CertificateParams::new(names.iter().cloned().collect::<Vec<_>>()).map_err(failed)?;
        let now = wall_clock();
        params.not_before = (now - VALID_BEFORE).into();
        params.not_after = (now + valid_after).into();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "Nearlight");
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Self { chain: vec![certificate.der().clone()], key, made_at: Some(now) })
    }

    fn to_saved(&self) -> Option<SavedKey> {
        Some(SavedKey {
            made_at_s: self.made_at?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs(),
            certificate: STANDARD.encode(&self.chain[0]),
            key: STANDARD.encode(self.key.secret_der()),
        })
    }

    /// Restores a saved certificate. None if it is due for renewal or damaged.
    fn from_saved(saved: &SavedKey, renewal_age: Duration) -> Option<Self> {
        if saved.is_due_at(wall_clock(), renewal_age) {
            return None;
        }
        let chain = vec![CertificateDer::from(STANDARD.decode(&saved.certificate).ok()?)];
        let key = PrivateKeyDer::Pkcs8(STANDARD.decode(&saved.key).ok()?.into());
        let restored = Self { chain, key, made_at: saved.made_at() };
        restored.tls(&[b"http/1.1"]).ok()?;
        Some(restored)
    }

    /// Returns the TLS settings of a server that offers the application protocols `alpn`, best first.
    fn tls(&self, alpn: &[&[u8]]) -> Result<ServerConfig, NetError> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring's provider speaks TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| NetError::CertificateRefused(error.to_string()))?;
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }
}

impl Identity {
    /// Makes self-signed certificates for this machine's own names and addresses and the further `hosts`, which may be names or addresses: one for
    /// sessions, valid for 12 more days, and one for the page, valid for a year.
    pub fn self_signed(hosts: &[String]) -> Result<Self, NetError> {
        Self::made_for(hosts, None, None)
    }

    /// Returns the saved certificates, as far as they were made for these `hosts` and are not due for renewal or damaged. New ones take the place of
    /// the others.
    pub fn from_saved(saved: &SavedCertificate, hosts: &[String]) -> Result<Self, NetError> {
        if saved.hosts != hosts {
            return Self::self_signed(hosts);
        }
        let session = KeyedCertificate::from_saved(&saved.session, RENEWAL_AGE);
        let page = saved.page.as_ref().and_then(|page| KeyedCertificate::from_saved(page, PAGE_RENEWAL_AGE));
        Self::made_for(hosts, session, page)
    }

    fn made_for(
        hosts: &[String],
        session: Option<KeyedCertificate>,
        page: Option<KeyedCertificate>,
    ) -> Result<Self, NetError> {
        let mut names = machine_names();
        names.extend(hosts.iter().cloned());
        let made = |given: Option<_>, valid| given.map_or_else(|| KeyedCertificate::self_signed(&names, valid), Ok);
        Ok(Self { session: made(session, VALID_AFTER)?, page: Some(made(page, PAGE_VALID_AFTER)?) })
    }

    /// Returns the self-signed certificates, with the names that [`Identity::self_signed`] was given, for a later run of the server.
    #[must_use]
    pub fn to_saved(&self, hosts: &[String]) -> Option<SavedCertificate> {
        let page = self.page.as_ref()?.to_saved()?;
        Some(SavedCertificate { hosts: hosts.to_vec(), session: self.session.to_saved()?, page: Some(page) })
    }

    /// Reads a certificate chain and its key from PEM files.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, NetError> {
        let refused =
            |what, path: &Path, reason: String| Err(NetError::CertificateFile { what, path: path.to_owned(), reason });
        let chain = match CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
            Ok(chain) if chain.is_empty() => {
                return refused("the certificate", certificate, "it contains no certificate".into());
            }
            Ok(chain) => chain,
            Err(error) => return refused("the certificate", certificate, error.to_string()),
        };
        let key = match PrivateKeyDer::from_pem_file(key) {
            Ok(key) => key,
            Err(error) => return refused("the private key", key, error.to_string()),
        };
        let session = KeyedCertificate { chain, key, made_at: None };
        session.tls(&[b"http/1.1"])?;
        Ok(Self { session, page: None })
    }

    /// The hash of sessions' certificate, which clients pin. Browsers accept it only for a self-signed identity: see [`Identity::is_self_signed`].
    #[must_use]
    pub fn certificate_sha256(&self) -> CertificateHash {
        CertificateHash::of(&self.session.chain[0])
    }

    /// The hash of the page's certificate.
    #[must_use]
    pub fn page_certificate_sha256(&self) -> CertificateHash {
        CertificateHash::of(&self.page.as_ref().unwrap_or(&self.session).chain[0])
    }

    /// The names in the owner's own certificate, without wildcards. Empty for a self-signed one, which is pinned.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.certificate_names().into_iter().filter(|name| !name.contains('*')).collect()
    }

    /// The names in the owner's own certificate, including wildcards, whose first label is `*`.
    #[must_use]
    pub fn certificate_names(&self) -> Vec<String> {
        let own = (!self.is_self_signed()).then_some(&self.session.chain[0]);
        let certificate = own.and_then(|certificate| webpki::EndEntityCert::try_from(certificate).ok());
        certificate.iter().flat_map(|certificate| certificate.valid_dns_names()).map(str::to_owned).collect()
    }

    /// Whether clients must pin the certificate because no authority vouches for it. Such a certificate lives 12 days: a
    /// server that runs longer replaces it with [`crate::Listener::set_identity`].
    #[must_use]
    pub const fn is_self_signed(&self) -> bool {
        self.page.is_some()
    }

    /// Returns the TLS settings of the page's server.
    pub(crate) fn page_tls(&self) -> Result<ServerConfig, NetError> {
        self.page.as_ref().unwrap_or(&self.session).tls(&[b"h2", b"http/1.1"])
    }

    /// Returns the QUIC settings of a WebTransport server.
    pub(crate) fn quic(&self) -> Result<quinn::ServerConfig, NetError> {
        let tls = self.session.tls(&[web_transport_quinn::ALPN.as_bytes()])?;
        let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(tls)
            .map_err(|error| NetError::CertificateRefused(error.to_string()))?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(crate::transport_config()));
        config.migration(true);
        Ok(config)
    }
}

/// The names and addresses that requests to this machine may use.
#[must_use]
pub fn machine_names() -> BTreeSet<String> {
    let mut names = BTreeSet::from(["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()]);
    if let Ok(host) = gethostname::gethostname().into_string()
        && !host.is_empty()
        && host.is_ascii()
    {
        // The name in multicast DNS (RFC 6762), which needs no name server.
        names.extend((!host.contains('.')).then(|| format!("{host}.local")));
        names.insert(host);
    }
    names.extend(own_addresses().iter().map(ToString::to_string));
    names
}

/// This machine's addresses that others may reach. First come those that it would use itself as source towards the Internet, because
/// addresses of virtual machines and containers are seldom reachable from elsewhere. The others follow in the platform's order.
pub(crate) fn own_addresses() -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let reachable = interfaces.iter().filter(|interface| !interface.is_loopback() && !interface.is_link_local());
    let mut addresses: Vec<IpAddr> = reachable.map(if_addrs::Interface::ip).collect();
    let usual = DOCUMENTATION_ADDRESSES.map(source_towards);
    addresses.sort_by_key(|address| !usual.contains(&Some(*address)));
    addresses
}

/// The source address that the routing table selects for datagrams to `remote`. Connecting a UDP socket sends nothing.
fn source_towards(remote: IpAddr) -> Option<IpAddr> {
    let remote = SocketAddr::new(remote, 9);
    let socket = UdpSocket::bind(local_for(remote)).ok()?;
    socket.connect(remote).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

/// Returns the time of day, for what is dated by the calendar: certificates, and links that expire.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the calendar is read here alone")]
pub fn wall_clock() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_way_out_is_named_first() {
        assert_eq!(source_towards(Ipv4Addr::LOCALHOST.into()), Some(Ipv4Addr::LOCALHOST.into()));
        let addresses = own_addresses();
        let usual = DOCUMENTATION_ADDRESSES.map(source_towards);
        let others = addresses.iter().skip_while(|address| usual.contains(&Some(**address)));
        assert!(others.clone().all(|address| !usual.contains(&Some(*address))), "{addresses:?} {usual:?}");
    }

    #[test]
    fn every_self_signed_certificate_is_its_own() {
        let one = Identity::self_signed(&["example.test".into(), "192.0.2.1".into()]).unwrap();
        let other = Identity::self_signed(&[]).unwrap();
        assert!(one.is_self_signed());
        assert_ne!(one.certificate_sha256(), other.certificate_sha256());
        assert_ne!(one.certificate_sha256(), one.page_certificate_sha256());
        assert!(VALID_BEFORE + VALID_AFTER <= Duration::from_hours(14 * 24));
        assert!(VALID_BEFORE + PAGE_VALID_AFTER <= Duration::from_hours(398 * 24));
    }

    #[test]
    fn a_certificate_is_renewed_by_the_calendar_also_after_sleep_and_after_the_clock_was_set() {
        let saved = Identity::self_signed(&[]).unwrap().to_saved(&[]).expect("self-signed");
        let hours = Duration::from_hours;
        assert!(!saved.is_renewal_due());
        let session_made_at = saved.session.made_at().expect("a time");
        for (now, due) in [
            (session_made_at + hours(10 * 24 - 1), false),
            // A machine that slept for weeks, and one whose clock said 1970 when it started.
            (session_made_at + hours(21 * 24), true),
            (session_made_at + hours(50 * 365 * 24), true),
            (session_made_at - hours(11), false),
            (session_made_at - hours(13), true),
        ] {
            assert_eq!(saved.is_due_at(now), due, "{:?}", now.duration_since(session_made_at));
        }
        let mut old_page = saved;
        old_page.page.as_mut().expect("self-signed").made_at_s -= hours(366 * 24).as_secs();
        assert!(old_page.is_due_at(session_made_at));
        // Whenever no renewal is due, clients whose clocks are up to twelve hours off accept the certificate.
        assert!(RENEWAL_AGE + hours(12) <= VALID_AFTER && MAX_SET_BACK + hours(12) <= VALID_BEFORE);
    }

    #[test]
    fn saved_certificates_are_restored_until_they_are_due_or_other_names_are_wanted() {
        let hosts = ["example.test".to_owned()];
        let made = Identity::self_signed(&hosts).unwrap();
        let saved = made.to_saved(&hosts).expect("self-signed");
        let text = serde_json::to_string(&saved).unwrap();
        let restored = Identity::from_saved(&serde_json::from_str(&text).unwrap(), &hosts).unwrap();
        let hashes = |identity: &Identity| [identity.certificate_sha256(), identity.page_certificate_sha256()];
        assert_eq!(hashes(&restored), hashes(&made));
        assert!(restored.is_self_signed());
        let changed = |change: &dyn Fn(&mut SavedCertificate)| {
            let mut saved = saved.clone();
            change(&mut saved);
            hashes(&Identity::from_saved(&saved, &hosts).unwrap())
        };
        let changes: [&dyn Fn(&mut SavedKey); 5] = [
            &|saved| saved.made_at_s -= 400 * 86_400,
            &|saved| saved.made_at_s = u64::MAX,
            &|saved| saved.certificate.truncate(40),
            &|saved| saved.key = "AAAA".into(),
            &|saved| saved.key.push('!'),
        ];
        for change in changes {
            let [session, page] = changed(&|saved| change(&mut saved.session));
            assert!(session != made.certificate_sha256() && page == made.page_certificate_sha256());
            let [session, page] = changed(&|saved| change(saved.page.as_mut().expect("self-signed")));
            assert!(session == made.certificate_sha256() && page != made.page_certificate_sha256());
        }
        let [session, page] = changed(&|saved| saved.session.made_at_s -= RENEWAL_AGE.as_secs());
        assert!(session != made.certificate_sha256() && page == made.page_certificate_sha256(), "ten days later");
        let [session, page] = changed(&|saved| saved.page = None);
        assert!(session == made.certificate_sha256() && page != made.page_certificate_sha256());
        let [session, page] = hashes(&Identity::from_saved(&saved, &[]).unwrap());
        assert!(session != made.certificate_sha256() && page != made.page_certificate_sha256(), "other names");
    }

    #[test]
    fn bad_files_are_named_with_the_reason() {
        let folder = std::env::temp_dir().join(format!("nearlight-identity-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let made = |host: &str| rcgen::generate_simple_self_signed(vec![host.to_owned()]).unwrap();
        let (one, other) = (made("one.test"), made("other.test"));
        let certificate = write("one.pem", &one.cert.pem());
        let key = write("one.key", &one.signing_key.serialize_pem());
        let other_key = write("other.key", &other.signing_key.serialize_pem());
        let empty = write("empty.pem", "");
        let missing = folder.join("missing.pem");

        let read = Identity::from_files(&certificate, &key).unwrap();
        assert_eq!(read.certificate_sha256(), CertificateHash::of(one.cert.der()));
        assert!(!read.is_self_signed());
        assert_eq!(read.names(), ["one.test"]);
        assert!(Identity::self_signed(&[]).unwrap().names().is_empty());
        let cases = [
            (&missing, &key, "missing.pem"),
            (&empty, &key, "no certificate"),
            (&key, &key, "no certificate"),
            (&certificate, &missing, "missing.pem"),
            (&certificate, &empty, "empty.pem"),
            (&certificate, &other_key, "belongs to it"),
        ];
        for (certificate, key, expected) in cases {
            let error = Identity::from_files(certificate, key).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
