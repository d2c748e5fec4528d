//! Calls that open and close a server, return its links and statistics, and send outputs to viewers.

use std::ffi::{c_char, c_void};

use nearlight_embed::{Bitrate, CursorShape, Haptics, HapticsTarget, Host, Options, SessionStatistics, Viewer};

use crate::fault::{Fault, guard, guard_or};
use crate::hosts;
use crate::memory::{self, bytes, check, text};
use crate::types::{
    nl_haptics_pulse, nl_haptics_target, nl_host, nl_options, nl_server_statistics, nl_session_statistics, nl_status,
};
use crate::values::hand;

/// Opens a server and waits until viewers can connect, tens of milliseconds. NULL options are the usual ones. Writes the server to `host`,
/// or NULL where it fails.
///
/// # Safety
/// `options` is null or as large as its `size` says; its texts end with a zero byte. `host` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_open(options: *const nl_options, host: *mut *mut nl_host) -> nl_status {
    guard(|| {
        // SAFETY: this function's contract.
        unsafe { clear(host) }?;
        let options = if options.is_null() {
            Options::default()
        } else {
            // SAFETY: this function's contract.
            unsafe { read_options(options) }?
        };
        // SAFETY: `clear` has checked that it is not null, and it can be written by contract.
        unsafe { host.write(hosts::add(Host::open(&options)?)) };
        Ok(())
    })
}

/// Opens with options as a TOML document, whose keys are those of docs/embedding.md.
///
/// # Safety
/// `toml` is null or ends with a zero byte. `host` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_open_toml(toml: *const c_char, host: *mut *mut nl_host) -> nl_status {
    guard(|| {
        // SAFETY: this function's contract.
        unsafe { clear(host) }?;
        // SAFETY: this function's contract.
        let toml = unsafe { text("the TOML document", toml) }?.unwrap_or_default();
        let opened = Host::open(&Options::from_toml(toml)?)?;
        // SAFETY: `clear` has checked that it is not null, and it can be written by contract.
        unsafe { host.write(hosts::add(opened)) };
        Ok(())
    })
}

/// Lets what was submitted and sent before leave, says goodbye to every viewer and ends all threads of the server: within 5 s, usually within
/// half a second. The handle means nothing afterwards: other calls with it fail with NL_STATUS_CLOSED. Not from an event callback.
#[unsafe(no_mangle)]
pub extern "C" fn nl_close(host: *mut nl_host) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        let closed = entry.host.close();
        if !matches!(closed, Err(nearlight_embed::HostError::CloseFromCallback)) {
            hosts::remove(host);
        }
        Ok(closed?)
    })
}

/// The link number `index` to the page, for a browser on this machine first, then for others, the likeliest first; then those for viewers
/// over Ethernet frames, which begin with `ether:`; NULL beyond the last. Links are keys: whoever has one sees and acts. Valid until
/// nl_close.
#[unsafe(no_mangle)]
pub extern "C" fn nl_link(host: *const nl_host, index: usize) -> *const c_char {
    let link = || {
        let entry = hosts::get(host)?;
        let (links, ethernet) = (entry.host.links(), entry.host.ethernet_links());
        let links = links.iter().map(ToString::to_string).chain(ethernet.iter().map(ToString::to_string));
        Ok(entry.text(&links.into_iter().nth(index).ok_or_else(Fault::nothing)?))
    };
    guard_or(link, |_| std::ptr::null())
}

/// A link to the page as a QR code for a phone's camera, in lines of Unicode's block characters. Valid until nl_close.
#[unsafe(no_mangle)]
pub extern "C" fn nl_qr_code(host: *const nl_host, index: usize) -> *const c_char {
    let code = || {
        let entry = hosts::get(host)?;
        let code = Host::qr_code(entry.host.links().get(index).ok_or_else(Fault::nothing)?)?;
        Ok(entry.text(&code))
    };
    guard_or(code, |_| std::ptr::null())
}

/// Nanoseconds since the server was opened; 0 for one that is not open.
#[unsafe(no_mangle)]
pub extern "C" fn nl_now(host: *const nl_host) -> u64 {
    guard_or(|| Ok(hosts::get(host)?.host.now().as_nanos()), |_| 0)
}

