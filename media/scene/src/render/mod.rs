//! Draws the world through wgpu, on any available adapter.

mod adapter;
mod conversion;
mod eye;
mod lettering;
mod pipelines;
mod planes;
mod stage;
mod tags;
mod target;

use std::sync::{Arc, Mutex};

use nearlight_units::{Span, Time, lock};
use nearlight_wire::{Fov, Pose, View};

use crate::canvas::check_size;
use crate::plaza::{Environment, Surface};
use crate::world::{DrawList, Instance, Sprite};
use crate::{RenderRequest, RenderedPicture, SceneError};
use eye::Eye;
use pipelines::{INSTANCE_BYTES, Pipelines, SPRITE_BYTES};
use planes::PlanesPass;
use stage::{SceneResources, SceneTextures};
use tags::Tags;
use target::Target;

pub use adapter::{AdapterSummary, Backend, list_adapters};
pub use conversion::{Conversion, UnknownConversion};
pub use eye::FOG_DENSITY;

/// Targets that are kept, one per size: a screen and a headset at two sizes each.
const MAX_TARGETS: usize = 4;
/// Pictures that each software renderer draws to find the faster one. The first is not counted. The renderers alternate, so that a busy
/// moment of the machine affects both equally.
const TRIAL_PICTURES: usize = 12;
/// Size of the trial pictures in pixels.
const TRIAL_SIZE: (u16, u16) = (960, 540);

/// The work that a picture required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawStatistics {
    /// Triangles in all views together, after culling.
    pub triangles: usize,
    pub draws: usize,
}

pub struct Renderer {
    device: wgpu::Device,
    queue: wgpu::Queue,
    summary: AdapterSummary,
    pipelines: Pipelines,
    /// The last pass, if planes are read back.
    planes: Option<PlanesPass>,
    stage: SceneResources,
    eyes: wgpu::Buffer,
    eye_group: wgpu::BindGroup,
    instances: GrowableBuffer,
    sprites: GrowableBuffer,
    tags: Tags,
    targets: Vec<Target>,
    failure: Arc<Mutex<Option<String>>>,
}

/// A buffer that is rewritten for each picture and grows as needed.
struct GrowableBuffer {
    buffer: wgpu::Buffer,
}

impl GrowableBuffer {
    fn new(device: &wgpu::Device, bytes: u64) -> Self {
        let usage = wgpu::BufferUsages::VERTEX | wgpu::BufferUsages::COPY_DST;
        let descriptor = wgpu::BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false };
        Self { buffer: device.create_buffer(&descriptor) }
    }

    fn write(&mut self, device: &wgpu::Device, queue: &wgpu::Queue, bytes: &[u8]) {
        if bytes.len() as u64 > self.buffer.size() {
            *self = Self::new(device, (bytes.len() as u64).next_power_of_two());
        }
        if !bytes.is_empty() {
            queue.write_buffer(&self.buffer, 0, bytes);
        }
    }
}

impl Renderer {
    /// Opens the best adapter of `backend`. If only two software renderers are available, both draw and the faster one is kept.
    ///
    /// `place` is built on another thread while the adapters are opened, and is returned with the renderer.
    pub fn open(
        (backend, conversion): (Backend, Conversion),
        place: impl FnOnce() -> Result<Environment, SceneError> + Send,
        clock: &dyn Fn() -> Time,
    ) -> Result<(Self, Environment), SceneError> {
        let (adapters, place, art) = std::thread::scope(|scope| {
            let place = scope.spawn(place);
            let art = scope.spawn(SceneTextures::paint);
            let adapters = adapter::candidates(backend);
            (adapters, place.join(), art.join())
        });
        let (Ok(place), Ok(art)) = (place, art) else {
            return Err(SceneError::Adapter("building the place failed".into()));
        };
        let place = place?;
        let renderer = Self::best(&adapters, conversion, (&place, &art), clock)?;
        Ok((renderer, place))
    }

