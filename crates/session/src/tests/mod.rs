//! Sender and receiver joined by a virtual path: stories of a frame's way.

mod path;
mod protection;
mod recovery;
mod stories;
mod window;
