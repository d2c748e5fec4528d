//! A viewer and a host over loopback. No test depends on timing: they check only counts and contents.

use std::sync::mpsc::channel;
use std::time::Duration;

use nearlight_embed::{EventKind as HostEventKind, Host, Image, InputEvent, Layout, Picture, PixelOrder, Plane, Rows};
use nearlight_viewer::{
    DeviceInput, DisplayKind, EventKind, ExitClass, Haptics, HapticsTarget, Incoming, Input, Options, Pointer, Pose,
    Presence, ReceivedPicture, ScreenPoint, Size, Span, Viewer, ViewerError,
};

const SIZE: Size = Size { width: 320, height: 192 };
const TOKEN: &str = "a-token-for-this-test-only";
/// Long enough for a busy machine.
const LONG: Duration = Duration::from_secs(30);

fn host_options() -> nearlight_embed::Options {
    let address = Some([127, 0, 0, 1].into());
    let token = Some(TOKEN.to_owned());
    nearlight_embed::Options { address, token, width: 320, height: 192, fps: 30, ..Default::default() }
}

fn submit(host: &Host, shade: u8) {
    let bytes = vec![shade; SIZE.pixels() * 4];
    let layout = Layout::Packed(PixelOrder::Rgba, Plane { bytes: &bytes, stride: 1_280 });
    host.submit(&Picture::new(Image { size: SIZE, layout, rows: Rows::TopDown })).expect("a picture");
}

/// Submits pictures of this shade until `found` accepts a received one.
fn pictures(host: &Host, viewer: &Viewer, shade: u8, mut found: impl FnMut(&ReceivedPicture) -> bool) {
    for _ in 0..1_000 {
        submit(host, shade);
        if viewer.wait_picture(Duration::from_millis(30)).is_some_and(|picture| found(&picture)) {
            return;
        }
    }
    panic!("no such picture came; {:?}", viewer.statistics());
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if done() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(30));
    }
    panic!("{what} never came");
}

fn connect(host: &Host, options: &Options) -> Viewer {
    Viewer::connect(&host.links()[0].to_string(), options).expect("a session")
}

