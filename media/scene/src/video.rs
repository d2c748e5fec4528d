//! A video file as a source that paces itself, decoded by the `ffmpeg` program and looped for ever.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use nearlight_units::Time;

use crate::canvas::{Canvas, check_size};
use crate::push::{FrameTimer, Watch};
use crate::{Application, Damage, PictureSink, PushSource, SceneError, SubmittedPicture, Viewer, ViewerInput};

/// Decoded pictures that wait for their display time: enough to hide a slow one. Guess.
const QUEUED_PICTURES: usize = 3;
/// Longest time that the first picture may take, including a network mount and a long seek.
const FIRST_PICTURE_LIMIT: Duration = Duration::from_secs(10);
/// Characters of ffmpeg's error output that an error quotes.
const MAX_ERROR_CHARS: usize = 400;

/// A decoder whose pictures all viewers share. Every picture is read from the pipe once and borrowed from there.
pub struct VideoSource {
    file: PathBuf,
    size: (u16, u16),
    fps: u16,
    child: Child,
    /// The decoded pictures; none once the video plays.
    film: Option<DecodedPictures>,
    watch: Option<Watch>,
}

/// Decoded pictures in order, and the channel on which their memory is returned.
struct DecodedPictures {
    ready: Receiver<Canvas>,
    spent: SyncSender<Canvas>,
    first: Canvas,
}

impl VideoSource {
    /// Starts decoding `file` to `width` x `height` at `fps` and waits for the first picture.
    pub fn open(file: &Path, (width, height): (u16, u16), fps: u16) -> Result<Self, SceneError> {
        check_size(width, height)?;
        let failed = |reason: String| SceneError::File { file: file.display().to_string(), reason };
        if let Err(error) = std::fs::File::open(file) {
            return Err(failed(error.to_string()));
        }
        let mut child = start(file, (width, height), fps).map_err(|error| match error.kind() {
            ErrorKind::NotFound => failed(
                "the program `ffmpeg`, which decodes video files, is missing (Debian: apt install ffmpeg)".into(),
            ),
            _ => failed(format!("ffmpeg does not start: {error}")),
        })?;
        let pipe = child.stdout.take().ok_or_else(|| failed("ffmpeg has no output".into()))?;
        let (ready_to, ready) = sync_channel(QUEUED_PICTURES);
        let (spent, spent_from) = sync_channel(QUEUED_PICTURES + 2);
        for _ in 0..QUEUED_PICTURES {
            // The channel has space for all of them.
            let _ = spent.try_send(Canvas::new(width, height));
        }
        std::thread::spawn(move || pump(pipe, &ready_to, &spent_from));
        match ready.recv_timeout(FIRST_PICTURE_LIMIT) {
            Ok(first) => {
                let (file, size) = (file.to_path_buf(), (width, height));
                if let Some(mut stderr) = child.stderr.take() {
                    // The pipe must be read, or the decoder would block when it is full.
                    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
                }
                let film = Some(DecodedPictures { ready, spent, first });
                Ok(Self { file, size, fps, child, film, watch: None })
            }
            Err(error) => {
                // The process has either ended already or is no longer needed.
                let _ = child.kill();
                let words = read_errors(&mut child);
                let _ = child.wait();
                Err(failed(match (error, words.is_empty()) {
                    (RecvTimeoutError::Timeout, true) => "ffmpeg decodes nothing within ten seconds".into(),
                    (RecvTimeoutError::Disconnected, true) => "ffmpeg finds no picture in it".into(),
                    (_, false) => explain_error(&words),
                }))
            }
        }
    }
}

fn start(file: &Path, (width, height): (u16, u16), fps: u16) -> std::io::Result<Child> {
    let fit = format!(
        "scale={width}:{height}:force_original_aspect_ratio=decrease,pad={width}:{height}:-1:-1,fps={fps},format=rgba"
    );
    // A relative name that starts with a dash must not be read as an option.
    let input = if file.is_absolute() { file.to_path_buf() } else { Path::new(".").join(file) };
    Command::new("ffmpeg")
        .args(["-nostdin", "-hide_banner", "-loglevel", "error", "-stream_loop", "-1", "-i"])
        .arg(input)
        .args(["-map", "0:v:0", "-vf", &fit, "-f", "rawvideo", "-"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Fills returned pictures from the pipe until either end is gone.
fn pump(mut pipe: ChildStdout, ready: &SyncSender<Canvas>, spent: &Receiver<Canvas>) {
    while let Ok(mut canvas) = spent.recv() {
        if pipe.read_exact(&mut canvas.bytes).is_err() || ready.send(canvas).is_err() {
            return;
        }
    }
}

fn read_errors(child: &mut Child) -> String {
    let mut words = String::new();
    if let Some(stderr) = child.stderr.take() {
        // Partial output is better than none.
        let _ = stderr.take(64 * 1024).read_to_string(&mut words);
    }
    words.trim().chars().take(MAX_ERROR_CHARS).collect()
}

/// Explains ffmpeg's errors for the two most common mistakes. Other errors are quoted.
fn explain_error(words: &str) -> String {
    if words.contains("matches no streams") {
        "there is no picture in it, only sound or text: give a file with video".into()
    } else if words.contains("Invalid data found") {
        "it is no video file, or a damaged one: ffmpeg cannot read it".into()
    } else {
        format!("ffmpeg says: {words}")
    }
}

impl DecodedPictures {
    /// Submits each picture when it is due. A picture that equals the previous one, as in a video with fewer pictures per second, is not
    /// submitted.
    fn play(self, mut timer: FrameTimer, sink: &dyn PictureSink) {
        let Self { ready, spent, first } = self;
        let (mut next, mut shown) = (Some(first), None::<Canvas>);
        while let Some(captured_at) = timer.wait(&|| sink.now()) {
            let Some(picture) = next.take().or_else(|| ready.recv().ok()) else {
                let reason = "its decoder, ffmpeg, has ended; start the server again".into();
                return sink.on_failed(SceneError::File { file: "the film".into(), reason });
            };
            if shown.as_ref() == Some(&picture) {
                let _ = spent.try_send(picture);
                continue;
            }
            let pixels = picture.pixels();
            sink.submit(&SubmittedPicture { pixels, captured_at, damage: Damage::All, views: &[] });
            if let Some(old) = shown.replace(picture) {
                let _ = spent.try_send(old);
            }
        }
    }
}

impl Application for VideoSource {
    fn describe(&self) -> String {
        let name = self.file.file_name().unwrap_or(self.file.as_os_str());
        let (width, height) = self.size;
        format!("video {} ({width}x{height}, ffmpeg)", name.display())
    }

    fn on_input(&mut self, _now: Time, _viewer: Viewer, _input: &ViewerInput) {}

    fn on_viewer_left(&mut self, _viewer: Viewer) {}
}

impl PushSource for VideoSource {
    fn start(&mut self, sink: Arc<dyn PictureSink>) -> std::io::Result<()> {
        let Some(film) = self.film.take() else { return Ok(()) };
        let (watch, timer) = FrameTimer::new(self.fps);
        std::thread::Builder::new().name("film".into()).spawn(move || film.play(timer, sink.as_ref()))?;
        self.watch = Some(watch);
        Ok(())
    }

    fn set_watched(&mut self, watched: bool) {
        if let Some(watch) = &self.watch {
            watch.set(watched);
        }
    }
}

impl Drop for VideoSource {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
