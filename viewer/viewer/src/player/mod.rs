//! The part that all viewers share: connecting and reconnecting, the receiver, the decoder and the summary. [`crate::Viewer`] wraps it for
//! programs that poll. A driver with its own display implements [`Screen`] and calls [`Player::run`].

mod decoder;
mod drain;
mod opening;
mod plan;
mod session;
mod sound;
mod tally;
mod view;
mod writer;

use std::sync::Arc;

use nearlight_codec::{CodecError, PictureView};
use nearlight_events::{RecoveryKind, Summary};
use nearlight_net::Clock;
use nearlight_session::{ClockEstimate, DeviceInput, Presence, ReceiverStatistics};
use nearlight_units::{Bitrate, FrameId, RemoteTime, Span, Time};
use nearlight_wire::{
    CursorShape, DevicesDescription, DisplayKind, FrameHeader, Haptics, Pose, StreamDescription, Welcome,
    marker::Marker,
};
use tokio::sync::{mpsc, watch};

use crate::record::Recorder;
use crate::{ViewOptions, ViewerError};
use opening::{OpenError, open};
use plan::PathPlan;
use session::Session;
use tally::Tally;

pub use view::point_at_offset;

/// Delay before the first attempt to reconnect; it doubles with each further one. Guess: about as long as a user notices.
const MIN_RECONNECT_DELAY: Span = Span::from_millis(250);
/// Longest delay between two attempts to reconnect. Guess: a user waits a few seconds for a server that comes back.
const MAX_RECONNECT_DELAY: Span = Span::from_secs(5);
/// Maximum number of inputs queued for the player: a quarter of a second of mouse movement at 240 reports per second. Movements that do not
/// fit are superseded anyway.
const MAX_QUEUED_INPUTS: usize = 64;
/// Interval between two reports of the status.
pub(crate) const STATUS_INTERVAL: Span = Span::from_millis(500);

/// An input of the user, and its time.
#[derive(Clone, Debug)]
pub enum UserInput {
    /// The head's pose, from which the poses of the eyes and their fields of view are derived.
    Moved {
        at: Time,
        head: Pose,
    },
    /// Poses of head, eyes and controllers as a headset's driver reports them.
    Present {
        at: Time,
        presence: Presence,
    },
    Device {
        at: Time,
        input: DeviceInput,
    },
    /// Inputs of one event, such as a key and what it types, which must travel together.
    Devices {
        at: Time,
        inputs: Vec<DeviceInput>,
    },
    /// The kind of display or its refresh rate has changed.
    Display {
        display: DisplayKind,
        display_hz: u16,
    },
    /// A text that the user pasted.
    Clipboard(String),
}

/// The server's and the application's output other than pictures and sound.
#[derive(Clone, Debug, PartialEq)]
pub enum UserOutput {
    /// A server has welcomed the viewer, initially or after a loss of the connection.
    Welcome(Box<Welcome>),
    /// The stream's coding has changed.
    Stream(StreamDescription),
    Haptics(Haptics),
    /// A text for the clipboard.
    Clipboard(String),
}

/// Identifies a frame across sessions, whose frame ids all begin at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub epoch: u32,
    pub frame: FrameId,
}

/// A report of the decoder or the display on a frame.
#[derive(Debug)]
pub enum PictureReport {
    Decoded {
        ticket: Ticket,
        at: Time,
        outcome: Result<(), CodecError>,
    },
    /// The picture was displayed. `marker` was read from the decoded pixels below it.
    Displayed {
        ticket: Ticket,
        at: Time,
        marker: Option<Marker>,
    },
}

