//! The variables of the server's environment that reach the supervisor, the display server and the program.
//!
//! Everything else stays with the server: its environment may hold tokens, passwords of other services and keys of clouds, and a process shows
//! its environment to every other process of its user.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use crate::supervisor::sandbox::Sandbox;

/// Variables that every program gets.
const PASSED_VARIABLES: [&str; 7] = ["PATH", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "DRI_PRIME"];
/// Prefixes of further variables that it gets: those of graphics libraries and toolkits.
const PASSED_PREFIXES: [&str; 14] = [
    "LC_", "SDL_", "MESA_", "GALLIUM_", "LIBGL_", "LP_", "QT_", "GTK_", "GDK_", "VK_", "__GL_", "__GLX_", "__EGL_",
    "__NV_",
];
/// Variables of a login session, which name the user and the user's folders. The supervisor needs them too.
const SESSION_VARIABLES: [&str; 13] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "EDITOR",
    "TMPDIR",
    "XDG_DATA_HOME",
    "XDG_DATA_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "XDG_CURRENT_DESKTOP",
];
/// Variables by which a program finds the desktop of the user who started the server. Only programs on an existing display get them.
const DESKTOP_VARIABLES: [&str; 8] = [
    "DISPLAY",
    "XAUTHORITY",
    "WAYLAND_DISPLAY",
    "SWAYSOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "SESSION_MANAGER",
    "PULSE_SERVER",
];

fn is_basic(name: &OsStr) -> bool {
    PASSED_VARIABLES.iter().any(|passed| name == *passed)
        || PASSED_PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
}

/// Returns what the supervisor gets of the server's environment. `on_desktop` is set if the program runs on an existing display.
pub(crate) fn for_supervisor(
    all: impl Iterator<Item = (OsString, OsString)>,
    on_desktop: bool,
) -> Vec<(OsString, OsString)> {
    let passes = |name: &OsStr| {
        is_basic(name)
            || SESSION_VARIABLES.iter().any(|passed| name == *passed)
            || on_desktop && DESKTOP_VARIABLES.iter().any(|passed| name == *passed)
    };
    all.filter(|(name, _)| passes(name)).collect()
}

/// Returns whether a program in this sandbox gets a variable of the supervisor's environment.
pub(crate) fn reaches_program(name: &OsStr, sandbox: Sandbox) -> bool {
    sandbox != Sandbox::Strict || is_basic(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNERS: [&str; 10] = [
        "PATH",
        "HOME",
        "LC_ALL",
        "DISPLAY",
        "NEARLIGHT_TOKEN",
        "NEARLIGHT_NATS",
        "AWS_SECRET_ACCESS_KEY",
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "LD_PRELOAD",
    ];

    fn passed(on_desktop: bool) -> Vec<OsString> {
        let all = OWNERS.iter().map(|name| (OsString::from(name), OsString::from("1")));
        for_supervisor(all, on_desktop).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn secrets_of_the_server_stay_with_it() {
        assert_eq!(passed(false), ["PATH", "HOME", "LC_ALL"]);
        assert_eq!(passed(true), ["PATH", "HOME", "LC_ALL", "DISPLAY", "DBUS_SESSION_BUS_ADDRESS"]);
    }

    #[test]
    fn a_strict_sandbox_tells_nothing_about_the_user() {
        let reaches = |sandbox| ["PATH", "HOME", "LC_ALL"].map(|name| reaches_program(OsStr::new(name), sandbox));
        assert_eq!(reaches(Sandbox::Strict), [true, false, true]);
        assert_eq!(reaches(Sandbox::Home), [true; 3]);
    }
}
