//! Used buffers for recycling: an allocation costs about as much as the rest of a packet's processing in the session.

/// Used buffers, at most `LIMIT` of them.
#[derive(Debug, Default)]
pub(crate) struct Spares<const LIMIT: usize> {
    kept: Vec<Vec<u8>>,
}

impl<const LIMIT: usize> Spares<LIMIT> {
    /// An empty buffer with room for `bytes`, and for twice as many at most; a new one has some spare room, for sizes vary.
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
        let mut spares = Spares::<1>::default();
        spares.give(vec![7; 1_000]);
        spares.give(vec![8; 1_000]);
        assert_eq!(spares.kept.len(), 1);
        let buffer = spares.take(900);
        assert_eq!((buffer.len(), buffer.capacity()), (0, 1_000));
        spares.give(buffer);
        assert!((1_200..2_400).contains(&spares.take(1_200).capacity()), "too small to be used again");
        spares.give(vec![0; 1_000]);
        assert!(spares.take(100).capacity() < 1_000, "so large that it would be wasted");
    }
}
