//! Copies of presented images in memory that the processor reads: a few in turn, so that nobody waits.

use ash::vk;
use nearlight_embed::{PixelOrder, Time};

use super::device::Device;
use crate::readback::Read;

/// As many as in [`crate::readback`], for the same reason.
const BUFFERS: usize = 3;

/// A copy of an image.
struct Slot {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: *mut u8,
    command: vk::CommandBuffer,
    done: vk::Fence,
    drawn_from: Option<Time>,
}

/// The copies of one swapchain's images, by queues of one family.
pub(crate) struct Copier {
    pub(super) family: u32,
    pool: vk::CommandPool,
    slots: Vec<Slot>,
    /// By image: the copy has been made, and the image may be presented. It is used again only when the image is.
    copied: Vec<vk::Semaphore>,
    oldest: usize,
    size: (u16, u16),
}

// SAFETY: the mapped memory is the copier's own, and is read only while the device's state is locked.
unsafe impl Send for Copier {}

impl Copier {
    /// None where the device lacks memory.
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
            let mut made = Self { family, pool, slots: Vec::new(), copied: Vec::new(), oldest: 0, size };
            for _ in 0..images {
                made.copied.push(below.create_semaphore(&vk::SemaphoreCreateInfo::default(), None).ok()?);
            }
            for _ in 0..BUFFERS {
                let slot = made.slot(device)?;
                made.slots.push(slot);
            }
            Some(made)
        }
    }

    fn bytes(&self) -> usize {
        usize::from(self.size.0) * usize::from(self.size.1) * 4
    }

    /// # Safety
    ///
    /// As [`Copier::new`].
    unsafe fn slot(&self, device: &Device) -> Option<Slot> {
        let below = &device.below;
        // SAFETY: the device lives, and each structure is complete.
        unsafe {
            let info = vk::BufferCreateInfo::default()
                .size(self.bytes() as u64)
                .usage(vk::BufferUsageFlags::TRANSFER_DST)
                .sharing_mode(vk::SharingMode::EXCLUSIVE);
            let buffer = below.create_buffer(&info, None).ok()?;
            let needs = below.get_buffer_memory_requirements(buffer);
            let index = memory_type(&device.memory, needs.memory_type_bits)?;
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
            let memory = below.allocate_memory(&info, None).ok()?;
            below.bind_buffer_memory(buffer, memory, 0).ok()?;
            let mapped = below.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()).ok()?;
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(self.pool)
                .level(vk::CommandBufferLevel::PRIMARY)
                .command_buffer_count(1);
            let command = *below.allocate_command_buffers(&info).ok()?.first()?;
            device.adopt(vk::Handle::as_raw(command));
            let done = below.create_fence(&vk::FenceCreateInfo::default(), None).ok()?;
            Some(Slot { buffer, memory, mapped: mapped.cast(), command, done, drawn_from: None })
        }
    }

    /// Has an image copied after what the presentation waits for. Answers what the presentation is to wait for instead; none where all
    /// copies are under way, or the device refuses.
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
        drawn_from: Time,
    ) -> Option<vk::Semaphore> {
        let below = &device.below;
        let after_oldest = |number: usize| (self.oldest + number) % BUFFERS;
        let free = (0..BUFFERS).map(after_oldest).find(|place| self.slots[*place].drawn_from.is_none())?;
        let (slot, copied) = (&mut self.slots[free], self.copied[index]);
        // SAFETY: the command buffer is not in use, because its slot is free; the image is in the layout of a presentation, and is given
        // back in it; the buffer has room for it; all structures live through the calls.
        unsafe {
            let once = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
            below.begin_command_buffer(slot.command, &once).ok()?;
            let whole = vk::ImageSubresourceRange {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                base_mip_level: 0,
                level_count: 1,
                base_array_layer: 0,
                layer_count: 1,
            };
            let (shown, read) = (vk::ImageLayout::PRESENT_SRC_KHR, vk::ImageLayout::TRANSFER_SRC_OPTIMAL);
            let barrier = |from, to, had, gets| {
                vk::ImageMemoryBarrier::default()
                    .image(image)
                    .subresource_range(whole)
                    .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .old_layout(from)
                    .new_layout(to)
                    .src_access_mask(had)
                    .dst_access_mask(gets)
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
        slot.drawn_from = Some(drawn_from);
        Some(copied)
    }

    /// Hands over the copies that have been made by now, oldest first.
    pub(super) fn finish(&mut self, device: &Device, order: PixelOrder, submit: &mut dyn FnMut(&Read<'_>)) {
        let (bytes, size) = (self.bytes(), self.size);
        for _ in 0..BUFFERS {
            let slot = &mut self.slots[self.oldest];
            let Some(drawn_from) = slot.drawn_from else { return };
            // SAFETY: the fence is ours, and was submitted with this copy.
            if !matches!(unsafe { device.below.get_fence_status(slot.done) }, Ok(true)) {
                return;
            }
            // SAFETY: the memory is mapped, has this many bytes, and nothing writes to it before the slot is used again.
            let bytes = unsafe { std::slice::from_raw_parts(slot.mapped, bytes) };
            submit(&Read { bytes, order, size, drawn_from, rows: nearlight_embed::Rows::TopDown });
            slot.drawn_from = None;
            self.oldest = (self.oldest + 1) % BUFFERS;
        }
    }

    /// # Safety
    ///
    /// The device lives. Waits for what was submitted.
    pub(super) unsafe fn destroy(self, device: &Device) {
        let below = &device.below;
        // SAFETY: all objects are ours, and none is in use after the wait.
        unsafe {
            let fences: Vec<_> =
                self.slots.iter().filter(|slot| slot.drawn_from.is_some()).map(|slot| slot.done).collect();
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

/// A kind of memory that the processor reads: cached where there is one, and always without further calls.
fn memory_type(memory: &vk::PhysicalDeviceMemoryProperties, allowed: u32) -> Option<u32> {
    let coherent = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    [coherent | vk::MemoryPropertyFlags::HOST_CACHED, coherent].into_iter().find_map(|wanted| {
        let fits = |index: &u32| {
            allowed >> index & 1 == 1 && memory.memory_types[*index as usize].property_flags.contains(wanted)
        };
        (0..memory.memory_type_count).find(fits)
    })
}
