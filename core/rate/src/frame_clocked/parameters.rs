//! Every number that the controller depends on, with its unit, range and source. Numbers that follow from these are methods below.

use nearlight_units::{Bitrate, Span};

/// The controller's parameters. [`Parameters::default`] has the published values.
///
/// "Sweep" says what other values do, each changed alone: over `own-2`, `own-3` and `round-trips` of `plans/default-fairness.toml` with eight
/// seeds, `bucket` of `default-ablations.toml` with ten, and the ten recordings on which the controller was tuned with three. Sweeps of "two
/// seeds" cover all of `default-fairness.toml`, but only show large differences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The share of the frame interval that a frame occupies on the bottleneck. Above 0, below 1. The rest is what frames vary by, and what
    /// drains a queue. Source: measured. Sweep: of 0.85, 0.92, 0.94 and 0.96, 0.94 has the highest utility over recordings.
    pub target_share: f64,
    /// Ratio of the pacing rate to the capacity in `Tracking`. Above `probe_gain`. Source: slow start doubles the rate in a round trip (RFC
    /// 5681, section 3.1); with 2, one frame can show that the capacity has doubled. Sweep (two seeds): 1.5 gives 10 instead of 17 Mb/s beside
    /// CUBIC and 100 ms of queue; with 2.77, BBR's gain of startup, Jain's index of two sessions is 0.83 instead of 0.98.
    pub burst_gain: f64,
    /// The smallest ratio of two rates that is not noise. It is also the step in which more is tried: frames beside cross traffic are paced at
    /// this multiple of their rate, and a lower bound of the capacity raises the estimate by this at most. Above 1. Source: the gain of BBR's
    /// `ProbeBW_UP` (draft-ietf-ccwg-bbr-02, section 5.3.3). Sweep (two seeds): 1.15 and 1.4 make no clear difference.
    pub probe_gain: f64,
    /// The share of the target that remains while a queue drains. From 0 to 1. Guess: the smallest picture that still moves. Sweep: 0.05 and
    /// 0.25 make no clear difference; with 0.25, 0.28 instead of 0.20 % of the frames are dropped over recordings.
    pub min_room: f64,

    /// The number of samples without which a measurement is noise: gaps between packets for a sample of the capacity, frames of a queue that
    /// builds up, samples that the estimate averages. At least 2. Guess: small frames have few packets. Sweep: behind `bucket`, 3, 4 and 6
    /// have 85, 87 and 94 % of the frames in time; other figures do not differ clearly.
    pub min_samples: u32,
    /// Queueing delay that is ignored, because interrupts and single packets of cross traffic cause as much. Above 0, below a frame interval.
    /// Source: measured. Sweep: 2 ms makes no difference; 5 ms lowers Jain's index of two sessions from 0.98 to 0.84, of unequal round trips
    /// from 0.99 to 0.89.
    pub queue_noise: Span,
    /// The time over which the base delay and the highest capacity are remembered. Longer than cross traffic lets a queue stand. Source:
    /// LEDBAT takes minima of one minute each (RFC 6817, `BASE_HISTORY`); two are kept here. Not swept.
    pub memory: Span,
    /// The longest time between two reports that counts as their interval: a longer one is an outage. Source: the longest of libwebrtc. Not
    /// swept.
    pub max_report_interval: Span,
    /// The frame interval before two frames have been sent. Source: the usual rate, 60 frames a second; it is measured from then on. Not
    /// swept.
    pub initial_frame_interval: Span,
    /// The shortest frame interval. Source: no display shows more than 500 frames a second. Not swept.
    pub min_frame_interval: Span,

    /// The time after an overload in which the limit that it sets doubles. Above 0. Source: measured. Sweep: with 0.75 s, 79 instead of 87 %
    /// of the frames are in time behind `bucket`; with 3 s, the utility over recordings falls from 0.671 to 0.663.
    pub recovery_time: Span,

    /// The share of lost bytes at which the limit of a known policer is exceeded. From 0 to [`Parameters::many_lost`]. Source: the loss below
    /// which Google Congestion Control raises the rate (draft-ietf-rmcat-gcc-02, section 6). Not swept.
    pub low_loss: f64,

    /// Frames of evidence, less those of counter-evidence, after which a queue is that of cross traffic, or a path no longer marks. At
    /// least one. Guess: a third of a second at 60 frames a second. Sweep: with 10, 81 instead of 87 % of the frames are in time behind `bucket`; 40
    /// lowers Jain's index of two sessions from 0.98 to 0.93, of unequal round trips from 0.99 to 0.92.
    pub evidence_frames: u32,
    /// Frames of evidence for packets of cross traffic between ours on a path without a queue; each is weaker evidence. At least 1. Guess: two
    /// seconds at 60 frames a second. Sweep (two seeds): 60 and 240 make no difference.
    pub interleaved_frames: u32,
    /// The share of a frame's gaps that show the highest recent capacity while cross traffic lies in the others. From 0 to 1. Source:
    /// measured. Sweep: of 0.01, 0.25 and 0.4 over `plans/vrcc-5g.toml`, only 0.4 takes no varying path for cross traffic; sessions beside
    /// each other are noticed with all of them.
    pub interleaved_share: f64,
    /// The number of control intervals after which a queue that stands, although we back off, is that of loss-based flows. At least 1. Source:
    /// Copa's five round trips (Arun and Balakrishnan, NSDI 2018, section 2.2). Sweep (two seeds): 3 makes no clear difference; with 10, a
    /// session beside BBR and 100 ms of queue gets 10 instead of 19 Mb/s.
    pub loss_based_intervals: u32,
    /// The time for which the queue is empty, beyond two round trips, once loss-based flows have left. Source: BBR empties it for 200 ms to
    /// measure the round trip, and has filled it again a round trip later (draft-ietf-ccwg-bbr-02, section 5.3.4.4). Not swept.
    pub drained_for: Span,

    /// The shortest control interval: the time between two decreases, and the longest step of an increase. Above a frame interval. Source:
    /// NADA's `DELTA` (RFC 8698). Not swept.
    pub control_interval: Span,
    /// The standing queue above which `Sharing` yields. Above `queue_noise`. Source: measured. Sweep (four seeds): 10 ms
    /// makes no clear difference.
    pub target_queue: Span,
    /// The additive increase in a second, in bit/s. Above 0. Guess: what two flows at 40 Mb/s give up together comes back within a second.
    /// Sweep (four seeds, with a `decrease` of 0.25): 6 Mb/s lowers Jain's index of three sessions from 0.96 to 0.91.
    pub additive_increase: Bitrate,
    /// The part of the rate that a standing queue at the target takes; a longer queue takes more in proportion. From 0 to `max_decrease`.
    /// Source: CUBIC keeps 0.7 of its window (RFC 9438, section 4.6). Sweep: with 0.25, Jain's index of five sessions is 0.93 instead of 0.98,
    /// of unequal round trips 0.93 instead of 0.97; with 0.35, two sessions get 4 % less.
    pub decrease: f64,
    /// Frames sent after a decrease before the next one: what the first has done shows in their queue. At least 1. Source: measured. Sweep: with
    /// 4, two sessions get 8 % less, because most queues are answered twice.
    pub settling_frames: u32,
    /// The largest part of the rate that a standing queue takes. From `decrease` to 1. Source: TCP halves its window (RFC 5681, equation 4).
    /// Not swept.
    pub max_decrease: f64,

    /// Weight of a round's share of marked packets. From 0 to 1. Source: `g` of RFC 8257, section 3.3. Not swept.
    pub mark_gain: f64,
    /// The share of marked packets before the first round. From 0 to 1. Guess: RFC 8257 begins with 1 because it does not know the rate; here
    /// dispersion has shown the capacity. Sweep (two seeds): 1 makes no clear difference.
    pub initial_marked_share: f64,
    /// The smallest part of the rate that a marked round takes. From 0 to `max_decrease`. Source: measured. Sweep: of 0, 0.02, 0.04 and 0.06
    /// over `plans/default-marks.toml`, 0.06 (that is, 1/16) has the shortest queues, at 1 % less rate.
    pub min_mark_decrease: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            target_share: 0.94,
            burst_gain: 2.0,
            probe_gain: 1.25,
            min_room: 0.1,
            min_samples: 4,
            queue_noise: Span::from_millis(3),
            memory: Span::from_secs(60),
            max_report_interval: Span::from_millis(250),
            initial_frame_interval: Span::from_micros(16_667),
            min_frame_interval: Span::from_millis(2),
            recovery_time: Span::from_millis(1_500),
            low_loss: 0.02,
            evidence_frames: 20,
            interleaved_frames: 120,
            interleaved_share: 0.4,
            loss_based_intervals: 5,
            drained_for: Span::from_millis(200),
            control_interval: Span::from_millis(100),
            target_queue: Span::from_millis(8),
            additive_increase: Bitrate::from_mbps(4),
            decrease: 0.3,
            settling_frames: 8,
            max_decrease: 0.5,
            mark_gain: 1.0 / 16.0,
            initial_marked_share: 0.25,
            min_mark_decrease: 1.0 / 16.0,
        }
    }
}

