//! A device with its queues and swapchains.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::sync::{Mutex, MutexGuard};

use ash::khr;
use ash::vk::{self, Handle as _};
use nearlight_embed::{PixelOrder, Time};
use nearlight_units::lock;

use super::chain::SetLoaderData;
use super::copy::Copier;
use super::{Instance, Opaque};
use crate::readback::CopiedPicture;
use crate::stream::{self, Presentation, Surface};

pub(super) struct Device {
    pub(super) handle: vk::Device,
    pub(super) next: vk::PFN_vkGetDeviceProcAddr,
    physical: vk::PhysicalDevice,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    surface_capabilities: Option<vk::PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR>,
    pub(super) set_loader_data: Option<SetLoaderData>,
    /// The functions of the next layer.
    pub(super) below: ash::Device,
    swapchains: Option<khr::swapchain::DeviceFn>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The family of each queue.
    queues: BTreeMap<u64, u32>,
    swapchains: BTreeMap<u64, Swapchain>,
}

/// A swapchain whose images can be copied.
pub(super) struct Swapchain {
    pub(super) images: Vec<vk::Image>,
    pub(super) size: (u16, u16),
    /// Byte order of pixels; `None` for formats that are not copied.
    pub(super) order: Option<PixelOrder>,
    window: Option<u32>,
    /// The copier for the queue family that presented last.
    copier: Option<Copier>,
}

/// Returns the byte order of images of this format.
fn order(format: vk::Format) -> Option<PixelOrder> {
    match format {
        vk::Format::B8G8R8A8_UNORM | vk::Format::B8G8R8A8_SRGB => Some(PixelOrder::Bgra),
        vk::Format::R8G8B8A8_UNORM | vk::Format::R8G8B8A8_SRGB => Some(PixelOrder::Rgba),
        _ => None,
    }
}

impl Device {
    /// # Safety
    ///
    /// The next layer has just created the device.
    pub(super) unsafe fn new(
        instance: &Instance,
        physical: vk::PhysicalDevice,
        handle: vk::Device,
        next: vk::PFN_vkGetDeviceProcAddr,
        set_loader_data: Option<SetLoaderData>,
    ) -> Self {
        // SAFETY: the names end with zeros, and the types are the functions'.
        unsafe {
            let address = |name: &CStr| -> *const c_void {
                next(handle, name.as_ptr()).map_or(std::ptr::null(), |found| found as *const c_void)
            };
            let mut memory = vk::PhysicalDeviceMemoryProperties::default();
            if let Some(get) = instance.memory_properties {
                get(physical, &raw mut memory);
            }
            // A device without the extension has no swapchains.
            let has_swapchains = !address(c"vkQueuePresentKHR").is_null();
            Self {
                handle,
                next,
                physical,
                memory,
                surface_capabilities: instance.surface_capabilities,
                set_loader_data,
                below: ash::Device::load_with(address, handle),
                swapchains: has_swapchains.then(|| khr::swapchain::DeviceFn::load(address)),
                state: Mutex::default(),
            }
        }
    }

