//! A virtual gamepad as a file that programs use like a device. It is in a FUSE file system of one folder, which the program's sandbox
//! shows as `/dev/input`.
//!
//! Containers and virtual machines often have no `/dev/uinput` ([`crate::gamepad_devices`]), and all programs on the machine see a device
//! that is created there. This file needs only `/dev/fuse`, and only the program sees it. It answers the requests of an event device
//! ([`crate::gamepad`]), with two restrictions:
//!
//! - The number of an uploaded effect is returned through an argument that FUSE does not copy back. Therefore each client has one effect,
//!   the newest, which is played for any number.
//! - SDL distinguishes devices by their device number, which is 0 for all files. Therefore there is only one gamepad.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, FileAttr, FileType, Filesystem, MountOption, PollHandle, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyPoll, Request,
};
use nearlight_units::lock;
use rustix::io::Errno;

use crate::clock::time_of_day;
use crate::input::gamepad::{EVENT_BYTES, OVERRUN, PadState, Rumble, event_bytes, plays_effect, uploads_effect};
use crate::input::motors::Motors;

/// The file's name among the input devices.
const FILE_NAME: &str = "event0";
const FOLDER_INODE: u64 = 1;
const FILE_INODE: u64 = 2;
/// Time for which the kernel may cache attributes. Requests are rare, so none are cached.
const CACHE_TIME: Duration = Duration::ZERO;
/// Maximum number of events queued for a client that does not read: about as many as for the kernel's own devices.
const MAX_QUEUED_EVENTS: usize = 256;
/// Maximum number of simultaneous clients. Guess: programs open a gamepad once or twice.
const MAX_CLIENTS: usize = 64;
/// Reads bypass the page cache and have no position (`FOPEN_DIRECT_IO`, `FOPEN_NONSEEKABLE`).
const OPEN_FLAGS: u32 = 1 | 1 << 2;
/// The client wants to be woken (`FUSE_POLL_SCHEDULE_NOTIFY`).
const POLL_SCHEDULE_NOTIFY: u32 = 1;
/// `POLLIN` and `POLLRDNORM`.
const READABLE: u32 = 0x41;
/// `POLLOUT` and `POLLWRNORM`.
const WRITABLE: u32 = 0x104;
/// The client reads without blocking (`O_NONBLOCK`).
const NON_BLOCKING: i32 = 0o4000;

/// The mounted folder. It is unmounted when this is dropped.
pub(crate) struct GamepadFile {
    device: Arc<Mutex<Device>>,
    folder: PathBuf,
    /// Whether creating the gamepad was attempted.
    created: bool,
    _session: BackgroundSession,
}

