//! The display's window manager, and what else its windows report: the pointer's shape and the clipboard.
//!
//! What it decides is in [`crate::layout`]. It follows ICCCM 2.0 and as much of the Extended Window Manager Hints 1.5 as programs without
//! frames need: full screen, activation, closing, window types, lists of windows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use nearlight_wire::CursorShape;
use x11rb::connection::Connection as _;
use x11rb::properties::WmHints;
use x11rb::protocol::Event;
use x11rb::protocol::xfixes::{self, ConnectionExt as _, CursorNotifyMask};
use x11rb::protocol::xproto::{
    self, Allow, Atom, AtomEnum, ButtonIndex, ChangeWindowAttributesAux, ClientMessageEvent, ConfigureNotifyEvent,
    ConfigureRequestEvent, ConfigureWindowAux, ConnectionExt as _, CreateWindowAux, EventMask, GrabMode, GrabStatus,
    InputFocus, MapState, ModMask, PropMode, StackMode, Window, WindowClass,
};
use x11rb::wrapper::ConnectionExt as _;

use crate::DisplayError;
use crate::clipboard::Clipboard;
use crate::connection::{Bell, Display, XError};
use crate::cursor::{CursorImage, hidden, shape_of};
use crate::facts::{Atoms, read_facts};
use crate::layout::{Layout, Rectangle, WindowFacts};
use crate::screen::{Screen, ScreenSize, size_for};

/// The left-pointing arrow of X's cursor font, and its mask.
const ARROW: u16 = 68;
/// A hidden pointer is looked at again after so many milliseconds each: a program that captures it hides it first and grabs it then.
const LOOKS_AGAIN: [u64; 3] = [50, 150, 400];
/// Pixels around what floats, and their colour: seen on light and on dark.
const BORDER: u16 = 1;
const BORDER_COLOUR: u32 = 0x70_7070;
/// Characters of a title that viewers get.
pub(crate) const MAX_TITLE: usize = 120;

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// A viewer chose this window.
    Activate(Window),
    Close(Window),
    /// The display is for a viewer's window of this size.
    Resize((u16, u16)),
    /// A viewer's clipboard has this text.
    Clipboard(String),
}

/// What it tells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    Pointer {
        cursor: CursorShape,
        captured: bool,
    },
    Clipboard(String),
    /// The display has another size.
    Resized,
    /// The windows to choose from: which, its title, and whether it is seen.
    Windows(Vec<(Window, String, bool)>),
}

pub(crate) struct Windows {
    display: Display,
    screen: Screen,
    /// What the display's size follows up to.
    largest: Option<(u16, u16)>,
    atoms: Atoms,
    layout: Layout,
    clipboard: Clipboard,
    /// Another window manager runs on an existing display.
    manages: bool,
    captured: Arc<AtomicBool>,
    choices: Vec<(Window, String, bool)>,
    /// What viewers were told of it.
    pointer: Option<(CursorShape, bool)>,
    /// How many times a hidden pointer was looked at.
    looks: usize,
    /// Windows that take the keyboard once they are clicked.
    grabbed: Vec<Window>,
    newest: u32,
}

impl Windows {
    /// `largest` is what the display's size may follow up to, from `wanted` on; none leaves it as it is.
    pub(crate) fn open(
        display: Display,
        captured: Arc<AtomicBool>,
        size: ScreenSize,
        (wanted, largest): ((u16, u16), Option<(u16, u16)>),
    ) -> Result<Self, DisplayError> {
        display.needs(xfixes::X11_EXTENSION_NAME)?;
        let wrong = |error: XError| DisplayError::Display { name: "of the program".into(), reason: error.to_string() };
        let atoms = Atoms::new(&display.connection)
            .map_err(XError::from)
            .and_then(|atoms| Ok(atoms.reply()?))
            .map_err(wrong)?;
        let clipboard = {
            let version = display.connection.xfixes_query_version(5, 0).map_err(XError::from);
            version.and_then(|version| Ok(version.reply()?)).and_then(|_| Clipboard::open(&display)).map_err(wrong)?
        };
        let layout = Layout::new(display.size);
        let (choices, grabbed) = (Vec::new(), Vec::new());
        let (pointer, looks, newest) = (None, LOOKS_AGAIN.len(), 0);
        let manages = false;
        let screen = match largest {
            Some(_) => Screen::open(&display, size.clone()).map_err(wrong)?,
            None => None,
        };
        if largest.is_some() && screen.is_none() {
            tracing::warn!("the display keeps its size, as its X server has no RANDR 1.3; --size chooses one");
        }
        let screen = screen.unwrap_or_else(|| Screen::fixed(size));
        let mut windows = Self {
            display,
            screen,
            largest,
            atoms,
            layout,
            clipboard,
            manages,
            captured,
            choices,
            pointer,
            looks,
            grabbed,
            newest,
        };
        windows.prepare().map_err(wrong)?;
        if largest.is_some() {
            windows.resize(wanted);
        }
        Ok(windows)
    }

