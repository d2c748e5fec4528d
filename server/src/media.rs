//! From the source to coded frames: the thread that draws or takes pictures, the encoders of all viewers, and sound.

pub(crate) mod adaptation;
pub(crate) mod encoding;
pub(crate) mod fan_out;
pub(crate) mod layer;
pub(crate) mod overload;
pub(crate) mod pictures;
pub(crate) mod sound;
pub(crate) mod source;
pub(crate) mod studio;
