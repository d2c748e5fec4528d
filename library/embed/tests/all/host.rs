//! A host and its viewers over loopback. No test depends on timing: they check only counts.

use std::sync::mpsc::channel;
use std::time::Duration;

use nearlight_client::headless::watch_until;
use nearlight_client::{HeadlessOptions, ViewOptions};
use nearlight_embed::{
    Content, DisplayKind, EventKind, Host, HostError, Image, Layout, Options, Picture, PixelOrder, Plane, Rows, Size,
    Time, View,
};
use nearlight_net::{Clock, Link};
use tokio::sync::watch;

const SIZE: Size = Size { width: 320, height: 192 };

fn options() -> Options {
    Options { address: Some([127, 0, 0, 1].into()), width: 320, height: 192, fps: 30, ..Options::default() }
}

/// Runs `work` while a viewer with this display watches. Returns how many frames it displayed.
fn watched(link: Link, display: DisplayKind, work: impl FnOnce()) -> u64 {
    let (stop, stopped) = watch::channel(false);
    let viewer = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
        let view = ViewOptions { display, ..ViewOptions::new(link) };
        runtime.block_on(watch_until(HeadlessOptions::new(view), Clock::start(), stopped))
    });
    work();
    stop.send(true).expect("a viewer");
    viewer.join().expect("no panic").expect("a run").frames.displayed
}

fn pause() {
    std::thread::park_timeout(Duration::from_millis(20));
}

fn rgba(bytes: &[u8]) -> Image<'_> {
    let layout = Layout::Packed(PixelOrder::Rgba, Plane { bytes, stride: 1_280 });
    Image { size: SIZE, layout, rows: Rows::TopDown }
}

#[test]
fn several_threads_submit_and_a_callback_hears() {
    let host = Host::open(&options()).expect("a server");
    #[expect(clippy::disallowed_methods, reason = "a test is short, and so is its queue")]
    let (sender, heard) = channel();
    host.set_callback(move |event| drop(sender.send(event))).expect("a callback");
    assert!(host.set_callback(|_| ()).is_err(), "one callback");
    let displayed = watched(host.links().remove(0), DisplayKind::Screen, || {
        std::thread::scope(|scope| {
            for shade in [50, 100, 150, 200] {
                let host = &host;
                scope.spawn(move || {
                    let bytes = vec![shade; SIZE.pixels() * 4];
                    for _ in 0..100 {
                        host.submit(&Picture::new(rgba(&bytes))).expect("a picture");
                        pause();
                    }
                });
            }
        });
        assert_eq!(host.statistics().submitted, 400);
    });
    assert!(displayed >= 10, "{displayed}");
    host.close().expect("an end");
    let events: Vec<_> = heard.iter().collect();
    assert!(events.iter().any(|event| event.kind == EventKind::ViewerJoined));
    assert!(events.iter().any(|event| matches!(event.kind, EventKind::Input(_))), "{events:?}");
    let bytes = vec![0; SIZE.pixels() * 4];
    assert!(matches!(host.submit(&Picture::new(rgba(&bytes))), Err(HostError::Closed)));
    assert!(matches!(host.lend(SIZE), Err(HostError::Closed)));
    assert!(host.close().is_ok(), "once more does nothing");
}

#[test]
fn a_headset_gets_both_eyes_rendered_for_predicted_views() {
    let host = Host::open(&options()).expect("a server");
    let bytes = vec![90; SIZE.pixels() * 4];
    let mut rendered = 0;
    let displayed = watched(host.links().remove(0), DisplayKind::Headset, || {
        for _ in 0..150 {
            let driver = host.driver();
            let views: Vec<View> = driver.map(|driver| driver.views).unwrap_or_default();
            let content = Content { views: &views, ..Content::default() };
            let right = Some(rgba(&bytes));
            rendered += usize::from(views.len() == 2);
            host.submit(&Picture { image: rgba(&bytes), right, content }).expect("a picture");
            pause();
        }
        let states = host.viewers();
        let [state] = states.as_slice() else { panic!("{states:?}") };
        assert_eq!((state.display, state.views.len(), state.drives), (DisplayKind::Headset, 2, true));
        assert!(state.display_at > host.now());
    });
    assert!(displayed >= 10 && rendered >= 10, "{displayed} {rendered}");
}

#[test]
fn mistakes_are_reported_though_nobody_watches() {
    let host = Host::open(&options()).expect("a server");
    let bytes = vec![0; SIZE.pixels() * 4];
    let short = Picture::new(rgba(&bytes[1..]));
    assert!(matches!(host.submit(&short), Err(HostError::Picture(_))));
    let view = View { pose: nearlight_embed::Pose::default(), fov: nearlight_embed::Fov::symmetric(1.0, 1.6) };
    for (views, side_by_side, fine) in [
        (&[view][..], false, true),
        (&[view, view][..], false, false),
        (&[view, view][..], true, true),
        (&[view][..], true, false),
        (&[View { pose: nearlight_embed::Pose { orientation: [f32::NAN; 4], ..view.pose }, ..view }][..], false, false),
    ] {
        let content = Content { views, side_by_side, captured_at: Some(Time::from_millis(u64::MAX / 2_000_000)) };
        let submitted = host.submit(&Picture { content, ..Picture::new(rgba(&bytes)) });
        assert_eq!(submitted.is_ok(), fine, "{views:?} {side_by_side}: {submitted:?}");
    }
    let half = Image { size: Size { width: SIZE.width / 2, ..SIZE }, ..rgba(&bytes) };
    let eyes = Picture { right: Some(half), ..Picture::new(rgba(&bytes)) };
    assert!(matches!(host.submit(&eyes), Err(HostError::Views(_))), "eyes of two sizes");
    let mut planes = host.lend(SIZE).expect("planes");
    planes.blue.pop();
    assert!(host.submit_planes(planes, &Content::default()).is_err());
    assert!(matches!(host.send(Some(nearlight_embed::Viewer(9)), b"x", true), Err(HostError::NoViewer(9))));
    assert!(matches!(host.send(None, &[0; 2_000], false), Err(HostError::TooLong { .. })));
    assert!(host.send(None, b"nobody hears it", true).is_ok());
    let statistics = host.statistics();
    assert_eq!((statistics.submitted, statistics.unwatched, statistics.viewers.len()), (2, 2, 0));
    assert!(Host::qr_code(&host.links()[0]).is_ok_and(|code| code.lines().count() > 10));
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let ethernet = vec!["no-such-one".to_owned()];
    let opened = Host::open(&Options { ethernet, ..options() }).map(drop);
    let error = opened.expect_err("no such interface").to_string();
    assert!(error.contains("no-such-one"), "{error}");
}
