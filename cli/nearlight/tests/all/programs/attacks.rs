//! Programs that hinder their display: the server stays, and the viewers are told.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use nearlight_scene::{ApplicationMessage, Output};

use super::{Folder, PATIENCE, SIZE, Served};

/// Waits until eight different greys, each of a whole picture, were seen while a key is pressed.
fn until_seen_to_change(served: &mut Served) {
    let begin = Instant::now();
    let mut seen = BTreeSet::new();
    while seen.len() < 8 {
        served.press("KeyA");
        let greys = served.greys.recv_timeout(PATIENCE).expect("a picture");
        if greys.iter().all(|grey| *grey == greys[0]) {
            seen.insert(greys);
        }
        assert!(begin.elapsed() < PATIENCE, "the picture does not change: {seen:?}");
    }
}

fn tells(output: &Output, words: &str) -> bool {
    matches!(output, Output::Message(ApplicationMessage { data, .. }) if String::from_utf8_lossy(data).contains(words))
}

#[test]
fn a_program_that_grabs_the_server_is_still_seen() {
    let folder = Folder::new("grab");
    let mut served = Served::start(&folder, "grab", 30);
    served.until_prints("grabbed");
    // Input is injected as well, and does not wait for the end of the grab.
    until_seen_to_change(&mut served);
}

#[test]
fn a_program_that_ends_the_window_managers_connection_is_still_managed_seen_and_driven() {
    let folder = Folder::new("kill");
    let mut served = Served::start(&folder, "kill", 30);
    served.until_prints("killed");
    served.until_prints(&format!("size {} {}", SIZE.0, SIZE.1));
    until_seen_to_change(&mut served);
}

#[test]
fn a_program_that_ends_every_connection_to_its_display_ends_nothing_else_and_the_viewers_are_told() {
    let folder = Folder::new("kill-loop");
    let mut served = Served::start(&folder, "kill-loop", 30);
    served.until_told(|output| tells(output, "keeps ending the connections to its display"));
    assert!(served.failures().is_empty(), "{:?}", served.failures());
    fs::write(folder.0.join("stop"), "").expect("the program looks for it");
    until_seen_to_change(&mut served);
    served.until_told(|output| tells(output, "answers again"));
    assert!(served.failures().is_empty(), "{:?}", served.failures());
}

#[test]
fn a_program_that_holds_the_x_server_while_connections_are_opened_again_is_reported_and_seen_afterwards() {
    let folder = Folder::new("grab-kill");
    let mut served = Served::start(&folder, "grab-kill", 30);
    served.until_told(|output| tells(output, "blocks its display"));
    fs::write(folder.0.join("stop"), "").expect("the program looks for it");
    until_seen_to_change(&mut served);
    served.until_told(|output| tells(output, "answers again"));
    assert!(served.failures().is_empty(), "{:?}", served.failures());
}
