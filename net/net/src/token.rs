//! The pairing token: whoever knows it may see and control the world. Over WebTransport it is proved and never sent. Over HTTP it is a
//! bearer token.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nearlight_wire::{Binding, Bytes32, Role};
use subtle::ConstantTimeEq as _;

/// Bytes of a generated token: 128 bits, impossible to guess at any rate, online or from a recorded proof.
const TOKEN_BYTES: usize = 16;

/// Minimum length of a chosen token in characters. Guess: 16 characters of 64 are 96 bits if chosen at random.
const MIN_LENGTH: usize = 16;

/// Maximum length of a token in characters: input from strangers is not compared beyond this length.
const MAX_LENGTH: usize = 128;

/// A secret of URL-safe characters. `Debug` hides it; `Display` is for the link that the owner reads.
#[derive(Clone)]
pub struct Token(String);

/// The reason why a text is not a token. All variants are the owner's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error(
        "a token has {MIN_LENGTH} to {MAX_LENGTH} characters, this one has {0}: choose another or let the server generate one"
    )]
    Length(usize),
    #[error("a token may contain only letters, digits, `-` and `_`, because it is part of a link: choose another")]
    Characters,
    #[error("cannot generate a token or nonce: the operating system returned no random bytes: {0}")]
    Randomness(getrandom::Error),
}

impl Token {
    /// Generates a token of 128 bits from the operating system's random source, 22 characters.
    pub fn generate() -> Result<Self, TokenError> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(TokenError::Randomness)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Whether `offered` is this token. The time taken reveals nothing but the offer's length.
    #[must_use]
    pub fn matches(&self, offered: &str) -> bool {
        offered.len() <= MAX_LENGTH && self.0.as_bytes().ct_eq(offered.as_bytes()).into()
    }

    /// Whether `proof` shows that its sender knows this token. Takes as long for a wrong one as for the right one.
    #[must_use]
    pub fn verify(&self, binding: &Binding, role: Role, proof: &Bytes32) -> bool {
        binding.verify(&self.0, role, proof)
    }

    /// Computes a proof that this end knows the token.
    #[must_use]
    pub fn prove(&self, binding: &Binding, role: Role) -> Bytes32 {
        binding.prove(&self.0, role)
    }
}

/// Generates an unpredictable value for a connection's challenge.
pub fn nonce() -> Result<Bytes32, TokenError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(TokenError::Randomness)?;
    Ok(Bytes32(bytes))
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        if !(MIN_LENGTH..=MAX_LENGTH).contains(&text.len()) {
            return Err(TokenError::Length(text.len()));
        }
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
            return Err(TokenError::Characters);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_tokens_differ_survive_a_link_and_match_only_themselves() {
        let (one, other) = (Token::generate().unwrap(), Token::generate().unwrap());
        let text = one.to_string();
        assert_eq!(text.len(), 22);
        assert!(Token::from_str(&text).unwrap().matches(&text));
        assert!(one.matches(&text));
        assert!(!other.matches(&text));
        for offer in ["", &text[..21], &format!("{text}A"), &text.to_lowercase().replace(|c: char| c.is_ascii(), "a")] {
            assert!(!one.matches(offer), "{offer:?}");
        }
        assert_eq!(format!("{one:?}"), "Token(hidden)");
    }

    #[test]
    fn unusable_tokens_are_refused_with_the_reason() {
        assert_eq!(Token::from_str("short").unwrap_err(), TokenError::Length(5));
        assert_eq!(Token::from_str(&"a".repeat(129)).unwrap_err(), TokenError::Length(129));
        assert_eq!(Token::from_str("sixteen chars ok#").unwrap_err(), TokenError::Characters);
    }
}
