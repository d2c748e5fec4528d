//! Frames that the studio skipped, on their way to the session.

use std::collections::VecDeque;
use std::sync::Mutex;

use nearlight_session::SkipReason;
use nearlight_units::lock;
use tokio::sync::Notify;

/// Maximum number of skipped frames that the session has not been informed of: about a second's worth at the highest frame rates. A session
/// that is blocked for longer is never informed of the rest.
const MAX_SKIPPED: usize = 128;

/// The reasons of skipped frames that the session has not been informed of.
#[derive(Debug, Default)]
pub(crate) struct SkippedFrames {
    /// At most [`MAX_SKIPPED`] reasons.
    reasons: Mutex<VecDeque<SkipReason>>,
    /// Wakes the session after a skipped frame: the next one may depend on it.
    has_skipped: Notify,
}

impl SkippedFrames {
    /// Records that the studio skipped a frame.
    pub(crate) fn on_skipped(&self, reason: SkipReason) {
        let mut reasons = lock(&self.reasons);
        if reasons.len() < MAX_SKIPPED {
            reasons.push_back(reason);
        }
        drop(reasons);
        self.has_skipped.notify_one();
    }

    /// Waits until a frame has been skipped since the last call.
    pub(crate) async fn wait(&self) {
        self.has_skipped.notified().await;
    }

    /// Returns the reason of the next skipped frame that the session has not been informed of.
    pub(crate) fn poll(&self) -> Option<SkipReason> {
        lock(&self.reasons).pop_front()
    }
}
