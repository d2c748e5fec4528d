//! Reads images of a Vulkan device.
//!
//! One of the program's queues copies an image into memory that the processor reads, after everything that was submitted to that queue
//! before. As with OpenGL, the picture is delivered with the next one, so that nothing waits for the GPU, or immediately.
//!
//! An image whose memory the driver exports as a linear dma-buf (`VK_EXT_external_memory_dma_buf`) needs no copy by the device: see
//! [`dmabuf`](crate::graphics::dmabuf).

use crate::{Content, Host, Image, Layout, Picture, PixelOrder, Plane, Rows, Size};
use ash::vk;

use crate::graphics::GraphicsError;
pub use crate::graphics::content::Delivery;
use crate::graphics::content::OwnedContent;

/// Maximum time in nanoseconds for which a picture is drawn and read. Guess: a GPU that takes longer hangs.
const DRAW_TIMEOUT_NS: u64 = 1_000_000_000;

/// Converts numbers and pointers, as C programs pass them, into Vulkan's types.
pub mod raw {
    use ash::vk;

    /// The type of `vkGetInstanceProcAddr`.
    pub type Functions = vk::PFN_vkGetInstanceProcAddr;

    #[must_use]
    pub fn handle<T: vk::Handle>(number: u64) -> T {
        T::from_raw(number)
    }

    #[must_use]
    pub const fn format(number: i32) -> vk::Format {
        vk::Format::from_raw(number)
    }

    #[must_use]
    pub const fn layout(number: i32) -> vk::ImageLayout {
        vk::ImageLayout::from_raw(number)
    }
}

/// The program's Vulkan objects.
#[derive(Clone, Copy)]
pub struct Handles {
    /// The loader's `vkGetInstanceProcAddr`.
    pub instance_functions: vk::PFN_vkGetInstanceProcAddr,
    pub instance: vk::Instance,
    pub physical: vk::PhysicalDevice,
    pub device: vk::Device,
    /// Queue that copies the images, of a family with graphics, compute or transfer.
    pub queue: vk::Queue,
    /// Index of the queue's family.
    pub family: u32,
}

/// An image with one level, one layer and one sample per pixel, created with `VK_IMAGE_USAGE_TRANSFER_SRC_BIT`.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub image: vk::Image,
    /// Format with eight bits each of red, green, blue and alpha, or of blue, green, red and alpha. Linear and sRGB values are taken
    /// unchanged.
    pub format: vk::Format,
    /// Layout of the image before and after the call.
    pub layout: vk::ImageLayout,
    pub size: Size,
    pub rows: Rows,
    /// Binary semaphore for which the copy waits, when another queue draws the image.
    pub wait: Option<vk::Semaphore>,
}

/// A picture that is being read.
struct Pending {
    size: Size,
    order: PixelOrder,
    rows: Rows,
    content: OwnedContent,
}

/// A buffer that the device writes and the processor reads.
struct Target {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: *const u8,
    capacity: usize,
}

/// Objects for one picture in flight.
struct Slot {
    target: Option<Target>,
    command: vk::CommandBuffer,
    /// Is signalled once the device has copied the picture.
    done: vk::Fence,
    pending: Option<Pending>,
}

/// A reader of one device's images.
pub struct Reader {
    device: ash::Device,
    memory: vk::PhysicalDeviceMemoryProperties,
    queue: vk::Queue,
    delivery: Delivery,
    pool: vk::CommandPool,
    slots: [Slot; 2],
    next: usize,
}

// SAFETY: only the reader uses its mapped memory, and the device's functions may be called in any thread.
unsafe impl Send for Reader {}

fn failed(what: &'static str) -> impl FnOnce(vk::Result) -> GraphicsError {
    move |result| GraphicsError::Vulkan { what, result }
}