impl Parameters {
    /// The time between two decreases on a path with this round trip: the queue shows what the first has done.
    pub(super) fn control_interval_for(&self, round_trip: Span) -> Span {
        round_trip.max(self.control_interval)
    }

    /// A rate below this share of another differs from it by more than noise.
    pub(super) fn noise_floor(&self) -> f64 {
        1.0 / self.probe_gain
    }

    /// The share of lost packets that is not random: a full queue or a policer has dropped them.
    pub(super) fn many_lost(&self) -> f64 {
        1.0 - self.noise_floor()
    }

    /// Arrivals that are spread by more than this, in relation to departures, show the bottleneck's own rate. It is halfway between packets
    /// that arrive as they were sent and packets that were sent one step faster.
    pub(super) fn dispersed_ratio(&self) -> f64 {
        self.probe_gain.sqrt()
    }

    /// The share of time in queued frames, without a packet of ours, from which on a queue belongs to others: what a frame that takes its
    /// whole share leaves of the interval.
    pub(super) fn foreign_share(&self) -> f64 {
        1.0 - self.target_share
    }

    /// Half of [`Parameters::foreign_share`], for hysteresis: below it the queue is our own again.
    pub(super) fn own_share(&self) -> f64 {
        self.foreign_share() / 2.0
    }

