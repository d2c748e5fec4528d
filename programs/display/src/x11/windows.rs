//! The X display's window manager. It also reports the pointer's shape and the clipboard.
//!
//! [`crate::layout`] makes its decisions. It implements ICCCM 2.0 and those parts of the Extended Window Manager Hints 1.5 that programs
//! without frames need: full screen, activation, closing, window types, lists of windows.

mod hints;
mod pointer;
mod reconnection;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use nearlight_wire::CursorShape;
use x11rb::connection::Connection as _;
use x11rb::properties::WmHints;
use x11rb::protocol::Event;
use x11rb::protocol::xfixes::{self, ConnectionExt as _, CursorNotifyMask};
use x11rb::protocol::xproto::{
    self, Allow, Atom, AtomEnum, ButtonIndex, ChangeWindowAttributesAux, ClientMessageEvent, ConfigureNotifyEvent,
    ConfigureRequestEvent, ConfigureWindowAux, ConnectionExt as _, CreateWindowAux, EventMask, GrabMode, InputFocus,
    MapState, ModMask, PropMode, StackMode, Window, WindowClass,
};
use x11rb::wrapper::ConnectionExt as _;

use crate::DisplayError;
use crate::clock::now;
use crate::layout::{Layout, Rectangle, WindowProperties};
use crate::x11::clipboard::{Clipboard, CopiedText};
use crate::x11::connection::{Display, WakePipe, XError};
use crate::x11::properties::{Atoms, read_properties};
use crate::x11::screen::{Screen, ScreenSize, size_for};

/// The left-pointing arrow of X's cursor font, and its mask.
const ARROW: u16 = 68;
/// Delays in milliseconds after which a hidden pointer is checked again. A program that captures the pointer hides it before it grabs it.
const POINTER_RECHECK_DELAYS_MS: [u64; 3] = [50, 150, 400];
/// Time after its last change at which a selection is read. Guess: longer than between two movements of a pointer that extends it.
const SELECTION_SETTLE_TIME: Duration = Duration::from_millis(200);
/// Width of the border around floating windows, in pixels.
const BORDER_WIDTH: u16 = 1;
/// Colour of the border, which is visible on light and on dark.
const BORDER_COLOUR: u32 = 0x70_7070;
/// The window manager's name for programs. It is that of a discontinued one, because AWT (`XWM.java` in `OpenJDK`) waits until its windows
/// have been put into frames, and leaves them blank before, unless it knows the manager's name as one that makes no frames.
const MANAGER_NAME: &[u8] = b"LG3D";
/// Maximum number of characters of a title that viewers get. Guess: a title bar does not show more.
pub(crate) const MAX_TITLE: usize = 120;

/// A command to the windows' thread.
#[derive(Debug)]
pub(crate) enum WindowCommand {
    /// Bring a window to the front.
    Activate(Window),
    /// Close a window.
    Close(Window),
    /// Adapt the display to a viewer's window of this size.
    Resize((u16, u16)),
    /// A text for the clipboard is on its way from a viewer.
    AnnounceClipboard,
    /// Put a viewer's text on the clipboard.
    SetClipboard(String),
    /// The announced text will not come.
    WithdrawClipboard,
}

/// An event of the windows' thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WindowEvent {
    /// The pointer's shape, or whether a program has captured it, has changed.
    Pointer { cursor: CursorShape, captured: bool },
    /// A program has copied a text, or a text was selected in it.
    Clipboard(CopiedText),
    /// The display's size has changed.
    Resized,
    /// The main windows have changed: id, title, and whether each is the visible one.
    Windows(Vec<(Window, String, bool)>),
}

