//! Sender and receiver joined by a virtual path: stories of a frame's way.

mod forgery;
mod packets;
mod path;
mod pictures;
mod protection;
mod recovery;
mod reliable;
mod requests;
mod restraint;
mod stories;
mod window;
