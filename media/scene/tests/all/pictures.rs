//! Tests that draw pictures on any available adapter and check their pixels.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use nearlight_scene::{
    Application as _, ApplicationMessage, Backend, Conversion, OpenOptions, OpenedSource, Output, PictureSink, Planes,
    PlanesContent, RenderRequest, RenderedPicture, START, SceneError, Source, SourceKind, SubmittedPicture, Viewer,
    ViewerInput, WorldSource, list_adapters, open,
};
use nearlight_units::Time;
use nearlight_wire::{CursorShape, Fov, Hand, HandJoints, HapticsTarget, InputEvent, JOINTS, Joint, Key, Pose, View};

pub const ME: Viewer = Viewer(1);

/// Opens the plaza. The clock stands still, so that the first of two equal adapters is chosen.
pub fn plaza() -> WorldSource {
    let backend = Backend::default().or_environment().expect("a known backend");
    WorldSource::plaza(backend, Conversion::Processor, &|| Time::ZERO)
        .expect("a graphics adapter; install Mesa's software renderer (apt install mesa-vulkan-drivers libegl1)")
}

/// Opens a source that draws on demand.
fn on_demand(kind: &SourceKind) -> Box<dyn Source> {
    match open(kind, &options()).expect("a source") {
        OpenedSource::OnDemand(source) => source,
        OpenedSource::SelfPaced(source) => panic!("{} paces itself", source.describe()),
    }
}

/// A sink that keeps the capture times and the pixels of submitted pictures.
struct Album(Sender<(Time, Vec<u8>)>);

impl PictureSink for Album {
    #[expect(clippy::disallowed_methods, reason = "a test is a driver")]
    fn now(&self) -> Time {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        Time::from_nanos(since.as_nanos() as u64)
    }

    fn submit(&self, picture: &SubmittedPicture<'_>) {
        let _ = self.0.send((picture.captured_at, picture.pixels.bytes.to_vec()));
    }

    fn lend(&self, (width, height): (u16, u16)) -> Planes {
        Planes { width, height, ..Planes::default() }
    }

    fn submit_planes(&self, planes: Planes, content: &PlanesContent<'_>) {
        let _ = self.0.send((content.captured_at, planes.luma));
    }

    fn put_back(&self, _: Planes) {}

    fn on_output(&self) {}

    fn on_failed(&self, error: SceneError) {
        panic!("{error}");
    }
}

fn options() -> OpenOptions<'static> {
    let (backend, conversion) = (Backend::default(), Conversion::Processor);
    OpenOptions { backend, conversion, size: (320, 180), fps: 30, clock: &|| Time::ZERO }
}

pub fn view(pose: Pose) -> View {
    View { pose, fov: Fov::symmetric(1.05, 16.0 / 9.0) }
}

/// Renders a picture and returns its pixels without padding.
pub fn picture(source: &mut dyn Source, views: &[View], size: (u16, u16)) -> Vec<[u8; 4]> {
    picture_for(ME, source, views, size)
}

/// Renders a viewer's picture and returns its pixels without padding.
pub fn picture_for(
    viewer: Viewer,
    source: &mut dyn Source,
    views: &[View],
    (width, height): (u16, u16),
) -> Vec<[u8; 4]> {
    let request = RenderRequest { viewer, views, width, height };
    let mut pixels = Vec::new();
    let take = &mut |rendered: RenderedPicture<'_>| {
        let RenderedPicture::Pixels(lent) = rendered else { panic!("pixels were wanted") };
        assert_eq!((lent.width, lent.height), (width, height));
        assert!(lent.stride >= usize::from(width) * 4 && lent.bytes.len() >= lent.stride * usize::from(height));
        for row in lent.bytes.chunks(lent.stride).take(usize::from(height)) {
            let row = &row[..usize::from(width) * 4];
            pixels.extend(row.chunks_exact(4).map(|pixel| [pixel[0], pixel[1], pixel[2], pixel[3]]));
        }
    };
    source.render(&request, take).expect("a picture");
    pixels
}

/// Returns the number of pixels whose colours differ clearly.
pub fn different(a: &[[u8; 4]], b: &[[u8; 4]]) -> usize {
    let clearly = |(a, b): &(&[u8; 4], &[u8; 4])| a.iter().zip(b.iter()).any(|(a, b)| a.abs_diff(*b) > 12);
    a.iter().zip(b).filter(clearly).count()
}

fn looking(yaw: f32, pitch: f32) -> ViewerInput {
    let (sin_yaw, cos_yaw) = (yaw / 2.0).sin_cos();
    let (sin_pitch, cos_pitch) = (pitch / 2.0).sin_cos();
    // Pitch about x, then yaw about y.
    let orientation = [cos_yaw * sin_pitch, sin_yaw * cos_pitch, -sin_yaw * sin_pitch, cos_yaw * cos_pitch];
    ViewerInput { head: Pose { orientation, ..START }, ..ViewerInput::default() }
}

