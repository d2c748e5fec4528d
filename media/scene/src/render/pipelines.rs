//! Bind group layouts and render pipelines.

use crate::plaza::mesh::Vertex;

/// Format of the picture. Display values are stored without conversion.
pub const COLOUR: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8Unorm;
pub const DEPTH: wgpu::TextureFormat = wgpu::TextureFormat::Depth32Float;
/// Bytes of an instance in its buffer: twelve floats of the transform, four of the colour, four of the material.
pub const INSTANCE_BYTES: u64 = 80;
/// Bytes of a sprite in its buffer.
pub const SPRITE_BYTES: u64 = 36;

/// Bytes of a name tag in its buffer: four floats of the place, four of the colour and width, three of layer and shape.
pub const TAG_BYTES: u64 = 44;

pub struct Pipelines {
    pub still: wgpu::RenderPipeline,
    pub moving: wgpu::RenderPipeline,
    pub floor: wgpu::RenderPipeline,
    pub picture: wgpu::RenderPipeline,
    pub sky: wgpu::RenderPipeline,
    pub sprite: wgpu::RenderPipeline,
    pub tag: wgpu::RenderPipeline,
    pub eye_layout: wgpu::BindGroupLayout,
    pub texture_layout: wgpu::BindGroupLayout,
}

const VERTEX: [wgpu::VertexAttribute; 4] =
    wgpu::vertex_attr_array![0 => Float32x3, 1 => Snorm8x4, 2 => Float32x2, 3 => Unorm8x4];
const INSTANCE: [wgpu::VertexAttribute; 5] =
    wgpu::vertex_attr_array![4 => Float32x4, 5 => Float32x4, 6 => Float32x4, 7 => Float32x4, 8 => Float32x4];
const SPRITE: [wgpu::VertexAttribute; 3] = wgpu::vertex_attr_array![0 => Float32x4, 1 => Float32x4, 2 => Float32];

const TAG: [wgpu::VertexAttribute; 3] = wgpu::vertex_attr_array![0 => Float32x4, 1 => Float32x4, 2 => Float32x3];

const fn layout(
    stride: u64,
    step_mode: wgpu::VertexStepMode,
    attributes: &'static [wgpu::VertexAttribute],
) -> wgpu::VertexBufferLayout<'static> {
    wgpu::VertexBufferLayout { array_stride: stride, step_mode, attributes }
}

#[derive(Clone, Copy)]
struct PipelineRecipe<'a> {
    vertex: &'a str,
    fragment: &'a str,
    buffers: &'a [Option<wgpu::VertexBufferLayout<'a>>],
    strip: bool,
    cull: bool,
    blend: Option<wgpu::BlendState>,
    depth_write: bool,
}

impl Pipelines {
    pub fn new(device: &wgpu::Device) -> Self {
        let eye_layout = eye_layout(device);
        let texture_layout = texture_layout(device);
        let shader = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("scene"),
            source: wgpu::ShaderSource::Wgsl(include_str!("shader.wgsl").into()),
        });
        let layout_of = |groups: &[Option<&wgpu::BindGroupLayout>]| {
            device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: groups,
                immediate_size: 0,
            })
        };
        let textured = layout_of(&[Some(&eye_layout), Some(&texture_layout)]);
        let plain = layout_of(&[Some(&eye_layout)]);
        let still = [Some(layout(Vertex::BYTES as u64, wgpu::VertexStepMode::Vertex, &VERTEX))];
        let moving = [still[0].clone(), Some(layout(INSTANCE_BYTES, wgpu::VertexStepMode::Instance, &INSTANCE))];
        let sprites = [Some(layout(SPRITE_BYTES, wgpu::VertexStepMode::Instance, &SPRITE))];
        let tags = [Some(layout(TAG_BYTES, wgpu::VertexStepMode::Instance, &TAG))];
        let solid = PipelineRecipe {
            vertex: "still",
            fragment: "still_layers",
            buffers: &still,
            strip: false,
            cull: true,
            blend: None,
            depth_write: true,
        };
        let soft = wgpu::BlendComponent {
            src_factor: wgpu::BlendFactor::One,
            dst_factor: wgpu::BlendFactor::OneMinusSrcAlpha,
            operation: wgpu::BlendOperation::Add,
        };
        let blend = Some(wgpu::BlendState { color: soft, alpha: soft });
        let blended = PipelineRecipe { strip: true, cull: false, blend, depth_write: false, ..solid };
        Self {
            still: build(device, &shader, &textured, &solid),
            moving: build(
                device,
                &shader,
                &textured,
                &PipelineRecipe { vertex: "moving", fragment: "moving_layers", buffers: &moving, ..solid },
            ),
            floor: build(device, &shader, &textured, &PipelineRecipe { fragment: "floor", ..solid }),
            picture: build(
                device,
                &shader,
                &textured,
                &PipelineRecipe { fragment: "still_picture", cull: false, ..solid },
            ),
            sky: build(device, &shader, &textured, &PipelineRecipe { fragment: "sky", depth_write: false, ..solid }),
            sprite: build(
                device,
                &shader,
                &plain,
                &PipelineRecipe { vertex: "sprite", fragment: "soft", buffers: &sprites, ..blended },
            ),
            tag: build(
                device,
                &shader,
                &textured,
                &PipelineRecipe { vertex: "tag", fragment: "name", buffers: &tags, ..blended },
            ),
            eye_layout,
            texture_layout,
        }
    }
}

