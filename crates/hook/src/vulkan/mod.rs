//! A Vulkan layer: stands between the program and the driver where a picture is presented.
//!
//! `nearlight hook` names the layer in the environment, and the Vulkan loader puts it into the chain of every instance. The layer passes
//! every call on; it looks at the few that make devices, queues, swapchains and surfaces, and adds to a presentation a copy of the
//! image into memory that the processor reads.

mod chain;
mod copy;
mod device;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk::{self, Handle as _};

use self::chain::{DeviceLink, InstanceLink, NegotiateInterface};
use self::device::Device;

/// What the loader knows the dispatchable handles of one instance or device by.
type Key = usize;

/// # Safety
///
/// `handle` is a dispatchable handle of Vulkan, which points to the loader's table of its instance or device.
unsafe fn key(handle: u64) -> Key {
    // SAFETY: the caller vouches for it.
    unsafe { *(handle as *const usize) }
}

/// An instance, as the layer below knows it. Functions are looked up when it is made: later the loader answers with its first layer's,
/// which may be this one.
#[derive(Clone)]
struct Instance {
    handle: vk::Instance,
    next: vk::PFN_vkGetInstanceProcAddr,
    destroy: Option<vk::PFN_vkDestroyInstance>,
    create_xcb_surface: Option<vk::PFN_vkCreateXcbSurfaceKHR>,
    create_xlib_surface: Option<vk::PFN_vkCreateXlibSurfaceKHR>,
    memory_properties: Option<vk::PFN_vkGetPhysicalDeviceMemoryProperties>,
    surface_abilities: Option<vk::PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR>,
}

impl Instance {
    /// # Safety
    ///
    /// The layer below has just made it.
    unsafe fn new(handle: vk::Instance, next: vk::PFN_vkGetInstanceProcAddr) -> Self {
        // SAFETY: each type is that of the function with this name.
        unsafe {
            Self {
                handle,
                next,
                destroy: load(handle, next, c"vkDestroyInstance"),
                create_xcb_surface: load(handle, next, c"vkCreateXcbSurfaceKHR"),
                create_xlib_surface: load(handle, next, c"vkCreateXlibSurfaceKHR"),
                memory_properties: load(handle, next, c"vkGetPhysicalDeviceMemoryProperties"),
                surface_abilities: load(handle, next, c"vkGetPhysicalDeviceSurfaceCapabilitiesKHR"),
            }
        }
    }
}

/// # Safety
///
/// The instance lives, and `F` must be the type of a pointer to the function with this name.
unsafe fn load<F: Copy>(handle: vk::Instance, next: vk::PFN_vkGetInstanceProcAddr, name: &CStr) -> Option<F> {
    // SAFETY: the name ends with a zero; the caller vouches for the rest.
    unsafe { next(handle, name.as_ptr()).map(|found| std::mem::transmute_copy(&found)) }
}

#[derive(Default)]
struct Known {
    instances: BTreeMap<Key, Instance>,
    devices: BTreeMap<Key, Arc<Device>>,
    /// X windows by surface.
    windows: BTreeMap<u64, u32>,
}

static KNOWN: Mutex<Known> =
    Mutex::new(Known { instances: BTreeMap::new(), devices: BTreeMap::new(), windows: BTreeMap::new() });

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// # Safety
///
/// The handle is that of a device, or of a queue of a device, that went through this layer.
unsafe fn device_of(handle: u64) -> Option<Arc<Device>> {
    // SAFETY: the caller vouches for it.
    known().devices.get(&unsafe { key(handle) }).cloned()
}

/// Called by the loader first: answers where this layer's functions are.
///
/// # Safety
///
/// As the loader's interface has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub(crate) unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(
    answer: *mut NegotiateInterface,
) -> vk::Result {
    // SAFETY: the loader passes a structure of its own.
    let Some(answer) = (unsafe { answer.as_mut() }) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    answer.version = answer.version.min(2);
    answer.instance_address = Some(instance_address);
    answer.device_address = Some(device_address);
    answer.physical_address = None;
    vk::Result::SUCCESS
}

type Void = vk::PFN_vkVoidFunction;

/// A function of this layer as the loader takes it.
macro_rules! ours {
    ($function:expr, $kind:ty) => {
        // SAFETY: the loader calls it with the signature that the name stands for, which `$kind` is.
        Some(unsafe { std::mem::transmute::<$kind, unsafe extern "system" fn()>($function) })
    };
}

