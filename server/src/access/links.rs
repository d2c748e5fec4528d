//! Tokens by role: hosts have the owner's token, guests and spectators have tokens that are derived from it. A derived token reveals
//! nothing about the others. docs/wire.md has test vectors.

use hmac::{Hmac, KeyInit as _, Mac as _};
use nearlight_net::Token;
use nearlight_rooms::Role;
use nearlight_wire::Bytes32;
use sha2::Sha256;

/// Input of the MAC before the role's name, so that no MAC made for another purpose is a token.
const ROLE_CONTEXT: &[u8] = b"nearlight role ";
/// Input of the MAC for the check value that all servers with one token share.
const FLEET_CONTEXT: &[u8] = b"nearlight fleet";

/// Returns the token in links for this role, derived from the `owner`'s token, which is that of hosts. The MAC is truncated to 16 bytes,
/// the length of a generated token.
pub(crate) fn token_for(owner: &Token, role: Role) -> Token {
    if role == Role::Host {
        return owner.clone();
    }
    derived(owner, &[ROLE_CONTEXT, role.name().as_bytes()]).parse().expect("32 digits are a token")
}

/// Returns a value that all servers and fronts with this token share and that does not reveal the token.
pub(crate) fn check_of(owner: &Token) -> String {
    derived(owner, &[FLEET_CONTEXT])
}

fn derived(owner: &Token, texts: &[&[u8]]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(owner.to_string().as_bytes()).expect("HMAC takes keys of any length");
    for text in texts {
        mac.update(text);
    }
    Bytes32(mac.finalize().into_bytes().into()).truncated_to_token()
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
        assert_eq!(check_of(&owner), "5503335c2055bc9fab8e781166486337");
    }
}
