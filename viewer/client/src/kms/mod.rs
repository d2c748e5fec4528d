//! A viewer on a display without a window system, through the kernel's mode setting (KMS), with the kernel's input devices (evdev).
//!
//! A picture is drawn into one of two buffers while the display shows the other. The buffers are swapped at the display's next refresh, so
//! no picture is torn. The next picture is chosen when the display is ready for it, and counts as displayed from its refresh on. Nothing
//! else is drawn; the pointer is drawn by the display hardware.

mod canvas;
mod cursor;
mod devices;
mod display_thread;
mod events;
mod output;
mod user;

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use nearlight_events::Summary;
use nearlight_net::Clock;
use nearlight_viewer::player::{Player, UserOutput, channels};
use nearlight_wire::DevicesDescription;
use tokio::sync::mpsc;

use crate::controls::STEP_INTERVAL;
use crate::gamepads::{self, GamepadReport};
use crate::pictures::Pictures;
use crate::signals::interrupted;
use crate::steering::Steering;
use crate::{ClientError, KmsOptions, screenshot};
use canvas::Canvas;
use cursor::Cursor;
use display_thread::{DisplayCommand, DisplayThread};
use output::Output;
use user::User;

/// Maximum number of queued reports of input devices: a quarter of a second of a mouse that reports 1,000 times a second.
const MAX_QUEUED_ACTIONS: usize = 256;
/// Maximum number of queued commands to the display's thread. Two are enough: to show a picture, and to quit.
const MAX_QUEUED_COMMANDS: usize = 2;
/// Maximum number of queued statuses. The loop that reads them also runs the player, which reports a few a second.
const MAX_QUEUED_STATUSES: usize = 64;

/// Shows the stream until the options' length has passed, or until Ctrl-C on the terminal or the display's keyboard, or SIGTERM. Blocks.
pub fn run(options: KmsOptions) -> Result<Summary, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| ClientError::system("event loop", source))?;
    let file = options.view.record.screenshot.clone();
    let output = Arc::new(Output::open(options.card.as_deref(), options.connector.as_deref())?);
    tracing::info!(display = output.description(), "showing the stream; Ctrl+C ends");
    let (commands, command_queue) = sync_channel(MAX_QUEUED_COMMANDS);
    let waker = commands.clone();
    let order = options.view.display_order;
    // If the queue is full, the thread will look for pictures anyway.
    let wake = Box::new(move || drop(waker.try_send(DisplayCommand::ShowNext)));
    let pictures = Pictures::new(order, output.refresh_rate(), file.is_some(), wake);
    let pictures = Arc::new(pictures);
    let outcome = runtime.block_on(watch(options, &output, &pictures, (commands, command_queue)));
    // The tasks that read devices end here, which returns the keyboard to the console.
    drop(runtime);
    drop(output);
    let summary = outcome?;
    if let Some(file) = file {
        let shown = pictures.take_last().ok_or_else(|| ClientError::NoScreenshot(file.clone()))?;
        screenshot::save(&shown, &file)?;
    }
    Ok(summary)
}

async fn watch(
    options: KmsOptions,
    output: &Arc<Output>,
    pictures: &Arc<Pictures>,
    (commands, command_queue): (display_thread::CommandSender, display_thread::CommandReceiver),
) -> Result<Summary, ClientError> {
    let clock = Clock::start();
    let (handles, ports) = channels();
    let (failures, mut failure) = mpsc::channel(1);
    let worker = display_thread::DisplayWorker {
        output: Arc::clone(output),
        pictures: Arc::clone(pictures),
        reports: handles.picture_reports,
        clock,
    };
    let display_thread = DisplayThread::start(worker, (commands, command_queue), failures)?;
    let (action_sender, mut actions) = mpsc::channel(MAX_QUEUED_ACTIONS);
    tokio::spawn(devices::follow(clock, action_sender));
    let (report_sender, mut gamepads) = mpsc::channel(MAX_QUEUED_ACTIONS);
    let haptics = gamepads::start(move |report| drop(report_sender.blocking_send(report)))?;
    let (statuses, mut status) = mpsc::channel(MAX_QUEUED_STATUSES);
    let player = Player {
        clock,
        options: options.view,
        display_hz: output.refresh_rate(),
        screen: Arc::clone(pictures) as Arc<_>,
        ports,
        on_status: Box::new(move |now| drop(statuses.try_send(now))),
        on_output: Box::new(move |output| {
            if let UserOutput::Haptics(pulse) = output {
                // Fails if the thread has ended, and it has logged why, or if more effects wait than can be felt.
                let _ = haptics.try_send(pulse);
            }
        }),
        on_sound: Box::new(|_, _| ()),
    };
    let steering = Steering::new(handles.start, handles.inputs, clock);
    let cursor = Cursor::new(Arc::clone(output));
    let display = Canvas::new(output.size()).size();
    let mut user = User::new(steering, cursor, handles.pointer, display);
    let (descriptions, stop) = (handles.devices, handles.stop);
    let mut player = pin!(player.run());
    let mut interrupted = pin!(interrupted());
    let mut stopping = false;
    let mut step_at = clock.now();
    let outcome = loop {
        tokio::select! {
            outcome = &mut player => break outcome.map_err(ClientError::from),
            Some(error) = failure.recv() => break Err(error),
            // The player says goodbye and then returns its summary, which ends the loop.
            () = &mut interrupted, if !stopping => {
                stopping = true;
                let _ = stop.send(true);
            }
            Some(actions) = actions.recv() => {
                if user.on_actions(&actions).is_break() {
                    let _ = stop.send(true);
                }
            }
            Some(report) = gamepads.recv() => match report {
                GamepadReport::Descriptions(gamepads) => {
                    descriptions.send_replace(DevicesDescription { gamepads, controllers: Vec::new() });
                }
                GamepadReport::States(gamepads) => user.steering().on_gamepads(gamepads),
            },
            Some(now) = status.recv() => user.on_status(&now),
            () = clock.sleep_until(step_at) => {
                step_at = (step_at + STEP_INTERVAL).max(clock.now());
                user.step();
            }
        }
    };
    drop(display_thread);
    outcome
}
