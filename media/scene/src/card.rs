//! A test card. Each part of it reveals a particular fault of the pipeline.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use nearlight_units::{Span, Time, lock};
use nearlight_wire::{Base64, CursorShape, Devices, HandJoints, Haptics, HapticsTarget, InputEvent};

use crate::canvas::{Canvas, check_size};
use crate::push::{FrameTimer, Watch};
use crate::{
    Application, ApplicationMessage, Damage, DevicesDescription, Output, PictureSink, PushSource, RenderRequest,
    RenderedPicture, SceneError, Source, SubmittedPicture, Viewer, ViewerInput,
};

/// Time for which a bright border responds to an input event.
const FLASH_DURATION: Span = Span::from_millis(200);
/// Colour bars at 75 % of full brightness.
const BARS: [[u8; 3]; 7] =
    [[191, 191, 191], [191, 191, 0], [0, 191, 191], [0, 191, 0], [191, 0, 191], [191, 0, 0], [0, 0, 191]];

/// A message that requests a line of text about each input event.
const REPORT_MESSAGE: &[u8] = b"report input";
/// Prefix of a message that sets the viewer's pointer: `captured` or `free`, and a CSS keyword or `image`.
const POINTER_PREFIX: &str = "pointer ";
/// Length of the vibration in response to a button, in milliseconds. Guess: as short as a click of the button itself.
const VIBRATION_MILLISECONDS: u16 = 60;
/// Side of the pointer's image in pixels.
const CROSSHAIR_SIDE: u8 = 32;
/// Answers that may wait to be fetched. Beyond that, the oldest are dropped.
const MAX_QUEUED_ANSWERS: usize = 256;

/// A source that responds to everything that viewers send, so that each path through the pipeline can be observed. The border flashes on
/// input, a gamepad or controller vibrates when one of its buttons is pressed, and messages and clipboard text are echoed. After the
/// message `report input` a viewer receives a message for every further input event, and when hands or gaze begin or end. `pointer free
/// image` gives the viewer's pointer an image; `pointer captured grab` gives it that shape and captures it.
///
/// The picture has colour bars, a grey ramp, a resolution wedge, a moving block and a counter of pictures as a row of lights.
#[derive(Debug, Default)]
pub struct TestCard {
    now: Time,
    flash_until: Time,
    /// The static part, at the size that it was drawn for.
    still: Canvas,
    canvas: Canvas,
    scratch: Canvas,
    /// Counts the pictures drawn; the row of lights shows it.
    drawn: u32,
    /// Viewers that requested reports, and which hands and gaze were reported to them.
    reporting: BTreeMap<Viewer, TrackedDevices>,
    answers: VecDeque<(Viewer, Output)>,
}

/// Which hands are tracked joint by joint, and whether the gaze is tracked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TrackedDevices {
    hands: [bool; 2],
    gaze: bool,
}

impl TrackedDevices {
    /// Returns the changes as text for people and scripts, with positions in metres.
    fn changes(&mut self, devices: &Devices, hands: &[Option<HandJoints>; 2]) -> Vec<String> {
        let place = |[x, y, z]: [f32; 3]| format!("{x:.2} {y:.2} {z:.2}");
        let now = Self { hands: hands.each_ref().map(Option::is_some), gaze: devices.gaze.is_some() };
        let before = std::mem::replace(self, now);
        let mut lines = Vec::new();
        for (index, name) in ["left", "right"].into_iter().enumerate() {
            match &hands[index] {
                Some(hand) if !before.hands[index] => {
                    let tip = [0, 1, 2].map(|axis| hand.wrist[axis] + hand.joints[INDEX_TIP].offset[axis]);
                    lines.push(format!("hand {name} wrist at {}, index tip at {}", place(hand.wrist), place(tip)));
                }
                None if before.hands[index] => lines.push(format!("hand {name} gone")),
                _ => {}
            }
        }
        match devices.gaze {
            Some(gaze) if !before.gaze => lines.push(format!("gaze from {}", place(gaze.position))),
            None if before.gaze => lines.push("gaze gone".into()),
            _ => {}
        }
        lines
    }
}

impl TestCard {
    fn report(&mut self, viewer: Viewer, line: String) {
        let message = ApplicationMessage { data: line.into_bytes(), reliable: true };
        self.answer(viewer, Output::Message(message));
    }

    fn answer(&mut self, viewer: Viewer, output: Output) {
        if self.answers.len() == MAX_QUEUED_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((viewer, output));
    }