impl GamepadFile {
    /// Mounts the file system in an empty folder. The gamepad is created when its state is first set. `wake` is called when
    /// [`GamepadFile::poll_rumble`] has a new effect.
    pub(crate) fn mount(folder: &Path, wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let device = Arc::new(Mutex::new(Device { mounted: time_of_day(), ..Device::default() }));
        let mut options = vec![
            MountOption::FSName("nearlight".into()),
            MountOption::DefaultPermissions,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoExec,
        ];
        // Programs started by root run as another user. For other users, this option needs a permission and is unnecessary.
        if rustix::process::geteuid().is_root() {
            options.push(MountOption::AllowOther);
        }
        let files = Folder { device: Arc::clone(&device), wake: Box::new(wake) };
        let session = fuser::spawn_mount2(files, folder, &options)?;
        Ok(Self { device, folder: folder.to_owned(), created: false, _session: session })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Sets the gamepad's state. The first call creates it, which may fail.
    pub(crate) fn set(&mut self, state: PadState) -> io::Result<()> {
        if !std::mem::replace(&mut self.created, true) {
            // The file is created through the kernel, so that programs which watch the folder are notified.
            OpenOptions::new().write(true).create_new(true).open(self.folder.join(FILE_NAME))?;
        }
        lock(&self.device).set(state, time_of_day());
        Ok(())
    }

    /// Returns the motors' effect if it has changed, at most every 20 ms.
    pub(crate) fn poll_rumble(&self) -> Option<Rumble> {
        lock(&self.device).motors.poll(time_of_day())
    }

    /// Interrupts clients that block in a read, as a signal would: the kernel cannot end a process that waits for this one.
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

/// State that the file system's thread and the supervisor share.
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

/// A client that has the gamepad open.
#[derive(Default)]
struct Client {
    queue: VecDeque<[u8; EVENT_BYTES]>,
    /// Blocked reads and the number of bytes that each requests.
    reads: Vec<(ReplyData, usize)>,
    sleeper: Option<PollHandle>,
    /// The last effect that the client has uploaded.
    effect: Option<Rumble>,
}

impl Client {
    fn push(&mut self, events: &[[u8; EVENT_BYTES]], at: u64) {
        if self.queue.len() + events.len() > MAX_QUEUED_EVENTS {
            self.queue.clear();
            self.queue.push_back(event_bytes(OVERRUN, at));
        }
        self.queue.extend(events);
        while !self.queue.is_empty() && !self.reads.is_empty() {
            let (reply, size) = self.reads.remove(0);
            reply.data(&self.take(size));
        }
        if let Some(sleeper) = self.sleeper.take().filter(|_| !self.queue.is_empty()) {
            // Fails only if the client has ended.
            let _ = sleeper.notify();
        }
    }

    /// Takes as many complete events as fit into `size` bytes.
    fn take(&mut self, size: usize) -> Vec<u8> {
        let count = (size / EVENT_BYTES).min(self.queue.len());
        self.queue.drain(..count).flatten().collect()
    }
}

impl Device {
    fn set(&mut self, state: PadState, at: SystemTime) {
        let at = at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let events = state.events_since(self.state);
        self.state = state;
        let events: Vec<_> = events.into_iter().map(|event| event_bytes(event, at)).collect();
        if !events.is_empty() {
            self.clients.values_mut().for_each(|client| client.push(&events, at));
        }
    }

    /// Adds a client and returns its number.
    fn open(&mut self) -> Result<u64, Errno> {
        if self.clients.len() >= MAX_CLIENTS {
            return Err(Errno::MFILE);
        }
        let number = self.next;
        self.next += 1;
        self.clients.insert(number, Client::default());
        Ok(number)
    }

    fn attributes(&self, file: u64) -> Option<FileAttr> {
        let (time, kind, perm) = match file {
            // Clients detect changes by the folder's time, which therefore must not be constant.
            FOLDER_INODE => (self.created.unwrap_or(self.mounted), FileType::Directory, 0o755),
            FILE_INODE => (self.created?, FileType::RegularFile, 0o666),
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
        match lock(&self.device).attributes(FILE_INODE).filter(|_| parent == FOLDER_INODE && name == FILE_NAME) {
            Some(attributes) => reply.entry(&CACHE_TIME, &attributes, 0),
            None => reply.error(Errno::NOENT.raw_os_error()),
        }
    }

    fn getattr(&mut self, _: &Request<'_>, file: u64, _: Option<u64>, reply: ReplyAttr) {
        match lock(&self.device).attributes(file) {
            Some(attributes) => reply.attr(&CACHE_TIME, &attributes),
            None => reply.error(Errno::NOENT.raw_os_error()),
        }
    }

    fn create(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let mut device = lock(&self.device);
        if parent != FOLDER_INODE || name != FILE_NAME {
            return reply.error(Errno::PERM.raw_os_error());
        }
        device.created = Some(time_of_day());
        match (device.open(), device.attributes(FILE_INODE)) {
            (Ok(number), Some(attributes)) => reply.created(&CACHE_TIME, &attributes, 0, number, OPEN_FLAGS),
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
        } else if !client.queue.is_empty() {
            reply.data(&client.take(size));
        } else if flags & NON_BLOCKING != 0 {
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
        // Events of lights and other features that the device does not have are ignored.
        let plays = data.chunks_exact(EVENT_BYTES).filter_map(plays_effect).next_back();
        let wakes = plays.is_some_and(|plays| device.motors.request(if plays { effect } else { Rumble::default() }));
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
            let uploaded = Rumble::parse(data).zip(device.clients.get_mut(&client));
            return match uploaded {
                Some((effect, client)) => {
                    client.effect = Some(effect);
                    reply.ioctl(0, &[]);
                }
                None => reply.error(Errno::INVAL.raw_os_error()),
            };
        }
        match device.state.ioctl_reply(request) {
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
        if flags & POLL_SCHEDULE_NOTIFY != 0 {
            client.sleeper = Some(sleeper);
        }
        reply.poll(if client.queue.is_empty() { WRITABLE } else { READABLE | WRITABLE });
    }

    fn readdir(&mut self, _: &Request<'_>, _: u64, _: u64, from: i64, mut reply: ReplyDirectory) {
        let file = lock(&self.device).created.map(|_| (FILE_INODE, FileType::RegularFile, FILE_NAME));
        let folder = [(FOLDER_INODE, FileType::Directory, "."), (FOLDER_INODE, FileType::Directory, "..")];
        for ((inode, kind, name), next) in folder.into_iter().chain(file).zip(1..).skip(from.max(0) as usize) {
            if reply.add(inode, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
