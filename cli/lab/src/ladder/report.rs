//! The figures of each step.

use serde::Serialize;

use crate::ladder::published::{self, Published};
use crate::ladder::step::Step;

/// Median and 95th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    pub median: f64,
    pub p95: f64,
    pub n: usize,
}

impl Figures {
    /// Returns the figures of samples. None without samples.
    pub(crate) fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| samples.get(((samples.len() - 1) as f64 * share).round() as usize).copied();
        if samples.is_empty() {
            return None;
        }
        Some(Self { median: at(0.5)?, p95: at(0.95)?, n: samples.len() })
    }
}

/// One step.
#[derive(Clone, Debug, Serialize)]
pub struct Rung {
    pub step: Step,
    /// Why it was not measured; the figures are null then.
    pub not_measured: Option<String>,
    /// Runs in virtual time; only the network is measured.
    pub is_virtual: bool,
    /// Time from the finished picture until the last packet is handed to the kernel: without the encoder, and the encoder alone.
    pub host_us: Option<Figures>,
    pub encode_us: Option<Figures>,
    /// Time from handing the first packet to the kernel to the last packet's arrival at the device's program.
    pub network_us: Option<Figures>,
    /// Time from there to the decoded picture.
    pub device_us: Option<Figures>,
    /// Time from the finished picture to the decoded one.
    pub total_us: Option<Figures>,
    /// Copies of the whole picture, and of its bits, on the whole way.
    pub picture_copies: u32,
    pub bit_copies: u32,
    /// System calls for a frame, counted where they are made.
    pub host_calls: Option<Figures>,
    pub device_calls: Option<Figures>,
    /// Processor time for a frame; the host's includes the X server's where there is one.
    pub host_cpu_us: Option<f64>,
    pub device_cpu_us: Option<f64>,
    /// Frames that were shown by the program and never decoded.
    pub missing: u64,
    /// Difference of the medians to the step before.
    pub host_difference_us: Option<f64>,
    pub network_difference_us: Option<f64>,
    pub device_difference_us: Option<f64>,
    pub published: Published,
    pub reason: &'static str,
}

impl Rung {
    pub(crate) fn empty(step: Step, not_measured: Option<String>) -> Self {
        let copies = step.copies();
        Self {
            step,
            not_measured,
            is_virtual: !step.is_live(),
            host_us: None,
            encode_us: None,
            network_us: None,
            device_us: None,
            total_us: None,
            picture_copies: copies.pictures,
            bit_copies: copies.bits,
            host_calls: None,
            device_calls: None,
            host_cpu_us: None,
            device_cpu_us: None,
            missing: 0,
            host_difference_us: None,
            network_difference_us: None,
            device_difference_us: None,
            published: published::published(step),
            reason: published::reason(step),
        }
    }
}

/// One size of picture.
#[derive(Clone, Debug, Serialize)]
pub struct SizeReport {
    pub width: u16,
    pub height: u16,
    pub fps: u16,
    pub rate_mbps: f64,
    /// Bits of a frame in bytes, and packets.
    pub frame_bytes: Option<Figures>,
    pub packets: u64,
    /// SSIM of every tenth decoded picture against the finished one: mean, and the worst.
    pub ssim_mean: Option<f64>,
    pub ssim_worst: Option<f64>,
    pub rungs: Vec<Rung>,
}

impl SizeReport {
    /// Fills in what each step changes against the nearest one before it that was measured in the same way.
    pub(crate) fn compare(&mut self) {
        let mut before: Option<Rung> = None;
        for rung in &mut self.rungs {
            if rung.is_virtual {
                continue;
            }
            if let Some(before) = &before {
                let difference =
                    |now: &Option<Figures>, then: &Option<Figures>| Some(now.as_ref()?.median - then.as_ref()?.median);
                rung.host_difference_us = difference(&rung.host_us, &before.host_us);
                rung.network_difference_us = difference(&rung.network_us, &before.network_us);
                rung.device_difference_us = difference(&rung.device_us, &before.device_us);
            }
            if rung.host_us.is_some() {
                before = Some(rung.clone());
            }
        }
    }
}

/// All sizes.
#[derive(Clone, Debug, Serialize)]
pub struct Ladder {
    /// The paper's total before and with all optimisations, in milliseconds.
    pub published_total_ms: [f64; 2],
    pub published_ssim_mean: f64,
    pub rounds: u32,
    pub frames_each: u32,
    pub sizes: Vec<SizeReport>,
}

/// Section V.D of the paper.
pub(crate) const PUBLISHED_SSIM: f64 = 0.918;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_compared_with_the_one_before_that_was_measured() {
        let rung = |step, median| {
            let figures = Figures { median, p95: median, n: 1 };
            Rung { host_us: Some(figures), ..Rung::empty(step, None) }
        };
        let rungs = vec![
            rung(Step::OtherProcess, 900.0),
            Rung::empty(Step::InProcess, Some("a reason".into())),
            rung(Step::NoConversion, 300.0),
            rung(Step::PeerToPeer, 1.0),
            rung(Step::Feedback, 310.0),
        ];
        let mut report = SizeReport {
            width: 2,
            height: 2,
            fps: 60,
            rate_mbps: 1.0,
            frame_bytes: None,
            packets: 1,
            ssim_mean: None,
            ssim_worst: None,
            rungs,
        };
        report.compare();
        let differences: Vec<_> = report.rungs.iter().map(|rung| rung.host_difference_us).collect();
        assert_eq!(differences, [None, None, Some(-600.0), None, Some(10.0)]);
    }

    #[test]
    fn figures_are_medians() {
        assert_eq!(Figures::of(Vec::new()), None);
        let samples = (0..=100).rev().map(f64::from).collect();
        assert_eq!(Figures::of(samples), Some(Figures { median: 50.0, p95: 95.0, n: 101 }));
    }
}
