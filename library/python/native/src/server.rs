//! The class `Server`, a server in this process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use nearlight_embed::{
    Content, CursorShape, Event, EventKind, Haptics, HapticsTarget, Host, Link, Options, Picture, SessionStatistics,
    Viewer,
};
use nearlight_units::lock;
use nearlight_viewer::Pointer;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error::{ErrorClass, host_error};
use crate::event::{self, ServerEvent};
use crate::pixels::{PictureLayout, Source, order_of};
use crate::sound::Sound;
use crate::value::{all_of, hand_of, make, view_of, viewer_state};
use crate::wait::{Limit, moment, seconds, wait};

/// `nearlight._server.Server` has the documentation.
#[pyclass(frozen)]
pub(crate) struct Server {
    host: Host,
    closed: AtomicBool,
    queue: Mutex<EventQueue>,
}

/// Events that are converted for the program and wait to be taken.
#[derive(Default)]
struct EventQueue {
    events: VecDeque<ServerEvent>,
    /// Each viewer's pointer, as of the last event of its movement.
    pointers: BTreeMap<u32, Pointer>,
}

impl EventQueue {
    fn push(&mut self, host: &Host, event: Event) {
        let viewer = event.viewer.map_or(0, |viewer| viewer.0);
        match event.kind {
            EventKind::Moved => self.push_moved(host, event, viewer),
            EventKind::ViewerLeft => {
                self.pointers.remove(&viewer);
                self.events.push_back(ServerEvent::Event(event));
            }
            _ => self.events.push_back(ServerEvent::Event(event)),
        }
    }

    fn push_moved(&mut self, host: &Host, event: Event, viewer: u32) {
        let state = host.viewers().into_iter().find(|state| state.viewer.0 == viewer);
        let Some(state) = state else { return self.events.push_back(ServerEvent::Event(event)) };
        if let Some(pointer) = state.devices.pointer {
            let before = self.pointers.insert(viewer, pointer).unwrap_or_default();
            let (moved, scrolled) = pointer.since(&before);
            if moved != [0, 0] || pointer.at != before.at {
                self.events.push_back(ServerEvent::Pointer { event: event.clone(), pointer, moved });
            }
            if pointer.scrolled != before.scrolled {
                self.events.push_back(ServerEvent::Wheel { event: event.clone(), scrolled });
            }
        }
        self.events.push_back(ServerEvent::Moved { event, state: Box::new(state) });
    }
}

impl Server {
    fn queue(&self) -> MutexGuard<'_, EventQueue> {
        lock(&self.queue)
    }

    fn next(&self, limit: Duration) -> Option<ServerEvent> {
        if let Some(event) = self.queue().events.pop_front() {
            return Some(event);
        }
        // The lock is not held during the wait, so that other threads can take events.
        let event = self.host.wait_event(limit)?;
        let mut queue = self.queue();
        queue.push(&self.host, event);
        queue.events.pop_front()
    }

    fn link(&self) -> PyResult<Link> {
        let link = self.host.links().into_iter().next();
        link.ok_or_else(|| ErrorClass::Error.with_message("the server has no link"))
    }
}

#[pymethods]
impl Server {
    /// Opens a server with these options, a JSON object.
    #[new]
    fn open(py: Python<'_>, options: &str) -> PyResult<Self> {
        let options: Options = serde_json::from_str(options).map_err(|error| {
            ErrorClass::Usage.with_message(format!("the options cannot be used: {}", without_position(&error)))
        })?;
        let host = py.detach(|| Host::open(&options)).map_err(|error| host_error(&error))?;
        Ok(Self { host, closed: AtomicBool::new(false), queue: Mutex::default() })
    }

    fn now(&self) -> f64 {
        seconds(self.host.now())
    }

    fn links(&self) -> Vec<String> {
        let (links, ethernet) = (self.host.links(), self.host.ethernet_links());
        links.iter().map(ToString::to_string).chain(ethernet.iter().map(ToString::to_string)).collect()
    }

    fn qr_code(&self, link: Option<&str>) -> PyResult<String> {
        let link = match link {
            Some(text) => Link::parse(text).map_err(|error| ErrorClass::Usage.with_message(error))?,
            None => self.link()?,
        };
        Host::qr_code(&link).map_err(|error| host_error(&error))
    }

