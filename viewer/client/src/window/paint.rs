//! Runs the painter on its own thread, so that a slow graphics adapter delays neither the user's input nor the decoder.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nearlight_net::Clock;
use nearlight_units::{Span, Time};
use nearlight_viewer::player::PictureReport;
use tokio::sync::mpsc::UnboundedSender;

use super::painter::Painter;
use crate::ClientError;
use crate::pictures::Pictures;

/// A command to the paint thread.
#[derive(PartialEq)]
enum PaintCommand {
    /// Show the next picture.
    ShowNext,
    /// Resize the surface to this many pixels.
    Resize(u32, u32),
    /// Draw the current picture again, because the window has lost it.
    Redraw,
    Quit,
}

/// Sends commands to the thread. Commands that accumulate while it draws are merged.
#[derive(Clone)]
pub struct PaintCommands(Sender<PaintCommand>);

impl PaintCommands {
    // Sending fails only if the thread has ended, and it has passed the reason to `on_failure`.

    pub fn show_next(&self) {
        let _ = self.0.send(PaintCommand::ShowNext);
    }

    pub fn set_size(&self, width: u32, height: u32) {
        let _ = self.0.send(PaintCommand::Resize(width, height));
    }

    pub fn redraw(&self) {
        let _ = self.0.send(PaintCommand::Redraw);
    }
}

/// The receiving end of [`PaintCommands`].
pub struct CommandQueue(Receiver<PaintCommand>);

pub fn command_queue() -> (PaintCommands, CommandQueue) {
    let (commands, command_queue) = channel();
    (PaintCommands(commands), CommandQueue(command_queue))
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
        let _ = self.commands.0.send(PaintCommand::Quit);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl PaintWorker {
    fn run(mut self, CommandQueue(commands): &CommandQueue) -> Result<(), ClientError> {
        loop {
            let first = if self.pictures.has_waiting() {
                let nanos = self.next_at.saturating_since(self.clock.now()).as_nanos();
                commands.recv_timeout(Duration::from_nanos(nanos.cast_unsigned()))
            } else {
                commands.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            if first == Err(RecvTimeoutError::Disconnected) {
                return Ok(());
            }
            let (mut size, mut redraw) = (None, false);
            for command in first.into_iter().chain(commands.try_iter()) {
                match command {
                    PaintCommand::ShowNext => {}
                    PaintCommand::Redraw => redraw = true,
                    PaintCommand::Resize(width, height) => size = Some((width, height)),
                    PaintCommand::Quit => return Ok(()),
                }
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
