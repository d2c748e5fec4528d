//! The exchanges by which devices are paired with a code.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};

use nearlight_net::{Token, TokenError, nonce, subscriber};
use nearlight_pairing::{Code, Exchange, Share, SharedKey};
use nearlight_units::{Span, Time, lock};
use nearlight_wire::Bytes32;

use crate::access::link_file::{GivenLink, LinkFileError};
use crate::access::link_register::LinkRegister;

/// Exchanges that may wait for the client's confirmation, in total and from one address. Guess: a few people try at once.
const MAX_EXCHANGES: usize = 32;
const MAX_EXCHANGES_PER_ADDRESS: usize = 4;
/// Time that a client has to confirm. The page does so at once.
const CONFIRMATION_LIMIT: Span = Span::from_secs(10);

/// Pairs devices.
#[derive(Default)]
pub(crate) struct CodePairing {
    exchanges: Mutex<BTreeMap<String, PendingExchange>>,
}

/// An exchange in which the server has sent its share.
struct PendingExchange {
    code: Code,
    key: SharedKey,
    device: String,
    address: IpAddr,
    since: Time,
}

/// The server's answer to a share.
#[derive(Clone, Debug)]
pub(crate) struct StartedExchange {
    pub(crate) name: String,
    pub(crate) share: Share,
}

/// A paired device.
#[derive(Clone, Debug)]
pub(crate) struct PairedDevice {
    pub(crate) link: GivenLink,
    /// The server's confirmation.
    pub(crate) confirmation: Bytes32,
}

