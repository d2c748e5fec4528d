//! A viewer in a window, with mouse, keys, fingers and gamepads.
//!
//! A picture counts as displayed once it is in the display's queue. The marker is read from the luma rows below the same picture. Pixels
//! are copied twice after decoding: out of the decoder's memory, and into the graphics adapter's.

mod clipboard;
mod cursor;
mod paint;
mod painter;

use std::sync::Arc;

use nearlight_codec::Size;
use nearlight_events::Summary;
use nearlight_net::Clock;
use nearlight_session::DeviceInput;
use nearlight_units::{Span, Time};
use nearlight_viewer::player::{Player, PointerRequest, Status, UserOutput, WatchStatus, channels};
use nearlight_wire::DevicesDescription;
use tokio::sync::watch;
use winit::application::ApplicationHandler;
use winit::dpi::{PhysicalPosition, PhysicalSize};
use winit::event::{DeviceEvent, DeviceId, ElementState, Ime, MouseScrollDelta, Touch, WindowEvent};
use winit::event_loop::{ActiveEventLoop, ControlFlow, EventLoop, EventLoopProxy};
use winit::keyboard::{Key as LogicalKey, PhysicalKey};
use winit::platform::modifier_supplement::KeyEventExtModifierSupplement as _;
use winit::window::{CursorGrabMode, Window, WindowId};

use crate::controls::{ControlEffects, Controls, KeyPress, PIXELS_PER_NOTCH, STEP_INTERVAL};
use crate::fingers::FingerEvent;
use crate::gamepads::{self, GamepadReport};
use crate::letterbox::letterbox;
use crate::pictures::Pictures;
use crate::steering::{ControlRequest, Steering};
use crate::{ClientError, WindowOptions, screenshot};
use clipboard::ClipboardThread;
use paint::{PaintThread, PaintWorker};
use painter::Painter;

/// Refresh rate reported to the server if the system does not know the display's.
const DEFAULT_REFRESH_HZ: u16 = 60;
const TITLE: &str = "Nearlight";

/// Events from other threads for the window.
enum UserEvent {
    Status(Status),
    Gamepads(GamepadReport),
    Ended(Box<Result<Summary, ClientError>>),
}

/// Opens a window and watches until it is closed or the options' length has passed. Blocks; call it on the main thread.
pub fn run(options: WindowOptions) -> Result<Summary, ClientError> {
    let event_loop = event_loop()?;
    let mut app = App::new(options, event_loop.create_proxy());
    event_loop.run_app(&mut app).map_err(|error| no_window(&error))?;
    let summary = app.outcome.unwrap_or_else(|| Err(ClientError::Window("the system ended it".into())))?;
    if let Some(file) = app.options.view.record.screenshot {
        let shown = app.pictures.and_then(|pictures| pictures.take_last());
        screenshot::save(&shown.ok_or_else(|| ClientError::NoScreenshot(file.clone()))?, &file)?;
    }
    Ok(summary)
}

fn event_loop() -> Result<EventLoop<UserEvent>, ClientError> {
    let mut builder = EventLoop::with_user_event();
    // Tests need an event loop outside the main thread, which only Linux allows.
    #[cfg(target_os = "linux")]
    {
        winit::platform::x11::EventLoopBuilderExtX11::with_any_thread(&mut builder, true);
        winit::platform::wayland::EventLoopBuilderExtWayland::with_any_thread(&mut builder, true);
    }
    builder.build().map_err(|error| no_window(&error))
}

/// Converts an error of the window library, whose message begins with a location in its own source.
fn no_window(error: &dyn std::fmt::Display) -> ClientError {
    let words = error.to_string();
    let bare = words.strip_prefix("os error at ").and_then(|placed| placed.split_once(": "));
    ClientError::Window(bare.map_or(words.as_str(), |(_, bare)| bare).trim_end_matches('.').to_owned())
}

/// The window's thread.
struct App {
    options: WindowOptions,
    clock: Clock,
    proxy: EventLoopProxy<UserEvent>,
    active: Option<ActiveWindow>,
    pictures: Option<Arc<Pictures>>,
    outcome: Option<Result<Summary, ClientError>>,
}

/// State that exists once the system has created the window.
struct ActiveWindow {
    /// Declared before the window, because the thread's surface must be dropped before it.
    paint: PaintThread,
    window: Arc<Window>,
    steering: Steering,
    stop: watch::Sender<bool>,
    pointer: watch::Receiver<PointerRequest>,
    /// Whether the application hides the pointer.
    pointer_hidden: bool,
    descriptions: watch::Sender<DevicesDescription>,
    /// `None` if the user does not share the clipboard.
    clipboard: Option<ClipboardThread>,
    /// Size of the picture in pixels; `None` before the first one.
    picture: Option<Size>,
    pictures: Arc<Pictures>,
    step_at: Time,
    clock: Clock,
}