pub(crate) struct Windows {
    display: Display,
    screen: Screen,
    /// Largest size of a display that follows a viewer's window; `None` if its size is fixed.
    max_size: Option<(u16, u16)>,
    /// Size of the viewer's window that the display was last to follow.
    wanted: (u16, u16),
    atoms: Atoms,
    layout: Layout,
    clipboard: Clipboard,
    /// Whether this is the display's window manager. An existing display may have another one.
    manages: bool,
    captured: Arc<AtomicBool>,
    choices: Vec<(Window, String, bool)>,
    /// The pointer's last reported shape, and whether it was captured.
    pointer: Option<(CursorShape, bool)>,
    /// How often a hidden pointer was checked again.
    rechecks: usize,
    /// Windows whose buttons are grabbed, because a click gives them the focus.
    grabbed: Vec<Window>,
    /// Time of the last button press.
    last_press: u32,
    /// When the user last changed what is selected in a program, if it was not read yet.
    selected: Option<Instant>,
}

impl Windows {
    /// Opens the window manager. With `max_size`, the display's size follows a viewer's window, starting with `initial`.
    pub(crate) fn open(
        display: Display,
        captured: Arc<AtomicBool>,
        size: ScreenSize,
        (initial, max_size): ((u16, u16), Option<(u16, u16)>),
    ) -> Result<Self, DisplayError> {
        display.require(xfixes::X11_EXTENSION_NAME)?;
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
        let screen = match max_size {
            Some(_) => Screen::open(&display, size.clone()).map_err(wrong)?,
            None => None,
        };
        let screen = screen.unwrap_or_else(|| {
            if max_size.is_some() {
                tracing::warn!("the display keeps its size, as its X server has no RANDR 1.3; --size chooses one");
            }
            Screen::fixed(size)
        });
        let mut windows = Self {
            display,
            screen,
            max_size,
            wanted: initial,
            atoms,
            layout,
            clipboard,
            manages: false,
            captured,
            choices: Vec::new(),
            pointer: None,
            rechecks: POINTER_RECHECK_DELAYS_MS.len(),
            grabbed: Vec::new(),
            last_press: 0,
            selected: None,
        };
        windows.prepare().map_err(wrong)?;
        if max_size.is_some() {
            windows.resize(initial);
        }
        Ok(windows)
    }

