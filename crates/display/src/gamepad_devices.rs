//! The gamepads as devices of the kernel's (uinput), in a folder that shows nothing else, which the program's sandbox shows as `/dev/input`.
//!
//! Unlike a file ([`crate::gamepad_file`]), a device has a number of its own, by which programs tell several apart. It takes root, and the
//! machine's other programs see it as well. The folder is a file system in memory; a device appears there as it does in the machine's own
//! `/dev/input`, so that programs which watch the folder hear of it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use evdev::uinput::VirtualDevice;
use evdev::{
    AbsInfo, AbsoluteAxisCode, AttributeSet, BusType, EventSummary, FFEffectCode, FFEffectKind, InputEvent, InputId,
    KeyCode, UInputCode, UinputAbsSetup,
};
use nearlight_wire::{MAX_GAMEPADS, SERVED_GAMEPAD};
use rustix::fs::{CWD, Dev, FileType, Mode, OFlags, fcntl_setfl, makedev, mknodat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::connection::{Bell, Ringer, bell};
use crate::gamepad::{AXES, IDENTIFIERS, NAME, PadState, Rumble, event_bytes, keys};
use crate::gamepads::PadChange;
use crate::motors::{Effects, MOST_EFFECTS, Motors};

const UINPUT: &str = "/dev/uinput";
/// Number and name of what turns the kernel's input devices into files, in a line for each.
const HANDLERS: &str = "/proc/bus/input/handlers";
/// The kernel's number of input devices, and one among them that it never gives to any.
const INPUT_MAJOR: u32 = 13;
const NEVER_GIVEN: u32 = 200;

/// User and group.
pub(crate) type Owner = (u32, u32);
type Wake = Arc<dyn Fn() + Send + Sync>;

/// The program's gamepads, each from its first state on. They and the folder are gone when this is dropped.
pub(crate) struct GamepadDevices {
    pads: Box<[Pad; MAX_GAMEPADS]>,
    wake: Wake,
    folder: DeviceFolder,
}

/// One of the program's.
#[derive(Default)]
enum Pad {
    #[default]
    Unused,
    /// That it cannot be made was reported.
    Refused,
    Made(Device),
}

impl GamepadDevices {
    /// Prepares for gamepads in an empty folder, for a program of this user, or says why there cannot be any. `wake` is called when
    /// [`GamepadDevices::poll_rumble`] has something new.
    pub(crate) fn open(folder: &Path, owner: Owner, wake: impl Fn() + Send + Sync + 'static) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can show the program these devices alone".into());
        }
        let opened = OpenOptions::new().read(true).write(true).open(UINPUT);
        opened.map_err(|error| format!("{UINPUT}: {error}; `modprobe uinput` brings it where the kernel has it"))?;
        let handlers = fs::read_to_string(HANDLERS).map_err(|error| format!("{HANDLERS}: {error}"))?;
        if !handlers.contains("Name=evdev") {
            return Err("the kernel's module evdev is not loaded (modprobe evdev)".into());
        }
        let folder = DeviceFolder::mount(folder, owner)?;
        Ok(Self { pads: Box::default(), wake: Arc::new(wake), folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// A gamepad is as it is now. The first time, it appears, which may fail.
    pub(crate) fn set(&mut self, PadChange { number, state }: PadChange) -> io::Result<()> {
        let Some(pad) = self.pads.get_mut(usize::from(number)) else { return Ok(()) };
        if matches!(pad, Pad::Unused) {
            *pad = Pad::Refused;
            *pad = Pad::Made(Device::make(&self.folder, &self.wake)?);
        }
        if let Pad::Made(device) = pad { device.set(state) } else { Ok(()) }
    }

    /// A gamepad of whose motors the program wants something new; of each not more often than every 20 ms.
    pub(crate) fn poll_rumble(&self) -> Option<(u8, Rumble)> {
        self.pads.iter().zip(0..).find_map(|(pad, number)| {
            let Pad::Made(device) = pad else { return None };
            device.shared.motors().poll(now()).map(|rumble| (number, rumble))
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "what programs want of the motors is paced")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// One device of the kernel's. It is gone when this is dropped.
struct Device {
    state: PadState,
    /// Where its events go in.
    events: File,
    shared: Arc<Shared>,
    ringer: Ringer,
    thread: Option<JoinHandle<()>>,
}

/// With the thread that answers the kernel.
#[derive(Default)]
struct Shared {
    motors: Mutex<Motors>,
    closed: AtomicBool,
}

impl Shared {
    fn motors(&self) -> MutexGuard<'_, Motors> {
        self.motors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device {
    fn make(folder: &DeviceFolder, wake: &Wake) -> io::Result<Self> {
        let mut device = create()?;
        // So that the thread never waits but for its bell.
        fcntl_setfl(&device, OFlags::NONBLOCK)?;
        let events = File::from(device.as_fd().try_clone_to_owned()?);
        let (name, number) = event_file(&device.get_syspath()?)?;
        let (shared, wake, (ringer, bell)) = (Arc::<Shared>::default(), Arc::clone(wake), bell()?);
        let thread = {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name("gamepad".into()).spawn(move || answer(&mut device, &bell, &shared, &*wake))?
        };
        let made = Self { state: PadState::default(), events, shared, ringer, thread: Some(thread) };
        // Whoever finds it has its questions answered.
        folder.add(&name, number)?;
        Ok(made)
    }

    fn set(&mut self, state: PadState) -> io::Result<()> {
        let events = state.events_since(self.state);
        self.state = state;
        // The kernel sets the time.
        let bytes: Vec<u8> = events.into_iter().flat_map(|event| event_bytes(event, 0)).collect();
        self.events.write_all(&bytes)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.ringer.ring();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn create() -> io::Result<VirtualDevice> {
    let keys: AttributeSet<KeyCode> = keys().map(KeyCode).collect();
    let effects: AttributeSet<FFEffectCode> = [FFEffectCode::FF_RUMBLE].into_iter().collect();
    let [bus, vendor, product, version] = IDENTIFIERS;
    let name = format!("{NAME} {SERVED_GAMEPAD}");
    let mut device = VirtualDevice::builder()?
        .name(&name)
        .input_id(InputId::new(BusType(bus), vendor, product, version))
        .with_keys(&keys)?
        .with_ff(&effects)?
        .with_ff_effects_max(MOST_EFFECTS as u32);
    for (code, [least, most, fuzz, flat]) in AXES {
        let range = AbsInfo::new(0, least, most, fuzz, flat, 0);
        device = device.with_absolute_axis(&UinputAbsSetup::new(AbsoluteAxisCode(code), range))?;
    }
    device.build()
}

/// Name and number of the device in this folder of the kernel's that programs read.
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

/// Takes the effects that programs upload, which wait for that, and passes on which ones they play, until the device is closed.
fn answer(device: &mut VirtualDevice, bell: &Bell, shared: &Shared, wake: &dyn Fn()) {
    let mut effects = Effects::default();
    while !shared.closed.load(Ordering::Acquire) {
        bell.wait_for(device, None);
        let events: Vec<InputEvent> = match device.fetch_events() {
            Ok(events) => events.collect(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            // The device is gone.
            Err(_) => return,
        };
        for event in events {
            if let Some(rumble) = answer_one(device, event, &mut effects)
                && shared.motors().want(rumble)
            {
                wake();
            }
        }
    }
}

/// Returns what the motors are to do then, if that is something else.
fn answer_one(device: &mut VirtualDevice, event: InputEvent, effects: &mut Effects) -> Option<Rumble> {
    match event.destructure() {
        EventSummary::UInput(event, UInputCode::UI_FF_UPLOAD, _) => {
            // A program that has gone waits for no answer. Its answer is sent when this is dropped.
            let mut upload = device.process_ff_upload(event).ok()?;
            // The kernel lets no kind through that the device does not have.
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

/// A file system in memory in which devices can be opened. It is unmounted when this is dropped.
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

    /// In a container, devices may be forbidden: one that there is not tells it, too.
    fn check(&self) -> io::Result<()> {
        let name = OsStr::new("check");
        self.add(name, makedev(INPUT_MAJOR, NEVER_GIVEN))?;
        let opened = File::open(self.path.join(name));
        fs::remove_file(self.path.join(name))?;
        match opened {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(()),
            opened => opened.map(drop),
        }
    }

    /// Shows a device to the program's user alone.
    fn add(&self, name: &OsStr, number: Dev) -> io::Result<()> {
        let path = self.path.join(name);
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, number)?;
        // Programs that could not open it yet look again when it changes.
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
