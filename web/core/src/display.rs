//! The queue of decoded pictures before the page's display, by numbers that stand for pictures.

use nearlight_session::DisplayOrder;
use nearlight_units::Span;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::{server_time, time};

/// Which decoded picture the display shows next. Times are in microseconds.
#[wasm_bindgen]
pub struct DisplayQueue(nearlight_session::DisplayQueue<u32>);

#[wasm_bindgen]
impl DisplayQueue {
    /// `order`: `in-turn` or `newest`; anything else is `in-turn`.
    #[wasm_bindgen(constructor)]
    pub fn new(order: &str) -> Self {
        Self(nearlight_session::DisplayQueue::new(order.parse().unwrap_or(DisplayOrder::InTurn)))
    }

    /// How often the display takes another picture; not a number where that is not known.
    pub fn set_refresh_interval(&mut self, micros: f64) {
        self.0.set_refresh_interval((micros > 0.0).then(|| Span::from_secs_f64(micros / 1e6)));
    }

    /// A picture was decoded: when its capture began on the server's clock, and when it is late on the page's, or infinity.
    pub fn push(&mut self, captured_at: f64, deadline: f64, picture: u32) {
        self.0.push(server_time(captured_at), deadline.is_finite().then(|| time(deadline)), picture);
    }

    /// The picture to be painted next, for the next refresh.
    pub fn take(&mut self, now: f64) -> Option<u32> {
        self.0.take_ahead(time(now))
    }

    /// What was painted goes to the display.
    pub fn on_refresh(&mut self, now: f64) {
        self.0.on_refresh(time(now));
    }

    /// A picture that will not be shown.
    pub fn poll_skipped(&mut self) -> Option<u32> {
        self.0.poll_skipped()
    }

    #[wasm_bindgen(getter)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a picture may wait for its turn behind another.
    #[wasm_bindgen(getter)]
    pub fn shows_in_turn(&self) -> bool {
        self.0.shows_in_turn()
    }
}
