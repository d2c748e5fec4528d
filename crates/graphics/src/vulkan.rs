//! Images of a Vulkan device.
//!
//! One of the program's queues copies an image into memory that the processor reads, after everything that was submitted to that queue
//! before. As with OpenGL, the picture is handed over with the next one, so that nobody waits for the GPU; or at once.
//!
//! An image whose memory the driver exports as a linear dma-buf (`VK_EXT_external_memory_dma_buf`) needs no copy by the device: see
//! [`dmabuf`](crate::dmabuf).

use ash::vk;
use nearlight_embed::{Content, Host, Image, Layout, Picture, PixelOrder, Plane, Rows, Size};

use crate::GraphicsError;
pub use crate::kept::HandOver;
use crate::kept::Kept;

/// How long a picture may take to be drawn and read. Guess: beyond it the GPU hangs.
const LONGEST_DRAWING_NS: u64 = 1_000_000_000;

/// Vulkan's own types, from numbers and pointers as C programs pass them.
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

/// The program's own Vulkan.
#[derive(Clone, Copy)]
pub struct Handles {
    /// The loader's `vkGetInstanceProcAddr`.
    pub instance_functions: vk::PFN_vkGetInstanceProcAddr,
    pub instance: vk::Instance,
    pub physical: vk::PhysicalDevice,
    pub device: vk::Device,
    /// Copies the images: of a family with graphics, compute or transfer.
    pub queue: vk::Queue,
    pub family: u32,
}

/// An image with one level, one layer and one sample per pixel, created with `VK_IMAGE_USAGE_TRANSFER_SRC_BIT`.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub image: vk::Image,
    /// Eight bits each of red, green, blue and alpha, or blue, green, red and alpha, linear or sRGB: taken as they are.
    pub format: vk::Format,
    /// Before and after the call.
    pub layout: vk::ImageLayout,
    pub size: Size,
    pub rows: Rows,
    /// What the copy waits for, where other queues draw the image; a semaphore that is not of a timeline.
    pub wait: Option<vk::Semaphore>,
}

/// A picture that is being read.
struct Pending {
    size: Size,
    order: PixelOrder,
    rows: Rows,
    kept: Kept,
}

/// Memory that the device writes and the processor reads.
struct Target {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: *const u8,
    capacity: usize,
}

struct Slot {
    target: Option<Target>,
    command: vk::CommandBuffer,
    done: vk::Fence,
    pending: Option<Pending>,
}

/// Reads images of one device.
pub struct Reader {
    device: ash::Device,
    memory: vk::PhysicalDeviceMemoryProperties,
    queue: vk::Queue,
    hand_over: HandOver,
    pool: vk::CommandPool,
    slots: [Slot; 2],
    next: usize,
}

// SAFETY: mapped memory is the reader's own; the device's functions may be called in any thread.
unsafe impl Send for Reader {}

fn failed(what: &'static str) -> impl FnOnce(vk::Result) -> GraphicsError {
    move |result| GraphicsError::Vulkan { what, result }
}