impl Reader {
    /// Creates a reader.
    ///
    /// # Safety
    /// The handles are those of one device, which outlives the reader, and of a queue of this family.
    pub unsafe fn new(handles: &Handles, delivery: Delivery) -> Result<Self, GraphicsError> {
        let functions = ash::StaticFn { get_instance_proc_addr: handles.instance_functions };
        // SAFETY: guaranteed by the caller; every structure is complete.
        unsafe {
            let instance = ash::Instance::load(&functions, handles.instance);
            let memory = instance.get_physical_device_memory_properties(handles.physical);
            let device = ash::Device::load(instance.fp_v1_0(), handles.device);
            let info = vk::CommandPoolCreateInfo::default()
                .queue_family_index(handles.family)
                .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
            let pool = device.create_command_pool(&info, None).map_err(failed("make a command pool"))?;
            match Self::slots(&device, pool) {
                Ok(slots) => Ok(Self { device, memory, queue: handles.queue, delivery, pool, slots, next: 0 }),
                Err(error) => {
                    device.destroy_command_pool(pool, None);
                    Err(error)
                }
            }
        }
    }

    unsafe fn slots(device: &ash::Device, pool: vk::CommandPool) -> Result<[Slot; 2], GraphicsError> {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(2);
        // SAFETY: the device and its pool exist.
        unsafe {
            let commands = device.allocate_command_buffers(&info).map_err(failed("make command buffers"))?;
            let fence = || {
                let info = vk::FenceCreateInfo::default();
                device.create_fence(&info, None).map_err(failed("make a fence"))
            };
            let first = fence()?;
            let second = fence().inspect_err(|_| device.destroy_fence(first, None))?;
            let slot = |command, done| Slot { target: None, command, done, pending: None };
            Ok([slot(commands[0], first), slot(commands[1], second)])
        }
    }

    /// Submits a picture. Work that was submitted to the reader's queue earlier is done first; work that is submitted to it later may draw
    /// into the image again.
    ///
    /// # Safety
    /// The image belongs to the reader's device, has this size, layout and format, and is not destroyed before the picture was delivered.
    /// No other thread uses the queue during the call.
    pub unsafe fn submit(&mut self, host: &Host, source: &Source, content: Content<'_>) -> Result<(), GraphicsError> {
        source.size.check().map_err(|error| GraphicsError::Host(error.into()))?;
        let order = order(source.format)?;
        if [vk::ImageLayout::UNDEFINED, vk::ImageLayout::PREINITIALIZED].contains(&source.layout) {
            return Err(GraphicsError::Argument(
                "the image's layout is one that holds no picture: pass the one that it is in once it was drawn",
            ));
        }
        let content = OwnedContent::new(host, content)?;
        let slot = self.next;
        // SAFETY: guaranteed by the caller, for all of these.
        unsafe {
            // When the slot is still pending, the GPU has had two frames to fill it.
            self.deliver(host, slot)?;
            self.reserve(slot, source.size.pixels() * 4)?;
            self.copy(slot, source)?;
            self.slots[slot].pending = Some(Pending { size: source.size, order, rows: source.rows, content });
            self.next = 1 - slot;
            match self.delivery {
                Delivery::Immediate => self.deliver(host, slot),
                Delivery::Deferred => self.deliver(host, 1 - slot),
            }
        }
    }

    /// Delivers the pictures that are still being read.
    ///
    /// # Safety
    /// The requirements are those of [`Reader::submit`].
    pub unsafe fn finish(&mut self, host: &Host) -> Result<(), GraphicsError> {
        // The older one first.
        for slot in [self.next, 1 - self.next] {
            // SAFETY: guaranteed by the caller.
            unsafe { self.deliver(host, slot) }?;
        }
        Ok(())
    }

    /// Frees the reader's objects on the device, once the device has made its copies.
    ///
    /// # Safety
    /// The device exists.
    pub unsafe fn delete(self) {
        // SAFETY: guaranteed by the caller; the objects are not used afterwards.
        unsafe {
            for slot in self.slots {
                if slot.pending.is_some() {
                    let _ = self.device.wait_for_fences(&[slot.done], true, DRAW_TIMEOUT_NS);
                }
                self.device.destroy_fence(slot.done, None);
                if let Some(target) = slot.target {
                    free(&self.device, &target);
                }
            }
            self.device.destroy_command_pool(self.pool, None);
        }
    }

