//! The window on a virtual X display, whose pixels are read back.
//!
//! Winit allows one event loop per process and takes the display from the environment, so the window runs in a child of the test.

#![cfg(target_os = "linux")]

use crate::server;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nearlight_client::{ViewOptions, WindowOptions, window};
use nearlight_units::Span;
use nearlight_wire::marker::{Marker, Strip};
use server::{Behaviour, SIZE, Server};

const CHILD: &str = "NEARLIGHT_TEST_WINDOW";

#[test]
fn a_window_shows_the_stream() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return watch_in_a_window(Path::new(&folder));
    }
    let screen = VirtualScreen::start();
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "window::a_window_shows_the_stream", "--nocapture"])
        .env(CHILD, &screen.folder)
        .env("DISPLAY", &screen.display)
        .env_remove("WAYLAND_DISPLAY")
        .spawn()
        .expect("this program runs again");
    let mut markers = Vec::new();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        markers.extend(screen.marker().filter(|marker| markers.last() != Some(marker)));
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    };
    assert!(status.success(), "the window's own checks failed");
    assert!(markers.len() >= 5, "the screen showed {markers:?}");
    assert!(markers.iter().any(|marker| marker.input.0 > 0), "no input reached the screen's pixels: {markers:?}");
    let picture = image::open(screen.folder.join("last.png")).expect("the last picture").to_rgba8();
    assert_eq!(picture.dimensions(), (SIZE.width.into(), SIZE.height.into()));
}

fn watch_in_a_window(folder: &Path) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = {
        let _inside = runtime.enter();
        Server::start(Behaviour::default())
    };
    let mut view = ViewOptions { length: Some(Span::from_secs(4)), ..ViewOptions::new(server.link.clone()) };
    // A software renderer compiles its shaders first.
    view.first_picture = Span::from_secs(60);
    view.record.screenshot = Some(folder.join("last.png"));
    // One screen pixel per picture pixel, so that the marker that the picture shows can be read.
    let size = (SIZE.width.into(), SIZE.height.into());
    let summary = window::run(WindowOptions { size, ..WindowOptions::new(view) }).expect("a run");
    assert!(summary.frames.displayed > 20, "{:?}", summary.frames);
    assert_eq!((summary.stage_sum_error_us_max, summary.unreadable_markers), (0, 0));
    assert_eq!(server.sessions(), 1);
    assert!(summary.motion_to_photon_ms.n > 20, "{:?}", summary.motion_to_photon_ms);
}

/// An X server without a display, which keeps its picture in a file.
struct VirtualScreen {
    process: Child,
    display: String,
    folder: PathBuf,
}

impl VirtualScreen {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("nearlight-window-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        let mut process = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp", "-fbdir"])
            .arg(&folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb, which the package `xvfb` installs");
        let mut number = String::new();
        let output = process.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut number).expect("the display's number");
        Self { process, display: format!(":{}", number.trim()), folder }
    }

    /// Returns the marker in the screen's top left corner, or `None` while the corner shows something else or is partly drawn.
    fn marker(&self) -> Option<Marker> {
        // The X window dump format (XWDFile.h): big-endian 32-bit fields, a colour table, then the pixels.
        let bytes = std::fs::read(self.folder.join("Xvfb_screen0")).ok()?;
        let field = |index: usize| {
            let bytes = bytes.get(index * 4..index * 4 + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize)
        };
        let (header, bits, line, colours) = (field(0)?, field(11)?, field(12)?, field(19)?);
        let start = header + colours * 12;
        let strip = Strip::of_width(SIZE.width)?;
        if bits != 32 || bytes.len() < start + line * usize::from(strip.height()) {
            return None;
        }
        // One of the three colours is enough to distinguish black and white.
        Marker::read(strip, |x, y| bytes[start + y * line + x * 4 + 1])
    }
}

impl Drop for VirtualScreen {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
