//! The server's connections to an X display: the pictures of its screen, its window manager, its clipboard and injected input.

pub(crate) mod capture;
pub(crate) mod clipboard;
pub(crate) mod connection;
pub(crate) mod cursor;
pub(crate) mod injection;
pub(crate) mod properties;
pub(crate) mod reconnection;
pub(crate) mod renderer;
pub(crate) mod screen;
pub(crate) mod windows;
pub(crate) mod xtest;