impl App {
    fn new(options: WindowOptions, proxy: EventLoopProxy<UserEvent>) -> Self {
        Self { options, clock: Clock::start(), proxy, active: None, pictures: None, outcome: None }
    }

    fn open(&self, event_loop: &ActiveEventLoop) -> Result<ActiveWindow, ClientError> {
        let (width, height) = self.options.size;
        let attributes =
            Window::default_attributes().with_title(TITLE).with_inner_size(PhysicalSize::new(width, height));
        let window = event_loop.create_window(attributes).map_err(|error| no_window(&error))?;
        let window = Arc::new(window);
        let painter = Painter::new(Arc::clone(&window), event_loop.owned_display_handle())?;
        tracing::info!(adapter = painter.adapter(), "the window is open");
        let (handles, ports) = channels();
        let keep = self.options.view.record.screenshot.is_some();
        let (commands, command_queue) = paint::command_queue();
        let waker = commands.clone();
        let display_hz = refresh_rate(&window);
        let order = self.options.view.display_order;
        let pictures = Arc::new(Pictures::new(order, display_hz, keep, Box::new(move || waker.show_next())));
        let failure = self.proxy.clone();
        let worker = PaintWorker {
            painter,
            pictures: Arc::clone(&pictures),
            reports: handles.picture_reports,
            clock: self.clock,
            refresh_interval: Span::from_secs(1) / i64::from(display_hz),
            next_at: self.clock.now(),
        };
        let paint = PaintThread::start(worker, (commands, command_queue), move |error| {
            drop(failure.send_event(UserEvent::Ended(Box::new(Err(error)))));
        })?;
        let clipboard =
            self.options.view.clipboard.then(|| ClipboardThread::start(handles.inputs.clone())).transpose()?;
        let reports = self.proxy.clone();
        let haptics = gamepads::start(move |report| drop(reports.send_event(UserEvent::Gamepads(report))))?;
        let texts = clipboard.clone();
        let status = self.proxy.clone();
        let player = Player {
            clock: self.clock,
            options: self.options.view.clone(),
            display_hz,
            screen: Arc::clone(&pictures) as Arc<_>,
            ports,
            on_status: Box::new(move |now| drop(status.send_event(UserEvent::Status(now)))),
            on_output: Box::new(move |output| match output {
                // Fails if the thread has ended, and it has logged why, or if more effects wait than can be felt.
                UserOutput::Haptics(pulse) => drop(haptics.try_send(pulse)),
                UserOutput::Clipboard(text) => texts.iter().for_each(|clipboard| clipboard.write(text.clone())),
                UserOutput::Welcome(_) | UserOutput::Stream(_) => {}
            }),
            on_sound: Box::new(|_, _| ()),
        };
        let proxy = self.proxy.clone();
        let thread = std::thread::Builder::new().name("player".into());
        thread
            .spawn(move || drop(proxy.send_event(UserEvent::Ended(Box::new(play(player))))))
            .map_err(|source| ClientError::system("thread for the player", source))?;
        Ok(ActiveWindow {
            paint,
            window,
            steering: Steering::new(handles.start, handles.inputs, self.clock),
            stop: handles.stop,
            pointer: handles.pointer,
            pointer_hidden: false,
            descriptions: handles.devices,
            clipboard,
            picture: None,
            pictures,
            step_at: self.clock.now(),
            clock: self.clock,
        })
    }

    fn end(&mut self, event_loop: &ActiveEventLoop, outcome: Result<Summary, ClientError>) {
        self.outcome.get_or_insert(outcome);
        if let Some(active) = &self.active {
            // If the painter has failed, the player is still running.
            let _ = active.stop.send(true);
        }
        // The window and its surface must be dropped while the event loop still runs.
        self.active = None;
        event_loop.exit();
    }
}

/// Runs the player on its thread.
fn play(player: Player) -> Result<Summary, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| ClientError::system("event loop", source))?;
    Ok(runtime.block_on(player.run())?)
}

fn refresh_rate(window: &Window) -> u16 {
    let millihertz = window.current_monitor().and_then(|monitor| monitor.refresh_rate_millihertz());
    let hertz = millihertz.and_then(|rate| u16::try_from((rate + 500) / 1_000).ok());
    hertz.filter(|hertz| *hertz > 0).unwrap_or(DEFAULT_REFRESH_HZ)
}

