//! A host that encodes in the thread that submits. The test has a process to itself, because it reads the names of the process's threads.

use std::time::Duration;

use nearlight_client::headless::watch_until;
use nearlight_client::{HeadlessOptions, ViewOptions};
use nearlight_embed::{Host, Image, Layout, Options, Picture, PixelOrder, Plane, Rows, Size};
use nearlight_net::{Clock, Link};
use tokio::sync::watch;

const SIZE: Size = Size { width: 320, height: 192 };

fn options() -> Options {
    Options { address: Some([127, 0, 0, 1].into()), width: 320, height: 192, fps: 30, ..Options::default() }
}

/// Runs `work` while a viewer watches. Returns how many frames it displayed.
fn watched(link: Link, work: impl FnOnce()) -> u64 {
    let (stop, stopped) = watch::channel(false);
    let viewer = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
        runtime.block_on(watch_until(HeadlessOptions::new(ViewOptions::new(link)), Clock::start(), stopped))
    });
    work();
    stop.send(true).expect("a viewer");
    viewer.join().expect("no panic").expect("a run").frames.displayed
}

fn pause() {
    std::thread::park_timeout(Duration::from_millis(20));
}

fn submit(host: &Host, shade: u8) {
    let bytes = vec![shade; SIZE.pixels() * 4];
    let layout = Layout::Packed(PixelOrder::Rgba, Plane { bytes: &bytes, stride: 1_280 });
    host.submit(&Picture::new(Image { size: SIZE, layout, rows: Rows::TopDown })).expect("a picture");
}

/// Returns the names of this process's threads.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok()).collect()
}

/// Also covers a caller inside its own async runtime, and several viewers that share an encoder.
#[test]
fn a_synchronous_host_encodes_in_the_thread_that_submits() {
    let host = Host::open(&Options { synchronous: true, ..options() }).expect("a server");
    let link = || host.links().remove(0);
    let mut seen = Vec::new();
    let displayed = watched(link(), || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("an event loop");
        runtime.block_on(async {
            for shade in 0..150 {
                submit(&host, shade);
                pause();
            }
        });
        seen = threads();
    });
    assert!(displayed >= 10, "{displayed}");
    assert!(seen.iter().any(|name| name.starts_with("studio")), "{seen:?}");
    assert!(!seen.iter().any(|name| name.starts_with("encode-")), "{seen:?}");
    let (first, second) = (link(), link());
    std::thread::scope(|scope| {
        let other = scope.spawn(move || watched(second, || (0..100).for_each(|_| pause())));
        let displayed = watched(first, || {
            for shade in 0..200 {
                submit(&host, shade);
                pause();
            }
        });
        // One viewer leaves before the other.
        let other = other.join().expect("no panic");
        assert!(displayed >= 10 && other >= 5, "{displayed} {other}");
    });
    host.close().expect("an end");
}