/// A picture at the decoder's output.
#[derive(Debug)]
pub struct Decoded<'a> {
    pub ticket: Ticket,
    pub at: Time,
    /// The picture in the decoder's memory, without the rows that hold the marker.
    pub picture: PictureView<'a>,
    pub marker: Option<Marker>,
    /// The frame's header, with times on the server's clock.
    pub header: &'a FrameHeader<RemoteTime>,
    /// Converts the header's times to the local clock; `None` until the clocks are synchronised.
    pub clock: Option<ClockEstimate>,
    /// Whether this is a key frame.
    pub key: bool,
    /// Whether a frame that this one depends on was lost.
    pub damaged: bool,
}

impl Decoded<'_> {
    /// Returns what a [`DisplayQueue`](nearlight_session::DisplayQueue) needs: the begin of the capture on the server's clock, and the
    /// deadline for display on the local clock.
    #[must_use]
    pub fn queue_times(&self) -> (RemoteTime, Option<Time>) {
        let deadline = self.clock.map(|clock| clock.to_client(self.header.deadline));
        (self.header.render_started_at, deadline)
    }
}

/// Receives decoded pictures on the decoder's thread.
pub trait Screen: Send + Sync {
    /// Accepts a picture to display. The screen reports [`PictureReport::Displayed`], now or later.
    fn on_picture(&self, decoded: &Decoded<'_>);

    /// Returns whether the screen also wants pictures that newer ones have overtaken.
    fn takes_every_picture(&self) -> bool {
        false
    }
}

/// The player's status, for a title bar.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    Connecting { last_error: Option<String> },
    Watching(Box<WatchStatus>),
}

/// The status of a running session.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchStatus {
    /// Pictures displayed per second since the previous status.
    pub fps: f64,
    /// Median motion-to-photon time of the run so far.
    pub motion_to_photon: Option<Span>,
    pub received: Bitrate,
    pub size: (u16, u16),
    pub losses: LossSummary,
    /// Statistics of the current connection.
    pub statistics: ReceiverStatistics,
    pub clock: Option<ClockEstimate>,
}

/// Losses and recoveries of the current connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossSummary {
    /// Redundant bytes as a fraction of all media bytes, 0 to 1.
    pub redundancy: f64,
    /// Number of frames completed by repair or retransmitted symbols.
    pub recovered: u64,
    /// Number of frames that were never completed.
    pub lost: u64,
    /// How the picture last recovered from a loss; `None` before the first recovery.
    pub recovered_by: Option<RecoveryKind>,
}

impl LossSummary {
    pub(crate) fn new(statistics: &ReceiverStatistics) -> Self {
        let counts = statistics.recovery;
        Self {
            redundancy: counts.redundant_bytes as f64 / counts.media_bytes.max(1) as f64,
            recovered: counts.by_repair + counts.by_late_repair + counts.by_retransmission,
            lost: statistics.frames.lost,
            recovered_by: statistics.recovered_by.map(|(kind, _)| kind),
        }
    }
}

/// The driver's ends of the channels.
pub struct Handles {
    pub inputs: mpsc::Sender<UserInput>,
    pub picture_reports: mpsc::UnboundedSender<PictureReport>,
    /// Set to true to end the run cleanly.
    pub stop: watch::Sender<bool>,
    /// The user's initial pose as set by the server; `None` before the first welcome.
    pub start: watch::Receiver<Option<Pose>>,
    /// The pointer's mode as requested by the application.
    pub pointer: watch::Receiver<PointerRequest>,
    /// The gamepads and controllers that the user has.
    pub devices: watch::Sender<DevicesDescription>,
}

/// The pointer's mode as requested by the application.
#[derive(Clone, Debug, PartialEq)]
pub struct PointerRequest {
    pub cursor: CursorShape,
    /// Whether a click captures the pointer.
    pub captured: bool,
}

impl Default for PointerRequest {
    fn default() -> Self {
        Self { cursor: CursorShape::Named("default".into()), captured: true }
    }
}