#[test]
fn pictures_inputs_and_messages_pass() {
    let host = Host::open(&host_options()).expect("a server");
    let viewer = connect(&host, &Options::default());
    let connected = viewer.wait_event(LONG).expect("an event").kind;
    assert!(matches!(&connected, EventKind::Connected(welcome) if welcome.stream.width == 320), "{connected:?}");

    // The received pictures are the submitted ones, as planes and as pixels, each with its times in order.
    let mut rgba = Vec::new();
    pictures(&host, &viewer, 200, |picture| {
        let info = &picture.info;
        let times = [info.captured_at, info.rendered_at, info.encoded_at];
        assert!(times.is_sorted() && info.encoded_at.is_none_or(|at| at < info.decoded_at + Span::from_secs(1)));
        picture.to_rgba(&mut rgba).expect("pixels");
        let [red, .., opaque] = rgba[..4] else { panic!("{} bytes", rgba.len()) };
        assert_eq!((picture.size(), rgba.len(), opaque), (SIZE, SIZE.pixels() * 4, 255));
        assert_eq!((info.session, info.views.len()), (1, 1));
        red.abs_diff(200) < 4 && info.encoded_at.is_some() && info.marker.is_some()
    });
    let mut bgr = vec![9; 1_000 * 192];
    pictures(&host, &viewer, 90, |picture| {
        picture.write(nearlight_embed::PixelOrder::Rgb, &mut bgr, 1_000).expect("room");
        assert_eq!(bgr[960..1_000], [9; 40], "beyond the pixels nothing is written");
        bgr[0].abs_diff(90) < 4
    });

    // Every kind of input arrives in order, although no pose was sent.
    let key = Input::key("KeyK", true).expect("a key");
    viewer.send(key.clone()).expect("sent");
    viewer.send(DeviceInput::Text("héllo".into()).into()).expect("sent");
    let pointer = Pointer { at: ScreenPoint::new(0.25, 0.75), buttons: 1, ..Pointer::default() };
    viewer.send(DeviceInput::Pointer(Some(pointer)).into()).expect("sent");
    viewer.send_message(b"ask", true).expect("sent");
    let mut heard = Vec::new();
    until("the user's input", || {
        submit(&host, 90);
        heard.extend(std::iter::from_fn(|| host.poll_event()).map(|event| event.kind));
        let inputs = heard.iter().filter(|what| matches!(what, HostEventKind::Input(_))).count();
        let messages = heard.iter().filter(|what| matches!(what, HostEventKind::Message(_))).count();
        inputs >= 3 && messages >= 1
    });
    let inputs: Vec<_> = heard
        .iter()
        .filter_map(|what| if let HostEventKind::Input(input) = what { Some(input.clone()) } else { None })
        .collect();
    let Input::Device(DeviceInput::Key { key, .. }) = key else { panic!("a key") };
    let [pressed, typed, clicked] = &inputs[..] else { panic!("{inputs:?}") };
    assert_eq!(pressed, &InputEvent::Key { key, pressed: true });
    assert_eq!(typed, &InputEvent::Text("héllo".into()));
    assert!(matches!(clicked, InputEvent::Button { at, .. } if *at == pointer.at), "{clicked:?}");

    // The user's pose.
    let head = Pose { position: [1.0, 1.5, -2.0], ..Pose::default() };
    viewer.send(Input::Head(head)).expect("sent");
    assert_eq!(viewer.head(), head);
    until("the user's pose", || {
        submit(&host, 90);
        host.viewers().first().is_some_and(|state| state.head == head && state.devices.pointer == Some(pointer))
    });

    // The application's output.
    let pulse = Haptics { target: HapticsTarget::Gamepad(0), milliseconds: 40, strong: 1.0, weak: 0.5 };
    host.haptics(None, pulse).expect("put out");
    host.send(None, b"answer", true).expect("put out");
    let mut told = Vec::new();
    until("the application's word", || {
        submit(&host, 90);
        told.extend(std::iter::from_fn(|| viewer.poll_event()).map(|event| event.kind));
        told.iter().any(|what| matches!(what, EventKind::Message(message) if message.data == b"answer"))
            && told.contains(&EventKind::Haptics(pulse))
    });
    assert!(told.iter().any(|what| matches!(what, EventKind::Pointer(request) if !request.captured)), "{told:?}");

    // Statistics, and the end.
    until("figures", || {
        pictures(&host, &viewer, 90, |_| true);
        viewer.statistics().received.frames.displayed > 0
    });
    let statistics = viewer.statistics();
    assert!(statistics.connected && statistics.connections == 1 && statistics.clock.is_some(), "{statistics:?}");
    let summary = viewer.close().expect("an end");
    assert!(summary.frames.displayed >= 10 && summary.motion_to_photon_ms.n > 0, "{summary:?}");
    assert!(matches!(viewer.send(Input::Head(head)), Err(ViewerError::Closed)));
    assert!(matches!(viewer.close(), Err(ViewerError::Closed)), "once");
    assert!(viewer.has_ended() && viewer.send_message(b"late", true).is_err());
    until("the goodbye", || host.viewers().is_empty());
}

#[test]
fn a_callback_gets_everything_and_says_when_a_picture_was_seen() {
    let host = Host::open(&host_options()).expect("a server");
    let options = Options { tells_display: true, display_hz: 60, display: DisplayKind::Headset, ..Options::default() };
    let viewer = std::sync::Arc::new(connect(&host, &options));
    #[expect(clippy::disallowed_methods, reason = "a test is short, and so is its queue")]
    let (sender, incoming) = channel();
    let weak = std::sync::Arc::downgrade(&viewer);
    let on_incoming = move |came| {
        if let (Incoming::Picture(picture), Some(viewer)) = (&came, weak.upgrade()) {
            viewer.displayed(picture, viewer.now() + Span::from_millis(5)).expect("displayed");
            assert!(viewer.close().is_err(), "not from here");
        }
        drop(sender.send(came));
    };
    viewer.set_callback(on_incoming).expect("a callback");
    assert!(viewer.set_callback(|_| ()).is_err(), "one callback");
    let head = Pose { position: [0.0, 1.6, 0.0], ..Pose::default() };
    let view = |x: f32| nearlight_viewer::View {
        pose: Pose { position: [x, 1.6, 0.0], ..head },
        fov: nearlight_viewer::Fov::symmetric(1.5, 0.8),
    };
    let views = vec![view(-0.03), view(0.03)];
    let mut eyes = 0;
    for moment in 0..60 {
        viewer.send(Input::Presence(Presence::of_views(head, views.clone()))).expect("sent");
        submit(&host, moment);
        std::thread::park_timeout(Duration::from_millis(20));
        eyes = eyes.max(host.viewers().first().map_or(0, |state| state.views.len()));
    }
    assert_eq!(eyes, 2);
    let summary = viewer.close().expect("an end");
    drop(viewer);
    let came: Vec<_> = incoming.iter().collect();
    let pictures = came.iter().filter(|came| matches!(came, Incoming::Picture(_))).count() as u64;
    assert!(pictures >= 10 && summary.frames.displayed >= 10, "{pictures} {:?}", summary.frames);
    assert!(summary.frames.displayed <= pictures, "only what was told: {pictures} {:?}", summary.frames);
    assert!(
        came.iter().any(|came| matches!(came, Incoming::Event(event) if matches!(event.kind, EventKind::Ended(None))))
    );
}

