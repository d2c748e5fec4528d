//! Virtual gamepads as kernel devices (uinput). They are the only devices in a folder that the program's sandbox shows as `/dev/input`.
//!
//! Unlike a file ([`crate::gamepad_file`]), each device has its own number, by which programs distinguish several of them. Devices require
//! root, and the machine's other programs see them too. The folder is a file system in memory. Devices appear in it as in the machine's own
//! `/dev/input`, so that programs which watch the folder are notified.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use evdev::uinput::VirtualDevice;
use evdev::{
    AbsInfo, AbsoluteAxisCode, AttributeSet, BusType, EventSummary, FFEffectCode, FFEffectKind, InputEvent, InputId,
    KeyCode, UInputCode, UinputAbsSetup,
};
use nearlight_units::lock;
use nearlight_wire::{MAX_GAMEPADS, SERVED_GAMEPAD};
use rustix::fs::{CWD, Dev, FileType, Mode, OFlags, fcntl_setfl, makedev, mknodat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::clock::time_of_day;
use crate::input::gamepad::{AXES, DEVICE_NAME, IDENTIFIERS, PadState, Rumble, event_bytes, keys};
use crate::input::gamepads::PadChange;
use crate::input::motors::{Effects, MAX_EFFECTS, Motors};
use crate::x11::connection::{WakePipe, Waker, wake_pipe};

const UINPUT: &str = "/dev/uinput";
/// The kernel's list of input handlers, one per line.
const HANDLERS_FILE: &str = "/proc/bus/input/handlers";
/// The major number of input devices.
const INPUT_MAJOR: u32 = 13;
/// A minor number that the kernel assigns to no input device.
const UNASSIGNED_MINOR: u32 = 200;

/// User and group id of a file's owner.
pub(crate) type Owner = (u32, u32);
type WakeCallback = Arc<dyn Fn() + Send + Sync>;

/// The program's gamepads. Each is created when its state is first set. Dropping this removes them and the folder.
pub(crate) struct GamepadDevices {
    pads: Box<[Pad; MAX_GAMEPADS]>,
    wake: WakeCallback,
    folder: DeviceFolder,
}

/// One of the program's gamepads.
#[derive(Default)]
enum Pad {
    #[default]
    Unused,
    /// Creating the device has failed, which was reported.
    Failed,
    Created(Device),
}

impl GamepadDevices {
    /// Prepares an empty folder for the gamepads of a program that runs as `owner`. The error says why that is impossible. `wake` is called
    /// when [`GamepadDevices::poll_rumble`] has a new effect.
    pub(crate) fn open(folder: &Path, owner: Owner, wake: impl Fn() + Send + Sync + 'static) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can show the program these devices alone".into());
        }
        let opened = OpenOptions::new().read(true).write(true).open(UINPUT);
        opened.map_err(|error| format!("{UINPUT}: {error}; `modprobe uinput` brings it where the kernel has it"))?;
        let handlers = fs::read_to_string(HANDLERS_FILE).map_err(|error| format!("{HANDLERS_FILE}: {error}"))?;
        if !handlers.contains("Name=evdev") {
            return Err("the kernel's module evdev is not loaded (modprobe evdev)".into());
        }
        let folder = DeviceFolder::mount(folder, owner)?;
        Ok(Self { pads: Box::default(), wake: Arc::new(wake), folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Sets the state of a gamepad. The first call for a gamepad creates it, which may fail.
    pub(crate) fn set(&mut self, PadChange { number, state }: PadChange) -> io::Result<()> {
        let Some(pad) = self.pads.get_mut(usize::from(number)) else { return Ok(()) };
        if matches!(pad, Pad::Unused) {
            *pad = Pad::Failed;
            *pad = Pad::Created(Device::make(&self.folder, &self.wake)?);
        }
        if let Pad::Created(device) = pad { device.set(state) } else { Ok(()) }
    }

    /// Returns a gamepad and its new effect, at most every 20 ms for each gamepad.
    pub(crate) fn poll_rumble(&self) -> Option<(u8, Rumble)> {
        self.pads.iter().zip(0..).find_map(|(pad, number)| {
            let Pad::Created(device) = pad else { return None };
            device.shared.motors().poll(time_of_day()).map(|rumble| (number, rumble))
        })
    }
}

/// A kernel device. It is removed when this is dropped.
struct Device {
    state: PadState,
    /// The file to which the device's events are written.
    events: File,
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// State shared with the thread that answers the kernel.
#[derive(Default)]
struct Shared {
    motors: Mutex<Motors>,
    closed: AtomicBool,
}

impl Shared {
    fn motors(&self) -> MutexGuard<'_, Motors> {
        lock(&self.motors)
    }
}

impl Device {
    fn make(folder: &DeviceFolder, wake: &WakeCallback) -> io::Result<Self> {
        let mut device = create_device()?;
        // The thread must block only in its wake pipe.
        fcntl_setfl(&device, OFlags::NONBLOCK)?;
        let events = File::from(device.as_fd().try_clone_to_owned()?);
        let (name, number) = event_file(&device.get_syspath()?)?;
        let (shared, wake, (waker, wake_pipe)) = (Arc::<Shared>::default(), Arc::clone(wake), wake_pipe()?);
        let thread = {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name("gamepad".into())
                .spawn(move || serve(&mut device, &wake_pipe, &shared, &*wake))?
        };
        let made = Self { state: PadState::default(), events, shared, waker, thread: Some(thread) };
        // The thread answers requests before programs can find the device.
        folder.add(&name, number)?;
        Ok(made)
    }

    fn set(&mut self, state: PadState) -> io::Result<()> {
        let events = state.events_since(self.state);
        self.state = state;
        // The kernel fills in the time.
        let bytes: Vec<u8> = events.into_iter().flat_map(|event| event_bytes(event, 0)).collect();
        self.events.write_all(&bytes)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.waker.wake();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn create_device() -> io::Result<VirtualDevice> {
    let keys: AttributeSet<KeyCode> = keys().map(KeyCode).collect();
    let effects: AttributeSet<FFEffectCode> = [FFEffectCode::FF_RUMBLE].into_iter().collect();
    let [bus, vendor, product, version] = IDENTIFIERS;
    let name = format!("{DEVICE_NAME} {SERVED_GAMEPAD}");
    let mut device = VirtualDevice::builder()?
        .name(&name)
        .input_id(InputId::new(BusType(bus), vendor, product, version))
        .with_keys(&keys)?
        .with_ff(&effects)?
        .with_ff_effects_max(MAX_EFFECTS as u32);
    for (code, [min, max, fuzz, flat]) in AXES {
        let range = AbsInfo::new(0, min, max, fuzz, flat, 0);
        device = device.with_absolute_axis(&UinputAbsSetup::new(AbsoluteAxisCode(code), range))?;
    }
    device.build()
}

/// Returns the name and the number of the event device in a device's folder in sysfs.
fn event_file(device: &Path) -> io::Result<(OsString, Dev)> {
    for entry in fs::read_dir(device)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b"event") {
            let text = fs::read_to_string(entry.path().join("dev"))?;
            let number = device_number(&text).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, text))?;
            return Ok((entry.file_name(), number));
        }
    }
    Err(io::Error::new(ErrorKind::NotFound, format!("{} has no event device", device.display())))
}

fn device_number(text: &str) -> Option<Dev> {
    let (major, minor) = text.trim_end().split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Answers programs that upload effects, which block until then, and reports the effects that they play, until the device is closed.
fn serve(device: &mut VirtualDevice, wake_pipe: &WakePipe, shared: &Shared, wake: &dyn Fn()) {
    let mut effects = Effects::default();
    while !shared.closed.load(Ordering::Acquire) {
        wake_pipe.wait_for(device, None);
        let events: Vec<InputEvent> = match device.fetch_events() {
            Ok(events) => events.collect(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            // The device was removed.
            Err(_) => return,
        };
        for event in events {
            if let Some(rumble) = on_event(device, event, &mut effects)
                && shared.motors().request(rumble)
            {
                wake();
            }
        }
    }
}

/// Handles an event of the kernel. Returns the motors' new effect, if it has changed.
fn on_event(device: &mut VirtualDevice, event: InputEvent, effects: &mut Effects) -> Option<Rumble> {
    match event.destructure() {
        EventSummary::UInput(event, UInputCode::UI_FF_UPLOAD, _) => {
            // Fails if the program has ended. Dropping `upload` sends the answer.
            let mut upload = device.process_ff_upload(event).ok()?;
            // The kernel rejects effects that the device does not support.
            let effect = upload.effect();
            let FFEffectKind::Rumble { strong_magnitude: strong, weak_magnitude: weak } = effect.kind else {
                upload.set_retval(-Errno::INVAL.raw_os_error());
                return None;
            };
            let rumble = Rumble { strong, weak, milliseconds: effect.replay.length };
            if !effects.on_upload(upload.effect_id(), rumble) {
                upload.set_retval(-Errno::NOSPC.raw_os_error());
            }
            None
        }
        EventSummary::UInput(event, UInputCode::UI_FF_ERASE, _) => {
            let erase = device.process_ff_erase(event).ok()?;
            effects.on_erase(erase.effect_id());
            None
        }
        EventSummary::ForceFeedback(_, FFEffectCode(effect), value) => effects.on_play(effect, value != 0),
        _ => None,
    }
}

/// A file system in memory that allows device files. It is unmounted when this is dropped.
struct DeviceFolder {
    path: PathBuf,
    owner: Owner,
}

impl DeviceFolder {
    fn mount(path: &Path, owner: Owner) -> Result<Self, String> {
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        mount("nearlight", path, "tmpfs", flags, c"mode=0755,size=64k,nr_inodes=64")
            .map_err(|error| format!("no file system in memory can be mounted: {error}"))?;
        let folder = Self { path: path.to_owned(), owner };
        folder.check().map_err(|error| format!("this machine lets no input device be opened: {error}"))?;
        Ok(folder)
    }

    /// Checks that devices can be opened, which a container may forbid. Opening a device that does not exist is enough to find out.
    fn check(&self) -> io::Result<()> {
        let name = OsStr::new("check");
        self.add(name, makedev(INPUT_MAJOR, UNASSIGNED_MINOR))?;
        let opened = File::open(self.path.join(name));
        fs::remove_file(self.path.join(name))?;
        match opened {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(()),
            opened => opened.map(drop),
        }
    }

    /// Adds a device file that only the program's user can open.
    fn add(&self, name: &OsStr, number: Dev) -> io::Result<()> {
        let path = self.path.join(name);
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, number)?;
        // Programs that could not open the file before are notified of this change.
        chown(&path, Some(self.owner.0), Some(self.owner.1))
    }
}

impl Drop for DeviceFolder {
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_writes_numbers_of_devices_as_text() {
        assert_eq!(device_number("13:256\n"), Some(makedev(13, 256)));
        assert_eq!([device_number("13"), device_number("13:x")], [None; 2]);
    }
}
