//! OpenH264's encoder through its C interface. The wrapper of the `openh264` crate cannot split pictures into slices, without which the
//! library encodes with one thread whatever its settings.
#![expect(unsafe_code, reason = "foreign functions; each block states why it is sound")]

use std::ptr::null_mut;

use openh264_sys2::source::APILoader;
use openh264_sys2::{
    CAMERA_VIDEO_REAL_TIME, CM_BT709, CONSTANT_ID, CP_BT709, ENCODER_LTR_MARKING_FEEDBACK,
    ENCODER_LTR_RECOVERY_REQUEST, ENCODER_OPTION, ENCODER_OPTION_BITRATE, ENCODER_OPTION_MAX_BITRATE,
    ENCODER_OPTION_TRACE_LEVEL, ISVCEncoder, ISVCEncoderVtbl, LEVEL_4_2, LEVEL_5_2, LOW_COMPLEXITY, LTR_MARKING_FAILED,
    LTR_MARKING_SUCCESS, LTR_RECOVERY_REQUEST, PRO_BASELINE, RC_BITRATE_MODE, SBitrateInfo, SEncParamExt, SFrameBSInfo,
    SLTRMarkingFeedback, SLTRRecoverRequest, SM_FIXEDSLCNUM_SLICE, SM_SINGLE_SLICE, SPATIAL_LAYER_0, SPATIAL_LAYER_ALL,
    SSourcePicture, TRC_BT709, WELS_LOG_QUIET, videoFormatI420, videoFrameTypeIDR,
};

use super::{CODEC, LEVEL_4_2_MACROBLOCKS_PER_PICTURE, LEVEL_4_2_MACROBLOCKS_PER_SECOND};
use crate::{CodecError, EncoderConfig, PictureView};

/// Step of the rate in bits per second. The library passes a target through a 32-bit float and rejects one that rounding has raised above
/// the maximum. Up to 268 Mb/s a float represents every multiple of 16.
const RATE_STEP: i32 = 16;

/// Highest frame rate that the library supports (its `MAX_FRAME_RATE`). At higher rates each frame would get the bits that it has at this
/// rate.
pub const MAX_FPS: u16 = 60;

/// Bits per pixel from which the loop filter gets the thresholds of a quantiser that is six steps finer.
///
/// At such rates the filter improves little and still takes time. Measured with the project's scene in 1280x720 at 30 frames per second
/// and 8 Mb/s (0.29 bits): Chromium decodes a frame in 2.2 instead of 2.7 ms, OpenH264 with 5 % less processor time, at 44.3 instead of
/// 44.9 dB; `sample::moving_picture` is up to 0.1 dB better at any rate. If the rate falls afterwards, the same thresholds cost 0.5 dB at 4
/// Mb/s, 0.2 dB at 2 Mb/s and 0.1 dB at 1 Mb/s. Without any filter the loss would be 0.7 to 0.9 dB.
const FINE_FILTER_BITS_PER_PIXEL: f64 = 0.2;

/// Half of the offset that is added to the quantiser in the filter's tables (ITU-T H.264, `slice_alpha_c0_offset_div2`; -6 to 6).
const FINE_FILTER_OFFSET: i32 = -3;

/// An initialised encoder.
pub struct LibraryEncoder {
    encoder: *mut ISVCEncoder,
    calls: ISVCEncoderVtbl,
    info: Box<SFrameBSInfo>,
}

// SAFETY: the library keeps no state of the thread that calls it, and `&mut self` keeps calls apart.
unsafe impl Send for LibraryEncoder {}

impl Drop for LibraryEncoder {
    fn drop(&mut self) {
        // SAFETY: made by the library's own constructor, destroyed once; that also ends its threads.
        unsafe { APILoader::WelsDestroySVCEncoder(self.encoder) };
    }
}

fn failed(call: &'static str, reason: String) -> CodecError {
    CodecError::Library { codec: CODEC, call, reason }
}

fn check(call: &'static str, code: i32) -> Result<(), CodecError> {
    if code == 0 { Ok(()) } else { Err(failed(call, format!("code {code}"))) }
}

/// Looks up one of the library's functions, which a broken build might lack.
macro_rules! call {
    ($self:expr, $name:ident) => {
        $self.calls.$name.ok_or_else(|| failed(stringify!($name), "missing from the library".to_owned()))
    };
}

