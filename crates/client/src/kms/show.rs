//! The thread that draws pictures and waits for the display, so that neither input nor the decoder waits for it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;

use drm::buffer::Buffer as _;
use drm::control::Device as _;
use nearlight_net::Clock;
use nearlight_viewer::player::Happening;
use tokio::sync::mpsc::UnboundedSender;

use super::canvas::{Canvas, Pixels};
use super::output::Output;
use crate::ClientError;
use crate::pictures::Pictures;

pub enum Order {
    /// A picture waits.
    Picture,
    Quit,
}

pub type Orders = Sender<Order>;
pub type OrderQueue = Receiver<Order>;

/// The thread's state.
pub struct Work {
    pub output: Arc<Output>,
    pub pictures: Arc<Pictures>,
    pub happenings: UnboundedSender<Happening>,
    pub clock: Clock,
}

/// Ends, and waits for the end, when dropped.
pub struct ShowThread {
    orders: Orders,
    thread: Option<JoinHandle<()>>,
}

impl ShowThread {
    /// `failures` gets the reason if nothing can be shown any more.
    pub fn start(
        work: Work,
        (orders, order_queue): (Orders, OrderQueue),
        failures: UnboundedSender<ClientError>,
    ) -> Result<Self, ClientError> {
        let show = move || {
            if let Err(error) = work.run(&order_queue) {
                let _ = failures.send(error);
            }
        };
        let thread = std::thread::Builder::new().name("display".into()).spawn(show);
        let thread = thread.map_err(|source| ClientError::system("thread for the display", source))?;
        Ok(Self { orders, thread: Some(thread) })
    }
}

impl Drop for ShowThread {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Quit);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Work {
    fn run(self, orders: &OrderQueue) -> Result<(), ClientError> {
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
            // Orders are looked at before the next picture: one may be to quit.
            let order = if self.pictures.has_waiting() {
                orders.try_recv().unwrap_or(Order::Picture)
            } else {
                orders.recv().unwrap_or(Order::Quit)
            };
            let Order::Picture = order else { return Ok(()) };
            let Some(waiting) = self.pictures.take(self.clock.now()) else { continue };
            canvas.draw(&waiting.picture, Pixels { bytes: &mut buffers[back], pitch: pitches[back] })?;
            self.output.show(back)?;
            let (ticket, marker, at) = (waiting.ticket, waiting.marker, self.clock.now());
            // A player that has ended needs no report.
            let _ = self.happenings.send(Happening::Displayed { ticket, at, marker });
            self.pictures.give_back(at, waiting);
            back = 1 - back;
        }
    }
}