#[test]
fn the_start_shows_a_rich_lit_picture() {
    assert!(!list_adapters().is_empty(), "no adapter: apt install mesa-vulkan-drivers libegl1");
    let mut source = plaza();
    source.advance(Time::ZERO);
    let pixels = picture(&mut source, &[view(START)], (640, 360));
    assert!(source.drawn().triangles >= 10_000, "{:?}", source.drawn());
    assert!(source.drawn().draws < 60, "{:?}", source.drawn());
    let colours: std::collections::BTreeSet<[u8; 4]> = pixels.iter().copied().collect();
    assert!(colours.len() > 5_000, "only {} colours", colours.len());
    let mean = pixels.iter().map(|pixel| u32::from(pixel[1])).sum::<u32>() / pixels.len() as u32;
    assert!((60..200).contains(&mean), "mean green is {mean}");
    assert!(source.describe().contains('('), "{}", source.describe());

    // Things move by themselves.
    source.advance(Time::from_millis(200));
    let later = picture(&mut source, &[view(START)], (640, 360));
    assert!(different(&pixels, &later) > 300);
}

#[test]
fn every_action_changes_pixels_at_once() {
    let button = |button| InputEvent::GamepadButton { gamepad: 0, button, pressed: true };
    // Grab, push, throw, reset.
    for event in [0, 1, 2, 3].map(button) {
        let mut source = plaza();
        source.advance(Time::ZERO);
        // The view points at the red ball, left and down.
        let input = looking(0.488, -0.128);
        source.on_input(Time::ZERO, ME, &input);
        let before = picture(&mut source, &[view(START)], (640, 360));
        source.on_input(Time::ZERO, ME, &ViewerInput { events: vec![event.clone()], ..input.clone() });
        let after = picture(&mut source, &[view(START)], (640, 360));
        let changed = different(&before, &after);
        assert!(changed > 60, "{event:?} changed {changed} pixels");
    }
}

#[test]
fn two_eyes_see_two_pictures() {
    let mut source = plaza();
    source.advance(Time::ZERO);
    let eye = |x: f32, left: f32, right: f32| View {
        pose: Pose { position: [x, 1.6, 0.0], ..START },
        fov: Fov { left, right, down: -1.0, up: 0.9 },
    };
    let views = [eye(-0.032, -1.1, 0.9), eye(0.032, -0.9, 1.1)];
    let both = picture(&mut source, &views, (640, 320));
    let half = |start: usize| -> Vec<[u8; 4]> {
        both.chunks(640).flat_map(|row| row[start..start + 320].iter().copied()).collect()
    };
    let (left, right) = (half(0), half(320));
    let changed = different(&left, &right);
    assert!(changed > 5_000, "the eyes differ in {changed} pixels only");
    // Each half is the picture of its own view.
    let alone = picture(&mut source, &views[1..], (320, 320));
    assert!(different(&right, &alone) < 50);
}

#[test]
fn impossible_sizes_are_refused_and_the_source_lives_on() {
    let mut source = plaza();
    for (width, height) in [(641, 360), (640, 361), (64, 14), (60_000, 720)] {
        let request = RenderRequest { viewer: ME, views: &[view(START)], width, height };
        let refused = source.render(&request, &mut |_| panic!("no picture"));
        assert!(matches!(refused, Err(SceneError::Size { .. })), "{width}x{height}: {refused:?}");
    }
    let request = RenderRequest { viewer: ME, views: &[], width: 640, height: 360 };
    assert!(source.render(&request, &mut |_| panic!("no picture")).is_err());
    for size in [(640, 360), (320, 180), (480, 270), (800, 450), (960, 540), (640, 360)] {
        assert_eq!(picture(&mut source, &[view(START)], size).len(), usize::from(size.0) * usize::from(size.1));
    }
}

#[test]
fn the_test_card_answers_input() {
    let mut source = on_demand(&SourceKind::TestCard);
    source.advance(Time::from_millis(100));
    let before = picture(source.as_mut(), &[view(START)], (640, 360));
    let event = InputEvent::Key { key: Key(0x7_0004), pressed: true };
    source.on_input(Time::from_millis(100), ME, &ViewerInput { events: vec![event], ..looking(0.0, 0.0) });
    let flash = picture(source.as_mut(), &[view(START)], (640, 360));
    assert!(different(&before, &flash) > 5_000);
    source.advance(Time::from_millis(900));
    let moved = picture(source.as_mut(), &[view(START), view(START)], (640, 360));
    assert_eq!(moved[200 * 640 + 10..200 * 640 + 300], moved[200 * 640 + 330..200 * 640 + 620]);
}

