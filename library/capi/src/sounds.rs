//! Calls that submit sound.

use nearlight_embed::{Portion, Samples};

use crate::fault::{Fault, guard};
use crate::hosts;
use crate::memory::{self, array};
use crate::types::{nl_host, nl_sample_format, nl_sound, nl_status};

/// Sampling rate in hertz that a rate of 0 stands for.
const DEFAULT_RATE: u32 = 48_000;
/// Maximum number of channels. It is checked before samples are read, because their number follows from it.
const MAX_CHANNELS: u32 = 2;

/// Takes the program's next sound, which follows what it submitted before: in portions of any length, at the pace at which it is to be heard.
/// Viewers hear it together with pictures of the same moment. Copies it and returns. Of what was not heard yet, 200 ms are kept. Needs
/// nl_options' `sound`.
///
/// # Safety
/// `sound` is null or as large as its `size` says, and `frames` times `channels` samples can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_submit_sound(host: *mut nl_host, sound: *const nl_sound) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // SAFETY: this function's contract.
        let given = unsafe { memory::read(sound) }?;
        if given.channels > MAX_CHANNELS || given.frames > nearlight_embed::MAX_PORTION_FRAMES {
            return Err(Fault::argument(format!(
                "the sound has {} frames of {} channels: submit up to 65536 of 1 or 2 at a time",
                given.frames, given.channels
            )));
        }
        let count = given.frames * given.channels as usize;
        let samples = if given.format == nl_sample_format::F32 as u32 {
            // SAFETY: this function's contract.
            Samples::Float(unsafe { array("the samples", given.samples.cast(), count) }?)
        } else if given.format == nl_sample_format::I16 as u32 {
            // SAFETY: this function's contract.
            Samples::Short(unsafe { array("the samples", given.samples.cast(), count) }?)
        } else {
            return Err(Fault::argument(format!(
                "{} is not an nl_sample_format: set it to one of NL_SAMPLE_FORMAT_...",
                given.format
            )));
        };
        let rate = if given.rate == 0 { DEFAULT_RATE } else { given.rate };
        Ok(entry.host.submit_sound(&Portion { samples, channels: given.channels as u16, rate })?)
    })
}
