//! Accesses pictures in the memory of other Python objects, without copying those whose pixels lie as an encoder takes them.

use nearlight_embed::{Image, Layout, PixelOrder, Plane, Rows, Size};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error::{ErrorClass, wrong_type};
use crate::memory::{Memory, Owner, bytes_of};

/// Orders of colours by name.
const ORDERS: [(&str, PixelOrder); 4] =
    [("rgb", PixelOrder::Rgb), ("bgr", PixelOrder::Bgr), ("rgba", PixelOrder::Rgba), ("bgra", PixelOrder::Bgra)];

pub(crate) fn order_of(name: &str) -> PyResult<PixelOrder> {
    ORDERS.iter().find(|(known, _)| *known == name).map(|(_, order)| *order).ok_or_else(|| {
        ErrorClass::Usage.with_message(format!("`{name}` is not an order of colours: write rgb, bgr, rgba or bgra"))
    })
}

const fn order_name(order: PixelOrder) -> &'static str {
    match order {
        PixelOrder::Rgb => "rgb",
        PixelOrder::Bgr => "bgr",
        PixelOrder::Rgba => "rgba",
        PixelOrder::Bgra => "bgra",
    }
}

/// The arguments that describe a picture's memory.
pub(crate) struct PictureLayout {
    /// Order of colours of packed pixels; `None` for red first.
    pub(crate) order: Option<PixelOrder>,
    pub(crate) bottom_up: bool,
    /// Width and height of a picture in memory without dimensions.
    pub(crate) size: Option<(usize, usize)>,
    /// Bytes from one row to the next, in memory without dimensions.
    pub(crate) stride: Option<usize>,
}

/// The memory of one picture, which lives as long as this value.
pub(crate) struct Source {
    planes: Vec<HeldPlane>,
    size: Size,
    kind: Kind,
    rows: Rows,
}

enum Kind {
    Packed(PixelOrder),
    Nv12,
    I420,
}

/// One plane and its owner.
struct HeldPlane {
    /// Keeps the memory alive and in its place.
    _owner: Owner,
    start: *const u8,
    length: usize,
    stride: usize,
}

// SAFETY: `_owner` keeps the memory alive, and may be dropped in any thread.
unsafe impl Send for HeldPlane {}
// SAFETY: a shared reference allows only reading.
unsafe impl Sync for HeldPlane {}

impl HeldPlane {
    /// # Safety
    /// `length` bytes from `start` are in the owner's memory.
    const unsafe fn new(owner: Owner, start: *const u8, length: usize, stride: usize) -> Self {
        Self { _owner: owner, start, length, stride }
    }

    fn plane(&self) -> Plane<'_> {
        // SAFETY: these bytes are in the memory of `_owner` (see `new`), which neither disappears nor moves while that lives. Python
        // threads that write to it meanwhile tear the picture, as with any reader of the buffer protocol that lets other threads run, such
        // as NumPy. Every value of a byte is valid, and no decision depends on them. The package's documentation forbids such writes.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.length) };
        Plane { bytes, stride: self.stride }
    }
}

