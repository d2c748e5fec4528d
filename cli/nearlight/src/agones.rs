//! `nearlight serve --fleet agones`: the calls of Agones' SDK over its REST interface, which listens on this machine alone.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context as _;
use nearlight_fleet::{GameServer, SdkAnswer, SdkCall, ServerState};
use nearlight_net::Clock;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Default port of the SDK, unless `AGONES_SDK_HTTP_PORT` is set.
const DEFAULT_PORT: u16 = 9358;
/// The counter of places in the fleet's manifest.
const COUNTER: &str = "places";
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Interval at which due work is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Pause between two attempts to watch.
const WATCH_RETRY: Duration = Duration::from_secs(1);
/// Longest response, and longest state in the watch, in bytes. A game server's description has a few kilobytes.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// Tells Agones of a server that takes clients, until the server is to end. `taken` reads how many places are taken.
pub(crate) async fn serve(clock: Clock, capacity: usize, taken: impl Fn() -> usize) {
    let port = std::env::var("AGONES_SDK_HTTP_PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(DEFAULT_PORT);
    let mut server = GameServer::new(clock.now(), capacity);
    let (states, mut seen) = mpsc::channel(16);
    let watching = tokio::spawn(watch(port, states));
    let mut is_silent = false;
    while !server.is_over() {
        server.on_taken(clock.now(), taken());
        while let Some(call) = server.poll_call(clock.now()) {
            let answer = make(port, call).await;
            match (&answer, is_silent) {
                (Err(error), false) => {
                    tracing::warn!("Agones' SDK does not answer at port {port} ({error:#}); still trying");
                }
                (Ok(_), true) => tracing::info!("Agones' SDK answers again"),
                _ => {}
            }
            is_silent = answer.is_err();
            let answer = answer.unwrap_or(SdkAnswer::Failed);
            if answer == SdkAnswer::Missing {
                tracing::warn!("the fleet has no counter `{COUNTER}`: places are not counted");
            }
            server.on_answer(clock.now(), call, answer);
        }
        if let Some((call, state)) = server.poll_stuck(clock.now()) {
            tracing::warn!(
                state,
                "Agones' SDK has accepted `{}`, but the state has not changed. Its sidecar may lack the right to change game servers: check \
                 that the namespace has the ServiceAccount agones-sdk and its RoleBinding",
                &path_of(call)[1..]
            );
        }
        if let Ok(Some(state)) = tokio::time::timeout(CHECK_INTERVAL, seen.recv()).await {
            tracing::info!(state = state.name, deleted = state.is_deleted, "Agones' state of this server");
            server.on_state(clock.now(), state);
        }
    }
    watching.abort();
}

fn path_of(call: SdkCall) -> String {
    match call {
        SdkCall::Ready => "/ready".into(),
        SdkCall::Health => "/health".into(),
        SdkCall::Allocate => "/allocate".into(),
        SdkCall::Count { .. } => format!("/v1beta1/counters/{COUNTER}"),
        SdkCall::Shutdown => "/shutdown".into(),
    }
}

async fn make(port: u16, call: SdkCall) -> anyhow::Result<SdkAnswer> {
    let (method, body) = match call {
        // 64-bit numbers are texts in this JSON (protobuf's).
        SdkCall::Count { taken, capacity } => ("PATCH", format!(r#"{{"count":"{taken}","capacity":"{capacity}"}}"#)),
        _ => ("POST", "{}".to_owned()),
    };
    let path = path_of(call);
    let exchange = tokio::time::timeout(ANSWER_LIMIT, async {
        let mut stream = request(port, method, &path, &body).await?;
        let status = status(&mut stream).await?;
        let mut answer = Vec::new();
        // To the end, so that the connection closes in order.
        stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await?;
        anyhow::Ok((status, answer))
    });
    let (status, answer) = exchange.await.context("no answer in time")??;
    match status {
        200..300 => Ok(SdkAnswer::Done),
        404 | 501 if matches!(call, SdkCall::Count { .. }) => Ok(SdkAnswer::Missing),
        // gRPC's errors without a code of their own are status 500, with the reason as a text.
        500 if matches!(call, SdkCall::Count { .. }) && is_missing(&answer) => Ok(SdkAnswer::Missing),
        status => anyhow::bail!("{method} {path} was answered with status {status}"),
    }
}

/// Returns whether an error says that the fleet has no such counter, or Agones no counters at all.
fn is_missing(answer: &[u8]) -> bool {
    let reason: Value = serde_json::from_slice(answer).unwrap_or_default();
    let reason = reason["message"].as_str().unwrap_or_default();
    reason.contains("counter not found") || reason.contains("not enabled")
}

/// Sends a request as HTTP/1.0, whose answers are not cut into chunks and end with the connection.
async fn request(port: u16, method: &str, path: &str, body: &str) -> anyhow::Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    Ok(BufReader::new(stream))
}

/// The status of the answer, up to the end of its head.
async fn status(stream: &mut BufReader<TcpStream>) -> anyhow::Result<u16> {
    let mut head = stream.take(MAX_ANSWER_BYTES);
    let mut first = String::new();
    head.read_line(&mut first).await?;
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.context("the answer is not HTTP")?;
    let mut line = String::new();
    while head.read_line(&mut line).await? > 2 {
        line.clear();
    }
    Ok(status)
}

/// Reports every state of the server that Agones tells.
async fn watch(port: u16, states: mpsc::Sender<ServerState>) {
    while !states.is_closed() {
        if let Err(error) = follow(port, &states).await {
            tracing::debug!(%error, "the watch of Agones' state ended");
        }
        tokio::time::sleep(WATCH_RETRY).await;
    }
}

async fn follow(port: u16, states: &mpsc::Sender<ServerState>) -> anyhow::Result<()> {
    let mut stream = request(port, "GET", "/watch/gameserver", "").await?;
    anyhow::ensure!(status(&mut stream).await? == 200, "the watch is refused");
    loop {
        let mut line = String::new();
        if (&mut stream).take(MAX_ANSWER_BYTES).read_line(&mut line).await? == 0 {
            return Ok(());
        }
        if let Some(state) = parse_state(&line) {
            states.send(state).await?;
        }
    }
}

/// Returns the state in one line of the watch.
fn parse_state(line: &str) -> Option<ServerState> {
    let message: Value = serde_json::from_str(line).ok()?;
    let server = &message["result"];
    let name = server["status"]["state"].as_str()?.to_owned();
    let last_allocated = server["object_meta"]["annotations"]["agones.dev/last-allocated"].as_str();
    let deletion = &server["object_meta"]["deletion_timestamp"];
    let deletion = deletion.as_i64().or_else(|| deletion.as_str()?.parse().ok()).unwrap_or_default();
    Some(ServerState { name, last_allocated: last_allocated.unwrap_or_default().to_owned(), is_deleted: deletion != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_from_a_line_of_the_watch() {
        let line = r#"{"result":{"object_meta":{"name":"a","deletion_timestamp":"0","annotations":{"agones.dev/last-allocated":"2026-01-02T03:04:05.6Z"}},"status":{"state":"Allocated"}}}"#;
        let state = parse_state(line).expect("a state");
        assert_eq!((state.name.as_str(), state.is_deleted), ("Allocated", false));
        assert_eq!(state.last_allocated, "2026-01-02T03:04:05.6Z");
        let deleted = r#"{"result":{"object_meta":{"deletion_timestamp":"17"},"status":{"state":"Ready"}}}"#;
        assert!(parse_state(deleted).is_some_and(|state| state.is_deleted && state.last_allocated.is_empty()));
        assert_eq!(parse_state("{}"), None);
        assert_eq!(parse_state("no JSON"), None);
    }

    #[test]
    fn errors_of_counters_are_told_apart() {
        assert!(is_missing(br#"{"code":2,"message":"counter not found: places","details":[]}"#));
        assert!(is_missing(br#"{"code":2,"message":"CountsAndLists not enabled","details":[]}"#));
        assert!(!is_missing(
            br#"{"code":2,"message":"out of range. Count must be within range [0,Capacity]","details":[]}"#
        ));
        assert!(!is_missing(b"no JSON"));
    }
}