unsafe extern "system" fn instance_address(instance: vk::Instance, name: *const c_char) -> Void {
    // SAFETY: a name ends with a zero.
    let text = unsafe { CStr::from_ptr(name) };
    match text.to_bytes() {
        b"vkGetInstanceProcAddr" => return ours!(instance_address, vk::PFN_vkGetInstanceProcAddr),
        b"vkCreateInstance" => return ours!(create_instance, vk::PFN_vkCreateInstance),
        b"vkDestroyInstance" => return ours!(destroy_instance, vk::PFN_vkDestroyInstance),
        b"vkCreateDevice" => return ours!(create_device, vk::PFN_vkCreateDevice),
        _ => {}
    }
    if instance.is_null() {
        return None;
    }
    // SAFETY: the instance lives.
    let found = known().instances.get(&unsafe { key(instance.as_raw()) }).cloned()?;
    // SAFETY: as above.
    let below = unsafe { (found.next)(found.handle, name) };
    match text.to_bytes() {
        // Only where the instance has the extension.
        b"vkCreateXcbSurfaceKHR" => below.and(ours!(create_xcb_surface, vk::PFN_vkCreateXcbSurfaceKHR)),
        b"vkCreateXlibSurfaceKHR" => below.and(ours!(create_xlib_surface, vk::PFN_vkCreateXlibSurfaceKHR)),
        _ => below.and(own_device_function(text)).or(below),
    }
}

fn own_device_function(name: &CStr) -> Void {
    match name.to_bytes() {
        b"vkGetDeviceProcAddr" => ours!(device_address, vk::PFN_vkGetDeviceProcAddr),
        b"vkDestroyDevice" => ours!(destroy_device, vk::PFN_vkDestroyDevice),
        b"vkGetDeviceQueue" => ours!(get_device_queue, vk::PFN_vkGetDeviceQueue),
        b"vkGetDeviceQueue2" => ours!(get_device_queue2, vk::PFN_vkGetDeviceQueue2),
        b"vkCreateSwapchainKHR" => ours!(create_swapchain, vk::PFN_vkCreateSwapchainKHR),
        b"vkDestroySwapchainKHR" => ours!(destroy_swapchain, vk::PFN_vkDestroySwapchainKHR),
        b"vkQueuePresentKHR" => ours!(queue_present, vk::PFN_vkQueuePresentKHR),
        _ => None,
    }
}

unsafe extern "system" fn device_address(device: vk::Device, name: *const c_char) -> Void {
    // SAFETY: a name ends with a zero, and the device lives.
    let (text, found) = unsafe { (CStr::from_ptr(name), device_of(device.as_raw())) };
    // SAFETY: the device lives.
    let below = found.and_then(|found| unsafe { (found.next)(found.handle, name) });
    below.and(own_device_function(text)).or(below)
}

unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    instance: *mut vk::Instance,
) -> vk::Result {
    // SAFETY: the loader has put its link into the chain, and the pointers are the caller's.
    unsafe {
        let Some(next) = InstanceLink::take(info) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let name = c"vkCreateInstance";
        let Some(create) = next(vk::Instance::null(), name.as_ptr()) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let create: vk::PFN_vkCreateInstance = std::mem::transmute(create);
        let result = create(info, allocator, instance);
        if result == vk::Result::SUCCESS {
            let handle = *instance;
            known().instances.insert(key(handle.as_raw()), Instance::new(handle, next));
        }
        result
    }
}

unsafe extern "system" fn destroy_instance(instance: vk::Instance, allocator: *const vk::AllocationCallbacks<'_>) {
    if instance.is_null() {
        return;
    }
    // SAFETY: the instance lives until the layer below has destroyed it; the pointers are the caller's.
    unsafe {
        let Some(found) = known().instances.remove(&key(instance.as_raw())) else { return };
        if let Some(destroy) = found.destroy {
            destroy(instance, allocator);
        }
    }
}

unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    // SAFETY: the loader has put its link into the chain, and the pointers are the caller's.
    unsafe {
        let failed = vk::Result::ERROR_INITIALIZATION_FAILED;
        let Some(instance) = known().instances.get(&key(physical.as_raw())).cloned() else { return failed };
        let set_loader_data = DeviceLink::set_loader_data(info);
        let Some((next_instance, next)) = DeviceLink::take(info) else { return failed };
        let Some(create) = next_instance(instance.handle, c"vkCreateDevice".as_ptr()) else { return failed };
        let create: vk::PFN_vkCreateDevice = std::mem::transmute(create);
        let result = create(physical, info, allocator, device);
        if result == vk::Result::SUCCESS {
            let handle = *device;
            let made = Device::new(&instance, physical, handle, next, set_loader_data);
            known().devices.insert(key(handle.as_raw()), Arc::new(made));
        }
        result
    }
}