impl Source {
    /// Accesses a picture in an array, in memory without dimensions, or in a tuple of two or three planes.
    pub(crate) fn new(object: &Bound<'_, PyAny>, layout: &PictureLayout) -> PyResult<Self> {
        if object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
            return Self::of_planes(object, layout);
        }
        let memory = Memory::of(object, "the picture")?;
        match (memory.shape.len(), layout.size) {
            (2 | 3, None) => Self::of_array(memory, layout),
            (1, Some(size)) => Self::of_bytes(memory, size, layout),
            (2 | 3, Some(_)) => {
                Err(ErrorClass::Usage.with_message("an array has its size in its shape: leave `size` out"))
            }
            (dimensions, _) => Err(ErrorClass::Usage.with_message(format!(
                "the picture was not taken: its memory has {dimensions} dimensions. Pass an array of shape (height, width), \
                 (height, width, 1, 3 or 4) or (3 or 4, height, width), bytes with `size=(width, height)`, or a tuple of planes"
            ))),
        }
    }

    fn of_array(memory: Memory, layout: &PictureLayout) -> PyResult<Self> {
        let pixels = ArrayLayout::of(&memory).map_err(not_taken)?;
        let ArrayLayout { height, width, channels, from_row, from_pixel, from_channel } = pixels;
        let order = match (layout.order, channels) {
            (None, 1 | 3) => PixelOrder::Rgb,
            (None, 4) => PixelOrder::Rgba,
            (Some(order), _) if order.bytes() == channels => order,
            (Some(order), _) => {
                return Err(not_taken(format!(
                    "its pixels have {channels} values, and `{}` has {}",
                    order_name(order),
                    order.bytes()
                )));
            }
            (None, _) => return Err(not_taken(format!("its pixels have {channels} values"))),
        };
        let size = size_of(width, height)?;
        if channels == 1 || from_pixel == 1 {
            return Ok(Self::interleaved(&memory, &pixels, (size, order), layout));
        }
        let row = width * channels;
        // A view such as `array[..., ::-1]` has the opposite order of colours.
        let (order, back) = match (order, from_channel) {
            (order, 1) => (order, 0),
            (PixelOrder::Rgb, -1) => (PixelOrder::Bgr, 2),
            (PixelOrder::Bgr, -1) => (PixelOrder::Rgb, 2),
            _ => (order, usize::MAX),
        };
        // A view such as `array[::-1]` begins with the last row in memory.
        let stride = from_row.unsigned_abs();
        if back == usize::MAX || from_pixel != channels as isize || stride < row && height > 1 {
            return Err(not_taken(
                "the pixels of a row do not follow each other in memory. Pass numpy.ascontiguousarray(array), which copies, or the \
                 whole array of which this is a part, with `order`"
                    .to_owned(),
            ));
        }
        let upside_down = from_row < 0;
        let stride = if height > 1 { stride } else { row };
        let below = if upside_down { stride * (height - 1) } else { 0 };
        let length = stride * (height - 1) + row;
        let start = memory.start.wrapping_sub(below + back);
        // SAFETY: shape and strides describe the owner's memory (see `Memory`): the lowest byte of this view is `below + back` before its
        // first element, and its memory ends `length` bytes after the lowest one.
        let held = unsafe { HeldPlane::new(memory.owner, start, length, stride) };
        let rows = rows(layout.bottom_up != upside_down);
        Ok(Self { planes: vec![held], size, kind: Kind::Packed(order), rows })
    }

    /// Copies a picture whose values lie apart, such as grey levels or one plane for each colour.
    fn interleaved(
        memory: &Memory,
        pixels: &ArrayLayout,
        (size, order): (Size, PixelOrder),
        layout: &PictureLayout,
    ) -> Self {
        let &ArrayLayout { height, width, channels, from_row, from_pixel, from_channel } = pixels;
        let mut bytes = Vec::with_capacity(height * width * order.bytes());
        for row in 0..height as isize {
            for column in 0..width as isize {
                for value in 0..order.bytes() {
                    let channel = value.min(channels - 1) as isize;
                    let offset = row * from_row + column * from_pixel + channel * from_channel;
                    // SAFETY: row, column and channel are within the shape, whose elements lie in the owner's memory (see `Memory`).
                    bytes.push(unsafe { memory.start.wrapping_offset(offset).read() });
                }
            }
        }
        let (start, length, stride) = (bytes.as_ptr(), bytes.len(), width * order.bytes());
        // SAFETY: these are the bytes of the vector, whose memory stays in its place when the vector is moved.
        let held = unsafe { HeldPlane::new(Owner::Copy(bytes), start, length, stride) };
        Self { planes: vec![held], size, kind: Kind::Packed(order), rows: rows(layout.bottom_up) }
    }

    fn of_bytes(memory: Memory, (width, height): (usize, usize), layout: &PictureLayout) -> PyResult<Self> {
        let order = layout.order.unwrap_or(PixelOrder::Rgb);
        let size = size_of(width, height)?;
        let stride = layout.stride.unwrap_or(width * order.bytes());
        let held = contiguous_plane(memory, stride)?;
        Ok(Self { planes: vec![held], size, kind: Kind::Packed(order), rows: rows(layout.bottom_up) })
    }

    fn of_planes(object: &Bound<'_, PyAny>, layout: &PictureLayout) -> PyResult<Self> {
        if layout.order.is_some() || layout.size.is_some() || layout.stride.is_some() {
            return Err(ErrorClass::Usage.with_message(
                "planes are arrays that have their size in their shapes: leave order, size and stride out",
            ));
        }
        let memories: Vec<Memory> =
            object.try_iter()?.map(|plane| Memory::of(&plane?, "a plane")).collect::<PyResult<_>>()?;
        let (kind, wanted) = match memories.len() {
            2 => (Kind::Nv12, "(height, width) and (height / 2, width) of NV12"),
            3 => (Kind::I420, "(height, width) and two of (height / 2, width / 2) of I420"),
            count => {
                return Err(ErrorClass::Usage
                    .with_message(format!("a picture has two planes (NV12) or three (I420), and not {count}")));
            }
        };
        let refused = |shape: &[usize]| {
            ErrorClass::Usage.with_message(format!("the planes do not fit together: {shape:?} is none of {wanted}"))
        };
        let [height, width] = memories[0].shape[..] else { return Err(refused(&memories[0].shape)) };
        let size = size_of(width, height)?;
        let mut planes = Vec::new();
        for (index, memory) in memories.into_iter().enumerate() {
            let (columns, lines) = match (index, &kind) {
                (0, _) => (width, height),
                (_, Kind::Nv12) => (width, height / 2),
                _ => (width / 2, height / 2),
            };
            planes.push(plane(memory, columns, lines).map_err(|shape| refused(&shape))??);
        }
        let upside_down: Vec<bool> = planes.iter().map(|(_, upside_down)| *upside_down).collect();
        if upside_down.iter().any(|one| *one != upside_down[0]) {
            return Err(ErrorClass::Usage.with_message("some planes are upside down and others are not"));
        }
        let rows = rows(layout.bottom_up != upside_down[0]);
        Ok(Self { planes: planes.into_iter().map(|(held, _)| held).collect(), size, kind, rows })
    }

    pub(crate) fn image(&self) -> Image<'_> {
        let plane = |index: usize| self.planes[index].plane();
        let planes = match self.kind {
            Kind::Packed(order) => Layout::Packed(order, plane(0)),
            Kind::Nv12 => Layout::Nv12([plane(0), plane(1)]),
            Kind::I420 => Layout::I420([plane(0), plane(1), plane(2)]),
        };
        Image { size: self.size, layout: planes, rows: self.rows }
    }
}

