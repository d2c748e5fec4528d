//! Reads pictures back from the graphics driver through a ring of buffers, so that no thread waits.

use nearlight_embed::{PixelOrder, Rows, Time};

use crate::gl::{self, Gl, Sync};

/// Number of buffers: one being written, one that is complete, and one for a driver that lags a frame behind.
const BUFFER_COUNT: usize = 3;

/// A picture that was copied into memory.
#[derive(Debug)]
pub(crate) struct CopiedPicture<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) order: PixelOrder,
    pub(crate) rows: Rows,
    pub(crate) size: (u16, u16),
    /// When the program began to draw the picture.
    pub(crate) draw_started_at: Time,
}

/// A fence of the context that was current.
#[derive(Debug)]
struct Fence(Sync);

// SAFETY: it is an opaque name for the driver. `Readback` is used only while its context is current, in whichever thread that is.
unsafe impl Send for Fence {}

#[derive(Debug)]
struct Pending {
    fence: Option<Fence>,
    draw_started_at: Time,
    /// Number of pictures that were shown since.
    shown: u32,
}

#[derive(Debug)]
struct Slot {
    buffer: u32,
    pending: Option<Pending>,
}

/// The buffers of one context for pictures of one size.
#[derive(Debug)]
pub(crate) struct Readback {
    gl: Gl,
    size: (u16, u16),
    slots: Vec<Slot>,
    /// The slot of the oldest picture. Newer ones follow it.
    oldest: usize,
    /// Memory for contexts without buffers.
    memory: Vec<u8>,
}

impl Readback {
    /// Creates the readback of a context, which must be current in every call.
    pub(crate) const fn new(gl: Gl) -> Self {
        Self { gl, size: (0, 0), slots: Vec::new(), oldest: 0, memory: Vec::new() }
    }

    const fn order(&self) -> PixelOrder {
        if self.gl.order() == gl::BGRA { PixelOrder::Bgra } else { PixelOrder::Rgba }
    }

    const fn bytes(&self) -> usize {
        self.size.0 as usize * self.size.1 as usize * 4
    }

    /// Sets the size. Pending copies of another size are dropped.
    fn set_size(&mut self, size: (u16, u16)) {
        if size == self.size {
            return;
        }
        for slot in self.slots.drain(..) {
            if let Some(Fence(sync)) = slot.pending.and_then(|pending| pending.fence) {
                self.gl.delete_sync(sync);
            }
            self.gl.delete_buffer(slot.buffer);
        }
        (self.size, self.oldest) = (size, 0);
        let bytes = self.bytes();
        if self.gl.has_buffers() {
            self.slots = (0..BUFFER_COUNT).map(|_| Slot { buffer: self.gl.new_buffer(bytes), pending: None }).collect();
        } else {
            self.memory.resize(bytes, 0);
        }
    }

    /// Starts copying the picture that is about to be shown. `submit` gets it at once if the context has no buffers, or an older one if all
    /// buffers are in use.
    pub(crate) fn start(
        &mut self,
        size: (u16, u16),
        draw_started_at: Time,
        submit: &mut dyn FnMut(&CopiedPicture<'_>),
    ) {
        self.set_size(size);
        let order = self.order();
        if self.slots.is_empty() {
            self.gl.read(&mut self.memory, size);
            return submit(&CopiedPicture { bytes: &self.memory, order, rows: Rows::BottomUp, size, draw_started_at });
        }
        let is_free = |slot: &Slot| slot.pending.is_none();
        let after_oldest = |number: usize| (self.oldest + number) % BUFFER_COUNT;
        let free = (0..BUFFER_COUNT).map(after_oldest).find(|index| is_free(&self.slots[*index]));
        let index = free.unwrap_or_else(|| {
            let oldest = self.oldest;
            self.submit_slot(oldest, submit);
            oldest
        });
        let slot = &mut self.slots[index];
        let fence = self.gl.start_reading(slot.buffer, size).map(Fence);
        slot.pending = Some(Pending { fence, draw_started_at, shown: 0 });
    }

    /// Submits the completed copies, oldest first.
    pub(crate) fn finish(&mut self, submit: &mut dyn FnMut(&CopiedPicture<'_>)) {
        for _ in 0..self.slots.len() {
            let index = self.oldest;
            let Some(pending) = &mut self.slots[index].pending else { return };
            pending.shown += 1;
            let done = match &pending.fence {
                Some(Fence(sync)) => self.gl.is_done(*sync),
                // Without fences, the copy counts as complete after the next picture. This waits if the driver lags further behind.
                None => pending.shown > 1,
            };
            if !done {
                return;
            }
            self.submit_slot(index, submit);
        }
    }

    fn submit_slot(&mut self, index: usize, submit: &mut dyn FnMut(&CopiedPicture<'_>)) {
        let (size, order, bytes) = (self.size, self.order(), self.bytes());
        let slot = &mut self.slots[index];
        let Some(Pending { fence, draw_started_at, .. }) = slot.pending.take() else { return };
        let rows = Rows::BottomUp;
        self.gl.with_buffer(slot.buffer, bytes, |bytes| {
            submit(&CopiedPicture { bytes, order, rows, size, draw_started_at });
        });
        if let Some(Fence(sync)) = fence {
            self.gl.delete_sync(sync);
        }
        self.oldest = (index + 1) % BUFFER_COUNT;
    }
}