    /// Makes sure that a slot, which is not pending, has memory for this many bytes.
    unsafe fn reserve(&mut self, slot: usize, bytes: usize) -> Result<(), GraphicsError> {
        let slot = &mut self.slots[slot];
        if slot.target.as_ref().is_some_and(|target| target.capacity >= bytes) {
            return Ok(());
        }
        // SAFETY: the device exists, and the old memory is not in use.
        unsafe {
            if let Some(old) = slot.target.take() {
                free(&self.device, &old);
            }
            slot.target = Some(allocate(&self.device, &self.memory, bytes)?);
        }
        Ok(())
    }

    /// Has the device copy an image into a slot's memory.
    unsafe fn copy(&mut self, slot: usize, source: &Source) -> Result<(), GraphicsError> {
        let Slot { target, command, done, .. } = &self.slots[slot];
        let (device, command, done) = (&self.device, *command, *done);
        let Some(target) = target else { return Err(GraphicsError::Argument("a picture has no bytes")) };
        let readable = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
        let (all, transfer) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::PipelineStageFlags::TRANSFER);
        let none = vk::DependencyFlags::empty();
        let any = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let to_readable = barrier(source.image, (source.layout, readable), (any, vk::AccessFlags::TRANSFER_READ));
        let back = barrier(source.image, (readable, source.layout), (vk::AccessFlags::TRANSFER_READ, any));
        let to_host = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ);
        let Size { width, height } = source.size;
        let area = vk::BufferImageCopy {
            image_subresource: vk::ImageSubresourceLayers {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                mip_level: 0,
                base_array_layer: 0,
                layer_count: 1,
            },
            image_extent: vk::Extent3D { width: width.into(), height: height.into(), depth: 1 },
            ..vk::BufferImageCopy::default()
        };
        let waits: &[vk::Semaphore] = source.wait.as_slice();
        let stages = [transfer];
        let commands = [command];
        let submit = vk::SubmitInfo::default()
            .wait_semaphores(waits)
            .wait_dst_stage_mask(&stages[..waits.len()])
            .command_buffers(&commands);
        let once = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        let recorded = "record the copy of an image";
        // SAFETY: the slot is free, so that its command buffer and memory are not in use; the caller guarantees the image's properties, and
        // all structures outlive the calls.
        unsafe {
            device.begin_command_buffer(command, &once).map_err(failed(recorded))?;
            device.cmd_pipeline_barrier(command, all, transfer, none, &[], &[], &[to_readable]);
            device.cmd_copy_image_to_buffer(command, source.image, readable, target.buffer, &[area]);
            device.cmd_pipeline_barrier(command, transfer, all, none, &[], &[], &[back]);
            device.cmd_pipeline_barrier(command, transfer, vk::PipelineStageFlags::HOST, none, &[to_host], &[], &[]);
            device.end_command_buffer(command).map_err(failed(recorded))?;
            device.reset_fences(&[done]).map_err(failed("reset a fence"))?;
            device.queue_submit(self.queue, &[submit], done).map_err(failed("copy an image"))
        }
    }

    /// Waits for a slot's picture and submits it.
    unsafe fn deliver(&mut self, host: &Host, slot: usize) -> Result<(), GraphicsError> {
        let Slot { target, done, pending, .. } = &mut self.slots[slot];
        let (Some(Pending { size, order, rows, content }), Some(target)) = (pending.take(), target) else {
            return Ok(());
        };
        // SAFETY: the caller guarantees that the device exists. Once the fence is signalled, nothing writes to the memory, which is large
        // enough for the picture.
        let bytes = unsafe {
            self.device.wait_for_fences(&[*done], true, DRAW_TIMEOUT_NS).map_err(failed("draw the picture"))?;
            std::slice::from_raw_parts(target.mapped, size.pixels() * 4)
        };
        let layout = Layout::Packed(order, Plane { bytes, stride: usize::from(size.width) * 4 });
        let content = content.content();
        Ok(host.submit(&Picture { content, ..Picture::new(Image { size, layout, rows }) })?)
    }
}

