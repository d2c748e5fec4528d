//! Who watches, from where and with what in the hands.

use std::collections::BTreeMap;

use nearlight_scene::predict::Predictor;
use nearlight_scene::{Viewer, ViewerDisplay, ViewerInput};
use nearlight_units::{Span, Time};
use nearlight_wire::{Devices, DisplayKind, HandJoints, Pose, View};

/// A viewer as its newest input has it.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewerState {
    pub viewer: Viewer,
    /// It acted last, or nobody has acted yet and it has been here longest: a picture for all may be drawn for its views.
    pub drives: bool,
    pub display: DisplayKind,
    pub head: Pose,
    /// What to draw for it now: a headset's views as they will be at `display_at`, a screen's as they are. Empty before its first input.
    pub views: Vec<View>,
    /// When a picture that is submitted now is displayed; an estimate before pictures were displayed.
    pub display_at: Time,
    pub devices: Devices,
    /// The joints of the left and of the right hand, where they are tracked.
    pub hands: [Option<HandJoints>; 2],
}

#[derive(Debug, Default)]
struct Record {
    display: Option<(DisplayKind, Span)>,
    predictor: Predictor,
    head: Pose,
    devices: Devices,
    hands: [Option<HandJoints>; 2],
    /// Counts all viewers' acts; 0: never.
    acted: u64,
    heard: bool,
}

/// Everybody who watches.
#[derive(Debug, Default)]
pub(crate) struct Viewers {
    records: BTreeMap<Viewer, Record>,
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

    /// Answers whether it is the viewer's first.
    pub(crate) fn on_input(&mut self, viewer: Viewer, input: &ViewerInput) -> bool {
        let record = self.records.entry(viewer).or_default();
        record.head = input.head;
        record.devices.clone_from(&input.devices);
        record.hands.clone_from(&input.hands);
        if !input.events.is_empty() {
            self.acts += 1;
            record.acted = self.acts;
        }
        !std::mem::replace(&mut record.heard, true)
    }

    pub(crate) fn contains(&self, viewer: Viewer) -> bool {
        self.records.contains_key(&viewer)
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = Viewer> {
        self.records.keys().copied()
    }

    /// Who acted last; of those who never did, who came first.
    pub(crate) fn driver(&self) -> Option<Viewer> {
        let acted = self.records.iter().max_by_key(|(viewer, record)| (record.acted, std::cmp::Reverse(**viewer)));
        acted.map(|(viewer, _)| *viewer)
    }

    /// In the order of their coming.
    pub(crate) fn states(&self, now: Time, unknown: Span) -> Vec<ViewerState> {
        let driver = self.driver();
        let state = |(viewer, record): (&Viewer, &Record)| {
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
