//! Functions of OpenH264 that the `openh264` crate exposes only through its raw interface.
#![expect(unsafe_code, reason = "foreign functions; each block states why it is sound")]

use std::ptr::null_mut;

use openh264::decoder::Decoder;
use openh264_sys2::{
    DECODER_OPTION_ERROR_CON_IDC, DECODING_STATE, ERROR_CON_SLICE_COPY, SBufferInfo, SSysMEMBuffer, dsBitstreamError,
    dsDataErrorConcealed, dsNoParamSets, dsOutOfMemory, dsRefListNullPtrs, dsRefLost,
};

use super::bitstream::refused;
use crate::{CodecError, PictureView, Size};

/// Makes the link fail if OpenH264 was built without its assembly, which is three times slower and would otherwise go unnoticed. `build.rs`
/// rejects such a build too, but cannot see leftovers of an earlier build without nasm.
#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
fn require_assembly() {
    unsafe extern "C" {
        /// Whether the processor has the CPUID instruction; one of the assembly's smallest functions.
        fn WelsCPUIdVerify() -> i32;
    }
    // SAFETY: takes no arguments and only reads and restores the processor's flags.
    let present = unsafe { WelsCPUIdVerify() };
    debug_assert_ne!(present, 0);
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
fn require_assembly() {}

/// Returns the version of the library, such as `2.6.0`.
pub fn version() -> String {
    require_assembly();
    // SAFETY: takes no arguments and returns plain numbers.
    let version = unsafe { openh264_sys2::source::APILoader::WelsGetCodecVersion() };
    format!("{}.{}.{}", version.uMajor, version.uMinor, version.uRevision)
}

/// Descriptions of the decoder's error states.
const STATES: [(DECODING_STATE, &str); 6] = [
    (dsRefLost, "a frame that it refers to is missing"),
    (dsBitstreamError, "the bits are damaged"),
    (dsNoParamSets, "parameter sets are missing"),
    (dsDataErrorConcealed, "damage was painted over"),
    (dsRefListNullPtrs, "a reference without a picture"),
    (dsOutOfMemory, "out of memory"),
];

/// Turns error concealment on. Returns false if the library does not support it.
pub fn conceal(decoder: &mut Decoder) -> bool {
    let mut method = ERROR_CON_SLICE_COPY;
    // SAFETY: the decoder is initialised and borrowed alone; this option reads one number of this type, during the call only.
    unsafe { decoder.raw_api().set_option(DECODER_OPTION_ERROR_CON_IDC, (&raw mut method).cast()) == 0 }
}

/// Decodes one access unit and borrows the picture from the decoder; the wrapper's own `decode` would require a copy. If `conceals`, damage
/// that [`conceal`] covers up is not an error.
pub fn decode<'a>(
    decoder: &'a mut Decoder,
    bits: &[u8],
    conceals: bool,
) -> Result<Option<PictureView<'a>>, CodecError> {
    let length = i32::try_from(bits.len()).map_err(|_| refused("more than 2 GiB in one frame"))?;
    let mut planes = [null_mut::<u8>(); 3];
    let mut info = SBufferInfo::default();
    // SAFETY: the decoder is initialised and borrowed alone; `bits` holds `length` bytes and is read during the call only; `planes` has
    // the three entries that the call writes, and `info` is valid for the call.
    let state = unsafe {
        decoder.raw_api().decode_frame_no_delay(bits.as_ptr(), length, (&raw mut planes).cast(), &raw mut info)
    };
    // A picture that was decoded without its reference is output with one of several states, depending on the slice that detected it.
    let painted_over = conceals && info.iBufferStatus == 1;
    if state != 0 && !painted_over {
        let known: Vec<&str> = STATES.iter().filter(|(bit, _)| state & bit != 0).map(|(_, text)| *text).collect();
        return Err(refused(&format!("{} (state {state:#x})", known.join(", "))));
    }
    if info.iBufferStatus != 1 || planes.iter().any(|plane| plane.is_null()) {
        return Ok(None);
    }
    // SAFETY: with one picture ready, the union holds the description of a picture in system memory.
    view(planes, unsafe { info.UsrData.sSystemBuffer }).map(Some)
}

/// Borrows the decoder's picture. The caller ties the lifetime to the decoder.
fn view<'a>(planes: [*mut u8; 3], buffer: SSysMEMBuffer) -> Result<PictureView<'a>, CodecError> {
    let (Ok(width), Ok(height)) = (u16::try_from(buffer.iWidth), u16::try_from(buffer.iHeight)) else {
        return Err(refused("a picture of impossible size"));
    };
    let size = Size { width, height };
    size.check()?;
    let [luma_stride, chroma_stride] = buffer.iStride.map(|stride| usize::try_from(stride).unwrap_or(0));
    let (rows, columns) = (usize::from(height), usize::from(width));
    if luma_stride < columns || chroma_stride < columns / 2 {
        return Err(refused("a picture with rows shorter than its width"));
    }
    // The last row ends with its last pixel, so that no slice reaches past the library's buffer.
    let luma_length = luma_stride * (rows - 1) + columns;
    let chroma_length = chroma_stride * (rows / 2 - 1) + columns / 2;
    let [luma, blue, red] = planes;
    // SAFETY: the library owns planes of this many rows at these strides until its next call, which the caller's borrow delays.
    let (luma, blue, red) = unsafe {
        (
            std::slice::from_raw_parts(luma, luma_length),
            std::slice::from_raw_parts(blue, chroma_length),
            std::slice::from_raw_parts(red, chroma_length),
        )
    };
    Ok(PictureView { size, luma, blue, red, luma_stride, chroma_stride })
}