impl ApplicationHandler<UserEvent> for App {
    fn resumed(&mut self, event_loop: &ActiveEventLoop) {
        if self.active.is_some() || self.outcome.is_some() {
            return;
        }
        match self.open(event_loop) {
            Ok(active) => {
                self.pictures = Some(Arc::clone(&active.pictures));
                self.active = Some(active);
            }
            Err(error) => self.end(event_loop, Err(error)),
        }
    }

    fn user_event(&mut self, event_loop: &ActiveEventLoop, event: UserEvent) {
        let Some(active) = &mut self.active else { return };
        match event {
            UserEvent::Status(status) => {
                if let Status::Watching(watching) = &status {
                    let (width, height) = watching.size;
                    active.picture = Some(Size { width, height });
                }
                active.steering.on_status(&status);
                active.window.set_title(&title(&status));
            }
            UserEvent::Gamepads(GamepadReport::Descriptions(gamepads)) => {
                let controllers = Vec::new();
                active.descriptions.send_replace(DevicesDescription { gamepads, controllers });
            }
            UserEvent::Gamepads(GamepadReport::States(gamepads)) => {
                active.steering.on_gamepads(gamepads);
            }
            UserEvent::Ended(outcome) => self.end(event_loop, *outcome),
        }
    }

    fn window_event(&mut self, _: &ActiveEventLoop, _: WindowId, event: WindowEvent) {
        let Some(active) = &mut self.active else { return };
        match event {
            // The player says goodbye and then returns its summary, which ends the loop.
            WindowEvent::CloseRequested => drop(active.stop.send(true)),
            WindowEvent::Resized(size) => active.paint.commands().set_size(size.width, size.height),
            WindowEvent::RedrawRequested => active.paint.commands().redraw(),
            WindowEvent::KeyboardInput { event, .. } => {
                if let PhysicalKey::Code(code) = event.physical_key {
                    let pressed = event.state == ElementState::Pressed;
                    let character = match event.key_without_modifiers() {
                        LogicalKey::Character(text) => text.chars().next(),
                        _ => None,
                    };
                    let press = KeyPress { code, pressed, text: event.text.as_deref(), character };
                    active.steer(|controls, _| controls.on_key(press));
                }
            }
            WindowEvent::Ime(Ime::Commit(text)) => active.steering.send(DeviceInput::Text(text)),
            WindowEvent::MouseInput { button, state, .. } => {
                let pressed = state == ElementState::Pressed;
                let captures = active.pointer.borrow().captured;
                active.steer(|controls, _| controls.on_button(button, pressed, captures));
            }
            WindowEvent::CursorMoved { position, .. } => {
                let [x, y] = active.picture_point(position);
                active.steer(|controls, _| controls.on_cursor(x, y));
            }
            WindowEvent::Touch(Touch { phase, location, force, id, .. }) => {
                let pressure = force.map_or(1.0, |force| force.normalized() as f32);
                let event =
                    FingerEvent { id, phase, at: active.picture_point(location), pressure, aspect: active.aspect() };
                active.steer(|controls, _| controls.on_finger(event));
            }
            WindowEvent::MouseWheel { delta, .. } => {
                // In winit, turning the wheel away from the user is positive; in browsers, towards the user.
                let (right, down) = match delta {
                    MouseScrollDelta::LineDelta(right, up) => {
                        (-f64::from(right) * PIXELS_PER_NOTCH, -f64::from(up) * PIXELS_PER_NOTCH)
                    }
                    MouseScrollDelta::PixelDelta(pixels) => (-pixels.x, -pixels.y),
                };
                active.steer(|controls, _| controls.on_wheel(right, down));
            }
            WindowEvent::Focused(focused) => {
                if !focused {
                    active.set_captured(false);
                }
                active.steering.set_focused(focused);
            }
            _ => {}
        }
    }

    fn device_event(&mut self, _: &ActiveEventLoop, _: DeviceId, event: DeviceEvent) {
        if let (Some(active), DeviceEvent::MouseMotion { delta: (right, down) }) = (&mut self.active, event) {
            active.steer(|controls, now| controls.on_motion(now, right, down));
        }
    }

    fn about_to_wait(&mut self, event_loop: &ActiveEventLoop) {
        let Some(active) = &mut self.active else { return };
        let now = active.clock.now();
        if now >= active.step_at {
            active.step_at = (active.step_at + STEP_INTERVAL).max(now);
            active.step(event_loop);
        }
        event_loop.set_control_flow(ControlFlow::WaitUntil(active.clock.instant(active.step_at).into_std()));
    }
}

impl ActiveWindow {
    fn step(&mut self, event_loop: &ActiveEventLoop) {
        self.follow_pointer_request(event_loop);
        let request = self.steering.step();
        self.apply(request);
    }

