//! Errors of a window, a display or a headless run, with messages that say what to do.

use std::path::PathBuf;

use nearlight_viewer::{ExitClass, ViewerError};

/// Why a viewer gave up. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    Viewer(#[from] ViewerError),
    #[error("no picture was displayed, so {0} was not written")]
    NoScreenshot(PathBuf),
    #[error("cannot open a window: {0}; run without one with `--headless`, or on a text console with `--drm`")]
    Window(String),
    #[error("cannot show on a display without a window system: {0}")]
    Display(String),
    #[error("the graphics adapter failed: {0}; run without a window with `--headless`")]
    Graphics(String),
}

impl ClientError {
    #[must_use]
    pub const fn class(&self) -> ExitClass {
        match self {
            Self::Viewer(error) => error.class(),
            _ => ExitClass::Other,
        }
    }

    /// Returns the error for a system resource that could not be created.
    pub(crate) const fn system(what: &'static str, source: std::io::Error) -> Self {
        Self::Viewer(ViewerError::System { what, source })
    }
}
