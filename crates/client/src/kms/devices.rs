//! Finds the machine's keyboards, mice, tablets and touch screens, and takes them for the viewer alone.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use evdev::{AbsoluteAxisCode as Axis, Device, EventStream, KeyCode, PropType, RelativeAxisCode as Relative};
use nearlight_net::Clock;
use nearlight_units::Span;
use tokio::sync::mpsc;

use super::events::{Abilities, Act, Range, Reader};

const FOLDER: &str = "/dev/input";
/// A device that is plugged in works within this time.
const LOOK_AGAIN: Span = Span::from_secs(1);

/// What a device did; devices are numbered.
pub struct DeviceActs {
    pub device: u32,
    pub acts: Vec<Act>,
}

/// Reads all devices, also those that are plugged in later, until the receiver is dropped.
pub async fn follow(clock: Clock, tell: mpsc::Sender<DeviceActs>) {
    let mut known = BTreeSet::new();
    let mut devices = 0;
    let mut complained = false;
    while !tell.is_closed() {
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
                    if let Some(reader) = take(device) {
                        devices += 1;
                        tokio::spawn(read(reader, devices, tell.clone()));
                    }
                }
                // It may be allowed a moment after it was plugged in.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => denied = Some(path),
                Err(error) => tracing::debug!(%error, path = %path.display(), "an input device cannot be opened"),
            }
        }
        if let Some(path) = denied.filter(|_| devices == 0 && !complained) {
            complained = true;
            tracing::warn!(
                "no permission to read input devices such as {}, so that keyboard, mouse and touch screen do nothing: add the user \
                 to the group `input` (`sudo usermod -aG input $USER`, then log in again)",
                path.display()
            );
        }
        clock.sleep_until(clock.now() + LOOK_AGAIN).await;
    }
}

fn event_files() -> impl Iterator<Item = PathBuf> {
    let files = std::fs::read_dir(FOLDER).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_event = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("event"));
    files.filter(move |path| is_event(path))
}

/// None for a device that is of no use here; gamepads are read elsewhere.
fn take(mut device: Device) -> Option<(EventStream, Reader)> {
    let name = device.name().unwrap_or("an input device").to_owned();
    let abilities = abilities(&device)?;
    // What is typed must not reach the shell on the console as well.
    if let Err(error) = device.grab() {
        tracing::warn!(%error, name, "another program reads this input device too");
    }
    let stream = device.into_event_stream();
    let stream = stream.inspect_err(|error| tracing::warn!(%error, name, "this input device cannot be read")).ok()?;
    tracing::info!(name, "an input device is in use");
    Some((stream, Reader::new(abilities)))
}

fn abilities(device: &Device) -> Option<Abilities> {
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
    let fingers = has_axis(Axis::ABS_MT_SLOT);
    let axes = if fingers { [Axis::ABS_MT_POSITION_X, Axis::ABS_MT_POSITION_Y] } else { [Axis::ABS_X, Axis::ABS_Y] };
    let pressure = if fingers { Axis::ABS_MT_PRESSURE } else { Axis::ABS_PRESSURE };
    let range = |wanted: Axis| -> Option<Range> {
        let mut infos = device.get_absinfo().ok()?;
        infos.find(|(axis, _)| *axis == wanted).map(|(_, info)| (info.minimum(), info.maximum()))
    };
    let abilities = Abilities {
        keys,
        moves: moves(Relative::REL_X),
        fine_wheel: moves(Relative::REL_WHEEL_HI_RES),
        places: range(axes[0]).zip(range(axes[1])).map(|(across, down)| [across, down]),
        touched: has_key(KeyCode::BTN_TOUCH) && direct,
        fingers,
        pressure: range(pressure),
    };
    (abilities.keys || abilities.moves || abilities.places.is_some()).then_some(abilities)
}

/// Reads a device until it is unplugged.
async fn read((mut stream, mut reader): (EventStream, Reader), device: u32, tell: mpsc::Sender<DeviceActs>) {
    loop {
        let event = match stream.next_event().await {
            Ok(event) => event,
            Err(error) => {
                tracing::info!(%error, name = stream.device().name(), "an input device is gone");
                return;
            }
        };
        let mut acts = Vec::new();
        reader.on_event(event, &mut acts);
        if !acts.is_empty() && tell.send(DeviceActs { device, acts }).await.is_err() {
            return;
        }
    }
}