const fn rows(bottom_up: bool) -> Rows {
    if bottom_up { Rows::BottomUp } else { Rows::TopDown }
}

fn not_taken(reason: String) -> PyErr {
    ErrorClass::Usage.with_message(format!("the picture was not taken: {reason}"))
}

/// Where the values of an array's pixels lie.
struct ArrayLayout {
    height: usize,
    width: usize,
    channels: usize,
    from_row: isize,
    from_pixel: isize,
    from_channel: isize,
}

impl ArrayLayout {
    /// Recognises grey levels (height, width), pixels (height, width, values), and planes as tensors have them (values, height, width).
    fn of(memory: &Memory) -> Result<Self, String> {
        const CHANNELS: [usize; 3] = [1, 3, 4];
        let (height, width, channels, [from_row, from_pixel, from_channel]) = match (
            &memory.shape[..],
            &memory.strides[..],
        ) {
            (&[height, width], &[row, pixel]) => (height, width, 1, [row, pixel, 0]),
            (&[height, width, channels], &[row, pixel, channel]) if CHANNELS.contains(&channels) => {
                (height, width, channels, [row, pixel, channel])
            }
            (&[channels, height, width], &[channel, row, pixel]) if CHANNELS.contains(&channels) => {
                (height, width, channels, [row, pixel, channel])
            }
            (shape, _) => {
                return Err(format!(
                    "its shape is {shape:?}: a pixel has 1 (grey), 3 (rgb) or 4 (rgba) values, in the last or the first place"
                ));
            }
        };
        Ok(Self { height, width, channels, from_row, from_pixel, from_channel })
    }
}

