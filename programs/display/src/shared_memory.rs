//! Memory into which the display server writes a picture.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapped anonymous file.
pub(crate) struct SharedMemory {
    file: OwnedFd,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: this value is the mapping's only owner in this process, and its address is valid on any thread.
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

    /// Returns what the display server has written. The server writes only between a request for a picture and its reply, during which no
    /// slice is held: [`crate::capture`] waits for the reply, and a screen copy is written into a buffer that nobody reads meanwhile.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long as the slice and lives as long as `self`. The file is not sealed, but only the display server has
        // it too, and does not shorten it. The server writes only during a request, while no slice is held.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length and never unmapped before; no slice outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}