    /// # Safety
    ///
    /// `F` must be the type of a pointer to the function with this name.
    pub(super) unsafe fn load<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the device lives, and the name ends with a zero; the caller guarantees the type.
        unsafe { (self.next)(self.handle, name.as_ptr()).map(|found| std::mem::transmute_copy(&found)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn on_queue(&self, queue: vk::Queue, family: u32) {
        if !queue.is_null() {
            self.state().queues.insert(queue.as_raw(), family);
        }
    }

    /// Creates a swapchain, with readable images if the surface supports it.
    ///
    /// # Safety
    ///
    /// The arguments are the program's.
    pub(super) unsafe fn create_swapchain(
        &self,
        info: &vk::SwapchainCreateInfoKHR<'_>,
        allocator: *const vk::AllocationCallbacks<'_>,
        swapchain: *mut vk::SwapchainKHR,
        window: Option<u32>,
    ) -> vk::Result {
        let Some(functions) = &self.swapchains else { return vk::Result::ERROR_EXTENSION_NOT_PRESENT };
        let mut readable_info = *info;
        // SAFETY: the handles are the program's, and live.
        unsafe {
            let mut capabilities = vk::SurfaceCapabilitiesKHR::default();
            let queried = self.surface_capabilities.map(|get| get(self.physical, info.surface, &raw mut capabilities));
            let readable = queried == Some(vk::Result::SUCCESS)
                && capabilities.supported_usage_flags.contains(vk::ImageUsageFlags::TRANSFER_SRC);
            if readable {
                readable_info.image_usage |= vk::ImageUsageFlags::TRANSFER_SRC;
            }
            let result = (functions.create_swapchain_khr)(self.handle, &raw const readable_info, allocator, swapchain);
            if result != vk::Result::SUCCESS {
                return result;
            }
            let mut count = 0;
            let get = functions.get_swapchain_images_khr;
            let _ = get(self.handle, *swapchain, &raw mut count, std::ptr::null_mut());
            let mut images = vec![vk::Image::null(); count as usize];
            let got = get(self.handle, *swapchain, &raw mut count, images.as_mut_ptr());
            let vk::Extent2D { width, height } = info.image_extent;
            let size = stream::streamed_size((width, height));
            if let (true, vk::Result::SUCCESS, Some(size)) = (readable && info.image_array_layers == 1, got, size) {
                let order = order(info.image_format);
                let known = Swapchain { images, size, order, window, copier: None };
                self.state().swapchains.insert((*swapchain).as_raw(), known);
            }
            result
        }
    }

    /// # Safety
    ///
    /// The program is destroying the swapchain and no longer uses its images.
    pub(super) unsafe fn forget_swapchain(&self, swapchain: vk::SwapchainKHR) {
        let gone = self.state().swapchains.remove(&swapchain.as_raw());
        if let Some(copier) = gone.and_then(|gone| gone.copier) {
            // SAFETY: the copier waits for its copies, and the images still exist.
            unsafe { copier.destroy(self) };
        }
    }

    /// # Safety
    ///
    /// The program is destroying the device and no longer uses it.
    pub(super) unsafe fn clear(&self) {
        let state = std::mem::take(&mut *self.state());
        for copier in state.swapchains.into_values().filter_map(|swapchain| swapchain.copier) {
            // SAFETY: as above.
            unsafe { copier.destroy(self) };
        }
    }

    /// Presents a picture, and copies it if it is the streamed window's.
    ///
    /// # Safety
    ///
    /// The arguments are the program's.
    pub(super) unsafe fn present(&self, queue: vk::Queue, info: &vk::PresentInfoKHR<'_>) -> vk::Result {
        let Some(functions) = &self.swapchains else { return vk::Result::ERROR_EXTENSION_NOT_PRESENT };
        let below = functions.queue_present_khr;
        // Presentations of several windows in one call are rare and are not streamed.
        if info.swapchain_count == 1 {
            // SAFETY: both arrays have one element.
            let (swapchain, index) = unsafe { (*info.p_swapchains, *info.p_image_indices as usize) };
            let mut state = self.state();
            let State { queues, swapchains } = &mut *state;
            let (family, found) = (queues.get(&queue.as_raw()).copied(), swapchains.get_mut(&swapchain.as_raw()));
            if let (Some(family), Some(found)) = (family, found)
                && let Some(order) = found.order
            {
                let Swapchain { size, window, .. } = *found;
                let surface = Surface::Vulkan { swapchain: swapchain.as_raw() as usize, size, window };
                let result = vk::Result::SUCCESS;
                let mut presentation =
                    PendingPresentation { device: self, queue, family, info, index, found, order, below, result };
                stream::present(&surface, &mut presentation);
                return presentation.result;
            }
        }
        // SAFETY: the arguments are the program's.
        unsafe { below(queue, &raw const *info) }
    }

    /// Writes the loader's pointer into one of our objects.
    ///
    /// # Safety
    ///
    /// It is a dispatchable object of this device.
    pub(super) unsafe fn set_loader_pointer(&self, object: u64) {
        // SAFETY: guaranteed by the caller; both objects begin with the loader's pointer.
        unsafe {
            match self.set_loader_data {
                Some(set) => drop(set(self.handle, object as Opaque)),
                None => *(object as *mut usize) = *(self.handle.as_raw() as *const usize),
            }
        }
    }
}

/// A presentation of one image.
struct PendingPresentation<'a> {
    device: &'a Device,
    queue: vk::Queue,
    family: u32,
    info: &'a vk::PresentInfoKHR<'a>,
    index: usize,
    found: &'a mut Swapchain,
    order: PixelOrder,
    below: vk::PFN_vkQueuePresentKHR,
    result: vk::Result,
}

impl PendingPresentation<'_> {
    /// Copies the image. Returns the semaphore for which the presentation has to wait; `None` if the image is not copied.
    fn copy(&mut self, draw_started_at: Time) -> Option<vk::Semaphore> {
        let Self { device, queue, family, info, index, found, .. } = self;
        if found.copier.as_ref().is_none_or(|copier| copier.family != *family) {
            if let Some(other) = found.copier.take() {
                // SAFETY: the device lives.
                unsafe { other.destroy(device) };
            }
            // SAFETY: the presenting queue is of this family.
            found.copier = unsafe { Copier::new(device, *family, found.images.len(), found.size) };
        }
        let image = *found.images.get(*index)?;
        // SAFETY: the queue is of the copier's family, and the image was drawn and is about to be presented.
        unsafe { found.copier.as_mut()?.start(device, *queue, image, *index, info, draw_started_at) }
    }
}

impl Presentation for PendingPresentation<'_> {
    fn present(&mut self, draw_started_at: Option<Time>) {
        let waits = draw_started_at.and_then(|draw_started_at| self.copy(draw_started_at)).map(|copied| [copied]);
        let mut info = *self.info;
        if let Some(waits) = &waits {
            (info.wait_semaphore_count, info.p_wait_semaphores) = (1, waits.as_ptr());
        }
        // SAFETY: the arguments are the program's. If the image is copied, the copy waits for the program's semaphores, and the
        // presentation for the copy.
        self.result = unsafe { (self.below)(self.queue, &raw const info) };
    }

    fn finish(&mut self, submit: &mut dyn FnMut(&CopiedPicture<'_>)) {
        if let Some(copier) = &mut self.found.copier {
            copier.finish(self.device, self.order, submit);
        }
    }
}
