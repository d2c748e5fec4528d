//! A Vulkan layer between the program and the driver, which copies presented images.
//!
//! `nearlight hook` names the layer in the environment, and the Vulkan loader inserts it into the chain of every instance. The layer passes
//! on all calls. It records devices, queues, swapchains and surfaces, and copies each presented image into host-visible memory.

mod chain;
mod copy;
mod device;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard};

use ash::vk::{self, Handle as _};
use nearlight_units::lock;

use self::chain::{DeviceLink, InstanceLink, NegotiateInterface};
use self::device::Device;

/// The loader's dispatch table, which identifies the instance or device of a dispatchable handle.
type DispatchKey = usize;

/// # Safety
///
/// `handle` is a dispatchable handle of Vulkan, whose object begins with a pointer to the loader's table.
unsafe fn key(handle: u64) -> DispatchKey {
    // SAFETY: guaranteed by the caller.
    unsafe { *(handle as *const usize) }
}

/// An instance and functions of the next layer. The functions are looked up when the instance is created, because later the loader would
/// return those of the first layer, which may be this one.
#[derive(Clone)]
struct Instance {
    handle: vk::Instance,
    next: vk::PFN_vkGetInstanceProcAddr,
    destroy: Option<vk::PFN_vkDestroyInstance>,
    create_xcb_surface: Option<vk::PFN_vkCreateXcbSurfaceKHR>,
    create_xlib_surface: Option<vk::PFN_vkCreateXlibSurfaceKHR>,
    memory_properties: Option<vk::PFN_vkGetPhysicalDeviceMemoryProperties>,
    surface_capabilities: Option<vk::PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR>,
}

impl Instance {
    /// # Safety
    ///
    /// The next layer has just created the instance.
    unsafe fn new(handle: vk::Instance, next: vk::PFN_vkGetInstanceProcAddr) -> Self {
        // SAFETY: each type is the named function's.
        unsafe {
            Self {
                handle,
                next,
                destroy: load(handle, next, c"vkDestroyInstance"),
                create_xcb_surface: load(handle, next, c"vkCreateXcbSurfaceKHR"),
                create_xlib_surface: load(handle, next, c"vkCreateXlibSurfaceKHR"),
                memory_properties: load(handle, next, c"vkGetPhysicalDeviceMemoryProperties"),
                surface_capabilities: load(handle, next, c"vkGetPhysicalDeviceSurfaceCapabilitiesKHR"),
            }
        }
    }
}

/// # Safety
///
/// The instance lives, and `F` must be the type of a pointer to the function with this name.
unsafe fn load<F: Copy>(handle: vk::Instance, next: vk::PFN_vkGetInstanceProcAddr, name: &CStr) -> Option<F> {
    // SAFETY: the name ends with a zero; the caller guarantees the rest.
    unsafe { next(handle, name.as_ptr()).map(|found| std::mem::transmute_copy(&found)) }
}

/// The program's instances, devices and surfaces.
#[derive(Default)]
struct Registry {
    instances: BTreeMap<DispatchKey, Instance>,
    devices: BTreeMap<DispatchKey, Arc<Device>>,
    /// The X window of each surface.
    windows: BTreeMap<u64, u32>,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { instances: BTreeMap::new(), devices: BTreeMap::new(), windows: BTreeMap::new() });

fn registry() -> MutexGuard<'static, Registry> {
    lock(&REGISTRY)
}

/// # Safety
///
/// The handle is a device, or a queue of a device, that was created through this layer.
unsafe fn device_of(handle: u64) -> Option<Arc<Device>> {
    // SAFETY: guaranteed by the caller.
    registry().devices.get(&unsafe { key(handle) }).cloned()
}

/// Is called by the loader first. Returns the addresses of this layer's functions.
///
/// # Safety
///
/// The requirements of the loader's interface apply.
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

/// Converts a function of this layer into the loader's type.
macro_rules! layer_function {
    ($function:expr, $kind:ty) => {
        // SAFETY: the loader calls it with the signature of the requested name, which is `$kind`.
        Some(unsafe { std::mem::transmute::<$kind, unsafe extern "system" fn()>($function) })
    };
}