    fn best(
        adapters: &[wgpu::Adapter],
        conversion: Conversion,
        scene: (&Environment, &SceneTextures),
        clock: &dyn Fn() -> Time,
    ) -> Result<Self, SceneError> {
        let Some(first) = adapters.first() else {
            return Err(SceneError::NoAdapter("neither Vulkan nor OpenGL lists one".into()));
        };
        if !adapter::summary(first).software {
            return Self::on(first, conversion, scene);
        }
        let (mut renderers, mut failures) = (Vec::new(), Vec::new());
        for adapter in adapters {
            match Self::on(adapter, conversion, scene) {
                Ok(renderer) => renderers.push((Span::MAX, renderer)),
                Err(error) => failures.push(error.to_string()),
            }
        }
        let pictures = if renderers.len() > 1 { TRIAL_PICTURES } else { 0 };
        for picture in 0..pictures {
            renderers.retain_mut(|(cost, renderer)| match renderer.trial(clock) {
                Ok(spent) => {
                    *cost = if picture > 0 { spent.min(*cost) } else { *cost };
                    true
                }
                Err(error) => {
                    failures.push(error.to_string());
                    false
                }
            });
        }
        for (cost, renderer) in renderers.iter().filter(|(cost, _)| *cost < Span::MAX) {
            tracing::info!(adapter = %renderer.summary, %cost, "software renderer tried");
        }
        let best = renderers.into_iter().min_by_key(|(cost, _)| *cost);
        best.map(|(_, renderer)| renderer).ok_or_else(|| SceneError::NoAdapter(failures.join("; ")))
    }

