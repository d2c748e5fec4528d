//! Sender and receiver connected by a virtual path: scenarios of a frame's transfer.

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

pub(crate) use path::frame_header;
