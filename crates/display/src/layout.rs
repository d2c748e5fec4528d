//! Where windows go and which is in front: one fills the screen, dialogs and menus float above it.

use x11rb::protocol::xproto::Window;

/// Position of the upper left corner, width and height, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rectangle {
    pub(crate) x: i16,
    pub(crate) y: i16,
    pub(crate) width: u16,
    pub(crate) height: u16,
}

/// What a window says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WindowFacts {
    /// What it asks for.
    pub(crate) wanted: Rectangle,
    /// It belongs to that one.
    pub(crate) owner: Option<Window>,
    /// It says that it is a dialog, a palette, a splash screen or another kind that does not fill the screen.
    pub(crate) floats: bool,
    pub(crate) least: Option<(u16, u16)>,
    pub(crate) most: Option<(u16, u16)>,
    pub(crate) full_screen: bool,
    /// It takes the keyboard.
    pub(crate) takes_focus: bool,
    pub(crate) title: String,
}

impl WindowFacts {
    /// It covers the others, and is one of those that the viewer can choose from.
    pub(crate) const fn is_main(&self) -> bool {
        self.full_screen || (self.owner.is_none() && !self.floats)
    }
}

#[derive(Clone, Debug)]
struct Managed {
    window: Window,
    facts: WindowFacts,
    place: Rectangle,
}

/// All windows that are there, the lowest first.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    screen: (u16, u16),
    windows: Vec<Managed>,
    focus: Option<Window>,
}

impl Layout {
    pub(crate) const fn new(screen: (u16, u16)) -> Self {
        Self { screen, windows: Vec::new(), focus: None }
    }

    /// The display has another size. Returns the windows that get another place.
    pub(crate) fn set_screen(&mut self, screen: (u16, u16)) -> Vec<(Window, Rectangle)> {
        self.screen = screen;
        let mut moved = Vec::new();
        // Owners are placed before what is in their middle.
        let mut windows: Vec<(Window, bool)> =
            self.windows.iter().map(|managed| (managed.window, managed.facts.is_main())).collect();
        windows.sort_by_key(|(_, main)| !main);
        for (window, _) in windows {
            let Some(Managed { facts, place, .. }) = self.find(window) else { continue };
            let (before, facts) = (*place, facts.clone());
            moved.extend(self.update(window, facts).filter(|place| *place != before).map(|place| (window, place)));
        }
        moved
    }

    /// A window appears, in front of the others. Returns its place.
    pub(crate) fn add(&mut self, window: Window, facts: WindowFacts) -> Rectangle {
        self.windows.retain(|managed| managed.window != window);
        let place = self.place(&facts);
        let focused = facts.takes_focus;
        self.windows.push(Managed { window, facts, place });
        self.raise(window);
        if focused {
            self.focus = Some(window);
        }
        place
    }

    /// A window has disappeared. True if it was there.
    pub(crate) fn remove(&mut self, window: Window) -> bool {
        let Some(index) = self.windows.iter().position(|managed| managed.window == window) else { return false };
        let gone = self.windows.remove(index);
        if self.focus == Some(window) {
            // Back to what it belonged to, else to what is in front now.
            let owner = gone.facts.owner.filter(|owner| self.find(*owner).is_some_and(|owner| owner.facts.takes_focus));
            let front =
                self.windows.iter().rev().find(|managed| managed.facts.takes_focus).map(|managed| managed.window);
            self.focus = owner.and_then(|owner| self.front_of(owner)).or(front);
        }
        true
    }

    /// The user or the program wants this window in front. True if it is there.
    pub(crate) fn activate(&mut self, window: Window) -> bool {
        let Some(front) = self.front_of(window) else { return false };
        self.raise(window);
        self.focus = Some(front);
        true
    }

    /// A window asks for a size or a place. Returns what it gets; none for a window that is not there.
    pub(crate) fn resize(&mut self, window: Window, wanted: Rectangle) -> Option<Rectangle> {
        let mut facts = self.find(window)?.facts.clone();
        facts.wanted = wanted;
        self.update(window, facts)
    }

    /// What a window says of itself has changed. Returns its place; none for a window that is not there.
    pub(crate) fn update(&mut self, window: Window, facts: WindowFacts) -> Option<Rectangle> {
        let place = self.place(&facts);
        let managed = self.windows.iter_mut().find(|managed| managed.window == window)?;
        (managed.facts, managed.place) = (facts, place);
        Some(place)
    }

    pub(crate) fn facts(&self, window: Window) -> Option<&WindowFacts> {
        self.find(window).map(|managed| &managed.facts)
    }

    pub(crate) fn place_of(&self, window: Window) -> Option<Rectangle> {
        self.find(window).map(|managed| managed.place)
    }

    /// The lowest first.
    pub(crate) fn stacking(&self) -> impl Iterator<Item = Window> {
        self.windows.iter().map(|managed| managed.window)
    }

    pub(crate) const fn focus(&self) -> Option<Window> {
        self.focus
    }

    /// The windows to choose from, and whether each is the one that is seen.
    pub(crate) fn choices(&self) -> Vec<(Window, String, bool)> {
        let main = || self.windows.iter().filter(|managed| managed.facts.is_main());
        let seen = main().next_back().map(|managed| managed.window);
        let mut choices: Vec<_> =
            main().map(|managed| (managed.window, managed.facts.title.clone(), Some(managed.window) == seen)).collect();
        // In an order that does not change with what is in front.
        choices.sort_by_key(|(window, ..)| *window);
        choices
    }

