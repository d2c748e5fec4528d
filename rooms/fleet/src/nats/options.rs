//! Where NATS is, and how a server or front identifies itself there.

use std::fmt;
use std::path::PathBuf;

use async_nats::ConnectOptions;
use percent_encoding::percent_decode_str;
use url::Url;

/// First line of the part of a credentials file that contains the user's JWT.
const JWT_HEADING: &str = "-----BEGIN NATS USER JWT-----";

/// The address of a NATS server, and the credentials for it. What it displays contains no credentials.
#[derive(Clone)]
pub struct NatsOptions {
    /// The URL without user and password.
    url: Url,
    login: Login,
    /// PEM file with the authorities that may have signed the certificate of the NATS server.
    ca: Option<PathBuf>,
}

#[derive(Clone)]
enum Login {
    Anonymous,
    Password {
        user: String,
        password: String,
    },
    Token(String),
    /// The seed of a user's `NKey`.
    Seed(String),
    /// The contents of a credentials file: a user's JWT, and the seed of its `NKey`.
    Credentials(String),
}

/// Why NATS cannot be used as the user has described it. No message contains the URL or a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NatsOptionsError {
    #[error(
        "the URL of NATS is none that can be used: write nats://HOST:PORT, or tls://HOST:PORT for TLS, with NAME:PASSWORD@ or TOKEN@ before HOST if NATS asks for it, and with special characters of name and password as %XX"
    )]
    Url,
    #[error(
        "the file of NATS credentials contains neither a user's JWT with its seed (.creds) nor the seed of a user's NKey (SU...)"
    )]
    Credentials,
    #[error("there are credentials in the URL of NATS and in a file: leave out one of them")]
    TwoLogins,
}

impl fmt::Display for NatsOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(formatter)
    }
}

impl fmt::Debug for NatsOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NatsOptions({self})")
    }
}

impl NatsOptions {
    /// Takes a URL: `nats://` or `tls://`, host and port, and before the host none, a token, or a user's name and password.
    ///
    /// # Errors
    /// If it is another URL, or none.
    pub fn new(url: &str) -> Result<Self, NatsOptionsError> {
        let text = if url.contains("://") { url.to_owned() } else { format!("nats://{url}") };
        let mut url = Url::parse(&text).map_err(|_| NatsOptionsError::Url)?;
        let is_plain = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        if !matches!(url.scheme(), "nats" | "tls") || url.host_str().is_none_or(str::is_empty) || !is_plain {
            return Err(NatsOptionsError::Url);
        }
        let decoded = |text: &str| {
            percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned).map_err(|_| NatsOptionsError::Url)
        };
        let user = decoded(url.username())?;
        let login = match url.password().map(decoded).transpose()? {
            Some(password) => Login::Password { user, password },
            None if user.is_empty() => Login::Anonymous,
            None => Login::Token(user),
        };
        url.set_username("").and_then(|()| url.set_password(None)).map_err(|()| NatsOptionsError::Url)?;
        url.set_path("");
        Ok(Self { url, login, ca: None })
    }

    /// Takes the contents of a file with credentials: a `.creds` file, or the seed of an `NKey`.
    ///
    /// # Errors
    /// If it is another file, or the URL has credentials as well.
    pub fn with_credentials(self, contents: &str) -> Result<Self, NatsOptionsError> {
        if !matches!(self.login, Login::Anonymous) {
            return Err(NatsOptionsError::TwoLogins);
        }
        let login = if contents.contains(JWT_HEADING) {
            ConnectOptions::with_credentials(contents).map_err(|_| NatsOptionsError::Credentials)?;
            Login::Credentials(contents.to_owned())
        } else {
            let seed = contents.lines().map(str::trim).find(|line| line.starts_with("SU"));
            let seed = seed.ok_or(NatsOptionsError::Credentials)?;
            nkeys::KeyPair::from_seed(seed).map_err(|_| NatsOptionsError::Credentials)?;
            Login::Seed(seed.to_owned())
        };
        Ok(Self { login, ..self })
    }

    /// Takes the PEM file of the authorities that are trusted instead of the system's. The file is read for each connection over TLS.
    #[must_use]
    pub fn with_authorities(self, ca: Option<PathBuf>) -> Self {
        Self { ca, ..self }
    }

    pub(super) fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the client's options for this address. With `tls://`, nothing is sent before TLS is established.
    pub(super) fn connect_options(&self) -> ConnectOptions {
        let options = ConnectOptions::new().require_tls(self.url.scheme() == "tls");
        let options = match self.login.clone() {
            Login::Anonymous => options,
            Login::Password { user, password } => options.user_and_password(user, password),
            Login::Token(token) => options.token(token),
            Login::Seed(seed) => options.nkey(seed),
            Login::Credentials(contents) => options.credentials(&contents).expect("the contents have been read before"),
        };
        match self.ca.clone() {
            Some(ca) => options.add_root_certificates(ca),
            None => options,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_nats_server_contains_no_password() {
        for (url, shown) in [
            ("nats://alice:s3cret@nats.example:4223", "nats://nats.example:4223"),
            ("tls://s3cret@nats.example", "tls://nats.example"),
            ("nats://alice:s3cret%2F%40@[::1]:4222/", "nats://[::1]:4222"),
            ("127.0.0.1:4222", "nats://127.0.0.1:4222"),
        ] {
            let options = NatsOptions::new(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(options.to_string(), shown);
            assert!(!format!("{options:?} {:?}", options.connect_options()).contains("s3cret"), "{options:?}");
        }
        for url in
            ["", "nats://", "http://a:s3cret@b", "ws://a:s3cret@b", "nats://a:s3/cret@b:4222", "nats://a:s3cret@b/path"]
        {
            let error = NatsOptions::new(url).expect_err(url);
            assert!(error == NatsOptionsError::Url && !error.to_string().contains("s3"), "{url}: {error}");
        }
    }

    #[test]
    fn user_password_and_token_of_the_url_are_what_nats_is_told() {
        let login = |url: &str| NatsOptions::new(url).map(|options| options.login);
        assert!(
            matches!(login("nats://a%40b:c%2Fd@host"), Ok(Login::Password { user, password }) if user == "a@b" && password == "c/d")
        );
        assert!(matches!(login("tls://t0ken@host"), Ok(Login::Token(token)) if token == "t0ken"));
        assert!(matches!(login("tls://host"), Ok(Login::Anonymous)));
    }

    #[test]
    fn a_file_is_read_as_credentials_or_as_a_seed_or_refused() {
        let pair = nkeys::KeyPair::new_user();
        let seed = pair.seed().expect("a user's pair has one");
        let with =
            |contents: &str| NatsOptions::new("nats://host")?.with_credentials(contents).map(|options| options.login);
        assert!(matches!(with(&format!("# a seed\n{seed}\n")), Ok(Login::Seed(read)) if read == seed));
        let file = format!(
            "{JWT_HEADING}\neyJ0eXAiOiJKV1QifQ.e30.c2ln\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        assert!(matches!(with(&file), Ok(Login::Credentials(read)) if read == file));
        for bad in ["", "SUAAA", "an essay", JWT_HEADING] {
            assert_eq!(with(bad).err(), Some(NatsOptionsError::Credentials), "{bad}");
        }
        let both = NatsOptions::new("nats://a:b@host").and_then(|options| options.with_credentials(&seed));
        assert_eq!(both.err(), Some(NatsOptionsError::TwoLogins));
    }
}
