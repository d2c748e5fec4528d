//! Meshes and textures that stay on the adapter for the whole run.

use std::collections::BTreeMap;
use std::ops::Range;

use wgpu::util::DeviceExt;

use super::pipelines::Pipelines;
use crate::plaza::mesh::{Layer, Mesh};
use crate::plaza::texture::{self, Image};
use crate::plaza::{Chunk, Environment, Surface, build};
use crate::world::Model;

/// Side of a layer of the shared texture array, in pixels.
const LAYER_SIDE: u32 = 256;

/// The textures of the place with their mipmaps, which are the same for every adapter.
pub struct SceneTextures {
    layers: Vec<Vec<Image>>,
    floor: Vec<Image>,
    sky: Image,
}

impl SceneTextures {
    pub fn paint() -> Self {
        Self {
            layers: build::layers(LAYER_SIDE).into_iter().map(Image::mip_chain).collect(),
            floor: texture::floor().mip_chain(),
            // The sky needs no mipmaps, because it is never minified.
            sky: texture::sky(),
        }
    }
}

/// Vertices and indices in buffers.
pub struct Geometry {
    pub vertices: wgpu::Buffer,
    pub indices: wgpu::Buffer,
}

pub struct SceneResources {
    pub still: Geometry,
    pub chunks: Vec<Chunk>,
    pub moving: Geometry,
    pub models: BTreeMap<Model, Range<u32>>,
    pub array: wgpu::BindGroup,
    floor: wgpu::BindGroup,
    sky: wgpu::BindGroup,
    pictures: Vec<wgpu::BindGroup>,
}

impl SceneResources {
    pub fn new(
        (device, queue): (&wgpu::Device, &wgpu::Queue),
        pipelines: &Pipelines,
        place: &Environment,
        art: &SceneTextures,
    ) -> Self {
        let painter = Painter { device, queue, layout: &pipelines.texture_layout, sampler: sampler(device) };
        let array = wgpu::TextureViewDimension::D2Array;
        let layers: Vec<&[Image]> = art.layers.iter().map(Vec::as_slice).collect();
        let layers = painter.upload(&layers, array);
        // Some adapters do not treat an array of one layer as an array.
        let floor_layers = painter.upload(&[&art.floor, &art.floor], array);
        let white = Image { width: 1, height: 1, rgba: vec![255; 4] };
        let blank = painter.picture(&white, false);
        let floor_light =
            place.floor_light.as_ref().map_or_else(|| blank.clone(), |light| painter.picture(light, false));
        let mut moving = Mesh::default();
        let mut models = BTreeMap::new();
        for model in Model::ALL {
            let start = moving.indices.len() as u32;
            moving.append(&model.mesh());
            models.insert(model, start..moving.indices.len() as u32);
        }
        Self {
            still: geometry(device, &place.mesh),
            chunks: merged(&place.chunks),
            moving: geometry(device, &moving),
            models,
            array: painter.bind(&blank, &layers),
            floor: painter.bind(&floor_light, &floor_layers),
            sky: painter.bind(&painter.picture(&art.sky, false), &layers),
            pictures: place
                .pictures
                .iter()
                .map(|picture| painter.bind(&painter.picture(picture, true), &layers))
                .collect(),
        }
    }

    pub fn textures(&self, surface: Surface) -> &wgpu::BindGroup {
        match surface {
            Surface::Array | Surface::Backdrop => &self.array,
            Surface::Floor => &self.floor,
            Surface::Sky => &self.sky,
            Surface::Picture(index) => &self.pictures[index],
        }
    }
}

/// Returns the chunks in drawing order: occluders first, the sky last. A hidden pixel costs next to nothing.
fn merged(chunks: &[Chunk]) -> Vec<Chunk> {
    let mut chunks = chunks.to_vec();
    chunks.sort_by_key(|chunk| match chunk.surface {
        Surface::Picture(index) => (0, index),
        Surface::Array => (1, 0),
        Surface::Floor => (2, 0),
        Surface::Backdrop => (3, 0),
        Surface::Sky => (4, 0),
    });
    chunks
}