    fn draw(&mut self, width: u16, height: u16) {
        if (self.still.width, self.still.height) != (width, height) {
            self.still = still(width, height);
        }
        self.scratch.copy_from(&self.still);
        let card = &mut self.scratch;
        let (across, down) = (usize::from(width), usize::from(height));
        // The block crosses the picture in four seconds, a few pixels per frame at 60 frames per second.
        let side = down / 9;
        let share = (self.now.as_nanos() % 4_000_000_000) as f64 / 4e9;
        let left = (share * across.saturating_sub(side) as f64) as usize;
        card.fill((left, down * 70 / 100), (side, side), [255, 210, 80]);
        let (light, number) = (across / 34, self.drawn);
        self.drawn = number.wrapping_add(1);
        for bit in 0..32 {
            let on = number >> (31 - bit) & 1 == 1;
            let colour = if on { [255; 3] } else { [24; 3] };
            card.fill((light + light * bit as usize, down * 92 / 100), (light * 3 / 4, down / 20), colour);
        }
        if self.now < self.flash_until {
            let edge = down / 24;
            card.fill((0, 0), (across, edge), [255; 3]);
            card.fill((0, down - edge), (across, edge), [255; 3]);
            card.fill((0, 0), (edge, down), [255; 3]);
            card.fill((across - edge, 0), (edge, down), [255; 3]);
        }
    }
}

/// Index of the index finger's tip among the joints of a hand in WebXR's order.
const INDEX_TIP: usize = 9;

/// Returns the device whose button was pressed.
const fn vibrating_device(event: &InputEvent) -> Option<HapticsTarget> {
    match *event {
        InputEvent::GamepadButton { gamepad, pressed: true, .. } => Some(HapticsTarget::Gamepad(gamepad)),
        InputEvent::ControllerButton { hand, pressed: true, .. } => Some(HapticsTarget::Controller(hand)),
        _ => None,
    }
}

/// Parses a message that begins with [`POINTER_PREFIX`].
fn pointer(message: &[u8]) -> Option<Output> {
    let (mode, shape) = str::from_utf8(message).ok()?.strip_prefix(POINTER_PREFIX)?.split_once(' ')?;
    let cursor = if shape == "image" { crosshair() } else { CursorShape::Named(shape.to_owned()) };
    Some(Output::Pointer { cursor, captured: mode == "captured" })
}

/// Returns an image of a red cross around the pixel that points.
fn crosshair() -> CursorShape {
    let middle = CROSSHAIR_SIDE / 2;
    let pixels =
        (0..CROSSHAIR_SIDE).flat_map(|row| (0..CROSSHAIR_SIDE).map(move |column| row == middle || column == middle));
    let rgba = pixels.flat_map(|on| if on { [255, 0, 0, 255] } else { [0; 4] }).collect();
    CursorShape::Image { width: CROSSHAIR_SIDE, height: CROSSHAIR_SIDE, hotspot: [middle; 2], rgba: Base64(rgba) }
}

/// Returns the text of an event, for people and scripts.
fn words(event: &InputEvent) -> String {
    let down = |pressed: bool| if pressed { "down" } else { "up" };
    match event {
        InputEvent::Key { key, pressed } => format!("key 0x{:06x} {}", key.0, down(*pressed)),
        InputEvent::KeyRepeated { key } => format!("key 0x{:06x} repeated", key.0),
        InputEvent::KeyCharacter { key, character } => format!("key 0x{:06x} means {character}", key.0),
        InputEvent::Text(text) => format!("text {text}"),
        InputEvent::Button { button, pressed, at } => {
            format!("button {} {} at {} {}", *button as u8, down(*pressed), at.x, at.y)
        }
        InputEvent::TouchBegan { id, at } => format!("touch {id} began at {} {}", at.x, at.y),
        InputEvent::TouchEnded { id, cancelled, .. } => {
            format!("touch {id} {}", if *cancelled { "cancelled" } else { "ended" })
        }
        InputEvent::GamepadButton { gamepad, button, pressed } => {
            format!("gamepad {gamepad} button {button} {}", down(*pressed))
        }
        InputEvent::ControllerButton { hand, button, pressed } => {
            format!("controller {hand:?} button {button} {}", down(*pressed)).to_lowercase()
        }
    }
}

fn still(width: u16, height: u16) -> Canvas {
    let mut card = Canvas::new(width, height);
    let (across, down) = (usize::from(width), usize::from(height));
    card.fill((0, 0), (across, down), [16; 3]);
    for (index, colour) in BARS.into_iter().enumerate() {
        let left = across * index / BARS.len();
        card.fill((left, 0), (across * (index + 1) / BARS.len() - left, down * 45 / 100), colour);
    }
    for x in 0..across {
        let grey = (x * 255 / across.max(1)) as u8;
        card.fill((x, down * 45 / 100), (1, down * 12 / 100), [grey; 3]);
        // The wedge has lines of one to eight pixels, finer to the right.
        let period = 16 - 14 * x / across;
        let white = x % period.max(2) < period.max(2) / 2;
        card.fill((x, down * 58 / 100), (1, down * 9 / 100), if white { [235; 3] } else { [16; 3] });
    }
    card
}

impl Application for TestCard {
    fn describe(&self) -> String {
        "test card".into()
    }

