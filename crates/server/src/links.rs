//! A link for each role: hosts have the owner's token, guests and spectators tokens that are derived from it. A derived token tells nothing of
//! the others, and stands for its role wherever the server checks tokens. docs/wire.md has test vectors.

use hmac::{Hmac, KeyInit as _, Mac as _};
use nearlight_net::Token;
use nearlight_rooms::Role;
use sha2::Sha256;

/// What the MAC covers before the role's name: no MAC made for another purpose is a token.
const CONTEXT: &[u8] = b"nearlight role ";
/// The same for what servers of one token have in common.
const CHECK_CONTEXT: &[u8] = b"nearlight fleet";

/// The token in links for this role, made from the `owner`'s, which is that of hosts. Of the MAC, as many bytes are kept as a generated token
/// has: 16.
pub(crate) fn token_for(owner: &Token, role: Role) -> Token {
    if role == Role::Host {
        return owner.clone();
    }
    derived(owner, &[CONTEXT, role.name().as_bytes()]).parse().expect("32 digits are a token")
}

/// What servers and fronts with this token have in common, and what does not tell it.
pub(crate) fn check_of(owner: &Token) -> String {
    derived(owner, &[CHECK_CONTEXT])
}

fn derived(owner: &Token, texts: &[&[u8]]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(owner.to_string().as_bytes()).expect("HMAC takes keys of any length");
    for text in texts {
        mac.update(text);
    }
    let bytes = mac.finalize().into_bytes();
    let kept = u128::from_be_bytes(*bytes.first_chunk().expect("SHA-256 gives 32 bytes"));
    format!("{kept:032x}")
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
