//! The share of the sending rate that Nebula's and ESCOT's redundancy takes, for the choice of a rung. The session's policy of the same
//! name makes the packets themselves.

use nearlight_fec::policy::{NEBULA_GROUP, escot_repairs_per_packet, nebula_repairs};
use nearlight_units::Bytes;

/// Weight of a new frame in the mean. Guess: about a group of pictures.
const SMOOTHING: f64 = 0.1;

/// The frames that are protected together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Each frame by itself; the more frames depend on it, the more it is protected (Nebula, equation 3.3).
    Frame,
    /// A whole group of pictures (ESCOT as Nebula's authors built it).
    Group,
}

/// Tracks the share of redundancy.
#[derive(Clone, Debug)]
pub struct RedundancyShare {
    block: Block,
    /// The next frame's place in its group.
    index: u32,
    mean: Option<f64>,
}

impl RedundancyShare {
    #[must_use]
    pub fn new(block: Block) -> Self {
        Self { block, index: 0, mean: None }
    }

    /// Handles a frame that is to be sent in packets of `packet` at this loss.
    pub fn on_frame(&mut self, size: Bytes, key: bool, packet: Bytes, loss: f64) {
        if key {
            self.index = 0;
        }
        let packets = size.get().div_ceil(packet.get().max(1)).clamp(1, u64::from(u16::MAX)) as u16;
        let added = f64::from(nebula_repairs(packets, loss, self.index, NEBULA_GROUP));
        self.index = self.index.wrapping_add(1);
        let sample = added / (f64::from(packets) + added);
        self.mean = Some(self.mean.map_or(sample, |mean| mean + SMOOTHING * (sample - mean)));
    }

    /// The redundancy's share of all that is sent at this loss.
    #[must_use]
    pub fn share(&self, loss: f64) -> f64 {
        match self.block {
            Block::Frame => self.mean.unwrap_or(0.0),
            Block::Group => {
                let added = escot_repairs_per_packet(loss);
                added / (1.0 + added)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_all_that_is_sent() {
        let mut frames = RedundancyShare::new(Block::Frame);
        assert!(frames.share(0.01).abs() < 1e-12);
        frames.on_frame(Bytes::new(12_600), true, Bytes::new(1_400), 0.0);
        assert!((frames.share(0.0) - 0.1).abs() < 1e-12, "one in ten");
        let group = RedundancyShare::new(Block::Group);
        assert!(group.share(0.0).abs() < 1e-12);
        let added = 0.01 / 0.99 * 1.5;
        assert!((group.share(0.01) - added / (1.0 + added)).abs() < 1e-12);
        assert!(group.share(0.9) < 0.61, "bounded");
    }
}
