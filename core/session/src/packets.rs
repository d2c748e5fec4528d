//! What a sender puts into packets: the frames that it keeps, what it releases, and the datagrams of our own protocol.

pub(crate) mod buffer_pool;
pub(crate) mod history;
pub(crate) mod release;
pub(crate) mod symbols;
