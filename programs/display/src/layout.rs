//! Places and stacks the windows: main windows fill the screen, dialogs and menus float above them.

use x11rb::protocol::xproto::Window;

/// Position of the upper left corner, width and height, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rectangle {
    pub(crate) x: i16,
    pub(crate) y: i16,
    pub(crate) width: u16,
    pub(crate) height: u16,
}

/// A window's properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WindowProperties {
    /// The position and size that the window requests.
    pub(crate) requested: Rectangle,
    /// The window to which it belongs (`WM_TRANSIENT_FOR`).
    pub(crate) owner: Option<Window>,
    /// Whether it is a dialog, a palette, a splash screen or another type that does not fill the screen.
    pub(crate) floats: bool,
    pub(crate) min_size: Option<(u16, u16)>,
    pub(crate) max_size: Option<(u16, u16)>,
    pub(crate) full_screen: bool,
    /// Whether it accepts the keyboard focus.
    pub(crate) takes_focus: bool,
    pub(crate) title: String,
}

impl WindowProperties {
    /// Returns whether it is a main window, which fills the screen and which the viewer can select.
    pub(crate) const fn is_main(&self) -> bool {
        self.full_screen || (self.owner.is_none() && !self.floats)
    }
}

#[derive(Clone, Debug)]
struct ManagedWindow {
    window: Window,
    properties: WindowProperties,
    place: Rectangle,
}

/// All managed windows, the lowest first.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    screen: (u16, u16),
    windows: Vec<ManagedWindow>,
    focus: Option<Window>,
}

impl Layout {
    pub(crate) const fn new(screen: (u16, u16)) -> Self {
        Self { screen, windows: Vec::new(), focus: None }
    }

    /// Sets the display's size. Returns the windows whose place changes, and their new places.
    pub(crate) fn set_screen(&mut self, screen: (u16, u16)) -> Vec<(Window, Rectangle)> {
        self.screen = screen;
        let mut moved = Vec::new();
        // Owners are placed before the dialogs that are centred on them.
        let mut windows: Vec<(Window, bool)> =
            self.windows.iter().map(|managed| (managed.window, managed.properties.is_main())).collect();
        windows.sort_by_key(|(_, main)| !main);
        for (window, _) in windows {
            let Some(ManagedWindow { properties, place, .. }) = self.find(window) else { continue };
            let (before, properties) = (*place, properties.clone());
            moved.extend(self.update(window, properties).filter(|place| *place != before).map(|place| (window, place)));
        }
        moved
    }

    /// Adds a window in front of the others. Returns its place.
    pub(crate) fn add(&mut self, window: Window, properties: WindowProperties) -> Rectangle {
        self.windows.retain(|managed| managed.window != window);
        let place = self.place(&properties);
        let focused = properties.takes_focus;
        self.windows.push(ManagedWindow { window, properties, place });
        self.raise(window);
        if focused {
            self.focus = Some(window);
        }
        place
    }

    /// Removes a window. Returns whether it was managed.
    pub(crate) fn remove(&mut self, window: Window) -> bool {
        let Some(index) = self.windows.iter().position(|managed| managed.window == window) else { return false };
        let gone = self.windows.remove(index);
        if self.focus == Some(window) {
            // The focus returns to the owner, or else to the front window.
            let owner = gone
                .properties
                .owner
                .filter(|owner| self.find(*owner).is_some_and(|owner| owner.properties.takes_focus));
            let front =
                self.windows.iter().rev().find(|managed| managed.properties.takes_focus).map(|managed| managed.window);
            self.focus = owner.and_then(|owner| self.front_of(owner)).or(front);
        }
        true
    }

    /// Brings a window to the front and gives it the focus. Returns whether it is managed.
    pub(crate) fn activate(&mut self, window: Window) -> bool {
        let Some(front) = self.front_of(window) else { return false };
        self.raise(window);
        self.focus = Some(front);
        true
    }

    /// Handles a window's request for a place. Returns the place that it gets; `None` if it is not managed.
    pub(crate) fn resize(&mut self, window: Window, requested: Rectangle) -> Option<Rectangle> {
        let mut properties = self.find(window)?.properties.clone();
        properties.requested = requested;
        self.update(window, properties)
    }

    /// Sets a window's properties. Returns its place; `None` if it is not managed.
    pub(crate) fn update(&mut self, window: Window, properties: WindowProperties) -> Option<Rectangle> {
        let place = self.place(&properties);
        let managed = self.windows.iter_mut().find(|managed| managed.window == window)?;
        (managed.properties, managed.place) = (properties, place);
        Some(place)
    }

    pub(crate) fn properties(&self, window: Window) -> Option<&WindowProperties> {
        self.find(window).map(|managed| &managed.properties)
    }

