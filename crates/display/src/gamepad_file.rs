//! The gamepad as a file that programs take for a device: a file system of one folder, which the program's sandbox shows as `/dev/input`.
//!
//! Kernels in containers and virtual machines often have no `/dev/uinput` ([`crate::gamepad_devices`]), and a device made there is every
//! program's on the machine. This way needs only `/dev/fuse`, and the gamepad is the program's alone. The file answers the requests of an event device
//! ([`crate::gamepad`]). What a file cannot do as a device does:
//!
//! - A program that uploads an effect is not told the effect's number, which comes back through an argument that only goes in. So each
//!   client has one effect, the newest, which is played whatever number it says.
//! - All files have the device number 0, by which SDL tells devices apart, so there is one gamepad.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, FileAttr, FileType, Filesystem, MountOption, PollHandle, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyPoll, Request,
};
use rustix::io::Errno;

use crate::gamepad::{EVENT_BYTES, OVERRUN, PadState, Rumble, event_bytes, plays_effect, uploads_effect};
use crate::motors::Motors;

/// Its name among the input devices.
const NAME: &str = "event0";
const FOLDER: u64 = 1;
const FILE: u64 = 2;
/// How long the kernel may believe what it was told of a file: it is asked seldom.
const TTL: Duration = Duration::ZERO;
/// Events that wait for a client that does not read; the kernel's own devices keep about as many.
const MOST_WAITING: usize = 256;
/// Clients at a time: programs open a gamepad once or twice.
const MOST_CLIENTS: usize = 64;
/// Bytes are passed through as they are read, at no place in the file (`FOPEN_DIRECT_IO`, `FOPEN_NONSEEKABLE`).
const OPEN_FLAGS: u32 = 1 | 1 << 2;
/// The client wants to be woken (`FUSE_POLL_SCHEDULE_NOTIFY`).
const WAKE: u32 = 1;
/// `POLLIN`, `POLLRDNORM`, `POLLOUT`, `POLLWRNORM`.
const READABLE: u32 = 0x41;
const WRITABLE: u32 = 0x104;
const NO_WAITING: i32 = 0o4000;

/// The mounted folder. It is unmounted when this is dropped.
pub(crate) struct GamepadFile {
    device: Arc<Mutex<Device>>,
    folder: PathBuf,
    tried: bool,
    _session: BackgroundSession,
}

impl GamepadFile {
    /// Mounts it in an empty folder. The gamepad is there from its first state on. `wake` is called when
    /// [`GamepadFile::poll_rumble`] has something new.
    pub(crate) fn mount(folder: &Path, wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let device = Arc::new(Mutex::new(Device { mounted: now(), ..Device::default() }));
        let mut options = vec![
            MountOption::FSName("nearlight".into()),
            MountOption::DefaultPermissions,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoExec,
        ];
        // Root's programs run as another user. Others would need leave for this, and do not need it.
        if rustix::process::geteuid().is_root() {
            options.push(MountOption::AllowOther);
        }
        let files = Folder { device: Arc::clone(&device), wake: Box::new(wake) };
        let session = fuser::spawn_mount2(files, folder, &options)?;
        Ok(Self { device, folder: folder.to_owned(), tried: false, _session: session })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The gamepad is as it is now. The first time, it appears, which may fail.
    pub(crate) fn set(&mut self, state: PadState) -> io::Result<()> {
        if !std::mem::replace(&mut self.tried, true) {
            // Through the kernel, so that programs which watch the folder hear of it.
            OpenOptions::new().write(true).create_new(true).open(self.folder.join(NAME))?;
        }
        lock(&self.device).set(state, now());
        Ok(())
    }

    /// What the program wants of the motors, if that has changed; not more often than every 20 ms.
    pub(crate) fn poll_rumble(&self) -> Option<Rumble> {
        lock(&self.device).motors.poll(now())
    }

    /// Lets go of clients that wait within a read, as a signal would: the kernel cannot end a process that waits for this one.
    pub(crate) fn interrupt_reads(&self) {
        for client in lock(&self.device).clients.values_mut() {
            for (reply, _) in client.reads.drain(..) {
                reply.error(Errno::INTR.raw_os_error());
            }
        }
    }
}

impl Drop for GamepadFile {
    fn drop(&mut self) {
        self.interrupt_reads();
    }
}

#[expect(clippy::disallowed_methods, reason = "programs compare the times of events with their clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn lock(device: &Mutex<Device>) -> MutexGuard<'_, Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the file system's thread and the supervisor share.
struct Device {
    mounted: SystemTime,
    created: Option<SystemTime>,
    state: PadState,
    motors: Motors,
    clients: BTreeMap<u64, Client>,
    next: u64,
}

impl Default for Device {
    fn default() -> Self {
        Self {
            mounted: SystemTime::UNIX_EPOCH,
            created: None,
            state: PadState::default(),
            motors: Motors::default(),
            clients: BTreeMap::new(),
            next: 1,
        }
    }
}

/// Whoever has it open.
#[derive(Default)]
struct Client {
    waiting: VecDeque<[u8; EVENT_BYTES]>,
    /// It waits within these reads, for so many bytes each.
    reads: Vec<(ReplyData, usize)>,
    sleeper: Option<PollHandle>,
    /// The newest one that it has uploaded.
    effect: Option<Rumble>,
}

impl Client {
    fn put(&mut self, events: &[[u8; EVENT_BYTES]], at: u64) {
        if self.waiting.len() + events.len() > MOST_WAITING {
            self.waiting.clear();
            self.waiting.push_back(event_bytes(OVERRUN, at));
        }
        self.waiting.extend(events);
        while !self.waiting.is_empty() && !self.reads.is_empty() {
            let (reply, size) = self.reads.remove(0);
            reply.data(&self.take(size));
        }
        if let Some(sleeper) = self.sleeper.take().filter(|_| !self.waiting.is_empty()) {
            // A client that has gone needs no waking.
            let _ = sleeper.notify();
        }
    }

