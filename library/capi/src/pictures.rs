//! Calls that submit pictures from memory.

use std::ffi::{CString, c_char};
use std::sync::LazyLock;

use nearlight_embed::{Content, Image, Layout, PLANES_SHADER, Picture, PixelOrder, Plane, Rows, Size, Time, View};

use crate::fault::{Fault, guard};
use crate::hosts;
use crate::memory::{self, bytes, check};
use crate::types::{nl_host, nl_layout, nl_lent, nl_picture, nl_picture_flags, nl_pixel_format, nl_plane, nl_status};
use crate::values::view;

/// Takes a picture: converts it, in this thread, into the memory that encoders read, and returns while it is encoded beside: a
/// millisecond or two. Memory is allocated only for the first pictures of a size. Of two pictures that wait the newer one is sent. Where
/// nobody watches it is checked and dropped. With nl_options' `synchronous` it is encoded in this thread too, and returns once its packets
/// have left as far as they may at once; it waits for them 5 ms at most.
///
/// # Safety
/// `picture` is null or as large as its `size` says, and its planes have the rows that size, format and strides promise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_submit(host: *mut nl_host, picture: *const nl_picture) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // SAFETY: this function's contract.
        let given = unsafe { memory::read(picture) }?;
        let content = PictureContent::new(&given)?;
        // SAFETY: this function's contract.
        let image = unsafe { image(&given, &given.planes) }?;
        let right = if given.layout == nl_layout::Layers as u32 {
            // SAFETY: this function's contract.
            Some(unsafe { self::image(&given, &given.right) }?)
        } else {
            None
        };
        Ok(entry.host.submit(&Picture { image, right, content: content.content() })?)
    })
}

/// Lends memory for the planes of a picture, with an old one in it. What the program draws there is not copied when it is submitted.
/// At most 16 at a time.
///
/// # Safety
/// `lent` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_lend(host: *mut nl_host, width: u32, height: u32, lent: *mut nl_lent) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // SAFETY: this function's contract.
        unsafe { check(lent) }?;
        let size = size_of(width, height)?;
        let (id, planes) = entry.lend(entry.host.lend(size)?).map_err(|planes| {
            entry.host.put_back(planes);
            Fault::new(nl_status::Full, "16 pictures' planes are lent already: submit them or put them back")
        })?;
        let columns = usize::from(size.width);
        let strides = [columns, columns / 2, columns / 2];
        // SAFETY: this function's contract.
        unsafe { memory::write(lent, nl_lent { size: 0, id, width, height, planes, strides }) }
    })
}

/// GLSL (3.30, or ES 3.00) that makes planes out of pixels, for the last pass of a program that draws straight into the encoder's format.
/// Put it behind the `#version` line of a fragment shader that defines `vec3 nearlight_pixel(ivec2 place)`: the colour of a pixel counted
/// from the top left, each part from 0 to 1. `nearlight_plane(ivec2(gl_FragCoord.xy), size)` is then the value of a target of one byte a
/// pixel (GL_R8), as wide as the picture and half as high again. From the first row that glReadPixels answers it has luma, top down, then
/// the blue differences in the left half and the red ones in the right half: read each into lent planes. Valid as long as the library is loaded.
#[unsafe(no_mangle)]
pub extern "C" fn nl_planes_shader() -> *const c_char {
    static TEXT: LazyLock<CString> = LazyLock::new(|| CString::new(PLANES_SHADER).unwrap_or_default());
    TEXT.as_ptr()
}

/// Takes lent planes as a picture; their memory is not the program's any more. Of `content` the layout (NL_LAYOUT_MONO or
/// NL_LAYOUT_SIDE_BY_SIDE), `captured_at` and the views count; NULL stands for a picture of now for both eyes.
///
/// # Safety
/// `lent` and `content` are null or as large as their `size` says, and nobody writes to the planes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_submit_lent(
    host: *mut nl_host,
    lent: *const nl_lent,
    content: *const nl_picture,
) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // SAFETY: this function's contract.
        let lent = unsafe { memory::read(lent) }?;
        let given = if content.is_null() {
            None
        } else {
            // SAFETY: this function's contract.
            let content = unsafe { memory::read(content) }?;
            if content.layout == nl_layout::Layers as u32 {
                return Err(Fault::argument("lent planes have no second layer: draw both eyes side by side"));
            }
            Some(PictureContent::new(&content)?)
        };
        let content = given.as_ref().map_or(Content::default(), PictureContent::content);
        Ok(entry.host.submit_planes(entry.take_lent(lent.id)?, &content)?)
    })
}

/// Gives lent planes back that are not to be shown.
///
/// # Safety
/// `lent` is null or as large as its `size` says, and nobody writes to the planes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_put_back(host: *mut nl_host, lent: *const nl_lent) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // SAFETY: this function's contract.
        let lent = unsafe { memory::read(lent) }?;
        entry.host.put_back(entry.take_lent(lent.id)?);
        Ok(())
    })
}