    pub(crate) fn place_of(&self, window: Window) -> Option<Rectangle> {
        self.find(window).map(|managed| managed.place)
    }

    /// Returns the windows, the lowest first.
    pub(crate) fn stacking(&self) -> impl Iterator<Item = Window> {
        self.windows.iter().map(|managed| managed.window)
    }

    pub(crate) const fn focus(&self) -> Option<Window> {
        self.focus
    }

    /// Returns the main windows with their titles, and whether each is the visible one.
    pub(crate) fn choices(&self) -> Vec<(Window, String, bool)> {
        let main = || self.windows.iter().filter(|managed| managed.properties.is_main());
        let seen = main().next_back().map(|managed| managed.window);
        let mut choices: Vec<_> = main()
            .map(|managed| (managed.window, managed.properties.title.clone(), Some(managed.window) == seen))
            .collect();
        // The order must not depend on the stacking.
        choices.sort_by_key(|(window, ..)| *window);
        choices
    }

    fn find(&self, window: Window) -> Option<&ManagedWindow> {
        self.windows.iter().find(|managed| managed.window == window)
    }

    /// Returns the topmost focusable window that belongs to this one, or the window itself. A dialog thus has the focus instead of its
    /// owner.
    fn front_of(&self, window: Window) -> Option<Window> {
        self.find(window)?;
        let belongs =
            |managed: &&ManagedWindow| managed.properties.takes_focus && self.belongs_to(managed.window, window);
        Some(self.windows.iter().rev().find(belongs).map_or(window, |managed| managed.window))
    }

    /// Returns whether a window is `owner` or belongs to it, directly or through others. A cycle of owners ends the search.
    fn belongs_to(&self, window: Window, owner: Window) -> bool {
        let mut current = window;
        for _ in 0..=self.windows.len() {
            if current == owner {
                return true;
            }
            let Some(next) = self.find(current).and_then(|managed| managed.properties.owner) else { return false };
            current = next;
        }
        false
    }

    /// Moves a window and those that belong to it to the front, in their current order.
    fn raise(&mut self, window: Window) {
        let family: Vec<Window> = self.stacking().filter(|other| self.belongs_to(*other, window)).collect();
        let (mut raised, rest): (Vec<_>, Vec<_>) =
            self.windows.drain(..).partition(|managed| family.contains(&managed.window));
        // The window itself is below those that belong to it.
        raised.sort_by_key(|managed| managed.window != window);
        self.windows = rest;
        self.windows.extend(raised);
        // A dialog without an owner belongs to the whole program and stays on top, because a viewer could not select it if it were covered.
        let free: Vec<Window> = self.stacking().filter(|other| self.floats_freely(*other)).collect();
        self.windows.sort_by_key(|managed| free.contains(&managed.window));
    }

    /// Returns whether a window, or the last one in its chain of owners, floats without an owner.
    fn floats_freely(&self, window: Window) -> bool {
        let mut current = self.find(window);
        for _ in 0..self.windows.len() {
            let owner = current.and_then(|managed| managed.properties.owner).and_then(|owner| self.find(owner));
            match owner {
                Some(_) => current = owner,
                None => return current.is_some_and(|managed| !managed.properties.is_main()),
            }
        }
        false
    }

