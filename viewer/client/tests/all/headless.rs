//! The headless viewer against a minimal server over loopback. No test depends on timing: they check only counts.

use crate::server;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nearlight_client::headless::watch_until;
use nearlight_client::{
    ApplicationMessage, ClientError, ExitClass, HeadlessOptions, MessageError, Outage, PathOptions, ViewOptions,
};
use nearlight_codec::CodecKind;
use nearlight_emulate::{PathEnd, SessionPaths};
use nearlight_events::Summary;
use nearlight_net::{Clock, Link};
use nearlight_units::Span;
use nearlight_wire::DisplayKind;
use server::{Behaviour, FPS, OTHER_SIZE, SIZE, Server};
use tokio::sync::watch;

/// Runs the viewer on its own clock, as on another machine.
async fn view(options: HeadlessOptions) -> Result<Summary, ClientError> {
    // The sender lives as long as the run and never stops it.
    let (_stop, stopped) = watch::channel(false);
    watch_until(options, Clock::start(), stopped).await
}

fn options(link: &Link, seconds: i64) -> HeadlessOptions {
    let view = ViewOptions { length: Some(Span::from_secs(seconds)), ..ViewOptions::new(link.clone()) };
    HeadlessOptions::new(view)
}

/// Returns the minimum number of frames in this many seconds, which also a busy machine reaches.
fn at_least(seconds: u64) -> u64 {
    seconds * u64::from(FPS) * 2 / 3
}

/// A folder for a test's files, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearlight-client-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_path_loses_nothing_and_leaves_its_records() {
    let server = Server::start(Behaviour::default());
    let folder = Folder::new("clean");
    let mut options = options(&server.link, 3);
    let record = &mut options.view.record;
    record.events = Some(folder.file("events.jsonl"));
    record.trace = Some(folder.file("trace.json"));
    record.csv = Some(folder.file("frames.csv"));
    record.screenshot = Some(folder.file("last.png"));
    let summary = view(options).await.expect("a run");

    let frames = summary.frames;
    assert!(frames.displayed >= at_least(3), "{frames:?}");
    assert!(frames.lost * 20 <= frames.sent, "{frames:?}");
    assert_eq!(frames.completed, frames.decoded);
    let (of_frames, of_inputs) = (&summary.motion_to_photon_ms, &summary.input_to_photon_ms);
    assert!(of_inputs.n >= frames.displayed && of_frames.n <= frames.displayed, "{of_frames:?} {of_inputs:?}");
    assert_eq!((summary.stage_sum_error_us_max, summary.unreadable_markers, summary.loss.key_frames), (0, 0, 0));
    assert_eq!((summary.stream.codec.as_str(), summary.stream.transport.as_str()), ("h264", "webtransport"));
    assert!(summary.rate_mbps.received > 0.0 && (summary.rate_mbps.target - 4.0).abs() < 1e-9);

    let events = text(&folder.file("events.jsonl"));
    let lines: Vec<serde_json::Value> =
        events.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert!(lines.iter().all(|line| line["origin"] == "client"));
    let shown = lines.iter().filter(|line| line["event"] == "frame_displayed").count() as u64;
    // The first frames may be displayed before the clocks are known.
    assert!(shown + 5 >= frames.displayed, "{shown} events of {frames:?}");
    let trace: Vec<serde_json::Value> = serde_json::from_str(&text(&folder.file("trace.json"))).expect("an array");
    // The trace also has the frames that a busy machine's display passed over.
    let of_shown = |event: &&serde_json::Value| event["ph"] == "X" && event["args"]["passed_over"].is_null();
    assert_eq!(trace.iter().filter(of_shown).count() as u64, shown * 10);
    assert_eq!(text(&folder.file("frames.csv")).lines().count() as u64, shown + 1);
    let picture = image::open(folder.file("last.png")).expect("a picture").to_rgba8();
    assert_eq!(picture.dimensions(), (SIZE.width.into(), SIZE.height.into()));
}

