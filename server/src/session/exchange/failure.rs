//! The end of a session's frames.

use std::sync::Mutex;

use nearlight_units::lock;
use tokio::sync::Notify;

/// Why no more frames come. It does not go through the queue of frames, which may be full: the threads that report a failure serve other
/// clients too, and must not wait for this one.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    reason: Mutex<Option<String>>,
    is_reported: Notify,
}

impl Failure {
    /// Reports why no more frames come. The first reason counts.
    pub(crate) fn report(&self, reason: impl Into<String>) {
        lock(&self.reason).get_or_insert_with(|| reason.into());
        self.is_reported.notify_one();
    }

    /// Waits until a failure is reported.
    pub(crate) async fn wait(&self) -> String {
        loop {
            if let Some(reason) = &*lock(&self.reason) {
                return reason.clone();
            }
            self.is_reported.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_is_reported_without_waiting_for_the_session() {
        let failure = Failure::default();
        for reason in ["the encoder failed", "there are no more pictures"] {
            failure.report(reason);
        }
        for _ in 0..2 {
            assert_eq!(failure.wait().await, "the encoder failed", "however often the session asks");
        }
    }
}
