//! Reads and writes the caller's memory: structures that grow from version to version, texts and arrays.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use crate::fault::Fault;

/// Maximum number of bytes of a structure. No structure will ever be this large, so that a larger size is one that was never set.
const MAX_STRUCT_BYTES: usize = 1 << 20;

/// A structure whose first field is its size in bytes.
///
/// # Safety
/// The structure is `repr(C)`, its first field is `size: usize`, and zero is a valid value of all its bytes.
pub(crate) unsafe trait Versioned: Copy {
    /// Name in the C header.
    const NAME: &'static str;
    /// Offset of the last field of the first version: a valid size is greater.
    const MIN_SIZE: usize;

    fn set_size(&mut self, size: usize);
}

macro_rules! versioned {
    ($($name:ident up to $last:ident),* $(,)?) => {
        $(
            // SAFETY: repr(C), begins with `size: usize`, and consists of integers, floats and pointers, for which zero is a valid value.
            unsafe impl Versioned for $name {
                const NAME: &'static str = stringify!($name);
                const MIN_SIZE: usize = std::mem::offset_of!($name, $last);

                fn set_size(&mut self, size: usize) {
                    self.size = size;
                }
            }
        )*
    };
}
pub(crate) use versioned;

/// Returns the size that the caller has set, after checking it.
///
/// # Safety
/// `pointer` is null, or a `usize` can be read there.
unsafe fn caller_size<T: Versioned>(pointer: *const T) -> Result<usize, Fault> {
    if pointer.is_null() {
        return Err(Fault::argument(format!("the {} is NULL: pass the address of one", T::NAME)));
    }
    if !pointer.is_aligned() {
        return Err(Fault::argument(format!("the {} is not aligned as the compiler aligns one", T::NAME)));
    }
    // SAFETY: not null, aligned, and the caller guarantees that the first field can be read.
    let size = unsafe { pointer.cast::<usize>().read() };
    if size <= T::MIN_SIZE || size > MAX_STRUCT_BYTES {
        let (name, own) = (T::NAME, size_of::<T>());
        return Err(Fault::argument(format!(
            "{name}.size is {size}: set it to sizeof({name}), here {own}, before the call"
        )));
    }
    Ok(size)
}

/// Reads a structure of the caller. Fields that the caller's header does not have are zero. Fields that this library does not know must be
/// zero.
///
/// # Safety
/// `pointer` is null, or as many bytes can be read there as its first field says.
pub(crate) unsafe fn read<T: Versioned>(pointer: *const T) -> Result<T, Fault> {
    // SAFETY: the caller guarantees that the first field can be read.
    let size = unsafe { caller_size(pointer) }?;
    let known = size.min(size_of::<T>());
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the caller guarantees that `known` bytes can be read, and `value` has as many.
    unsafe { std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), known) };
    for offset in known..size {
        // SAFETY: below the size that the caller guarantees.
        let byte = unsafe { pointer.cast::<u8>().add(offset).read() };
        if byte != 0 {
            let name = T::NAME;
            return Err(Fault::argument(format!(
                "{name} has a field that this library is too old for: install the one of the header"
            )));
        }
    }
    // SAFETY: zero is a valid value of all its bytes, and the copied bytes are those of the same structure.
    Ok(unsafe { value.assume_init() })
}

/// Checks that a structure of the caller can be written.
///
/// # Safety
/// `pointer` is null, or as many bytes can be read and written there as its first field says.
pub(crate) unsafe fn check<T: Versioned>(pointer: *const T) -> Result<(), Fault> {
    // SAFETY: the caller guarantees that the first field can be read.
    unsafe { caller_size(pointer) }.map(|_| ())
}

/// Writes as many fields as the caller's structure has. Fields that this library does not know become zero.
///
/// # Safety
/// `pointer` is null, or as many bytes can be read and written there as its first field says.
pub(crate) unsafe fn write<T: Versioned>(pointer: *mut T, mut value: T) -> Result<(), Fault> {
    // SAFETY: the caller guarantees that the first field can be read.
    let size = unsafe { caller_size(pointer) }?;
    value.set_size(size);
    let known = size.min(size_of::<T>());
    // SAFETY: `known` bytes lie within both, and the rest within the caller's `size`.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), pointer.cast::<u8>(), known);
        std::ptr::write_bytes(pointer.cast::<u8>().add(known), 0, size - known);
    }
    Ok(())
}

/// Returns a text of the caller, or `None` for NULL.
///
/// # Safety
/// `text` is null, or points to bytes that end with a zero byte and live as long as the returned text.
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<Option<&'a str>, Fault> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map(Some).map_err(|_| Fault::argument(format!("{what} is not UTF-8: texts of this library are")))
}

/// Returns bytes of the caller.
///
/// # Safety
/// `bytes` is null, or `count` bytes can be read there as long as the returned slice lives.
pub(crate) unsafe fn bytes<'a>(what: &str, bytes: *const u8, count: usize) -> Result<&'a [u8], Fault> {
    // SAFETY: guaranteed by the caller.
    unsafe { array(what, bytes, count) }
}

/// Returns numbers of the caller.
///
/// # Safety
/// `pointer` is null, or `count` numbers can be read there as long as the returned slice lives. Every bit pattern is a valid number.
pub(crate) unsafe fn array<'a, T>(what: &str, pointer: *const T, count: usize) -> Result<&'a [T], Fault> {
    check_array(what, pointer, count)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: not null, aligned, no longer than memory can be, and the caller guarantees that `count` elements can be read.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Returns numbers of the caller for writing.
///
/// # Safety
/// The requirements of [`array`] are met. The numbers can also be written, and nothing else reads or writes them as long as the returned
/// slice lives.
pub(crate) unsafe fn array_mut<'a, T>(what: &str, pointer: *mut T, count: usize) -> Result<&'a mut [T], Fault> {
    check_array(what, pointer.cast_const(), count)?;
    if count == 0 {
        return Ok(&mut []);
    }
    // SAFETY: checked like in `array`, and the caller guarantees exclusive access.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) })
}

/// Checks the address and length of an array.
fn check_array<T>(what: &str, pointer: *const T, count: usize) -> Result<(), Fault> {
    if count > 0 && pointer.is_null() {
        return Err(Fault::argument(format!("{what} is NULL and has {count} elements: pass its address")));
    }
    if !pointer.is_aligned() {
        return Err(Fault::argument(format!("{what} is not aligned as the compiler aligns its elements")));
    }
    if count.checked_mul(size_of::<T>()).is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(Fault::argument(format!("{what} has {count} elements, more than memory can have")));
    }
    Ok(())
}