fn build(
    device: &wgpu::Device,
    shader: &wgpu::ShaderModule,
    layout: &wgpu::PipelineLayout,
    recipe: &PipelineRecipe<'_>,
) -> wgpu::RenderPipeline {
    device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
        label: Some(recipe.fragment),
        layout: Some(layout),
        vertex: wgpu::VertexState {
            module: shader,
            entry_point: Some(recipe.vertex),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            buffers: recipe.buffers,
        },
        primitive: wgpu::PrimitiveState {
            topology: if recipe.strip {
                wgpu::PrimitiveTopology::TriangleStrip
            } else {
                wgpu::PrimitiveTopology::TriangleList
            },
            cull_mode: recipe.cull.then_some(wgpu::Face::Back),
            ..wgpu::PrimitiveState::default()
        },
        depth_stencil: Some(wgpu::DepthStencilState {
            format: DEPTH,
            depth_write_enabled: Some(recipe.depth_write),
            depth_compare: Some(wgpu::CompareFunction::Greater),
            stencil: wgpu::StencilState::default(),
            bias: wgpu::DepthBiasState::default(),
        }),
        multisample: wgpu::MultisampleState::default(),
        fragment: Some(wgpu::FragmentState {
            module: shader,
            entry_point: Some(recipe.fragment),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            targets: &[Some(wgpu::ColorTargetState {
                format: COLOUR,
                blend: recipe.blend,
                write_mask: wgpu::ColorWrites::ALL,
            })],
        }),
        multiview_mask: None,
        cache: None,
    })
}

fn eye_layout(device: &wgpu::Device) -> wgpu::BindGroupLayout {
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: Some("eye"),
        entries: &[wgpu::BindGroupLayoutEntry {
            binding: 0,
            visibility: wgpu::ShaderStages::VERTEX_FRAGMENT,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Uniform,
                has_dynamic_offset: true,
                min_binding_size: None,
            },
            count: None,
        }],
    })
}

fn texture_layout(device: &wgpu::Device) -> wgpu::BindGroupLayout {
    let texture = |binding, view_dimension| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::FRAGMENT,
        ty: wgpu::BindingType::Texture {
            sample_type: wgpu::TextureSampleType::Float { filterable: true },
            view_dimension,
            multisampled: false,
        },
        count: None,
    };
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: Some("textures"),
        entries: &[
            wgpu::BindGroupLayoutEntry {
                binding: 0,
                visibility: wgpu::ShaderStages::FRAGMENT,
                ty: wgpu::BindingType::Sampler(wgpu::SamplerBindingType::Filtering),
                count: None,
            },
            texture(1, wgpu::TextureViewDimension::D2),
            texture(2, wgpu::TextureViewDimension::D2Array),
        ],
    })
}