    /// Gaps from which on only a frame's second half counts: that half is then twice the smallest sample.
    pub(super) fn halved_gaps(&self) -> u32 {
        4 * self.min_samples
    }

    /// Frames too small for a sample after which the estimate grows without one: twice as many as a measurement needs.
    pub(super) fn unsampled_frames(&self) -> u32 {
        2 * self.min_samples
    }

    /// The share of a rate that was too much which is tried again after `age`: the target's share at first, twice as much after `doubling`. As
    /// the window of CUBIC, it grows with the cube of time: slowly near that rate, quickly where the path has changed.
    pub(super) fn regrown_share(&self, age: Span, doubling: Span) -> f64 {
        let age = age.as_secs_f64() / doubling.as_secs_f64();
        // A factor of 2^30 is not a limit any more.
        self.target_share * age.powi(3).min(30.0).exp2()
    }

    /// Weight of a sample of the capacity: the estimate averages as many samples as a measurement needs.
    pub(super) fn capacity_gain(&self) -> f64 {
        1.0 / f64::from(self.min_samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_in_their_documented_ranges() {
        let parameters = Parameters::default();
        let shares = [
            parameters.target_share,
            parameters.min_room,
            parameters.interleaved_share,
            parameters.decrease,
            parameters.max_decrease,
            parameters.mark_gain,
            parameters.initial_marked_share,
            parameters.min_mark_decrease,
            parameters.low_loss,
        ];
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{parameters:?}");
        assert!(parameters.burst_gain > parameters.probe_gain && parameters.probe_gain > 1.0);
        assert!(
            parameters.queue_noise < parameters.target_queue && parameters.target_queue < parameters.control_interval
        );
        assert!(
            parameters.decrease < parameters.max_decrease && parameters.min_mark_decrease < parameters.max_decrease
        );
        assert!(parameters.low_loss < parameters.many_lost() && parameters.settling_frames >= 1);
        assert!(parameters.min_samples >= 2 && parameters.evidence_frames >= 1 && parameters.interleaved_frames >= 1);
    }
}