    /// Whether this is the display's window manager: not where there is another.
    pub(crate) const fn manages(&self) -> bool {
        self.manages
    }

    fn prepare(&mut self) -> Result<(), XError> {
        let Self { display: Display { connection, root, .. }, atoms, .. } = self;
        let root = *root;
        connection.xfixes_select_cursor_input(root, CursorNotifyMask::DISPLAY_CURSOR)?;
        let events = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
        let attributes = ChangeWindowAttributesAux::new().event_mask(events);
        if connection.change_window_attributes(root, &attributes)?.check().is_err() {
            // There can be only one window manager.
            return Ok(());
        }
        self.manages = true;
        let (font, arrow) = (connection.generate_id()?, connection.generate_id()?);
        connection.open_font(font, b"cursor")?;
        connection.create_glyph_cursor(arrow, font, font, ARROW, ARROW + 1, 0, 0, 0, !0, !0, !0)?;
        connection
            .change_window_attributes(root, &ChangeWindowAttributesAux::new().cursor(arrow).background_pixel(0))?;
        connection.clear_area(false, root, 0, 0, 0, 0)?;
        let own = connection.generate_id()?;
        connection.create_window(0, own, root, -9, -9, 1, 1, 0, WindowClass::INPUT_ONLY, 0, &CreateWindowAux::new())?;
        connection.set_selection_owner(own, atoms.WM_S0, x11rb::CURRENT_TIME)?;
        for window in [root, own] {
            connection.change_property32(
                PropMode::REPLACE,
                window,
                atoms._NET_SUPPORTING_WM_CHECK,
                AtomEnum::WINDOW,
                &[own],
            )?;
        }
        connection.change_property8(PropMode::REPLACE, own, atoms._NET_WM_NAME, atoms.UTF8_STRING, b"Nearlight")?;
        let supported = [
            atoms._NET_ACTIVE_WINDOW,
            atoms._NET_CLIENT_LIST,
            atoms._NET_CLIENT_LIST_STACKING,
            atoms._NET_CLOSE_WINDOW,
            atoms._NET_FRAME_EXTENTS,
            atoms._NET_SUPPORTING_WM_CHECK,
            atoms._NET_WM_NAME,
            atoms._NET_WM_STATE,
            atoms._NET_WM_STATE_FULLSCREEN,
            atoms._NET_WM_STATE_MAXIMIZED_HORZ,
            atoms._NET_WM_STATE_MAXIMIZED_VERT,
            atoms._NET_WM_WINDOW_TYPE,
            atoms._NET_WORKAREA,
        ];
        connection.change_property32(PropMode::REPLACE, root, atoms._NET_SUPPORTED, AtomEnum::ATOM, &supported)?;
        for (property, number) in [(atoms._NET_NUMBER_OF_DESKTOPS, 1), (atoms._NET_CURRENT_DESKTOP, 0)] {
            connection.change_property32(PropMode::REPLACE, root, property, AtomEnum::CARDINAL, &[number])?;
        }
        self.tell_size()
    }