    fn place(&self, properties: &WindowProperties) -> Rectangle {
        let (width, height) = self.screen;
        if properties.full_screen {
            return Rectangle { x: 0, y: 0, width, height };
        }
        let fits = |requested: u16, min: Option<u16>, max: Option<u16>, side: u16| {
            let max = max.filter(|max| *max > 0).unwrap_or(side).min(side);
            requested.max(min.unwrap_or(1)).max(1).min(max.max(1))
        };
        let WindowProperties { min_size, max_size, .. } = properties;
        let size = |(across, down): (u16, u16)| {
            let min = (min_size.map(|size| size.0), min_size.map(|size| size.1));
            let max = (max_size.map(|size| size.0), max_size.map(|size| size.1));
            (fits(across, min.0, max.0, width), fits(down, min.1, max.1, height))
        };
        let middle = |side: u16, of: u16| ((i32::from(of) - i32::from(side)) / 2) as i16;
        if properties.is_main() {
            let (across, down) = size(self.screen);
            return Rectangle { x: middle(across, width), y: middle(down, height), width: across, height: down };
        }
        let (across, down) = size((properties.requested.width, properties.requested.height));
        // A floating window is centred on its owner, but within the screen.
        let owner =
            properties.owner.and_then(|owner| self.place_of(owner)).unwrap_or(Rectangle { x: 0, y: 0, width, height });
        let inside = |from: i16, of: u16, side: u16, screen: u16| {
            let wanted = from.saturating_add(middle(side, of));
            wanted.clamp(0, (screen - side.min(screen)) as i16)
        };
        let (x, y) = (inside(owner.x, owner.width, across, width), inside(owner.y, owner.height, down, height));
        Rectangle { x, y, width: across, height: down }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn main_window() -> WindowProperties {
        let requested = Rectangle { x: 100, y: 100, width: 500, height: 500 };
        WindowProperties { requested, takes_focus: true, title: "main".into(), ..WindowProperties::default() }
    }

    fn dialog(owner: Window) -> WindowProperties {
        let requested = Rectangle { x: 0, y: 0, width: 300, height: 101 };
        WindowProperties {
            requested,
            owner: Some(owner),
            floats: true,
            takes_focus: true,
            ..WindowProperties::default()
        }
    }

    fn stack(layout: &Layout) -> Vec<Window> {
        layout.stacking().collect()
    }

    #[test]
    fn a_program_fills_the_screen_and_its_dialog_is_in_the_middle() {
        let mut layout = Layout::new((1_280, 720));
        assert_eq!(layout.add(1, main_window()), Rectangle { x: 0, y: 0, width: 1_280, height: 720 });
        assert_eq!(layout.add(2, dialog(1)), Rectangle { x: 490, y: 309, width: 300, height: 101 });
        assert_eq!((stack(&layout), layout.focus()), (vec![1, 2], Some(2)));
        layout.remove(2);
        assert_eq!(layout.focus(), Some(1));
    }

    #[test]
    fn sizes_stay_within_what_windows_bear_and_the_screen_has() {
        let mut layout = Layout::new((1_280, 720));
        let fixed = WindowProperties { min_size: Some((640, 480)), max_size: Some((640, 480)), ..main_window() };
        assert_eq!(layout.add(1, fixed.clone()), Rectangle { x: 320, y: 120, width: 640, height: 480 });
        let large =
            WindowProperties { requested: Rectangle { width: 3_000, height: 10, ..Rectangle::default() }, ..dialog(9) };
        assert_eq!(layout.add(2, large), Rectangle { x: 0, y: 355, width: 1_280, height: 10 });
        let full = WindowProperties { full_screen: true, ..fixed };
        assert_eq!(layout.update(1, full), Some(Rectangle { x: 0, y: 0, width: 1_280, height: 720 }));
        assert_eq!(layout.resize(7, Rectangle::default()), None);
        for (least, most) in [((0, 0), (0, 0)), ((9_999, 9_999), (1, 1)), ((u16::MAX, 5), (u16::MAX, 5))] {
            let odd = WindowProperties { min_size: Some(least), max_size: Some(most), ..main_window() };
            let place = layout.add(8, odd);
            assert!((1..=1_280).contains(&place.width) && (1..=720).contains(&place.height), "{place:?}");
        }
    }

    #[test]
    fn windows_come_to_the_front_with_their_dialogs() {
        let mut layout = Layout::new((1_280, 720));
        layout.add(1, main_window());
        layout.add(2, dialog(1));
        layout.add(3, main_window());
        assert_eq!((stack(&layout), layout.focus()), (vec![1, 2, 3], Some(3)));
        assert!(layout.activate(1));
        assert_eq!((stack(&layout), layout.focus()), (vec![3, 1, 2], Some(2)), "the dialog keeps the keyboard");
        let seen: Vec<_> = layout.choices().into_iter().map(|(window, _, seen)| (window, seen)).collect();
        assert_eq!(seen, [(1, true), (3, false)]);
        layout.remove(1);
        layout.remove(2);
        assert_eq!(layout.focus(), Some(3));
        assert!(!layout.activate(1));
    }

    #[test]
    fn a_dialog_of_the_whole_program_stays_in_front() {
        let mut layout = Layout::new((1_280, 720));
        layout.add(1, main_window());
        layout.add(2, WindowProperties { owner: None, ..dialog(1) });
        layout.add(3, dialog(2));
        layout.add(4, main_window());
        assert_eq!(stack(&layout), [1, 4, 2, 3]);
        assert!(layout.activate(1));
        assert_eq!((stack(&layout), layout.focus()), (vec![4, 1, 2, 3], Some(1)));
    }

    #[test]
    fn a_splash_screen_does_not_take_the_keyboard() {
        let mut layout = Layout::new((800, 600));
        layout.add(1, main_window());
        layout.add(2, WindowProperties { takes_focus: false, ..dialog(1) });
        assert_eq!(layout.focus(), Some(1));
    }

    #[test]
    fn owners_in_a_ring_are_no_trap() {
        let mut layout = Layout::new((800, 600));
        layout.add(1, dialog(2));
        layout.add(2, dialog(1));
        layout.add(3, dialog(3));
        assert!(layout.activate(1) && layout.activate(3));
        assert_eq!(layout.stacking().count(), 3);
    }
}
