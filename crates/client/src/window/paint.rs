//! The painter on a thread of its own: a slow graphics adapter delays neither the user's input nor the decoder.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nearlight_net::Clock;
use nearlight_units::{Span, Time};
use nearlight_viewer::player::Happening;
use tokio::sync::mpsc::UnboundedSender;

use super::painter::Painter;
use crate::ClientError;
use crate::pictures::Pictures;

/// What there is to do.
#[derive(PartialEq)]
enum Order {
    /// A picture waits.
    Picture,
    /// The window has another size, in pixels.
    Size(u32, u32),
    /// The window lost what it showed.
    Again,
    Quit,
}

/// Sends orders to the thread; orders that accumulate while it draws are merged.
#[derive(Clone)]
pub struct Orders(Sender<Order>);

impl Orders {
    // A thread that has ended ignores orders; the reason was passed to `on_failure`.

    pub fn show_next(&self) {
        let _ = self.0.send(Order::Picture);
    }

    pub fn set_size(&self, width: u32, height: u32) {
        let _ = self.0.send(Order::Size(width, height));
    }

    pub fn show_again(&self) {
        let _ = self.0.send(Order::Again);
    }
}

/// Orders whose thread has not started yet.
pub struct OrderQueue(Receiver<Order>);

pub fn order_queue() -> (Orders, OrderQueue) {
    let (orders, order_queue) = channel();
    (Orders(orders), OrderQueue(order_queue))
}

/// Ends, and waits for the end, when dropped.
pub struct PaintThread {
    orders: Orders,
    thread: Option<JoinHandle<()>>,
}

/// The thread's state.
pub struct Work {
    pub painter: Painter,
    pub pictures: Arc<Pictures>,
    pub happenings: UnboundedSender<Happening>,
    pub clock: Clock,
    pub refresh_interval: Span,
    /// The display takes no other picture before.
    pub next_at: Time,
}

impl PaintThread {
    /// `on_failure` hears why nothing can be painted any more.
    pub fn start(
        work: Work,
        (orders, order_queue): (Orders, OrderQueue),
        on_failure: impl FnOnce(ClientError) + Send + 'static,
    ) -> Result<Self, ClientError> {
        let paint = move || {
            if let Err(error) = work.run(&order_queue) {
                on_failure(error);
            }
        };
        let thread = std::thread::Builder::new()
            .name("painter".into())
            .spawn(paint)
            .map_err(|source| ClientError::system("thread for the painter", source))?;
        Ok(Self { orders, thread: Some(thread) })
    }

    pub const fn orders(&self) -> &Orders {
        &self.orders
    }
}

impl Drop for PaintThread {
    fn drop(&mut self) {
        let _ = self.orders.0.send(Order::Quit);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Work {
    fn run(mut self, OrderQueue(orders): &OrderQueue) -> Result<(), ClientError> {
        loop {
            let first = if self.pictures.has_waiting() {
                let nanos = self.next_at.saturating_since(self.clock.now()).as_nanos();
                orders.recv_timeout(Duration::from_nanos(nanos.cast_unsigned()))
            } else {
                orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            if first == Err(RecvTimeoutError::Disconnected) {
                return Ok(());
            }
            let (mut size, mut again) = (None, false);
            for order in first.into_iter().chain(orders.try_iter()) {
                match order {
                    Order::Picture => {}
                    Order::Again => again = true,
                    Order::Size(width, height) => size = Some((width, height)),
                    Order::Quit => return Ok(()),
                }
            }
            if let Some((width, height)) = size {
                self.painter.set_size(width, height);
            }
            self.show(again || size.is_some())?;
        }
    }

    /// Shows the next picture, if it is its turn, and informs the player when it was submitted to the display; else redraws the previous
    /// one, where that is wanted.
    fn show(&mut self, again: bool) -> Result<(), ClientError> {
        let now = self.clock.now();
        let next = if now < self.next_at { None } else { self.pictures.take(now) };
        let Some(waiting) = next else { return if again { self.painter.draw().map(|_| ()) } else { Ok(()) } };
        self.painter.upload(&waiting.picture);
        let drawn = self.painter.draw()?;
        let at = self.clock.now();
        if drawn {
            let (ticket, marker) = (waiting.ticket, waiting.marker);
            // A player that has ended needs no report.
            let _ = self.happenings.send(Happening::Displayed { ticket, at, marker });
        }
        self.pictures.give_back(at, waiting);
        // Where drawing does not wait for the display, two pictures in one of its intervals would be one that is never seen.
        let waits = self.pictures.shows_in_turn() && !self.painter.waits_for_display();
        self.next_at = if waits { at + self.refresh_interval } else { at };
        Ok(())
    }
}