/// The content description of a picture.
pub(crate) struct PictureContent {
    views: [View; 2],
    /// Number of used views.
    count: usize,
    captured_at: Option<Time>,
    side_by_side: bool,
}

impl PictureContent {
    pub(crate) fn new(picture: &nl_picture) -> Result<Self, Fault> {
        let count = picture.view_count as usize;
        if count > picture.views.len() {
            return Err(Fault::new(nl_status::Picture, format!("a picture has at most 2 views, not {count}")));
        }
        let layouts = [nl_layout::Mono, nl_layout::SideBySide, nl_layout::Layers];
        if layouts.iter().all(|layout| *layout as u32 != picture.layout) {
            return Err(Fault::new(
                nl_status::Picture,
                format!("{} is not an nl_layout: set it to one of NL_LAYOUT_...", picture.layout),
            ));
        }
        Ok(Self {
            views: picture.views.each_ref().map(view),
            count,
            captured_at: (picture.captured_at != 0).then(|| Time::from_nanos(picture.captured_at)),
            side_by_side: picture.layout == nl_layout::SideBySide as u32,
        })
    }

    /// Returns the description as the library's type.
    pub(crate) fn content(&self) -> Content<'_> {
        let Self { captured_at, side_by_side, .. } = *self;
        Content { captured_at, views: &self.views[..self.count], side_by_side }
    }
}

/// Converts and checks a picture's size.
pub(crate) fn size_of(width: u32, height: u32) -> Result<Size, Fault> {
    let side = |side: u32| u16::try_from(side).unwrap_or(u16::MAX);
    let size = Size { width: side(width), height: side(height) };
    // This must precede reading, because lengths follow from the size.
    size.check().map_err(|error| Fault::new(nl_status::Picture, error.to_string()))?;
    Ok(size)
}

/// Returns the order of a picture's rows, from its flags.
pub(crate) fn rows_of(picture: &nl_picture) -> Result<Rows, Fault> {
    let bottom_up = nl_picture_flags::BottomUp as u32;
    if picture.flags & !bottom_up != 0 {
        return Err(Fault::new(nl_status::Picture, format!("flags {:#x} has bits without a meaning", picture.flags)));
    }
    Ok(if picture.flags & bottom_up == 0 { Rows::TopDown } else { Rows::BottomUp })
}

/// Returns the image of a picture, or of its second layer.
///
/// # Safety
/// The planes have the rows that size, format and strides imply.
unsafe fn image<'a>(picture: &nl_picture, planes: &'a [nl_plane; 3]) -> Result<Image<'a>, Fault> {
    let size = size_of(picture.width, picture.height)?;
    let rows = rows_of(picture)?;
    let (width, height) = (usize::from(size.width), usize::from(size.height));
    let plane = |index: usize, columns: usize, rows: usize| {
        let nl_plane { bytes: address, stride } = planes[index];
        let stride = if stride == 0 { columns } else { stride };
        if stride < columns {
            let message =
                format!("plane {index} has rows of {columns} bytes, so that they cannot begin {stride} bytes apart");
            return Err(Fault::new(nl_status::Picture, message));
        }
        let Some(count) = stride.checked_mul(rows - 1).and_then(|bytes| bytes.checked_add(columns)) else {
            return Err(Fault::new(nl_status::Picture, format!("plane {index} has a stride of {stride} bytes")));
        };
        let what = format!("plane {index}");
        // SAFETY: guaranteed by the caller.
        Ok(Plane { bytes: unsafe { bytes(&what, address, count) }?, stride })
    };
    let packed = |order: PixelOrder| Ok::<_, Fault>(Layout::Packed(order, plane(0, width * order.bytes(), height)?));
    let layout = match picture.format {
        format if format == nl_pixel_format::Rgba as u32 => packed(PixelOrder::Rgba)?,
        format if format == nl_pixel_format::Bgra as u32 => packed(PixelOrder::Bgra)?,
        format if format == nl_pixel_format::Rgb as u32 => packed(PixelOrder::Rgb)?,
        format if format == nl_pixel_format::Nv12 as u32 => {
            Layout::Nv12([plane(0, width, height)?, plane(1, width, height / 2)?])
        }
        format if format == nl_pixel_format::I420 as u32 => {
            Layout::I420([plane(0, width, height)?, plane(1, width / 2, height / 2)?, plane(2, width / 2, height / 2)?])
        }
        format => {
            return Err(Fault::new(
                nl_status::Picture,
                format!("{format} is not an nl_pixel_format: set it to one of NL_PIXEL_FORMAT_..."),
            ));
        }
    };
    Ok(Image { size, layout, rows })
}