    fn is_watched(&self) -> bool {
        self.host.is_watched()
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    #[pyo3(signature = (picture, right, order, bottom_up, size, stride, side_by_side, views, captured_at))]
    #[expect(clippy::too_many_arguments, reason = "Python's caller names them")]
    fn submit(
        &self,
        py: Python<'_>,
        picture: &Bound<'_, PyAny>,
        right: Option<&Bound<'_, PyAny>>,
        order: Option<&str>,
        bottom_up: bool,
        size: Option<(usize, usize)>,
        stride: Option<usize>,
        side_by_side: bool,
        views: &Bound<'_, PyAny>,
        captured_at: Option<f64>,
    ) -> PyResult<()> {
        let layout = PictureLayout { order: order.map(order_of).transpose()?, bottom_up, size, stride };
        let left = Source::new(picture, &layout)?;
        let right = right.map(|right| Source::new(right, &layout)).transpose()?;
        let views = all_of(views, view_of)?;
        let captured_at = captured_at.map(moment).transpose()?;
        let submitted = py.detach(|| {
            let picture = Picture {
                image: left.image(),
                right: right.as_ref().map(Source::image),
                content: Content { captured_at, views: &views, side_by_side },
            };
            self.host.submit(&picture)
        });
        submitted.map_err(|error| host_error(&error))
    }

    fn submit_sound(
        &self,
        py: Python<'_>,
        samples: &Bound<'_, PyAny>,
        rate: u32,
        channels: Option<u16>,
    ) -> PyResult<()> {
        let sound = Sound::new(samples, rate, channels)?;
        py.detach(|| self.host.submit_sound(&sound.portion())).map_err(|error| host_error(&error))
    }

    /// Returns the next event. Waits up to `timeout` seconds for one, or without a timeout until the server is closed.
    fn poll_event<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let limit = Limit::new(timeout)?;
        let event = wait(py, limit, || self.is_closed(), |limit| self.next(limit))?;
        event.map(|event| event::server_event(py, &event)).transpose()
    }

    fn viewers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let states = self.host.viewers();
        let states = states.iter().map(|state| viewer_state(py, state)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, states)
    }

    fn driver<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.host.driver().map(|state| viewer_state(py, &state)).transpose()
    }

    fn send(&self, to: Option<u32>, data: &[u8], reliable: bool) -> PyResult<()> {
        self.host.send(to.map(Viewer), data, reliable).map_err(|error| host_error(&error))
    }

    fn haptics(
        &self,
        to: Option<u32>,
        gamepad: u8,
        hand: Option<&str>,
        seconds: f64,
        strong: f32,
        weak: f32,
    ) -> PyResult<()> {
        let target = match hand {
            Some(hand) => HapticsTarget::Controller(hand_of(hand)?),
            None => HapticsTarget::Gamepad(gamepad),
        };
        if !(0.0..=60.0).contains(&seconds) {
            return Err(ErrorClass::Usage.with_message(format!("a pulse of {seconds} s cannot be: write 0 to 5")));
        }
        let milliseconds = (seconds * 1e3).round() as u16;
        let pulse = Haptics { target, milliseconds, strong, weak };
        self.host.haptics(to.map(Viewer), pulse).map_err(|error| host_error(&error))
    }

    fn set_pointer(&self, to: Option<u32>, shape: String, captured: bool) -> PyResult<()> {
        let shape = CursorShape::Named(shape);
        self.host.set_pointer(to.map(Viewer), shape, captured).map_err(|error| host_error(&error))
    }

    fn set_clipboard(&self, to: Option<u32>, text: &str) -> PyResult<()> {
        self.host.set_clipboard(to.map(Viewer), text).map_err(|error| host_error(&error))
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let known = self.host.statistics();
        let viewers = known.viewers.iter().map(|(viewer, figures)| session(py, *viewer, figures));
        let viewers = PyTuple::new(py, viewers.collect::<PyResult<Vec<_>>>()?)?;
        make(
            py,
            "ServerStatistics",
            (known.submitted, known.unwatched, known.events_dropped, viewers, known.sound_dropped),
        )
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let outcome = py.detach(|| self.host.close());
        self.closed.store(true, Ordering::Relaxed);
        outcome.map_err(|error| host_error(&error))
    }
}

fn session<'py>(py: Python<'py>, viewer: Viewer, figures: &SessionStatistics) -> PyResult<Bound<'py, PyAny>> {
    let SessionStatistics { sender, target } = figures;
    let counts = [
        viewer.0.into(),
        sender.frames,
        sender.skipped,
        sender.key_frames,
        sender.packets,
        sender.packets_lost,
        sender.retransmissions,
        sender.repairs,
        sender.sent.get(),
        sender.sent_rate.as_bps(),
        target.as_bps(),
    ];
    let counts = counts.into_iter().map(|count: u64| Ok(count.into_pyobject(py)?.into_any()));
    let round_trip = sender.round_trip.map(nearlight_embed::Span::as_secs_f64).into_pyobject(py)?;
    let fields = counts.chain([Ok::<_, PyErr>(round_trip)]).collect::<PyResult<Vec<_>>>()?;
    make(py, "SessionStatistics", PyTuple::new(py, fields)?)
}

/// Returns the error's message without its position, because the caller never saw the JSON text.
pub(crate) fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}
