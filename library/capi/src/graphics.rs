//! Calls that submit pictures from graphics memory.

use std::ffi::c_void;
use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use nearlight_embed::PixelOrder;
use nearlight_embed::graphics::GraphicsError;
use nearlight_embed::graphics::dmabuf::{self, Buffer, BufferPlane, Fourcc};
use nearlight_embed::graphics::gl::{Conversion, Delivery, Reader, ReaderOptions};
use nearlight_units::lock;

use crate::fault::{Fault, guard};
use crate::handles::Handles;
use crate::hosts;
use crate::memory;
use crate::pictures::{PictureContent, rows_of, size_of};
use crate::types::{
    nl_conversion, nl_dmabuf, nl_gl, nl_gl_loader, nl_gl_options, nl_host, nl_layout, nl_picture, nl_pixel_format,
    nl_status,
};

static READERS: Handles<Entry> = Handles::new();

struct Entry {
    host: Arc<hosts::Entry>,
    /// `None` once the reader is closed.
    reader: Mutex<Option<Reader>>,
}

impl From<GraphicsError> for Fault {
    fn from(error: GraphicsError) -> Self {
        match error {
            GraphicsError::Host(error) => error.into(),
            GraphicsError::NoContext | GraphicsError::Argument(_) => Self::argument(error.to_string()),
            GraphicsError::Version(_)
            | GraphicsError::Gl { .. }
            | GraphicsError::Vulkan { .. }
            | GraphicsError::Memory { .. } => Self::new(nl_status::System, error.to_string()),
        }
    }
}

fn get(gl: *const nl_gl) -> Result<Arc<Entry>, Fault> {
    if gl.is_null() {
        return Err(Fault::argument("the reader is NULL: pass what nl_gl_open has written"));
    }
    READERS.get(gl.addr()).ok_or_else(|| Fault::new(nl_status::Closed, "the reader was closed, or was never open"))
}

impl Entry {
    fn read(&self, work: impl FnOnce(&mut Reader) -> Result<(), GraphicsError>) -> Result<(), Fault> {
        let mut reader = lock(&self.reader);
        let reader = reader.as_mut().ok_or_else(|| Fault::new(nl_status::Closed, "the reader was closed"))?;
        Ok(work(reader)?)
    }
}

/// Prepares to read pictures of the OpenGL context that is current in this thread (OpenGL 3.3, OpenGL ES 3.0, or later). `loader` finds
/// OpenGL's functions and is called with `user`, in this call alone; NULL: as EGL or GLX does. NULL options are the usual ones. Writes the
/// reader to `gl`, or NULL where it fails. The other nl_gl calls are made with the same context current, and leave its state as it was.
///
/// # Safety
/// `loader` answers functions of the current context; `options` is null or as large as its `size` says; `gl` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_gl_open(
    host: *mut nl_host,
    loader: nl_gl_loader,
    user: *mut c_void,
    options: *const nl_gl_options,
    gl: *mut *mut nl_gl,
) -> nl_status {
    guard(|| {
        if gl.is_null() || !gl.is_aligned() {
            return Err(Fault::argument("the pointer for the reader is NULL: pass the address of an nl_gl pointer"));
        }
        // SAFETY: not null, aligned, and writable by contract.
        unsafe { gl.write(std::ptr::null_mut()) };
        let host = hosts::get(host)?;
        let options = if options.is_null() {
            ReaderOptions::default()
        } else {
            // SAFETY: this function's contract.
            let given = unsafe { memory::read(options) }?;
            ReaderOptions {
                delivery: if given.at_once == 0 { Delivery::Deferred } else { Delivery::Immediate },
                conversion: conversion(given.conversion)?,
            }
        };
        let reader = match loader {
            // SAFETY: this function's contract; names end with a zero byte.
            Some(loader) => unsafe { Reader::new(|name| loader(user, name.as_ptr()), options) },
            // SAFETY: the system's libraries have created the current context.
            None => unsafe { Reader::for_current_context(options) },
        };
        let number = READERS.add(Entry { host, reader: Mutex::new(Some(reader?)) });
        // SAFETY: as above.
        unsafe { gl.write(std::ptr::without_provenance_mut(number)) };
        Ok(())
    })
}

fn conversion(number: u32) -> Result<Conversion, Fault> {
    [
        (nl_conversion::Auto, Conversion::Auto),
        (nl_conversion::Processor, Conversion::Processor),
        (nl_conversion::Shader, Conversion::Shader),
    ]
    .into_iter()
    .find_map(|(named, conversion)| (named as u32 == number).then_some(conversion))
    .ok_or_else(|| Fault::argument(format!("{number} is not an nl_conversion: set it to one of NL_CONVERSION_...")))
}

/// Takes a two-dimensional texture of the context as a picture. Of `picture` its size, layout (NL_LAYOUT_MONO or NL_LAYOUT_SIDE_BY_SIDE),
/// `flags`, `captured_at` and views count; what OpenGL has drawn is NL_PICTURE_FLAGS_BOTTOM_UP.
///
/// # Safety
/// The reader's context is current and has this texture, of the picture's size; `picture` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_gl_submit_texture(gl: *mut nl_gl, texture: u32, picture: *const nl_picture) -> nl_status {
    guard(|| {
        let entry = get(gl)?;
        // SAFETY: this function's contract.
        let (given, picture) = unsafe { read(picture) }?;
        let texture = NonZeroU32::new(texture).ok_or_else(|| Fault::argument("texture 0 is none"))?;
        let (size, rows) = (size_of(picture.width, picture.height)?, rows_of(&picture)?);
        // SAFETY: this function's contract.
        entry.read(|reader| unsafe { reader.submit_texture(&entry.host.host, texture, size, rows, given.content()) })
    })
}

