//! Decoded pictures as a program holds them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nearlight_codec::{CodecError, Picture, PictureView, Size, convert};
use nearlight_units::{FrameId, InputSeq, RemoteTime, Time};
use nearlight_wire::{View, marker::Marker};

use crate::player::{Decoded, Ticket};

/// Pictures' memory that waits to be filled again: more would be held only by a program that keeps many at a time.
const SPARE: usize = 4;

/// What is known of a picture besides its pixels. Times are on [`crate::Viewer::now`]'s clock; none before the clocks were compared, which
/// takes a round trip.
#[derive(Clone, Debug, PartialEq)]
pub struct PictureInfo {
    /// Counts from 0 in each session.
    pub frame: FrameId,
    /// Which session it is of, from 1: another one begins when the connection was lost, or the codec changes.
    pub session: u32,
    /// What each eye of the picture sees, left first: one for a screen, two side by side for a headset.
    pub views: Vec<View>,
    /// The newest input that it shows; 0 before the first.
    pub input: InputSeq,
    /// What was read from the rows below the picture, where they can be read.
    pub marker: Option<Marker>,
    /// Decodes without any other frame.
    pub key: bool,
    /// Something that it depends on was lost.
    pub damaged: bool,
    /// When its rendering, or its capture, began and ended.
    pub captured_at: Option<Time>,
    pub rendered_at: Option<Time>,
    /// When it left the encoder.
    pub encoded_at: Option<Time>,
    /// When it was rendered to be displayed.
    pub display_at: Option<Time>,
    pub decoded_at: Time,
}

/// A decoded picture. Its memory is used again when this is dropped.
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

    /// Its planes: 4:2:0, BT.709, limited range, rows without padding.
    #[must_use]
    pub fn planes(&self) -> PictureView<'_> {
        self.picture.view()
    }

    /// Converts it into RGBA, rows without padding; `rgba` is reallocated only where it grows.
    pub fn to_rgba(&self, rgba: &mut Vec<u8>) -> Result<(), CodecError> {
        convert::to_rgba(self.planes(), rgba)
    }

    /// Converts it into pixels of the caller's, whose rows begin `stride` bytes apart.
    pub fn write(&self, order: convert::PixelOrder, bytes: &mut [u8], stride: usize) -> Result<(), CodecError> {
        convert::to_pixels(self.planes(), order, bytes, stride)
    }

    /// True the first time.
    pub(crate) fn set_displayed(&self) -> bool {
        !self.displayed.swap(true, Ordering::Relaxed)
    }
}

impl Drop for ReceivedPicture {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::replace(
            &mut self.picture,
            Picture { size: NO_SIZE, luma: Vec::new(), blue: Vec::new(), red: Vec::new() },
        ));
    }
}

const NO_SIZE: Size = Size { width: 0, height: 0 };

/// Memory for pictures, so that a steady stream allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Picture>>);

impl Pool {
    /// Copies a picture out of the decoder's memory.
    pub(crate) fn receive(self: &Arc<Self>, decoded: &Decoded<'_>) -> ReceivedPicture {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut picture = spare.unwrap_or_else(|| Picture::new(decoded.picture.size));
        decoded.picture.copy_to(&mut picture);
        let header = decoded.header;
        let here = |at: RemoteTime| decoded.clock.map(|clock| clock.to_client(at));
        let info = PictureInfo {
            frame: decoded.ticket.frame,
            session: decoded.ticket.epoch,
            views: header.views.clone(),
            input: header.input,
            marker: decoded.marker,
            key: decoded.key,
            damaged: decoded.damaged,
            captured_at: here(header.render_started_at),
            rendered_at: here(header.rendered_at),
            encoded_at: here(header.encoded_at),
            display_at: here(header.display_at),
            decoded_at: decoded.at,
        };
        let displayed = AtomicBool::new(false);
        ReceivedPicture { info, ticket: decoded.ticket, displayed, picture, pool: Arc::clone(self) }
    }

    fn give_back(&self, picture: Picture) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
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
        assert_eq!(pool.0.lock().expect("no panic").len(), SPARE);
    }
}