/// Returns the order of bytes in images of this format.
fn order(format: vk::Format) -> Result<PixelOrder, GraphicsError> {
    match format {
        vk::Format::B8G8R8A8_UNORM | vk::Format::B8G8R8A8_SRGB => Ok(PixelOrder::Bgra),
        vk::Format::R8G8B8A8_UNORM | vk::Format::R8G8B8A8_SRGB => Ok(PixelOrder::Rgba),
        _ => Err(GraphicsError::Argument(
            "the image's format is not R8G8B8A8 or B8G8R8A8, UNORM or SRGB: blit it into an image that has such a one",
        )),
    }
}

/// Returns a barrier that changes the image's layout between two kinds of access.
fn barrier(
    image: vk::Image,
    (from, to): (vk::ImageLayout, vk::ImageLayout),
    (source_access, destination_access): (vk::AccessFlags, vk::AccessFlags),
) -> vk::ImageMemoryBarrier<'static> {
    let range = vk::ImageSubresourceRange {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        base_mip_level: 0,
        level_count: 1,
        base_array_layer: 0,
        layer_count: 1,
    };
    vk::ImageMemoryBarrier::default()
        .image(image)
        .subresource_range(range)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .old_layout(from)
        .new_layout(to)
        .src_access_mask(source_access)
        .dst_access_mask(destination_access)
}

/// Allocates and maps a buffer of this many bytes.
///
/// # Safety
/// The device exists.
unsafe fn allocate(
    device: &ash::Device,
    memory: &vk::PhysicalDeviceMemoryProperties,
    bytes: usize,
) -> Result<Target, GraphicsError> {
    let info = vk::BufferCreateInfo::default()
        .size(bytes as u64)
        .usage(vk::BufferUsageFlags::TRANSFER_DST)
        .sharing_mode(vk::SharingMode::EXCLUSIVE);
    // SAFETY: the device exists, and each structure is complete. When a step fails, the objects of earlier steps are destroyed.
    unsafe {
        let buffer = device.create_buffer(&info, None).map_err(failed("make a buffer"))?;
        let requirements = device.get_buffer_memory_requirements(buffer);
        let kind = memory_type(memory, requirements.memory_type_bits);
        let info = vk::MemoryAllocateInfo::default().allocation_size(requirements.size).memory_type_index(kind);
        let allocated = device.allocate_memory(&info, None).map_err(failed("allocate memory for a picture"));
        let memory = allocated.inspect_err(|_| device.destroy_buffer(buffer, None))?;
        let mapped = device
            .bind_buffer_memory(buffer, memory, 0)
            .and_then(|()| device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()));
        match mapped {
            Ok(mapped) => Ok(Target { buffer, memory, mapped: mapped.cast(), capacity: bytes }),
            Err(result) => {
                device.destroy_buffer(buffer, None);
                device.free_memory(memory, None);
                Err(GraphicsError::Vulkan { what: "map memory for a picture", result })
            }
        }
    }
}

/// Frees a buffer and its memory.
///
/// # Safety
/// The device exists, and does not use the memory any more.
unsafe fn free(device: &ash::Device, target: &Target) {
    // SAFETY: guaranteed by the caller. Freed memory is unmapped.
    unsafe {
        device.destroy_buffer(target.buffer, None);
        device.free_memory(target.memory, None);
    }
}

/// Returns the index of a memory type that the processor can read without further calls, preferably cached. Every device has one that suits
/// a buffer.
fn memory_type(memory: &vk::PhysicalDeviceMemoryProperties, allowed: u32) -> u32 {
    let coherent = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let found = [coherent | vk::MemoryPropertyFlags::HOST_CACHED, coherent].into_iter().find_map(|wanted| {
        (0..memory.memory_type_count).find(|index| {
            allowed >> index & 1 == 1 && memory.memory_types[*index as usize].property_flags.contains(wanted)
        })
    });
    found.unwrap_or(0)
}
