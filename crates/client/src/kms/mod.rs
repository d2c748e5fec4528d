//! A viewer on a display without a window system, through the kernel's mode setting (KMS), with the kernel's input devices (evdev).
//!
//! Pictures are drawn into one of two buffers while the display shows the other, and change places with it at the display's next refresh:
//! no picture is torn, and which of those that are there comes next is decided when the display is ready. A picture counts as displayed from that refresh
//! on. Nothing else is drawn; the pointer is the display's own.

mod canvas;
mod cursor;
mod devices;
mod events;
mod output;
mod show;
mod user;

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;

use nearlight_events::Summary;
use nearlight_net::Clock;
use nearlight_viewer::player::{Player, UserOutput, channels};
use nearlight_wire::DevicesDescription;
use tokio::sync::mpsc;

use crate::controls::STEP;
use crate::gamepads::{self, GamepadNews};
use crate::pictures::Pictures;
use crate::signals::interrupted;
use crate::steering::Steering;
use crate::{ClientError, KmsOptions, screenshot};
use canvas::Canvas;
use cursor::Cursor;
use output::Output;
use show::{Order, ShowThread};
use user::User;

/// Reports of devices that wait to be read: what a fast mouse does in a quarter of a second.
const WAITING_ACTS: usize = 256;

/// Shows the stream until the options' length has passed, or until Ctrl-C on the terminal or the display's keyboard, or SIGTERM. Blocks.
pub fn run(options: KmsOptions) -> Result<Summary, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| ClientError::system("event loop", source))?;
    let file = options.view.record.screenshot.clone();
    let output = Arc::new(Output::open(options.card.as_deref(), options.connector.as_deref())?);
    tracing::info!(display = output.description(), "showing there; Ctrl+C ends");
    let (orders, order_queue) = channel();
    let waker = orders.clone();
    let order = options.view.display_order;
    let wake = Box::new(move || drop(waker.send(Order::Picture)));
    let pictures = Pictures::new(order, output.refresh_rate(), file.is_some(), wake);
    let pictures = Arc::new(pictures);
    let outcome = runtime.block_on(watch(options, &output, &pictures, (orders, order_queue)));
    // Tasks that read devices end here, and give the keyboard back to the console.
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
    (orders, order_queue): (show::Orders, show::OrderQueue),
) -> Result<Summary, ClientError> {
    let clock = Clock::start();
    let (handles, ports) = channels();
    let (failures, mut failure) = mpsc::unbounded_channel();
    let work = show::Work {
        output: Arc::clone(output),
        pictures: Arc::clone(pictures),
        happenings: handles.happenings,
        clock,
    };
    let shown = ShowThread::start(work, (orders, order_queue), failures)?;
    let (acts, mut acted) = mpsc::channel(WAITING_ACTS);
    tokio::spawn(devices::follow(clock, acts));
    let (news, mut gamepads) = mpsc::unbounded_channel();
    let haptics = gamepads::start(move |reported| drop(news.send(reported)))?;
    let (statuses, mut status) = mpsc::unbounded_channel();
    let player = Player {
        clock,
        options: options.view,
        display_hz: output.refresh_rate(),
        screen: Arc::clone(pictures) as Arc<_>,
        ports,
        on_status: Box::new(move |now| drop(statuses.send(now))),
        on_output: Box::new(move |output| {
            if let UserOutput::Haptics(pulse) = output {
                // A thread that has ended has reported why.
                let _ = haptics.send(pulse);
            }
        }),
        on_sound: Box::new(|_, _| ()),
    };
    let steering = Steering::new(handles.start, handles.inputs, clock);
    let cursor = Cursor::new(Arc::clone(output));
    let display = Canvas::new(output.size()).size();
    let mut user = User::new(steering, cursor, handles.pointer, display);
    let (described, stop) = (handles.devices, handles.stop);
    let mut player = pin!(player.run());
    let mut interrupted = pin!(interrupted());
    let mut stopping = false;
    let mut step_at = clock.now();
    let outcome = loop {
        tokio::select! {
            outcome = &mut player => break outcome.map_err(ClientError::from),
            Some(error) = failure.recv() => break Err(error),
            // The player says goodbye, sums up and then ends the loop.
            () = &mut interrupted, if !stopping => {
                stopping = true;
                let _ = stop.send(true);
            }
            Some(acts) = acted.recv() => {
                if user.on_acts(&acts).is_break() {
                    let _ = stop.send(true);
                }
            }
            Some(news) = gamepads.recv() => match news {
                GamepadNews::Described(gamepads) => {
                    described.send_replace(DevicesDescription { gamepads, controllers: Vec::new() });
                }
                GamepadNews::States(gamepads) => user.steering().on_gamepads(gamepads),
            },
            Some(now) = status.recv() => user.on_status(&now),
            () = clock.sleep_until(step_at) => {
                step_at = (step_at + STEP).max(clock.now());
                user.step();
            }
        }
    };
    drop(shown);
    outcome
}
