//! What one client's session shares with the threads that draw, encode and mix for it.
//!
//! [`SessionExchange`] holds the parts side by side, each with a lock of its own that is held for a few assignments only, so that neither
//! side waits for the other's work. Every queue in them has a bound, which is given where it is filled.

mod application;
mod failure;
mod input;
mod notifier;
mod send_progress;
mod skipped;
mod sound;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use nearlight_codec::{CodecError, CodecKind, Size};
use nearlight_rooms::Role;
use nearlight_scene::{Output, Viewer};
use nearlight_session::SoundPacket;
use tokio::sync::mpsc;

pub(crate) use application::ToApplication;
pub(crate) use stream::{Delivery, SharedFrame, StreamTarget};

use application::ApplicationExchange;
use failure::Failure;
use input::InputQueue;
use notifier::StudioNotifier;
use skipped::SkippedFrames;
use sound::SoundQueue;
use stream::StreamExchange;

use crate::media::fan_out::FanOutEvent;

/// What one client's session and the studio share.
#[derive(Debug)]
pub(crate) struct SessionExchange {
    pub(crate) viewer: Viewer,
    pub(crate) codec: CodecKind,
    /// Whether the client crops the rows below its pictures that hold the marker.
    pub(crate) marker: bool,
    role: Role,
    /// Targets for the encoder, and its frames for the session.
    pub(crate) stream: StreamExchange,
    /// Why no more frames come.
    pub(crate) failure: Failure,
    /// Frames that were not encoded.
    pub(crate) skipped: SkippedFrames,
    /// The user's input for the application.
    pub(crate) input: InputQueue,
    /// Messages and outputs, to and from the application.
    pub(crate) application: ApplicationExchange,
    /// Packets of sound for the session.
    pub(crate) sound: SoundQueue,
    notifier: Arc<StudioNotifier>,
    left: AtomicBool,
}

impl SessionExchange {
    /// Creates the exchange of a client. The session keeps the receiving ends of the two channels, which are bounded.
    pub(crate) fn new(
        viewer: Viewer,
        codec: CodecKind,
        target: StreamTarget,
        deliveries: mpsc::Sender<Delivery>,
        outputs: mpsc::Sender<Output>,
    ) -> Self {
        let notifier = Arc::new(StudioNotifier::default());
        Self {
            viewer,
            codec,
            marker: false,
            role: Role::default(),
            stream: StreamExchange::new(target, deliveries),
            failure: Failure::default(),
            skipped: SkippedFrames::default(),
            input: InputQueue::new(Arc::clone(&notifier)),
            application: ApplicationExchange::new(Arc::clone(&notifier), outputs),
            sound: SoundQueue::default(),
            notifier,
            left: AtomicBool::new(false),
        }
    }

    /// Sets the size and the number of views of pictures that the session has announced to its client.
    pub(crate) fn with_stream(self, size: Size, views: u8) -> Self {
        self.stream.set_announced(size, views);
        self
    }

    /// Sets whether the client crops the rows below its pictures that hold the marker.
    pub(crate) fn with_marker(self, marker: bool) -> Self {
        Self { marker, ..self }
    }

    /// Sets the role that the client's token stands for.
    pub(crate) fn with_role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// Sets the channel for packets of sound, which is bounded.
    pub(crate) fn with_sounds(self, packets: mpsc::Sender<SoundPacket>) -> Self {
        Self { sound: SoundQueue::new(packets), ..self }
    }

    /// Sets the channel on which the studio is notified of inputs and messages as they arrive.
    pub(crate) fn set_events(&self, events: SyncSender<FanOutEvent>) {
        self.notifier.set_events(events);
    }

    /// Returns whether the application takes anything from this client.
    pub(crate) const fn acts(&self) -> bool {
        self.role.acts()
    }

    /// Logs that the encoder has failed, and tells the session that no more frames come.
    pub(crate) fn on_encoder_failed(&self, error: &CodecError) {
        tracing::error!(viewer = self.viewer.0, %error, "the encoder failed");
        self.failure.report(error.to_string());
    }

    /// Waits until the session has taken every frame and passed what may leave at once to its transport, at most for `limit`.
    pub(crate) fn wait_until_sent(&self, limit: Duration) {
        self.stream.wait_until_sent(limit, || self.has_left());
    }

    /// Records that the session has ended. Nobody waits for its frames any more.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
        self.stream.on_left();
    }

    /// Returns whether the session has ended.
    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }
}
