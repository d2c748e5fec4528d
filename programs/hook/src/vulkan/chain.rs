//! The structures that the Vulkan loader passes to layers when an instance or a device is created (`vulkan/vk_layer.h`).

use std::ffi::c_void;

use ash::vk;

use super::Opaque;

/// `VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO`.
const INSTANCE: vk::StructureType = vk::StructureType::LOADER_INSTANCE_CREATE_INFO;
/// `VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO`.
const DEVICE: vk::StructureType = vk::StructureType::LOADER_DEVICE_CREATE_INFO;
/// `VK_LAYER_LINK_INFO`.
const LINK: i32 = 0;
/// `VK_LOADER_DATA_CALLBACK`.
const CALLBACK: i32 = 1;

/// `VkNegotiateLayerInterface`.
#[repr(C)]
pub(crate) struct NegotiateInterface {
    kind: i32,
    next: *mut c_void,
    pub(super) version: u32,
    pub(super) instance_address: Option<vk::PFN_vkGetInstanceProcAddr>,
    pub(super) device_address: Option<vk::PFN_vkGetDeviceProcAddr>,
    pub(super) physical_address: Option<vk::PFN_vkGetInstanceProcAddr>,
}

/// A function that writes the loader's pointer into a dispatchable object that a layer has created.
pub(super) type SetLoaderData = unsafe extern "system" fn(vk::Device, Opaque) -> vk::Result;

/// `VkLayerInstanceCreateInfo` and `VkLayerDeviceCreateInfo`. The union's content depends on `function`.
#[repr(C)]
struct Info {
    kind: vk::StructureType,
    next: *const c_void,
    function: i32,
    content: *mut c_void,
}

/// `VkLayerInstanceLink`.
#[repr(C)]
pub(super) struct InstanceLink {
    next: *mut InstanceLink,
    address: vk::PFN_vkGetInstanceProcAddr,
    physical_address: Option<vk::PFN_vkGetInstanceProcAddr>,
}

/// `VkLayerDeviceLink`.
#[repr(C)]
pub(super) struct DeviceLink {
    next: *mut DeviceLink,
    instance_address: vk::PFN_vkGetInstanceProcAddr,
    device_address: vk::PFN_vkGetDeviceProcAddr,
}

/// Finds the loader's structure of this kind and function in a chain.
///
/// # Safety
///
/// The chain is valid.
unsafe fn find(mut chain: *const c_void, kind: vk::StructureType, function: i32) -> Option<*mut Info> {
    while !chain.is_null() {
        let info = chain.cast::<Info>().cast_mut();
        // SAFETY: every structure of a chain begins with its kind and the next one; those of the loader's kinds are `Info`.
        unsafe {
            if (*info).kind == kind && (*info).function == function {
                return Some(info);
            }
            chain = (*info).next;
        }
    }
    None
}

impl InstanceLink {
    /// Returns the next layer's function, and advances the chain for that layer.
    ///
    /// # Safety
    ///
    /// Called once, with what the loader passed to this layer's `vkCreateInstance`.
    pub(super) unsafe fn take(info: *const vk::InstanceCreateInfo<'_>) -> Option<vk::PFN_vkGetInstanceProcAddr> {
        // SAFETY: the caller guarantees the chain; the loader's links live as long as the call, and layers must advance them.
        unsafe {
            let info = find((*info).p_next, INSTANCE, LINK)?;
            let link = (*info).content.cast::<Self>();
            (*info).content = (*link).next.cast();
            Some((*link).address)
        }
    }
}

impl DeviceLink {
    /// Returns the next layer's functions, and advances the chain for that layer.
    ///
    /// # Safety
    ///
    /// Called once, with what the loader passed to this layer's `vkCreateDevice`.
    pub(super) unsafe fn take(
        info: *const vk::DeviceCreateInfo<'_>,
    ) -> Option<(vk::PFN_vkGetInstanceProcAddr, vk::PFN_vkGetDeviceProcAddr)> {
        // SAFETY: as in `InstanceLink::take`.
        unsafe {
            let info = find((*info).p_next, DEVICE, LINK)?;
            let link = (*info).content.cast::<Self>();
            (*info).content = (*link).next.cast();
            Some(((*link).instance_address, (*link).device_address))
        }
    }

    /// Returns the function that registers our command buffers with the loader; `None` if the loader does not need it.
    ///
    /// # Safety
    ///
    /// `info` is what the loader passed to this layer's `vkCreateDevice`.
    pub(super) unsafe fn set_loader_data(info: *const vk::DeviceCreateInfo<'_>) -> Option<SetLoaderData> {
        // SAFETY: as in `InstanceLink::take`; for this function the union holds the callback.
        unsafe {
            let info = find((*info).p_next, DEVICE, CALLBACK)?;
            let callback = (*info).content;
            (!callback.is_null()).then(|| std::mem::transmute::<Opaque, SetLoaderData>(callback))
        }
    }
}