#[test]
fn the_test_card_reports_hands_and_gaze_shakes_devices_and_sets_the_pointer() {
    let mut source = on_demand(&SourceKind::TestCard);
    let now = Time::from_millis(100);
    let says = |source: &mut Box<dyn Source>, text: &str| {
        source.on_message(now, ME, ApplicationMessage { data: text.into(), reliable: true });
    };
    let answers = |source: &mut Box<dyn Source>| -> Vec<Output> {
        std::iter::from_fn(|| source.poll_output()).map(|(_, output)| output).collect()
    };
    says(&mut source, "report input");
    answers(&mut source);
    let mut joints = [Joint::default(); JOINTS];
    joints[9].offset = [0.0, 0.0, -0.17];
    let hand = HandJoints { hand: Hand::Right, wrist: [0.25, 1.5, -0.5], joints };
    let mut input = ViewerInput { hands: [None, Some(hand)], ..looking(0.0, 0.0) };
    input.devices.gaze = Some(Pose { position: [0.0, 1.6, 0.0], ..Pose::default() });
    input.events = vec![InputEvent::GamepadButton { gamepad: 2, button: 1, pressed: true }];
    source.on_input(now, ME, &input);
    input.events.clear();
    source.on_input(now, ME, &input);
    source.on_input(now, ME, &looking(0.0, 0.0));
    let all = answers(&mut source);
    let texts: Vec<_> = all
        .iter()
        .filter_map(|output| match output {
            Output::Message(message) => Some(String::from_utf8_lossy(&message.data)),
            _ => None,
        })
        .collect();
    let hand = "hand right wrist at 0.25 1.50 -0.50, index tip at 0.25 1.50 -0.67";
    let expected = ["gamepad 2 button 1 down", hand, "gaze from 0.00 1.60 0.00", "hand right gone", "gaze gone"];
    assert_eq!(texts, expected, "once each");
    let shaken = all.iter().filter(|output| {
        matches!(output, Output::Haptics(haptics) if haptics.target == HapticsTarget::Gamepad(2) && haptics.milliseconds > 0)
    });
    assert_eq!(shaken.count(), 1);
    says(&mut source, "pointer free image");
    says(&mut source, "pointer captured grab");
    let pointers: Vec<_> =
        answers(&mut source).into_iter().filter(|output| matches!(output, Output::Pointer { .. })).collect();
    assert_eq!(pointers[1], Output::Pointer { cursor: CursorShape::Named("grab".into()), captured: true });
    let Output::Pointer { cursor: CursorShape::Image { width, height, rgba, .. }, captured: false } = &pointers[0]
    else {
        panic!("{pointers:?}")
    };
    assert_eq!(rgba.0.len(), usize::from(*width) * usize::from(*height) * 4);
}

/// A file in cargo's folder for tests, which is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, bytes).expect("a scratch file");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_video_plays_in_a_loop() {
    let scratch = Scratch::new("loop.mp4", b"");
    let made = std::process::Command::new("ffmpeg")
        .args([
            "-nostdin",
            "-loglevel",
            "error",
            "-y",
            "-f",
            "lavfi",
            "-i",
            "testsrc=size=320x180:rate=30:duration=0.5",
        ])
        .arg(&scratch.0)
        .status()
        .expect("the program ffmpeg; apt install ffmpeg");
    assert!(made.success());
    let Ok(OpenedSource::SelfPaced(mut source)) = open(&SourceKind::Video(scratch.0.clone()), &options()) else {
        panic!("a film paces itself")
    };
    #[expect(clippy::disallowed_methods, reason = "a test is short, and so is its queue")]
    let (album, pictures) = channel();
    source.start(Arc::new(Album(album))).expect("a thread");
    assert!(pictures.recv_timeout(Duration::from_millis(100)).is_err(), "nobody watches");
    source.set_watched(true);
    // Far beyond the file's end, pictures still arrive, each later than the previous one and different from it.
    let mut before: Option<(Time, Vec<u8>)> = None;
    for _ in 0..40 {
        let picture = pictures.recv_timeout(Duration::from_secs(10)).expect("a picture");
        assert_eq!(picture.1.len(), 320 * 180 * 4);
        if let Some(before) = before {
            assert!(picture.0 > before.0 && picture.1 != before.1);
        }
        before = Some(picture);
    }
}

#[test]
fn files_that_are_no_pictures_are_refused_in_words() {
    let scratch = Scratch::new("garbage.mp4", b"this is not a video");
    // A WAV file of 400 silent samples.
    let header = [
        b"RIFF\x44\x03\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0".as_slice(),
        b"data\x20\x03\0\0",
    ]
    .concat();
    let sound = Scratch::new("sound.wav", &[header, vec![0; 800]].concat());
    let cases = [
        (SourceKind::Video(scratch.0.clone()), "no video file"),
        (SourceKind::Video(sound.0.clone()), "no picture in it, only sound"),
        (SourceKind::Video("/nonexistent/film.mkv".into()), "No such file"),
        (SourceKind::World { scene: Some(scratch.0.clone()) }, "neither binary glTF"),
        (SourceKind::World { scene: Some("/nonexistent/scene.glb".into()) }, "No such file"),
    ];
    for (kind, expected) in cases {
        let error = open(&kind, &options()).map(|_| ()).expect_err("refused").to_string();
        assert!(error.starts_with("cannot load") && error.contains(expected), "{error}");
    }
}