    /// Passes an event to the user's controls and carries out their request.
    fn steer(&mut self, event: impl FnOnce(&mut Controls, Time) -> ControlEffects) {
        let request = self.steering.steer(event);
        self.apply(request);
    }

    fn apply(&mut self, ControlRequest { capture, paste }: ControlRequest) {
        if let Some(capture) = capture {
            self.set_captured(capture);
        }
        if let (true, Some(clipboard)) = (paste, &self.clipboard) {
            clipboard.read();
        }
    }

    /// Converts a point of the window into fractions of the picture's width and height.
    fn picture_point(&self, point: PhysicalPosition<f64>) -> [f32; 2] {
        let [left, top, width, height] = self.picture_area();
        [(point.x as f32 - left) / width.max(1.0), (point.y as f32 - top) / height.max(1.0)]
    }

    /// Returns the picture's width divided by its height.
    fn aspect(&self) -> f32 {
        let [.., width, height] = self.picture_area();
        width.max(1.0) / height.max(1.0)
    }

    fn picture_area(&self) -> [f32; 4] {
        let window = self.window.inner_size();
        let unknown = [0.0, 0.0, window.width as f32, window.height as f32];
        self.picture.map_or(unknown, |picture| letterbox(picture, (window.width, window.height)))
    }

    /// Shows the pointer that the application requests, and releases the mouse if the application does not want it captured.
    fn follow_pointer_request(&mut self, event_loop: &ActiveEventLoop) {
        if !self.pointer.has_changed().unwrap_or(false) {
            return;
        }
        let request = self.pointer.borrow_and_update().clone();
        let cursor = cursor::cursor(&request.cursor, |image| event_loop.create_custom_cursor(image));
        self.pointer_hidden = cursor.is_none();
        if let Some(cursor) = cursor {
            self.window.set_cursor(cursor);
        }
        let captured = self.steering.has_captured_mouse();
        if captured && !request.captured {
            self.set_captured(false);
        } else {
            self.window.set_cursor_visible(!captured && !self.pointer_hidden);
        }
    }

    fn set_captured(&mut self, capture: bool) {
        let window = &self.window;
        let captured = capture
            && window
                .set_cursor_grab(CursorGrabMode::Locked)
                .or_else(|_| window.set_cursor_grab(CursorGrabMode::Confined))
                .inspect_err(|error| tracing::warn!(%error, "the window cannot capture the pointer"))
                .is_ok();
        if !captured {
            let _ = window.set_cursor_grab(CursorGrabMode::None);
        }
        window.set_cursor_visible(!captured && !self.pointer_hidden);
        self.steer(|controls, _| controls.set_captured(captured));
    }
}

fn title(status: &Status) -> String {
    match status {
        Status::Connecting { last_error: None } => format!("{TITLE}: connecting"),
        Status::Connecting { last_error: Some(error) } => format!("{TITLE}: connecting again ({error})"),
        Status::Watching(watching) => {
            let WatchStatus { fps, motion_to_photon, received, size: (width, height), losses, .. } = **watching;
            format!(
                "{TITLE}: {width}×{height}, {fps:.0} fps, {} motion to photon, {:.1} Mb/s, {:.0} % redundant, {} frames recovered, \
                 {} lost{}",
                motion_to_photon.map_or_else(|| "unknown".to_owned(), |span| format!("{:.0} ms", span.as_millis_f64())),
                received.as_mbps_f64(),
                losses.redundancy * 100.0,
                losses.recovered,
                losses.lost,
                losses
                    .recovered_by
                    .map(|kind| format!(", recovered by {}", kind.name().replace('_', " ")))
                    .unwrap_or_default(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_events::RecoveryKind;
    use nearlight_units::Bitrate;

    use nearlight_viewer::player::LossSummary;

    use super::*;

    #[test]
    fn the_title_tells_what_losses_cost() {
        let mut losses = LossSummary { redundancy: 0.024, recovered: 12, lost: 0, recovered_by: None };
        let watching = |losses| WatchStatus {
            fps: 29.97,
            motion_to_photon: Some(Span::from_micros(43_400)),
            received: Bitrate::from_kbps(7_960),
            size: (1_280, 720),
            losses,
            statistics: nearlight_session::ReceiverStatistics::default(),
            clock: None,
        };
        let title = |watching| title(&Status::Watching(Box::new(watching)));
        let clean = title(watching(losses));
        assert!(
            clean.ends_with("43 ms motion to photon, 8.0 Mb/s, 2 % redundant, 12 frames recovered, 0 lost"),
            "{clean}"
        );
        losses.recovered_by = Some(RecoveryKind::LateRepair);
        let recovered = title(watching(losses));
        assert!(recovered.ends_with("0 lost, recovered by late repair"), "{recovered}");
    }
}
