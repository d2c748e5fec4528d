//! An owned copy of a picture's content description, for the time until its pixels have been read.

use crate::{Content, Fov, Host, HostError, Pose, Time, View};

use crate::graphics::GraphicsError;

/// Fills the unused part of [`OwnedContent`]'s views.
const UNUSED_VIEW: View = View {
    pose: Pose { position: [0.0; 3], orientation: [0.0, 0.0, 0.0, 1.0] },
    fov: Fov { left: -1.0, right: 1.0, down: -1.0, up: 1.0 },
};

/// A [`Content`] with its own views.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnedContent {
    captured_at: Time,
    views: [View; 2],
    /// Number of used views.
    count: usize,
    side_by_side: bool,
}

impl OwnedContent {
    pub(crate) fn new(host: &Host, content: Content<'_>) -> Result<Self, GraphicsError> {
        if host.is_closed() {
            return Err(HostError::Closed.into());
        }
        let count = content.views.len();
        if count > 2 {
            return Err(GraphicsError::Argument("a picture has at most 2 views"));
        }
        let mut owned = Self {
            captured_at: content.captured_at.unwrap_or_else(|| host.now()),
            views: [UNUSED_VIEW; 2],
            count,
            side_by_side: content.side_by_side,
        };
        owned.views[..count].copy_from_slice(content.views);
        Ok(owned)
    }

    pub(crate) fn content(&self) -> Content<'_> {
        Content {
            captured_at: Some(self.captured_at),
            views: &self.views[..self.count],
            side_by_side: self.side_by_side,
        }
    }
}

/// Says when a picture is passed to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// With the next picture, or when the reader finishes: nothing waits for the GPU.
    #[default]
    Deferred,
    /// Before the call returns. The call waits until the GPU has drawn and read the picture.
    Immediate,
}
