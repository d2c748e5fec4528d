//! OpenUVR's interface (Table I of its paper, 2021), over this library's own. `include/openuvr.h` is written by hand, in the paper's terms.
//!
//! Departures:
//! - The paper's host reads the pixel buffer through CUDA whenever it likes. Only the thread in which the context is current can read it
//!   here, so that the program says when: `openuvr_send_frame`.
//! - The paper's device knows its host when it is built. Here it is told: `openuvr_set_link`, or `OPENUVR_LINK`.
//! - The paper's device draws on its display itself. Here a callback does: `openuvr_set_display`.
//! - The paper's host knows the interface for raw frames when it is built. Here the environment tells it: `OPENUVR_INTERFACE`.

mod device;
mod evdev;
#[cfg(feature = "host")]
mod host;

use crate::fault::Fault;

pub use device::*;
#[cfg(feature = "host")]
pub use host::*;

/// Ids of devices that both ends know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceId {
    Mouse,
    Keyboard,
}

fn device_id(id: i32) -> Result<DeviceId, Fault> {
    match id {
        1 => Ok(DeviceId::Mouse),
        2 => Ok(DeviceId::Keyboard),
        _ => Err(Fault::argument(format!("there is no device {id}: pass SYS_MOUSE or SYS_KEYBOARD"))),
    }
}

/// The codec of an OPENUVR_ENCODER_...
fn codec(kind: u32) -> Result<nearlight_viewer::CodecKind, Fault> {
    match kind {
        1 | 2 => Ok(nearlight_viewer::CodecKind::H264),
        3 => Ok(nearlight_viewer::CodecKind::Vp8),
        _ => Err(Fault::argument(format!("there is no encoder {kind}: pass one of OPENUVR_ENCODER_..."))),
    }
}

/// Whether raw frames are wanted.
fn is_raw(network: u32) -> Result<bool, Fault> {
    match network {
        1 => Ok(true),
        2 => Ok(false),
        _ => Err(Fault::argument(format!("there is no network {network}: pass one of OPENUVR_NETWORK_..."))),
    }
}

fn status(outcome: crate::types::nl_status) -> i32 {
    if outcome == crate::types::nl_status::Ok { 0 } else { -1 }
}
