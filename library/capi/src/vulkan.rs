//! Calls that submit images of a Vulkan device.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex};

use nearlight_embed::graphics::GraphicsError;
use nearlight_embed::graphics::vulkan::{Delivery, Handles as Program, Reader, Source, raw};
use nearlight_units::lock;

use crate::fault::{Fault, guard};
use crate::graphics::read;
use crate::handles::Handles;
use crate::hosts;
use crate::memory::{self, Versioned, versioned};
use crate::pictures::{rows_of, size_of};
use crate::types::{nl_host, nl_picture, nl_status};

/// Images of one Vulkan device on their way to a server.
pub struct nl_vulkan {
    _private: [u8; 0],
}

/// Vulkan's vkGetInstanceProcAddr, cast to this type.
pub type nl_vulkan_loader =
    Option<unsafe extern "C" fn(instance: *mut c_void, name: *const c_char) -> Option<unsafe extern "C" fn()>>;

/// The program's own Vulkan, which outlives the reader.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_vulkan_options {
    /// sizeof(nl_vulkan_options)
    pub size: usize,
    pub loader: nl_vulkan_loader,
    /// VkInstance, VkPhysicalDevice, VkDevice.
    pub instance: *mut c_void,
    pub physical_device: *mut c_void,
    pub device: *mut c_void,
    /// VkQueue, of a family with graphics, compute or transfer. It copies the images; nl_vulkan calls count as uses of it.
    pub queue: *mut c_void,
    pub queue_family: u32,
    /// 1: each picture is handed over before the call returns, which waits for the GPU; 0: with the next one, or by nl_vulkan_finish.
    pub at_once: u32,
}

/// An image with one level, one layer and one sample per pixel, whose usage has VK_IMAGE_USAGE_TRANSFER_SRC_BIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_vulkan_image {
    /// sizeof(nl_vulkan_image)
    pub size: usize,
    /// VkImage.
    pub image: u64,
    /// VkSemaphore that the copy waits for, where other queues draw the image; 0: none. Not of a timeline.
    pub wait: u64,
    /// VkFormat: R8G8B8A8 or B8G8R8A8, UNORM or SRGB. Bytes are taken as they are.
    pub format: i32,
    /// VkImageLayout, before and after the call.
    pub layout: i32,
}

versioned!(nl_vulkan_options up to at_once, nl_vulkan_image up to layout);

static READERS: Handles<Entry> = Handles::new();

struct Entry {
    host: Arc<hosts::Entry>,
    /// `None` once the reader is closed.
    reader: Mutex<Option<Reader>>,
}

impl Entry {
    fn read(&self, work: impl FnOnce(&mut Reader) -> Result<(), GraphicsError>) -> Result<(), Fault> {
        let mut reader = lock(&self.reader);
        let reader = reader.as_mut().ok_or_else(|| Fault::new(nl_status::Closed, "the reader was closed"))?;
        Ok(work(reader)?)
    }
}

fn get(vulkan: *const nl_vulkan) -> Result<Arc<Entry>, Fault> {
    if vulkan.is_null() {
        return Err(Fault::argument("the reader is NULL: pass what nl_vulkan_open has written"));
    }
    READERS.get(vulkan.addr()).ok_or_else(|| Fault::new(nl_status::Closed, "the reader was closed, or was never open"))
}

