//! Who may connect: hosts and addresses, links with their tokens, the proof of a token, and places for sessions.

pub(crate) mod admission;
pub(crate) mod certificate;
pub(crate) mod code_pairing;
pub(crate) mod handshake;
pub(crate) mod history;
pub(crate) mod hosts;
pub(crate) mod identity_file;
pub(crate) mod link_file;
pub(crate) mod link_register;
pub(crate) mod links;
pub(crate) mod pairing;
pub(crate) mod qr;
pub(crate) mod state_file;
