//! Finds the machine's keyboards, mice, tablets and touch screens, and opens them for the viewer's exclusive use.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use evdev::{AbsoluteAxisCode as Axis, Device, EventStream, KeyCode, PropType, RelativeAxisCode as Relative};
use nearlight_net::Clock;
use nearlight_units::Span;
use tokio::sync::mpsc;

use super::events::{Capabilities, DeviceAction, Range, Reader};

const DEVICE_FOLDER: &str = "/dev/input";
/// Interval between two searches for new devices: a device works at most this long after it was plugged in.
const SEARCH_INTERVAL: Span = Span::from_secs(1);

/// Actions of one device.
pub struct DeviceActions {
    /// The device's number, from 1.
    pub device: u32,
    pub actions: Vec<DeviceAction>,
}

/// Reads all devices, including those that are plugged in later, until the receiver is dropped.
pub async fn follow(clock: Clock, sender: mpsc::Sender<DeviceActions>) {
    let mut known = BTreeSet::new();
    let mut devices = 0;
    let mut warned = false;
    while !sender.is_closed() {
        let mut denied = None;
        let present: BTreeSet<PathBuf> = event_files().collect();
        known.retain(|path| present.contains(path));
        for path in present {
            if known.contains(&path) {
                continue;
            }
            match Device::open(&path) {
                Ok(device) => {
                    known.insert(path);
                    if let Some(reader) = open(device) {
                        devices += 1;
                        tokio::spawn(read(reader, devices, sender.clone()));
                    }
                }
                // udev may grant the permission a moment after the device was plugged in.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => denied = Some(path),
                Err(error) => tracing::debug!(%error, path = %path.display(), "an input device cannot be opened"),
            }
        }
        if let Some(path) = denied.filter(|_| devices == 0 && !warned) {
            warned = true;
            tracing::warn!(
                "no permission to read input devices such as {}, so that keyboard, mouse and touch screen do nothing: add the user \
                 to the group `input` (`sudo usermod -aG input $USER`, then log in again)",
                path.display()
            );
        }
        clock.sleep_until(clock.now() + SEARCH_INTERVAL).await;
    }
}

fn event_files() -> impl Iterator<Item = PathBuf> {
    let files = std::fs::read_dir(DEVICE_FOLDER).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_event = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("event"));
    files.filter(move |path| is_event(path))
}

/// Opens a device. Returns `None` for a device that the viewer cannot use; gamepads are read elsewhere.
fn open(mut device: Device) -> Option<(EventStream, Reader)> {
    let name = device.name().unwrap_or("an input device").to_owned();
    let capabilities = capabilities(&device)?;
    // Keys must not reach the shell on the console as well.
    if let Err(error) = device.grab() {
        tracing::warn!(%error, name, "another program reads this input device too");
    }
    let stream = device.into_event_stream();
    let stream = stream.inspect_err(|error| tracing::warn!(%error, name, "this input device cannot be read")).ok()?;
    tracing::info!(name, "an input device is in use");
    Some((stream, Reader::new(capabilities)))
}

fn capabilities(device: &Device) -> Option<Capabilities> {
    let has_key = |key| device.supported_keys().is_some_and(|keys| keys.contains(key));
    let has_axis = |axis| device.supported_absolute_axes().is_some_and(|axes| axes.contains(axis));
    let moves = |axis| device.supported_relative_axes().is_some_and(|axes| axes.contains(axis));
    let keys = [KeyCode::KEY_A, KeyCode::KEY_ENTER, KeyCode::KEY_UP].into_iter().any(has_key);
    let gamepad = has_key(KeyCode::BTN_SOUTH) || has_key(KeyCode::BTN_TRIGGER);
    let direct = device.properties().contains(PropType::DIRECT);
    let touch_pad = has_key(KeyCode::BTN_TOOL_FINGER) && !direct;
    if (gamepad || touch_pad) && !keys {
        if touch_pad {
            tracing::warn!(name = device.name(), "touch pads are not supported; this one does nothing");
        }
        return None;
    }
    let multi_touch = has_axis(Axis::ABS_MT_SLOT);
    let axes =
        if multi_touch { [Axis::ABS_MT_POSITION_X, Axis::ABS_MT_POSITION_Y] } else { [Axis::ABS_X, Axis::ABS_Y] };
    let pressure = if multi_touch { Axis::ABS_MT_PRESSURE } else { Axis::ABS_PRESSURE };
    let range = |wanted: Axis| -> Option<Range> {
        let mut infos = device.get_absinfo().ok()?;
        infos.find(|(axis, _)| *axis == wanted).map(|(_, info)| (info.minimum(), info.maximum()))
    };
    let capabilities = Capabilities {
        keys,
        relative_motion: moves(Relative::REL_X),
        fine_wheel: moves(Relative::REL_WHEEL_HI_RES),
        position_ranges: range(axes[0]).zip(range(axes[1])).map(|(across, down)| [across, down]),
        direct_touch: has_key(KeyCode::BTN_TOUCH) && direct,
        multi_touch,
        pressure: range(pressure),
    };
    (capabilities.keys || capabilities.relative_motion || capabilities.position_ranges.is_some())
        .then_some(capabilities)
}

/// Sends a device's actions until it is unplugged.
async fn read((mut stream, mut reader): (EventStream, Reader), device: u32, sender: mpsc::Sender<DeviceActions>) {
    loop {
        let event = match stream.next_event().await {
            Ok(event) => event,
            Err(error) => {
                tracing::info!(%error, name = stream.device().name(), "an input device is gone");
                return;
            }
        };
        let mut actions = Vec::new();
        reader.on_event(event, &mut actions);
        if !actions.is_empty() && sender.send(DeviceActions { device, actions }).await.is_err() {
            return;
        }
    }
}
