//! How much of what is sent Nebula's and ESCOT's redundancy takes, for the choice of a rate. The packets themselves are made by the
//! session's policy of the same name.

use nearlight_units::Bytes;

/// Frames from one intra frame to the next in the paper's plan; places in a group count from the last key frame.
const GROUP: u32 = 10;
/// Redundancy grows with a frame's distance to the end of its group by at most this factor, from a loss of 4 % on. Guess: twice the
/// expected loss for the first frame at 1 %.
const MOST_WEIGHT: f64 = 4.0;
const WEIGHT_PER_LOSS: f64 = 100.0;
/// What a group's block has over its expected loss, as a share of it. Guess: as for the frame in the middle of a group at 1 %.
const GROUP_WEIGHT: f64 = 0.5;
/// Weight of a new frame in the mean. Guess: a group's worth.
const SMOOTHING: f64 = 0.1;
/// The highest loss that is reckoned with: beyond, nothing would be left to send.
const MOST_LOSS: f64 = 0.5;

/// What is protected together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Each frame, those more that more others depend on (Nebula, equation 3.3).
    Frame,
    /// A whole group of pictures (ESCOT as Nebula's authors built it).
    Group,
}

/// Repairs for a frame of so many packets at place `index` of its group: `max(1, k p / (1 - p) (1 + w (G - i) / G))`, rounded up.
#[must_use]
pub fn repairs(packets: u64, loss: f64, index: u32) -> u64 {
    let loss = loss.clamp(0.0, MOST_LOSS);
    let left = f64::from(GROUP - index % GROUP) / f64::from(GROUP);
    let weight = (WEIGHT_PER_LOSS * loss).min(MOST_WEIGHT);
    let expected = packets as f64 * loss / (1.0 - loss);
    ((expected * (1.0 + weight * left)).ceil() as u64).max(1)
}

/// Follows the share of redundancy.
#[derive(Clone, Debug)]
pub struct Share {
    block: Block,
    /// Place in the group.
    index: u32,
    mean: Option<f64>,
}

impl Share {
    #[must_use]
    pub fn new(block: Block) -> Self {
        Self { block, index: 0, mean: None }
    }

    /// A frame is to be sent in packets of `packet` at this loss.
    pub fn on_frame(&mut self, size: Bytes, key: bool, packet: Bytes, loss: f64) {
        if key {
            self.index = 0;
        }
        let packets = size.get().div_ceil(packet.get().max(1)).max(1);
        let added = repairs(packets, loss, self.index) as f64;
        self.index = self.index.wrapping_add(1);
        let sample = added / (packets as f64 + added);
        self.mean = Some(self.mean.map_or(sample, |mean| mean + SMOOTHING * (sample - mean)));
    }

    /// Of all that is sent, at this loss.
    #[must_use]
    pub fn share(&self, loss: f64) -> f64 {
        match self.block {
            Block::Frame => self.mean.unwrap_or(0.0),
            Block::Group => {
                let loss = loss.clamp(0.0, MOST_LOSS);
                let added = loss / (1.0 - loss) * (1.0 + GROUP_WEIGHT);
                added / (1.0 + added)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean share of a group at 30 frames a second whose first frame is as large as four others, in packets of 1,400 bytes.
    fn mean_share(rate: u64, loss: f64) -> f64 {
        let group = rate as f64 / 8.0 / 3.0;
        let sizes = (0..10).map(|index| group / 13.0 * if index == 0 { 4.0 } else { 1.0 });
        let (mut sources, mut added) = (0, 0);
        for (size, index) in sizes.zip(0..) {
            let packets = (size / 1_400.0).ceil() as u64;
            sources += packets;
            added += repairs(packets, loss, index);
        }
        added as f64 / (sources + added) as f64
    }

    #[test]
    fn at_1_percent_the_mean_share_lies_around_the_papers_9_percent() {
        for (rate, expected) in [(2_000_000, 13.5), (3_000_000, 9.9), (4_500_000, 6.6)] {
            let found = 100.0 * mean_share(rate, 0.01);
            assert!((found - expected).abs() < 0.5, "{rate}: {found} %, not {expected} %");
        }
    }

    #[test]
    fn frames_get_more_the_more_depend_on_them_and_never_nothing() {
        assert_eq!((repairs(100, 0.01, 0), repairs(100, 0.01, 9), repairs(100, 0.0, 5)), (3, 2, 1));
        // 100 * 0.02 / 0.98 * (1 + 2 * (10 - i) / 10)
        assert_eq!([0, 5, 9].map(|index| repairs(100, 0.02, index)), [7, 5, 3]);
        assert!((1..10).all(|index| repairs(1_000, 0.03, index) <= repairs(1_000, 0.03, index - 1)));
        assert_eq!(repairs(1_000, 0.03, 10), repairs(1_000, 0.03, 0), "the next group");
    }

    #[test]
    fn a_share_is_of_all_that_is_sent() {
        let mut frames = Share::new(Block::Frame);
        assert!(frames.share(0.01).abs() < 1e-12);
        frames.on_frame(Bytes::new(12_600), true, Bytes::new(1_400), 0.0);
        assert!((frames.share(0.0) - 0.1).abs() < 1e-12, "one in ten");
        let group = Share::new(Block::Group);
        assert!(group.share(0.0).abs() < 1e-12);
        let added = 0.01 / 0.99 * 1.5;
        assert!((group.share(0.01) - added / (1.0 + added)).abs() < 1e-12);
        assert!(group.share(0.9) < 0.61, "bounded");
    }
}