impl LibraryEncoder {
    pub fn new(config: EncoderConfig) -> Result<Self, CodecError> {
        let mut encoder: *mut ISVCEncoder = null_mut();
        // SAFETY: writes one pointer to the place given, valid for the call.
        check("WelsCreateSVCEncoder", unsafe { APILoader::WelsCreateSVCEncoder(&raw mut encoder) })?;
        if encoder.is_null() {
            return Err(failed("WelsCreateSVCEncoder", "no encoder".to_owned()));
        }
        // SAFETY: a new encoder points to its table of calls, which lives as long as the library.
        let calls = unsafe { **encoder };
        let mut made = Self { encoder, calls, info: Box::default() };
        made.disable_trace()?;
        made.initialise(config)?;
        Ok(made)
    }

    /// Keeps the library from writing to standard error.
    fn disable_trace(&mut self) -> Result<(), CodecError> {
        let mut level = WELS_LOG_QUIET;
        let set_option = call!(self, SetOption)?;
        // SAFETY: the option takes a pointer to an integer, valid for the call, and works before initialisation.
        let code = unsafe { set_option(self.encoder, ENCODER_OPTION_TRACE_LEVEL, (&raw mut level).cast()) };
        check("SetOption", code)
    }

    fn initialise(&mut self, config: EncoderConfig) -> Result<(), CodecError> {
        let (defaults, initialise) = (call!(self, GetDefaultParams)?, call!(self, InitializeExt)?);
        let mut parameters = SEncParamExt::default();
        // SAFETY: fills the structure given, valid for the call.
        check("GetDefaultParams", unsafe { defaults(self.encoder, &raw mut parameters) })?;
        write_parameters(config, &mut parameters);
        // SAFETY: reads the structure given, valid for the call.
        check("InitializeExt", unsafe { initialise(self.encoder, &raw const parameters) })
    }

    /// Encodes one picture of the configured size. Returns the bits, and whether the frame is a key frame.
    pub fn encode(&mut self, view: &PictureView<'_>, milliseconds: i64) -> Result<(Vec<u8>, bool), CodecError> {
        let encode = call!(self, EncodeFrame)?;
        let plane = |bytes: &[u8]| bytes.as_ptr().cast_mut();
        let source = SSourcePicture {
            iColorFormat: videoFormatI420,
            iStride: [view.luma_stride as i32, view.chroma_stride as i32, view.chroma_stride as i32, 0],
            pData: [plane(view.luma), plane(view.blue), plane(view.red), null_mut()],
            iPicWidth: view.size.width.into(),
            iPicHeight: view.size.height.into(),
            uiTimeStamp: milliseconds,
            bPsnrY: true,
            bPsnrU: false,
            bPsnrV: false,
        };
        // SAFETY: the caller has checked that the planes hold the picture at these strides; the library only reads them, during the
        // call. `info` is the library's to fill.
        check("EncodeFrame", unsafe { encode(self.encoder, &raw const source, &raw mut *self.info) })?;
        let bits = self.bits();
        if bits.is_empty() {
            return Err(failed("EncodeFrame", format!("a frame of type {} without bits", self.info.eFrameType)));
        }
        Ok((bits, self.info.eFrameType == videoFrameTypeIDR))
    }

    /// Returns the PSNR of luma in the last frame, in dB.
    pub fn psnr(&self) -> Option<f64> {
        let layers = usize::try_from(self.info.iLayerNum).unwrap_or(0);
        // Parameter sets are layers too, and have no PSNR.
        let mut measured = self.info.sLayerInfo.iter().take(layers).map(|layer| f64::from(layer.rPsnr[0]));
        measured.rfind(|psnr| *psnr > 0.0)
    }

    /// Returns the output of the last call, in Annex B format.
    fn bits(&self) -> Vec<u8> {
        let mut bits = Vec::with_capacity(usize::try_from(self.info.iFrameSizeInBytes).unwrap_or(0));
        let layers = usize::try_from(self.info.iLayerNum).unwrap_or(0);
        for layer in self.info.sLayerInfo.iter().take(layers) {
            let units = usize::try_from(layer.iNalCount).unwrap_or(0);
            if layer.pBsBuf.is_null() || layer.pNalLengthInByte.is_null() {
                continue;
            }
            // SAFETY: the library keeps this many lengths there until its next call.
            let lengths = unsafe { std::slice::from_raw_parts(layer.pNalLengthInByte, units) };
            let length = lengths.iter().filter_map(|&length| usize::try_from(length).ok()).sum();
            // SAFETY: the units of a layer follow one another in the library's buffer, which stays until its next call.
            bits.extend_from_slice(unsafe { std::slice::from_raw_parts(layer.pBsBuf, length) });
        }
        bits
    }

