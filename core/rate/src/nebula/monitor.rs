//! Measurements of Nebula's client: throughput by dispersion of frames, loss and motion-to-photon, each as a mean of five.

use nearlight_units::{Bitrate, Bytes, FrameId, RemoteTime, Span};

use crate::{Feedback, PacketReport};

/// Number of measurements in a mean (section 5.2: "the latest five").
const MEASUREMENTS: usize = 5;
/// Frames whose packets may interleave on the path. Guess: one that is being sent and one that is repaired, and as many again.
const OPEN_FRAMES: usize = 4;

/// The mean of the latest measurements.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeanOfFive {
    values: [f64; MEASUREMENTS],
    count: usize,
    next: usize,
}

impl MeanOfFive {
    pub fn on_value(&mut self, value: f64) {
        self.values[self.next] = value;
        self.next = (self.next + 1) % MEASUREMENTS;
        self.count = (self.count + 1).min(MEASUREMENTS);
    }

    /// The mean. None before the first measurement.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.values[..self.count].iter().sum::<f64>() / self.count as f64)
    }
}

/// The client's monitor, run in the sender from the arrivals in feedback.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    /// Frames and their newest arrivals.
    open: [Option<(FrameId, RemoteTime)>; OPEN_FRAMES],
    next: usize,
    /// In the current step: bytes without each frame's first packet, and the time between first and last packets.
    size: Bytes,
    elapsed: Span,
    arrived: u64,
    lost: u64,
    /// Throughput in bit/s, loss as a share, and motion-to-photon latency in seconds.
    throughputs: MeanOfFive,
    losses: MeanOfFive,
    motion_to_photon: MeanOfFive,
}

impl Monitor {
    pub fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        for report in feedback.packets {
            match report.arrived_at {
                Some(arrived_at) => self.on_arrival(report, arrived_at),
                None => self.lost += 1,
            }
        }
    }

    pub fn on_motion_to_photon(&mut self, sample: Span) {
        self.motion_to_photon.on_value(sample.as_secs_f64());
    }

    /// Ends a step: its counts become a measurement.
    pub fn on_step(&mut self) {
        let (size, elapsed) = (std::mem::take(&mut self.size), std::mem::take(&mut self.elapsed));
        if elapsed > Span::ZERO {
            self.throughputs.on_value(size.over(elapsed).as_bps() as f64);
        }
        let (arrived, lost) = (std::mem::take(&mut self.arrived), std::mem::take(&mut self.lost));
        if arrived + lost > 0 {
            self.losses.on_value(lost as f64 / (arrived + lost) as f64);
        }
    }

    /// The path's throughput, once a step had frames of several packets.
    #[must_use]
    pub fn throughput(&self) -> Option<Bitrate> {
        self.throughputs.mean().map(|mean| Bitrate::from_bps(mean as u64))
    }

    /// The share of packets that are lost, from 0 to 1.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.losses.mean().unwrap_or(0.0)
    }

    /// Motion-to-photon latency. None before the first frame was displayed.
    #[must_use]
    pub fn motion_to_photon(&self) -> Option<Span> {
        self.motion_to_photon.mean().map(Span::from_secs_f64)
    }

    fn on_arrival(&mut self, report: &PacketReport, arrived_at: RemoteTime) {
        self.arrived += 1;
        let Some(frame) = report.packet.frame else { return };
        let known = self.open.iter_mut().flatten().find(|(open, _)| *open == frame);
        let Some((_, newest)) = known else {
            // The first packet starts the frame's time, and its size does not count.
            self.open[self.next] = Some((frame, arrived_at));
            self.next = (self.next + 1) % OPEN_FRAMES;
            return;
        };
        self.size += report.packet.size;
        // The gaps between a frame's packets add up to the time from its first to its last.
        self.elapsed += arrived_at.saturating_since(*newest);
        *newest = arrived_at.max(*newest);
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{PacketSeq, Time};

    use super::*;
    use crate::SentPacket;

    /// Frames of ten packets of 1,250 bytes, each 33 ms, whose packets arrive `gap` microseconds apart.
    fn frames(monitor: &mut Monitor, gap: u64, lost: &[u32]) {
        for frame in 0..30_u32 {
            let packets: Vec<PacketReport> = (0..10_u32)
                .map(|index| {
                    let sent_at = Time::from_millis(u64::from(frame) * 33);
                    let packet = SentPacket {
                        seq: PacketSeq(frame * 10 + index),
                        sent_at,
                        size: Bytes::new(1_250),
                        frame: Some(FrameId(frame)),
                        probe: None,
                        app_limited: index == 9,
                    };
                    let at = sent_at + Span::from_micros((gap * u64::from(index)) as i64);
                    PacketReport {
                        packet,
                        arrived_at: Some(at.for_peer()).filter(|_| !lost.contains(&index)),
                        ce: false,
                    }
                })
                .collect();
            monitor.on_feedback(&Feedback { packets: &packets, round_trip: None });
        }
        monitor.on_step();
    }

    #[test]
    fn dispersion_is_the_capacity_whatever_is_sent_and_lost() {
        for (gap, lost, mbps) in [(1_000, vec![], 10.0), (2_000, vec![], 5.0), (1_000, vec![9], 10.0)] {
            let mut monitor = Monitor::default();
            frames(&mut monitor, gap, &lost);
            let found = monitor.throughput().expect("measured").as_mbps_f64();
            assert!((found - mbps).abs() < 1e-6, "{found} {mbps}");
            assert!((monitor.loss() - 0.1 * lost.len() as f64).abs() < 1e-12);
        }
    }

    #[test]
    fn each_measurement_is_the_mean_of_the_latest_five() {
        let mut monitor = Monitor::default();
        assert_eq!((monitor.throughput(), monitor.motion_to_photon()), (None, None));
        (0..5).for_each(|_| frames(&mut monitor, 1_000, &[]));
        frames(&mut monitor, 2_000, &[3, 4, 5, 6, 7]);
        // Four measurements of 10 Mb/s, and four packets of each frame in the 18 ms from its first to its last.
        let expected = (4.0 * 10.0 + 4.0 * 0.01 / 0.018) / 5.0;
        assert!((monitor.throughput().expect("measured").as_mbps_f64() - expected).abs() < 1e-6);
        assert!((monitor.loss() - 0.1).abs() < 1e-12, "a half in one of five steps");
        (1..=7).for_each(|number| monitor.on_motion_to_photon(Span::from_millis(10 * number)));
        assert_eq!(monitor.motion_to_photon(), Some(Span::from_millis(50)));
    }

    #[test]
    fn a_step_without_arrivals_measures_nothing() {
        let mut monitor = Monitor::default();
        frames(&mut monitor, 1_000, &[]);
        (0..9).for_each(|_| monitor.on_step());
        assert_eq!(monitor.throughput(), Some(Bitrate::from_mbps(10)));
    }
}
