//! Copies presented images into a ring of host-visible buffers, so that no thread waits.

use ash::vk;
use nearlight_embed::{PixelOrder, Time};

use super::device::Device;
use crate::readback::CopiedPicture;

/// Number of buffers, as in [`crate::readback`].
const BUFFER_COUNT: usize = 3;

/// A copy of an image.
struct Slot {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: *mut u8,
    command: vk::CommandBuffer,
    done: vk::Fence,
    draw_started_at: Option<Time>,
}

/// Copies the images of one swapchain, on queues of one family.
pub(crate) struct Copier {
    pub(super) family: u32,
    pool: vk::CommandPool,
    slots: Vec<Slot>,
    /// A semaphore for each image, which is signalled when the image was copied and may be presented.
    copied: Vec<vk::Semaphore>,
    oldest: usize,
    size: (u16, u16),
}

// SAFETY: the copier owns the mapped memory, and reads it only while the device's state is locked.
unsafe impl Send for Copier {}

impl Copier {
    /// Creates a copier; `None` if the device lacks memory.
    ///
    /// # Safety
    ///
    /// The device has this queue family.
    pub(super) unsafe fn new(device: &Device, family: u32, images: usize, size: (u16, u16)) -> Option<Self> {
        let below = &device.below;
        // SAFETY: the device lives, and each structure is complete.
        unsafe {
            let info = vk::CommandPoolCreateInfo::default()
                .queue_family_index(family)
                .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
            let pool = below.create_command_pool(&info, None).ok()?;
            let mut copier = Self { family, pool, slots: Vec::new(), copied: Vec::new(), oldest: 0, size };
            for _ in 0..images {
                copier.copied.push(below.create_semaphore(&vk::SemaphoreCreateInfo::default(), None).ok()?);
            }
            for _ in 0..BUFFER_COUNT {
                let slot = copier.slot(device)?;
                copier.slots.push(slot);
            }
            Some(copier)
        }
    }

    fn bytes(&self) -> usize {
        usize::from(self.size.0) * usize::from(self.size.1) * 4
    }

