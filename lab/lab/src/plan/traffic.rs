//! Cells of the traffic model: headsets of the render-streaming study in a Wi-Fi cell, without our sessions.

use nearlight_units::{Bitrate, Span};
use nearlight_wifi::traffic::{Batches, PeriodicConfig, VideoConfig};
use nearlight_wifi::{Category, CellSpec, ConfigError, Scenario};
use toml::Spanned;

use super::TrafficModel;
use super::file::TrafficPart;
use super::phases::Phases;
use super::values::{Length, Rate};

/// Default video of a headset.
const DEFAULT_VIDEO: VideoConfig = VideoConfig::study(Bitrate::from_mbps(50));

/// A value that cannot be used: its position in the file, and an error message.
pub(super) struct InvalidValue {
    pub(super) at: usize,
    pub(super) what: String,
}

/// Replaces a key's value by its default.
type Correction = fn(&mut Scenario, &mut VideoConfig);

fn refused(key: &str, at: usize, what: impl std::fmt::Display) -> InvalidValue {
    InvalidValue { at, what: format!("`wifi.{key}`: {what}") }
}

fn category(key: &str, written: Option<&Spanned<String>>) -> Result<Category, InvalidValue> {
    let Some(written) = written else { return Ok(Category::BestEffort) };
    written.as_ref().parse().map_err(|error| refused(key, written.span().start, error))
}

/// Returns the value and its position; `usual` if it is missing.
fn or<T: Copy>(written: Option<&Spanned<T>>, usual: T) -> T {
    written.map_or(usual, |written| *written.as_ref())
}

impl TrafficPart {
    /// Returns the scenario of one seed: `runs` runs, each as long as the case's duration.
    pub(super) fn traffic(
        &self,
        cell: &Spanned<String>,
        phases: Phases,
        (duration, warm_up): (Span, Span),
    ) -> Result<TrafficModel, InvalidValue> {
        let spec: CellSpec = cell.as_ref().parse().map_err(|error| refused("cell", cell.span().start, error))?;
        let headsets = or(self.headsets.as_ref(), 1);
        if headsets == 0 {
            let at = self.headsets.as_ref().map_or(0, |written| written.span().start);
            return Err(refused("headsets", at, "a cell without headsets has nothing to show; write 1 or more"));
        }
        let video = VideoConfig {
            rate: or(self.rate.as_ref(), Rate(DEFAULT_VIDEO.rate)).0,
            frame_rate: or(self.fps.as_ref(), DEFAULT_VIDEO.frame_rate),
            interval: or(self.tau.as_ref(), Length(DEFAULT_VIDEO.interval)).0,
            batches: self.batches.as_ref().map_or(DEFAULT_VIDEO.batches, |most| Batches::UpTo(*most.as_ref())),
            ..DEFAULT_VIDEO
        };
        let poses = or(self.poses.as_ref(), 240);
        let scenario = Scenario {
            headsets: usize::from(headsets),
            poses: (poses > 0).then(|| PeriodicConfig::poses_at(poses)),
            audio: self.audio.unwrap_or(false),
            video_category: category("video_as", self.video_as.as_ref())?,
            pose_category: category("poses_as", self.poses_as.as_ref())?,
            phases: phases.into(),
            duration: duration - warm_up,
            warm_up,
            runs: or(self.runs.as_ref(), 1),
            ..Scenario::study(spec.config(usize::from(headsets)), video)
        };
        scenario.check().map_err(|error| self.error_at_cause(cell, &scenario, &error))?;
        Ok(TrafficModel { cell: spec.to_string(), scenario })
    }

    /// Finds the key whose default would remove the error, otherwise the cell itself.
    fn error_at_cause(&self, cell: &Spanned<String>, scenario: &Scenario, error: &ConfigError) -> InvalidValue {
        fn at<T>(written: Option<&Spanned<T>>) -> Option<usize> {
            written.map(|written| written.span().start)
        }
        let cures: [(&str, Option<usize>, Correction); 7] = [
            ("rate", at(self.rate.as_ref()), |_, video| video.rate = DEFAULT_VIDEO.rate),
            ("fps", at(self.fps.as_ref()), |_, video| video.frame_rate = DEFAULT_VIDEO.frame_rate),
            ("tau", at(self.tau.as_ref()), |_, video| video.interval = DEFAULT_VIDEO.interval),
            ("batches", at(self.batches.as_ref()), |_, video| video.batches = DEFAULT_VIDEO.batches),
            ("poses", at(self.poses.as_ref()), |scenario, _| scenario.poses = None),
            ("runs", at(self.runs.as_ref()), |scenario, _| scenario.runs = 1),
            ("headsets", at(self.headsets.as_ref()), |scenario, _| {
                scenario.headsets = 1;
                scenario.cell.stations.truncate(1);
            }),
        ];
        let cured = |cure: Correction| {
            let (mut scenario, mut video) = (scenario.clone(), scenario.video.unwrap_or(DEFAULT_VIDEO));
            cure(&mut scenario, &mut video);
            scenario.video = Some(video);
            scenario.check().is_ok()
        };
        let found = cures.into_iter().find_map(|(key, at, cure)| at.filter(|_| cured(cure)).map(|at| (key, at)));
        let (key, at) = found.unwrap_or(("cell", cell.span().start));
        refused(key, at, error)
    }
}
