//! `nearlight serve --fleet agones`: the calls of Agones' SDK over its REST interface, which listens on this machine alone.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context as _;
use nearlight_fleet::{GameServer, SdkAnswer, SdkCall};
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
    let mut complained = false;
    while !server.is_over() {
        server.on_taken(clock.now(), taken());
        while let Some(call) = server.poll_call(clock.now()) {
            let answer = make(port, call).await;
            if let Err(error) = &answer
                && !std::mem::replace(&mut complained, true)
            {
                tracing::warn!("Agones' SDK does not answer at port {port} ({error:#}); still trying");
            }
            let answer = answer.unwrap_or(SdkAnswer::Failed);
            if answer == SdkAnswer::Missing {
                tracing::warn!("the fleet has no counter `{COUNTER}`: places are not counted");
            }
            server.on_answer(clock.now(), call, answer);
        }
        if let Ok(Some((state, deleted))) = tokio::time::timeout(CHECK_INTERVAL, seen.recv()).await {
            tracing::info!(state, deleted, "Agones' state of this server");
            server.on_state(&state, deleted);
        }
    }
    watching.abort();
}

async fn make(port: u16, call: SdkCall) -> anyhow::Result<SdkAnswer> {
    let counter = format!("/v1beta1/counters/{COUNTER}");
    let (method, path, body) = match call {
        SdkCall::Ready => ("POST", "/ready", "{}".to_owned()),
        SdkCall::Health => ("POST", "/health", "{}".to_owned()),
        SdkCall::Count { taken, capacity } => {
            // 64-bit numbers are texts in this JSON (protobuf's).
            ("PATCH", counter.as_str(), format!(r#"{{"count":"{taken}","capacity":"{capacity}"}}"#))
        }
        SdkCall::Shutdown => ("POST", "/shutdown", "{}".to_owned()),
    };
    let status = tokio::time::timeout(ANSWER_LIMIT, async {
        let mut stream = request(port, method, path, &body).await?;
        let status = status(&mut stream).await?;
        // The connection is read to its end, so that it closes in order.
        tokio::io::copy(&mut stream.take(MAX_ANSWER_BYTES), &mut tokio::io::sink()).await?;
        anyhow::Ok(status)
    });
    match status.await.context("no answer in time")?? {
        200..300 => Ok(SdkAnswer::Done),
        404 | 501 if matches!(call, SdkCall::Count { .. }) => Ok(SdkAnswer::Missing),
        status => anyhow::bail!("{method} {path} was answered with status {status}"),
    }
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

/// Reports every state of the server that Agones tells, with whether it is being taken away.
async fn watch(port: u16, states: mpsc::Sender<(String, bool)>) {
    while !states.is_closed() {
        if let Err(error) = follow(port, &states).await {
            tracing::debug!(%error, "the watch of Agones' state ended");
        }
        tokio::time::sleep(WATCH_RETRY).await;
    }
}

async fn follow(port: u16, states: &mpsc::Sender<(String, bool)>) -> anyhow::Result<()> {
    let mut stream = request(port, "GET", "/watch/gameserver", "").await?;
    anyhow::ensure!(status(&mut stream).await? == 200, "the watch is refused");
    loop {
        let mut line = String::new();
        if (&mut stream).take(MAX_ANSWER_BYTES).read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let Ok(told) = serde_json::from_str::<Value>(&line) else { continue };
        let server = &told["result"];
        let Some(state) = server["status"]["state"].as_str() else { continue };
        let deletion = &server["object_meta"]["deletion_timestamp"];
        let deletion = deletion.as_i64().or_else(|| deletion.as_str()?.parse().ok()).unwrap_or_default();
        states.send((state.to_owned(), deletion != 0)).await?;
    }
}
