//! The state of each viewer: its views, pose and devices.

use std::collections::BTreeMap;

use nearlight_scene::predict::Predictor;
use nearlight_scene::{Viewer, ViewerDisplay, ViewerInput};
use nearlight_units::{Span, Time};
use nearlight_wire::{Devices, DisplayKind, HandJoints, Pose, View};

/// The state of a viewer according to its newest input.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewerState {
    pub viewer: Viewer,
    /// Whether a picture for all viewers should be drawn for its views: it acted last, or nobody has acted yet and it connected first.
    pub drives: bool,
    pub display: DisplayKind,
    pub head: Pose,
    /// The views to draw now: for a headset those predicted for `display_at`, for a screen the current ones. Empty before its first input.
    pub views: Vec<View>,
    /// The time when a picture that is submitted now will be displayed. It is a default estimate until pictures have been displayed.
    pub display_at: Time,
    pub devices: Devices,
    /// The joints of the left and of the right hand, where they are tracked.
    pub hands: [Option<HandJoints>; 2],
}

#[derive(Debug, Default)]
struct ViewerRecord {
    display: Option<(DisplayKind, Span)>,
    predictor: Predictor,
    head: Pose,
    devices: Devices,
    hands: [Option<HandJoints>; 2],
    /// Sequence number of its last act among all viewers' acts; 0 when it has never acted.
    last_act: u64,
    has_sent_input: bool,
}

/// All connected viewers.
#[derive(Debug, Default)]
pub(crate) struct Viewers {
    records: BTreeMap<Viewer, ViewerRecord>,
    acts: u64,
}

impl Viewers {
    pub(crate) fn on_joined(&mut self, viewer: Viewer) {
        self.records.entry(viewer).or_default();
    }

    pub(crate) fn on_left(&mut self, viewer: Viewer) {
        self.records.remove(&viewer);
    }

    pub(crate) fn on_display(&mut self, viewer: Viewer, display: &ViewerDisplay<'_>) {
        let record = self.records.entry(viewer).or_default();
        record.predictor.on_sample(display.received_at, display.views);
        record.display = Some((display.kind, display.capture_to_display));
    }

    /// Takes an input of a viewer. Returns whether it is the first one.
    pub(crate) fn on_input(&mut self, viewer: Viewer, input: &ViewerInput) -> bool {
        let record = self.records.entry(viewer).or_default();
        record.head = input.head;
        record.devices.clone_from(&input.devices);
        record.hands.clone_from(&input.hands);
        if !input.events.is_empty() {
            self.acts += 1;
            record.last_act = self.acts;
        }
        !std::mem::replace(&mut record.has_sent_input, true)
    }

    pub(crate) fn contains(&self, viewer: Viewer) -> bool {
        self.records.contains_key(&viewer)
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = Viewer> {
        self.records.keys().copied()
    }

    /// Returns the viewer that acted last; when none has acted, the one that connected first.
    pub(crate) fn driver(&self) -> Option<Viewer> {
        let last = self.records.iter().max_by_key(|(viewer, record)| (record.last_act, std::cmp::Reverse(**viewer)));
        last.map(|(viewer, _)| *viewer)
    }

    /// Returns the states of all viewers in the order in which they connected.
    pub(crate) fn states(&self, now: Time, unknown: Span) -> Vec<ViewerState> {
        let driver = self.driver();
        let state = |(viewer, record): (&Viewer, &ViewerRecord)| {
            let (display, to_display) = record.display.unwrap_or((DisplayKind::Screen, unknown));
            let display_at = now + to_display;
            ViewerState {
                viewer: *viewer,
                drives: driver == Some(*viewer),
                display,
                head: record.head,
                views: record.predictor.views_for(display, display_at),
                display_at,
                devices: record.devices.clone(),
                hands: record.hands.clone(),
            }
        };
        self.records.iter().map(state).collect()
    }
}

#[cfg(test)]
mod tests {
    use nearlight_wire::{Fov, InputEvent};

    use super::*;

    #[test]
    fn a_headset_s_views_are_of_the_moment_of_display_and_who_acts_drives() {
        let mut viewers = Viewers::default();
        let view =
            |x| View { pose: Pose { position: [x, 1.6, 0.0], ..Pose::default() }, fov: Fov::symmetric(1.0, 1.0) };
        for viewer in [Viewer(3), Viewer(5)] {
            viewers.on_joined(viewer);
        }
        let (kind, capture_to_display) = (DisplayKind::Headset, Span::from_millis(30));
        for (millis, x) in [(0, 0.0), (10, 0.01)] {
            let (views, received_at) = ([view(x), view(x)], Time::from_millis(millis));
            viewers.on_display(Viewer(5), &ViewerDisplay { kind, views: &views, received_at, capture_to_display });
        }
        let states = viewers.states(Time::from_millis(10), Span::from_millis(50));
        let [screen, headset] = states.as_slice() else { panic!("{states:?}") };
        assert_eq!((screen.viewer, screen.views.len(), screen.display_at), (Viewer(3), 0, Time::from_millis(60)));
        assert_eq!((screen.drives, headset.drives, headset.display_at), (true, false, Time::from_millis(40)));
        assert!(headset.views.iter().all(|view| (view.pose.position[0] - 0.04).abs() < 1e-4), "{headset:?}");
        let events = vec![InputEvent::Text("x".into())];
        assert!(viewers.on_input(Viewer(5), &ViewerInput { events, ..ViewerInput::default() }), "its first");
        assert!(!viewers.on_input(Viewer(5), &ViewerInput::default()), "not its first");
        assert_eq!(viewers.driver(), Some(Viewer(5)));
        viewers.on_left(Viewer(5));
        assert_eq!(viewers.driver(), Some(Viewer(3)));
    }
}
