//! Names of members, as all others see them.

use crate::message::MAX_NAME_BYTES;

/// Ranges of characters without a glyph of their own that are not control characters: Unicode's `Default_Ignorable_Code_Point` (version 16),
/// which has the marks of bidirectional text and everything of no width, and the annotations and the blank Braille pattern.
const INVISIBLE: [(char, char); 19] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
    ('\u{13430}', '\u{1343f}'),
];

/// Returns the name without characters that nobody sees, and with single spaces between its words.
#[must_use]
pub fn visible_name(name: &str) -> String {
    let is_visible = |c: &char| !INVISIBLE.iter().any(|(first, last)| (first..=last).contains(&c));
    let seen: String = name.chars().filter(is_visible).collect();
    seen.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns what two names have in common that people take for the same.
pub(crate) fn comparable_name(name: &str) -> String {
    visible_name(name).to_lowercase()
}

/// Returns the name as it is seen, with a number after it if another member has it. Members without a name share that.
pub(crate) fn unique_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let name = visible_name(name);
    if name.is_empty() || !is_taken(&comparable_name(&name)) {
        return name;
    }
    let numbered = |number: u32| {
        let suffix = format!(" ({number})");
        let kept = name.floor_char_boundary(MAX_NAME_BYTES - suffix.len());
        format!("{}{suffix}", name[..kept].trim_end())
    };
    // One of the numbers is free, because a room has fewer members than there are numbers.
    (2..=u32::MAX).map(numbered).find(|name| !is_taken(&comparable_name(name))).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_everything_that_they_contain() {
        for (given, seen) in [
            ("Ada", "Ada"),
            ("  Ada   Lovelace ", "Ada Lovelace"),
            ("A\u{200b}da", "Ada"),
            ("\u{202e}adA", "adA"),
            ("Ada\u{2066}\u{200f}\u{feff}\u{e0041}", "Ada"),
            ("\u{3164}\u{2800}\u{3000}", ""),
            ("Zoë 🐧", "Zoë 🐧"),
        ] {
            assert_eq!(visible_name(given), seen, "{given:?}");
        }
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let taken = |names: &'static [&'static str]| move |name: &str| names.contains(&name);
        assert_eq!(unique_name("Ada", taken(&["ada"])), "Ada (2)");
        assert_eq!(unique_name("ADA\u{200d}", taken(&["ada", "ada (2)"])), "ADA (3)");
        assert_eq!(unique_name("Ada", taken(&["adam"])), "Ada");
        assert_eq!(unique_name("", taken(&[""])), "");
        let long = unique_name("ééééééééééééééée", taken(&["ééééééééééééééée"]));
        assert!(long.len() <= MAX_NAME_BYTES && long.ends_with(" (2)"), "{long}");
    }
}