fn geometry(device: &wgpu::Device, mesh: &Mesh) -> Geometry {
    let mut vertices = Vec::with_capacity(mesh.vertices.len() * crate::plaza::mesh::Vertex::BYTES);
    for vertex in &mesh.vertices {
        vertex.write(&mut vertices);
    }
    let indices: Vec<u8> = mesh.indices.iter().flat_map(|index| index.to_le_bytes()).collect();
    let buffer = |contents: &[u8], usage| {
        device.create_buffer_init(&wgpu::util::BufferInitDescriptor { label: None, contents, usage })
    };
    Geometry {
        vertices: buffer(&vertices, wgpu::BufferUsages::VERTEX),
        indices: buffer(&indices, wgpu::BufferUsages::INDEX),
    }
}

fn sampler(device: &wgpu::Device) -> wgpu::Sampler {
    device.create_sampler(&wgpu::SamplerDescriptor {
        label: None,
        address_mode_u: wgpu::AddressMode::Repeat,
        address_mode_v: wgpu::AddressMode::Repeat,
        mag_filter: wgpu::FilterMode::Linear,
        min_filter: wgpu::FilterMode::Linear,
        // Mipmap levels are not interpolated, because that costs a software renderer a second texture read.
        mipmap_filter: wgpu::MipmapFilterMode::Nearest,
        ..wgpu::SamplerDescriptor::default()
    })
}

struct Painter<'a> {
    device: &'a wgpu::Device,
    queue: &'a wgpu::Queue,
    layout: &'a wgpu::BindGroupLayout,
    sampler: wgpu::Sampler,
}

impl Painter<'_> {
    fn bind(&self, picture: &wgpu::TextureView, layers: &wgpu::TextureView) -> wgpu::BindGroup {
        self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: self.layout,
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Sampler(&self.sampler) },
                wgpu::BindGroupEntry { binding: 1, resource: wgpu::BindingResource::TextureView(picture) },
                wgpu::BindGroupEntry { binding: 2, resource: wgpu::BindingResource::TextureView(layers) },
            ],
        })
    }

    fn picture(&self, image: &Image, mipmaps: bool) -> wgpu::TextureView {
        let chain = if mipmaps { image.clone().mip_chain() } else { vec![image.clone()] };
        self.upload(&[&chain], wgpu::TextureViewDimension::D2)
    }

    /// Creates a texture from layers, each given as its mipmap levels from the largest to the smallest.
    fn upload(&self, chains: &[&[Image]], dimension: wgpu::TextureViewDimension) -> wgpu::TextureView {
        let first = &chains[0][0];
        let texture = self.device.create_texture(&wgpu::TextureDescriptor {
            label: None,
            size: wgpu::Extent3d {
                width: first.width,
                height: first.height,
                depth_or_array_layers: chains.len() as u32,
            },
            mip_level_count: chains[0].len() as u32,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: wgpu::TextureFormat::Rgba8Unorm,
            usage: wgpu::TextureUsages::TEXTURE_BINDING | wgpu::TextureUsages::COPY_DST,
            view_formats: &[],
        });
        for (layer, chain) in chains.iter().enumerate() {
            for (level, image) in chain.iter().enumerate() {
                self.queue.write_texture(
                    wgpu::TexelCopyTextureInfo {
                        texture: &texture,
                        mip_level: level as u32,
                        origin: wgpu::Origin3d { x: 0, y: 0, z: layer as u32 },
                        aspect: wgpu::TextureAspect::All,
                    },
                    &image.rgba,
                    wgpu::TexelCopyBufferLayout {
                        offset: 0,
                        bytes_per_row: Some(image.width * 4),
                        rows_per_image: Some(image.height),
                    },
                    wgpu::Extent3d { width: image.width, height: image.height, depth_or_array_layers: 1 },
                );
            }
        }
        texture.create_view(&wgpu::TextureViewDescriptor { dimension: Some(dimension), ..Default::default() })
    }
}

const _: () = assert!(Layer::COUNT == 8, "build::layers lists every layer");
