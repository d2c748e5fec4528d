//! The header in front of a frame's coded picture, which is split into symbols together with it.

use nearlight_units::{InputSeq, RemoteTime, Time};

use crate::View;
use crate::WireError;
use crate::cursor::Reader;

/// Maximum length of a header that [`FrameHeader::write`] writes (two views).
pub const MAX_FRAME_HEADER_BYTES: usize = 2 + 2 + 2 + 4 + 8 * 7 + 1 + 2 * View::BYTES;

/// A frame's pose, input echo and the server's share of its timeline.
///
/// Times are on the server's clock: the server uses it with [`Time`], the client reads it with [`RemoteTime`].
#[derive(Clone, Debug, PartialEq)]
pub struct FrameHeader<T = Time> {
    /// Picture size in pixels. It changes in the middle of a stream only at a key frame.
    pub width: u16,
    pub height: u16,
    /// Newest input sample whose effect the picture shows, 0 before the first one. Acknowledges all events up to it.
    pub input: InputSeq,
    /// When that sample arrived at the server. The start of rendering if there is none.
    pub input_received_at: T,
    pub render_started_at: T,
    pub rendered_at: T,
    pub converted_at: T,
    pub encoded_at: T,
    /// The time for which the frame was rendered: when it should be on the display.
    pub display_at: T,
    /// The time after which the frame is no longer worth displaying.
    pub deadline: T,
    /// The view of each eye of the picture, left first: one for a screen, two side by side for a headset.
    pub views: Vec<View>,
}

impl FrameHeader {
    pub fn write(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&self.width.to_be_bytes());
        bytes.extend_from_slice(&self.height.to_be_bytes());
        bytes.extend_from_slice(&self.input.0.to_be_bytes());
        for time in self.times() {
            bytes.extend_from_slice(&time.as_micros().to_be_bytes());
        }
        View::write_list(&self.views, bytes);
        let length = (bytes.len() - start) as u16;
        bytes[start..start + 2].copy_from_slice(&length.to_be_bytes());
    }

    const fn times(&self) -> [Time; 7] {
        [
            self.input_received_at,
            self.render_started_at,
            self.rendered_at,
            self.converted_at,
            self.encoded_at,
            self.display_at,
            self.deadline,
        ]
    }

    /// The header as the client parses it.
    #[must_use]
    pub fn for_peer(self) -> FrameHeader<RemoteTime> {
        self.map_times(Time::for_peer)
    }
}

impl<T> FrameHeader<T> {
    /// Converts each time with `map`.
    #[must_use]
    pub fn map_times<U>(self, map: impl Fn(T) -> U) -> FrameHeader<U> {
        FrameHeader {
            width: self.width,
            height: self.height,
            input: self.input,
            input_received_at: map(self.input_received_at),
            render_started_at: map(self.render_started_at),
            rendered_at: map(self.rendered_at),
            converted_at: map(self.converted_at),
            encoded_at: map(self.encoded_at),
            display_at: map(self.display_at),
            deadline: map(self.deadline),
            views: self.views,
        }
    }
}

impl FrameHeader<RemoteTime> {
    /// Parses the header of a complete frame. The coded picture is the rest.
    pub fn parse(frame: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let mut reader = Reader::new(frame);
        let length = usize::from(reader.u16()?);
        let (width, height) = (reader.u16()?, reader.u16()?);
        if width == 0 || height == 0 {
            return Err(WireError::Field("size"));
        }
        let input = InputSeq(reader.u32()?);
        let mut time = || reader.time();
        let mut header = Self {
            width,
            height,
            input,
            input_received_at: time()?,
            render_started_at: time()?,
            rendered_at: time()?,
            converted_at: time()?,
            encoded_at: time()?,
            display_at: time()?,
            deadline: time()?,
            views: Vec::new(),
        };
        header.views = View::read_list(&mut reader)?;
        if reader.position() != length {
            return Err(WireError::Field("header length"));
        }
        Ok((header, reader.rest()))
    }
}
