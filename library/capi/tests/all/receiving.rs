//! A C program that is linked with the shared library watches, hears and steers a host in this process.

use crate::common;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use common::{Folder, Running, Xvfb, build, build_with, root};
use nearlight_embed::{
    EventKind, Host, Image, InputEvent, Layout, Options, Picture, PixelOrder, Plane, Portion, Rows, Samples, Size,
};
use nearlight_units::lock;

const SIZE: Size = Size { width: 320, height: 192 };

/// Submits a picture, each brighter than the one before.
fn submit(host: &Host, number: u32) {
    let bytes = vec![(number * 8).min(250) as u8; SIZE.pixels() * 4];
    let layout = Layout::Packed(PixelOrder::Rgba, Plane { bytes: &bytes, stride: 1_280 });
    host.submit(&Picture::new(Image { size: SIZE, layout, rows: Rows::TopDown })).expect("a picture");
}

/// Ensures that each test runs alone: on two processors, three of them at once delay devices and hosts too much.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    lock(&ALONE)
}

#[test]
fn a_c_program_watches_hears_and_steers() {
    let _alone = alone();
    let folder = Folder::new("receiving");
    let program = folder.0.join("viewer");
    build(&root().join("library/capi/tests/viewer.c"), &program);
    let address = Some([127, 0, 0, 1].into());
    let options = Options { address, width: 320, height: 192, fps: 30, sound: true, ..Options::default() };
    let host = Host::open(&options).expect("a server");
    let mut command = Command::new(&program);
    command.arg(host.links()[0].to_string()).env("LD_LIBRARY_PATH", &folder.0).stdout(Stdio::piped());
    let mut running = Running(command.spawn().expect("the program starts"));
    let tone: Vec<f32> = (0..1_600).map(|frame| (frame as f32 * 0.06).sin()).collect();
    let (mut keys, mut done, mut pointer) = (0, false, None);
    for number in 0..3_000 {
        submit(&host, number);
        host.submit_sound(&Portion { samples: Samples::Float(&tone), channels: 1, rate: 48_000 }).expect("sound");
        while let Some(event) = host.poll_event() {
            match event.kind {
                EventKind::Input(InputEvent::Key { key, .. }) => keys += u32::from(key.0 == 0x7002c),
                EventKind::Message(message) if message.data == b"done" => done = true,
                EventKind::Message(_) => host.send(event.viewer, b"hello", true).expect("an answer"),
                _ => {}
            }
        }
        pointer = host.driver().and_then(|state| state.devices.pointer).or(pointer);
        if running.0.try_wait().expect("a child").is_some() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(33));
    }
    let mut output = String::new();
    running.0.stdout.take().expect("piped").read_to_string(&mut output).expect("text");
    let status = running.0.wait().expect("an end");
    assert!(status.success() && !output.contains("FAULT"), "{output}");
    let seen = "SEEN pictures 1 connected 1 heard 1 loud 1 bright 1 connections 1 bytes 1 now 0";
    assert!(output.contains(seen), "{output}");
    assert!(keys >= 2 && done, "{keys} keys, {done}");
    let [x, y] = pointer.expect("a pointer").at.fractions();
    assert!((x - 0.25).abs() < 1e-3 && (y - 0.5).abs() < 1e-3, "{x} {y}");
}

/// Returns the bytes of a Linux `struct input_event` with an empty time.
fn event(kind: u16, code: u16, value: i32) -> Vec<u8> {
    let mut bytes = vec![0; 2 * size_of::<usize>()];
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&code.to_ne_bytes());
    bytes.extend_from_slice(&value.to_ne_bytes());
    bytes
}

/// Creates pipes for a device's mouse and keyboard.
fn pipes(folder: &Folder) -> [PathBuf; 2] {
    let pipes = ["mouse", "keyboard"].map(|name| folder.0.join(name));
    assert!(Command::new("mkfifo").args(&pipes).status().expect("mkfifo, of coreutils").success());
    pipes
}

/// Opens the pipes in the device's order, because each waits for the other end.
fn opened(pipes: [PathBuf; 2]) -> [File; 2] {
    pipes.map(|pipe| File::options().write(true).open(pipe).expect("the other end"))
}

