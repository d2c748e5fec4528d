//! The memory of other Python objects: of those with the buffer protocol (`NumPy`, bytes), with `DLPack` (tensors of `PyTorch`, JAX and others),
//! and with `NumPy`'s array interface (pictures of Pillow).

use std::ffi::{CStr, c_void};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::{ErrorClass, wrong_type};

/// Formats of the buffer protocol for unsigned bytes.
const BYTE_FORMATS: [&str; 2] = ["B", "c"];
/// The name of a capsule with a tensor (`DLPack`'s specification, "Python Specification").
const TENSOR: &CStr = c"dltensor";
/// Devices of `DLPack` whose memory this processor reads: its own, and what it shares with a GPU of CUDA (`kDLCPU`, `kDLCUDAHost`).
const READABLE_DEVICES: [i32; 2] = [1, 3];
/// `DLPack`'s code for unsigned integers (`kDLUInt`).
const UNSIGNED: u8 = 1;
/// Pillow's modes whose values are grey levels or colours.
const PLAIN_MODES: [&str; 4] = ["L", "RGB", "RGBA", "RGBX"];
/// Dimensions of the largest array that is looked at; a picture has three.
const MAX_DIMENSIONS: i32 = 8;

/// Bytes in the memory of another object. Each index within `shape` is an element that lies in that memory, at `start` and as many steps of
/// `strides` further.
pub(crate) struct Memory {
    pub(crate) owner: Owner,
    pub(crate) start: *const u8,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<isize>,
}

/// What keeps memory alive and in its place.
#[expect(dead_code, reason = "held until it is dropped")]
pub(crate) enum Owner {
    Buffer(PyUntypedBuffer),
    /// The capsule of a tensor, which releases it.
    Tensor(Py<PyAny>),
    Copy(Vec<u8>),
}

impl Memory {
    /// Returns the memory of an object, whose elements must be bytes. `what` names it in errors.
    pub(crate) fn of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        if PyUntypedBuffer::get(object).is_err() {
            if object.hasattr("__dlpack__")? {
                return Self::of_tensor(object, what);
            }
            if object.hasattr("__array_interface__")? {
                check_mode(object, what)?;
                return Self::of_interface(&object.getattr("__array_interface__")?, what);
            }
        }
        Ok(Self::of_buffer(bytes_of(object, what)?))
    }

    fn of_buffer(buffer: PyUntypedBuffer) -> Self {
        let (shape, strides) = (buffer.shape().to_vec(), buffer.strides().to_vec());
        Self { start: buffer.buf_ptr().cast_const().cast(), owner: Owner::Buffer(buffer), shape, strides }
    }

    /// Reads `NumPy`'s array interface, version 3, whose data is an object with a buffer.
    fn of_interface(interface: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        let item = |name: &str| interface.get_item(name);
        let kind: String = item("typestr")?.extract()?;
        if !matches!(kind.as_str(), "|u1" | "<u1" | ">u1" | "u1") {
            return Err(no_bytes(what, &kind));
        }
        let shape: Vec<usize> = item("shape")?.extract()?;
        let Ok(buffer) = PyUntypedBuffer::get(&item("data")?) else {
            return Err(wrong_type(format!(
                "{what} gives an address instead of its memory: pass numpy.asarray(picture)"
            )));
        };
        let has_gaps = item("strides").is_ok_and(|strides| !strides.is_none());
        let length = shape.iter().try_fold(1usize, |length, side| length.checked_mul(*side));
        if has_gaps || !buffer.is_c_contiguous() || length != Some(buffer.len_bytes()) {
            let reason = format!("the memory of {what} does not have its shape {shape:?}: pass numpy.asarray(picture)");
            return Err(ErrorClass::Usage.with_message(reason));
        }
        let strides = contiguous(&shape);
        Ok(Self { start: buffer.buf_ptr().cast_const().cast(), owner: Owner::Buffer(buffer), shape, strides })
    }

    fn of_tensor(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        let (device, _): (i32, i64) = object.call_method0("__dlpack_device__")?.extract()?;
        if !READABLE_DEVICES.contains(&device) {
            return Err(ErrorClass::Usage.with_message(format!(
                "{what} lies in the memory of a GPU or another device: pass a copy in the processor's, such as tensor.cpu()"
            )));
        }
        let capsule = object.call_method0("__dlpack__")?;
        let pointer = capsule.cast::<PyCapsule>().map_err(PyErr::from)?.pointer_checked(Some(TENSOR))?;
        // SAFETY: a capsule of this name holds a `DLManagedTensor`, which begins with a `DLTensor` and lives as long as the capsule.
        let tensor = unsafe { pointer.cast::<Tensor>().as_ref() };
        if (tensor.code, tensor.bits, tensor.lanes) != (UNSIGNED, 8, 1) {
            return Err(no_bytes(what, &format!("code {}, {} bits", tensor.code, tensor.bits)));
        }
        if !(0..=MAX_DIMENSIONS).contains(&tensor.dimensions) {
            return Err(wrong_type(format!("{what} has {} dimensions", tensor.dimensions)));
        }
        let dimensions = tensor.dimensions as usize;
        // SAFETY: a tensor has as many lengths as dimensions. The pointer of one without dimensions is not read.
        let list = |pointer: *const i64| unsafe { std::slice::from_raw_parts(pointer, dimensions) };
        let lengths: &[i64] = if dimensions == 0 { &[] } else { list(tensor.shape) };
        let shape: Vec<usize> = lengths.iter().map(|length| usize::try_from(*length).unwrap_or(0)).collect();
        // Steps are counted in elements, which are bytes here. Without them, the elements follow each other.
        let strides = if tensor.strides.is_null() || dimensions == 0 {
            contiguous(&shape)
        } else {
            list(tensor.strides).iter().map(|step| *step as isize).collect()
        };
        let start = tensor.data.cast_const().cast::<u8>().wrapping_add(tensor.byte_offset as usize);
        Ok(Self { owner: Owner::Tensor(capsule.unbind()), start, shape, strides })
    }
}