    /// Returns whether this is the display's window manager.
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
        connection.change_property8(PropMode::REPLACE, own, atoms._NET_WM_NAME, atoms.UTF8_STRING, MANAGER_NAME)?;
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
        self.publish_size()
    }

    /// Resizes the display to a viewer's window, as far as possible. Returns whether its size has changed.
    fn resize(&mut self, wanted: (u16, u16)) -> bool {
        self.wanted = wanted;
        let Some(max_size) = self.max_size.filter(|_| self.manages) else { return false };
        let resized = self.screen.resize(&self.display, size_for(wanted, max_size)).and_then(|resized| {
            if let Some(size) = resized {
                self.display.size = size;
                self.publish_size()?;
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

    fn run(
        &mut self,
        wake_pipe: &WakePipe,
        commands: &Receiver<WindowCommand>,
        report: &dyn Fn(WindowEvent),
    ) -> Result<(), XError> {
        self.report_pointer(report)?;
        loop {
            wake_pipe.activity().on_work();
            match commands.try_recv() {
                Ok(command) => ignore_request_errors(self.on_command(command, report))?,
                Err(TryRecvError::Empty) => {
                    let again = POINTER_RECHECK_DELAYS_MS.get(self.rechecks).copied().map(Duration::from_millis);
                    // The display's answer shows that it has not set the connection aside.
                    self.display.connection.sync()?;
                    let settled = self.selected.map(|at| SELECTION_SETTLE_TIME.saturating_sub(at.elapsed()));
                    let event = wake_pipe.wait(&self.display, again.into_iter().chain(settled).min())?;
                    if event.is_none() && again.is_some() {
                        self.rechecks += 1;
                        self.report_pointer(report)?;
                    }
                    if self.selected.is_some_and(|at| at.elapsed() >= SELECTION_SETTLE_TIME) {
                        self.selected = None;
                        ignore_request_errors(self.clipboard.read_selected(&self.display))?;
                    }
                    if let Some(event) = event {
                        ignore_request_errors(self.on_event(&event, report))?;
                    }
                }
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
            let choices = self.layout.choices();
            if choices != self.choices {
                self.choices.clone_from(&choices);
                report(WindowEvent::Windows(choices));
            }
        }
    }

    fn on_command(&mut self, command: WindowCommand, report: &dyn Fn(WindowEvent)) -> Result<(), XError> {
        match command {
            WindowCommand::Activate(window) => {
                if self.layout.activate(window) {
                    self.restack()?;
                }
            }
            WindowCommand::Close(window) => {
                if self.layout.properties(window).is_some() {
                    self.close(window)?;
                }
            }
            WindowCommand::Resize(wanted) => {
                if self.resize(wanted) {
                    report(WindowEvent::Resized);
                }
            }
            WindowCommand::AnnounceClipboard => self.clipboard.announce(&self.display)?,
            WindowCommand::SetClipboard(text) => self.clipboard.set(&self.display, text)?,
            WindowCommand::WithdrawClipboard => self.clipboard.withdraw(&self.display)?,
        }
        Ok(())
    }

    fn on_event(&mut self, event: &Event, report: &dyn Fn(WindowEvent)) -> Result<(), XError> {
        match event {
            Event::MapRequest(request) => self.on_map(request.window)?,
            Event::ConfigureRequest(request) => self.on_configure(request)?,
            Event::UnmapNotify(gone) => self.on_gone(gone.window)?,
            Event::DestroyNotify(gone) => {
                self.clipboard.on_window_gone(gone.window);
                self.on_gone(gone.window)?;
            }
            Event::ClientMessage(message) => self.on_message(message)?,
            Event::PropertyNotify(change) => {
                if let Some(text) = self.clipboard.on_property(&self.display, change)? {
                    report(WindowEvent::Clipboard(text));
                }
                self.on_property(change.window, change.atom)?;
            }
            Event::ButtonPress(press) => {
                self.last_press = press.time;
                if self.layout.activate(press.event) {
                    self.restack()?;
                }
                // The program also gets the click that has activated its window.
                self.display.connection.allow_events(Allow::REPLAY_POINTER, press.time)?;
            }
            Event::XfixesCursorNotify(_) => {
                self.rechecks = 0;
                self.report_pointer(report)?;
            }
            Event::XfixesSelectionNotify(change) => {
                let selected = self.clipboard.on_owner(&self.display, change.selection, change.owner)?;
                self.selected = selected.then(now).or(self.selected);
            }
            Event::SelectionNotify(answer) => {
                if let Some(text) = self.clipboard.on_answer(&self.display, answer)? {
                    report(WindowEvent::Clipboard(text));
                }
            }
            Event::SelectionRequest(request) => self.clipboard.on_request(&self.display, request)?,
            _ => {}
        }
        Ok(())
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
        let properties = read_properties(&self.display, &self.atoms, window)?;
        let place = self.layout.add(window, properties);
        self.configure(window, place)?;
        self.publish_state(window)?;
        let (connection, atoms) = (&self.display.connection, &self.atoms);
        // The window is in the normal state and has no icon (ICCCM 4.1.3.1).
        connection.change_property32(PropMode::REPLACE, window, atoms.WM_STATE, atoms.WM_STATE, &[1, x11rb::NONE])?;
        connection.change_property32(
            PropMode::REPLACE,
            window,
            atoms._NET_FRAME_EXTENTS,
            AtomEnum::CARDINAL,
            &[0; 4],
        )?;
        connection.map_window(window)?;
        self.restack()
    }

    fn on_gone(&mut self, window: Window) -> Result<(), XError> {
        if self.layout.remove(window) {
            self.grabbed.retain(|grabbed| *grabbed != window);
            self.restack()?;
        }
        Ok(())
    }

    fn on_configure(&mut self, request: &ConfigureRequestEvent) -> Result<(), XError> {
        let requested = Rectangle { x: request.x, y: request.y, width: request.width, height: request.height };
        if let Some(place) = self.layout.resize(request.window, requested) {
            return self.configure(request.window, place);
        }
        // A window that is not managed (yet) gets what it requests.
        let values = ConfigureWindowAux::from_configure_request(request);
        self.display.connection.configure_window(request.window, &values)?;
        Ok(())
    }

    fn on_message(&mut self, message: &ClientMessageEvent) -> Result<(), XError> {
        let (atoms, window, data) = (&self.atoms, message.window, message.data.as_data32());
        if message.type_ == atoms._NET_ACTIVE_WINDOW {
            if self.layout.activate(window) {
                self.restack()?;
            }
        } else if message.type_ == atoms._NET_CLOSE_WINDOW {
            self.close(window)?;
        } else if message.type_ == atoms._NET_WM_STATE && data[1..3].contains(&atoms._NET_WM_STATE_FULLSCREEN) {
            let Some(mut properties) = self.layout.properties(window).cloned() else { return Ok(()) };
            properties.full_screen = match data[0] {
                0 => false,
                1 => true,
                _ => !properties.full_screen,
            };
            if let Some(place) = self.layout.update(window, properties) {
                self.publish_state(window)?;
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
        let Some(before) = self.layout.properties(window).cloned().filter(|_| concerns.contains(&atom)) else {
            return Ok(());
        };
        let properties = read_properties(&self.display, &self.atoms, window)?;
        let properties =
            WindowProperties { requested: before.requested, full_screen: before.full_screen, ..properties };
        let (was, is) = (self.layout.place_of(window), self.layout.update(window, properties));
        match is {
            Some(place) if was != is => self.configure(window, place),
            _ => Ok(()),
        }
    }

    /// Gives a window its place and notifies it, because X does not notify a window whose place stays the same.
    fn configure(&self, window: Window, place: Rectangle) -> Result<(), XError> {
        let Rectangle { x, y, width, height } = place;
        let connection = &self.display.connection;
        // The border is outside of the place, so that it does not shift the window's content.
        let border = if self.has_border(window, place) { BORDER_WIDTH } else { 0 };
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

    /// Returns whether a window has a border, which separates floating windows from others of the same colour.
    fn has_border(&self, window: Window, place: Rectangle) -> bool {
        let floats = self.layout.properties(window).is_some_and(|properties| !properties.is_main());
        let (width, height) = self.display.size;
        floats && (place.width < width || place.height < height)
    }

    /// Stacks the windows and sets the focus.
    fn restack(&mut self) -> Result<(), XError> {
        let (connection, atoms, root) = (&self.display.connection, &self.atoms, self.display.root);
        let stack: Vec<Window> = self.layout.stacking().collect();
        for window in &stack {
            connection.configure_window(*window, &ConfigureWindowAux::new().stack_mode(StackMode::ABOVE))?;
        }
        // Unmanaged windows, such as menus, stay on top.
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

    /// Sends a message of an ICCCM protocol. Returns whether the window supports the protocol.
    fn send_protocol(&self, window: Window, protocol: Atom) -> Result<bool, XError> {
        let (connection, atoms) = (&self.display.connection, &self.atoms);
        let protocols = connection.get_property(false, window, atoms.WM_PROTOCOLS, AtomEnum::ATOM, 0, 16)?.reply()?;
        if !protocols.value32().is_some_and(|mut known| known.any(|known| known == protocol)) {
            return Ok(false);
        }
        let message = ClientMessageEvent::new(32, window, atoms.WM_PROTOCOLS, [protocol, self.last_press, 0, 0, 0]);
        connection.send_event(false, window, EventMask::NO_EVENT, message)?;
        Ok(true)
    }
}

/// Ignores errors other than a lost connection, because a window may disappear at any time.
fn ignore_request_errors(done: Result<(), XError>) -> Result<(), XError> {
    match done {
        Err(error) if error.is_lost() => Err(error),
        Err(error) => {
            tracing::debug!(%error, "a window is gone");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
