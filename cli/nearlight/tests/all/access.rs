//! The commands that let others in, beside a server.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use super::nats::terminate;
use super::process::Process;
use super::support::nearlight;

#[test]
fn a_code_is_withdrawn_when_the_command_that_shows_it_is_terminated() {
    let folder = std::env::temp_dir().join(format!("nearlight-withdrawn-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    // As a server leaves it behind that has started once.
    fs::write(folder.join("links.json"), r#"{"page":"https://192.0.2.7:8090/"}"#).expect("a file");
    let pair = nearlight().args(["devices", "pair", "--json", "--state"]).arg(&folder).stdout(Stdio::piped()).spawn();
    let mut pair = Process(pair.expect("the command starts"));
    let mut line = String::new();
    BufReader::new(pair.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let shown: Value = serde_json::from_str(&line).expect("JSON");
    let kept = || {
        serde_json::from_str::<Value>(&fs::read_to_string(folder.join("links.json")).expect("a file")).expect("JSON")
    };
    assert_eq!(kept()["code"]["digits"], shown["code"]);
    terminate(&mut pair);
    assert_eq!(kept()["code"], Value::Null);
    fs::remove_dir_all(folder).expect("removed");
}
