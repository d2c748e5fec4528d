//! The thread that draws pictures and waits for the display, so that neither input nor the decoder has to wait.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::JoinHandle;

use drm::buffer::Buffer as _;
use drm::control::Device as _;
use nearlight_net::Clock;
use nearlight_viewer::player::PictureReport;
use tokio::sync::mpsc::{self, UnboundedSender};

use super::canvas::{Canvas, Pixels};
use super::output::Output;
use crate::ClientError;
use crate::pictures::Pictures;

/// A command to the display thread.
pub enum DisplayCommand {
    /// Show the next picture.
    ShowNext,
    Quit,
}

pub type CommandSender = SyncSender<DisplayCommand>;
pub type CommandReceiver = Receiver<DisplayCommand>;

/// The thread's state.
pub struct DisplayWorker {
    pub output: Arc<Output>,
    pub pictures: Arc<Pictures>,
    pub reports: UnboundedSender<PictureReport>,
    pub clock: Clock,
}

/// A handle of the thread. Dropping it stops the thread and waits for its end.
pub struct DisplayThread {
    commands: CommandSender,
    thread: Option<JoinHandle<()>>,
}

impl DisplayThread {
    /// Starts the thread. `failures` gets the error if nothing can be shown any more.
    pub fn start(
        worker: DisplayWorker,
        (commands, command_queue): (CommandSender, CommandReceiver),
        failures: mpsc::Sender<ClientError>,
    ) -> Result<Self, ClientError> {
        let show = move || {
            if let Err(error) = worker.run(&command_queue) {
                let _ = failures.try_send(error);
            }
        };
        let thread = std::thread::Builder::new().name("display".into()).spawn(show);
        let thread = thread.map_err(|source| ClientError::system("thread for the display", source))?;
        Ok(Self { commands, thread: Some(thread) })
    }
}

impl Drop for DisplayThread {
    fn drop(&mut self) {
        let _ = self.commands.send(DisplayCommand::Quit);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl DisplayWorker {
    fn run(self, commands: &CommandReceiver) -> Result<(), ClientError> {
        let [mut first, mut second] = self.output.buffers();
        let pitches = [&first, &second].map(|buffer| buffer.pitch() as usize);
        let card = self.output.card();
        let unmapped =
            |error: std::io::Error| ClientError::Display(format!("the card's memory cannot be written: {error}"));
        let mut buffers =
            [card.map_dumb_buffer(&mut first).map_err(unmapped)?, card.map_dumb_buffer(&mut second).map_err(unmapped)?];
        let mut canvas = Canvas::new(self.output.size());
        let mut back = 1;
        loop {
            // Commands are read before the next picture, because one may be to quit.
            let command = if self.pictures.has_waiting() {
                commands.try_recv().unwrap_or(DisplayCommand::ShowNext)
            } else {
                commands.recv().unwrap_or(DisplayCommand::Quit)
            };
            let DisplayCommand::ShowNext = command else { return Ok(()) };
            let Some(picture) = self.pictures.take(self.clock.now()) else { continue };
            canvas.draw(&picture.picture, Pixels { bytes: &mut buffers[back], pitch: pitches[back] })?;
            self.output.show(back)?;
            let (ticket, marker, at) = (picture.ticket, picture.marker, self.clock.now());
            // Fails only if the player has ended.
            let _ = self.reports.send(PictureReport::Displayed { ticket, at, marker });
            self.pictures.on_displayed(at, picture);
            back = 1 - back;
        }
    }
}
