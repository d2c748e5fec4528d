//! Safe wrappers of libvpx's VP8 encoder and decoder. Nothing else calls `vpx.c`.
#![expect(unsafe_code, reason = "foreign functions; each block states why it is sound")]

use std::ffi::{CStr, c_char};
use std::ptr::{NonNull, null};

use crate::{CodecError, PictureView, Size};

const CODEC: &str = "VP8";

/// An encoder's settings. Mirrors the struct in `vpx.c`.
#[repr(C)]
pub struct Settings {
    pub width: u32,
    pub height: u32,
    pub frames_per_second: u32,
    pub kilobits_per_second: u32,
    /// -16 (fastest) to -1; positive values would let the encoder follow wall-clock load.
    pub cpu_used: i32,
    pub buffer_milliseconds: u32,
    /// Largest key frame in percent of a frame's share of the rate.
    pub key_frame_percent: u32,
}

#[repr(C)]
struct Planes {
    plane: [*const u8; 3],
    stride: [i32; 3],
    width: u32,
    height: u32,
}

#[repr(C)]
struct RawEncoder {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawDecoder {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn nearlight_vpx_version() -> *const c_char;
    fn nearlight_vpx_error(error: i32) -> *const c_char;
    fn nearlight_vp8_encoder_new(settings: *const Settings, error: *mut i32) -> *mut RawEncoder;
    fn nearlight_vp8_encoder_free(encoder: *mut RawEncoder);
    fn nearlight_vp8_set_rate(encoder: *mut RawEncoder, kilobits_per_second: u32) -> i32;
    fn nearlight_vp8_encode(
        encoder: *mut RawEncoder,
        planes: *const Planes,
        references: u32,
        updates: u32,
        bits: *mut *const u8,
        length: *mut usize,
        key: *mut i32,
        distortion: *mut f64,
    ) -> i32;
    fn nearlight_vp8_decoder_new(error: *mut i32) -> *mut RawDecoder;
    fn nearlight_vp8_decoder_free(decoder: *mut RawDecoder);
    fn nearlight_vp8_decode(
        decoder: *mut RawDecoder,
        bits: *const u8,
        length: u32,
        planes: *mut Planes,
        corrupt: *mut i32,
    ) -> i32;
}

/// A set of VP8's three buffers of reference pictures. Mirrors the constants in `vpx.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers(u32);

impl Buffers {
    pub const NONE: Self = Self(0);
    /// The previous frame.
    pub const LAST: Self = Self(1);
    /// Two frames that are kept longer, by slot.
    pub const KEPT: [Self; 2] = [Self(2), Self(4)];

    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Returns the version of the loaded library, such as `v1.12.0`.
pub fn version() -> String {
    // SAFETY: takes nothing and returns a static, zero-terminated string.
    unsafe { CStr::from_ptr(nearlight_vpx_version()) }.to_string_lossy().into_owned()
}

fn describe(error: i32) -> String {
    // SAFETY: libvpx answers every number, unknown ones too, with a static, zero-terminated string.
    unsafe { CStr::from_ptr(nearlight_vpx_error(error)) }.to_string_lossy().into_owned()
}

fn check(error: i32, call: &'static str) -> Result<(), CodecError> {
    if error == 0 { Ok(()) } else { Err(CodecError::Library { codec: CODEC, call, reason: describe(error) }) }
}

/// The result of encoding a picture.
pub struct Frame<'a> {
    pub bits: &'a [u8],
    pub key: bool,
    /// Mean squared error of luma, where libvpx reports it.
    pub distortion: Option<f64>,
}

/// A libvpx VP8 encoder of one size.
pub struct Encoder {
    raw: NonNull<RawEncoder>,
    size: Size,
}

// SAFETY: libvpx keeps no thread-local state and, with one thread configured, starts none; the pointer is not shared.
unsafe impl Send for Encoder {}

impl Encoder {
    pub fn new(size: Size, settings: &Settings) -> Result<Self, CodecError> {
        debug_assert!((settings.width, settings.height) == (size.width.into(), size.height.into()));
        let mut error = 0;
        // SAFETY: both pointers are valid for the call, which keeps neither.
        let raw = unsafe { nearlight_vp8_encoder_new(settings, &raw mut error) };
        let raw = NonNull::new(raw).ok_or_else(|| CodecError::Library {
            codec: CODEC,
            call: "vpx_codec_enc_init",
            reason: describe(error),
        })?;
        Ok(Self { raw, size })
    }

    pub fn set_rate(&mut self, kilobits_per_second: u32) -> Result<(), CodecError> {
        // SAFETY: `raw` came from `encoder_new`, is freed only in `drop`, and `&mut self` excludes other calls.
        let error = unsafe { nearlight_vp8_set_rate(self.raw.as_ptr(), kilobits_per_second) };
        check(error, "vpx_codec_enc_config_set")
    }