#[test]
fn several_threads_take_send_and_close_at_once() {
    let host = Host::open(&host_options()).expect("a server");
    let viewer = connect(&host, &Options { pictures_kept: 4, ..Options::default() });
    let closed = std::thread::scope(|scope| {
        for thread in 0..3_u8 {
            let (viewer, host) = (&viewer, &host);
            scope.spawn(move || {
                for moment in 0..100_u8 {
                    submit(host, moment);
                    let _ = viewer.wait_picture(Duration::from_millis(5));
                    let _ = viewer.wait_event(Duration::ZERO);
                    let _ = viewer.send(DeviceInput::Text(format!("{thread} {moment}")).into());
                    let _ = viewer.statistics();
                    let _ = viewer.read_sound(&mut [0.0; 8]);
                }
            });
        }
        let closers = [(); 2].map(|()| {
            scope.spawn(|| {
                std::thread::park_timeout(Duration::from_millis(400));
                viewer.close()
            })
        });
        closers.map(|closer| closer.join().expect("no panic").is_ok())
    });
    assert_eq!(closed.into_iter().filter(|closed| *closed).count(), 1, "{closed:?}");
}

#[test]
fn it_comes_back_after_the_server_does() {
    let mut options = host_options();
    let host = Host::open(&options).expect("a server");
    options.port = host.links()[0].port;
    let viewer = connect(&host, &Options::default());
    pictures(&host, &viewer, 100, |_| true);
    host.close().expect("an end");
    let host = Host::open(&options).expect("the same port again");
    let mut told = Vec::new();
    until("the new server", || {
        told.extend(std::iter::from_fn(|| viewer.poll_event()).map(|event| event.kind));
        told.iter().filter(|what| matches!(what, EventKind::Connected(_))).count() == 2
    });
    assert!(
        told.iter().any(|what| matches!(what, EventKind::ConnectionLost(reason) if !reason.is_empty())),
        "{told:?}"
    );
    pictures(&host, &viewer, 100, |picture| picture.info.session == 2);
    assert_eq!(viewer.statistics().connections, 2);
}

#[test]
fn why_there_is_no_session_is_told_in_a_sentence() {
    let host = Host::open(&host_options()).expect("a server");
    let link = host.links()[0].to_string();
    let wrong = link.replace(TOKEN, "another-token-for-this-test");
    assert_ne!(wrong, link);
    let short = Options { connect_limit: Span::from_secs(1), ..Options::default() };
    let bare = link.split('#').next().expect("a link");
    let cases = [
        (wrong.as_str(), ExitClass::Refused, "refused"),
        (
            "https://127.0.0.1:9/#token=another-token-for-this-test",
            ExitClass::TimedOut,
            "no server answered within 1 s",
        ),
        (bare, ExitClass::Other, "no token"),
        ("no link at all", ExitClass::Other, "link"),
        ("ether:nowhere/00:00:00:00:00:01#token=another-token-for-this-test", ExitClass::Other, "nowhere"),
    ];
    for (link, class, words) in cases {
        let Err(error) = Viewer::connect(link, &short) else { panic!("{link} is connected") };
        assert!(error.class() == class && error.to_string().contains(words), "{link}: {error}");
    }
    let viewer = Viewer::connect(&link, &short).expect("the right token");
    let picture = viewer.wait_picture(Duration::ZERO);
    assert!(picture.is_none());
    assert!(matches!(viewer.send(Input::Clipboard("x".into())), Err(ViewerError::Usage(_))));
    let nowhere = Pose { position: [f32::NAN; 3], ..Pose::default() };
    assert!(matches!(viewer.send(Input::Head(nowhere)), Err(ViewerError::Input(_))));
    assert!(matches!(viewer.send_message(&[0; 2_000], false), Err(ViewerError::Message(_))));
    // Dropping the viewer also says goodbye.
    drop(viewer);
    until("the goodbye", || host.viewers().is_empty());
}
