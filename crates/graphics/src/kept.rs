//! What a picture shows, kept until its pixels have been read.

use nearlight_embed::{Content, Fov, Host, HostError, Pose, Time, View};

use crate::GraphicsError;

/// Fills what is not used.
const NO_VIEW: View = View {
    pose: Pose { position: [0.0; 3], orientation: [0.0, 0.0, 0.0, 1.0] },
    fov: Fov { left: -1.0, right: 1.0, down: -1.0, up: 1.0 },
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    captured_at: Time,
    views: [View; 2],
    count: usize,
    side_by_side: bool,
}

impl Kept {
    pub(crate) fn new(host: &Host, content: Content<'_>) -> Result<Self, GraphicsError> {
        if host.is_closed() {
            return Err(HostError::Closed.into());
        }
        let count = content.views.len();
        if count > 2 {
            return Err(GraphicsError::Argument("a picture has at most 2 views"));
        }
        let mut kept = Self {
            captured_at: content.captured_at.unwrap_or_else(|| host.now()),
            views: [NO_VIEW; 2],
            count,
            side_by_side: content.side_by_side,
        };
        kept.views[..count].copy_from_slice(content.views);
        Ok(kept)
    }

    pub(crate) fn content(&self) -> Content<'_> {
        Content {
            captured_at: Some(self.captured_at),
            views: &self.views[..self.count],
            side_by_side: self.side_by_side,
        }
    }
}

/// When a picture is handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandOver {
    /// With the next one, or when the reader is told to finish: nobody waits for the GPU.
    #[default]
    WithTheNext,
    /// Before the call returns, which waits until the GPU has drawn and read it.
    AtOnce,
}
