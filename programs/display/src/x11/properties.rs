//! Reads the X properties of windows for [`crate::layout`].

use x11rb::properties::{WmHints, WmSizeHints};
use x11rb::protocol::xproto::{self, AtomEnum, ConnectionExt as _, Window};

use crate::layout::{Rectangle, WindowProperties};
use crate::x11::connection::{Display, XError};
use crate::x11::windows::MAX_TITLE;

x11rb::atom_manager! {
    pub(crate) Atoms: AtomsCookie {
        UTF8_STRING,
        WM_DELETE_WINDOW,
        WM_PROTOCOLS,
        WM_S0,
        WM_STATE,
        WM_TAKE_FOCUS,
        _NET_ACTIVE_WINDOW,
        _NET_CLIENT_LIST,
        _NET_CLIENT_LIST_STACKING,
        _NET_CLOSE_WINDOW,
        _NET_CURRENT_DESKTOP,
        _NET_DESKTOP_GEOMETRY,
        _NET_DESKTOP_VIEWPORT,
        _NET_FRAME_EXTENTS,
        _NET_NUMBER_OF_DESKTOPS,
        _NET_SUPPORTED,
        _NET_SUPPORTING_WM_CHECK,
        _NET_WM_NAME,
        _NET_WM_STATE,
        _NET_WM_STATE_FULLSCREEN,
        _NET_WM_STATE_MAXIMIZED_HORZ,
        _NET_WM_STATE_MAXIMIZED_VERT,
        _NET_WM_WINDOW_TYPE,
        _NET_WM_WINDOW_TYPE_DIALOG,
        _NET_WM_WINDOW_TYPE_DOCK,
        _NET_WM_WINDOW_TYPE_MENU,
        _NET_WM_WINDOW_TYPE_NORMAL,
        _NET_WM_WINDOW_TYPE_NOTIFICATION,
        _NET_WM_WINDOW_TYPE_SPLASH,
        _NET_WM_WINDOW_TYPE_TOOLBAR,
        _NET_WM_WINDOW_TYPE_UTILITY,
        _NET_WORKAREA,
    }
}

/// Reads a window's properties.
pub(crate) fn read_properties(display: &Display, atoms: &Atoms, window: Window) -> Result<WindowProperties, XError> {
    let (connection, root) = (&display.connection, display.root);
    let geometry = connection.get_geometry(window)?;
    let hints = WmHints::get(connection, window)?;
    let sizes = WmSizeHints::get_normal_hints(connection, window)?;
    let owner = connection.get_property(false, window, AtomEnum::WM_TRANSIENT_FOR, AtomEnum::WINDOW, 0, 1)?;
    let kinds = connection.get_property(false, window, atoms._NET_WM_WINDOW_TYPE, AtomEnum::ATOM, 0, 8)?;
    let states = connection.get_property(false, window, atoms._NET_WM_STATE, AtomEnum::ATOM, 0, 16)?;
    let name = connection.get_property(false, window, atoms._NET_WM_NAME, atoms.UTF8_STRING, 0, 256)?;
    let old_name = connection.get_property(false, window, AtomEnum::WM_NAME, AtomEnum::ANY, 0, 256)?;
    let protocols = connection.get_property(false, window, atoms.WM_PROTOCOLS, AtomEnum::ATOM, 0, 16)?;

    let geometry = geometry.reply()?;
    // Malformed properties count as missing.
    let (hints, sizes) = (hints.reply().ok().flatten(), sizes.reply().ok().flatten());
    let list = |reply: xproto::GetPropertyReply| reply.value32().map(Iterator::collect::<Vec<u32>>).unwrap_or_default();
    let owners = list(owner.reply()?);
    let (kinds, states, protocols) = (list(kinds.reply()?), list(states.reply()?), list(protocols.reply()?));
    let floating = [
        atoms._NET_WM_WINDOW_TYPE_DIALOG,
        atoms._NET_WM_WINDOW_TYPE_UTILITY,
        atoms._NET_WM_WINDOW_TYPE_SPLASH,
        atoms._NET_WM_WINDOW_TYPE_TOOLBAR,
        atoms._NET_WM_WINDOW_TYPE_MENU,
        atoms._NET_WM_WINDOW_TYPE_DOCK,
        atoms._NET_WM_WINDOW_TYPE_NOTIFICATION,
    ];
    // The first known type counts (EWMH 1.5, `_NET_WM_WINDOW_TYPE`).
    let known = kinds.iter().find(|kind| floating.contains(kind) || **kind == atoms._NET_WM_WINDOW_TYPE_NORMAL);
    let passive =
        [atoms._NET_WM_WINDOW_TYPE_SPLASH, atoms._NET_WM_WINDOW_TYPE_NOTIFICATION, atoms._NET_WM_WINDOW_TYPE_DOCK];
    let side = |(width, height): (i32, i32)| {
        let side = |pixels: i32| pixels.clamp(0, i32::from(u16::MAX)) as u16;
        (side(width), side(height))
    };
    let (name, old_name) = (name.reply()?.value, old_name.reply()?.value);
    let title =
        String::from_utf8_lossy(if name.is_empty() { &old_name } else { &name }).chars().take(MAX_TITLE).collect();
    let takes_input = hints.and_then(|hints| hints.input).unwrap_or(true);
    Ok(WindowProperties {
        requested: Rectangle { x: geometry.x, y: geometry.y, width: geometry.width, height: geometry.height },
        // A dialog of the whole program has the root window as its owner.
        owner: owners.first().copied().filter(|owner| *owner != root && *owner != x11rb::NONE && *owner != window),
        floats: !owners.is_empty() || known.is_some_and(|kind| floating.contains(kind)),
        min_size: sizes.and_then(|sizes| sizes.min_size).map(side),
        max_size: sizes.and_then(|sizes| sizes.max_size).map(side),
        full_screen: states.contains(&atoms._NET_WM_STATE_FULLSCREEN),
        takes_focus: (takes_input || protocols.contains(&atoms.WM_TAKE_FOCUS))
            && !known.is_some_and(|kind| passive.contains(kind)),
        title,
    })
}