    pub fn force_key(&mut self) -> Result<(), CodecError> {
        let force = call!(self, ForceIntraFrame)?;
        // SAFETY: the encoder is initialised; the call only notes the request.
        check("ForceIntraFrame", unsafe { force(self.encoder, true) })
    }

    /// Makes the next frame refer to the newest long-term reference that the receiver has.
    pub fn refer_to_kept(&mut self, key_number: u16) -> Result<(), CodecError> {
        let mut request = SLTRRecoverRequest {
            uiFeedbackType: LTR_RECOVERY_REQUEST as u32,
            uiIDRPicId: key_number.into(),
            // A value of -1 here would request a key frame. With -1 for the receiver's newest frame the library does not take this as the
            // report of a loss, which `report_outcome` makes.
            iLastCorrectFrameNum: 0,
            iCurrentFrameNum: -1,
            iLayerId: 0,
        };
        let set_option = call!(self, SetOption)?;
        // SAFETY: the option takes a pointer to this structure, valid for the call, which keeps nothing of it.
        let code = unsafe { set_option(self.encoder, ENCODER_LTR_RECOVERY_REQUEST, (&raw mut request).cast()) };
        check("SetOption", code)
    }

    /// Reports whether the receiver has the long-term reference with this frame number. This takes effect after the next frame.
    pub fn report_outcome(&mut self, key_number: u16, frame_number: u16, received: bool) -> Result<(), CodecError> {
        let verdict = if received { LTR_MARKING_SUCCESS } else { LTR_MARKING_FAILED };
        let mut feedback = SLTRMarkingFeedback {
            uiFeedbackType: verdict as u32,
            uiIDRPicId: key_number.into(),
            iLTRFrameNum: frame_number.into(),
            iLayerId: 0,
        };
        let set_option = call!(self, SetOption)?;
        // SAFETY: as in `refer_to_kept`.
        let code = unsafe { set_option(self.encoder, ENCODER_LTR_MARKING_FEEDBACK, (&raw mut feedback).cast()) };
        check("SetOption", code)
    }

    /// Changes the target rate of an encoder that has encoded at least one frame.
    ///
    /// The library rejects a target above the maximum, so the maximum moves first when the rate rises and last when it falls.
    pub fn set_rate(&mut self, config: EncoderConfig, rises: bool) -> Result<(), CodecError> {
        let target = (ENCODER_OPTION_BITRATE, SPATIAL_LAYER_ALL);
        let maximum = (ENCODER_OPTION_MAX_BITRATE, SPATIAL_LAYER_0);
        let rate = bits_per_second(config);
        let order = if rises { [maximum, target] } else { [target, maximum] };
        for (option, layer) in order {
            self.set_option(option, SBitrateInfo { iLayer: layer, iBitrate: rate })?;
        }
        Ok(())
    }

    fn set_option(&mut self, option: ENCODER_OPTION, mut info: SBitrateInfo) -> Result<(), CodecError> {
        let set_option = call!(self, SetOption)?;
        // SAFETY: both options take a pointer to an `SBitrateInfo`, valid for the call, which keeps nothing of it.
        let code = unsafe { set_option(self.encoder, option, (&raw mut info).cast()) };
        check("SetOption", code).map_err(|_| failed("SetOption", format!("{} bit/s refused", info.iBitrate)))
    }
}

/// Returns whether the stream exceeds level 4.2, so that it needs level 5.2.
pub fn needs_level_5_2(config: EncoderConfig) -> bool {
    let macroblocks = u32::from(config.size.width.div_ceil(16)) * u32::from(config.size.height.div_ceil(16));
    macroblocks > LEVEL_4_2_MACROBLOCKS_PER_PICTURE
        || macroblocks * u32::from(config.fps.max(1)) > LEVEL_4_2_MACROBLOCKS_PER_SECOND
}

