//! What a window, a display without one and a headless run have of their own.

#[cfg(target_os = "linux")]
use std::path::PathBuf;

use nearlight_viewer::ViewOptions;

/// A run without a display.
#[derive(Clone, Debug)]
pub struct HeadlessOptions {
    pub view: ViewOptions,
    /// Refresh rate of a virtual display: a picture is displayed at its next slot. None displays at the decoder's output.
    pub display_hz: Option<u16>,
    /// Movements of the synthetic user per second, at least 1.
    pub samples_per_second: u16,
}

impl HeadlessOptions {
    /// Displays at the decoder's output, with a user who moves 60 times a second.
    #[must_use]
    pub const fn new(view: ViewOptions) -> Self {
        Self { view, display_hz: None, samples_per_second: 60 }
    }
}

/// A viewer in a window.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    pub view: ViewOptions,
    /// Width and height of the window in pixels; the picture keeps its shape within.
    pub size: (u32, u32),
}

impl WindowOptions {
    #[must_use]
    pub const fn new(view: ViewOptions) -> Self {
        Self { view, size: (1280, 720) }
    }
}

/// A viewer on a display without a window system.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug)]
pub struct KmsOptions {
    pub view: ViewOptions,
    /// The graphics card's file, such as `/dev/dri/card0`; none takes the first one that has a display.
    pub card: Option<PathBuf>,
    /// The connector's name, such as `HDMI-A-1`; none takes the first one that has a display.
    pub connector: Option<String>,
}
