//! Notifications for a studio whose source paces itself.

use std::sync::OnceLock;
use std::sync::mpsc::SyncSender;

use crate::media::fan_out::FanOutEvent;

/// Notifies the studio at once of an input or a message, if it has asked for that.
#[derive(Debug, Default)]
pub(super) struct StudioNotifier {
    /// Bounded by the studio, which knows how many notifications may wait in it.
    events: OnceLock<SyncSender<FanOutEvent>>,
}

impl StudioNotifier {
    pub(super) fn set_events(&self, events: SyncSender<FanOutEvent>) {
        let _ = self.events.set(events);
    }

    /// Notifies the studio that a queue is no longer empty. There is therefore at most one notification of each queue between two drains.
    pub(super) fn notify(&self) {
        if let Some(events) = self.events.get() {
            // A studio that has ended has reported why.
            let _ = events.send(FanOutEvent::Input);
        }
    }
}
