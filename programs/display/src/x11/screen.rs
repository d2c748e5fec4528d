//! The X display's size, and how it is changed.
//!
//! Xvfb has one output, which accepts any mode within the initial size (RANDR 1.2; observed with version 21.1). No output may be larger
//! than the screen, so the output is disabled, the screen is resized, and the output is enabled again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use x11rb::connection::Connection as _;
use x11rb::protocol::randr::{self, ConnectionExt as _, ModeFlag, ModeInfo, Rotation};
use x11rb::protocol::xproto::ConnectionExt as _;

use crate::x11::connection::{Display, XError};

/// Smallest display, in pixels. Guess: desktop programs are designed for at least 640 by 480, and a browser's window is wider than high.
const MIN_SIZE: (u16, u16) = (640, 360);
/// Refresh rate of the mode. It has no effect.
const REFRESH_HZ: u32 = 60;
/// Tenths of a millimetre per inch.
const TENTH_MILLIMETRES_PER_INCH: u32 = 254;
/// The resolution that desktops assume.
const PIXELS_PER_INCH: u32 = 96;

/// The display's size, shared by all threads.
#[derive(Clone, Debug)]
pub(crate) struct ScreenSize(Arc<AtomicU32>);

impl ScreenSize {
    pub(crate) fn new(size: (u16, u16)) -> Self {
        let shared = Self(Arc::default());
        shared.set(size);
        shared
    }

    pub(crate) fn get(&self) -> (u16, u16) {
        let [width_high, width_low, height_high, height_low] = self.0.load(Ordering::Relaxed).to_be_bytes();
        (u16::from_be_bytes([width_high, width_low]), u16::from_be_bytes([height_high, height_low]))
    }

    pub(crate) fn set(&self, (width, height): (u16, u16)) {
        self.0.store(u32::from(width) << 16 | u32::from(height), Ordering::Relaxed);
    }
}

/// Returns the display's size for a viewer's window: the same aspect ratio, at most `max` pixels in each direction, and even, as pictures
/// require.
pub(crate) fn size_for((width, height): (u16, u16), max: (u16, u16)) -> (u16, u16) {
    let ratio = |of: u16, all: u16| f64::from(of) / f64::from(all.max(1));
    let scale = ratio(max.0, width).min(ratio(max.1, height)).min(1.0);
    let side = |side: u16, min: u16, max: u16| {
        let even = (f64::from(side) * scale / 2.0).round() as u16 * 2;
        even.max(min.min(max)).min(max & !1)
    };
    (side(width, MIN_SIZE.0, max.0), side(height, MIN_SIZE.1, max.1))
}

/// The display's only output.
pub(crate) struct Screen {
    size: ScreenSize,
    output: Option<(randr::Output, randr::Crtc)>,
    /// The mode that was created for the current size.
    mode: Option<randr::Mode>,
}

impl Screen {
    /// Returns a screen whose size never changes.
    pub(crate) const fn fixed(size: ScreenSize) -> Self {
        Self { size, output: None, mode: None }
    }

    pub(crate) const fn size(&self) -> &ScreenSize {
        &self.size
    }

    /// Opens the display's output. Returns `None` if the display cannot change its size.
    pub(crate) fn open(display: &Display, size: ScreenSize) -> Result<Option<Self>, XError> {
        let connection = &display.connection;
        if display.require(randr::X11_EXTENSION_NAME).is_err() {
            return Ok(None);
        }
        let version = connection.randr_query_version(1, 3)?.reply()?;
        if (version.major_version, version.minor_version) < (1, 3) {
            return Ok(None);
        }
        let resources = connection.randr_get_screen_resources_current(display.root)?.reply()?;
        let ([output], [crtc]) = (&resources.outputs[..], &resources.crtcs[..]) else { return Ok(None) };
        Ok(Some(Self { size, output: Some((*output, *crtc)), mode: None }))
    }

    /// Changes the size. Returns the new size, or `None` if it stays the same.
    pub(crate) fn resize(&mut self, display: &Display, size: (u16, u16)) -> Result<Option<(u16, u16)>, XError> {
        let Some((output, crtc)) = self.output.filter(|_| size != self.size.get()) else { return Ok(None) };
        let (connection, root, (width, height)) = (&display.connection, display.root, size);
        let name = format!("{width}x{height} for a viewer");
        let info = ModeInfo {
            id: 0,
            width,
            height,
            dot_clock: REFRESH_HZ * u32::from(width) * u32::from(height),
            hsync_start: width,
            hsync_end: width,
            htotal: width,
            hskew: 0,
            vsync_start: height,
            vsync_end: height,
            vtotal: height,
            name_len: name.len() as u16,
            mode_flags: ModeFlag::from(0_u32),
        };
        let mode = connection.randr_create_mode(root, info, name.as_bytes())?.reply()?.mode;
        connection.randr_add_output_mode(output, mode)?.check()?;
        // Grabbing the server makes the steps appear as one change.
        connection.grab_server()?;
        let done = change(display, (output, crtc, mode), size);
        connection.ungrab_server()?;
        connection.flush()?;
        done?;
        if let Some(old) = self.mode.replace(mode) {
            connection.randr_delete_output_mode(output, old)?;
            connection.randr_destroy_mode(old)?;
        }
        self.size.set(size);
        Ok(Some(size))
    }
}

fn change(
    display: &Display,
    (output, crtc, mode): (randr::Output, randr::Crtc, randr::Mode),
    (width, height): (u16, u16),
) -> Result<(), XError> {
    let (connection, none, now) = (&display.connection, x11rb::NONE, x11rb::CURRENT_TIME);
    let stamp = connection.randr_get_screen_resources_current(display.root)?.reply()?.config_timestamp;
    connection.randr_set_crtc_config(crtc, now, stamp, 0, 0, none, Rotation::ROTATE0, &[])?.reply()?;
    let millimetres = |side: u16| u32::from(side) * TENTH_MILLIMETRES_PER_INCH / PIXELS_PER_INCH / 10;
    connection.randr_set_screen_size(display.root, width, height, millimetres(width), millimetres(height))?.check()?;
    connection.randr_set_crtc_config(crtc, now, stamp, 0, 0, mode, Rotation::ROTATE0, &[output])?.reply()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_display_keeps_the_proportions_of_the_viewers_window() {
        let most = (1_920, 1_080);
        for (window, size) in [
            ((1_280, 720), (1_280, 720)),
            ((1_001, 601), (1_002, 602)),
            ((2_560, 1_300), (1_920, 976)),
            ((3_840, 2_160), (1_920, 1_080)),
            ((390, 844), (640, 844)),
            ((0, 0), (640, 360)),
            ((u16::MAX, 1), (1_920, 360)),
        ] {
            assert_eq!(size_for(window, most), size, "{window:?}");
        }
        assert_eq!(size_for((1_280, 720), (321, 200)), (320, 200), "a display smaller than that");
    }

    #[test]
    fn all_see_the_same_size() {
        let size = ScreenSize::new((1_280, 720));
        let other = size.clone();
        size.set((u16::MAX, 2));
        assert_eq!(other.get(), (u16::MAX, 2));
    }
}
