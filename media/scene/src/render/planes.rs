//! The last pass, which converts the finished picture into the encoders' planes, so that the processor only copies their rows.

use super::target::texture;

/// Format of a plane. A texel has four values of a row: Mesa's software renderer draws such planes in half the time of one value per texel.
const PLANE: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8Unorm;
const VALUES: u32 = 4;

pub struct PlanesPass {
    layout: wgpu::BindGroupLayout,
    sampler: wgpu::Sampler,
    luma: wgpu::RenderPipeline,
    chroma: wgpu::RenderPipeline,
}

/// The source and the destinations of the last pass for one picture.
pub struct PlanesTarget {
    picture: wgpu::BindGroup,
    luma: wgpu::TextureView,
    blue: wgpu::TextureView,
    red: wgpu::TextureView,
}

impl PlanesPass {
    pub fn new(device: &wgpu::Device) -> Self {
        let layout = layout(device);
        let shader = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("planes"),
            source: wgpu::ShaderSource::Wgsl(include_str!("planes.wgsl").into()),
        });
        let sampler = device.create_sampler(&wgpu::SamplerDescriptor {
            mag_filter: wgpu::FilterMode::Linear,
            min_filter: wgpu::FilterMode::Linear,
            ..wgpu::SamplerDescriptor::default()
        });
        Self {
            sampler,
            luma: pipeline(device, &shader, &layout, ("luma", 1)),
            chroma: pipeline(device, &shader, &layout, ("chroma", 2)),
            layout,
        }
    }

    /// Creates the target of the last pass for pictures of this size, and its textures: luma, blue and red differences.
    pub fn target(
        &self,
        device: &wgpu::Device,
        picture: &wgpu::TextureView,
        (width, height): (u32, u32),
    ) -> (PlanesTarget, [wgpu::Texture; 3]) {
        let plane = |size| texture(device, size, PLANE, wgpu::TextureUsages::COPY_SRC);
        let half = ((width / 2).div_ceil(VALUES), height / 2);
        let textures = [plane((width.div_ceil(VALUES), height)), plane(half), plane(half)];
        let [luma, blue, red] =
            textures.each_ref().map(|texture| texture.create_view(&wgpu::TextureViewDescriptor::default()));
        let picture = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("planes"),
            layout: &self.layout,
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Sampler(&self.sampler) },
                wgpu::BindGroupEntry { binding: 1, resource: wgpu::BindingResource::TextureView(picture) },
            ],
        });
        (PlanesTarget { picture, luma, blue, red }, textures)
    }

    /// Appends the commands that draw all planes.
    pub fn draw(&self, encoder: &mut wgpu::CommandEncoder, planes: &PlanesTarget) {
        let PlanesTarget { picture, luma, blue, red } = planes;
        let passes: [(_, &[&wgpu::TextureView]); 2] = [(&self.luma, &[luma]), (&self.chroma, &[blue, red])];
        for (pipeline, views) in passes {
            let attachments: Vec<_> = views
                .iter()
                .map(|view| {
                    Some(wgpu::RenderPassColorAttachment {
                        view,
                        depth_slice: None,
                        resolve_target: None,
                        // The pass draws every texel.
                        ops: wgpu::Operations { load: wgpu::LoadOp::Load, store: wgpu::StoreOp::Store },
                    })
                })
                .collect();
            let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
                label: Some("planes"),
                color_attachments: &attachments,
                ..wgpu::RenderPassDescriptor::default()
            });
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, picture, &[]);
            pass.draw(0..3, 0..1);
        }
    }
}

fn layout(device: &wgpu::Device) -> wgpu::BindGroupLayout {
    let entry =
        |binding, ty| wgpu::BindGroupLayoutEntry { binding, visibility: wgpu::ShaderStages::FRAGMENT, ty, count: None };
    let picture = wgpu::BindingType::Texture {
        sample_type: wgpu::TextureSampleType::Float { filterable: true },
        view_dimension: wgpu::TextureViewDimension::D2,
        multisampled: false,
    };
    let sampler = wgpu::BindingType::Sampler(wgpu::SamplerBindingType::Filtering);
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: Some("planes"),
        entries: &[entry(0, sampler), entry(1, picture)],
    })
}

fn pipeline(
    device: &wgpu::Device,
    module: &wgpu::ShaderModule,
    layout: &wgpu::BindGroupLayout,
    (fragment, planes): (&str, usize),
) -> wgpu::RenderPipeline {
    let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(layout)],
        immediate_size: 0,
    });
    device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
        label: Some(fragment),
        layout: Some(&layout),
        vertex: wgpu::VertexState {
            module,
            entry_point: Some("whole"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            buffers: &[],
        },
        primitive: wgpu::PrimitiveState::default(),
        depth_stencil: None,
        multisample: wgpu::MultisampleState::default(),
        fragment: Some(wgpu::FragmentState {
            module,
            entry_point: Some(fragment),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            targets: &vec![Some(PLANE.into()); planes],
        }),
        multiview_mask: None,
        cache: None,
    })
}
