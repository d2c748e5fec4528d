//! A client's description of a device, sent before it is used.

use serde::Deserialize;

use super::InputError;

/// A device as described by `NewDevice`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    pub name: String,
    /// The kind of device: `Mouse`, `Keyboard`, `Gamepad`, `Touchscreen`, or a layout of the client's own.
    pub layout: String,
    /// The device's number. The web client numbers its mouse 1, keyboard 2, gamepad 3 and touch screen 4.
    pub device_id: i32,
    pub description: Description,
}

/// The origin of a device, in the names of Unity's `InputDeviceDescription`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Description {
    #[serde(rename = "m_InterfaceName")]
    pub interface_name: String,
    #[serde(rename = "m_DeviceClass")]
    pub device_class: String,
    #[serde(rename = "m_Manufacturer")]
    pub manufacturer: String,
    #[serde(rename = "m_Product")]
    pub product: String,
}

impl Device {
    /// Parses a description. The web client writes one byte for each letter into a buffer of two, so as many zeros follow.
    pub(super) fn parse(data: &[u8]) -> Result<Self, InputError> {
        let end = data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        // A non-ASCII letter arrives as its lowest byte, which is not UTF-8: a name may be garbled, the rest is intact.
        let text = String::from_utf8_lossy(&data[..end]);
        serde_json::from_str(&text).map_err(|_| InputError::DeviceSyntax)
    }
}
