//! Sender and receiver joined by a virtual path: stories of a frame's way.

mod forgery;
mod openuvr;
mod path;
mod pictures;
mod playback;
mod protection;
mod recovery;
mod reliable;
mod requests;
mod restraint;
mod rtp;
mod stories;
mod window;
