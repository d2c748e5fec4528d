//! Pictures on their way from the graphics driver: a few buffers in turn, so that nobody waits.

use nearlight_embed::{PixelOrder, Rows, Time};

use crate::gl::{self, Gl, Sync};

/// Buffers in turn: one being copied into, one that has been, and one for a driver that lags a frame behind.
const BUFFERS: usize = 3;

/// A picture that has been copied out.
#[derive(Debug)]
pub(crate) struct Read<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) order: PixelOrder,
    pub(crate) rows: Rows,
    pub(crate) size: (u16, u16),
    /// When the program began to draw it.
    pub(crate) drawn_from: Time,
}

/// A fence of the context that was current.
#[derive(Debug)]
struct Fence(Sync);

// SAFETY: it is a name for the driver. `Readback` is used while its context is current, in whichever thread that is.
unsafe impl Send for Fence {}

#[derive(Debug)]
struct Pending {
    fence: Option<Fence>,
    drawn_from: Time,
    /// Pictures that were shown since.
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
    /// The slot of the oldest picture; new ones follow it.
    oldest: usize,
    /// For contexts without buffers.
    memory: Vec<u8>,
}

impl Readback {
    /// Its context is current in every call from now on.
    pub(crate) const fn new(gl: Gl) -> Self {
        Self { gl, size: (0, 0), slots: Vec::new(), oldest: 0, memory: Vec::new() }
    }

    const fn order(&self) -> PixelOrder {
        if self.gl.order() == gl::BGRA { PixelOrder::Bgra } else { PixelOrder::Rgba }
    }

    const fn bytes(&self) -> usize {
        self.size.0 as usize * self.size.1 as usize * 4
    }

    /// Drops what is under way when the size changes.
    fn set_size(&mut self, size: (u16, u16)) {
        if size == self.size {
            return;
        }
        for slot in self.slots.drain(..) {
            if let Some(Fence(sync)) = slot.pending.and_then(|pending| pending.fence) {
                self.gl.forget(sync);
            }
            self.gl.delete_buffer(slot.buffer);
        }
        (self.size, self.oldest) = (size, 0);
        let bytes = self.bytes();
        if self.gl.has_buffers() {
            self.slots = (0..BUFFERS).map(|_| Slot { buffer: self.gl.new_buffer(bytes), pending: None }).collect();
        } else {
            self.memory.resize(bytes, 0);
        }
    }

    /// Has the picture that is about to be shown copied out. `submit` takes it at once where the context has no buffers, and an older one
    /// where all buffers are in use.
    pub(crate) fn start(&mut self, size: (u16, u16), drawn_from: Time, submit: &mut dyn FnMut(&Read<'_>)) {
        self.set_size(size);
        let order = self.order();
        if self.slots.is_empty() {
            self.gl.read(&mut self.memory, size);
            return submit(&Read { bytes: &self.memory, order, rows: Rows::BottomUp, size, drawn_from });
        }
        let is_free = |slot: &Slot| slot.pending.is_none();
        let after_oldest = |number: usize| (self.oldest + number) % BUFFERS;
        let free = (0..BUFFERS).map(after_oldest).find(|index| is_free(&self.slots[*index]));
        let index = free.unwrap_or_else(|| {
            let oldest = self.oldest;
            self.take(oldest, submit);
            oldest
        });
        let slot = &mut self.slots[index];
        let fence = self.gl.start_reading(slot.buffer, size).map(Fence);
        slot.pending = Some(Pending { fence, drawn_from, shown: 0 });
    }

    /// Hands over what has been copied by now, oldest first.
    pub(crate) fn finish(&mut self, submit: &mut dyn FnMut(&Read<'_>)) {
        for _ in 0..self.slots.len() {
            let index = self.oldest;
            let Some(pending) = &mut self.slots[index].pending else { return };
            pending.shown += 1;
            let done = match &pending.fence {
                Some(Fence(sync)) => self.gl.is_done(*sync),
                // Without fences, after the next picture: a driver that is a frame behind then waits here.
                None => pending.shown > 1,
            };
            if !done {
                return;
            }
            self.take(index, submit);
        }
    }

    fn take(&mut self, index: usize, submit: &mut dyn FnMut(&Read<'_>)) {
        let (size, order, bytes) = (self.size, self.order(), self.bytes());
        let slot = &mut self.slots[index];
        let Some(Pending { fence, drawn_from, .. }) = slot.pending.take() else { return };
        let rows = Rows::BottomUp;
        self.gl.with_buffer(slot.buffer, bytes, |bytes| submit(&Read { bytes, order, rows, size, drawn_from }));
        if let Some(Fence(sync)) = fence {
            self.gl.forget(sync);
        }
        self.oldest = (index + 1) % BUFFERS;
    }
}
