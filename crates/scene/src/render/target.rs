//! A picture being drawn: colour, depth and the mapped memory that it is read from.

use std::sync::mpsc;

use super::pipelines::{COLOUR, DEPTH};
use crate::{PixelFormat, Pixels, SceneError};

/// Rows of a copy start at multiples of this many bytes.
const ROW_ALIGNMENT: u32 = wgpu::COPY_BYTES_PER_ROW_ALIGNMENT;

pub struct Target {
    pub width: u16,
    pub height: u16,
    colour: wgpu::Texture,
    pub colour_view: wgpu::TextureView,
    pub depth_view: wgpu::TextureView,
    stride: u32,
    readback: wgpu::Buffer,
}

impl Target {
    pub fn new(device: &wgpu::Device, width: u16, height: u16) -> Self {
        let texture = |format, usage| {
            device.create_texture(&wgpu::TextureDescriptor {
                label: None,
                size: wgpu::Extent3d { width: u32::from(width), height: u32::from(height), depth_or_array_layers: 1 },
                mip_level_count: 1,
                sample_count: 1,
                dimension: wgpu::TextureDimension::D2,
                format,
                usage,
                view_formats: &[],
            })
        };
        let colour = texture(COLOUR, wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::COPY_SRC);
        let depth = texture(DEPTH, wgpu::TextureUsages::RENDER_ATTACHMENT);
        let stride = (u32::from(width) * 4).next_multiple_of(ROW_ALIGNMENT);
        let readback = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("readback"),
            size: u64::from(stride) * u64::from(height),
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        Self {
            width,
            height,
            colour_view: colour.create_view(&wgpu::TextureViewDescriptor::default()),
            depth_view: depth.create_view(&wgpu::TextureViewDescriptor::default()),
            colour,
            stride,
            readback,
        }
    }

    /// Appends the copy into mappable memory to the drawing commands.
    pub fn copy(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.copy_texture_to_buffer(
            self.colour.as_image_copy(),
            wgpu::TexelCopyBufferInfo {
                buffer: &self.readback,
                layout: wgpu::TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: Some(self.stride),
                    rows_per_image: Some(u32::from(self.height)),
                },
            },
            self.colour.size(),
        );
    }

    /// Waits for the drawing to end and lends the picture out in place.
    pub fn read(&self, device: &wgpu::Device, take: &mut dyn FnMut(Pixels<'_>)) -> Result<(), SceneError> {
        let failed = |what: String| SceneError::Adapter(format!("the picture cannot be read back: {what}"));
        let slice = self.readback.slice(..);
        let (done, outcome) = mpsc::channel();
        slice.map_async(wgpu::MapMode::Read, move |result| {
            // The receiver is gone only when the call below has failed, which is reported there.
            let _ = done.send(result);
        });
        device.poll(wgpu::PollType::wait_indefinitely()).map_err(|error| failed(error.to_string()))?;
        let mapped = outcome.try_recv().map_err(|_| failed("no answer".into()))?;
        mapped.map_err(|error| failed(error.to_string()))?;
        {
            let view = slice.get_mapped_range().map_err(|error| failed(error.to_string()))?;
            take(Pixels {
                bytes: &view,
                format: PixelFormat::Rgba,
                width: self.width,
                height: self.height,
                stride: self.stride as usize,
            });
        }
        self.readback.unmap();
        Ok(())
    }
}
