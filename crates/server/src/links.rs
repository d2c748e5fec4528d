//! A link for each role: hosts have the owner's token, guests and spectators tokens that are derived from it. A derived token tells nothing of
//! the others, and stands for its role wherever the server checks tokens. docs/wire.md has test vectors.

use hmac::{Hmac, KeyInit as _, Mac as _};
use nearlight_net::Token;
use nearlight_rooms::Role;
use sha2::Sha256;

/// What the MAC covers before the role's name: no MAC made for another purpose is a token.
const CONTEXT: &[u8] = b"nearlight role ";
/// Bytes of the MAC that are kept: as many as a generated token has.
const BYTES: usize = 16;

/// The token in links for this role, made from the `owner`'s, which is that of hosts.
pub(crate) fn token_for(owner: &Token, role: Role) -> Token {
    if role == Role::Host {
        return owner.clone();
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(owner.to_string().as_bytes()).expect("HMAC takes keys of any length");
    mac.update(CONTEXT);
    mac.update(role.name().as_bytes());
    let digits: String = mac.finalize().into_bytes().iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect();
    digits.parse().expect("32 digits are a token")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_tokens_are_those_of_the_protocol() {
        let owner: Token = "AAECAwQFBgcICQoLDA0ODw".parse().expect("a token");
        let tokens = Role::ALL.map(|role| token_for(&owner, role).to_string());
        assert_eq!(
            tokens,
            ["AAECAwQFBgcICQoLDA0ODw", "7bad7e15db68a99ebe2f2b2a79a517a1", "851f8af1a07ebdfefa32eccaef68fb2d"]
        );
    }
}