    /// The display's size, for programs that ask the window manager.
    fn tell_size(&self) -> Result<(), XError> {
        let Self { display: Display { connection, root, size }, atoms, .. } = self;
        let (width, height) = (u32::from(size.0), u32::from(size.1));
        for (property, numbers) in [
            (atoms._NET_DESKTOP_GEOMETRY, vec![width, height]),
            (atoms._NET_DESKTOP_VIEWPORT, vec![0, 0]),
            (atoms._NET_WORKAREA, vec![0, 0, width, height]),
        ] {
            connection.change_property32(PropMode::REPLACE, *root, property, AtomEnum::CARDINAL, &numbers)?;
        }
        connection.flush()?;
        Ok(())
    }

    /// The display becomes as large as a viewer's window, as far as it can. True if its size has changed.
    fn resize(&mut self, wanted: (u16, u16)) -> bool {
        let Some(largest) = self.largest.filter(|_| self.manages) else { return false };
        let resized = self.screen.resize(&self.display, size_for(wanted, largest)).and_then(|resized| {
            if let Some(size) = resized {
                self.display.size = size;
                self.tell_size()?;
                for (window, place) in self.layout.set_screen(size) {
                    self.configure(window, place)?;
                }
            }
            Ok(resized.is_some())
        });
        resized.unwrap_or_else(|error| {
            tracing::warn!(%error, "the display keeps its size; --size chooses one");
            false
        })
    }