/// Takes what is drawn in a frame buffer of the context, 0 for the window's, as a picture, from its read buffer. Of `picture` its size, layout,
/// `captured_at` and views count; it is bottom up as OpenGL has it.
///
/// # Safety
/// The reader's context is current and has this frame buffer, at least of the picture's size; `picture` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_gl_submit_framebuffer(
    gl: *mut nl_gl,
    framebuffer: u32,
    picture: *const nl_picture,
) -> nl_status {
    guard(|| {
        let entry = get(gl)?;
        // SAFETY: this function's contract.
        let (given, picture) = unsafe { read(picture) }?;
        let (framebuffer, size) = (NonZeroU32::new(framebuffer), size_of(picture.width, picture.height)?);
        // SAFETY: this function's contract.
        entry.read(|reader| unsafe { reader.submit_framebuffer(&entry.host.host, framebuffer, size, given.content()) })
    })
}

/// Takes pixels that the program has read into a pixel buffer of the context, rows without padding, and waits until they are there. Of
/// `picture` its format (NL_PIXEL_FORMAT_RGBA, _BGRA or _RGB), size, layout, `flags`, `captured_at` and views count.
///
/// # Safety
/// The reader's context is current and has this buffer, which is not mapped; `picture` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_gl_submit_buffer(gl: *mut nl_gl, buffer: u32, picture: *const nl_picture) -> nl_status {
    guard(|| {
        let entry = get(gl)?;
        // SAFETY: this function's contract.
        let (given, picture) = unsafe { read(picture) }?;
        let buffer = NonZeroU32::new(buffer).ok_or_else(|| Fault::argument("buffer 0 is none"))?;
        let orders = [
            (nl_pixel_format::Rgba, PixelOrder::Rgba),
            (nl_pixel_format::Bgra, PixelOrder::Bgra),
            (nl_pixel_format::Rgb, PixelOrder::Rgb),
        ];
        let order = orders.into_iter().find(|(known, _)| *known as u32 == picture.format).map(|(_, order)| order);
        let order = order.ok_or_else(|| {
            Fault::new(nl_status::Picture, "pixel buffers are read as RGBA, BGRA or RGB: set the picture's format")
        })?;
        let kind = (size_of(picture.width, picture.height)?, order, rows_of(&picture)?);
        // SAFETY: this function's contract.
        entry.read(|reader| unsafe { reader.submit_buffer(&entry.host.host, buffer, kind, given.content()) })
    })
}

/// Hands over what is still being read.
///
/// # Safety
/// The reader's context is current.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_gl_finish(gl: *mut nl_gl) -> nl_status {
    guard(|| {
        let entry = get(gl)?;
        // SAFETY: this function's contract.
        entry.read(|reader| unsafe { reader.finish(&entry.host.host) })
    })
}

/// Deletes what the reader has in its context. Before the context, and after or before nl_close.
///
/// # Safety
/// The reader's context is current.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_gl_close(gl: *mut nl_gl) -> nl_status {
    guard(|| {
        let entry = get(gl)?;
        READERS.remove(gl.addr());
        if let Some(reader) = lock(&entry.reader).take() {
            // SAFETY: this function's contract.
            unsafe { reader.delete() };
        }
        Ok(())
    })
}

/// Takes a picture out of a buffer that another device or process exports: maps it, waits until the device has finished writing, converts or
/// copies it in this thread, and unmaps it. Of `picture` its size, layout (NL_LAYOUT_MONO or NL_LAYOUT_SIDE_BY_SIDE), `flags`, `captured_at`
/// and views count. Tiled buffers are refused: import them into OpenGL and submit the texture.
///
/// # Safety
/// `buffer` and `picture` are null or as large as their `size` says; the descriptor is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_submit_dmabuf(
    host: *mut nl_host,
    buffer: *const nl_dmabuf,
    picture: *const nl_picture,
) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // SAFETY: this function's contract.
        let buffer = unsafe { memory::read(buffer) }?;
        // SAFETY: this function's contract.
        let (given, picture) = unsafe { read(picture) }?;
        if buffer.descriptor < 0 {
            return Err(Fault::argument("the buffer's descriptor is negative, which none is"));
        }
        let plane = |index: usize| BufferPlane { offset: buffer.offsets[index], stride: buffer.strides[index] };
        let buffer = Buffer {
            // SAFETY: open during this call by contract.
            descriptor: unsafe { BorrowedFd::borrow_raw(buffer.descriptor) },
            size: size_of(picture.width, picture.height)?,
            format: Fourcc(buffer.fourcc),
            modifier: buffer.modifier,
            planes: [plane(0), plane(1), plane(2)],
            rows: rows_of(&picture)?,
        };
        Ok(dmabuf::submit(&entry.host, &buffer, given.content())?)
    })
}

/// Reads a picture whose pixels are in graphics memory.
///
/// # Safety
/// `picture` is null or as large as its `size` says.
pub(crate) unsafe fn read(picture: *const nl_picture) -> Result<(PictureContent, nl_picture), Fault> {
    // SAFETY: guaranteed by the caller.
    let picture = unsafe { memory::read(picture) }?;
    if picture.layout == nl_layout::Layers as u32 {
        return Err(Fault::argument("a picture in graphics memory has no second layer: draw both eyes side by side"));
    }
    Ok((PictureContent::new(&picture)?, picture))
}