/// Returns the plane in memory without dimensions.
fn contiguous_plane(memory: Memory, stride: usize) -> PyResult<HeldPlane> {
    let (&[length], &[step]) = (&memory.shape[..], &memory.strides[..]) else {
        return Err(wrong_type("the picture's memory has no single dimension"));
    };
    if step != 1 && length > 1 {
        return Err(ErrorClass::Usage.with_message("the picture's memory has gaps: pass bytes that follow each other"));
    }
    // SAFETY: the memory is contiguous and has that many bytes.
    Ok(unsafe { HeldPlane::new(memory.owner, memory.start, length, stride) })
}

/// Returns a plane of this size, and whether it is upside down. The plane may also consist of pairs of both chroma values. When the size
/// does not match, returns the plane's shape.
fn plane(memory: Memory, columns: usize, lines: usize) -> Result<PyResult<(HeldPlane, bool)>, Vec<usize>> {
    let (from_row, contiguous) = match (&memory.shape[..], &memory.strides[..]) {
        (&[height, width], &[from_row, from_column]) if (height, width) == (lines, columns) => {
            (from_row, from_column == 1)
        }
        (&[height, pairs, 2], &[from_row, from_pair, from_value]) if (height, pairs * 2) == (lines, columns) => {
            (from_row, (from_pair, from_value) == (2, 1))
        }
        (shape, _) => return Err(shape.to_vec()),
    };
    let stride = if lines > 1 { from_row.unsigned_abs() } else { columns };
    if !contiguous || stride < columns {
        let reason =
            "the values of a plane's row do not follow each other in memory: pass numpy.ascontiguousarray(plane)";
        return Ok(Err(ErrorClass::Usage.with_message(reason)));
    }
    let upside_down = from_row < 0;
    let below = if upside_down { stride * (lines - 1) } else { 0 };
    let start = memory.start.wrapping_sub(below);
    // SAFETY: shape and strides describe the owner's memory, as in `Source::of_array`.
    let held = unsafe { HeldPlane::new(memory.owner, start, stride * (lines - 1) + columns, stride) };
    Ok(Ok((held, upside_down)))
}

fn size_of(width: usize, height: usize) -> PyResult<Size> {
    let sides = (u16::try_from(width), u16::try_from(height));
    let size = if let (Ok(width), Ok(height)) = sides { Some(Size { width, height }) } else { None };
    let size = size.filter(|size| size.check().is_ok());
    size.ok_or_else(|| {
        ErrorClass::Usage.with_message(format!(
            "the picture was not taken: it has {width}x{height} pixels, and both sides must be even, from 16 to 4096"
        ))
    })
}

/// Memory for pixels.
pub(crate) struct Sink {
    _buffer: PyUntypedBuffer,
    start: *mut u8,
    /// Number of bytes.
    length: usize,
    /// Bytes from one row to the next.
    stride: usize,
}

// SAFETY: `_buffer` keeps the memory alive, and may be dropped in any thread.
unsafe impl Send for Sink {}

impl Sink {
    /// Accesses a writable array of bytes of shape (height, width, values of a pixel).
    pub(crate) fn new(object: &Bound<'_, PyAny>, size: Size, order: PixelOrder) -> PyResult<Self> {
        let buffer = bytes_of(object, "the array to write to")?;
        let (width, height) = (usize::from(size.width), usize::from(size.height));
        let wanted = [height, width, order.bytes()];
        if buffer.readonly() || buffer.shape() != wanted || !buffer.is_c_contiguous() {
            return Err(ErrorClass::Usage.with_message(format!(
                "the picture was not written: it takes a writable array of shape {wanted:?} whose bytes follow each other"
            )));
        }
        let (start, length) = (buffer.buf_ptr().cast(), buffer.len_bytes());
        Ok(Self { _buffer: buffer, start, length, stride: width * order.bytes() })
    }

    /// Calls `write` with the memory and its stride.
    pub(crate) fn write<T>(&mut self, write: impl FnOnce(&mut [u8], usize) -> T) -> T {
        // SAFETY: `length` bytes of writable, contiguous memory that `_buffer` keeps alive. Other Python threads that use the array
        // meanwhile see partly written pixels, as with any NumPy function that fills an array without the interpreter lock.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start, self.length) };
        write(bytes, self.stride)
    }
}