/// 1: somebody watches; 0: pictures would be made in vain, or the server is not open.
#[unsafe(no_mangle)]
pub extern "C" fn nl_is_watched(host: *const nl_host) -> i32 {
    guard_or(|| Ok(hosts::get(host)?.host.is_watched().into()), |_| 0)
}

/// Sends a message to the page or program of `viewer`, or of all with 0: up to 16384 bytes that come once and in order, or with
/// `reliable` 0 up to 1100 that may be lost, come twice or overtake others.
///
/// # Safety
/// `size` bytes can be read at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_send(
    host: *mut nl_host,
    viewer: u32,
    data: *const c_void,
    size: usize,
    reliable: i32,
) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // SAFETY: this function's contract.
        let data = unsafe { bytes("the message", data.cast(), size) }?;
        Ok(entry.host.send(receiver(viewer), data, reliable != 0)?)
    })
}

/// Shakes a gamepad or controller of `viewer`, or of all with 0.
///
/// # Safety
/// `pulse` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_haptics(host: *mut nl_host, viewer: u32, pulse: *const nl_haptics_pulse) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // SAFETY: this function's contract.
        let pulse = unsafe { memory::read(pulse) }?;
        let target = if pulse.target == nl_haptics_target::Gamepad as u32 {
            HapticsTarget::Gamepad(u8::try_from(pulse.index).unwrap_or(u8::MAX))
        } else if pulse.target == nl_haptics_target::Controller as u32 {
            HapticsTarget::Controller(hand(pulse.index)?)
        } else {
            return Err(Fault::argument(format!(
                "{} is not an nl_haptics_target: set it to one of NL_HAPTICS_TARGET_...",
                pulse.target
            )));
        };
        let milliseconds = u16::try_from(pulse.milliseconds).unwrap_or(u16::MAX);
        let (strong, weak) = (pulse.strong, pulse.weak);
        Ok(entry.host.haptics(receiver(viewer), Haptics { target, milliseconds, strong, weak })?)
    })
}

/// Sets how the pointer of `viewer` looks, or with 0 that of all viewers, including later ones. `cursor` is a keyword of CSS' `cursor`, such as
/// "default", "grab" or "none"; NULL stands for "default". With `captured` 1 the pointer is captured when the user clicks, for its movement.
/// Until this is called, the pointer is "default" and free.
///
/// # Safety
/// `cursor` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_set_pointer(
    host: *mut nl_host,
    viewer: u32,
    cursor: *const c_char,
    captured: i32,
) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // SAFETY: this function's contract.
        let name = unsafe { text("the cursor", cursor) }?.unwrap_or("default");
        Ok(entry.host.set_pointer(receiver(viewer), CursorShape::Named(name.to_owned()), captured != 0)?)
    })
}

/// A text of up to 4 MiB for the clipboard of `viewer`, or of all with 0, where options and user allow it.
///
/// # Safety
/// `text` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_set_clipboard(host: *mut nl_host, viewer: u32, text: *const c_char) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // SAFETY: this function's contract.
        let text = unsafe { memory::text("the text", text) }?;
        let text = text.ok_or_else(|| Fault::argument("the text is NULL: pass its address"))?;
        Ok(entry.host.set_clipboard(receiver(viewer), text)?)
    })
}

/// What the server has counted.
///
/// # Safety
/// `statistics` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_statistics(host: *const nl_host, statistics: *mut nl_server_statistics) -> nl_status {
    guard(|| {
        let counted = hosts::get(host)?.host.statistics();
        let answer = nl_server_statistics {
            submitted: counted.submitted,
            unwatched: counted.unwatched,
            events_dropped: counted.events_dropped,
            viewers: counted.viewers.len() as u32,
            sound_dropped: counted.sound_dropped,
            ..nl_server_statistics::default()
        };
        // SAFETY: this function's contract.
        unsafe { memory::write(statistics, answer) }
    })
}