/// A signal to end the run.
#[derive(Clone)]
struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    /// Resolves once the end was requested, or never.
    async fn wait(&mut self) {
        if self.0.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The player's ends of the channels.
pub struct Ports {
    inputs: mpsc::Receiver<UserInput>,
    picture_reports: mpsc::UnboundedReceiver<PictureReport>,
    report_sender: mpsc::UnboundedSender<PictureReport>,
    stop: StopSignal,
    start: watch::Sender<Option<Pose>>,
    pointer: watch::Sender<PointerRequest>,
    devices: watch::Receiver<DevicesDescription>,
}

/// Creates the channels between a player and its driver. The channel of reports needs no bound, because the frames in the decoder bound the
/// reports in flight.
pub fn channels() -> (Handles, Ports) {
    let (inputs, input_port) = mpsc::channel(MAX_QUEUED_INPUTS);
    #[expect(
        clippy::disallowed_methods,
        reason = "at most two reports for each frame, and the decoder gets the next ones only when the player has handled its reports"
    )]
    let (picture_reports, report_port) = mpsc::unbounded_channel();
    let (stop, stop_port) = watch::channel(false);
    let (start_port, start) = watch::channel(None);
    let (pointer_port, pointer) = watch::channel(PointerRequest::default());
    let (devices, devices_port) = watch::channel(DevicesDescription::default());
    let report_sender = picture_reports.clone();
    let ports = Ports {
        inputs: input_port,
        picture_reports: report_port,
        report_sender,
        stop: StopSignal(stop_port),
        start: start_port,
        pointer: pointer_port,
        devices: devices_port,
    };
    (Handles { inputs, picture_reports, stop, start, pointer, devices }, ports)
}

/// How a connection ended.
enum ConnectionEnd {
    /// The run is over.
    Finished,
    /// The connection was lost, or not established if `watched` is false. The run continues if the server comes back.
    Lost { reason: String, watched: bool },
}

/// A callback for sound. Its arguments are the time at which the first sample is due, and the samples.
pub type SoundCallback = Box<dyn FnMut(Time, &[f32]) + Send>;

/// Watches a server until the run's end. Reconnects as often as necessary.
pub struct Player {
    pub clock: Clock,
    pub options: ViewOptions,
    /// Refresh rate reported to the server, in hertz.
    pub display_hz: u16,
    pub screen: Arc<dyn Screen>,
    pub ports: Ports,
    pub on_status: Box<dyn FnMut(Status) + Send>,
    pub on_output: Box<dyn FnMut(UserOutput) + Send>,
    /// Called with 10 ms of interleaved stereo samples at a time, if [`ViewOptions::sound`] is set.
    pub on_sound: SoundCallback,
}

/// The state of a running player.
struct Run {
    player: Player,
    tally: Tally,
    recorder: Recorder,
    plan: PathPlan,
    started_at: Time,
    epoch: u32,
    /// Why the last connection was lost or not established.
    last_error: Option<String>,
    /// Whether a server has welcomed the viewer at least once.
    welcomed: bool,
}

impl Player {
    /// Plays to the end of the run and returns its summary.
    pub async fn run(self) -> Result<Summary, ViewerError> {
        let mut run = Run {
            tally: Tally::default(),
            recorder: Recorder::new(&self.options.record)?,
            plan: PathPlan::new(&self.options.path),
            started_at: self.clock.now(),
            epoch: 0,
            last_error: None,
            welcomed: false,
            player: self,
        };
        let outcome = run.play().await;
        run.player.options.messages.end();
        run.recorder.flush()?;
        outcome?;
        let transport = run.player.options.target.transport();
        Ok(run.tally.summary(run.end().min(run.player.clock.now()), transport))
    }
}

