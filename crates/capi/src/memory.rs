//! Reading and writing the caller's memory: structures that grow from version to version, texts, arrays.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use crate::fault::Fault;

/// No structure will ever be this large: a size beyond is one that was never set.
const LARGEST: usize = 1 << 20;

/// A structure whose first field is its size.
///
/// # Safety
/// It is `repr(C)`, its first field is `size: usize`, and zero is a value of all its bytes.
pub(crate) unsafe trait Versioned: Copy {
    const NAME: &'static str;
    /// Where its last field of the first version begins: a size up to there was never right.
    const LEAST: usize;

    fn set_size(&mut self, size: usize);
}

macro_rules! versioned {
    ($($name:ident up to $last:ident),* $(,)?) => {
        $(
            // SAFETY: repr(C), begins with `size: usize`, and consists of integers, floats and pointers, for which zero is a value.
            unsafe impl Versioned for $name {
                const NAME: &'static str = stringify!($name);
                const LEAST: usize = std::mem::offset_of!($name, $last);

                fn set_size(&mut self, size: usize) {
                    self.size = size;
                }
            }
        )*
    };
}
pub(crate) use versioned;

/// The size that the caller has set.
///
/// # Safety
/// `pointer` is null, or a `usize` can be read there.
unsafe fn size_of_callers<T: Versioned>(pointer: *const T) -> Result<usize, Fault> {
    if pointer.is_null() {
        return Err(Fault::argument(format!("the {} is NULL: pass the address of one", T::NAME)));
    }
    if !pointer.is_aligned() {
        return Err(Fault::argument(format!("the {} is not aligned as the compiler aligns one", T::NAME)));
    }
    // SAFETY: not null, aligned, and the caller promises that its first field can be read.
    let size = unsafe { pointer.cast::<usize>().read() };
    if size <= T::LEAST || size > LARGEST {
        let (name, own) = (T::NAME, size_of::<T>());
        return Err(Fault::argument(format!(
            "{name}.size is {size}: set it to sizeof({name}), here {own}, before the call"
        )));
    }
    Ok(size)
}

/// What the caller passes. Fields that its header does not have are zero; what this library does not know must be zero.
///
/// # Safety
/// `pointer` is null, or as many bytes can be read there as its first field says.
pub(crate) unsafe fn read<T: Versioned>(pointer: *const T) -> Result<T, Fault> {
    // SAFETY: the caller's promise includes the first field.
    let size = unsafe { size_of_callers(pointer) }?;
    let known = size.min(size_of::<T>());
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: `known` bytes can be read by the caller's promise, and are no more than `value` has.
    unsafe { std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), known) };
    for place in known..size {
        // SAFETY: below the size that the caller promises.
        let byte = unsafe { pointer.cast::<u8>().add(place).read() };
        if byte != 0 {
            let name = T::NAME;
            return Err(Fault::argument(format!(
                "{name} has a field that this library is too old for: install the one of the header"
            )));
        }
    }
    // SAFETY: zero is a value of all its bytes, and what was copied came from the same structure.
    Ok(unsafe { value.assume_init() })
}

/// Whether a structure of the caller's can be written.
///
/// # Safety
/// As [`write`].
pub(crate) unsafe fn check<T: Versioned>(pointer: *const T) -> Result<(), Fault> {
    // SAFETY: the caller's promise includes the first field.
    unsafe { size_of_callers(pointer) }.map(|_| ())
}

/// Fills as much as the caller's structure has room for, and the rest of a newer one's with zeros.
///
/// # Safety
/// `pointer` is null, or as many bytes can be read and written there as its first field says.
pub(crate) unsafe fn write<T: Versioned>(pointer: *mut T, mut value: T) -> Result<(), Fault> {
    // SAFETY: the caller's promise includes the first field.
    let size = unsafe { size_of_callers(pointer) }?;
    value.set_size(size);
    let known = size.min(size_of::<T>());
    // SAFETY: `known` bytes lie within both, and the rest within the caller's `size`.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), pointer.cast::<u8>(), known);
        std::ptr::write_bytes(pointer.cast::<u8>().add(known), 0, size - known);
    }
    Ok(())
}

/// A text of the caller's; none for NULL.
///
/// # Safety
/// `text` is null, or points to bytes that end with a zero and live as long as the answer is used.
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<Option<&'a str>, Fault> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map(Some).map_err(|_| Fault::argument(format!("{what} is no UTF-8: texts of this library are")))
}

/// Bytes of the caller's.
///
/// # Safety
/// `count` bytes can be read at `bytes`, or it is null, for as long as the answer is used.
pub(crate) unsafe fn bytes<'a>(what: &str, bytes: *const u8, count: usize) -> Result<&'a [u8], Fault> {
    // SAFETY: the caller's promise.
    unsafe { array(what, bytes, count) }
}

/// Numbers of the caller's.
///
/// # Safety
/// `count` numbers can be read at `place`, or it is null, for as long as the answer is used; every pattern of bits is one.
pub(crate) unsafe fn array<'a, T>(what: &str, place: *const T, count: usize) -> Result<&'a [T], Fault> {
    check_place(what, place, count)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: not null, aligned, no longer than memory can be, and the caller promises that so much can be read.
    Ok(unsafe { std::slice::from_raw_parts(place, count) })
}

/// The same to be written to.
///
/// # Safety
/// As [`array`]; they can be written too, and nobody else reads or writes them as long as the answer is used.
pub(crate) unsafe fn array_mut<'a, T>(what: &str, place: *mut T, count: usize) -> Result<&'a mut [T], Fault> {
    check_place(what, place.cast_const(), count)?;
    if count == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts_mut(place, count) })
}

fn check_place<T>(what: &str, place: *const T, count: usize) -> Result<(), Fault> {
    if count > 0 && place.is_null() {
        return Err(Fault::argument(format!("{what} is NULL and has {count} elements: pass its address")));
    }
    if !place.is_aligned() {
        return Err(Fault::argument(format!("{what} is not aligned as the compiler aligns its elements")));
    }
    if count.checked_mul(size_of::<T>()).is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(Fault::argument(format!("{what} has {count} elements, more than memory can have")));
    }
    Ok(())
}