impl Reader {
    /// # Safety
    /// The handles are those of one device, which outlives the reader, and of a queue of this family.
    pub unsafe fn new(handles: &Handles, hand_over: HandOver) -> Result<Self, GraphicsError> {
        let functions = ash::StaticFn { get_instance_proc_addr: handles.instance_functions };
        // SAFETY: the caller's promise; every structure is complete.
        unsafe {
            let instance = ash::Instance::load(&functions, handles.instance);
            let memory = instance.get_physical_device_memory_properties(handles.physical);
            let device = ash::Device::load(instance.fp_v1_0(), handles.device);
            let info = vk::CommandPoolCreateInfo::default()
                .queue_family_index(handles.family)
                .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
            let pool = device.create_command_pool(&info, None).map_err(failed("make a command pool"))?;
            match Self::slots(&device, pool) {
                Ok(slots) => Ok(Self { device, memory, queue: handles.queue, hand_over, pool, slots, next: 0 }),
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
        // SAFETY: the device and its pool live.
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

    /// Takes a picture. What was submitted to the reader's queue before is drawn first; what is submitted to it afterwards may draw into
    /// the image again.
    ///
    /// # Safety
    /// The image is of the reader's device, of this size, layout and format, and is not destroyed before the picture was handed over.
    /// No other thread uses the queue meanwhile.
    pub unsafe fn submit(&mut self, host: &Host, source: &Source, content: Content<'_>) -> Result<(), GraphicsError> {
        source.size.check().map_err(|error| GraphicsError::Host(error.into()))?;
        let order = order(source.format)?;
        if [vk::ImageLayout::UNDEFINED, vk::ImageLayout::PREINITIALIZED].contains(&source.layout) {
            return Err(GraphicsError::Argument(
                "the image's layout is one that holds no picture: pass the one that it is in once it was drawn",
            ));
        }
        let kept = Kept::new(host, content)?;
        let slot = self.next;
        // SAFETY: the caller's promise, for all of these.
        unsafe {
            // Where it is still pending, the GPU has had two frames for it.
            self.hand_over(host, slot)?;
            self.make_room(slot, source.size.pixels() * 4)?;
            self.copy(slot, source)?;
            self.slots[slot].pending = Some(Pending { size: source.size, order, rows: source.rows, kept });
            self.next = 1 - slot;
            match self.hand_over {
                HandOver::AtOnce => self.hand_over(host, slot),
                HandOver::WithTheNext => self.hand_over(host, 1 - slot),
            }
        }
    }

    /// Hands over what is still being read.
    ///
    /// # Safety
    /// As [`Reader::submit`].
    pub unsafe fn finish(&mut self, host: &Host) -> Result<(), GraphicsError> {
        // The older one first.
        for slot in [self.next, 1 - self.next] {
            // SAFETY: the caller's promise.
            unsafe { self.hand_over(host, slot) }?;
        }
        Ok(())
    }

    /// Frees what it has on the device, once the device has made its copies.
    ///
    /// # Safety
    /// The device lives.
    pub unsafe fn delete(self) {
        // SAFETY: the caller's promise; nothing of it is used afterwards.
        unsafe {
            for slot in self.slots {
                if slot.pending.is_some() {
                    let _ = self.device.wait_for_fences(&[slot.done], true, LONGEST_DRAWING_NS);
                }
                self.device.destroy_fence(slot.done, None);
                if let Some(target) = slot.target {
                    free(&self.device, &target);
                }
            }
            self.device.destroy_command_pool(self.pool, None);
        }
    }

    /// Memory for this many bytes in a slot that is not pending.
    unsafe fn make_room(&mut self, slot: usize, bytes: usize) -> Result<(), GraphicsError> {
        let slot = &mut self.slots[slot];
        if slot.target.as_ref().is_some_and(|target| target.capacity >= bytes) {
            return Ok(());
        }
        // SAFETY: the device lives, and the old memory is not in use.
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
        let read = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
        let (all, transfer) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::PipelineStageFlags::TRANSFER);
        let none = vk::DependencyFlags::empty();
        let any = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let to_read = barrier(source.image, (source.layout, read), (any, vk::AccessFlags::TRANSFER_READ));
        let back = barrier(source.image, (read, source.layout), (vk::AccessFlags::TRANSFER_READ, any));
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
        // SAFETY: the slot is free, so that its command buffer and memory are not in use; the image is as the caller promises, and all
        // structures live through the calls.
        unsafe {
            device.begin_command_buffer(command, &once).map_err(failed(recorded))?;
            device.cmd_pipeline_barrier(command, all, transfer, none, &[], &[], &[to_read]);
            device.cmd_copy_image_to_buffer(command, source.image, read, target.buffer, &[area]);
            device.cmd_pipeline_barrier(command, transfer, all, none, &[], &[], &[back]);
            device.cmd_pipeline_barrier(command, transfer, vk::PipelineStageFlags::HOST, none, &[to_host], &[], &[]);
            device.end_command_buffer(command).map_err(failed(recorded))?;
            device.reset_fences(&[done]).map_err(failed("reset a fence"))?;
            device.queue_submit(self.queue, &[submit], done).map_err(failed("copy an image"))
        }
    }

    /// Waits for a slot's picture and submits it.
    unsafe fn hand_over(&mut self, host: &Host, slot: usize) -> Result<(), GraphicsError> {
        let Slot { target, done, pending, .. } = &mut self.slots[slot];
        let (Some(Pending { size, order, rows, kept }), Some(target)) = (pending.take(), target) else { return Ok(()) };
        // SAFETY: the caller's promise: the device lives. Once the fence is signalled, nothing writes to the memory, which has room for
        // the picture.
        let bytes = unsafe {
            self.device.wait_for_fences(&[*done], true, LONGEST_DRAWING_NS).map_err(failed("draw the picture"))?;
            std::slice::from_raw_parts(target.mapped, size.pixels() * 4)
        };
        let layout = Layout::Packed(order, Plane { bytes, stride: usize::from(size.width) * 4 });
        let content = kept.content();
        Ok(host.submit(&Picture { content, ..Picture::new(Image { size, layout, rows }) })?)
    }
}

/// The order of bytes in images of this format.
fn order(format: vk::Format) -> Result<PixelOrder, GraphicsError> {
    match format {
        vk::Format::B8G8R8A8_UNORM | vk::Format::B8G8R8A8_SRGB => Ok(PixelOrder::Bgra),
        vk::Format::R8G8B8A8_UNORM | vk::Format::R8G8B8A8_SRGB => Ok(PixelOrder::Rgba),
        _ => Err(GraphicsError::Argument(
            "the image's format is not R8G8B8A8 or B8G8R8A8, UNORM or SRGB: blit it into an image that has such a one",
        )),
    }
}

fn barrier(
    image: vk::Image,
    (from, to): (vk::ImageLayout, vk::ImageLayout),
    (had, gets): (vk::AccessFlags, vk::AccessFlags),
) -> vk::ImageMemoryBarrier<'static> {
    let whole = vk::ImageSubresourceRange {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        base_mip_level: 0,
        level_count: 1,
        base_array_layer: 0,
        layer_count: 1,
    };
    vk::ImageMemoryBarrier::default()
        .image(image)
        .subresource_range(whole)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .old_layout(from)
        .new_layout(to)
        .src_access_mask(had)
        .dst_access_mask(gets)
}

/// # Safety
/// The device lives.
unsafe fn allocate(
    device: &ash::Device,
    memory: &vk::PhysicalDeviceMemoryProperties,
    bytes: usize,
) -> Result<Target, GraphicsError> {
    let info = vk::BufferCreateInfo::default()
        .size(bytes as u64)
        .usage(vk::BufferUsageFlags::TRANSFER_DST)
        .sharing_mode(vk::SharingMode::EXCLUSIVE);
    // SAFETY: the device lives, and each structure is complete. What was made is destroyed where a later step fails.
    unsafe {
        let buffer = device.create_buffer(&info, None).map_err(failed("make a buffer"))?;
        let needs = device.get_buffer_memory_requirements(buffer);
        let kind = memory_type(memory, needs.memory_type_bits);
        let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind);
        let made = device.allocate_memory(&info, None).map_err(failed("allocate memory for a picture"));
        let memory = made.inspect_err(|_| device.destroy_buffer(buffer, None))?;
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

/// # Safety
/// The device lives, and does not use the memory any more.
unsafe fn free(device: &ash::Device, target: &Target) {
    // SAFETY: the caller's promise. Freed memory is unmapped.
    unsafe {
        device.destroy_buffer(target.buffer, None);
        device.free_memory(target.memory, None);
    }
}

/// A kind of memory that the processor reads without further calls: cached where there is one. Every device has one that fits a buffer.
fn memory_type(memory: &vk::PhysicalDeviceMemoryProperties, allowed: u32) -> u32 {
    let coherent = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let found = [coherent | vk::MemoryPropertyFlags::HOST_CACHED, coherent].into_iter().find_map(|wanted| {
        (0..memory.memory_type_count).find(|index| {
            allowed >> index & 1 == 1 && memory.memory_types[*index as usize].property_flags.contains(wanted)
        })
    });
    found.unwrap_or(0)
}
