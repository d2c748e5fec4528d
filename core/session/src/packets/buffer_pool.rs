//! A pool of used buffers: an allocation costs about as much as the rest of a packet's processing in the session.

/// Used buffers, at most `LIMIT` of them.
#[derive(Debug, Default)]
pub(crate) struct BufferPool<const LIMIT: usize> {
    kept: Vec<Vec<u8>>,
}

impl<const LIMIT: usize> BufferPool<LIMIT> {
    /// Returns an empty buffer with room for `bytes`, and for twice as many at most. A new one has some spare room, because sizes vary.
    pub(crate) fn take(&mut self, bytes: usize) -> Vec<u8> {
        let fits = |buffer: &Vec<u8>| (bytes..=2 * bytes).contains(&buffer.capacity());
        let mut buffer = self.kept.pop().filter(fits).unwrap_or_else(|| Vec::with_capacity(bytes + bytes / 8));
        buffer.clear();
        buffer
    }

    pub(crate) fn give(&mut self, buffer: Vec<u8>) {
        if self.kept.len() < LIMIT {
            self.kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_where_it_fits() {
        let mut buffer_pool = BufferPool::<1>::default();
        buffer_pool.give(vec![7; 1_000]);
        buffer_pool.give(vec![8; 1_000]);
        assert_eq!(buffer_pool.kept.len(), 1);
        let buffer = buffer_pool.take(900);
        assert_eq!((buffer.len(), buffer.capacity()), (0, 1_000));
        buffer_pool.give(buffer);
        assert!((1_200..2_400).contains(&buffer_pool.take(1_200).capacity()), "too small to be used again");
        buffer_pool.give(vec![0; 1_000]);
        assert!(buffer_pool.take(100).capacity() < 1_000, "so large that it would be wasted");
    }
}
