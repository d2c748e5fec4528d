//! Members that also take the server's video stream: each has a viewer in addition, whose decoder decodes nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use nearlight_codec::{CodecError, Decoder, Decoders, Picture, PictureView, Size};
use nearlight_net::Clock;
use nearlight_units::{Span, Time, lock};
use nearlight_viewer::player::{Decoded, PictureReport, Player, Screen, UserInput, channels};
use nearlight_viewer::{ViewOptions, ViewerError};
use nearlight_wire::Pose;
use tokio::sync::{mpsc, watch};

use super::connection::CLIENT_NAME;
use super::{Phase, Shared};
use crate::summary::{Quantiles, Video};
use crate::tally::{Delays, micros};

/// Size of the placeholder picture. Nothing is decoded or displayed.
const PLACEHOLDER_SIZE: Size = Size { width: 16, height: 16 };
/// Period in which a user looks from side to side and back. Guess: at leisure.
const LOOK_PERIOD: Span = Span::from_secs(6);
/// Amplitude of looking around, in radians to either side.
const LOOK_AMPLITUDE: f64 = 0.6;

/// Counters over all clients of the stream.
#[derive(Debug, Default)]
pub(super) struct VideoTally {
    startup: Delays,
    frames: Delays,
    watched: usize,
    fps: f64,
    received_mbps: f64,
    stall_ratio: f64,
    late: u64,
    lost: u64,
    failed: BTreeMap<String, u64>,
}

impl VideoTally {
    /// Returns the summary for `clients` clients.
    pub(super) fn summary(self, clients: usize) -> Video {
        let mean = |sum: f64| if self.watched > 0 { sum / self.watched as f64 } else { 0.0 };
        Video {
            clients,
            watched: self.watched,
            startup_ms: Quantiles::of(&self.startup),
            frame_ms: Quantiles::of(&self.frames),
            fps: mean(self.fps),
            received_mbps: mean(self.received_mbps),
            stall_ratio: mean(self.stall_ratio),
            late: self.late,
            lost: self.lost,
            failed: self.failed,
        }
    }

    fn on_ended(&mut self, began: Time, seen: &ViewerRecord, ended: Result<nearlight_events::Summary, ViewerError>) {
        let (Some(first), Ok(summary)) = (seen.first, &ended) else {
            let words = ended.err().map_or_else(|| "no picture came".to_owned(), |error| error.to_string());
            *self.failed.entry(words).or_default() += 1;
            return;
        };
        self.startup.add(micros(first - began));
        self.frames.merge(&seen.frames);
        self.watched += 1;
        self.fps += summary.fps;
        self.received_mbps += summary.rate_mbps.received;
        self.stall_ratio += summary.stall_ratio.unwrap_or_default();
        self.late += summary.frames.late;
        self.lost += summary.frames.lost;
    }
}

/// The client of the member with this number, from the member's turn to join until the crowd comes to rest.
pub(super) async fn watch(shared: Arc<Shared>, number: usize, began: Time) {
    if !shared.wait_for_turn(number, began).await {
        return;
    }
    let options = &shared.options;
    let (handles, ports) = channels();
    let decoders = Decoders::new(|_| Ok(Box::new(PlaceholderDecoder(Picture::new(PLACEHOLDER_SIZE)))));
    let name = CLIENT_NAME.to_owned();
    let link = options.links[number % options.links.len()].clone();
    let screen = Arc::new(PictureCounter { seen: Mutex::default(), reports: handles.picture_reports });
    let player = Player {
        clock: shared.clock,
        options: ViewOptions { name, decoders, ..ViewOptions::new(link) },
        display_hz: 0,
        screen: Arc::clone(&screen) as Arc<dyn Screen>,
        ports,
        on_status: Box::new(|_| ()),
        on_output: Box::new(|_| ()),
        on_sound: Box::new(|_, _| ()),
    };
    let connects_at = shared.clock.now();
    let looking =
        tokio::spawn(look_around(shared.clock, options.profile.pose_interval(), handles.start, handles.inputs));
    let (stop, mut phase) = (handles.stop, shared.phase.clone());
    let stopping = tokio::spawn(async move {
        let _ = phase.wait_for(|phase| *phase != Phase::Active).await;
        let _ = stop.send(true);
    });
    let ended = player.run().await;
    looking.abort();
    stopping.abort();
    lock(&shared.video).on_ended(connects_at, &lock(&screen.seen), ended);
}

/// Sends the pose of a user who stands where the server wants it and looks around.
async fn look_around(
    clock: Clock,
    interval: Span,
    mut place: watch::Receiver<Option<Pose>>,
    inputs: mpsc::Sender<UserInput>,
) {
    let Ok(place) = place.wait_for(Option::is_some).await.map(|place| place.unwrap_or_default()) else { return };
    loop {
        let at = clock.now();
        let turn =
            (at.as_micros() as f64 / LOOK_PERIOD.as_micros() as f64 * std::f64::consts::TAU).sin() * LOOK_AMPLITUDE;
        let (sine, cosine) = (turn / 2.0).sin_cos();
        let head = Pose { orientation: [0.0, sine as f32, 0.0, cosine as f32], ..place };
        if inputs.send(UserInput::Moved { at, head }).await.is_err() {
            return;
        }
        clock.sleep_until(at + interval).await;
    }
}

/// Counters of one client.
#[derive(Debug, Default)]
struct ViewerRecord {
    first: Option<Time>,
    frames: Delays,
}

/// A display that only records when pictures arrive.
struct PictureCounter {
    seen: Mutex<ViewerRecord>,
    reports: mpsc::UnboundedSender<PictureReport>,
}

impl Screen for PictureCounter {
    fn on_picture(&self, decoded: &Decoded<'_>) {
        let Decoded { ticket, at, marker, header, clock, .. } = *decoded;
        let mut seen = lock(&self.seen);
        seen.first.get_or_insert(at);
        if let Some(clock) = clock {
            seen.frames.add(micros(at - clock.to_client(header.render_started_at)));
        }
        // A player that has ended needs no report.
        let _ = self.reports.send(PictureReport::Displayed { ticket, at, marker });
    }
}

/// A decoder that returns the same picture for every frame.
struct PlaceholderDecoder(Picture);

impl Decoder for PlaceholderDecoder {
    fn name(&self) -> String {
        "none".into()
    }

    fn decode(&mut self, _: &[u8]) -> Result<Option<PictureView<'_>>, CodecError> {
        Ok(Some(self.0.view()))
    }
}
