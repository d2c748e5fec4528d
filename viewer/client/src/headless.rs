//! A viewer without a display, for measurements and tests, with a synthetic user.
//!
//! A picture counts as displayed at the decoder's output or, if a refresh rate is given, at a slot of a virtual display of that rate. Each
//! slot shows the next of the pictures that were decoded before it.

use std::sync::{Arc, Mutex};

use nearlight_codec::Picture;
use nearlight_events::Summary;
use nearlight_net::{Alarm, Clock};
use nearlight_session::{DisplayOrder, DisplayQueue};
use nearlight_units::{RemoteTime, Span, Time, lock};
use nearlight_viewer::player::{Decoded, PictureReport, Player, Screen, Ticket, UserInput, channels};
use nearlight_wire::{Pose, marker::Marker};
use tokio::sync::{mpsc, watch};

use crate::signals::interrupted;
use crate::{ClientError, HeadlessOptions, screenshot, user};

/// Refresh rate reported to the server if there is no virtual display.
const NO_DISPLAY_HZ: u16 = 0;

/// Watches on `clock` until the options' length has passed, or until SIGINT or SIGTERM. Blocks.
///
/// One thread does everything but decoding, so that no datagram waits for another thread to wake up.
pub fn run(options: HeadlessOptions, clock: Clock) -> Result<Summary, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| ClientError::system("event loop", source))?;
    runtime.block_on(async {
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(async move {
            interrupted().await;
            let _ = stop.send(true);
        });
        watch_until(options, clock, stopped).await
    })
}

/// Maximum number of pictures that arrive between two slots of the virtual display: all of a second at 240 a second, for a display of 1 Hz.
const MAX_QUEUED_PICTURES: usize = 256;

/// Watches like [`run`], but within the caller's runtime. Ends when `stopped` becomes true.
pub async fn watch_until(
    options: HeadlessOptions,
    clock: Clock,
    mut stopped: watch::Receiver<bool>,
) -> Result<Summary, ClientError> {
    let (handles, ports) = channels();
    let HeadlessOptions { mut view, display_hz, samples_per_second } = options;
    view.clipboard = false;
    let file = view.record.screenshot.clone();
    let last = file.as_ref().map(|_| Arc::new(Mutex::new(None)));
    let order = view.display_order;
    let in_turn = display_hz.is_some() && order == DisplayOrder::InTurn;
    let slots = display_hz.map(|hz| {
        let (pictures, queued) = mpsc::channel(MAX_QUEUED_PICTURES);
        tokio::spawn(virtual_display(order, interval(hz), clock, queued, handles.picture_reports.clone()));
        pictures
    });
    let screen = HeadlessScreen { reports: handles.picture_reports, slots, in_turn, last: last.clone() };
    let moving = tokio::spawn(send_inputs(interval(samples_per_second), clock, handles.start, handles.inputs));
    let player = Player {
        clock,
        options: view,
        display_hz: display_hz.unwrap_or(NO_DISPLAY_HZ),
        screen: Arc::new(screen),
        ports,
        on_status: Box::new(|_| ()),
        // Without a display there are neither gamepads nor a clipboard.
        on_output: Box::new(|_| ()),
        on_sound: Box::new(|_, _| ()),
    };
    let stop = handles.stop;
    let stopping = tokio::spawn(async move {
        if stopped.wait_for(|stopped| *stopped).await.is_ok() {
            let _ = stop.send(true);
        }
        // If the sender is dropped instead, the player is never stopped.
    });
    let outcome = player.run().await;
    moving.abort();
    stopping.abort();
    let summary = outcome?;
    if let (Some(file), Some(last)) = (file, last) {
        let picture = lock(&last).take();
        screenshot::save(&picture.ok_or_else(|| ClientError::NoScreenshot(file.clone()))?, &file)?;
    }
    Ok(summary)
}

/// Returns the interval between events at `rate` per second. A rate of 0 counts as 1.
fn interval(rate: u16) -> Span {
    Span::from_secs(1) / i64::from(rate.max(1))
}