    /// Encodes a picture, as a key frame if there is no reference. Returns none if libvpx outputs no frame.
    pub fn encode(
        &mut self,
        picture: PictureView<'_>,
        references: Buffers,
        updates: Buffers,
    ) -> Result<Option<Frame<'_>>, CodecError> {
        if picture.size != self.size {
            return Err(CodecError::Size { expected: self.size, got: picture.size });
        }
        picture.check()?;
        let planes = Planes {
            plane: [picture.luma.as_ptr(), picture.blue.as_ptr(), picture.red.as_ptr()],
            stride: [picture.luma_stride as i32, picture.chroma_stride as i32, picture.chroma_stride as i32],
            width: picture.size.width.into(),
            height: picture.size.height.into(),
        };
        let (mut bits, mut length, mut key, mut distortion) = (null(), 0, 0, -1.0);
        // SAFETY: `raw` as in `set_rate`. `check` has made sure that the planes hold the rows that size and strides promise; they
        // are read during the call only. The last four pointers are valid for the call.
        let error = unsafe {
            nearlight_vp8_encode(
                self.raw.as_ptr(),
                &raw const planes,
                references.0,
                updates.0,
                &raw mut bits,
                &raw mut length,
                &raw mut key,
                &raw mut distortion,
            )
        };
        check(error, "vpx_codec_encode")?;
        if bits.is_null() {
            return Ok(None);
        }
        // SAFETY: libvpx owns `length` bytes at `bits` until its next call, which the borrow of `self` delays.
        let bits = unsafe { std::slice::from_raw_parts(bits, length) };
        Ok(Some(Frame { bits, key: key != 0, distortion: (distortion >= 0.0).then_some(distortion) }))
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: `raw` came from `encoder_new` and is freed once.
        unsafe { nearlight_vp8_encoder_free(self.raw.as_ptr()) }
    }
}

/// A libvpx VP8 decoder.
pub struct Decoder(NonNull<RawDecoder>);

// SAFETY: as for the encoder.
unsafe impl Send for Decoder {}

impl Decoder {
    pub fn new() -> Result<Self, CodecError> {
        let mut error = 0;
        // SAFETY: the pointer is valid for the call.
        let raw = unsafe { nearlight_vp8_decoder_new(&raw mut error) };
        let failed = || CodecError::Library { codec: CODEC, call: "vpx_codec_dec_init", reason: describe(error) };
        Ok(Self(NonNull::new(raw).ok_or_else(failed)?))
    }

    /// Decodes one frame of at most `u32::MAX` bytes; the caller has bounded the picture's size.
    pub fn decode(&mut self, bits: &[u8]) -> Result<Option<PictureView<'_>>, CodecError> {
        let refused = |reason: String| CodecError::Bits { codec: CODEC, reason };
        let length = u32::try_from(bits.len()).map_err(|_| refused(format!("{} bytes in one frame", bits.len())))?;
        let mut planes = Planes { plane: [null(); 3], stride: [0; 3], width: 0, height: 0 };
        let mut corrupt = 0;
        // SAFETY: the pointer came from `decoder_new`, is freed only in `drop`, and `&mut self` excludes other calls; `bits` holds
        // `length` bytes and is read during the call only; the last two pointers are valid for the call.
        let error =
            unsafe { nearlight_vp8_decode(self.0.as_ptr(), bits.as_ptr(), length, &raw mut planes, &raw mut corrupt) };
        if error != 0 {
            return Err(refused(describe(error)));
        }
        if corrupt != 0 {
            return Err(refused("the frame or one that it refers to is damaged".to_owned()));
        }
        if planes.plane.iter().any(|plane| plane.is_null()) {
            return Ok(None);
        }
        view(&planes).map(Some)
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `decoder_new` and is freed once.
        unsafe { nearlight_vp8_decoder_free(self.0.as_ptr()) }
    }
}

/// Borrows the decoder's picture. The caller ties the lifetime to the decoder.
fn view<'a>(planes: &Planes) -> Result<PictureView<'a>, CodecError> {
    let refused = |reason: String| CodecError::Bits { codec: CODEC, reason };
    let (Ok(width), Ok(height)) = (u16::try_from(planes.width), u16::try_from(planes.height)) else {
        return Err(refused(format!("a picture of {}x{}", planes.width, planes.height)));
    };
    let size = Size { width, height };
    size.check()?;
    let [luma_stride, blue_stride, red_stride] = planes.stride.map(|stride| usize::try_from(stride).unwrap_or(0));
    let (rows, columns) = (usize::from(height), usize::from(width));
    if luma_stride < columns || blue_stride < columns / 2 || red_stride != blue_stride {
        return Err(refused(format!("rows of {:?} bytes for a picture of {size}", planes.stride)));
    }
    // The last row ends with its last pixel, so that no slice reaches past the library's buffer.
    let luma_length = luma_stride * (rows - 1) + columns;
    let chroma_length = blue_stride * (rows / 2 - 1) + columns / 2;
    let [luma, blue, red] = planes.plane;
    // SAFETY: libvpx owns planes of this many rows at these strides until its next call, which the caller's borrow delays.
    let (luma, blue, red) = unsafe {
        (
            std::slice::from_raw_parts(luma, luma_length),
            std::slice::from_raw_parts(blue, chroma_length),
            std::slice::from_raw_parts(red, chroma_length),
        )
    };
    Ok(PictureView { size, luma, blue, red, luma_stride, chroma_stride: blue_stride })
}
