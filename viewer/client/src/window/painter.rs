//! Draws decoded pictures on the window's surface.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use nearlight_codec::{Picture, Size};
use nearlight_units::lock;
use winit::event_loop::OwnedDisplayHandle;
use winit::window::Window;

use crate::ClientError;
use crate::letterbox::letterbox;

/// The window's surface, the pipeline and the current picture.
pub struct Painter {
    surface: wgpu::Surface<'static>,
    configuration: wgpu::SurfaceConfiguration,
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::RenderPipeline,
    layout: wgpu::BindGroupLayout,
    sampler: wgpu::Sampler,
    planes: Option<Planes>,
    failure: Arc<Mutex<Option<String>>>,
    adapter: String,
}

/// The current picture in graphics memory.
struct Planes {
    size: Size,
    textures: [wgpu::Texture; 3],
    group: wgpu::BindGroup,
}

impl Painter {
    pub fn new(window: Arc<Window>, display: OwnedDisplayHandle) -> Result<Self, ClientError> {
        let mut descriptor = wgpu::InstanceDescriptor::new_with_display_handle(Box::new(display));
        descriptor.flags = wgpu::InstanceFlags::empty();
        let instance = wgpu::Instance::new(descriptor);
        let size = window.inner_size();
        let surface = instance.create_surface(window).map_err(|error| failed(&error))?;
        let request = instance.request_adapter(&wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            compatible_surface: Some(&surface),
            ..wgpu::RequestAdapterOptions::default()
        });
        let adapter = wait(request)?.map_err(|error| failed(&error))?;
        let (device, queue) = wait(adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("nearlight"),
            required_limits: wgpu::Limits::downlevel_defaults().using_resolution(adapter.limits()),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..wgpu::DeviceDescriptor::default()
        }))?
        .map_err(|error| failed(&error))?;
        let failure = Arc::new(Mutex::new(None));
        let errors = Arc::clone(&failure);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            lock(&errors).get_or_insert(error.to_string());
        }));
        let configuration = configuration(&surface, &adapter, (size.width, size.height))?;
        surface.configure(&device, &configuration);
        let layout = planes_layout(&device);
        let pipeline = pipeline(&device, &layout, configuration.format);
        let sampler = device.create_sampler(&wgpu::SamplerDescriptor {
            mag_filter: wgpu::FilterMode::Linear,
            min_filter: wgpu::FilterMode::Linear,
            ..wgpu::SamplerDescriptor::default()
        });
        let info = adapter.get_info();
        let adapter = format!("{} ({}, {:?})", info.name, info.backend, configuration.present_mode);
        let planes = None;
        Ok(Self { surface, configuration, device, queue, pipeline, layout, sampler, planes, failure, adapter })
    }

    /// Returns the graphics adapter's name, for log messages.
    pub fn adapter(&self) -> &str {
        &self.adapter
    }

    pub fn set_size(&mut self, width: u32, height: u32) {
        (self.configuration.width, self.configuration.height) = (width.max(1), height.max(1));
        self.surface.configure(&self.device, &self.configuration);
    }

    /// Copies a picture into graphics memory; [`Painter::draw`] shows it.
    pub fn upload(&mut self, picture: &Picture) {
        if self.planes.as_ref().is_none_or(|planes| planes.size != picture.size) {
            self.planes = Some(self.new_planes(picture.size));
        }
        let Some(planes) = &self.planes else { return };
        let sources = [&picture.luma, &picture.blue, &picture.red];
        for (texture, bytes) in planes.textures.iter().zip(sources) {
            let size = texture.size();
            self.queue.write_texture(
                texture.as_image_copy(),
                bytes,
                wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(size.width), rows_per_image: None },
                size,
            );
        }
    }

    /// Returns whether drawing waits until the display has accepted the previous picture.
    pub fn waits_for_display(&self) -> bool {
        self.configuration.present_mode == wgpu::PresentMode::Fifo
    }

    /// Draws the uploaded picture and hands it to the display. Returns false if the window accepts none now.
    pub fn draw(&mut self) -> Result<bool, ClientError> {
        let Some(frame) = self.acquire()? else { return Ok(false) };
        let view = frame.texture.create_view(&wgpu::TextureViewDescriptor::default());
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
                label: Some("window"),
                color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                    view: &view,
                    depth_slice: None,
                    resolve_target: None,
                    ops: wgpu::Operations {
                        load: wgpu::LoadOp::Clear(wgpu::Color::BLACK),
                        store: wgpu::StoreOp::Store,
                    },
                })],
                ..wgpu::RenderPassDescriptor::default()
            });
            if let Some(planes) = &self.planes {
                let [x, y, width, height] =
                    letterbox(planes.size, (self.configuration.width, self.configuration.height));
                pass.set_viewport(x, y, width, height, 0.0, 1.0);
                pass.set_pipeline(&self.pipeline);
                pass.set_bind_group(0, &planes.group, &[]);
                pass.draw(0..3, 0..1);
            }
        }
        self.queue.submit([encoder.finish()]);
        self.queue.present(frame);
        match lock(&self.failure).take() {
            Some(reason) => Err(ClientError::Graphics(reason)),
            None => Ok(true),
        }
    }

    fn acquire(&mut self) -> Result<Option<wgpu::SurfaceTexture>, ClientError> {
        use wgpu::CurrentSurfaceTexture as Current;
        for _ in 0..2 {
            match self.surface.get_current_texture() {
                Current::Success(frame) | Current::Suboptimal(frame) => return Ok(Some(frame)),
                Current::Timeout | Current::Occluded => return Ok(None),
                Current::Outdated | Current::Lost => self.surface.configure(&self.device, &self.configuration),
                Current::Validation => {
                    return Err(ClientError::Graphics("cannot draw to the window's surface".into()));
                }
            }
        }
        Ok(None)
    }

    fn new_planes(&self, size: Size) -> Planes {
        let (width, height) = (u32::from(size.width), u32::from(size.height));
        let textures = [(width, height), (width / 2, height / 2), (width / 2, height / 2)].map(|(width, height)| {
            self.device.create_texture(&wgpu::TextureDescriptor {
                label: Some("plane"),
                size: wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
                mip_level_count: 1,
                sample_count: 1,
                dimension: wgpu::TextureDimension::D2,
                format: wgpu::TextureFormat::R8Unorm,
                usage: wgpu::TextureUsages::TEXTURE_BINDING | wgpu::TextureUsages::COPY_DST,
                view_formats: &[],
            })
        });
        let views = textures.each_ref().map(|texture| texture.create_view(&wgpu::TextureViewDescriptor::default()));
        let plane = |binding: usize| wgpu::BindGroupEntry {
            binding: binding as u32,
            resource: wgpu::BindingResource::TextureView(&views[binding - 1]),
        };
        let sampler = wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Sampler(&self.sampler) };
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("planes"),
            layout: &self.layout,
            entries: &[sampler, plane(1), plane(2), plane(3)],
        });
        Planes { size, textures, group }
    }
}