unsafe extern "system" fn destroy_device(device: vk::Device, allocator: *const vk::AllocationCallbacks<'_>) {
    if device.is_null() {
        return;
    }
    // SAFETY: the device lives until the layer below has destroyed it; the pointers are the caller's.
    unsafe {
        let Some(found) = known().devices.remove(&key(device.as_raw())) else { return };
        found.clear();
        if let Some(destroy) = found.load::<vk::PFN_vkDestroyDevice>(c"vkDestroyDevice") {
            destroy(device, allocator);
        }
    }
}

unsafe extern "system" fn get_device_queue(device: vk::Device, family: u32, index: u32, queue: *mut vk::Queue) {
    // SAFETY: the device lives, and the pointers are the caller's.
    unsafe {
        let Some(found) = device_of(device.as_raw()) else { return };
        if let Some(get) = found.load::<vk::PFN_vkGetDeviceQueue>(c"vkGetDeviceQueue") {
            get(device, family, index, queue);
            found.on_queue(*queue, family);
        }
    }
}

unsafe extern "system" fn get_device_queue2(
    device: vk::Device,
    info: *const vk::DeviceQueueInfo2<'_>,
    queue: *mut vk::Queue,
) {
    // SAFETY: the device lives, and the pointers are the caller's.
    unsafe {
        let Some(found) = device_of(device.as_raw()) else { return };
        if let Some(get) = found.load::<vk::PFN_vkGetDeviceQueue2>(c"vkGetDeviceQueue2") {
            get(device, info, queue);
            found.on_queue(*queue, (*info).queue_family_index);
        }
    }
}

unsafe extern "system" fn create_swapchain(
    device: vk::Device,
    info: *const vk::SwapchainCreateInfoKHR<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    swapchain: *mut vk::SwapchainKHR,
) -> vk::Result {
    // SAFETY: the device lives, and the pointers are the caller's.
    unsafe {
        let Some(found) = device_of(device.as_raw()) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let window = known().windows.get(&(*info).surface.as_raw()).copied();
        found.create_swapchain(&*info, allocator, swapchain, window)
    }
}

unsafe extern "system" fn destroy_swapchain(
    device: vk::Device,
    swapchain: vk::SwapchainKHR,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the device lives, and the pointers are the caller's.
    unsafe {
        let Some(found) = device_of(device.as_raw()) else { return };
        found.forget_swapchain(swapchain);
        if let Some(destroy) = found.load::<vk::PFN_vkDestroySwapchainKHR>(c"vkDestroySwapchainKHR") {
            destroy(device, swapchain, allocator);
        }
    }
}

unsafe extern "system" fn queue_present(queue: vk::Queue, info: *const vk::PresentInfoKHR<'_>) -> vk::Result {
    // SAFETY: the queue is that of a device that lives, and the pointers are the caller's.
    unsafe {
        match device_of(queue.as_raw()) {
            Some(found) => found.present(queue, &*info),
            None => vk::Result::ERROR_DEVICE_LOST,
        }
    }
}

/// # Safety
///
/// The instance lives, and `create` calls the layer below with the caller's arguments.
unsafe fn create_surface(
    instance: vk::Instance,
    surface: *mut vk::SurfaceKHR,
    window: u32,
    create: impl FnOnce(&Instance) -> Option<vk::Result>,
) -> vk::Result {
    // SAFETY: the caller vouches for it.
    unsafe {
        let found = known().instances.get(&key(instance.as_raw())).cloned();
        let result = found.and_then(|found| create(&found)).unwrap_or(vk::Result::ERROR_EXTENSION_NOT_PRESENT);
        if result == vk::Result::SUCCESS {
            known().windows.insert((*surface).as_raw(), window);
        }
        result
    }
}

unsafe extern "system" fn create_xcb_surface(
    instance: vk::Instance,
    info: *const vk::XcbSurfaceCreateInfoKHR<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    surface: *mut vk::SurfaceKHR,
) -> vk::Result {
    // SAFETY: the arguments are the caller's.
    unsafe {
        let create = |found: &Instance| Some(found.create_xcb_surface?(instance, info, allocator, surface));
        create_surface(instance, surface, (*info).window, create)
    }
}

unsafe extern "system" fn create_xlib_surface(
    instance: vk::Instance,
    info: *const vk::XlibSurfaceCreateInfoKHR<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    surface: *mut vk::SurfaceKHR,
) -> vk::Result {
    // SAFETY: the arguments are the caller's.
    unsafe {
        let create = |found: &Instance| Some(found.create_xlib_surface?(instance, info, allocator, surface));
        create_surface(instance, surface, (*info).window as u32, create)
    }
}

/// A pointer that is none to look at here.
type Opaque = *mut c_void;
