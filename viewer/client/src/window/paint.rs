//! Runs the painter on its own thread, so that a slow graphics adapter delays neither the user's input nor the decoder.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nearlight_net::Clock;
use nearlight_units::{Span, Time, lock};
use nearlight_viewer::player::PictureReport;
use tokio::sync::mpsc::UnboundedSender;

use super::painter::Painter;
use crate::ClientError;
use crate::pictures::Pictures;

/// What the paint thread has to do besides showing the next picture.
#[derive(Default)]
struct PendingWork {
    /// Resize the surface to this many pixels.
    size: Option<(u32, u32)>,
    /// Draw the current picture again, because the window has lost it.
    redraw: bool,
    quit: bool,
}

/// Sends commands to the thread. Commands that accumulate while it draws are merged.
#[derive(Clone)]
pub struct PaintCommands {
    pending: Arc<Mutex<PendingWork>>,
    wake: SyncSender<()>,
}

impl PaintCommands {
    pub fn show_next(&self) {
        // If it is full, the thread will look anyway. If the thread has ended, it has passed the reason to `on_failure`.
        let _ = self.wake.try_send(());
    }

    pub fn set_size(&self, width: u32, height: u32) {
        self.add(|pending| pending.size = Some((width, height)));
    }

    pub fn redraw(&self) {
        self.add(|pending| pending.redraw = true);
    }

    fn quit(&self) {
        self.add(|pending| pending.quit = true);
    }

    fn add(&self, change: impl FnOnce(&mut PendingWork)) {
        change(&mut lock(&self.pending));
        self.show_next();
    }
}

/// The receiving end of [`PaintCommands`].
pub struct CommandQueue {
    pending: Arc<Mutex<PendingWork>>,
    wakes: Receiver<()>,
}

impl CommandQueue {
    fn take(&self) -> PendingWork {
        std::mem::take(&mut lock(&self.pending))
    }
}

pub fn command_queue() -> (PaintCommands, CommandQueue) {
    let (wake, wakes) = sync_channel(1);
    let pending = Arc::<Mutex<PendingWork>>::default();
    (PaintCommands { pending: Arc::clone(&pending), wake }, CommandQueue { pending, wakes })
}

/// A handle of the thread. Dropping it stops the thread and waits for its end.
pub struct PaintThread {
    commands: PaintCommands,
    thread: Option<JoinHandle<()>>,
}

/// The thread's state.
pub struct PaintWorker {
    pub painter: Painter,
    pub pictures: Arc<Pictures>,
    pub reports: UnboundedSender<PictureReport>,
    pub clock: Clock,
    pub refresh_interval: Span,
    /// When the display accepts the next picture.
    pub next_at: Time,
}

impl PaintThread {
    /// Starts the thread. `on_failure` gets the error if nothing can be painted any more.
    pub fn start(
        worker: PaintWorker,
        (commands, command_queue): (PaintCommands, CommandQueue),
        on_failure: impl FnOnce(ClientError) + Send + 'static,
    ) -> Result<Self, ClientError> {
        let paint = move || {
            if let Err(error) = worker.run(&command_queue) {
                on_failure(error);
            }
        };
        let thread = std::thread::Builder::new()
            .name("painter".into())
            .spawn(paint)
            .map_err(|source| ClientError::system("thread for the painter", source))?;
        Ok(Self { commands, thread: Some(thread) })
    }

    pub const fn commands(&self) -> &PaintCommands {
        &self.commands
    }
}

impl Drop for PaintThread {
    fn drop(&mut self) {
        self.commands.quit();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl PaintWorker {
    fn run(mut self, commands: &CommandQueue) -> Result<(), ClientError> {
        loop {
            let first = if self.pictures.has_waiting() {
                let nanos = self.next_at.saturating_since(self.clock.now()).as_nanos();
                commands.wakes.recv_timeout(Duration::from_nanos(nanos.cast_unsigned()))
            } else {
                commands.wakes.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            if first == Err(RecvTimeoutError::Disconnected) {
                return Ok(());
            }
            let PendingWork { size, redraw, quit } = commands.take();
            if quit {
                return Ok(());
            }
            if let Some((width, height)) = size {
                self.painter.set_size(width, height);
            }
            self.show(redraw || size.is_some())?;
        }
    }

    /// Shows the next picture if the display accepts it, and reports to the player when it was submitted. Otherwise draws the current
    /// picture again if `redraw` is set.
    fn show(&mut self, redraw: bool) -> Result<(), ClientError> {
        let now = self.clock.now();
        let next = if now < self.next_at { None } else { self.pictures.take(now) };
        let Some(picture) = next else { return if redraw { self.painter.draw().map(|_| ()) } else { Ok(()) } };
        self.painter.upload(&picture.picture);
        let drawn = self.painter.draw()?;
        let at = self.clock.now();
        if drawn {
            let (ticket, marker) = (picture.ticket, picture.marker);
            // Fails only if the player has ended.
            let _ = self.reports.send(PictureReport::Displayed { ticket, at, marker });
        }
        self.pictures.on_displayed(at, picture);
        // If drawing does not wait for the display, the first of two pictures within one refresh interval would never be seen.
        let waits = self.pictures.shows_in_turn() && !self.painter.waits_for_display();
        self.next_at = if waits { at + self.refresh_interval } else { at };
        Ok(())
    }
}
