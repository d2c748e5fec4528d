//! What every viewer shares: the connection and its loss, the receiver, the decoder and the summary. [`crate::Viewer`] is a face of it for
//! programs that poll; a driver with a display of its own implements [`Screen`] and calls [`Player::run`].

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
use opening::{Trouble, open};
use plan::PathPlan;
use session::Session;
use tally::Tally;

pub use view::beside;

/// Waits between attempts to reconnect to the server: the first, and the longest after doubling.
const FIRST_WAIT: Span = Span::from_millis(250);
const LONGEST_WAIT: Span = Span::from_secs(5);
/// Movements queued for the player: a quarter of a second of a fast mouse. What does not fit is superseded anyway.
const WAITING_INPUTS: usize = 64;
/// How often the status is reported to a window.
pub(crate) const STATUS_INTERVAL: Span = Span::from_millis(500);

/// What a user did, and when.
#[derive(Clone, Debug)]
pub enum UserInput {
    /// The head is here; the eyes and what they see follow from it.
    Moved {
        at: Time,
        head: Pose,
    },
    /// The same with what the eyes see, as a headset's driver knows it.
    Present {
        at: Time,
        presence: Presence,
    },
    Device {
        at: Time,
        input: DeviceInput,
    },
    /// The user looks at another kind of display, or it has another refresh rate.
    Display {
        display: DisplayKind,
        display_hz: u16,
    },
    /// The user pasted this.
    Clipboard(String),
}

/// Output of the application for the user besides pictures and sound.
#[derive(Clone, Debug, PartialEq)]
pub enum UserOutput {
    /// A server has welcomed the viewer: at first, and after each loss of the connection.
    Welcome(Box<Welcome>),
    /// The stream is coded so from now on.
    Stream(StreamDescription),
    Haptics(Haptics),
    /// For the clipboard.
    Clipboard(String),
}

/// Identifies a frame across sessions, whose frame ids all begin at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub epoch: u32,
    pub frame: FrameId,
}

/// What decoder and display report.
#[derive(Debug)]
pub enum Happening {
    Decoded {
        ticket: Ticket,
        at: Time,
        outcome: Result<(), CodecError>,
    },
    /// The marker was read from the decoded pixels below the picture.
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
    /// Without the rows that hold the marker; in the decoder's memory.
    pub picture: PictureView<'a>,
    pub marker: Option<Marker>,
    /// Times in it are the server's.
    pub header: &'a FrameHeader<RemoteTime>,
    /// Converts them; none before the clocks were compared.
    pub clock: Option<ClockEstimate>,
    /// Decodes without any other frame.
    pub key: bool,
    /// Something that it depends on was lost.
    pub damaged: bool,
}

impl Decoded<'_> {
    /// What a [`DisplayQueue`](nearlight_session::DisplayQueue) needs to know: when the capture began, on the server's clock, and when the
    /// picture is late, on ours.
    #[must_use]
    pub fn queue_times(&self) -> (RemoteTime, Option<Time>) {
        let deadline = self.clock.map(|clock| clock.to_client(self.header.deadline));
        (self.header.render_started_at, deadline)
    }
}

/// Receives pictures; called on the decoder's thread.
pub trait Screen: Send + Sync {
    /// A picture to display. The screen replies with [`Happening::Displayed`], now or later.
    fn on_picture(&self, decoded: &Decoded<'_>);

    /// Whether it has a use for pictures behind which newer ones have arrived.
    fn takes_every_picture(&self) -> bool {
        false
    }
}

/// The player's status, for a title bar.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    Connecting { trouble: Option<String> },
    Watching(Box<Watching>),
}

/// How it goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Watching {
    /// Displayed a second, since the status before.
    pub fps: f64,
    /// Median so far.
    pub motion_to_photon: Option<Span>,
    pub received: Bitrate,
    pub size: (u16, u16),
    pub losses: Losses,
    /// Of this connection.
    pub statistics: ReceiverStatistics,
    pub clock: Option<ClockEstimate>,
}