/// Runs the device of OpenUVR's figure 9, with pipes for its mouse and keyboard.
#[test]
fn openuvr_s_device_shows_pictures_and_sends_what_its_devices_do() {
    let _alone = alone();
    let folder = Folder::new("openuvr");
    let program = folder.0.join("device");
    build(&root().join("library/examples/openuvr_device.c"), &program);
    let pipes = pipes(&folder);
    let address = Some([127, 0, 0, 1].into());
    let host =
        Host::open(&Options { address, width: 320, height: 192, fps: 30, ..Options::default() }).expect("a server");
    let picture = folder.0.join("last.ppm");
    let mut command = Command::new(&program);
    command.arg(host.links()[0].to_string()).arg("4").arg(&picture).args(&pipes);
    let mut running =
        Running(command.env("LD_LIBRARY_PATH", &folder.0).stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut devices = opened(pipes);
    let (mut keys, mut moved, mut pressed) = (Vec::new(), [0; 2], 0);
    for number in 0..600 {
        submit(&host, number);
        if number % 10 == 5 {
            // Right by 7, up by 3, the left button; and W.
            let value = i32::from(number % 20 == 5);
            let mouse = [event(2, 0, 7), event(2, 1, -3), event(1, 0x110, value), event(0, 0, 0)].concat();
            let keyboard = [event(1, 17, value), event(0, 0, 0)].concat();
            // The device may have ended.
            let _ = devices[0].write_all(&mouse);
            let _ = devices[1].write_all(&keyboard);
        }
        while let Some(event) = host.poll_event() {
            match event.kind {
                EventKind::Input(InputEvent::Key { key, pressed }) => keys.push((key.0, pressed)),
                EventKind::Input(InputEvent::Button { .. }) => pressed += 1,
                _ => {}
            }
        }
        moved = host.driver().and_then(|state| state.devices.pointer).map_or(moved, |pointer| pointer.moved);
        if running.0.try_wait().expect("a child").is_some() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    assert!(running.0.wait().expect("an end").success());
    assert!(keys.contains(&(0x7001a, true)) && keys.contains(&(0x7001a, false)), "{keys:?}");
    assert!(pressed > 0 && moved[0] > 0 && moved[0] % 7 == 0 && moved[1] == -moved[0] / 7 * 3, "{pressed} {moved:?}");
    let picture = std::fs::read(&picture).expect("a picture");
    let head = b"P6 320 192 255\n";
    assert!(picture.starts_with(head) && picture.len() == head.len() + SIZE.pixels() * 3, "{} bytes", picture.len());
}

/// Both programs of OpenUVR's figure 9: the host draws by OpenGL into a window, the device steers it and shows what it draws.
#[test]
fn openuvr_s_host_and_device_work_together() {
    let _alone = alone();
    let folder = Folder::new("openuvr-pair");
    let [host, device] = ["host", "device"].map(|name| folder.0.join(name));
    build_with(&root().join("library/examples/openuvr_host.c"), &host, &["-lSDL2", "-lGL"]);
    build(&root().join("library/examples/openuvr_device.c"), &device);
    let screen = Xvfb::start("1280x720x24");
    let mut command = Command::new(host);
    command.env("LD_LIBRARY_PATH", &folder.0).env("DISPLAY", &screen.display).stdout(Stdio::piped());
    // Mesa's and X11's libraries keep some memory until the end.
    let mut host = Running(command.env("ASAN_OPTIONS", "detect_leaks=0").spawn().expect("the host starts"));
    let mut link = String::new();
    BufReader::new(host.0.stdout.take().expect("piped")).read_line(&mut link).expect("text");

    let (pipes, picture) = (pipes(&folder), folder.0.join("last.ppm"));
    let mut command = Command::new(device);
    command.arg(link.trim()).arg("8").arg(&picture).args(&pipes).env("LD_LIBRARY_PATH", &folder.0);
    let mut device = Running(command.stdout(Stdio::piped()).spawn().expect("the device starts"));
    let [mut mouse, mut keyboard] = opened(pipes);
    let mut counts = BufReader::new(device.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(counts.any(|line| !line.starts_with("0 ")), "a picture comes");
    // Right by 240, up by 120. The left button and W stay pressed.
    let end = event(0, 0, 0);
    mouse.write_all(&[event(2, 0, 240), event(2, 1, -120), event(1, 0x110, 1), end.clone()].concat()).expect("a mouse");
    keyboard.write_all(&[event(1, 17, 1), end].concat()).expect("a keyboard");
    let _ = counts.count();
    assert!(device.0.wait().expect("an end").success());
    assert!(Command::new("kill").arg(host.0.id().to_string()).status().expect("kill").success());
    assert!(host.0.wait().expect("an end").success(), "it closes its window");

    let picture = std::fs::read(&picture).expect("a picture");
    let head = b"P6 1280 720 255\n";
    assert!(picture.starts_with(head));
    let pixel = |x: usize, y: usize| &picture[head.len() + (y * 1_280 + x) * 3..][..3];
    // The square has gone there and is red.
    let square = pixel(880, 240);
    assert!(square[0] > 200 && square[1] < 60 && square[2] < 60, "{square:?}");
    // The horizon has gone up: grass where there was sky.
    let grass = (0..1_280).filter(|x| pixel(*x, 420)[1] > pixel(*x, 420)[2] + 30).count();
    assert!(grass > 900, "{grass} columns");
}