    fn on(
        adapter: &wgpu::Adapter,
        conversion: Conversion,
        (place, art): (&Environment, &SceneTextures),
    ) -> Result<Self, SceneError> {
        let failed = |error: &dyn std::fmt::Display| SceneError::Adapter(error.to_string());
        let limits = wgpu::Limits::downlevel_webgl2_defaults().using_resolution(adapter.limits());
        let request = adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("nearlight"),
            required_limits: limits,
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..wgpu::DeviceDescriptor::default()
        });
        let (device, queue) = adapter::wait(request)
            .ok_or_else(|| SceneError::Adapter("the device does not answer".into()))?
            .map_err(|error| failed(&error))?;
        let failure = Arc::new(Mutex::new(None));
        let (errors, losses) = (Arc::clone(&failure), Arc::clone(&failure));
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| note(&errors, error.to_string())));
        device.set_device_lost_callback(move |reason, message| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                note(&losses, format!("the device is lost: {message}"));
            }
        });
        let summary = adapter::summary(adapter);
        let planes = conversion.draws_planes(summary.software).then(|| PlanesPass::new(&device));
        let pipelines = Pipelines::new(&device);
        let stage = SceneResources::new((&device, &queue), &pipelines, place, art);
        let eyes = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("eyes"),
            size: 2 * eye::STRIDE,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let binding = wgpu::BufferBinding { buffer: &eyes, offset: 0, size: std::num::NonZeroU64::new(eye::STRIDE) };
        let eye_group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("eyes"),
            layout: &pipelines.eye_layout,
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(binding) }],
        });
        let renderer = Self {
            instances: GrowableBuffer::new(&device, 512 * INSTANCE_BYTES),
            sprites: GrowableBuffer::new(&device, 512 * SPRITE_BYTES),
            tags: Tags::new(&device, &pipelines),
            summary,
            targets: Vec::new(),
            device,
            queue,
            pipelines,
            planes,
            stage,
            eyes,
            eye_group,
            failure,
        };
        renderer.check()?;
        Ok(renderer)
    }

    /// Measures the time of a picture of the static scene.
    fn trial(&mut self, clock: &dyn Fn() -> Time) -> Result<Span, SceneError> {
        let (width, height) = TRIAL_SIZE;
        let pose = Pose { position: [0.0, 1.6, 0.0], ..Pose::default() };
        let views = [View { pose, fov: Fov::symmetric(1.1, f32::from(width) / f32::from(height)) }];
        let request = RenderRequest { viewer: crate::Viewer(u32::MAX), views: &views, width, height };
        let started = clock();
        self.draw(&request, &DrawList::default(), &mut |_| {})?;
        Ok(clock() - started)
    }

    pub fn summary(&self) -> &AdapterSummary {
        &self.summary
    }

    /// Returns a description for people: the adapter, and where its pictures are converted. The conversion comes before the driver's name
    /// because panels cut long lines.
    pub fn describe(&self) -> String {
        let by = if self.planes.is_some() { "a shader" } else { "the processor" };
        format!("{}, colours converted by {by} ({})", self.summary.name, self.summary.details())
    }

    #[cfg(test)]
    pub fn lose_device(&self) {
        self.device.destroy();
    }

    /// Returns the first error that the adapter has reported since the last call.
    fn check(&self) -> Result<(), SceneError> {
        match lock(&self.failure).take() {
            Some(message) => Err(SceneError::Adapter(message)),
            None => Ok(()),
        }
    }

    fn target(&mut self, width: u16, height: u16) -> Result<usize, SceneError> {
        if let Some(index) = self.targets.iter().position(|target| (target.width, target.height) == (width, height)) {
            return Ok(index);
        }
        check_size(width, height)?;
        let limit = self.summary.max_side;
        if u32::from(width.max(height)) > limit {
            let reason = format!("{} draws at most {limit} pixels a side", self.summary.name);
            return Err(SceneError::Size { width, height, reason });
        }
        if self.targets.len() == MAX_TARGETS {
            self.targets.remove(0);
        }
        self.targets.push(Target::new(&self.device, width, height, self.planes.as_ref()));
        self.check()?;
        Ok(self.targets.len() - 1)
    }

    /// Draws one picture and lends it to `take`.
    pub fn draw(
        &mut self,
        request: &RenderRequest<'_>,
        show: &DrawList,
        take: &mut dyn FnMut(RenderedPicture<'_>),
    ) -> Result<DrawStatistics, SceneError> {
        if !(1..=2).contains(&request.views.len()) {
            return Err(SceneError::Adapter(format!("a picture has one or two views, not {}", request.views.len())));
        }
        let target = self.target(request.width, request.height)?;
        let eyes: Vec<Eye> = request.views.iter().map(Eye::new).collect();
        let blocks: Vec<u8> = eyes.iter().flat_map(Eye::block).collect();
        self.queue.write_buffer(&self.eyes, 0, &blocks);
        let runs = self.upload(show, &eyes);
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let drawn = self.encode(&mut encoder, &self.targets[target], &eyes, &runs);
        if let (Some(pass), Some(planes)) = (&self.planes, &self.targets[target].planes) {
            pass.draw(&mut encoder, planes);
        }
        self.targets[target].copy(&mut encoder);
        self.queue.submit([encoder.finish()]);
        let read = self.targets[target].read(&self.device, take);
        self.check()?;
        read?;
        Ok(drawn)
    }

    /// Uploads the visible instances, sprites and names to the adapter. Returns the runs of each model and the numbers of sprites and names.
    fn upload(&mut self, show: &DrawList, eyes: &[Eye]) -> InstanceRuns {
        let seen = |instance: &&Instance| eyes.iter().any(|eye| eye.sees(instance.position(), instance.reach));
        let mut instances: Vec<&Instance> = show.instances.iter().filter(seen).collect();
        instances.sort_by_key(|instance| instance.model);
        let mut bytes = Vec::with_capacity(instances.len() * INSTANCE_BYTES as usize);
        let mut models = Vec::new();
        for run in instances.chunk_by(|a, b| a.model == b.model) {
            let start = bytes.len() as u64;
            for instance in run {
                write_instance(instance, &mut bytes);
            }
            models.push((run[0].model, start, run.len() as u32));
        }
        self.instances.write(&self.device, &self.queue, &bytes);
        let mut spots = Vec::with_capacity(show.sprites.len() * SPRITE_BYTES as usize);
        let seen = |sprite: &&Sprite| eyes.iter().any(|eye| eye.sees(sprite.centre, sprite.radius * 1.42));
        for sprite in show.sprites.iter().filter(seen) {
            write_sprite(sprite, &mut spots);
        }
        self.sprites.write(&self.device, &self.queue, &spots);
        let tags = self.tags.upload(&self.device, &self.queue, &show.tags, eyes);
        InstanceRuns { models, sprites: (spots.len() as u64 / SPRITE_BYTES) as u32, tags }
    }

    fn encode(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        target: &Target,
        eyes: &[Eye],
        runs: &InstanceRuns,
    ) -> DrawStatistics {
        let mut drawn = DrawStatistics::default();
        let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
            label: Some("picture"),
            color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                view: &target.colour_view,
                depth_slice: None,
                resolve_target: None,
                // The sky covers the background of every view, so the previous picture need not be cleared, which costs 0.8 ms on a CPU.
                ops: wgpu::Operations { load: wgpu::LoadOp::Load, store: wgpu::StoreOp::Store },
            })],
            depth_stencil_attachment: Some(wgpu::RenderPassDepthStencilAttachment {
                view: &target.depth_view,
                depth_ops: Some(wgpu::Operations { load: wgpu::LoadOp::Clear(0.0), store: wgpu::StoreOp::Discard }),
                stencil_ops: None,
            }),
            ..wgpu::RenderPassDescriptor::default()
        });
        let (width, height) = (u32::from(target.width), u32::from(target.height));
        let share = width / eyes.len() as u32;
        for (index, eye) in eyes.iter().enumerate() {
            let left = share * index as u32;
            pass.set_viewport(left as f32, 0.0, share as f32, height as f32, 0.0, 1.0);
            pass.set_scissor_rect(left, 0, share, height);
            pass.set_bind_group(0, &self.eye_group, &[index as u32 * eye::STRIDE as u32]);
            self.draw_moving(&mut pass, runs, &mut drawn);
            self.draw_still(&mut pass, eye, &mut drawn);
            if runs.sprites > 0 {
                pass.set_pipeline(&self.pipelines.sprite);
                pass.set_vertex_buffer(0, self.sprites.buffer.slice(..));
                pass.draw(0..4, 0..runs.sprites);
                drawn.triangles += 2 * runs.sprites as usize;
                drawn.draws += 1;
            }
            if runs.tags > 0 {
                pass.set_pipeline(&self.pipelines.tag);
                pass.set_bind_group(1, &self.tags.group, &[]);
                pass.set_vertex_buffer(0, self.tags.instances.buffer.slice(..));
                pass.draw(0..4, 0..runs.tags);
                drawn.triangles += 2 * runs.tags as usize;
                drawn.draws += 1;
            }
        }
        drawn
    }

    fn draw_moving(&self, pass: &mut wgpu::RenderPass<'_>, runs: &InstanceRuns, drawn: &mut DrawStatistics) {
        pass.set_pipeline(&self.pipelines.moving);
        pass.set_bind_group(1, &self.stage.array, &[]);
        pass.set_vertex_buffer(0, self.stage.moving.vertices.slice(..));
        pass.set_index_buffer(self.stage.moving.indices.slice(..), wgpu::IndexFormat::Uint32);
        for (model, start, count) in &runs.models {
            let indices = self.stage.models[model].clone();
            pass.set_vertex_buffer(1, self.instances.buffer.slice(*start..));
            drawn.triangles += indices.len() / 3 * *count as usize;
            drawn.draws += 1;
            pass.draw_indexed(indices, 0, 0..*count);
        }
    }

    fn draw_still(&self, pass: &mut wgpu::RenderPass<'_>, eye: &Eye, drawn: &mut DrawStatistics) {
        pass.set_vertex_buffer(0, self.stage.still.vertices.slice(..));
        pass.set_index_buffer(self.stage.still.indices.slice(..), wgpu::IndexFormat::Uint32);
        let mut bound = None;
        let seen: Vec<_> = self.stage.chunks.iter().filter(|chunk| eye.sees(chunk.centre, chunk.radius)).collect();
        for run in seen.chunk_by(|a, b| a.surface == b.surface && a.indices.end == b.indices.start) {
            let surface = run[0].surface;
            if bound != Some(surface) {
                pass.set_pipeline(match surface {
                    Surface::Array | Surface::Backdrop => &self.pipelines.still,
                    Surface::Floor => &self.pipelines.floor,
                    Surface::Picture(_) => &self.pipelines.picture,
                    Surface::Sky => &self.pipelines.sky,
                });
                pass.set_bind_group(1, self.stage.textures(surface), &[]);
                bound = Some(surface);
            }
            let indices = run[0].indices.start..run[run.len() - 1].indices.end;
            drawn.triangles += indices.len() / 3;
            drawn.draws += 1;
            pass.draw_indexed(indices, 0, 0..1);
        }
    }
}

struct InstanceRuns {
    /// Model, first byte in the instance buffer, number of instances.
    models: Vec<(crate::world::Model, u64, u32)>,
    sprites: u32,
    tags: u32,
}

fn note(failure: &Mutex<Option<String>>, message: String) {
    lock(failure).get_or_insert(message);
}

fn write_instance(instance: &Instance, bytes: &mut Vec<u8>) {
    let colour = instance.colour.extend(instance.glow).to_array();
    let look = [f32::from(instance.layer as u8), instance.metal, instance.sunlight, instance.ripple];
    for number in instance.transform.to_cols_array().into_iter().chain(colour).chain(look) {
        bytes.extend(number.to_le_bytes());
    }
}

fn write_sprite(sprite: &Sprite, bytes: &mut Vec<u8>) {
    let centre = sprite.centre.extend(sprite.radius).to_array();
    let flat = f32::from(u8::from(sprite.flat));
    for number in centre.into_iter().chain(sprite.colour.to_array()).chain([flat]) {
        bytes.extend(number.to_le_bytes());
    }
}
