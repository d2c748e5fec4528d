//! Options of each kind of viewer.

#[cfg(target_os = "linux")]
use std::path::PathBuf;

use nearlight_viewer::ViewOptions;

/// Options of a run without a display.
#[derive(Clone, Debug)]
pub struct HeadlessOptions {
    pub view: ViewOptions,
    /// Refresh rate of a virtual display in hertz. `None` displays at the decoder's output.
    pub display_hz: Option<u16>,
    /// Movements of the synthetic user per second, at least 1.
    pub samples_per_second: u16,
}

impl HeadlessOptions {
    /// Returns options that display at the decoder's output and have a user who moves 60 times a second.
    #[must_use]
    pub const fn new(view: ViewOptions) -> Self {
        Self { view, display_hz: None, samples_per_second: 60 }
    }
}

/// Options of a viewer in a window.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    pub view: ViewOptions,
    /// Width and height of the window in pixels. The picture keeps its aspect ratio.
    pub size: (u32, u32),
}

impl WindowOptions {
    #[must_use]
    pub const fn new(view: ViewOptions) -> Self {
        Self { view, size: (1280, 720) }
    }
}

/// Options of a viewer on a display without a window system.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug)]
pub struct KmsOptions {
    pub view: ViewOptions,
    /// The graphics card's file, such as `/dev/dri/card0`; `None` selects the first one that has a display.
    pub card: Option<PathBuf>,
    /// The connector's name, such as `HDMI-A-1`; `None` selects the first one that has a display.
    pub connector: Option<String>,
}
