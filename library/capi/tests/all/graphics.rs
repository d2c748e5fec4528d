//! A C program that draws by OpenGL submits textures, frame buffers, pixel buffers, shared memory and planes, and a viewer sees each. Needs
//! EGL and a driver, which `scripts/setup.sh` installs (Mesa's software renderer).

use crate::common;
use std::io::Read;
use std::time::Duration;

use common::{Folder, build_with, root, start};
use nearlight_viewer::{Options, Viewer};

#[test]
fn each_way_from_graphics_memory_is_seen() {
    let folder = Folder::new("graphics");
    let program = folder.0.join("graphics");
    build_with(&root().join("library/capi/tests/graphics.c"), &program, &["-lEGL", "-lGL"]);
    // Mesa's libraries do not free all of their memory.
    let (mut running, mut output, link) = start(&program, &[("ASAN_OPTIONS", "detect_leaks=0")]);
    let viewer = Viewer::connect(&link.to_string(), &Options::default()).expect("a session");
    let mut pixels = Vec::new();
    for (name, colour) in [
        ("red", [255, 0, 0]),
        ("green", [0, 255, 0]),
        ("blue", [0, 0, 255]),
        ("yellow", [255, 255, 0]),
        ("white", [255, 255, 255]),
        ("black", [0, 0, 0]),
        ("magenta", [255, 0, 255]),
    ] {
        let mut seen = Vec::new();
        let is_seen = (0..300).any(|_| {
            let Some(picture) = viewer.wait_picture(Duration::from_millis(200)) else { return false };
            picture.to_rgba(&mut pixels).expect("pixels");
            seen = pixels[pixels.len() / 2..][..3].to_vec();
            seen.iter().zip(colour).all(|(seen, colour): (&u8, u8)| seen.abs_diff(colour) < 40)
        });
        if !is_seen {
            // The program's output explains the failure.
            break;
        }
        viewer.send_message(name.as_bytes(), true).expect("a message");
    }
    let mut words = String::new();
    output.read_to_string(&mut words).expect("text");
    assert!(running.0.wait().expect("an end").success(), "{words}");
    assert!(words.is_empty(), "{words}");
}