/// The test server sends every message back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_pass_both_ways_and_wait_for_the_next_connection() {
    // Each session ends after a second; the client comes back.
    let server = Server::start(Behaviour { goodbye_after: Some(u32::from(FPS)), ..Behaviour::default() });
    let options = options(&server.link, 4);
    let messages = options.view.messages.clone();
    let message = |text: &str, reliable| ApplicationMessage { data: text.into(), reliable };
    messages.send(message("before it is welcomed", true)).expect("room");
    let program = messages.clone();
    let talking = tokio::spawn(async move {
        let first = program.recv().await;
        let mut count = 0;
        // Messages that may be lost are sent until one has come back.
        let unreliable = loop {
            let _ = program.send(message("again and again", false));
            match tokio::time::timeout(std::time::Duration::from_millis(50), program.recv()).await {
                Ok(answer) => break answer,
                Err(_) => count += 1,
            }
            assert!(count < 1_000, "no message came back");
        };
        (first, unreliable)
    });
    view(options).await.expect("a run");
    let (first, unreliable) = talking.await.expect("no panic");
    assert_eq!(first, Some(message("before it is welcomed", true)));
    assert_eq!(unreliable, Some(message("again and again", false)));
    while messages.recv().await.is_some() {}
    assert_eq!(messages.send(message("too late", true)), Err(MessageError::Ended));
    assert!(server.sessions() >= 2, "{} sessions", server.sessions());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vp8_for_a_headset_on_a_virtual_display() {
    let server = Server::start(Behaviour { codec: CodecKind::Vp8, ..Behaviour::default() });
    let mut options = options(&server.link, 2);
    options.view.display = DisplayKind::Headset;
    options.display_hz = Some(90);
    let summary = view(options).await.expect("a run");
    assert!(summary.frames.displayed >= at_least(2), "{:?}", summary.frames);
    assert!(summary.frames.lost * 20 <= summary.frames.sent, "{:?}", summary.frames);
    assert_eq!(summary.stage_sum_error_us_max, 0);
    assert_eq!(summary.stream.codec, "vp8");
    assert!(summary.stages_ms["present"]["p95"].as_f64() > Some(0.0), "a slot is waited for");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_size_that_changes_loses_no_frame() {
    for codec in CodecKind::ALL {
        let server = Server::start(Behaviour { codec, resizes_every: Some(10), ..Behaviour::default() });
        let folder = Folder::new(codec.name());
        let mut options = options(&server.link, 3);
        options.view.record.screenshot = Some(folder.file("last.png"));
        let summary = view(options).await.expect("a run");
        let frames = summary.frames;
        assert!(frames.sent >= at_least(3) && frames.lost == 0, "{codec}: {frames:?}");
        assert_eq!((frames.completed, summary.unreadable_markers), (frames.decoded, 0), "{codec}: {frames:?}");
        // A new size begins with a key frame. Some frames are not displayed when this machine is busy.
        assert!(summary.loss.key_frames >= frames.sent / 10 - 1, "{codec}: {:?}", summary.loss);
        assert!(frames.displayed * 2 >= frames.sent, "{codec}: {frames:?}");
        // Opening a decoder or requesting a key frame at each size would freeze the picture for longer.
        assert!(summary.pause_ms_max < 1_000.0, "{codec}: {} ms", summary.pause_ms_max);
        let picture = image::open(folder.file("last.png")).expect("a picture").to_rgba8();
        let sizes = [SIZE, OTHER_SIZE].map(|size| (u32::from(size.width), u32::from(size.height)));
        assert!(sizes.contains(&picture.dimensions()), "{codec}: {:?}", picture.dimensions());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_percent_loss_is_recovered() {
    for seed in [1, 2] {
        let server = Server::start(Behaviour::default());
        let mut options = options(&server.link, 4);
        let paths = SessionPaths::parse("loss=2%", seed, PathEnd::Viewer, 1).expect("a path");
        options.view.path = PathOptions { emulated: Some(Arc::new(paths)), ..PathOptions::default() };
        let summary = view(options).await.expect("a run");
        let (frames, loss) = (summary.frames, summary.loss);
        assert!(loss.packets > 0 && loss.retransmitted > 0, "seed {seed}: {loss:?}");
        // Tests in virtual time check the share of frames that are in time, and that no key frame is needed.
        assert!(frames.decoded * 10 >= frames.sent * 8, "seed {seed}: {frames:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_and_a_move_are_survived_in_one_session() {
    let server = Server::start(Behaviour::default());
    let mut options = options(&server.link, 6);
    let outage = Outage { at: Span::from_secs(1), length: Span::from_secs(2) };
    options.view.path =
        PathOptions { outages: vec![outage], rebinds: vec![Span::from_secs(4)], ..PathOptions::default() };
    let summary = view(options).await.expect("a run");
    // A second before the outage and three after it.
    assert!(summary.frames.displayed >= at_least(4), "{:?}", summary.frames);
    assert!(summary.frames.displayed < summary.frames.sent, "the outage lost something: {:?}", summary.frames);
    assert_eq!(server.sessions(), 1, "the connection itself survived");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_is_watched_again() {
    let server = Server::start(Behaviour { goodbye_after: Some(30), ..Behaviour::default() });
    let summary = view(options(&server.link, 4)).await.expect("a run");
    assert!(server.sessions() >= 2, "{} sessions", server.sessions());
    assert!(summary.frames.displayed > 35, "{:?}", summary.frames);
    assert_eq!(summary.stage_sum_error_us_max, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_changes_nothing() {
    let server = Server::start(Behaviour { garbage: true, ..Behaviour::default() });
    let summary = view(options(&server.link, 2)).await.expect("a run");
    assert!(summary.frames.displayed >= at_least(2), "{:?}", summary.frames);
    assert!(summary.frames.lost * 20 <= summary.frames.sent, "{:?}", summary.frames);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_token_is_refused() {
    let server = Server::start(Behaviour::default());
    let link = Link { token: Some("another-token-for-tests".into()), ..server.link.clone() };
    let error = view(options(&link, 2)).await.expect_err("refused");
    assert_eq!((error.class(), error.class().code()), (ExitClass::Refused, 4));
    assert!(error.to_string().contains("the token is wrong"), "{error}");

    let link = Link { token: None, ..server.link.clone() };
    let error = view(options(&link, 2)).await.expect_err("no token");
    assert_eq!(error.class().code(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_know_the_token_neither_learns_it_nor_gets_a_session() {
    let impostor = Server::start(Behaviour { impostor: true, ..Behaviour::default() });
    let known = impostor.link.token.clone().expect("a token");
    for certificate in [impostor.link.certificate, None] {
        let link = Link { certificate, ..impostor.link.clone() };
        let error = view(options(&link, 2)).await.expect_err("an impostor");
        assert_eq!(error.class().code(), 1, "{error}");
        assert!(error.to_string().contains("does not know the token"), "{error}");
    }
    assert_eq!(impostor.sessions(), 2, "one with no proof, one with the client's own");
    let heard = impostor.heard();
    assert!(heard.contains("Hello") && !heard.contains(&known), "{heard}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_s_proof_shows_whose_server_it_is_and_a_hash_in_the_link_excludes_other_certificates() {
    let server = Server::start(Behaviour::default());
    view(options(&Link { certificate: None, ..server.link.clone() }, 1)).await.expect("a run");
    let other = nearlight_net::CertificateHash::of(b"another certificate");
    let named = Link { certificate: Some(other), ..server.link.clone() };
    let error = view(options(&named, 1)).await.expect_err("the link names another certificate");
    assert!(error.to_string().contains("not the one that the link names"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_a_timeout_with_its_reason() {
    let silent = Server::start(Behaviour { frames: false, ..Behaviour::default() });
    // Nothing listens here: the port was free a moment ago.
    let free = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    let absent = Link { port: free.port(), ..silent.link.clone() };
    for (link, reason) in [(&silent.link, "no picture arrived"), (&absent, "no server answered")] {
        let mut options = options(link, 2);
        options.view.first_picture = Span::from_secs(1);
        let error = view(options).await.expect_err(reason);
        assert_eq!((error.class(), error.class().code()), (ExitClass::TimedOut, 3), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
        assert!(!error.to_string().contains('\n'));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_run_still_sums_up() {
    let server = Server::start(Behaviour::default());
    let mut options = options(&server.link, 0);
    options.view.length = None;
    let (stop, stopped) = watch::channel(false);
    let run = tokio::spawn(watch_until(options, Clock::start(), stopped));
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    stop.send(true).expect("the run listens");
    let summary = run.await.expect("no panic").expect("a run");
    assert!(summary.frames.displayed > 0, "{:?}", summary.frames);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sound_is_heard_where_both_ends_have_it_and_is_recorded() {
    let server = Server::start(Behaviour { sound: true, ..Behaviour::default() });
    let folder = Folder::new("sound");
    let mut options = options(&server.link, 3);
    let without = view(options.clone()).await.expect("a run");
    assert_eq!(without.sound, None, "who does not ask hears nothing");
    options.view.sound = true;
    options.view.record.sound = Some(folder.file("heard.wav"));
    let summary = view(options).await.expect("a run");
    let sound = summary.sound.expect("the server has a tone");
    assert!(sound.counts.packets > 150 && sound.counts.lost == 0, "{:?}", sound.counts);
    assert!(sound.delay_ms.is_some() && sound.apart_ms.n > 0, "{sound:?}");
    let wav = fs::read(folder.file("heard.wav")).expect("recorded");
    let length = u32::from_le_bytes(wav[40..44].try_into().expect("four bytes")) as usize;
    assert_eq!((&wav[..4], &wav[8..16], wav.len()), (&b"RIFF"[..], &b"WAVEfmt "[..], 44 + length));
    let samples: Vec<i16> = wav[44..].as_chunks::<2>().0.iter().map(|pair| i16::from_le_bytes(*pair)).collect();
    let loud = samples.iter().filter(|sample| sample.unsigned_abs() > 1_000).count();
    assert!(samples.len() > 48_000 * 4 && loud > samples.len() / 4, "{loud} of {} samples are loud", samples.len());
}