/// What was lost on the path, and how it was recovered, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// Share of redundancy in all media, 0 to 1.
    pub redundancy: f64,
    /// Frames completed by repairs or retransmitted symbols.
    pub recovered: u64,
    /// Frames that were never completed.
    pub lost: u64,
    /// How the picture last recovered from a loss.
    pub recovered_by: Option<RecoveryKind>,
}

impl Losses {
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

/// The ends of the channels that the player's surroundings hold.
pub struct Handles {
    pub inputs: mpsc::Sender<UserInput>,
    pub happenings: mpsc::UnboundedSender<Happening>,
    /// Set to true to stop cleanly.
    pub stop: watch::Sender<bool>,
    /// The user's initial pose as set by the server; none before the first welcome.
    pub start: watch::Receiver<Option<Pose>>,
    /// The pointer mode requested by the application.
    pub pointer: watch::Receiver<PointerRequest>,
    /// The gamepads and controllers that the user has.
    pub devices: watch::Sender<DevicesDescription>,
}

/// The pointer mode requested by the application.
#[derive(Clone, Debug, PartialEq)]
pub struct PointerRequest {
    pub cursor: CursorShape,
    /// A click captures it.
    pub captured: bool,
}

impl Default for PointerRequest {
    fn default() -> Self {
        Self { cursor: CursorShape::Named("default".into()), captured: true }
    }
}

/// Resolves once a stop was requested.
#[derive(Clone)]
struct Stop(watch::Receiver<bool>);

impl Stop {
    async fn wait(&mut self) {
        if self.0.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The ends of the channels that the player holds.
pub struct Ports {
    inputs: mpsc::Receiver<UserInput>,
    happenings: mpsc::UnboundedReceiver<Happening>,
    reports: mpsc::UnboundedSender<Happening>,
    stop: Stop,
    start: watch::Sender<Option<Pose>>,
    pointer: watch::Sender<PointerRequest>,
    devices: watch::Receiver<DevicesDescription>,
}

/// The channels between a player and its surroundings. Happenings need no bound: at most as many are in flight as there are frames in the
/// decoder.
pub fn channels() -> (Handles, Ports) {
    let (inputs, input_port) = mpsc::channel(WAITING_INPUTS);
    let (happenings, happening_port) = mpsc::unbounded_channel();
    let (stop, stop_port) = watch::channel(false);
    let (start_port, start) = watch::channel(None);
    let (pointer_port, pointer) = watch::channel(PointerRequest::default());
    let (devices, devices_port) = watch::channel(DevicesDescription::default());
    let reports = happenings.clone();
    let ports = Ports {
        inputs: input_port,
        happenings: happening_port,
        reports,
        stop: Stop(stop_port),
        start: start_port,
        pointer: pointer_port,
        devices: devices_port,
    };
    (Handles { inputs, happenings, stop, start, pointer, devices }, ports)
}

/// How one connection ended.
enum Ended {
    /// The run is over.
    Finished,
    /// The run continues if the server comes back.
    Lost { reason: String, watched: bool },
}

/// Hears sound: when its first sample is due, and the samples.
pub type OnSound = Box<dyn FnMut(Time, &[f32]) + Send>;

/// Watches a server until the run's end, over as many connections as it takes.
pub struct Player {
    pub clock: Clock,
    pub options: ViewOptions,
    /// Refresh rate reported to the server.
    pub display_hz: u16,
    pub screen: Arc<dyn Screen>,
    pub ports: Ports,
    pub on_status: Box<dyn FnMut(Status) + Send>,
    pub on_output: Box<dyn FnMut(UserOutput) + Send>,
    /// Hears 10 ms at a time, left and right in turn; only with [`ViewOptions::sound`].
    pub on_sound: OnSound,
}

/// A player at work.
struct Run {
    player: Player,
    tally: Tally,
    recorder: Recorder,
    plan: PathPlan,
    started_at: Time,
    epoch: u32,
    /// Why there is no connection.
    trouble: Option<String>,
    /// A server has welcomed us at least once.
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
            trouble: None,
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
        let mut wait = FIRST_WAIT;
        loop {
            let trouble = self.trouble.clone();
            (self.player.on_status)(Status::Connecting { trouble });
            let (reason, watched) = match self.attempt().await? {
                Ended::Finished => return Ok(()),
                Ended::Lost { reason, watched } => (reason, watched),
            };
            if watched {
                tracing::warn!(reason, "the connection was lost; trying again");
                wait = FIRST_WAIT;
            } else {
                tracing::debug!(reason, "no connection; trying again");
            }
            self.trouble = Some(reason);
            let retry_at = self.player.clock.now() + wait;
            wait = (wait * 2).min(LONGEST_WAIT);
            if let Some(Ended::Finished) = self.idle(retry_at).await? {
                return Ok(());
            }
        }
    }

    /// One connection from its opening to its end.
    async fn attempt(&mut self) -> Result<Ended, ViewerError> {
        let options = self.player.options.clone();
        let opening = open(&options, self.welcomed, self.player.display_hz, self.player.clock);
        let opened = tokio::select! {
            opened = opening => opened,
            ended = self.idle(Time::FAR_FUTURE) => return ended.map(|_| Ended::Finished),
        };
        match opened {
            Ok(opened) => {
                self.welcomed = true;
                self.player.ports.start.send_replace(Some(opened.welcome.start));
                (self.player.on_output)(UserOutput::Welcome(Box::new(opened.welcome.clone())));
                self.epoch += 1;
                Session::new(self, opened)?.watch().await
            }
            Err(Trouble::Passing(reason)) => Ok(Ended::Lost { reason, watched: false }),
            Err(Trouble::Lasting(error)) if self.welcomed && error.class() != crate::ExitClass::Refused => {
                // It worked before, so it may again: a temporary failure of name resolution, a server that is starting.
                Ok(Ended::Lost { reason: error.to_string(), watched: false })
            }
            Err(Trouble::Lasting(error)) => Err(error),
            Err(Trouble::Refused { passing, message, .. }) if passing && self.welcomed => {
                // The server may still hold the slot of the connection that was lost.
                Ok(Ended::Lost { reason: message, watched: false })
            }
            Err(Trouble::Refused { reason, message, .. }) => Err(ViewerError::Refused { reason, message }),
        }
    }

    /// Lets time pass without a connection, until `until` or the run's end.
    async fn idle(&mut self, until: Time) -> Result<Option<Ended>, ViewerError> {
        let end = self.end();
        loop {
            let Ports { inputs, happenings, stop, .. } = &mut self.player.ports;
            tokio::select! {
                () = stop.wait() => return Ok(Some(Ended::Finished)),
                () = self.player.clock.sleep_until(end.min(until)) => break,
                // The user's input is dropped meanwhile.
                Some(_) = inputs.recv() => {}
                Some(_) = happenings.recv() => {}
            }
        }
        if self.player.clock.now() < end {
            return Ok(None);
        }
        self.check_first_picture()?;
        Ok(Some(Ended::Finished))
    }

    /// When the run is over, or hopeless without a picture.
    fn end(&self) -> Time {
        match (self.tally.first_displayed_at(), self.player.options.length) {
            (None, _) => self.started_at + self.player.options.first_picture,
            (Some(first), Some(length)) => first + length,
            (Some(_), None) => Time::FAR_FUTURE,
        }
    }

    /// An error where the run ends without a picture.
    fn check_first_picture(&self) -> Result<(), ViewerError> {
        if self.tally.has_pictures() {
            return Ok(());
        }
        let seconds = self.player.options.first_picture.as_nanos() / 1_000_000_000;
        if self.welcomed {
            return Err(ViewerError::NoPicture { seconds });
        }
        let reason = self.trouble.clone().unwrap_or_else(|| "the connection did not open in time".to_owned());
        Err(ViewerError::NoServer { seconds, reason })
    }
}