/// The beginning of `DLPack`'s `DLManagedTensor`: its `DLTensor` (`dlpack.h`, version 0.8).
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: i32,
    device_id: i32,
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// Returns the strides of bytes that follow each other.
fn contiguous(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for place in (1..shape.len()).rev() {
        strides[place - 1] = strides[place] * shape[place] as isize;
    }
    strides
}

/// Refuses pictures of Pillow whose values are no colours of a screen, such as indices of a palette.
fn check_mode(object: &Bound<'_, PyAny>, what: &str) -> PyResult<()> {
    let Ok(mode) = object.getattr("mode").and_then(|mode| mode.extract::<String>()) else { return Ok(()) };
    if PLAIN_MODES.contains(&mode.as_str()) {
        return Ok(());
    }
    Err(ErrorClass::Usage.with_message(format!(
        "{what} has the mode {mode}, whose values are no colours of a screen: pass picture.convert(\"RGB\")"
    )))
}

fn no_bytes(what: &str, kind: &str) -> PyErr {
    ErrorClass::Usage.with_message(format!(
        "the elements of {what} are no bytes (uint8) but `{kind}`: pass uint8, such as (array * 255).astype(numpy.uint8) for fractions and \
         for true and false"
    ))
}

/// Returns the buffer of an object, whose elements must be bytes.
pub(crate) fn bytes_of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object).map_err(|_| {
        let kind = object.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string());
        wrong_type(format!(
            "{what} is of type {kind}, whose memory cannot be read: pass a NumPy array, a tensor, a picture of Pillow, bytes, or another \
             object with a buffer"
        ))
    })?;
    let format = buffer.format().to_string_lossy().into_owned();
    if buffer.item_size() != 1 || !BYTE_FORMATS.contains(&format.trim_start_matches(['@', '=', '<', '>', '!', '|'])) {
        return Err(no_bytes(what, &format));
    }
    if buffer.suboffsets().is_some_and(|offsets| offsets.iter().any(|offset| *offset >= 0)) {
        return Err(
            ErrorClass::Usage.with_message(format!("{what} lies in several pieces of memory: copy it into one"))
        );
    }
    Ok(buffer)
}