/// What was counted of a viewer.
///
/// # Safety
/// `statistics` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_statistics(
    host: *const nl_host,
    viewer: u32,
    statistics: *mut nl_session_statistics,
) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // SAFETY: this function's contract.
        unsafe { check(statistics) }?;
        let counted = entry.host.statistics().viewers.into_iter().find(|(known, _)| known.0 == viewer);
        let (_, SessionStatistics { sender, target }) = counted.ok_or(nearlight_embed::HostError::NoViewer(viewer))?;
        let answer = nl_session_statistics {
            frames: sender.frames,
            frames_skipped: sender.skipped,
            key_frames: sender.key_frames,
            packets: sender.packets,
            packets_lost: sender.packets_lost,
            retransmissions: sender.retransmissions,
            repairs: sender.repairs,
            bytes: sender.sent.get(),
            sent_bps: sender.sent_rate.as_bps(),
            target_bps: Bitrate::as_bps(target),
            round_trip: sender.round_trip.map_or(0, |span| span.as_nanos().unsigned_abs()),
            ..nl_session_statistics::default()
        };
        // SAFETY: this function's contract.
        unsafe { memory::write(statistics, answer) }
    })
}

fn receiver(viewer: u32) -> Option<Viewer> {
    (viewer != 0).then_some(Viewer(viewer))
}

/// Checks the pointer for a server's handle and sets the handle to NULL.
///
/// # Safety
/// `host` is null or can be written.
unsafe fn clear(host: *mut *mut nl_host) -> Result<(), Fault> {
    if host.is_null() || !host.is_aligned() {
        return Err(Fault::argument("there is nowhere to write the server to: pass the address of an nl_host pointer"));
    }
    // SAFETY: not null, aligned, and writable by contract.
    unsafe { host.write(std::ptr::null_mut()) };
    Ok(())
}

/// Converts the options.
///
/// # Safety
/// `options` is as large as its `size` says, with texts that end with a zero byte.
unsafe fn read_options(options: *const nl_options) -> Result<Options, Fault> {
    // SAFETY: guaranteed by the caller.
    let given = unsafe { memory::read(options) }?;
    let text_of = |what, pointer: *const c_char| {
        // SAFETY: guaranteed by the caller.
        unsafe { text(what, pointer) }.map(|text| text.map(str::to_owned))
    };
    let defaults = Options::default();
    let or = |given: u16, default: u16| if given == 0 { default } else { given };
    let invalid = |message: String| Fault::new(nl_status::Options, message);
    let rate = |mbps: f64| (mbps != 0.0).then_some(mbps);
    let address = text_of("the address", given.address)?.map(|address| {
        address
            .parse()
            .map_err(|_| invalid(format!("`{address}` is not an address: write one such as 192.0.2.1 or ::1")))
    });
    let listed = |text: String| text.split(',').map(|part| part.trim().to_owned()).collect::<Vec<_>>();
    let codec =
        text_of("the codec", given.codec)?.map(|codec| codec.parse().map_err(|error| invalid(format!("{error}"))));
    Ok(Options {
        name: text_of("the name", given.name)?.unwrap_or(defaults.name),
        address: address.transpose()?,
        port: given.port,
        rtc_port: (given.rtc_port != 0).then_some(given.rtc_port),
        token: text_of("the token", given.token)?,
        certificate: text_of("the certificate", given.certificate)?.map(Into::into),
        key: text_of("the key", given.key)?.map(Into::into),
        width: or(given.width, defaults.width),
        height: or(given.height, defaults.height),
        fps: or(given.fps, defaults.fps),
        codec: codec.transpose()?.unwrap_or(defaults.codec),
        controller: text_of("the controller", given.controller)?.unwrap_or(defaults.controller),
        fec: text_of("the redundancy", given.fec)?.unwrap_or(defaults.fec),
        recovery: text_of("the recovery", given.recovery)?.unwrap_or(defaults.recovery),
        ethernet: text_of("the interfaces", given.ethernet)?.map(listed).unwrap_or_default(),
        ethernet_allow: text_of("the hardware addresses", given.ethernet_allow)?.map(listed),
        rate_mbps: rate(given.rate_mbps),
        min_rate_mbps: rate(given.min_rate_mbps),
        max_rate_mbps: rate(given.max_rate_mbps),
        stereo: given.stereo != 0,
        sound: given.sound != 0,
        synchronous: given.synchronous != 0,
        clipboard: given.clipboard != 0,
        max_clients: if given.max_clients == 0 { defaults.max_clients } else { given.max_clients as usize },
        events: text_of("the events' file", given.events)?.map(Into::into),
        ..defaults
    })
}