/// Returns the surface's configuration: the presentation mode that waits least, and a format without sRGB conversion, because the picture
/// is already gamma-encoded.
fn configuration(
    surface: &wgpu::Surface<'_>,
    adapter: &wgpu::Adapter,
    (width, height): (u32, u32),
) -> Result<wgpu::SurfaceConfiguration, ClientError> {
    let unusable = || ClientError::Graphics("the graphics adapter cannot draw to this window".into());
    let capabilities = surface.get_capabilities(adapter);
    let mut configuration = surface.get_default_config(adapter, width.max(1), height.max(1)).ok_or_else(unusable)?;
    let linear = capabilities.formats.iter().find(|format| !format.is_srgb());
    configuration.format = *linear.or(capabilities.formats.first()).ok_or_else(unusable)?;
    let preferred = [wgpu::PresentMode::Mailbox, wgpu::PresentMode::Immediate];
    let offered = preferred.into_iter().find(|mode| capabilities.present_modes.contains(mode));
    configuration.present_mode = offered.unwrap_or(wgpu::PresentMode::Fifo);
    configuration.desired_maximum_frame_latency = 1;
    Ok(configuration)
}

fn planes_layout(device: &wgpu::Device) -> wgpu::BindGroupLayout {
    let entry =
        |binding, ty| wgpu::BindGroupLayoutEntry { binding, visibility: wgpu::ShaderStages::FRAGMENT, ty, count: None };
    let plane = |binding| {
        entry(
            binding,
            wgpu::BindingType::Texture {
                sample_type: wgpu::TextureSampleType::Float { filterable: true },
                view_dimension: wgpu::TextureViewDimension::D2,
                multisampled: false,
            },
        )
    };
    let sampler = entry(0, wgpu::BindingType::Sampler(wgpu::SamplerBindingType::Filtering));
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: Some("planes"),
        entries: &[sampler, plane(1), plane(2), plane(3)],
    })
}

fn pipeline(
    device: &wgpu::Device,
    layout: &wgpu::BindGroupLayout,
    format: wgpu::TextureFormat,
) -> wgpu::RenderPipeline {
    let shader = device.create_shader_module(wgpu::include_wgsl!("picture.wgsl"));
    let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(layout)],
        immediate_size: 0,
    });
    device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
        label: Some("picture"),
        layout: Some(&layout),
        vertex: wgpu::VertexState {
            module: &shader,
            entry_point: Some("cover"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            buffers: &[],
        },
        primitive: wgpu::PrimitiveState::default(),
        depth_stencil: None,
        multisample: wgpu::MultisampleState::default(),
        fragment: Some(wgpu::FragmentState {
            module: &shader,
            entry_point: Some("colour"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            targets: &[Some(format.into())],
        }),
        multiview_mask: None,
        cache: None,
    })
}

/// Returns the result of a request to the graphics library, which completes at once on every platform but the web.
fn wait<F: Future>(future: F) -> Result<F::Output, ClientError> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err(ClientError::Graphics("it does not answer".into())),
    }
}

fn failed(error: &dyn std::error::Error) -> ClientError {
    ClientError::Graphics(error.to_string())
}
