//! Reads buffers that another device or process exports, without an intermediate copy.
//!
//! Only linear buffers are supported, because only the GPU knows the layout of a tiled buffer.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::{Content, Host, Image, Layout, Picture, PixelOrder, Plane, Rows, Size};

use crate::graphics::GraphicsError;

/// `DRM_FORMAT_MOD_LINEAR` of `drm_fourcc.h`: rows one after another.
pub const LINEAR: u64 = 0;
/// `DRM_FORMAT_MOD_INVALID` of `drm_fourcc.h`: the exporter does not specify a modifier. By convention of the kernel's older interfaces,
/// such a buffer is linear.
pub const UNSPECIFIED: u64 = (1 << 56) - 1;

/// `DMA_BUF_IOCTL_SYNC` of `linux/dma-buf.h`; its flags follow.
const SYNC: libc::Ioctl = libc::_IOW::<u64>(b'b' as u32, 0);
const SYNC_READ: u64 = 1;
const SYNC_END: u64 = 1 << 2;
/// Maximum number of bytes of a buffer. Guess: eight bytes for each pixel of the largest picture, with rows padded to twice their length.
const MAX_BUFFER_BYTES: usize = 4_096 * 4_096 * 16;

/// The code of a pixel format in `drm_fourcc.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fourcc(pub u32);

impl Fourcc {
    /// `AR24` and `XR24` have blue first in memory, `AB24` and `XB24` have red first.
    pub const ARGB8888: Self = Self::new(*b"AR24");
    pub const XRGB8888: Self = Self::new(*b"XR24");
    pub const ABGR8888: Self = Self::new(*b"AB24");
    pub const XBGR8888: Self = Self::new(*b"XB24");
    pub const NV12: Self = Self::new(*b"NV12");
    pub const YUV420: Self = Self::new(*b"YU12");

    /// Creates a code from its four letters.
    #[must_use]
    pub const fn new(letters: [u8; 4]) -> Self {
        Self(u32::from_le_bytes(letters))
    }
}

/// Position of a plane in the buffer, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct BufferPlane {
    pub offset: usize,
    pub stride: usize,
}

/// A picture in an exported buffer, or in shared memory (`memfd_create`).
#[derive(Clone, Copy, Debug)]
pub struct Buffer<'a> {
    pub descriptor: BorrowedFd<'a>,
    pub size: Size,
    pub format: Fourcc,
    pub modifier: u64,
    /// The format's planes; the others are ignored.
    pub planes: [BufferPlane; 3],
    pub rows: Rows,
}

/// Submits the picture in a buffer: maps the buffer, waits until the device that writes to it has finished, converts or copies it, and
/// unmaps it. Plain shared memory is read without waiting.
pub fn submit(host: &Host, buffer: &Buffer<'_>, content: Content<'_>) -> Result<(), GraphicsError> {
    if ![LINEAR, UNSPECIFIED].contains(&buffer.modifier) {
        return Err(GraphicsError::Argument(
            "the buffer is tiled, and only its GPU knows how: export it with DRM_FORMAT_MOD_LINEAR, or import it into OpenGL and submit the texture",
        ));
    }
    buffer.size.check().map_err(|error| GraphicsError::Host(error.into()))?;
    let (width, height) = (usize::from(buffer.size.width), usize::from(buffer.size.height));
    // Bytes of a row and number of rows, of each plane.
    let shapes: &[(usize, usize)] = match buffer.format {
        Fourcc::ARGB8888 | Fourcc::XRGB8888 | Fourcc::ABGR8888 | Fourcc::XBGR8888 => &[(width * 4, height)],
        Fourcc::NV12 => &[(width, height), (width, height / 2)],
        Fourcc::YUV420 => &[(width, height), (width / 2, height / 2), (width / 2, height / 2)],
        _ => {
            return Err(GraphicsError::Argument(
                "the buffer has a format that is not read: AR24, XR24, AB24, XB24, NV12 and YU12 are",
            ));
        }
    };
    let mut end = 0;
    for (plane, (columns, rows)) in buffer.planes.iter().zip(shapes) {
        let last = plane.stride.checked_mul(rows - 1).and_then(|bytes| bytes.checked_add(plane.offset + columns));
        let last = last.filter(|last| plane.stride >= *columns && *last <= MAX_BUFFER_BYTES);
        end = end.max(last.ok_or(GraphicsError::Argument(
            "a plane of the buffer has rows that overlap, or lie beyond what a picture can have",
        ))?);
    }
    let mapping = Mapping::read_only(buffer.descriptor, end)?;
    let access = Access::begin(buffer.descriptor)?;
    let bytes = mapping.bytes();
    let plane =
        |index: usize| Plane { bytes: &bytes[buffer.planes[index].offset..], stride: buffer.planes[index].stride };
    let layout = match buffer.format {
        Fourcc::NV12 => Layout::Nv12([plane(0), plane(1)]),
        Fourcc::YUV420 => Layout::I420([plane(0), plane(1), plane(2)]),
        Fourcc::ABGR8888 | Fourcc::XBGR8888 => Layout::Packed(PixelOrder::Rgba, plane(0)),
        _ => Layout::Packed(PixelOrder::Bgra, plane(0)),
    };
    let image = Image { size: buffer.size, layout, rows: buffer.rows };
    let submitted = host.submit(&Picture { content, ..Picture::new(image) });
    drop(access);
    Ok(submitted?)
}