impl Run {
    async fn play(&mut self) -> Result<(), ViewerError> {
        if self.player.options.target.token().is_none() {
            return Err(ViewerError::NoToken);
        }
        let mut wait = MIN_RECONNECT_DELAY;
        loop {
            let last_error = self.last_error.clone();
            (self.player.on_status)(Status::Connecting { last_error });
            let (reason, watched) = match self.attempt().await? {
                ConnectionEnd::Finished => return Ok(()),
                ConnectionEnd::Lost { reason, watched } => (reason, watched),
            };
            if watched {
                tracing::warn!(reason, "the connection was lost; trying again");
                wait = MIN_RECONNECT_DELAY;
            } else {
                tracing::debug!(reason, "no connection; trying again");
            }
            self.last_error = Some(reason);
            let retry_at = self.player.clock.now() + wait;
            wait = (wait * 2).min(MAX_RECONNECT_DELAY);
            if let Some(ConnectionEnd::Finished) = self.idle(retry_at).await? {
                return Ok(());
            }
        }
    }

    /// Opens one connection and serves it to its end.
    async fn attempt(&mut self) -> Result<ConnectionEnd, ViewerError> {
        let options = self.player.options.clone();
        let opening = open(&options, self.welcomed, self.player.display_hz, self.player.clock);
        let opened = tokio::select! {
            opened = opening => opened,
            end = self.idle(Time::FAR_FUTURE) => return end.map(|_| ConnectionEnd::Finished),
        };
        match opened {
            Ok(opened) => {
                self.welcomed = true;
                self.player.ports.start.send_replace(Some(opened.welcome.start));
                (self.player.on_output)(UserOutput::Welcome(Box::new(opened.welcome.clone())));
                self.epoch += 1;
                Session::new(self, opened)?.watch().await
            }
            Err(OpenError::Temporary(reason)) => Ok(ConnectionEnd::Lost { reason, watched: false }),
            Err(OpenError::Permanent(error)) if self.welcomed && error.class() != crate::ExitClass::Refused => {
                // The server was reachable before, so the error may be temporary: name resolution has failed, or the server is starting.
                Ok(ConnectionEnd::Lost { reason: error.to_string(), watched: false })
            }
            Err(OpenError::Permanent(error)) => Err(error),
            Err(OpenError::Refused { temporary, message, .. }) if temporary && self.welcomed => {
                // The server may still reserve the slot of the connection that was lost.
                Ok(ConnectionEnd::Lost { reason: message, watched: false })
            }
            Err(OpenError::Refused { reason, message, .. }) => Err(ViewerError::Refused { reason, message }),
        }
    }

    /// Waits without a connection until `until` or the run's end.
    async fn idle(&mut self, until: Time) -> Result<Option<ConnectionEnd>, ViewerError> {
        let end = self.end();
        loop {
            let Ports { inputs, picture_reports, stop, .. } = &mut self.player.ports;
            tokio::select! {
                () = stop.wait() => return Ok(Some(ConnectionEnd::Finished)),
                () = self.player.clock.sleep_until(end.min(until)) => break,
                // Without a connection, the user's input is dropped.
                Some(_) = inputs.recv() => {}
                Some(_) = picture_reports.recv() => {}
            }
        }
        if self.player.clock.now() < end {
            return Ok(None);
        }
        self.check_first_picture()?;
        Ok(Some(ConnectionEnd::Finished))
    }

    /// Returns the time at which the run ends, or is given up without a picture.
    fn end(&self) -> Time {
        match (self.tally.first_displayed_at(), self.player.options.length) {
            (None, _) => self.started_at + self.player.options.first_picture,
            (Some(first), Some(length)) => first + length,
            (Some(_), None) => Time::FAR_FUTURE,
        }
    }

    /// Returns an error if the run ends without a picture.
    fn check_first_picture(&self) -> Result<(), ViewerError> {
        if self.tally.has_pictures() {
            return Ok(());
        }
        let seconds = self.player.options.first_picture.as_nanos() / 1_000_000_000;
        if self.welcomed {
            return Err(ViewerError::NoPicture { seconds });
        }
        let reason = self.last_error.clone().unwrap_or_else(|| "the connection did not open in time".to_owned());
        Err(ViewerError::NoServer { seconds, reason })
    }
}
