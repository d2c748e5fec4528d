//! The command as a child process, for all tests that need a server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

pub(crate) const TOKEN: &str = "a-token-for-the-tests";

pub(crate) fn nearlight() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearlight"));
    command.env("NEARLIGHT_LOG", "warn").env_remove("NEARLIGHT_TOKEN");
    command
}

/// A server and its first output. A small picture, so that two busy cores keep up.
pub(crate) fn serve(further: &[&str]) -> (Child, Value) {
    serve_in(&[], further)
}

/// Starts a server whose log goes elsewhere.
pub(crate) fn serve_with_log(log: Stdio, further: &[&str]) -> (Child, Value) {
    start(&[], log, further)
}

/// Starts a server with these variables in its environment.
pub(crate) fn serve_in(environment: &[(&str, &str)], further: &[&str]) -> (Child, Value) {
    start(environment, Stdio::inherit(), further)
}

fn start(environment: &[(&str, &str)], log: Stdio, further: &[&str]) -> (Child, Value) {
    let token = if further.contains(&"--token") { &[][..] } else { &["--token", TOKEN] };
    let mut child = nearlight()
        .args(["serve", "--json", "--port", "0", "--size", "320x240", "--fps", "20"])
        .args(token)
        .args(further)
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .expect("the command starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a first line");
    let first = serde_json::from_str(&line).unwrap_or_else(|error| panic!("`{line}` is not JSON: {error}"));
    (child, first)
}