/// The buffer's memory, mapped into this process.
struct Mapping {
    address: *mut c_void,
    length: usize,
}

impl Mapping {
    fn read_only(descriptor: BorrowedFd<'_>, length: usize) -> Result<Self, GraphicsError> {
        // Reading mapped memory beyond the end of the file raises a signal.
        // SAFETY: an open descriptor; nothing is read or written.
        let file_length = unsafe { libc::lseek(descriptor.as_raw_fd(), 0, libc::SEEK_END) };
        if file_length < 0 {
            return Err(GraphicsError::Memory { what: "measured", source: io::Error::last_os_error() });
        }
        if usize::try_from(file_length).is_ok_and(|file_length| file_length < length) {
            return Err(GraphicsError::Argument("the buffer is smaller than its planes' offsets and strides say"));
        }
        let (access, kind) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses; which replaces no other mapping.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, descriptor.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(GraphicsError::Memory { what: "mapped", source: io::Error::last_os_error() });
        }
        Ok(Self { address, length })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for reading with this length as long as `self` lives. Others that share the memory may write to it meanwhile,
        // which tears the picture; the bytes are only used as colours, and they are read once.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped above, and no reference outlives this.
        unsafe { libc::munmap(self.address, self.length) };
    }
}

/// Read access of the processor: caches are coherent, and the device has finished writing. `None` for plain shared memory.
struct Access<'a>(Option<BorrowedFd<'a>>);

impl<'a> Access<'a> {
    fn begin(descriptor: BorrowedFd<'a>) -> Result<Self, GraphicsError> {
        match sync(descriptor, SYNC_READ) {
            Ok(()) => Ok(Self(Some(descriptor))),
            // Plain shared memory.
            Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => Ok(Self(None)),
            Err(source) => Err(GraphicsError::Memory { what: "read by the processor", source }),
        }
    }
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        if let Some(descriptor) = self.0 {
            // An error has no consequence: the picture has been read.
            let _ = sync(descriptor, SYNC_READ | SYNC_END);
        }
    }
}

fn sync(descriptor: BorrowedFd<'_>, flags: u64) -> io::Result<()> {
    loop {
        // SAFETY: the argument of DMA_BUF_IOCTL_SYNC is a structure of one u64; other drivers reject an unknown request.
        let done = unsafe { libc::ioctl(descriptor.as_raw_fd(), SYNC, &raw const flags) };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsFd, FromRawFd};

    use crate::Options;

    use super::*;

    fn shared(bytes: usize) -> File {
        // SAFETY: the name ends with a zero byte; the descriptor is new and has no other owner.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"a picture".as_ptr(), libc::MFD_CLOEXEC)) };
        file.set_len(bytes as u64).expect("room");
        file
    }

    #[test]
    fn what_cannot_be_read_is_refused_in_words() {
        let host =
            Host::open(&Options { address: Some([127, 0, 0, 1].into()), ..Options::default() }).expect("a server");
        let memory = shared(64 * 32 * 4);
        let buffer = Buffer {
            descriptor: memory.as_fd(),
            size: Size { width: 64, height: 32 },
            format: Fourcc::XRGB8888,
            modifier: LINEAR,
            planes: [BufferPlane { offset: 0, stride: 256 }; 3],
            rows: Rows::TopDown,
        };
        let refused = |buffer: &Buffer<'_>, word: &str| {
            let error = submit(&host, buffer, Content::default()).expect_err(word).to_string();
            assert!(error.contains(word), "{word}: {error}");
        };
        submit(&host, &buffer, Content::default()).expect("a picture");
        refused(&Buffer { modifier: 1 << 56 | 1, ..buffer }, "tiled");
        refused(&Buffer { format: Fourcc::new(*b"P010"), ..buffer }, "format");
        refused(&Buffer { planes: [BufferPlane { offset: 1, stride: 256 }; 3], ..buffer }, "smaller");
        refused(&Buffer { planes: [BufferPlane { offset: 0, stride: 255 }; 3], ..buffer }, "overlap");
        refused(&Buffer { planes: [BufferPlane { offset: 0, stride: usize::MAX }; 3], ..buffer }, "beyond");
        refused(&Buffer { size: Size { width: 63, height: 32 }, ..buffer }, "even");
        let pipe = std::io::pipe().expect("a pipe").0;
        refused(&Buffer { descriptor: pipe.as_fd(), ..buffer }, "measured");
    }
}