/// Returns the rate to configure, for a library that assumes at most [`MAX_FPS`] frames per second. The library rejects rates of fewer bits
/// than frames per second, and counts in 32 bits.
pub fn bits_per_second(config: EncoderConfig) -> i32 {
    let fps = config.fps.max(1);
    let rate = config.rate.as_bps().saturating_mul(fps.min(MAX_FPS).into()) / u64::from(fps);
    rate.clamp(100_000, 200_000_000) as i32 / RATE_STEP * RATE_STEP
}

/// Returns the offset of the loop filter, which is fixed for the lifetime of an encoder.
fn loop_filter_offset(config: EncoderConfig) -> i32 {
    let pixels = f64::from(config.size.width) * f64::from(config.size.height) * f64::from(config.fps.max(1));
    if (config.rate.as_bps() as f64) < FINE_FILTER_BITS_PER_PIXEL * pixels { 0 } else { FINE_FILTER_OFFSET }
}

fn write_parameters(config: EncoderConfig, parameters: &mut SEncParamExt) {
    let rate = bits_per_second(config);
    let fps = f32::from(config.fps.clamp(1, MAX_FPS));
    let (width, height) = (i32::from(config.size.width), i32::from(config.size.height));
    // Without frame skipping, the screen content mode ignores the rate: it exceeds it fourfold on the same picture.
    parameters.iUsageType = CAMERA_VIDEO_REAL_TIME;
    parameters.iPicWidth = width;
    parameters.iPicHeight = height;
    parameters.iTargetBitrate = rate;
    parameters.iMaxBitrate = rate;
    parameters.iRCMode = RC_BITRATE_MODE;
    parameters.fMaxFrameRate = fps;
    parameters.iTemporalLayerNum = 1;
    parameters.iSpatialLayerNum = 1;
    // On `sample::moving_picture` at 4 Mb/s this is 10 % faster than medium, with the same PSNR to 0.01 dB.
    parameters.iComplexityMode = LOW_COMPLEXITY;
    parameters.uiIntraPeriod = 0;
    parameters.iMultipleThreadIdc = config.threads.max(1).into();
    // A minimum of 0 would make the library limit the range to 12..=42, too fine for low rates.
    parameters.iMinQp = 1;
    parameters.iMaxQp = 51;
    parameters.bEnableFrameSkip = false;
    parameters.bEnableSceneChangeDetect = false;
    // With a moving camera there is no background. Without detection, the project's scene is encoded 4 % faster and 0.1 dB better.
    parameters.bEnableBackgroundDetection = false;
    parameters.bEnableAdaptiveQuant = false;
    parameters.bEnableLongTermReference = true;
    // This also makes the sequence parameters allow gaps in the frame numbers, which lost frames cause.
    parameters.iLTRRefNum = 2;
    // The next frame is kept when the outcome of the previous one was reported. A value of 0 would mean 30 frames.
    parameters.iLtrMarkPeriod = 1;
    parameters.bEnableDenoise = false;
    // If a key frame is lost and a decoder continues, the following frames name parameter sets that the decoder has.
    parameters.eSpsPpsIdStrategy = CONSTANT_ID;
    let filter_offset = loop_filter_offset(config);
    (parameters.iLoopFilterAlphaC0Offset, parameters.iLoopFilterBetaOffset) = (filter_offset, filter_offset);
    let layer = &mut parameters.sSpatialLayers[0];
    (layer.iVideoWidth, layer.iVideoHeight, layer.fFrameRate) = (width, height, fps);
    (layer.iSpatialBitrate, layer.iMaxSpatialBitrate) = (rate, rate);
    layer.uiProfileIdc = PRO_BASELINE;
    layer.uiLevelIdc = if needs_level_5_2(config) { LEVEL_5_2 } else { LEVEL_4_2 };
    layer.bVideoSignalTypePresent = true;
    layer.bColorDescriptionPresent = true;
    layer.bFullRange = false;
    layer.uiColorPrimaries = CP_BT709 as u8;
    layer.uiTransferCharacteristics = TRC_BT709 as u8;
    layer.uiColorMatrix = CM_BT709 as u8;
    let slices = &mut layer.sSliceArgument;
    slices.uiSliceMode = if config.threads > 1 { SM_FIXEDSLCNUM_SLICE } else { SM_SINGLE_SLICE };
    slices.uiSliceNum = config.threads.max(1).into();
}