/// Why a device is not paired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodePairingError {
    #[error("no code is open: run `nearlight devices pair` on the server's machine and type the code that it shows")]
    NoCode,
    #[error("the server keeps no devices, because it was started with --ephemeral or --port 0; open its link instead")]
    NoFile,
    #[error("the device's share is invalid; reload the page and try again")]
    Share,
    #[error("too many devices are being paired at once; try again in {} s", crate::state::seconds(*.0))]
    Busy(Span),
    #[error("the pairing took too long; try again")]
    Unknown,
    #[error("the code is wrong; {0} more may be tried")]
    WrongCode(u32),
    #[error("the code is wrong and now void, as too many were; run `nearlight devices pair` again")]
    Void,
    #[error(transparent)]
    Link(#[from] LinkFileError),
    #[error(transparent)]
    Randomness(#[from] TokenError),
}

impl CodePairing {
    fn exchanges(&self) -> MutexGuard<'_, BTreeMap<String, PendingExchange>> {
        lock(&self.exchanges)
    }

    /// Answers a device's share. `device` is what the device says about itself.
    pub(crate) fn start(
        &self,
        register: &LinkRegister,
        now: Time,
        from: IpAddr,
        share: &Share,
        device: &str,
    ) -> Result<StartedExchange, CodePairingError> {
        if register.file().is_none() {
            return Err(CodePairingError::NoFile);
        }
        let code = register.code().ok_or(CodePairingError::NoCode)?;
        let address = subscriber(from);
        let mut exchanges = self.exchanges();
        exchanges.retain(|_, pending| now.saturating_since(pending.since) < CONFIRMATION_LIMIT);
        let of_address = exchanges.values().filter(|pending| pending.address == address);
        let oldest = if of_address.clone().count() >= MAX_EXCHANGES_PER_ADDRESS {
            of_address.map(|pending| pending.since).min()
        } else if exchanges.len() >= MAX_EXCHANGES {
            exchanges.values().map(|pending| pending.since).min()
        } else {
            None
        };
        if let Some(oldest) = oldest {
            return Err(CodePairingError::Busy(CONFIRMATION_LIMIT - now.saturating_since(oldest)));
        }
        let (exchange, own_share) = Exchange::server(&code, nonce()?.0);
        let key = exchange.finish(share).map_err(|_| CodePairingError::Share)?;
        let name = Token::generate()?.to_string();
        let pending = PendingExchange { code, key, device: device.into(), address, since: now };
        exchanges.insert(name.clone(), pending);
        Ok(StartedExchange { name, share: own_share })
    }

    /// Checks a device's confirmation, and makes its link. Each exchange has one try, and the code has five in all. It waits while another
    /// process has locked the file.
    pub(crate) fn confirm(
        &self,
        register: &LinkRegister,
        now: Time,
        name: &str,
        confirmation: &Bytes32,
    ) -> Result<PairedDevice, CodePairingError> {
        let file = register.file().ok_or(CodePairingError::NoFile)?;
        let pending = self.exchanges().remove(name);
        let in_time = |pending: &PendingExchange| now.saturating_since(pending.since) < CONFIRMATION_LIMIT;
        let pending = pending.filter(in_time).ok_or(CodePairingError::Unknown)?;
        if !pending.key.is_confirmed_by_client(confirmation) {
            return Err(match file.on_wrong_code(&pending.code) {
                0 => CodePairingError::Void,
                left => CodePairingError::WrongCode(left),
            });
        }
        let link = file.pair(&pending.code, pending.key.device_token(), &pending.device);
        let link = link.ok_or(CodePairingError::NoCode)??;
        // The device connects at once.
        register.poll();
        Ok(PairedDevice { link, confirmation: pending.key.server_confirmation() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::link_file::{LinkFile, MAX_CODE_FAILURES, unix_time_s};
    use nearlight_rooms::Role;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    struct Bench {
        folder: std::path::PathBuf,
        register: LinkRegister,
        pairing: CodePairing,
    }

    impl Bench {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("nearlight-code-{name}-{}", std::process::id()));
            let register = LinkRegister::new(Some(LinkFile::open(&folder).expect("a file")));
            Self { folder, register, pairing: CodePairing::default() }
        }

        fn open(&self) -> Code {
            let file = self.register.file().expect("a file");
            let code = file.open_code(Role::Guest, None, unix_time_s() + 1_000, None).expect("a code");
            self.register.poll();
            code
        }

        fn attempt(&self, now: Time, typed: &Code) -> Result<String, CodePairingError> {
            let (exchange, share) = Exchange::client(typed, [1; 32]);
            let started = self.pairing.start(&self.register, now, HERE, &share, "headset")?;
            let key = exchange.finish(&started.share).expect("a share");
            let paired = self.pairing.confirm(&self.register, now, &started.name, &key.client_confirmation())?;
            assert!(key.is_confirmed_by_server(&paired.confirmation));
            Ok(key.device_token())
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    fn other(code: &Code) -> Code {
        let wrong: String =
            code.to_string().chars().map(|digit| if digit == '9' { '0' } else { '9' }).take(6).collect();
        wrong.parse().unwrap_or_else(|_| Code::from_random(1))
    }

    #[test]
    fn a_device_that_knows_the_code_gets_a_token_that_the_server_accepts() {
        let bench = Bench::new("right");
        assert_eq!(bench.attempt(Time::ZERO, &Code::from_random(1)), Err(CodePairingError::NoCode));
        let code = bench.open();
        let token = bench.attempt(Time::ZERO, &code).expect("paired");
        let (credential, _) = bench.register.find(|known| known.matches(&token)).expect("the token is known at once");
        assert_eq!(credential.role, Role::Guest);
        assert_eq!(bench.attempt(Time::ZERO, &code), Err(CodePairingError::NoCode), "a code is for one device");
    }

    #[test]
    fn five_wrong_codes_void_a_code_even_if_they_come_at_once() {
        let bench = Bench::new("wrong");
        let code = bench.open();
        let wrong = other(&code);
        for left in (1..MAX_CODE_FAILURES).rev() {
            assert_eq!(bench.attempt(Time::ZERO, &wrong), Err(CodePairingError::WrongCode(left)));
        }
        // The right exchange begins before the last wrong one ends.
        let (exchange, share) = Exchange::client(&code, [1; 32]);
        let started = bench.pairing.start(&bench.register, Time::ZERO, HERE, &share, "late").expect("an exchange");
        assert_eq!(bench.attempt(Time::ZERO, &wrong), Err(CodePairingError::Void));
        let key = exchange.finish(&started.share).expect("a share");
        let late = bench.pairing.confirm(&bench.register, Time::ZERO, &started.name, &key.client_confirmation());
        assert_eq!(late.err(), Some(CodePairingError::NoCode));
    }

    #[test]
    fn exchanges_are_bounded_for_each_address_and_end() {
        let bench = Bench::new("bounds");
        let code = bench.open();
        let start = |now: Time, from: IpAddr| {
            let share = Exchange::client(&code, [1; 32]).1;
            bench.pairing.start(&bench.register, now, from, &share, "")
        };
        for _ in 0..MAX_EXCHANGES_PER_ADDRESS {
            start(Time::ZERO, HERE).expect("an exchange");
        }
        assert!(matches!(start(Time::ZERO, HERE), Err(CodePairingError::Busy(wait)) if wait == CONFIRMATION_LIMIT));
        let mut others = 0;
        for last in 2..=255 {
            others += usize::from(start(Time::ZERO, [192, 0, 2, last].into()).is_ok());
        }
        assert_eq!(others, MAX_EXCHANGES - MAX_EXCHANGES_PER_ADDRESS);
        let late = start(Time::ZERO + CONFIRMATION_LIMIT, HERE).expect("the others have ended");
        let after = Time::ZERO + CONFIRMATION_LIMIT + CONFIRMATION_LIMIT;
        let confirmed = bench.pairing.confirm(&bench.register, after, &late.name, &Bytes32([0; 32]));
        assert_eq!(confirmed.err(), Some(CodePairingError::Unknown));
        let own = Exchange::server(&code, [1; 32]).1;
        assert_eq!(bench.pairing.start(&bench.register, after, HERE, &own, "").err(), Some(CodePairingError::Share));
    }
}