    /// As many whole events as there are and find room.
    fn take(&mut self, size: usize) -> Vec<u8> {
        let count = (size / EVENT_BYTES).min(self.waiting.len());
        self.waiting.drain(..count).flatten().collect()
    }
}

impl Device {
    fn set(&mut self, state: PadState, at: SystemTime) {
        let at = at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let events = state.events_since(self.state);
        self.state = state;
        let events: Vec<_> = events.into_iter().map(|event| event_bytes(event, at)).collect();
        if !events.is_empty() {
            self.clients.values_mut().for_each(|client| client.put(&events, at));
        }
    }

    /// A new client's number.
    fn open(&mut self) -> Result<u64, Errno> {
        if self.clients.len() >= MOST_CLIENTS {
            return Err(Errno::MFILE);
        }
        let number = self.next;
        self.next += 1;
        self.clients.insert(number, Client::default());
        Ok(number)
    }

    fn attributes(&self, file: u64) -> Option<FileAttr> {
        let (time, kind, perm) = match file {
            // Clients look for another time of the folder: it must not be 1970.
            FOLDER => (self.created.unwrap_or(self.mounted), FileType::Directory, 0o755),
            FILE => (self.created?, FileType::RegularFile, 0o666),
            _ => return None,
        };
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let (size, blocks, nlink, rdev, blksize, flags) = (0, 0, 1, 0, 512, 0);
        let (atime, mtime, ctime, crtime) = (time, time, time, time);
        Some(FileAttr {
            ino: file,
            size,
            blocks,
            atime,
            mtime,
            ctime,
            crtime,
            kind,
            perm,
            nlink,
            uid,
            gid,
            rdev,
            blksize,
            flags,
        })
    }
}

/// The file system.
struct Folder {
    device: Arc<Mutex<Device>>,
    wake: Box<dyn Fn() + Send>,
}

impl Filesystem for Folder {
    fn lookup(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEntry) {
        match lock(&self.device).attributes(FILE).filter(|_| parent == FOLDER && name == NAME) {
            Some(attributes) => reply.entry(&TTL, &attributes, 0),
            None => reply.error(Errno::NOENT.raw_os_error()),
        }
    }