    fn find(&self, window: Window) -> Option<&Managed> {
        self.windows.iter().find(|managed| managed.window == window)
    }

    /// The topmost of the windows that belong to this one and take the keyboard, or the window itself: a dialog keeps it from its owner.
    fn front_of(&self, window: Window) -> Option<Window> {
        self.find(window)?;
        let belongs = |managed: &&Managed| managed.facts.takes_focus && self.belongs_to(managed.window, window);
        Some(self.windows.iter().rev().find(belongs).map_or(window, |managed| managed.window))
    }

    /// Whether a window is `owner`, or belongs to it through others. Owners that form a ring belong to none.
    fn belongs_to(&self, window: Window, owner: Window) -> bool {
        let mut current = window;
        for _ in 0..=self.windows.len() {
            if current == owner {
                return true;
            }
            let Some(next) = self.find(current).and_then(|managed| managed.facts.owner) else { return false };
            current = next;
        }
        false
    }

    /// Moves a window and what belongs to it to the front, in the order that they have.
    fn raise(&mut self, window: Window) {
        let family: Vec<Window> = self.stacking().filter(|other| self.belongs_to(*other, window)).collect();
        let (mut raised, rest): (Vec<_>, Vec<_>) =
            self.windows.drain(..).partition(|managed| family.contains(&managed.window));
        // The window itself is below what belongs to it.
        raised.sort_by_key(|managed| managed.window != window);
        self.windows = rest;
        self.windows.extend(raised);
        // A dialog without an owner is for the whole program: nobody could choose it again if it were covered.
        let free: Vec<Window> = self.stacking().filter(|other| self.floats_freely(*other)).collect();
        self.windows.sort_by_key(|managed| free.contains(&managed.window));
    }

    /// Whether a window, or the last one of those that it belongs to, floats without an owner.
    fn floats_freely(&self, window: Window) -> bool {
        let mut current = self.find(window);
        for _ in 0..self.windows.len() {
            let owner = current.and_then(|managed| managed.facts.owner).and_then(|owner| self.find(owner));
            match owner {
                Some(_) => current = owner,
                None => return current.is_some_and(|managed| !managed.facts.is_main()),
            }
        }
        false
    }

    fn place(&self, facts: &WindowFacts) -> Rectangle {
        let (width, height) = self.screen;
        if facts.full_screen {
            return Rectangle { x: 0, y: 0, width, height };
        }
        let fits = |wanted: u16, least: Option<u16>, most: Option<u16>, side: u16| {
            let most = most.filter(|most| *most > 0).unwrap_or(side).min(side);
            wanted.max(least.unwrap_or(1)).max(1).min(most.max(1))
        };
        let (least, most) = (facts.least, facts.most);
        let size = |(across, down): (u16, u16)| {
            let least = (least.map(|least| least.0), least.map(|least| least.1));
            (
                fits(across, least.0, most.map(|most| most.0), width),
                fits(down, least.1, most.map(|most| most.1), height),
            )
        };
        let middle = |side: u16, of: u16| ((i32::from(of) - i32::from(side)) / 2) as i16;
        if facts.is_main() {
            let (across, down) = size(self.screen);
            return Rectangle { x: middle(across, width), y: middle(down, height), width: across, height: down };
        }
        let (across, down) = size((facts.wanted.width, facts.wanted.height));
        // In the middle of its owner, as far as the screen has room.
        let owner =
            facts.owner.and_then(|owner| self.place_of(owner)).unwrap_or(Rectangle { x: 0, y: 0, width, height });
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

    fn main_window() -> WindowFacts {
        let wanted = Rectangle { x: 100, y: 100, width: 500, height: 500 };
        WindowFacts { wanted, takes_focus: true, title: "main".into(), ..WindowFacts::default() }
    }

    fn dialog(owner: Window) -> WindowFacts {
        let wanted = Rectangle { x: 0, y: 0, width: 300, height: 101 };
        WindowFacts { wanted, owner: Some(owner), floats: true, takes_focus: true, ..WindowFacts::default() }
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
        let fixed = WindowFacts { least: Some((640, 480)), most: Some((640, 480)), ..main_window() };
        assert_eq!(layout.add(1, fixed.clone()), Rectangle { x: 320, y: 120, width: 640, height: 480 });
        let large = WindowFacts { wanted: Rectangle { width: 3_000, height: 10, ..Rectangle::default() }, ..dialog(9) };
        assert_eq!(layout.add(2, large), Rectangle { x: 0, y: 355, width: 1_280, height: 10 });
        let full = WindowFacts { full_screen: true, ..fixed };
        assert_eq!(layout.update(1, full), Some(Rectangle { x: 0, y: 0, width: 1_280, height: 720 }));
        assert_eq!(layout.resize(7, Rectangle::default()), None);
        for (least, most) in [((0, 0), (0, 0)), ((9_999, 9_999), (1, 1)), ((u16::MAX, 5), (u16::MAX, 5))] {
            let odd = WindowFacts { least: Some(least), most: Some(most), ..main_window() };
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
        layout.add(2, WindowFacts { owner: None, ..dialog(1) });
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
        layout.add(2, WindowFacts { takes_focus: false, ..dialog(1) });
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