/// Sends the synthetic user's inputs, starting at the pose that the server sets, until the receiver is dropped.
async fn send_inputs(
    step: Span,
    clock: Clock,
    mut start: watch::Receiver<Option<Pose>>,
    inputs: mpsc::Sender<UserInput>,
) {
    let Ok(start_pose) = start.wait_for(Option::is_some).await.map(|pose| pose.unwrap_or_default()) else { return };
    let started_at = clock.now();
    let mut alarm = Alarm::new(clock);
    let mut moved = Span::ZERO;
    let mut next = started_at;
    loop {
        let at = clock.now();
        let since = at - started_at;
        // A full queue means that there is no connection; then the sample may be dropped.
        let closed = |error| matches!(error, mpsc::error::TrySendError::Closed(_));
        let head = user::head(&start_pose, since);
        if inputs.try_send(UserInput::Moved { at, head }).is_err_and(closed) {
            return;
        }
        for action in user::actions(moved, since) {
            let _ = inputs.try_send(UserInput::Device { at, input: action.input() });
        }
        moved = since;
        // A late wake-up does not shift later ones, and missed samples are not made up for.
        next = (next + step).max(at);
        alarm.at(next).await;
    }
}

/// A decoded picture that waits for a slot of the virtual display.
struct QueuedPicture {
    ticket: Ticket,
    marker: Option<Marker>,
    captured_at: RemoteTime,
    deadline: Option<Time>,
}

/// The screen of a headless run.
struct HeadlessScreen {
    reports: mpsc::UnboundedSender<PictureReport>,
    slots: Option<mpsc::Sender<QueuedPicture>>,
    /// Whether pictures are displayed in order, including those that newer ones have overtaken.
    in_turn: bool,
    /// The last picture, if it is to be saved.
    last: Option<Arc<Mutex<Option<Picture>>>>,
}

impl Screen for HeadlessScreen {
    fn on_picture(&self, decoded: &Decoded<'_>) {
        let Decoded { ticket, at, marker, .. } = *decoded;
        // A player that has ended needs no report.
        match &self.slots {
            Some(slots) => {
                let (captured_at, deadline) = decoded.queue_times();
                let queued = QueuedPicture { ticket, marker, captured_at, deadline };
                if let Err(mpsc::error::TrySendError::Full(_)) = slots.try_send(queued) {
                    tracing::warn!("a picture is not displayed: {MAX_QUEUED_PICTURES} wait for the virtual display");
                }
            }
            None => drop(self.reports.send(PictureReport::Displayed { ticket, at, marker })),
        }
        if let Some(last) = &self.last {
            let mut last = lock(last);
            decoded.picture.copy_to(last.get_or_insert_with(|| Picture::new(decoded.picture.size)));
        }
    }

    fn takes_every_picture(&self) -> bool {
        self.in_turn
    }
}

/// Displays one picture at each slot, in the given order. Slots are multiples of the interval on the clock.
async fn virtual_display(
    order: DisplayOrder,
    interval: Span,
    clock: Clock,
    mut decoded: mpsc::Receiver<QueuedPicture>,
    reports: mpsc::UnboundedSender<PictureReport>,
) {
    let mut alarm = Alarm::new(clock);
    let mut queue = DisplayQueue::new(order);
    queue.set_refresh_interval(Some(interval));
    let push = |queue: &mut DisplayQueue<QueuedPicture>, queued: QueuedPicture| {
        queue.push(queued.captured_at, queued.deadline, queued);
    };
    loop {
        if queue.is_empty() {
            let Some(first) = decoded.recv().await else { return };
            push(&mut queue, first);
        }
        let at = next_slot(clock.now(), interval);
        alarm.at(at).await;
        while let Ok(newer) = decoded.try_recv() {
            push(&mut queue, newer);
        }
        let next = queue.take(at);
        queue.on_refresh(at);
        while queue.poll_skipped().is_some() {}
        let Some(QueuedPicture { ticket, marker, .. }) = next else { continue };
        if reports.send(PictureReport::Displayed { ticket, at, marker }).is_err() {
            return;
        }
    }
}

fn next_slot(now: Time, interval: Span) -> Time {
    let interval = interval.as_nanos().max(1).cast_unsigned();
    Time::from_nanos((now.as_nanos() / interval + 1) * interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_lie_on_the_grid_and_ahead() {
        let interval = Span::from_millis(10);
        for (now, slot) in [(0, 10), (1, 10), (9, 10), (10, 20), (25, 30)] {
            assert_eq!(next_slot(Time::from_millis(now), interval), Time::from_millis(slot), "{now}");
        }
    }
}