    /// # Safety
    ///
    /// The device has the copier's queue family.
    unsafe fn slot(&self, device: &Device) -> Option<Slot> {
        let below = &device.below;
        // SAFETY: the device lives, and each structure is complete.
        unsafe {
            let info = vk::BufferCreateInfo::default()
                .size(self.bytes() as u64)
                .usage(vk::BufferUsageFlags::TRANSFER_DST)
                .sharing_mode(vk::SharingMode::EXCLUSIVE);
            let buffer = below.create_buffer(&info, None).ok()?;
            let requirements = below.get_buffer_memory_requirements(buffer);
            let index = memory_type(&device.memory, requirements.memory_type_bits)?;
            let info = vk::MemoryAllocateInfo::default().allocation_size(requirements.size).memory_type_index(index);
            let memory = below.allocate_memory(&info, None).ok()?;
            below.bind_buffer_memory(buffer, memory, 0).ok()?;
            let mapped = below.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()).ok()?;
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(self.pool)
                .level(vk::CommandBufferLevel::PRIMARY)
                .command_buffer_count(1);
            let command = *below.allocate_command_buffers(&info).ok()?.first()?;
            device.set_loader_pointer(vk::Handle::as_raw(command));
            let done = below.create_fence(&vk::FenceCreateInfo::default(), None).ok()?;
            Some(Slot { buffer, memory, mapped: mapped.cast(), command, done, draw_started_at: None })
        }
    }

    /// Submits the copy of an image, which waits for the semaphores of the presentation. Returns the semaphore for which the presentation
    /// has to wait instead; `None` if all buffers are in use or the device fails.
    ///
    /// # Safety
    ///
    /// The queue is of the copier's family, and `info` is the presentation of this image.
    pub(super) unsafe fn start(
        &mut self,
        device: &Device,
        queue: vk::Queue,
        image: vk::Image,
        index: usize,
        info: &vk::PresentInfoKHR<'_>,
        draw_started_at: Time,
    ) -> Option<vk::Semaphore> {
        let below = &device.below;
        let after_oldest = |number: usize| (self.oldest + number) % BUFFER_COUNT;
        let free = (0..BUFFER_COUNT).map(after_oldest).find(|place| self.slots[*place].draw_started_at.is_none())?;
        let (slot, copied) = (&mut self.slots[free], self.copied[index]);
        // SAFETY: the command buffer is not in use, because its slot is free; the image is in the layout of a presentation, and is given
        // back in it; the buffer has room for it; all structures live through the calls.
        unsafe {
            let once = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
            below.begin_command_buffer(slot.command, &once).ok()?;
            let range = vk::ImageSubresourceRange {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                base_mip_level: 0,
                level_count: 1,
                base_array_layer: 0,
                layer_count: 1,
            };
            let (shown, read) = (vk::ImageLayout::PRESENT_SRC_KHR, vk::ImageLayout::TRANSFER_SRC_OPTIMAL);
            let barrier = |from, to, source_access, destination_access| {
                vk::ImageMemoryBarrier::default()
                    .image(image)
                    .subresource_range(range)
                    .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .old_layout(from)
                    .new_layout(to)
                    .src_access_mask(source_access)
                    .dst_access_mask(destination_access)
            };
            let (all, transfer) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::PipelineStageFlags::TRANSFER);
            let none = vk::DependencyFlags::empty();
            let to_read = barrier(shown, read, vk::AccessFlags::MEMORY_WRITE, vk::AccessFlags::TRANSFER_READ);
            below.cmd_pipeline_barrier(slot.command, all, transfer, none, &[], &[], &[to_read]);
            let area = vk::BufferImageCopy {
                image_subresource: vk::ImageSubresourceLayers {
                    aspect_mask: vk::ImageAspectFlags::COLOR,
                    mip_level: 0,
                    base_array_layer: 0,
                    layer_count: 1,
                },
                image_extent: vk::Extent3D { width: self.size.0.into(), height: self.size.1.into(), depth: 1 },
                ..vk::BufferImageCopy::default()
            };
            below.cmd_copy_image_to_buffer(slot.command, image, read, slot.buffer, &[area]);
            let to_show = barrier(read, shown, vk::AccessFlags::TRANSFER_READ, vk::AccessFlags::MEMORY_READ);
            let to_host = vk::MemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                .dst_access_mask(vk::AccessFlags::HOST_READ);
            let host = vk::PipelineStageFlags::HOST;
            below.cmd_pipeline_barrier(slot.command, transfer, all, none, &[], &[], &[to_show]);
            below.cmd_pipeline_barrier(slot.command, transfer, host, none, &[to_host], &[], &[]);
            below.end_command_buffer(slot.command).ok()?;
            let waits = match info.wait_semaphore_count {
                0 => &[][..],
                count => std::slice::from_raw_parts(info.p_wait_semaphores, count as usize),
            };
            let (stages, commands, signals) = (vec![all; waits.len()], [slot.command], [copied]);
            let submit = vk::SubmitInfo::default()
                .wait_semaphores(waits)
                .wait_dst_stage_mask(&stages)
                .command_buffers(&commands)
                .signal_semaphores(&signals);
            below.reset_fences(&[slot.done]).ok()?;
            below.queue_submit(queue, &[submit], slot.done).ok()?;
        }
        slot.draw_started_at = Some(draw_started_at);
        Some(copied)
    }

    /// Submits the completed copies, oldest first.
    pub(super) fn finish(&mut self, device: &Device, order: PixelOrder, submit: &mut dyn FnMut(&CopiedPicture<'_>)) {
        let (bytes, size) = (self.bytes(), self.size);
        for _ in 0..BUFFER_COUNT {
            let slot = &mut self.slots[self.oldest];
            let Some(draw_started_at) = slot.draw_started_at else { return };
            // SAFETY: the fence is ours, and was submitted with this copy.
            if !matches!(unsafe { device.below.get_fence_status(slot.done) }, Ok(true)) {
                return;
            }
            // SAFETY: the memory is mapped, has this many bytes, and nothing writes to it before the slot is used again.
            let bytes = unsafe { std::slice::from_raw_parts(slot.mapped, bytes) };
            submit(&CopiedPicture { bytes, order, size, draw_started_at, rows: nearlight_embed::Rows::TopDown });
            slot.draw_started_at = None;
            self.oldest = (self.oldest + 1) % BUFFER_COUNT;
        }
    }

    /// # Safety
    ///
    /// The device lives. Waits for the submitted copies.
    pub(super) unsafe fn destroy(self, device: &Device) {
        let below = &device.below;
        // SAFETY: all objects are ours, and none is in use after the wait.
        unsafe {
            let fences: Vec<_> =
                self.slots.iter().filter(|slot| slot.draw_started_at.is_some()).map(|slot| slot.done).collect();
            if !fences.is_empty() {
                let _ = below.wait_for_fences(&fences, true, u64::MAX);
            }
            for slot in self.slots {
                below.destroy_fence(slot.done, None);
                below.destroy_buffer(slot.buffer, None);
                below.free_memory(slot.memory, None);
            }
            for semaphore in self.copied {
                below.destroy_semaphore(semaphore, None);
            }
            below.destroy_command_pool(self.pool, None);
        }
    }
}

/// Returns a host-visible and coherent memory type, preferably a cached one.
fn memory_type(memory: &vk::PhysicalDeviceMemoryProperties, allowed: u32) -> Option<u32> {
    let coherent = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    [coherent | vk::MemoryPropertyFlags::HOST_CACHED, coherent].into_iter().find_map(|wanted| {
        let fits = |index: &u32| {
            allowed >> index & 1 == 1 && memory.memory_types[*index as usize].property_flags.contains(wanted)
        };
        (0..memory.memory_type_count).find(fits)
    })
}
