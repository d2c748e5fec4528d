//! Memory that the display server writes a picture into.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapped file without a name.
pub(crate) struct SharedMemory {
    file: OwnedFd,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone in this process; its address may be used from any thread.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        let file = memfd_create("nearlight-picture", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, length as u64)?;
        // SAFETY: the kernel chooses the address, so nothing existing is replaced; the length is the file's.
        let start = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, &file, 0)? };
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(Self { file, start, length })
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// What the display server has written. It writes only between a request for a picture and its reply, and no slice is held by
    /// whoever asks: [`crate::capture`] waits for the reply, and a screen copy is made into memory of which nobody reads.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long as the slice and lives as long as `self`. The file is sealed by nobody, but only the display
        // server has it besides, and it does not shorten it. It writes only while a request is under way, during which no slice is held.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length and never unmapped before; no slice outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}
