//! A device with its queues and swapchains.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::khr;
use ash::vk::{self, Handle as _};
use nearlight_embed::{PixelOrder, Time};

use super::chain::SetLoaderData;
use super::copy::Copier;
use super::{Instance, Opaque};
use crate::readback::Read;
use crate::stream::{self, Presentation, Surface};

pub(super) struct Device {
    pub(super) handle: vk::Device,
    pub(super) next: vk::PFN_vkGetDeviceProcAddr,
    physical: vk::PhysicalDevice,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    surface_abilities: Option<vk::PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR>,
    pub(super) set_loader_data: Option<SetLoaderData>,
    /// The layer below.
    pub(super) below: ash::Device,
    swapchains: Option<khr::swapchain::DeviceFn>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Families by queue.
    queues: BTreeMap<u64, u32>,
    swapchains: BTreeMap<u64, Swapchain>,
}

/// Pictures of a window.
pub(super) struct Swapchain {
    pub(super) images: Vec<vk::Image>,
    pub(super) size: (u16, u16),
    /// None where pixels have another format than four bytes.
    pub(super) order: Option<PixelOrder>,
    window: Option<u32>,
    /// By queue family.
    copier: Option<Copier>,
}

/// The order of bytes in images of this format.
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
    /// The device was just made by the layer below.
    pub(super) unsafe fn new(
        instance: &Instance,
        physical: vk::PhysicalDevice,
        handle: vk::Device,
        next: vk::PFN_vkGetDeviceProcAddr,
        set_loader_data: Option<SetLoaderData>,
    ) -> Self {
        // SAFETY: the names end with zeros, and the types are those of the functions.
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
                surface_abilities: instance.surface_abilities,
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
        // SAFETY: the device lives, and the name ends with a zero; the caller vouches for the type.
        unsafe { (self.next)(self.handle, name.as_ptr()).map(|found| std::mem::transmute_copy(&found)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn on_queue(&self, queue: vk::Queue, family: u32) {
        if !queue.is_null() {
            self.state().queues.insert(queue.as_raw(), family);
        }
    }

    /// Has the images readable where the surface allows it.
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
        let mut wanted = *info;
        // SAFETY: the handles are the program's, and live.
        unsafe {
            let mut abilities = vk::SurfaceCapabilitiesKHR::default();
            let told = self.surface_abilities.map(|get| get(self.physical, info.surface, &raw mut abilities));
            let readable = told == Some(vk::Result::SUCCESS)
                && abilities.supported_usage_flags.contains(vk::ImageUsageFlags::TRANSFER_SRC);
            if readable {
                wanted.image_usage |= vk::ImageUsageFlags::TRANSFER_SRC;
            }
            let result = (functions.create_swapchain_khr)(self.handle, &raw const wanted, allocator, swapchain);
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
                let made = Swapchain { images, size, order, window, copier: None };
                self.state().swapchains.insert((*swapchain).as_raw(), made);
            }
            result
        }
    }

    /// # Safety
    ///
    /// The program is destroying it and uses none of its images any more.
    pub(super) unsafe fn forget_swapchain(&self, swapchain: vk::SwapchainKHR) {
        let gone = self.state().swapchains.remove(&swapchain.as_raw());
        if let Some(copier) = gone.and_then(|gone| gone.copier) {
            // SAFETY: what it has submitted ends before the images go.
            unsafe { copier.destroy(self) };
        }
    }

    /// # Safety
    ///
    /// The program is destroying the device, and uses it no more.
    pub(super) unsafe fn clear(&self) {
        let state = std::mem::take(&mut *self.state());
        for copier in state.swapchains.into_values().filter_map(|swapchain| swapchain.copier) {
            // SAFETY: as above.
            unsafe { copier.destroy(self) };
        }
    }

    /// Presents a picture, and has it copied if it is the streamed window's.
    ///
    /// # Safety
    ///
    /// The arguments are the program's.
    pub(super) unsafe fn present(&self, queue: vk::Queue, info: &vk::PresentInfoKHR<'_>) -> vk::Result {
        let Some(functions) = &self.swapchains else { return vk::Result::ERROR_EXTENSION_NOT_PRESENT };
        let below = functions.queue_present_khr;
        // Several windows in one call are rare, and none of them is streamed.
        if info.swapchain_count == 1 {
            // SAFETY: there is one of each.
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
                let mut presented = Presented { device: self, queue, family, info, index, found, order, below, result };
                stream::around_presentation(&surface, &mut presented);
                return presented.result;
            }
        }
        // SAFETY: the arguments are the program's.
        unsafe { below(queue, &raw const *info) }
    }

    /// Makes an object of ours known to the loader.
    ///
    /// # Safety
    ///
    /// It is a dispatchable object of this device.
    pub(super) unsafe fn adopt(&self, object: u64) {
        // SAFETY: the caller vouches for it; both begin with the loader's pointer.
        unsafe {
            match self.set_loader_data {
                Some(set) => drop(set(self.handle, object as Opaque)),
                None => *(object as *mut usize) = *(self.handle.as_raw() as *const usize),
            }
        }
    }
}

/// One image on its way to the display.
struct Presented<'a> {
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

impl Presented<'_> {
    /// Has the image copied. Answers what the presentation is to wait for; none where it is not copied.
    fn copy(&mut self, drawn_from: Time) -> Option<vk::Semaphore> {
        let Self { device, queue, family, info, index, found, .. } = self;
        if found.copier.as_ref().is_none_or(|copier| copier.family != *family) {
            if let Some(other) = found.copier.take() {
                // SAFETY: the device lives.
                unsafe { other.destroy(device) };
            }
            // SAFETY: the queue that presents is of this family.
            found.copier = unsafe { Copier::new(device, *family, found.images.len(), found.size) };
        }
        let image = *found.images.get(*index)?;
        // SAFETY: the queue is of the copier's family, and the image was drawn and is about to be presented.
        unsafe { found.copier.as_mut()?.start(device, *queue, image, *index, info, drawn_from) }
    }
}

impl Presentation for Presented<'_> {
    fn present(&mut self, drawn_from: Option<Time>) {
        let waits = drawn_from.and_then(|drawn_from| self.copy(drawn_from)).map(|copied| [copied]);
        let mut info = *self.info;
        if let Some(waits) = &waits {
            (info.wait_semaphore_count, info.p_wait_semaphores) = (1, waits.as_ptr());
        }
        // SAFETY: the arguments are the program's; where the image is copied, the copy waits for what the program named, and the presentation
        // for the copy.
        self.result = unsafe { (self.below)(self.queue, &raw const info) };
    }

    fn finish(&mut self, submit: &mut dyn FnMut(&Read<'_>)) {
        if let Some(copier) = &mut self.found.copier {
            copier.finish(self.device, self.order, submit);
        }
    }
}
