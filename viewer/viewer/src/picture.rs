//! Decoded pictures and their memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use nearlight_codec::{CodecError, Picture, PictureView, Size, convert};
use nearlight_units::{FrameId, InputSeq, RemoteTime, Time, lock};
use nearlight_wire::{View, marker::Marker};

use crate::player::{Decoded, Ticket};

/// Maximum number of unused pictures whose memory is kept. Guess: only a program that holds many pictures at a time has more.
const MAX_SPARE_PICTURES: usize = 4;

/// A picture's metadata. Times are on [`crate::Viewer::now`]'s clock; the server's are `None` until the clocks are synchronised, which
/// takes a round trip.
#[derive(Clone, Debug, PartialEq)]
pub struct PictureInfo {
    /// The frame's number, which counts from 0 in each session.
    pub frame: FrameId,
    /// The session's number, from 1. Another session begins after a loss of the connection or a change of the codec.
    pub session: u32,
    /// The view of each eye: one for a screen, two for a headset, left first.
    pub views: Vec<View>,
    /// The newest input that the picture shows; 0 before the first.
    pub input: InputSeq,
    /// The marker that was read from the rows below the picture, if it was readable.
    pub marker: Option<Marker>,
    /// Whether this is a key frame.
    pub key: bool,
    /// Whether a frame that this one depends on was lost.
    pub damaged: bool,
    /// When rendering or capture began.
    pub captured_at: Option<Time>,
    /// When rendering or capture ended.
    pub rendered_at: Option<Time>,
    /// When encoding ended.
    pub encoded_at: Option<Time>,
    /// The display time for which it was rendered.
    pub display_at: Option<Time>,
    pub decoded_at: Time,
}

/// A decoded picture. Its memory is reused when this is dropped.
#[derive(Debug)]
pub struct ReceivedPicture {
    pub info: PictureInfo,
    pub(crate) ticket: Ticket,
    displayed: AtomicBool,
    picture: Picture,
    pool: Arc<Pool>,
}

impl ReceivedPicture {
    #[must_use]
    pub const fn size(&self) -> Size {
        self.picture.size
    }

    /// Returns the picture's planes: 4:2:0, BT.709, limited range, rows without padding.
    #[must_use]
    pub fn planes(&self) -> PictureView<'_> {
        self.picture.view()
    }

    /// Converts the picture into RGBA, rows without padding. `rgba` is reallocated only if it is too small.
    pub fn to_rgba(&self, rgba: &mut Vec<u8>) -> Result<(), CodecError> {
        convert::to_rgba(self.planes(), rgba)
    }

    /// Converts the picture into the caller's pixels, whose rows begin `stride` bytes apart.
    ///
    /// # Errors
    ///
    /// `bytes` or `stride` is too small.
    pub fn write(&self, order: convert::PixelOrder, bytes: &mut [u8], stride: usize) -> Result<(), CodecError> {
        convert::to_pixels(self.planes(), order, bytes, stride)
    }

    /// Marks the picture as displayed. Returns whether it was not before.
    pub(crate) fn set_displayed(&self) -> bool {
        !self.displayed.swap(true, Ordering::Relaxed)
    }
}

impl Drop for ReceivedPicture {
    fn drop(&mut self) {
        self.pool.recycle(std::mem::replace(
            &mut self.picture,
            Picture { size: EMPTY_SIZE, luma: Vec::new(), blue: Vec::new(), red: Vec::new() },
        ));
    }
}

const EMPTY_SIZE: Size = Size { width: 0, height: 0 };

/// A pool of pictures, so that a steady stream allocates no memory.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Picture>>);

impl Pool {
    /// Copies a picture out of the decoder's memory.
    pub(crate) fn receive(self: &Arc<Self>, decoded: &Decoded<'_>) -> ReceivedPicture {
        let spare = lock(&self.0).pop();
        let mut picture = spare.unwrap_or_else(|| Picture::new(decoded.picture.size));
        decoded.picture.copy_to(&mut picture);
        let header = decoded.header;
        let to_local = |at: RemoteTime| decoded.clock.map(|clock| clock.to_client(at));
        let info = PictureInfo {
            frame: decoded.ticket.frame,
            session: decoded.ticket.epoch,
            views: header.views.clone(),
            input: header.input,
            marker: decoded.marker,
            key: decoded.key,
            damaged: decoded.damaged,
            captured_at: to_local(header.render_started_at),
            rendered_at: to_local(header.rendered_at),
            encoded_at: to_local(header.encoded_at),
            display_at: to_local(header.display_at),
            decoded_at: decoded.at,
        };
        let displayed = AtomicBool::new(false);
        ReceivedPicture { info, ticket: decoded.ticket, displayed, picture, pool: Arc::clone(self) }
    }

    fn recycle(&self, picture: Picture) {
        let mut spare = lock(&self.0);
        if spare.len() < MAX_SPARE_PICTURES {
            spare.push(picture);
        }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_wire::FrameHeader;

    use super::*;

    fn header() -> FrameHeader<RemoteTime> {
        let never = RemoteTime::default();
        FrameHeader {
            width: 64,
            height: 32,
            input: InputSeq::default(),
            input_received_at: never,
            render_started_at: never,
            rendered_at: never,
            converted_at: never,
            encoded_at: never,
            display_at: never,
            deadline: never,
            views: Vec::new(),
        }
    }

    #[test]
    fn memory_goes_around() {
        let pool = Arc::new(Pool::default());
        let source = Picture::new(Size { width: 64, height: 32 });
        let header = header();
        let decoded = Decoded {
            ticket: Ticket { epoch: 1, frame: FrameId(7) },
            at: Time::from_millis(5),
            picture: source.view(),
            marker: None,
            header: &header,
            clock: None,
            key: true,
            damaged: false,
        };
        let first = pool.receive(&decoded);
        let place = first.planes().luma.as_ptr();
        assert!(first.set_displayed() && !first.set_displayed(), "displayed once");
        drop(first);
        let again = pool.receive(&decoded);
        assert_eq!((again.planes().luma.as_ptr(), again.size()), (place, source.size));
        assert_eq!((again.info.frame, again.info.captured_at), (FrameId(7), None));
        let many: Vec<_> = (0..20).map(|_| pool.receive(&decoded)).collect();
        drop(many);
        assert_eq!(pool.0.lock().expect("no panic").len(), MAX_SPARE_PICTURES);
    }
}
