//! Images of a Vulkan device reach the encoder unchanged. Needs a driver, which `scripts/setup.sh` installs (Mesa's software renderer).

mod watched;

use ash::vk;
use nearlight_embed::graphics::vulkan::{Delivery, Handles, Reader, Source};
use nearlight_embed::{Content, Image, Layout, Picture, PixelOrder, Plane, Rows};
use watched::{SIZE, Watched, difference, pattern};

/// A device with an image and memory to fill it from. The objects are freed when the process ends.
struct Program {
    device: ash::Device,
    handles: Handles,
    pool: vk::CommandPool,
    image: vk::Image,
    buffer: vk::Buffer,
    mapped: *mut u8,
    _library: libloading::Library,
}

impl Program {
    /// Opens the first device of the system's Vulkan loader.
    ///
    /// # Safety
    /// The system's `libvulkan.so.1` is a Vulkan loader.
    unsafe fn new() -> Self {
        // SAFETY: every structure is complete, and handles are used with their own device.
        unsafe {
            let library = libloading::Library::new("libvulkan.so.1").expect("a Vulkan loader");
            let get = *library.get::<vk::PFN_vkGetInstanceProcAddr>(b"vkGetInstanceProcAddr\0").expect("its function");
            let entry = ash::Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr: get });
            let instance = entry.create_instance(&vk::InstanceCreateInfo::default(), None).expect("an instance");
            let physical = *instance.enumerate_physical_devices().expect("devices").first().expect("a device");
            let families = instance.get_physical_device_queue_family_properties(physical);
            let draws = |family: &vk::QueueFamilyProperties| family.queue_flags.contains(vk::QueueFlags::GRAPHICS);
            let family = families.iter().position(draws).expect("a family that draws") as u32;
            let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
            let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
            let device = instance.create_device(physical, &info, None).expect("a device");
            let queue = device.get_device_queue(family, 0);
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(family);
            let pool = device.create_command_pool(&info, None).expect("a pool");
            let extent = vk::Extent3D { width: SIZE.width.into(), height: SIZE.height.into(), depth: 1 };
            let info = vk::ImageCreateInfo::default()
                .image_type(vk::ImageType::TYPE_2D)
                .format(vk::Format::R8G8B8A8_UNORM)
                .extent(extent)
                .mip_levels(1)
                .array_layers(1)
                .samples(vk::SampleCountFlags::TYPE_1)
                .tiling(vk::ImageTiling::OPTIMAL)
                .usage(vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST);
            let image = device.create_image(&info, None).expect("an image");
            let kinds = instance.get_physical_device_memory_properties(physical);
            let allocate = |requirements: vk::MemoryRequirements, wanted| {
                let fits = |index: &u32| {
                    let kind = kinds.memory_types[*index as usize];
                    requirements.memory_type_bits >> index & 1 == 1 && kind.property_flags.contains(wanted)
                };
                let kind = (0..kinds.memory_type_count).find(fits).expect("a kind of memory");
                let info = vk::MemoryAllocateInfo::default().allocation_size(requirements.size).memory_type_index(kind);
                device.allocate_memory(&info, None).expect("memory")
            };
            let memory = allocate(device.get_image_memory_requirements(image), vk::MemoryPropertyFlags::empty());
            device.bind_image_memory(image, memory, 0).expect("memory of the image");
            let info = vk::BufferCreateInfo::default()
                .size(SIZE.pixels() as u64 * 4)
                .usage(vk::BufferUsageFlags::TRANSFER_SRC);
            let buffer = device.create_buffer(&info, None).expect("a buffer");
            let mappable = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
            let memory = allocate(device.get_buffer_memory_requirements(buffer), mappable);
            device.bind_buffer_memory(buffer, memory, 0).expect("memory of the buffer");
            let mapped = device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()).expect("an address");
            let instance = instance.handle();
            let handles =
                Handles { instance_functions: get, instance, physical, device: device.handle(), queue, family };
            Self { device, handles, pool, image, buffer, mapped: mapped.cast(), _library: library }
        }
    }

    /// Lets the queue draw a picture, without waiting for the end.
    fn draw(&self, pixels: &[u8], layout: vk::ImageLayout) {
        let device = &self.device;
        // SAFETY: nothing of the device is in use after the wait; the memory has room for the pixels; every structure is complete.
        unsafe {
            device.device_wait_idle().expect("an end");
            std::ptr::copy_nonoverlapping(pixels.as_ptr(), self.mapped, pixels.len());
            let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
            let command = device.allocate_command_buffers(&info).expect("a command buffer")[0];
            device.begin_command_buffer(command, &vk::CommandBufferBeginInfo::default()).expect("a begin");
            let aspect_mask = vk::ImageAspectFlags::COLOR;
            let range = vk::ImageSubresourceRange { aspect_mask, level_count: 1, layer_count: 1, ..Default::default() };
            let written = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
            let barrier = |from, to| {
                let access = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
                let barrier = vk::ImageMemoryBarrier::default().image(self.image).subresource_range(range);
                let barrier = barrier.old_layout(from).new_layout(to).src_access_mask(access).dst_access_mask(access);
                let all = vk::PipelineStageFlags::ALL_COMMANDS;
                device.cmd_pipeline_barrier(command, all, all, vk::DependencyFlags::empty(), &[], &[], &[barrier]);
            };
            barrier(vk::ImageLayout::UNDEFINED, written);
            let area = vk::BufferImageCopy {
                image_subresource: vk::ImageSubresourceLayers { aspect_mask, layer_count: 1, ..Default::default() },
                image_extent: vk::Extent3D { width: SIZE.width.into(), height: SIZE.height.into(), depth: 1 },
                ..Default::default()
            };
            device.cmd_copy_buffer_to_image(command, self.buffer, self.image, written, &[area]);
            barrier(written, layout);
            device.end_command_buffer(command).expect("an end");
            let commands = [command];
            let submit = vk::SubmitInfo::default().command_buffers(&commands);
            device.queue_submit(self.handles.queue, &[submit], vk::Fence::null()).expect("a submission");
        }
    }

    fn source(&self, layout: vk::ImageLayout, rows: Rows) -> Source {
        Source { image: self.image, format: vk::Format::R8G8B8A8_UNORM, layout, size: SIZE, rows, wait: None }
    }
}

