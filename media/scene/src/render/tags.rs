//! The names above people: which of them are drawn, and their pictures on the adapter.

use std::sync::Arc;

use super::GrowableBuffer;
use super::eye::Eye;
use super::lettering::{HEIGHT, LEVELS, Lettering, PIXEL_BYTES, WIDTH};
use super::pipelines::{Pipelines, TAG_BYTES};
use crate::world::Tag;

/// Names in a picture, the nearest first, as in pages that draw the world themselves. Guess: more cannot be read.
const MAX_TAGS: usize = 24;
/// Distance in metres beyond which no names are drawn. Guess: their people are hardly visible there.
const MAX_TAG_DISTANCE: f32 = 30.0;
/// Pictures of names that are kept on the adapter: 11 MiB. Those that were not drawn for longest make room for others.
const MAX_PICTURES: u32 = 64;
/// Pictures that are drawn anew for one picture of the world, which takes about a millisecond each. Other names follow in the next one.
const MAX_NEW_PICTURES: usize = 4;
/// Half of a tag's height in metres. Pages use the same height.
const HALF_HEIGHT: f32 = 0.07;
/// Smallest half of a tag's height, as a share of its distance: it is 1.6 degrees high, which is 14 rows of a picture of 540.
const MIN_HALF_SHARE: f32 = 0.014;

/// The picture of a name.
struct CachedPicture {
    name: Arc<str>,
    /// Columns that the tag takes.
    width: u32,
    /// The number of the picture of the world in which it was drawn last.
    drawn_in: u64,
}

/// Pictures of names, and the tags of the current picture of the world.
pub struct Tags {
    lettering: Lettering,
    texture: wgpu::Texture,
    pub group: wgpu::BindGroup,
    /// Pictures by layer of the texture, at most [`MAX_PICTURES`].
    pictures: Vec<CachedPicture>,
    pub instances: GrowableBuffer,
    /// Number of the current picture of the world.
    number: u64,
}

impl Tags {
    pub fn new(device: &wgpu::Device, pipelines: &Pipelines) -> Self {
        let texture = |format, width, height, layers, mip_level_count| {
            device.create_texture(&wgpu::TextureDescriptor {
                label: Some("tags"),
                size: wgpu::Extent3d { width, height, depth_or_array_layers: layers },
                mip_level_count,
                sample_count: 1,
                dimension: wgpu::TextureDimension::D2,
                format,
                usage: wgpu::TextureUsages::TEXTURE_BINDING | wgpu::TextureUsages::COPY_DST,
                view_formats: &[],
            })
        };
        let unused =
            texture(wgpu::TextureFormat::Rgba8Unorm, 1, 1, 1, 1).create_view(&wgpu::TextureViewDescriptor::default());
        let texture = texture(wgpu::TextureFormat::Rg8Unorm, WIDTH, HEIGHT, MAX_PICTURES, LEVELS);
        let dimension = Some(wgpu::TextureViewDimension::D2Array);
        let view = texture.create_view(&wgpu::TextureViewDescriptor { dimension, ..Default::default() });
        let sampler = device.create_sampler(&wgpu::SamplerDescriptor {
            mag_filter: wgpu::FilterMode::Linear,
            min_filter: wgpu::FilterMode::Linear,
            mipmap_filter: wgpu::MipmapFilterMode::Linear,
            ..wgpu::SamplerDescriptor::default()
        });
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("tags"),
            layout: &pipelines.texture_layout,
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Sampler(&sampler) },
                wgpu::BindGroupEntry { binding: 1, resource: wgpu::BindingResource::TextureView(&unused) },
                wgpu::BindGroupEntry { binding: 2, resource: wgpu::BindingResource::TextureView(&view) },
            ],
        });
        let instances = GrowableBuffer::new(device, MAX_TAGS as u64 * TAG_BYTES);
        Self { lettering: Lettering::new(), texture, group, pictures: Vec::new(), instances, number: 0 }
    }

    /// Uploads the tags that are drawn, the farthest first, and returns how many there are.
    pub fn upload(&mut self, device: &wgpu::Device, queue: &wgpu::Queue, tags: &[Tag], eyes: &[Eye]) -> u32 {
        self.number += 1;
        let Some(eye) = eyes.first() else { return 0 };
        let distance = |tag: &Tag| tag.place.distance(eye.position);
        let near = tags.iter().map(|tag| (distance(tag), tag));
        let mut near: Vec<(f32, &Tag)> = near.filter(|(distance, _)| *distance < MAX_TAG_DISTANCE).collect();
        near.sort_by(|one, other| one.0.total_cmp(&other.0));
        near.truncate(MAX_TAGS);
        let (mut bytes, mut fresh) = (Vec::with_capacity(near.len() * TAG_BYTES as usize), 0);
        for (distance, tag) in near.into_iter().rev() {
            let reach = HALF_HEIGHT.max(MIN_HALF_SHARE * distance) * WIDTH as f32 / HEIGHT as f32;
            if tag.name.is_empty() || !eyes.iter().any(|eye| eye.sees(tag.place, reach)) {
                continue;
            }
            let Some((layer, width)) = self.picture(queue, &tag.name, &mut fresh) else { continue };
            let place = tag.place.extend(HALF_HEIGHT).to_array();
            let look = tag.colour.extend(width as f32 / WIDTH as f32).to_array();
            let numbers =
                place.into_iter().chain(look).chain([layer as f32, width as f32 / HEIGHT as f32, MIN_HALF_SHARE]);
            bytes.extend(numbers.flat_map(f32::to_le_bytes));
        }
        self.instances.write(device, queue, &bytes);
        (bytes.len() as u64 / TAG_BYTES) as u32
    }

    /// Returns the layer and the width of a name's picture, which is drawn if necessary. `fresh` counts those of the current picture of the
    /// world. None if there is no time for it now.
    fn picture(&mut self, queue: &wgpu::Queue, name: &Arc<str>, fresh: &mut usize) -> Option<(u32, u32)> {
        let number = self.number;
        if let Some((layer, known)) = self.pictures.iter_mut().enumerate().find(|(_, known)| known.name == *name) {
            known.drawn_in = number;
            return Some((layer as u32, known.width));
        }
        if *fresh == MAX_NEW_PICTURES {
            return None;
        }
        *fresh += 1;
        let picture = self.lettering.draw(name);
        let cached = CachedPicture { name: Arc::clone(name), width: picture.width, drawn_in: number };
        let layer = if self.pictures.len() < MAX_PICTURES as usize {
            self.pictures.push(cached);
            self.pictures.len() - 1
        } else {
            let (oldest, _) = self.pictures.iter().enumerate().min_by_key(|(_, known)| known.drawn_in)?;
            self.pictures[oldest] = cached;
            oldest
        };
        for (level, bytes) in (0..).zip(&picture.levels) {
            let (width, height) = (WIDTH >> level, HEIGHT >> level);
            queue.write_texture(
                wgpu::TexelCopyTextureInfo {
                    texture: &self.texture,
                    mip_level: level,
                    origin: wgpu::Origin3d { x: 0, y: 0, z: layer as u32 },
                    aspect: wgpu::TextureAspect::All,
                },
                bytes,
                wgpu::TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: Some(width * PIXEL_BYTES),
                    rows_per_image: Some(height),
                },
                wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
            );
        }
        Some((layer as u32, picture.width))
    }
}
