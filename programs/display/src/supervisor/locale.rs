//! The program's locale. Without one that is based on UTF-8, programs neither show nor accept characters beyond ASCII.

use std::process::{Command, Stdio};

/// A locale that every C library has without installed data.
const FALLBACK: &str = "C.UTF-8";
/// Variables that determine the character type, the strongest first.
const VARIABLES: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// Gives a program a locale of UTF-8 if it would have none, because no variable names one or its data is not installed.
pub(super) fn set_locale(command: &mut Command) {
    let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let chosen = VARIABLES.iter().find_map(|name| value(name));
    if chosen.is_none_or(|chosen| !is_usable(&chosen, installed().as_deref())) {
        // `LC_ALL` would override `LC_CTYPE`.
        command.env_remove("LC_ALL").env("LC_CTYPE", FALLBACK);
        if value("LANG").is_none() {
            command.env("LANG", FALLBACK);
        }
    }
}

/// Returns whether programs get characters beyond ASCII with a locale. `installed` is the output of `locale -a`, if there is one.
fn is_usable(chosen: &str, installed: Option<&str>) -> bool {
    if ["C", "POSIX"].contains(&chosen) {
        return false;
    }
    // `locale -a` writes `en_US.utf8` for `en_US.UTF-8`.
    let normal = |name: &str| name.to_ascii_lowercase().replace('-', "");
    installed.is_none_or(|installed| installed.lines().any(|line| normal(line.trim()) == normal(chosen)))
}

/// Returns the names of the installed locales; `None` if the system does not tell.
fn installed() -> Option<String> {
    let output = Command::new("locale").arg("-a").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
        .filter(|names| output.status.success() && !names.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_is_usable_if_it_is_installed_and_goes_beyond_ascii() {
        let installed = "C\nC.utf8\nPOSIX\nde_DE.utf8\nen_US\nen_US.iso88591\n";
        for (name, usable) in [
            ("C", false),
            ("POSIX", false),
            ("C.UTF-8", true),
            ("de_DE.UTF-8", true),
            ("de_DE.utf8", true),
            ("fr_FR.UTF-8", false),
            ("en_US.ISO-8859-1", true),
        ] {
            assert_eq!(is_usable(name, Some(installed)), usable, "{name}");
        }
        assert!(is_usable("fr_FR.UTF-8", None) && !is_usable("C", None));
    }
}
