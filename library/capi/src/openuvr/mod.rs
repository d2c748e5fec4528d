//! OpenUVR's interface (Table I of its paper, 2021), implemented by this library. `include/openuvr.h` is written by hand, in the paper's
//! terms.
//!
//! Differences from the paper:
//! - The paper's host reads the pixel buffer through CUDA at any time. Here only the thread in which the context is current can read it, so
//!   that the program calls `openuvr_send_frame`.
//! - The paper's device knows its host at build time. Here `openuvr_set_link` or the variable `OPENUVR_LINK` sets it.
//! - The paper's device draws on its display itself. Here a callback does, which `openuvr_set_display` sets.
//! - The paper's host knows the interface for raw frames at build time. Here the variable `OPENUVR_INTERFACE` sets it.

mod device;
mod evdev;
#[cfg(feature = "host")]
mod host;

use crate::fault::Fault;

pub use device::*;
#[cfg(feature = "host")]
pub use host::*;

/// Input devices that both ends know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceId {
    Mouse,
    Keyboard,
}

/// Returns the device of a SYS_... number.
fn device_id(id: i32) -> Result<DeviceId, Fault> {
    match id {
        1 => Ok(DeviceId::Mouse),
        2 => Ok(DeviceId::Keyboard),
        _ => Err(Fault::argument(format!("there is no device {id}: pass SYS_MOUSE or SYS_KEYBOARD"))),
    }
}

/// Returns the codec of an OPENUVR_ENCODER_... number.
fn codec(kind: u32) -> Result<nearlight_viewer::CodecKind, Fault> {
    match kind {
        1 | 2 => Ok(nearlight_viewer::CodecKind::H264),
        3 => Ok(nearlight_viewer::CodecKind::Vp8),
        _ => Err(Fault::argument(format!("there is no encoder {kind}: pass one of OPENUVR_ENCODER_..."))),
    }
}

/// Returns whether an OPENUVR_NETWORK_... number stands for raw Ethernet frames.
fn is_raw(network: u32) -> Result<bool, Fault> {
    match network {
        1 => Ok(true),
        2 => Ok(false),
        _ => Err(Fault::argument(format!("there is no network {network}: pass one of OPENUVR_NETWORK_..."))),
    }
}

/// Returns OpenUVR's status of a call: 0 or -1.
fn status(outcome: crate::types::nl_status) -> i32 {
    if outcome == crate::types::nl_status::Ok { 0 } else { -1 }
}