    fn on_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput) {
        if !input.events.is_empty() {
            self.flash_until = now + FLASH_DURATION;
        }
        for target in input.events.iter().filter_map(vibrating_device) {
            let haptics = Haptics { target, milliseconds: VIBRATION_MILLISECONDS, strong: 0.5, weak: 1.0 };
            self.answer(viewer, Output::Haptics(haptics));
        }
        if let Some(tracked) = self.reporting.get_mut(&viewer) {
            let changes = tracked.changes(&input.devices, &input.hands);
            for line in input.events.iter().map(words).chain(changes) {
                self.report(viewer, line);
            }
        }
    }

    fn on_viewer_left(&mut self, viewer: Viewer) {
        self.reporting.remove(&viewer);
    }

    fn on_devices(&mut self, _now: Time, viewer: Viewer, devices: &DevicesDescription) {
        if self.reporting.contains_key(&viewer) {
            let names = devices.gamepads.iter().map(|gamepad| format!("gamepad {} is {}", gamepad.index, gamepad.name));
            let profiles = devices.controllers.iter().filter_map(|controller| controller.profiles.first());
            for line in names.chain(profiles.map(|profile| format!("controller is {profile}"))) {
                self.report(viewer, line);
            }
        }
    }

    fn on_message(&mut self, _now: Time, viewer: Viewer, message: ApplicationMessage) {
        if message.data == REPORT_MESSAGE {
            self.reporting.entry(viewer).or_default();
        }
        if let Some(pointer) = pointer(&message.data) {
            self.answer(viewer, pointer);
        }
        self.answer(viewer, Output::Message(message));
    }

    fn on_clipboard(&mut self, _now: Time, viewer: Viewer, text: String) {
        self.answer(viewer, Output::Clipboard(text));
    }

    fn poll_output(&mut self) -> Option<(Viewer, Output)> {
        self.answers.pop_front()
    }
}

impl Source for TestCard {
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    fn render(
        &mut self,
        request: &RenderRequest<'_>,
        take: &mut dyn FnMut(RenderedPicture<'_>),
    ) -> Result<(), SceneError> {
        check_size(request.width, request.height)?;
        let copies = request.views.len().max(1);
        self.draw(request.width / copies as u16, request.height);
        if (self.canvas.width, self.canvas.height) != (request.width, request.height) {
            self.canvas = Canvas::new(request.width, request.height);
        }
        self.canvas.tile(&self.scratch, copies);
        take(RenderedPicture::Pixels(self.canvas.pixels()));
        Ok(())
    }
}

/// The test card as a source that paces itself, with the same pictures for all viewers.
#[derive(Debug)]
pub struct PacedTestCard {
    size: (u16, u16),
    fps: u16,
    card: Arc<Mutex<TestCard>>,
    watch: Option<Watch>,
}

impl PacedTestCard {
    /// Creates a source of pictures of this size, at `fps` pictures per second.
    pub fn new(size: (u16, u16), fps: u16) -> Result<Self, SceneError> {
        check_size(size.0, size.1)?;
        Ok(Self { size, fps, card: Arc::default(), watch: None })
    }
}

impl PacedTestCard {
    fn card(&self) -> MutexGuard<'_, TestCard> {
        lock(&self.card)
    }
}

impl Application for PacedTestCard {
    fn describe(&self) -> String {
        self.card().describe()
    }

    fn on_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput) {
        self.card().on_input(now, viewer, input);
    }

    fn on_viewer_left(&mut self, viewer: Viewer) {
        self.card().on_viewer_left(viewer);
    }

    fn on_devices(&mut self, now: Time, viewer: Viewer, devices: &DevicesDescription) {
        self.card().on_devices(now, viewer, devices);
    }

    fn on_message(&mut self, now: Time, viewer: Viewer, message: ApplicationMessage) {
        self.card().on_message(now, viewer, message);
    }

    fn on_clipboard(&mut self, now: Time, viewer: Viewer, text: String) {
        self.card().on_clipboard(now, viewer, text);
    }

    fn poll_output(&mut self) -> Option<(Viewer, Output)> {
        self.card().poll_output()
    }
}

impl PushSource for PacedTestCard {
    fn start(&mut self, sink: Arc<dyn PictureSink>) -> std::io::Result<()> {
        let (watch, mut timer) = FrameTimer::new(self.fps);
        let (card, (width, height)) = (Arc::clone(&self.card), self.size);
        thread::Builder::new().name("test card".into()).spawn(move || {
            while let Some(at) = timer.wait(&|| sink.now()) {
                let mut card = lock(&card);
                card.advance(at);
                card.draw(width, height);
                let pixels = card.scratch.pixels();
                sink.submit(&SubmittedPicture { pixels, captured_at: at, damage: Damage::All, views: &[] });
            }
        })?;
        self.watch = Some(watch);
        Ok(())
    }

    fn set_watched(&mut self, watched: bool) {
        if let Some(watch) = &self.watch {
            watch.set(watched);
        }
    }
}