unsafe extern "system" fn instance_address(instance: vk::Instance, name: *const c_char) -> Void {
    // SAFETY: a name ends with a zero.
    let text = unsafe { CStr::from_ptr(name) };
    match text.to_bytes() {
        b"vkGetInstanceProcAddr" => return layer_function!(instance_address, vk::PFN_vkGetInstanceProcAddr),
        b"vkCreateInstance" => return layer_function!(create_instance, vk::PFN_vkCreateInstance),
        b"vkDestroyInstance" => return layer_function!(destroy_instance, vk::PFN_vkDestroyInstance),
        b"vkCreateDevice" => return layer_function!(create_device, vk::PFN_vkCreateDevice),
        _ => {}
    }
    if instance.is_null() {
        return None;
    }
    // SAFETY: the instance lives.
    let found = registry().instances.get(&unsafe { key(instance.as_raw()) }).cloned()?;
    // SAFETY: as above.
    let below = unsafe { (found.next)(found.handle, name) };
    match text.to_bytes() {
        // These functions exist only if the instance has the extension.
        b"vkCreateXcbSurfaceKHR" => below.and(layer_function!(create_xcb_surface, vk::PFN_vkCreateXcbSurfaceKHR)),
        b"vkCreateXlibSurfaceKHR" => below.and(layer_function!(create_xlib_surface, vk::PFN_vkCreateXlibSurfaceKHR)),
        _ => below.and(own_device_function(text)).or(below),
    }
}

fn own_device_function(name: &CStr) -> Void {
    match name.to_bytes() {
        b"vkGetDeviceProcAddr" => layer_function!(device_address, vk::PFN_vkGetDeviceProcAddr),
        b"vkDestroyDevice" => layer_function!(destroy_device, vk::PFN_vkDestroyDevice),
        b"vkGetDeviceQueue" => layer_function!(get_device_queue, vk::PFN_vkGetDeviceQueue),
        b"vkGetDeviceQueue2" => layer_function!(get_device_queue2, vk::PFN_vkGetDeviceQueue2),
        b"vkCreateSwapchainKHR" => layer_function!(create_swapchain, vk::PFN_vkCreateSwapchainKHR),
        b"vkDestroySwapchainKHR" => layer_function!(destroy_swapchain, vk::PFN_vkDestroySwapchainKHR),
        b"vkQueuePresentKHR" => layer_function!(queue_present, vk::PFN_vkQueuePresentKHR),
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
            registry().instances.insert(key(handle.as_raw()), Instance::new(handle, next));
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
        let Some(found) = registry().instances.remove(&key(instance.as_raw())) else { return };
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
        let Some(instance) = registry().instances.get(&key(physical.as_raw())).cloned() else { return failed };
        let set_loader_data = DeviceLink::set_loader_data(info);
        let Some((next_instance, next)) = DeviceLink::take(info) else { return failed };
        let Some(create) = next_instance(instance.handle, c"vkCreateDevice".as_ptr()) else { return failed };
        let create: vk::PFN_vkCreateDevice = std::mem::transmute(create);
        let result = create(physical, info, allocator, device);
        if result == vk::Result::SUCCESS {
            let handle = *device;
            let created = Device::new(&instance, physical, handle, next, set_loader_data);
            registry().devices.insert(key(handle.as_raw()), Arc::new(created));
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
        let Some(found) = registry().devices.remove(&key(device.as_raw())) else { return };
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
        let window = registry().windows.get(&(*info).surface.as_raw()).copied();
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
/// The instance lives, and `create` calls the next layer with the caller's arguments.
unsafe fn create_surface(
    instance: vk::Instance,
    surface: *mut vk::SurfaceKHR,
    window: u32,
    create: impl FnOnce(&Instance) -> Option<vk::Result>,
) -> vk::Result {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let found = registry().instances.get(&key(instance.as_raw())).cloned();
        let result = found.and_then(|found| create(&found)).unwrap_or(vk::Result::ERROR_EXTENSION_NOT_PRESENT);
        if result == vk::Result::SUCCESS {
            registry().windows.insert((*surface).as_raw(), window);
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

/// A pointer to an object that is opaque to this layer.
type Opaque = *mut c_void;