    fn getattr(&mut self, _: &Request<'_>, file: u64, _: Option<u64>, reply: ReplyAttr) {
        match lock(&self.device).attributes(file) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::NOENT.raw_os_error()),
        }
    }

    fn create(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let mut device = lock(&self.device);
        if parent != FOLDER || name != NAME {
            return reply.error(Errno::PERM.raw_os_error());
        }
        device.created = Some(now());
        match (device.open(), device.attributes(FILE)) {
            (Ok(number), Some(attributes)) => reply.created(&TTL, &attributes, 0, number, OPEN_FLAGS),
            _ => reply.error(Errno::MFILE.raw_os_error()),
        }
    }

    fn open(&mut self, _: &Request<'_>, _: u64, _: i32, reply: ReplyOpen) {
        match lock(&self.device).open() {
            Ok(number) => reply.opened(number, OPEN_FLAGS),
            Err(error) => reply.error(error.raw_os_error()),
        }
    }

    fn read(
        &mut self,
        _: &Request<'_>,
        _: u64,
        client: u64,
        _: i64,
        size: u32,
        flags: i32,
        _: Option<u64>,
        reply: ReplyData,
    ) {
        let mut device = lock(&self.device);
        let Some(client) = device.clients.get_mut(&client) else { return reply.error(Errno::BADF.raw_os_error()) };
        let size = size as usize;
        if size < EVENT_BYTES {
            reply.error(Errno::INVAL.raw_os_error());
        } else if !client.waiting.is_empty() {
            reply.data(&client.take(size));
        } else if flags & NO_WAITING != 0 {
            reply.error(Errno::AGAIN.raw_os_error());
        } else {
            client.reads.push((reply, size));
        }
    }

    fn write(
        &mut self,
        _: &Request<'_>,
        _: u64,
        client: u64,
        _: i64,
        data: &[u8],
        _: u32,
        _: i32,
        _: Option<u64>,
        reply: fuser::ReplyWrite,
    ) {
        let mut device = lock(&self.device);
        let effect = device.clients.get(&client).and_then(|client| client.effect).unwrap_or_default();
        // Of lights that it does not have nothing is to be done.
        let wanted = data.chunks_exact(EVENT_BYTES).filter_map(plays_effect).next_back();
        let wakes = wanted.is_some_and(|plays| device.motors.want(if plays { effect } else { Rumble::default() }));
        drop(device);
        if wakes {
            (self.wake)();
        }
        reply.written(data.len() as u32);
    }

    fn release(&mut self, _: &Request<'_>, _: u64, client: u64, _: i32, _: Option<u64>, _: bool, reply: ReplyEmpty) {
        lock(&self.device).clients.remove(&client);
        reply.ok();
    }

    fn ioctl(
        &mut self,
        _: &Request<'_>,
        _: u64,
        client: u64,
        _: u32,
        request: u32,
        data: &[u8],
        room: u32,
        reply: ReplyIoctl,
    ) {
        let mut device = lock(&self.device);
        if uploads_effect(request) {
            let uploaded = Rumble::of(data).zip(device.clients.get_mut(&client));
            return match uploaded {
                Some((effect, client)) => {
                    client.effect = Some(effect);
                    reply.ioctl(0, &[]);
                }
                None => reply.error(Errno::INVAL.raw_os_error()),
            };
        }
        match device.state.answer(request) {
            Some((returned, bytes)) if bytes.len() <= room as usize => reply.ioctl(returned, &bytes),
            Some(_) => reply.error(Errno::INVAL.raw_os_error()),
            None => reply.error(Errno::NOTTY.raw_os_error()),
        }
    }

    fn poll(
        &mut self,
        _: &Request<'_>,
        _: u64,
        client: u64,
        sleeper: PollHandle,
        _: u32,
        flags: u32,
        reply: ReplyPoll,
    ) {
        let mut device = lock(&self.device);
        let Some(client) = device.clients.get_mut(&client) else { return reply.error(Errno::BADF.raw_os_error()) };
        if flags & WAKE != 0 {
            client.sleeper = Some(sleeper);
        }
        reply.poll(if client.waiting.is_empty() { WRITABLE } else { READABLE | WRITABLE });
    }

    fn readdir(&mut self, _: &Request<'_>, _: u64, _: u64, from: i64, mut reply: ReplyDirectory) {
        let file = lock(&self.device).created.map(|_| (FILE, FileType::RegularFile, NAME));
        let folder = [(FOLDER, FileType::Directory, "."), (FOLDER, FileType::Directory, "..")];
        for ((inode, kind, name), next) in folder.into_iter().chain(file).zip(1..).skip(from.max(0) as usize) {
            if reply.add(inode, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