#[test]
fn an_image_is_the_picture() {
    // SAFETY: the system's loader.
    let program = unsafe { Program::new() };
    let (host, watched) = Watched::open();
    let pixels = pattern(90);
    for (rows, layout) in
        [(Rows::TopDown, vk::ImageLayout::GENERAL), (Rows::BottomUp, vk::ImageLayout::TRANSFER_SRC_OPTIMAL)]
    {
        let plain = watched.encoded(|| {
            let plane = Plane { bytes: &pixels, stride: usize::from(SIZE.width) * 4 };
            let image = Image { size: SIZE, layout: Layout::Packed(PixelOrder::Rgba, plane), rows };
            host.submit(&Picture::new(image)).expect("a picture");
        });
        program.draw(&pixels, layout);
        // SAFETY: the image has this size, format and layout, and only this thread uses the queue.
        unsafe {
            let mut reader = Reader::new(&program.handles, Delivery::Immediate).expect("a reader");
            let read = watched.encoded(|| {
                let source = program.source(layout, rows);
                reader.submit(&host, &source, Content::default()).expect("a picture");
            });
            assert_eq!(difference(&plain, &read), (0, 0.0), "{rows:?}");
            let source = Source { format: vk::Format::R16G16B16A16_SFLOAT, ..program.source(layout, rows) };
            assert!(reader.submit(&host, &source, Content::default()).is_err(), "another format");
            let source = program.source(vk::ImageLayout::UNDEFINED, rows);
            assert!(reader.submit(&host, &source, Content::default()).is_err(), "no picture in it");
            reader.delete();
        }
    }
}

#[test]
fn a_picture_comes_with_the_next_and_the_last_one_once() {
    // SAFETY: the system's loader.
    let program = unsafe { Program::new() };
    let (host, watched) = Watched::open();
    let layout = vk::ImageLayout::GENERAL;
    // SAFETY: as above.
    let mut reader = unsafe { Reader::new(&program.handles, Delivery::Deferred) }.expect("a reader");
    let mut turn = 0_usize;
    let mut submit = || {
        turn += 1;
        program.draw(&pattern([40, 200][turn % 2]), layout);
        // SAFETY: as above.
        unsafe { reader.submit(&host, &program.source(layout, Rows::TopDown), Content::default()) }.expect("a picture");
    };
    submit();
    submit();
    // The encoder gets the previous picture, which has the other shade.
    let shade = watched.encoded(&mut submit).blue[0];
    assert!((shade > 180) == turn.is_multiple_of(2), "turn {turn}: {shade}");
    let submitted = host.statistics().submitted;
    // SAFETY: as above.
    unsafe {
        reader.finish(&host).expect("the last picture");
        reader.finish(&host).expect("nothing");
        reader.delete();
    }
    assert_eq!(host.statistics().submitted, submitted + 1);
}
