//! Text that is copied and pasted: long texts, both selections, encodings, and who takes part.

use super::{Folder, ONE, Served};
use std::fs;

use nearlight_scene::{Application as _, ApplicationMessage, Output, Viewer};
use nearlight_units::Time;
use nearlight_wire::MAX_CLIPBOARD_BYTES;

const TWO: Viewer = Viewer(2);

/// Prints the same line again and again while all of `conditions` hold.
fn repeat_while(conditions: &str, line: &str) -> String {
    format!("while :; do {conditions} && echo {line}; sleep 0.2; done")
}

/// A text with characters of one to four bytes.
fn text(bytes: usize) -> String {
    "Grüße, 5 € 😀\n"
        .chars()
        .cycle()
        .scan(0, |length, character| {
            *length += character.len_utf8();
            (*length <= bytes).then_some(character)
        })
        .collect()
}

fn copied(output: &Output, wanted: &str) -> bool {
    matches!(output, Output::Clipboard(text) if text == wanted)
}

fn notice(output: &Output, part: &str) -> bool {
    matches!(output, Output::Message(ApplicationMessage { data, .. }) if String::from_utf8_lossy(data).contains(part))
}

#[test]
fn a_pasted_text_reaches_programs_whole_in_both_selections() {
    let folder = Folder::new("paste");
    let pasted = text(3 << 20);
    fs::write(folder.0.join("expected"), &pasted).expect("a file");
    let latin = pasted.chars().map(|character| u8::try_from(u32::from(character)).unwrap_or(b'?')).collect::<Vec<u8>>();
    fs::write(folder.0.join("expected-latin"), latin).expect("a file");
    let read = |selection: &str, target: &str, file: &str| {
        format!("xclip -o -selection {selection} -t {target} 2>/dev/null | cmp -s - {file}")
    };
    let conditions = [
        read("clipboard", "UTF8_STRING", "expected"),
        read("primary", "UTF8_STRING", "expected"),
        read("clipboard", "STRING", "expected-latin"),
    ];
    let mut served = Served::start_shell(&folder, &repeat_while(&conditions.join(" && "), "whole"), 10);
    // A program that asks before the text has arrived waits for it.
    served.source.on_clipboard_announced(Time::ZERO, ONE);
    served.source.on_clipboard(Time::ZERO, ONE, pasted);
    served.until_prints("whole");
}

#[test]
fn what_is_copied_or_selected_in_a_program_reaches_the_viewer_whole() {
    let folder = Folder::new("copy");
    let texts = [text(60_000), text(3 << 20), "Grüße".to_owned()];
    for (index, text) in texts.iter().enumerate() {
        fs::write(folder.0.join(index.to_string()), text).expect("a file");
    }
    let script = "read next < go; xclip -selection clipboard < 0; read next < go; xclip -selection clipboard < 1; \
                  read next < go; xclip -selection primary < 2; exec sleep 60";
    let mut served = Served::start_shell(&folder, &format!("mkfifo go && echo ready && {script}"), 10);
    served.until_prints("ready");
    served.press("KeyA");
    served.until_told(|output| notice(output, "you"));
    for text in &texts {
        fs::write(folder.0.join("go"), "\n").expect("the program reads");
        served.until_told(|output| copied(output, text));
    }
}

#[test]
fn a_text_that_is_too_long_is_not_passed_on_and_the_viewer_is_told() {
    let folder = Folder::new("too-long");
    fs::write(folder.0.join("text"), "x".repeat(MAX_CLIPBOARD_BYTES + 1)).expect("a file");
    let mut served = Served::start_shell(
        &folder,
        "mkfifo go && echo ready && read next < go; xclip -selection clipboard < text; exec sleep 60",
        10,
    );
    served.until_prints("ready");
    served.press("KeyA");
    served.until_told(|output| notice(output, "you"));
    fs::write(folder.0.join("go"), "\n").expect("the program reads");
    served.until_told(|output| notice(output, "at most 4.0 MiB"));
}

#[test]
fn only_the_viewer_in_control_copies_and_pastes() {
    let folder = Folder::new("control");
    let script = "mkfifo go && echo ready && read next < go; echo secret | xclip -selection clipboard; exec sleep 60";
    let mut served = Served::start_shell(&folder, script, 10);
    served.until_prints("ready");
    served.source.on_viewer_joined(Time::ZERO, TWO);
    served.press("KeyA");
    served.until_told(|output| notice(output, "you"));
    served.source.on_clipboard(Time::ZERO, TWO, "of a guest".into());
    served.until_told(|output| notice(output, "another viewer has the controls"));
    fs::write(folder.0.join("go"), "\n").expect("the program reads");
    let mut receivers = Vec::new();
    let begin = std::time::Instant::now();
    while receivers.is_empty() {
        while let Some((viewer, output)) = served.source.poll_output() {
            if matches!(output, Output::Clipboard(_)) {
                assert!(copied(&output, "secret\n"), "{output:?}");
                receivers.push(viewer);
            }
        }
        assert!(begin.elapsed() < super::PATIENCE, "nobody gets the text");
    }
    assert_eq!(receivers, [ONE]);
}
