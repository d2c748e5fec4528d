//! A render target: colour, depth, and the mapped memory from which pixels or planes are read.

use std::sync::mpsc;

use super::pipelines::{COLOUR, DEPTH};
use super::planes::{PlanesPass, PlanesTarget};
use crate::{PixelFormat, Pixels, PlanesView, RenderedPicture, SceneError};

/// Alignment of the rows of a copy, in bytes.
const ROW_ALIGNMENT: u32 = wgpu::COPY_BYTES_PER_ROW_ALIGNMENT;

pub struct Target {
    pub width: u16,
    pub height: u16,
    pub colour_view: wgpu::TextureView,
    pub depth_view: wgpu::TextureView,
    /// The target of the last pass; none if pixels are read back.
    pub planes: Option<PlanesTarget>,
    /// The parts to read back: the pixels, or luma, blue and red differences.
    parts: Vec<Part>,
    readback: wgpu::Buffer,
}

/// A texture that is read back, and its place in the mapped memory.
struct Part {
    texture: wgpu::Texture,
    offset: u64,
    stride: u32,
}

impl Part {
    fn end(&self) -> u64 {
        self.offset + u64::from(self.stride) * u64::from(self.texture.height())
    }

    fn of<'a>(&self, mapped: &'a [u8]) -> &'a [u8] {
        &mapped[self.offset as usize..self.end() as usize]
    }
}

/// Creates a texture that is drawn into.
pub fn texture(
    device: &wgpu::Device,
    (width, height): (u32, u32),
    format: wgpu::TextureFormat,
    usage: wgpu::TextureUsages,
) -> wgpu::Texture {
    device.create_texture(&wgpu::TextureDescriptor {
        label: None,
        size: wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format,
        usage: usage | wgpu::TextureUsages::RENDER_ATTACHMENT,
        view_formats: &[],
    })
}

impl Target {
    /// Creates a target. With the pass that converts pixels, planes are read back.
    pub fn new(device: &wgpu::Device, width: u16, height: u16, last: Option<&PlanesPass>) -> Self {
        let size = (width.into(), height.into());
        let read = if last.is_some() { wgpu::TextureUsages::TEXTURE_BINDING } else { wgpu::TextureUsages::COPY_SRC };
        let colour = texture(device, size, COLOUR, read);
        let depth = texture(device, size, DEPTH, wgpu::TextureUsages::empty());
        let colour_view = colour.create_view(&wgpu::TextureViewDescriptor::default());
        let (planes, textures) = last.map(|pass| pass.target(device, &colour_view, size)).unzip();
        let mut parts: Vec<Part> = Vec::new();
        for texture in textures.map_or_else(|| vec![colour], Vec::from) {
            let row = texture.width() * texture.format().block_copy_size(None).unwrap_or(4);
            let offset = parts.last().map_or(0, Part::end);
            parts.push(Part { texture, offset, stride: row.next_multiple_of(ROW_ALIGNMENT) });
        }
        let readback = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("readback"),
            size: parts.last().map_or(0, Part::end),
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        Self {
            width,
            height,
            colour_view,
            depth_view: depth.create_view(&wgpu::TextureViewDescriptor::default()),
            planes,
            parts,
            readback,
        }
    }

    /// Appends the commands that copy the picture into mappable memory.
    pub fn copy(&self, encoder: &mut wgpu::CommandEncoder) {
        for Part { texture, offset, stride } in &self.parts {
            encoder.copy_texture_to_buffer(
                texture.as_image_copy(),
                wgpu::TexelCopyBufferInfo {
                    buffer: &self.readback,
                    layout: wgpu::TexelCopyBufferLayout {
                        offset: *offset,
                        bytes_per_row: Some(*stride),
                        rows_per_image: None,
                    },
                },
                texture.size(),
            );
        }
    }

    /// Waits for the drawing to end, and passes the mapped picture to `take`.
    pub fn read(&self, device: &wgpu::Device, take: &mut dyn FnMut(RenderedPicture<'_>)) -> Result<(), SceneError> {
        let failed = |what: String| SceneError::Adapter(format!("the picture cannot be read back: {what}"));
        let slice = self.readback.slice(..);
        let (done, outcome) = mpsc::sync_channel(1);
        slice.map_async(wgpu::MapMode::Read, move |result| {
            // The receiver is gone only if the call below has failed, which is reported there.
            let _ = done.send(result);
        });
        device.poll(wgpu::PollType::wait_indefinitely()).map_err(|error| failed(error.to_string()))?;
        let mapped = outcome.try_recv().map_err(|_| failed("no answer".into()))?;
        mapped.map_err(|error| failed(error.to_string()))?;
        {
            let view = slice.get_mapped_range().map_err(|error| failed(error.to_string()))?;
            take(self.rendered(&view));
        }
        self.readback.unmap();
        Ok(())
    }

    fn rendered<'a>(&self, mapped: &'a [u8]) -> RenderedPicture<'a> {
        let (width, height) = (self.width, self.height);
        match self.parts.as_slice() {
            [luma, blue, red] => RenderedPicture::Planes(PlanesView {
                width,
                height,
                luma: luma.of(mapped),
                blue: blue.of(mapped),
                red: red.of(mapped),
                luma_stride: luma.stride as usize,
                chroma_stride: blue.stride as usize,
            }),
            parts => RenderedPicture::Pixels(Pixels {
                bytes: mapped,
                format: PixelFormat::Rgba,
                width,
                height,
                stride: parts.first().map_or(0, |pixels| pixels.stride as usize),
            }),
        }
    }
}