    /// Manages windows until nobody gives orders any more.
    pub(crate) fn run(mut self, bell: &Bell, orders: &Receiver<Order>, tell: &dyn Fn(Told)) -> Result<(), XError> {
        self.tell_pointer(tell)?;
        loop {
            match orders.try_recv() {
                Ok(order) => survive(self.on_order(order, tell))?,
                Err(TryRecvError::Empty) => {
                    let again = LOOKS_AGAIN.get(self.looks).copied().map(Duration::from_millis);
                    let event = bell.wait(&self.display, again)?;
                    if event.is_none() && again.is_some() {
                        self.looks += 1;
                        self.tell_pointer(tell)?;
                    }
                    if let Some(event) = event {
                        survive(self.on_event(&event, tell))?;
                    }
                }
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
            let choices = self.layout.choices();
            if choices != self.choices {
                self.choices.clone_from(&choices);
                tell(Told::Windows(choices));
            }
        }
    }

    fn on_order(&mut self, order: Order, tell: &dyn Fn(Told)) -> Result<(), XError> {
        match order {
            Order::Activate(window) => {
                if self.layout.activate(window) {
                    self.show()?;
                }
            }
            Order::Close(window) => {
                if self.layout.facts(window).is_some() {
                    self.close(window)?;
                }
            }
            Order::Resize(wanted) => {
                if self.resize(wanted) {
                    tell(Told::Resized);
                }
            }
            Order::Clipboard(text) => self.clipboard.set(&self.display, text)?,
        }
        Ok(())
    }

    fn on_event(&mut self, event: &Event, tell: &dyn Fn(Told)) -> Result<(), XError> {
        match event {
            Event::MapRequest(request) => self.on_map(request.window)?,
            Event::ConfigureRequest(request) => self.on_configure(request)?,
            Event::UnmapNotify(gone) => self.on_gone(gone.window)?,
            Event::DestroyNotify(gone) => self.on_gone(gone.window)?,
            Event::ClientMessage(message) => self.on_message(message)?,
            Event::PropertyNotify(change) => self.on_property(change.window, change.atom)?,
            Event::ButtonPress(press) => {
                self.newest = press.time;
                if self.layout.activate(press.event) {
                    self.show()?;
                }
                // The program gets the click that brought it to the front.
                self.display.connection.allow_events(Allow::REPLAY_POINTER, press.time)?;
            }
            Event::XfixesCursorNotify(_) => {
                self.looks = 0;
                self.tell_pointer(tell)?;
            }
            Event::XfixesSelectionNotify(change) => self.clipboard.on_owner(&self.display, change.owner)?,
            Event::SelectionNotify(answer) => {
                if let Some(text) = self.clipboard.on_answer(&self.display, answer)? {
                    tell(Told::Clipboard(text));
                }
            }
            Event::SelectionRequest(request) => self.clipboard.on_request(&self.display, request)?,
            _ => {}
        }
        Ok(())
    }

    /// A program that captures the pointer hides and grabs it.
    fn tell_pointer(&mut self, tell: &dyn Fn(Told)) -> Result<(), XError> {
        let image = self.display.connection.xfixes_get_cursor_image()?.reply()?;
        let image = CursorImage {
            size: (image.width, image.height),
            hotspot: (image.xhot, image.yhot),
            pixels: &image.cursor_image,
        };
        let shape = shape_of(&image);
        if shape.is_some() {
            self.looks = LOOKS_AGAIN.len();
        }
        let captured = shape.is_none() && self.is_grabbed()?;
        let pointer = (shape.unwrap_or_else(hidden), captured);
        if self.pointer.as_ref() != Some(&pointer) {
            self.captured.store(captured, Ordering::Relaxed);
            self.pointer = Some(pointer.clone());
            tell(Told::Pointer { cursor: pointer.0, captured });
        }
        Ok(())
    }

    /// Whether a program has grabbed the pointer: then nobody else can.
    fn is_grabbed(&self) -> Result<bool, XError> {
        let (connection, root) = (&self.display.connection, self.display.root);
        let (mode, nowhere, time) = (GrabMode::ASYNC, x11rb::NONE, x11rb::CURRENT_TIME);
        let grab = connection.grab_pointer(true, root, EventMask::NO_EVENT, mode, mode, nowhere, nowhere, time)?;
        let status = grab.reply()?.status;
        if status == GrabStatus::SUCCESS {
            connection.ungrab_pointer(time)?;
        }
        Ok(status == GrabStatus::ALREADY_GRABBED)
    }

    fn on_map(&mut self, window: Window) -> Result<(), XError> {
        let connection = &self.display.connection;
        let attributes = connection.get_window_attributes(window)?.reply()?;
        if attributes.override_redirect {
            connection.map_window(window)?;
            return Ok(());
        }
        let events = EventMask::PROPERTY_CHANGE | EventMask::STRUCTURE_NOTIFY;
        connection.change_window_attributes(window, &ChangeWindowAttributesAux::new().event_mask(events))?;
        let facts = read_facts(&self.display, &self.atoms, window)?;
        let place = self.layout.add(window, facts);
        self.configure(window, place)?;
        self.tell_state(window)?;
        let (connection, atoms) = (&self.display.connection, &self.atoms);
        // Normal, and no icon (ICCCM 4.1.3.1).
        connection.change_property32(PropMode::REPLACE, window, atoms.WM_STATE, atoms.WM_STATE, &[1, x11rb::NONE])?;
        connection.change_property32(
            PropMode::REPLACE,
            window,
            atoms._NET_FRAME_EXTENTS,
            AtomEnum::CARDINAL,
            &[0; 4],
        )?;
        connection.map_window(window)?;
        self.show()
    }

    fn on_gone(&mut self, window: Window) -> Result<(), XError> {
        if self.layout.remove(window) {
            self.grabbed.retain(|grabbed| *grabbed != window);
            self.show()?;
        }
        Ok(())
    }

    fn on_configure(&mut self, request: &ConfigureRequestEvent) -> Result<(), XError> {
        let wanted = Rectangle { x: request.x, y: request.y, width: request.width, height: request.height };
        if let Some(place) = self.layout.resize(request.window, wanted) {
            return self.configure(request.window, place);
        }
        // Not managed, or not yet: as it likes.
        let values = ConfigureWindowAux::from_configure_request(request);
        self.display.connection.configure_window(request.window, &values)?;
        Ok(())
    }

    fn on_message(&mut self, message: &ClientMessageEvent) -> Result<(), XError> {
        let (atoms, window, data) = (&self.atoms, message.window, message.data.as_data32());
        if message.type_ == atoms._NET_ACTIVE_WINDOW {
            if self.layout.activate(window) {
                self.show()?;
            }
        } else if message.type_ == atoms._NET_CLOSE_WINDOW {
            self.close(window)?;
        } else if message.type_ == atoms._NET_WM_STATE && data[1..3].contains(&atoms._NET_WM_STATE_FULLSCREEN) {
            let Some(mut facts) = self.layout.facts(window).cloned() else { return Ok(()) };
            facts.full_screen = match data[0] {
                0 => false,
                1 => true,
                _ => !facts.full_screen,
            };
            if let Some(place) = self.layout.update(window, facts) {
                self.tell_state(window)?;
                self.configure(window, place)?;
            }
        }
        Ok(())
    }

    fn on_property(&mut self, window: Window, atom: Atom) -> Result<(), XError> {
        let concerns = [
            AtomEnum::WM_NAME.into(),
            AtomEnum::WM_NORMAL_HINTS.into(),
            AtomEnum::WM_TRANSIENT_FOR.into(),
            AtomEnum::WM_HINTS.into(),
            self.atoms._NET_WM_NAME,
            self.atoms._NET_WM_WINDOW_TYPE,
        ];
        let Some(before) = self.layout.facts(window).cloned().filter(|_| concerns.contains(&atom)) else {
            return Ok(());
        };
        let facts = read_facts(&self.display, &self.atoms, window)?;
        let facts = WindowFacts { wanted: before.wanted, full_screen: before.full_screen, ..facts };
        let (was, is) = (self.layout.place_of(window), self.layout.update(window, facts));
        match is {
            Some(place) if was != is => self.configure(window, place),
            _ => Ok(()),
        }
    }

    /// Gives a window its place, and tells it: where nothing changes, X would not.
    fn configure(&self, window: Window, place: Rectangle) -> Result<(), XError> {
        let Rectangle { x, y, width, height } = place;
        let connection = &self.display.connection;
        // It is around the place: pixels and pointer stay where they would be without it.
        let border = if self.has_border(window, place) { BORDER } else { 0 };
        let (x, y) = (x.saturating_sub_unsigned(border), y.saturating_sub_unsigned(border));
        let values =
            ConfigureWindowAux::new().x(i32::from(x)).y(i32::from(y)).width(u32::from(width)).height(u32::from(height));
        connection.configure_window(window, &values.border_width(u32::from(border)))?;
        if border > 0 {
            let colour = ChangeWindowAttributesAux::new().border_pixel(BORDER_COLOUR);
            connection.change_window_attributes(window, &colour)?;
        }
        let notice = ConfigureNotifyEvent {
            response_type: xproto::CONFIGURE_NOTIFY_EVENT,
            sequence: 0,
            event: window,
            window,
            above_sibling: x11rb::NONE,
            x,
            y,
            width,
            height,
            border_width: border,
            override_redirect: false,
        };
        connection.send_event(false, window, EventMask::STRUCTURE_NOTIFY, notice)?;
        Ok(())
    }

    /// What floats is told apart from what lies below it, which often has the same colour.
    fn has_border(&self, window: Window, place: Rectangle) -> bool {
        let floats = self.layout.facts(window).is_some_and(|facts| !facts.is_main());
        let (width, height) = self.display.size;
        floats && (place.width < width || place.height < height)
    }

    /// Tells a window what it is: one that fills the screen draws neither shadows nor round corners.
    fn tell_state(&self, window: Window) -> Result<(), XError> {
        let Some(facts) = self.layout.facts(window) else { return Ok(()) };
        let mut states = Vec::new();
        if facts.full_screen {
            states.push(self.atoms._NET_WM_STATE_FULLSCREEN);
        } else if facts.is_main() {
            states.extend([self.atoms._NET_WM_STATE_MAXIMIZED_HORZ, self.atoms._NET_WM_STATE_MAXIMIZED_VERT]);
        }
        self.display.connection.change_property32(
            PropMode::REPLACE,
            window,
            self.atoms._NET_WM_STATE,
            AtomEnum::ATOM,
            &states,
        )?;
        Ok(())
    }

    /// Stacks the windows and gives the keyboard to the one that is to have it.
    fn show(&mut self) -> Result<(), XError> {
        let (connection, atoms, root) = (&self.display.connection, &self.atoms, self.display.root);
        let stack: Vec<Window> = self.layout.stacking().collect();
        for window in &stack {
            connection.configure_window(*window, &ConfigureWindowAux::new().stack_mode(StackMode::ABOVE))?;
        }
        // What programs put on top by themselves, such as menus, stays there.
        for window in connection.query_tree(root)?.reply()?.children {
            if stack.contains(&window) {
                continue;
            }
            let attributes = connection.get_window_attributes(window)?.reply();
            if attributes
                .is_ok_and(|attributes| attributes.override_redirect && attributes.map_state == MapState::VIEWABLE)
            {
                connection.configure_window(window, &ConfigureWindowAux::new().stack_mode(StackMode::ABOVE))?;
            }
        }
        let mut by_age = stack.clone();
        by_age.sort_unstable();
        for (property, windows) in [(atoms._NET_CLIENT_LIST, &by_age), (atoms._NET_CLIENT_LIST_STACKING, &stack)] {
            connection.change_property32(PropMode::REPLACE, root, property, AtomEnum::WINDOW, windows)?;
        }
        let focus = self.layout.focus();
        let active = focus.unwrap_or(x11rb::NONE);
        connection.change_property32(PropMode::REPLACE, root, atoms._NET_ACTIVE_WINDOW, AtomEnum::WINDOW, &[active])?;
        for window in &stack {
            let waits = focus != Some(*window);
            if waits && !self.grabbed.contains(window) {
                let (pointer, keyboard) = (GrabMode::SYNC, GrabMode::ASYNC);
                let (nowhere, any) = (x11rb::NONE, ModMask::ANY);
                connection.grab_button(
                    false,
                    *window,
                    EventMask::BUTTON_PRESS,
                    pointer,
                    keyboard,
                    nowhere,
                    nowhere,
                    ButtonIndex::ANY,
                    any,
                )?;
                self.grabbed.push(*window);
            } else if !waits && self.grabbed.contains(window) {
                connection.ungrab_button(ButtonIndex::ANY, *window, ModMask::ANY)?;
                self.grabbed.retain(|grabbed| grabbed != window);
            }
        }
        match focus {
            Some(window) => self.give_focus(window)?,
            None => drop(connection.set_input_focus(
                InputFocus::POINTER_ROOT,
                InputFocus::POINTER_ROOT,
                x11rb::CURRENT_TIME,
            )?),
        }
        Ok(())
    }

    fn give_focus(&self, window: Window) -> Result<(), XError> {
        let connection = &self.display.connection;
        let hints = WmHints::get(connection, window)?.reply().ok().flatten();
        if hints.and_then(|hints| hints.input).unwrap_or(true) {
            connection.set_input_focus(InputFocus::POINTER_ROOT, window, x11rb::CURRENT_TIME)?;
        }
        self.send_protocol(window, self.atoms.WM_TAKE_FOCUS)?;
        Ok(())
    }

    /// Asks a window to close, or ends its program's connection if it knows no other way.
    fn close(&self, window: Window) -> Result<(), XError> {
        if !self.send_protocol(window, self.atoms.WM_DELETE_WINDOW)? {
            self.display.connection.kill_client(window)?;
        }
        Ok(())
    }

    /// True if the window takes part in this protocol of ICCCM's.
    fn send_protocol(&self, window: Window, protocol: Atom) -> Result<bool, XError> {
        let (connection, atoms) = (&self.display.connection, &self.atoms);
        let protocols = connection.get_property(false, window, atoms.WM_PROTOCOLS, AtomEnum::ATOM, 0, 16)?.reply()?;
        if !protocols.value32().is_some_and(|mut known| known.any(|known| known == protocol)) {
            return Ok(false);
        }
        let message = ClientMessageEvent::new(32, window, atoms.WM_PROTOCOLS, [protocol, self.newest, 0, 0, 0]);
        connection.send_event(false, window, EventMask::NO_EVENT, message)?;
        Ok(true)
    }
}

/// A window may disappear at any moment: requests about it fail, which is no reason to stop.
fn survive(done: Result<(), XError>) -> Result<(), XError> {
    match done {
        Err(XError::Connection(error)) => Err(error.into()),
        Err(error) => {
            tracing::debug!(%error, "a window is gone");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