/// Prepares to read images of a Vulkan device. Writes the reader to `vulkan`, or NULL where it fails.
///
/// # Safety
/// `options` is null or as large as its `size` says, and its handles are those of one device; `vulkan` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_vulkan_open(
    host: *mut nl_host,
    options: *const nl_vulkan_options,
    vulkan: *mut *mut nl_vulkan,
) -> nl_status {
    guard(|| {
        if vulkan.is_null() || !vulkan.is_aligned() {
            return Err(Fault::argument(
                "the pointer for the reader is NULL: pass the address of an nl_vulkan pointer",
            ));
        }
        // SAFETY: not null, aligned, and writable by contract.
        unsafe { vulkan.write(std::ptr::null_mut()) };
        let host = hosts::get(host)?;
        // SAFETY: this function's contract.
        let given = unsafe { memory::read(options) }?;
        let loader = given.loader.ok_or_else(|| Fault::argument("the loader is NULL: pass vkGetInstanceProcAddr"))?;
        let handles = [given.instance, given.physical_device, given.device, given.queue];
        if handles.iter().any(|handle| handle.is_null()) {
            return Err(Fault::argument("instance, physical device, device or queue is NULL: pass the program's own"));
        }
        let [instance, physical, device, queue] = handles.map(|handle| handle.addr() as u64);
        let program = Program {
            // SAFETY: Vulkan's function of this name, by contract, whose handles are pointers.
            instance_functions: unsafe { std::mem::transmute::<InstanceFunctions, raw::Functions>(loader) },
            instance: raw::handle(instance),
            physical: raw::handle(physical),
            device: raw::handle(device),
            queue: raw::handle(queue),
            family: given.queue_family,
        };
        let delivery = if given.at_once == 0 { Delivery::Deferred } else { Delivery::Immediate };
        // SAFETY: this function's contract.
        let reader = unsafe { Reader::new(&program, delivery) }?;
        let number = READERS.add(Entry { host, reader: Mutex::new(Some(reader)) });
        // SAFETY: as above.
        unsafe { vulkan.write(std::ptr::without_provenance_mut(number)) };
        Ok(())
    })
}

type InstanceFunctions = unsafe extern "C" fn(*mut c_void, *const c_char) -> Option<unsafe extern "C" fn()>;

/// Takes an image as a picture. What was submitted to the reader's queue before is drawn first; what is submitted afterwards may draw into the
/// image again. Of `picture` its size, layout (NL_LAYOUT_MONO or NL_LAYOUT_SIDE_BY_SIDE), `flags`, `captured_at` and views count.
///
/// # Safety
/// The image is of the reader's device and as large as the picture, and is not destroyed before it was handed over; no other thread uses the
/// queue meanwhile; `image` and `picture` are null or as large as their `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_vulkan_submit(
    vulkan: *mut nl_vulkan,
    image: *const nl_vulkan_image,
    picture: *const nl_picture,
) -> nl_status {
    guard(|| {
        let entry = get(vulkan)?;
        // SAFETY: this function's contract.
        let image = unsafe { memory::read(image) }?;
        // SAFETY: this function's contract.
        let (given, picture) = unsafe { read(picture) }?;
        if image.image == 0 {
            return Err(Fault::argument("the image is VK_NULL_HANDLE: pass one of the reader's device"));
        }
        let source = Source {
            image: raw::handle(image.image),
            format: raw::format(image.format),
            layout: raw::layout(image.layout),
            size: size_of(picture.width, picture.height)?,
            rows: rows_of(&picture)?,
            wait: (image.wait != 0).then(|| raw::handle(image.wait)),
        };
        // SAFETY: this function's contract.
        entry.read(|reader| unsafe { reader.submit(&entry.host.host, &source, given.content()) })
    })
}

/// Hands over what is still being read.
///
/// # Safety
/// The device lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_vulkan_finish(vulkan: *mut nl_vulkan) -> nl_status {
    guard(|| {
        let entry = get(vulkan)?;
        // SAFETY: this function's contract.
        entry.read(|reader| unsafe { reader.finish(&entry.host.host) })
    })
}

/// Frees what the reader has on its device. Before the device is destroyed, and after or before nl_close.
///
/// # Safety
/// The device lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_vulkan_close(vulkan: *mut nl_vulkan) -> nl_status {
    guard(|| {
        let entry = get(vulkan)?;
        READERS.remove(vulkan.addr());
        if let Some(reader) = lock(&entry.reader).take() {
            // SAFETY: this function's contract.
            unsafe { reader.delete() };
        }
        Ok(())
    })
}
